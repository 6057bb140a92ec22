#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Signatures over the network: what we sign, openssl alone verifies; registries, web servers and skopeo carry it; who is
# not trusted, what was altered, and what a mirror brings back from the past is refused.
# shellcheck disable=SC2030,SC2031,SC2154 # bats runs each test in a subshell, sets status, output and stderr
load helper

setup_file() {
  signed=$BATS_FILE_TMPDIR/signed unsigned=$BATS_FILE_TMPDIR/unsigned keys=$BATS_FILE_TMPDIR/keys
  digest=$(make_layout "$unsigned" --pad 1000000)
  cp -a "$unsigned" "$signed"
  mkdir "$keys"
  for name in ours theirs; do
    openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$keys/$name.key" 2>/dev/null
    openssl pkey -in "$keys/$name.key" -pubout -out "$keys/$name.pem"
    "$KMODSMITH" trust add "$keys/$name.pem" --trust-dir "$BATS_FILE_TMPDIR/trust-$name"
  done
  "$KMODSMITH" sign "oci:$signed" --key "$keys/ours.key"
  export signed unsigned keys digest trust=$BATS_FILE_TMPDIR/trust-ours
  registry_start plain
  nginx_start plain "$signed"
}
teardown_file() { servers_stop; }
setup() {
  fresh
  cd "$BATS_TEST_TMPDIR" || return
}
believe() { # FROM [OPTION...]: a fetch that checks signatures
  kmodsmith fetch --driver "$DRIVER" --flavour open --kernel "$KERNEL" --from "$1" --state-dir "$state" \
    --trust-dir "$trust" --connect-timeout 10 --stall-timeout 10 "${@:2}"
}
push() { # FROM NAME
  kmodsmith push "$1" "docker+http://$HUB_PLAIN/$2"
  assert_status 0
}
manifest() { # NAME REFERENCE: of the registry
  curl -sSf -H "Accept: application/vnd.oci.image.manifest.v1+json" -H "Accept: application/vnd.oci.image.index.v1+json" \
    "http://$HUB_PLAIN/v2/$1/manifests/$2"
}

