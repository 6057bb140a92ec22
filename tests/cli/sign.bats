#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# sign and trust: what is made is read with jq, base64 and openssl alone, as any other program would read it.
# shellcheck disable=SC2030,SC2031,SC2154 # each test is a process of its own; helper.bash sets stderr
load helper

setup() {
  ROOT=
  dir=$BATS_TEST_TMPDIR
  layout=$dir/layout blobs=$dir/layout/blobs/sha256
  mkdir -p "$blobs"
  printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
  config=$(blob '{}')
  manifest=$(blob "$(package 535.261.03)") other=$(blob "$(package 550.54.14)")
  index "$manifest" 535-tag "$other" 550-tag
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$dir/release.key" 2>/dev/null
  openssl pkey -in "$dir/release.key" -pubout -out "$dir/release.pem"
  id=$(openssl pkey -in "$dir/release.key" -pubout -outform DER | sha256sum | cut -c1-64)
}
blob() { # TEXT: a blob of the layout; its digest
  local hex
  hex=$(printf %s "$1" | sha256sum | cut -c1-64)
  printf %s "$1" >"$blobs/$hex"
  echo "$hex"
}
package() { # VERSION: a manifest that is a package as far as signing is concerned
  jq -cn --arg config "sha256:$config" --arg version "$1" '{schemaVersion: 2,
    mediaType: "application/vnd.oci.image.manifest.v1+json",
    artifactType: "application/vnd.kmodsmith.kmod.package.v1",
    config: {mediaType: "application/vnd.oci.empty.v1+json", digest: $config, size: 2},
    layers: [], annotations: {"org.opencontainers.image.version": $version}}'
}
index() { # DIGEST TAG...
  local entries=()
  while [ $# -gt 0 ]; do
    entries+=("$(jq -cn --arg digest "$1" --arg tag "$2" --argjson size "$(stat -c %s "$blobs/$1")" '{
      mediaType: "application/vnd.oci.image.manifest.v1+json", digest: ("sha256:" + $digest), size: $size,
      annotations: {"org.opencontainers.image.ref.name": $tag}}')")
    shift 2
  done
  printf '%s\n' "${entries[@]}" | jq -cs '{schemaVersion: 2, manifests: .}' >"$layout/index.json"
}
tagged() { # TAG: the file of the blob under it
  local digest
  digest=$(jq -r --arg tag "$1" '.manifests[] | select(.annotations."org.opencontainers.image.ref.name" == $tag) |
    .digest' "$layout/index.json")
  [ -n "$digest" ] || fail "nothing is tagged $1"
  echo "$blobs/${digest#sha256:}"
}
hex_of() { # FILTER FILE: the digest that the filter finds
  jq -r "$1" "$2" | sed s/^sha256://
}

@test "openssl verifies the older encoding over the payload blob" {
  kmodsmith sign "$layout" --key "$dir/release.key" --identity registry.example/drivers
  assert_status 0
  assert_output --partial "by ecdsa-p256 key $id"
  local signatures payload
  signatures=$(tagged "sha256-$manifest.sig")
  payload=$blobs/$(hex_of '.layers[0].digest' "$signatures")
  jq -r '.layers[0].annotations."dev.cosignproject.cosign/signature"' "$signatures" | base64 -d >"$dir/signature"
  run openssl dgst -sha256 -verify "$dir/release.pem" -signature "$dir/signature" "$payload"
  assert_output "Verified OK"
  printf x >>"$dir/altered"
  cat "$payload" >>"$dir/altered"
  run openssl dgst -sha256 -verify "$dir/release.pem" -signature "$dir/signature" "$dir/altered"
  assert_failure
  [ "$(jq -r '.critical.image."docker-manifest-digest"' "$payload")" = "sha256:$manifest" ]
  [ "$(jq -r '.critical.identity."docker-reference"' "$payload")" = registry.example/drivers ]
  [ "$(jq -r '.config.mediaType' "$signatures")" = application/vnd.oci.image.config.v1+json ]
  run hex_of '.rootfs.diff_ids[0]' "$blobs/$(hex_of '.config.digest' "$signatures")"
  assert_output "$(sha256sum <"$payload" | cut -c1-64)"
}

@test "openssl verifies the newer encoding over the envelope" {
  kmodsmith sign "$layout" --key "$dir/release.key"
  assert_status 0
  local referrer bundle payload
  referrer=$blobs/$(hex_of '.manifests[0].digest' "$(tagged "sha256-$manifest")")
  [ "$(hex_of '.subject.digest' "$referrer")" = "$manifest" ]
  [ "$(jq -r '.artifactType' "$referrer")" = application/vnd.dev.sigstore.bundle.v0.3+json ]
  bundle=$blobs/$(hex_of '.layers[0].digest' "$referrer")
  payload=$(jq -r '.dsseEnvelope.payload' "$bundle" | base64 -d)
  [ "$(jq -r '.subject[0].digest.sha256' <<<"$payload")" = "$manifest" ]
  [ "$(jq -r '.verificationMaterial.publicKey.hint' "$bundle" | base64 -d | od -An -v -tx1 | tr -d ' \n')" = "$id" ]
  jq -r '.dsseEnvelope.signatures[0].sig' "$bundle" | base64 -d >"$dir/signature"
  printf 'DSSEv1 28 application/vnd.in-toto+json %d %s' ${#payload} "$payload" >"$dir/signed"
  run openssl dgst -sha256 -verify "$dir/release.pem" -signature "$dir/signature" "$dir/signed"
  assert_output "Verified OK"
}

@test "RSA and Ed25519 keys, and one with a passphrase" {
  openssl genpkey -algorithm ed25519 -out "$dir/ed.key"
  openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -aes256 -pass pass:secret -out "$dir/rsa.key" 2>/dev/null
  kmodsmith sign "$layout" --key "$dir/rsa.key"
  assert_error E_KEY "it is encrypted"
  KMODSMITH_KEY_PASSWORD=secret kmodsmith sign "$layout" --key "$dir/rsa.key,$dir/ed.key" --json
  assert_status 0
  assert_json '[.keys[].algorithm] | join(" ")' "rsa-2048 ed25519"
  [ "$(jq '.layers | length' "$(tagged "sha256-$manifest.sig")")" -eq 2 ]
  [ "$(jq '.manifests | length' "$(tagged "sha256-$manifest")")" -eq 2 ]
}

@test "signing twice changes nothing, and one package can be chosen" {
  kmodsmith sign "$layout" --key "$dir/release.key" --package 535-tag --json
  assert_status 0
  assert_json '.packages | length' 1
  assert_json '.packages[0].changed' true
  assert_json '.packages[0].digest' "sha256:$manifest"
  run grep -c "sha256-$other" "$layout/index.json"
  assert_output 0
  local before
  before=$(find "$layout" -type f -print0 | sort -z | xargs -0 sha256sum)
  kmodsmith sign "$layout" --key "$dir/release.key" --package "sha256:$manifest" --json
  assert_status 0
  assert_json '.packages[0].changed' false
  [ "$before" = "$(find "$layout" -type f -print0 | sort -z | xargs -0 sha256sum)" ]
}

@test "a catalogue lists the packages, and its number grows" {
  kmodsmith sign "oci:$layout" --key "$dir/release.key" --catalog --expires 7 --json
  assert_status 0
  assert_json .catalog.catalog 1
  assert_json '.catalog.packages | length' 2
  assert_json '(.catalog.expires | fromdate) - (.catalog.created | fromdate)' 604800
  local list catalog
  catalog=$(tagged kmodsmith-catalog)
  list=$blobs/$(hex_of '.layers[0].digest' "$catalog")
  [ "$(hex_of '.packages[] | select(.tag == "550-tag") | .digest' "$list")" = "$other" ]
  tagged "sha256-$(basename "$catalog").sig"
  kmodsmith sign "$layout" --key "$dir/release.key" --catalog
  assert_status 0
  assert_line "catalogue 2 lists 2 packages"
  run ! grep -q "$(basename "$catalog")" "$layout/index.json"
}

@test "a key in a token, by its URI" {
  command -v softhsm2-util >/dev/null || skip "softhsm2 is not installed"
  export ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 # the engine's library leaks its own tables
  export SOFTHSM2_CONF=$dir/softhsm2.conf PKCS11_MODULE_PATH=/usr/lib/softhsm/libsofthsm2.so
  [ -e "$PKCS11_MODULE_PATH" ] || skip "softhsm2 has its library elsewhere"
  mkdir "$dir/tokens"
  echo "directories.tokendir = $dir/tokens" >"$SOFTHSM2_CONF"
  softhsm2-util --init-token --free --label site --pin 4321 --so-pin 87654321 >/dev/null
  softhsm2-util --import "$dir/release.key" --token site --label release --id 01 --pin 4321 >/dev/null
  KMODSMITH_KEY_PASSWORD=4321 kmodsmith sign "$layout" --key "pkcs11:token=site;object=release;type=private"
  assert_status 0
  assert_output --partial "by ecdsa-p256 key $id"
  [ "$stderr" = "" ]
  KMODSMITH_KEY_PASSWORD=9999 kmodsmith sign "$layout" --key "pkcs11:token=site;object=absent;type=private"
  assert_error E_KEY "object=absent"
}

@test "what cannot be signed, and keys that cannot sign" {
  kmodsmith sign "$layout"
  assert_status 2
  assert_error E_USAGE "sign needs --key"
  kmodsmith sign "$layout" --key "$dir/release.pem"
  assert_error E_KEY "is not a PEM private key"
  kmodsmith sign "$layout" --key "$dir/absent.key"
  assert_error E_KEY "absent.key"
  kmodsmith sign "$dir" --key "$dir/release.key"
  assert_error E_NOT_FOUND "is not an OCI layout"
  kmodsmith sign "$layout" --key "$dir/release.key" --package absent
  assert_error E_NOT_FOUND "has no 'absent'"
  kmodsmith sign "$layout" --key "$dir/release.key" --expires 7
  assert_error E_USAGE "--expires requires --catalog"
  kmodsmith sign "$layout" --key "$dir/release.key" --identity 'a b'
  assert_error E_USAGE "'a b' is not HOST/NAME"
  kmodsmith sign "oci-archive:$dir/x.tar" --key "$dir/release.key"
  assert_error E_USAGE "is a bundle"
  printf x >>"$blobs/$manifest"
  kmodsmith sign "$layout" --key "$dir/release.key"
  assert_error E_DIGEST "$manifest"
}

@test "trust: add, ls, remove" {
  ROOT=$dir/machine
  mkdir -p "$ROOT/proc" "$ROOT/sys" "$ROOT/dev"
  kmodsmith "trust ls"
  assert_status 0
  assert_output --partial "no trusted keys"
  kmodsmith "trust add" "$dir/release.pem" --name release --for docker://registry.example/drivers --json
  assert_status 0
  assert_json .id "$id"
  assert_json .changed true
  cmp "$dir/release.pem" "$ROOT/etc/kmodsmith/trust/release.pem"
  kmodsmith "trust add" "$dir/release.pem" --name release --for docker://registry.example/drivers
  assert_status 0
  assert_output --partial "was trusted: $id"
  kmodsmith "trust ls" --json
  assert_json '.keys[0].name' release
  assert_json '.keys[0].for[0]' docker://registry.example/drivers
  assert_json '.sources[0].unsigned' refuse
  kmodsmith "trust ls"
  assert_output --partial "$id"
  assert_output --partial docker://registry.example/drivers
  kmodsmith "trust add" "$dir/release.key"
  assert_error E_KEY "it holds a private key"
  kmodsmith "trust remove" "$id"
  assert_status 0
  kmodsmith "trust remove" release
  assert_error E_NOT_FOUND "no key has the name or id 'release'"
  echo '{"sources":[{"prefix":"x","limit":2}]}' >"$ROOT/etc/kmodsmith/trust/policy.json"
  kmodsmith "trust ls"
  assert_status 2
  assert_error E_CONFIG "unknown key 'limit'"
}
