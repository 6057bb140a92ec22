#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# R-N2: the statement of how a package was built: what is in it, where it goes, who believes it. Source and kernel tree are made up,
# and small; make, compiler and openssl are this machine's.
# shellcheck disable=SC2154,SC2030,SC2031 # bats and helper.bash set output, stderr, top and ROOT
load helper
load package

kernel=6.1.0-56-cloud-amd64
setup_file() { # the package is the same in every test: made once
  work=$BATS_FILE_TMPDIR
  tiny_headers "$work/headers.tar" "$kernel"
  compiling_tree "$work/headers.tar.d/usr/src/kernels/$kernel"
  built_with "$(gcc -dumpversion | cut -d. -f1)" "$work/headers.tar" "$kernel"
  compiling_source "$work/driver" 535.261.03
  tar -C "$work" -cf "$work/driver.tar" driver
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$work/site.key" 2>/dev/null
  openssl pkey -in "$work/site.key" -pubout -out "$work/site.pem"
}
setup() {
  files=$BATS_FILE_TMPDIR work=$BATS_TEST_TMPDIR
  layout=$work/layout
  host h100x2-unloaded
  if [ ! -e "$files/made" ]; then
    build "$files/layout"
    assert_status 0
    touch "$files/made"
  fi
  cp -r "$files/layout" "$layout"
  hex=$(jq -r '.manifests[] | select(.artifactType == "application/vnd.kmodsmith.kmod.package.v1") | .digest[7:]' "$layout/index.json")
}
build() { # LAYOUT [OPTION...]
  kmodsmith build --source "$files/driver.tar" --kernel "$kernel" --flavour open --modules nvidia --headers "$files/headers.tar" \
    --state-dir "$work/state" --output "oci:$1" --json "${@:2}"
}
blob_of() { echo "$1/blobs/sha256/${2#sha256:}"; }
put_blob() { # LAYOUT TEXT: its digest
  local sum
  sum=$(printf %s "$2" | sha256sum | cut -c1-64)
  printf %s "$2" >"$1/blobs/sha256/$sum"
  echo "$sum"
}
about() { # LAYOUT: the index of what refers to the package
  blob_of "$1" "$(jq -r --arg tag "sha256-$hex" '.manifests[] | select(.annotations."org.opencontainers.image.ref.name" == $tag).digest' \
    "$1/index.json")"
}
documents() { # LAYOUT TYPE: files of the documents with this type
  local manifest
  for manifest in $(jq -r '.manifests[].digest' "$(about "$1")"); do
    jq -r --arg type "$2" '.layers[0] | select(.mediaType == $type).digest' "$(blob_of "$1" "$manifest")"
  done | while read -r manifest; do blob_of "$1" "$manifest"; done
}
statement() { documents "$1" application/vnd.in-toto+json; }
attestation() { # LAYOUT: the bundle whose payload says how the package was built
  local bundle
  for bundle in $(documents "$1" application/vnd.dev.sigstore.bundle.v0.3+json); do
    jq -r .dsseEnvelope.payload "$bundle" | base64 -d | jq -e '.predicateType == "https://slsa.dev/provenance/v1"' >/dev/null && echo "$bundle"
  done
}
refer() { # LAYOUT TYPE TEXT: another document about the package, as another program would add it
  local manifest size
  size=$(stat -c %s "$(blob_of "$1" "$hex")")
  put_blob "$1" '{}' >"$work/empty"
  manifest=$(jq -cn --arg type "$2" --arg layer "$(put_blob "$1" "$3")" --arg empty "$(cat "$work/empty")" --arg hex "$hex" \
    --argjson length "${#3}" --argjson size "$size" '{schemaVersion: 2, mediaType: "application/vnd.oci.image.manifest.v1+json",
      artifactType: $type, config: {mediaType: "application/vnd.oci.empty.v1+json", digest: ("sha256:" + $empty), size: 2},
      layers: [{mediaType: $type, digest: ("sha256:" + $layer), size: $length}],
      subject: {mediaType: "application/vnd.oci.image.manifest.v1+json", digest: ("sha256:" + $hex), size: $size}}')
  put_blob "$1" "$manifest" >"$work/added"
  jq -c --arg digest "sha256:$(cat "$work/added")" --argjson size "${#manifest}" \
    '.manifests += [{mediaType: "application/vnd.oci.image.manifest.v1+json", digest: $digest, size: $size}]' "$1/index.json" >"$work/index"
  cp "$work/index" "$1/index.json"
}
attest() { # LAYOUT STATEMENT: signed by site.key, as `cosign attest` would
  printf 'DSSEv1 28 application/vnd.in-toto+json %d %s' "${#2}" "$2" >"$work/signed"
  openssl dgst -sha256 -sign "$files/site.key" -out "$work/signature" "$work/signed"
  refer "$1" application/vnd.dev.sigstore.bundle.v0.3+json "$(jq -cn --arg payload "$(printf %s "$2" | base64 -w0)" \
    --arg sig "$(base64 -w0 "$work/signature")" '{mediaType: "application/vnd.dev.sigstore.bundle.v0.3+json", verificationMaterial: {},
      dsseEnvelope: {payload: $payload, payloadType: "application/vnd.in-toto+json", signatures: [{sig: $sig}]}}')"
}
trusting() { # POLICY-MEMBERS: of every source
  mkdir -p "$work/trust"
  cp "$files/site.pem" "$work/trust"
  printf '{"sources": [{"prefix": "", "keys": ["site"]%s}]}' "$1" >"$work/trust/policy.json"
}
fetch() { # LAYOUT
  kmodsmith fetch --driver 535.261.03 --flavour open --kernel "$kernel" --from "oci:$1" --trust-dir "$work/trust" --state-dir "$work/node" --json
}