@test "signed and trusted: from layout, web server, registry; the signatures come along" {
  local from
  push "oci:$signed" good
  for from in "oci:$signed" "$NGINX_PLAIN" "docker+http://$HUB_PLAIN/good"; do
    fresh
    believe "$from"
    assert_fetched "$digest"
    trust=$trust believe "oci:$state/store" --output oci:again
    assert_status 0
    rm -r again
  done
}
@test "not signed is E_UNSIGNED, from everywhere; skipping the check is possible and loud" {
  push "oci:$unsigned" bare
  local from
  for from in "oci:$unsigned" "docker+http://$HUB_PLAIN/bare"; do
    fresh
    believe "$from"
    assert_refused E_UNSIGNED
  done
  believe "oci:$unsigned" --insecure-skip-verify
  assert_fetched "$digest"
  assert_regex "$stderr" "(not verified|insecure)"
}
@test "signed by somebody else is E_UNTRUSTED, and so is everything where nobody is trusted" {
  trust=$BATS_FILE_TMPDIR/trust-theirs believe "$NGINX_PLAIN"
  assert_refused E_UNTRUSTED
  mkdir nobody
  trust=$PWD/nobody believe "$NGINX_PLAIN"
  assert_refused E_UNTRUSTED
}
@test "a signature of another package does not count" {
  make_layout other --kernel 6.1.0-99-cloud-amd64 --tag "$TAG" >/dev/null
  local theirs ours=${digest#*:} own
  theirs=$(jq -r '.manifests[0].digest[7:]' other/index.json)
  cp -a "$signed" mixed
  own=$(make_layout mixed --label compiler=another)
  sed -i "s/sha256-$ours/sha256-${own#*:}/g" mixed/index.json
  believe oci:mixed
  assert_error E_FORGED
  assert_equal "$(blobs_of "$state/store")" ""
  [ "$theirs" != "$ours" ]
}

@test "what we sign, openssl alone verifies: the older encoding" {
  push "oci:$signed" openssl
  manifest openssl "sha256-${digest#*:}.sig" >sig.json
  jq -r '.layers[0].annotations["dev.cosignproject.cosign/signature"]' sig.json | base64 -d >signature
  curl -sSf "http://$HUB_PLAIN/v2/openssl/blobs/$(jq -r '.layers[0].digest' sig.json)" >payload
  run -0 openssl dgst -sha256 -verify "$keys/ours.pem" -signature signature payload
  run ! openssl dgst -sha256 -verify "$keys/theirs.pem" -signature signature payload
  assert_equal "$(jq -r '.critical.image["docker-manifest-digest"]' payload)" "$digest"
}
@test "what we sign, openssl alone verifies: the newer encoding, found through the fallback tag" {
  push "oci:$signed" openssl
  manifest openssl "sha256-${digest#*:}" >index.json
  local statement type=application/vnd.in-toto+json referrer
  referrer=$(jq -r '.manifests[0].digest' index.json)
  manifest openssl "$referrer" >referrer.json
  assert_equal "$(jq -r .subject.digest referrer.json)" "$digest"
  curl -sSf "http://$HUB_PLAIN/v2/openssl/blobs/$(jq -r '.layers[0].digest' referrer.json)" >bundle
  statement=$(jq -r .dsseEnvelope.payload bundle | base64 -d)
  printf 'DSSEv1 %d %s %d %s' ${#type} "$type" ${#statement} "$statement" >signed-bytes
  jq -r '.dsseEnvelope.signatures[0].sig' bundle | base64 -d >signature
  run -0 openssl dgst -sha256 -verify "$keys/ours.pem" -signature signature signed-bytes
  assert_equal "$(jq -r '.subject[0].digest.sha256' <<<"$statement")" "${digest#*:}"
}
@test "skopeo carries package and signature to another registry name, and both hold there" {
  push "oci:$signed" from
  local tag
  for tag in "$TAG" "sha256-${digest#*:}.sig"; do
    run -0 skopeo --insecure-policy copy -q --preserve-digests --src-tls-verify=false --dest-tls-verify=false \
      "docker://$HUB_PLAIN/from:$tag" "docker://$HUB_PLAIN/to:$tag"
  done
  believe "docker+http://$HUB_PLAIN/to"
  assert_fetched "$digest"
}

@test "a catalogue: an older one, once a newer was seen, is E_ROLLBACK; another mirror helps" {
  cp -a "$signed" site
  run -0 "$KMODSMITH" sign oci:site --key "$keys/ours.key" --catalog
  cp -a site old
  run -0 "$KMODSMITH" sign oci:site --key "$keys/ours.key" --catalog
  kmodsmith push oci:old "docker+http://$HUB_PLAIN/catalog"
  believe "docker+http://$HUB_PLAIN/catalog" --output oci:first
  assert_status 0
  kmodsmith push oci:site "docker+http://$HUB_PLAIN/catalog"
  believe "docker+http://$HUB_PLAIN/catalog" --output oci:second
  assert_status 0
  kmodsmith push oci:old "docker+http://$HUB_PLAIN/catalog"
  believe "docker+http://$HUB_PLAIN/catalog" --output oci:third
  assert_error E_ROLLBACK
  [ ! -d third/blobs ] || assert_equal "$(blobs_of third)" ""
}

@test "what was fetched is kept with its source and signers, and a key that is removed takes its packages along" {
  cp -a "$trust" mine
  push "oci:$signed" kept
  trust=$PWD/mine believe "docker+http://$HUB_PLAIN/kept"
  assert_fetched "$digest"
  kmodsmith store ls --state-dir "$state" --trust-dir mine --json
  assert_equal "$(jq -r '.items[0].vouched | [.origin, .source, .trusted, (.signers | length)] | join(" ")' <<<"$output")" \
    "fetched docker+http://$HUB_PLAIN/kept true 1"
  kmodsmith trust remove "$(jq -r '.items[0].vouched.signers[0].key' <<<"$output")" --state-dir "$state" --trust-dir mine --json
  assert_equal "$(jq -r '.untrusted | join(" ")' <<<"$output")" "$TAG $digest"
  kmodsmith store ls --state-dir "$state" --trust-dir mine
  assert_output --partial "no longer trusted (E_UNTRUSTED)"
}