@test "R-N2: a package comes with a statement of what it was built from" {
  local said
  said=$(statement "$layout")
  run jq -r '._type, .predicateType, .subject[0].digest.sha256, (.predicate.buildDefinition |
    .buildType, .externalParameters.driver, .externalParameters.kernel, (.externalParameters.modules | join(",")),
    (.resolvedDependencies[] | .name + " " + .digest.sha256))' "$said"
  assert_output "https://in-toto.io/Statement/v1
https://slsa.dev/provenance/v1
$hex
https://kmodsmith.io/build/v1
535.261.03
$kernel
nvidia
driver-source $(sha256sum "$files/driver.tar" | cut -c1-64)
kernel-headers $(sha256sum "$files/headers.tar" | cut -c1-64)"
  run jq -r '.predicate.buildDefinition.internalParameters.compiler' "$said"
  assert_output "$(jq -r '.config.Labels["io.kmodsmith.compiler"]' "$(blob_of "$layout" "$(jq -r .config.digest "$(blob_of "$layout" "$hex")")")")"
  refute grep -qE "$work|$files|$(hostname)" "$said"
}

@test "R-N2: the same inputs give the same statement, elsewhere and at another time" {
  HOME=$work/home build "$work/other" --jobs 3 --no-cache
  assert_status 0
  run cmp "$(statement "$layout")" "$(statement "$work/other")"
  assert_success
}

@test "R-N2: a user's patch and a tree of the host are named by what is in them" {
  local one two
  mkdir "$work/patches"
  cat >"$work/patches/535.261.03-three.patch" <<'PATCH'
Driver: 535.*
Why: another answer

--- a/nvidia/three.c
+++ b/nvidia/three.c
@@ -1,2 +1,2 @@
 #include "conftest/three.h"
-int nv_three(void) { return 5; }
+int nv_three(void) { return 6; }
PATCH
  cp -a "$files/headers.tar.d/." "$ROOT"
  kmodsmith build --source "$files/driver.tar" --kernel "$kernel" --flavour open --modules nvidia --state-dir "$work/state" \
    --output "oci:$work/one" --json --patches "$work/patches"
  assert_status 0
  hex=$(jq -r '.digest[7:]' <<<"$output")
  run jq -r '.predicate.buildDefinition.resolvedDependencies[] | select(.name | startswith("patch/")) | .name[6:] + " " + .digest.sha256' \
    "$(statement "$work/one")"
  assert_output "$(jq -r '.config.Labels["io.kmodsmith.patches"]' "$(blob_of "$work/one" "$(jq -r .config.digest "$(blob_of "$work/one" "$hex")")")")"
  one=$(jq -c '.predicate.buildDefinition.resolvedDependencies[] | select(.name == "kernel-headers")' "$(statement "$work/one")")
  assert_equal "$(jq -r .annotations.of <<<"$one")" tree
  echo '/* another */' >>"$ROOT/usr/src/kernels/$kernel/include/generated/autoconf.h"
  kmodsmith build --source "$files/driver.tar" --kernel "$kernel" --flavour open --modules nvidia --state-dir "$work/state" \
    --output "oci:$work/two" --json --patches "$work/patches"
  assert_status 0
  hex=$(jq -r '.digest[7:]' <<<"$output")
  two=$(jq -c '.predicate.buildDefinition.resolvedDependencies[] | select(.name == "kernel-headers")' "$(statement "$work/two")")
  assert_not_equal "$one" "$two"
}

@test "R-N2: a package comes with a bill of materials, the same each time" {
  local manifest bill=application/spdx+json ko
  manifest=$(blob_of "$layout" "$hex")
  tar --zstd -xf "$(blob_of "$layout" "$(jq -r '.layers[0].digest' "$manifest")")" -C "$work"
  ko=$(sha256sum "$work/opt/lib/modules/$kernel/nvidia.ko" | cut -c1-64)
  run jq -r '.spdxVersion, (.packages[] | .primaryPackagePurpose + " " + .name + " " + .checksums[0].checksumValue + " " + .licenseDeclared),
    (.relationships[] | .spdxElementId + " " + .relationshipType + " " + .relatedSpdxElement)' "$(documents "$layout" $bill)"
  assert_output "SPDX-2.3
CONTAINER 535.261.03-open-$kernel-x86_64 $hex NOASSERTION
SOURCE nvidia-driver-source $(sha256sum "$files/driver.tar" | cut -c1-64) NOASSERTION
FILE nvidia.ko $ko LicenseRef-NVIDIA
SPDXRef-DOCUMENT DESCRIBES SPDXRef-Package
SPDXRef-Package CONTAINS SPDXRef-Module-1
SPDXRef-Module-1 GENERATED_FROM SPDXRef-Source"
  run jq -r '.hasExtractedLicensingInfos[].licenseId' "$(documents "$layout" $bill)"
  assert_output LicenseRef-NVIDIA
  build "$work/other"
  run cmp "$(documents "$layout" $bill)" "$(documents "$work/other" $bill)"
  assert_success
  kmodsmith sign "$layout" --key "$files/site.key"
  trusting ''
  fetch "$layout"
  run cmp "$(documents "$layout" $bill)" "$(documents "$work/node/store" $bill)"
  assert_success
}

@test "R-N2: sign signs the statement, as openssl can check, and once" {
  local bundle
  kmodsmith sign "$layout" --key "$files/site.key"
  assert_status 0
  bundle=$(attestation "$layout")
  jq -r .dsseEnvelope.payload "$bundle" | base64 -d >"$work/payload"
  run cmp "$work/payload" "$(statement "$layout")"
  assert_success
  { printf 'DSSEv1 28 application/vnd.in-toto+json %d ' "$(stat -c %s "$work/payload")" && cat "$work/payload"; } >"$work/signed"
  jq -r '.dsseEnvelope.signatures[0].sig' "$bundle" | base64 -d >"$work/signature"
  run openssl dgst -sha256 -verify "$files/site.pem" -signature "$work/signature" "$work/signed"
  assert_output "Verified OK"
  cp "$layout/index.json" "$work/before"
  kmodsmith sign "$layout" --key "$files/site.key"
  assert_status 0
  assert_output --partial "was signed"
  run cmp "$work/before" "$layout/index.json"
  assert_success
}

@test "R-N2: a statement that contradicts its package is not signed" {
  local said
  said=$(statement "$layout")
  jq -c '.predicate.buildDefinition.externalParameters.kernel = "6.1.0-1-amd64"' "$said" | tr -d '\n' >"$work/lie"
  jq -c --arg tag "sha256-$hex" '.manifests |= map(select(.annotations."org.opencontainers.image.ref.name" != $tag))' "$layout/index.json" >"$work/index"
  cp "$work/index" "$layout/index.json"
  refer "$layout" application/vnd.in-toto+json "$(cat "$work/lie")"
  # a layout's own list is what is signed
  jq -c --arg digest "sha256:$(cat "$work/added")" '{schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json",
    manifests: [.manifests[] | select(.digest == $digest)]}' "$layout/index.json" | tr -d '\n' >"$work/list"
  put_blob "$layout" "$(cat "$work/list")" >"$work/list.digest"
  jq -c --arg digest "sha256:$(cat "$work/list.digest")" --arg added "sha256:$(cat "$work/added")" --arg tag "sha256-$hex" \
    --argjson size "$(stat -c %s "$work/list")" '.manifests |= map(select(.digest != $added)) + [{digest: $digest, size: $size,
    mediaType: "application/vnd.oci.image.index.v1+json", annotations: {"org.opencontainers.image.ref.name": $tag}}]' "$layout/index.json" >"$work/index"
  cp "$work/index" "$layout/index.json"
  kmodsmith sign "$layout" --key "$files/site.key"
  assert_error E_FORGED "it says kernel release '6.1.0-1-amd64', the package's label '$kernel'"
}

@test "R-N2: statements travel: pushed, fetched, bundled, and kept in the store with their package" {
  kmodsmith sign "$layout" --key "$files/site.key"
  kmodsmith push "$layout" "oci:$work/pushed"
  assert_status 0
  trusting ', "provenance": "required"'
  kmodsmith fetch --driver 535.261.03 --flavour open --kernel "$kernel" --from "oci:$work/pushed" --trust-dir "$work/trust" \
    --state-dir "$work/node" --output "oci-archive:$work/site.tar" --json
  assert_status 0
  kmodsmith fetch --driver 535.261.03 --flavour open --kernel "$kernel" --from "oci-archive:$work/site.tar" --trust-dir "$work/trust" \
    --state-dir "$work/node" --json
  assert_status 0
  run cmp "$(statement "$layout")" "$(statement "$work/node/store")"
  assert_success
  assert_exist "$(attestation "$work/node/store")"
  kmodsmith "store show" "$hex" --state-dir "$work/node"
  assert_line --partial "https://kmodsmith.io/kmodsmith"
  assert_line "built from    driver-source sha256:$(sha256sum "$files/driver.tar" | cut -c1-64)"
  kmodsmith "store show" "$hex" --state-dir "$work/node" --json
  assert_json .statement.subject[0].digest.sha256 "$hex"
  kmodsmith "store verify" --state-dir "$work/node"
  assert_status 0
  kmodsmith "store gc" --state-dir "$work/node"
  assert_exist "$(statement "$work/node/store")"
  sed -i 's/6[.]1[.]0-56/6.1.0-99/' "$ROOT/proc/version" "$ROOT/proc/sys/kernel/osrelease"
  rm -rf "$ROOT"/lib/modules/6.1.0-56*
  kmodsmith "store gc" --state-dir "$work/node"
  assert_status 0
  run jq -c .manifests "$work/node/store/index.json"
  assert_output '[]'
}

@test "R-N2: a policy that requires a statement refuses a package that has none, or a stranger's" {
  kmodsmith build --source "$files/driver.tar" --kernel "$kernel" --flavour open --modules nvidia --headers "$files/headers.tar" \
    --state-dir "$work/state" --output "oci:$work/plain" --json
  said=$(cat "$(statement "$work/plain")")
  jq -c --arg tag "sha256-$hex" '.manifests |= map(select(.annotations."org.opencontainers.image.ref.name" != $tag))' \
    "$work/plain/index.json" >"$work/index"
  cp "$work/index" "$work/plain/index.json"
  kmodsmith sign "$work/plain" --key "$files/site.key"
  assert_status 0
  trusting ''
  fetch "$work/plain"
  assert_status 0
  trusting ', "provenance": "required"'
  fetch "$work/plain"
  assert_error E_UNSIGNED "statement of how it was built, which the policy for '' requires"
  kmodsmith "store show" "$hex" --state-dir "$work/node" --trust-dir "$work/trust" --json # fetched before the policy was stricter
  assert_json .vouched.trusted false
  assert_json .vouched.code E_UNSIGNED
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$work/stranger.key" 2>/dev/null
  cp "$files/site.key" "$work/kept.key"
  cp "$work/stranger.key" "$files/site.key" && attest "$work/plain" "$said"
  cp "$work/kept.key" "$files/site.key"
  fetch "$work/plain"
  assert_error E_UNTRUSTED
  attest "$work/plain" "$said"
  fetch "$work/plain"
  assert_status 0
}

@test "R-N2: a signed statement that contradicts its package is a forgery" {
  local lie
  kmodsmith sign "$layout" --key "$files/site.key"
  trusting ', "provenance": "required"'
  for lie in '.subject[0].digest.sha256 |= .[1:] + "0"' \
    '.predicate.buildDefinition.resolvedDependencies[0].digest.sha256 |= .[1:] + "0"' \
    '.predicate.buildDefinition.internalParameters.compiler = "another"' \
    '.predicate.buildDefinition.externalParameters.modules += ["nvidia-uvm"]' \
    '.predicate.buildDefinition.resolvedDependencies += [{name: "patch/more.patch", digest: {sha256: .subject[0].digest.sha256}}]'; do
    rm -rf "$work/lying"
    cp -r "$layout" "$work/lying"
    for manifest in $(jq -r '.manifests[].digest' "$(about "$work/lying")"); do # the true one is withheld
      ! jq -e '.annotations."dev.sigstore.bundle.predicateType" == "https://slsa.dev/provenance/v1"' "$(blob_of "$work/lying" "$manifest")" >/dev/null ||
        rm "$(blob_of "$work/lying" "$manifest")"
    done
    attest "$work/lying" "$(jq -c "$lie" "$(statement "$layout")")"
    fetch "$work/lying"
    assert_error E_FORGED
  done
  attest "$layout" "$(jq -c '.predicate.buildDefinition.externalParameters.kernel = "x"' "$(statement "$layout")")"
  fetch "$layout" # does not spoil the one that holds
  assert_status 0
}

@test "R-N2: a policy names the driver sources that packages may be built from" {
  kmodsmith sign "$layout" --key "$files/site.key"
  trusting ', "driver-sources": ["sha256:'"$hex"'"]'
  fetch "$layout"
  assert_error E_UNTRUSTED "was built from driver source sha256:$(sha256sum "$files/driver.tar" | cut -c1-64)"
  trusting ', "driver-sources": ["sha256:'"$hex"'", "sha256:'"$(sha256sum "$files/driver.tar" | cut -c1-64)"'"]'
  fetch "$layout"
  assert_status 0
  trusting ', "driver-sources": ["535.261.03"]'
  fetch "$layout"
  assert_error E_CONFIG "a list of digests"
  trusting ', "provenance": "maybe"'
  fetch "$layout"
  assert_error E_CONFIG '"optional" or "required"'
}
