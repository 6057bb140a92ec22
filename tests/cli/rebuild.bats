#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# R-N2, R-C2: a package is built again from what its statement names. Source and kernel tree are made up, and small; make, compiler
# and openssl are this machine's.
# shellcheck disable=SC2154,SC2030,SC2031 # bats and helper.bash set output, stderr, top and ROOT
load helper
load package

kernel=6.1.0-56-cloud-amd64
setup_file() {
  work=$BATS_FILE_TMPDIR
  tiny_headers "$work/headers.tar" "$kernel"
  compiling_tree "$work/headers.tar.d/usr/src/kernels/$kernel"
  built_with "$(gcc -dumpversion | cut -d. -f1)" "$work/headers.tar" "$kernel"
  compiling_source "$work/driver" 535.261.03
  tar -C "$work" -cf "$work/driver.tar" driver
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
  named "$layout"
}
named() { # LAYOUT: hex and tag are its package's
  hex=$(jq -r '.manifests[] | select(.artifactType == "application/vnd.kmodsmith.kmod.package.v1") | .digest[7:]' "$1/index.json")
  tag=535.261.03-open-$kernel-x86_64
}
build() { # LAYOUT [OPTION...]
  kmodsmith build --source "$files/driver.tar" --kernel "$kernel" --flavour open --modules nvidia --headers "$files/headers.tar" \
    --state-dir "$work/state" --output "oci:$1" --json "${@:2}"
}
rebuild() { # PACKAGE [OPTION...]
  kmodsmith rebuild "$1" --source "$files/driver.tar" --headers "$files/headers.tar" --state-dir "$work/again" --package "oci:$layout" "${@:2}"
}
assert_not_compiled() { assert_not_exist "$work/again/logs"; }
blob_of() { echo "$layout/blobs/sha256/${1#sha256:}"; }
sum() { sha256sum <"$1" | cut -c1-64; } # FILE
put_blob() { # FILE: its digest
  local sum
  sum=$(sum "$1")
  cp "$1" "$layout/blobs/sha256/$sum"
  echo "$sum"
}
described() { jq -cn --arg digest "sha256:$(put_blob "$2")" --argjson size "$(stat -c %s "$2")" --arg type "$1" '{mediaType: $type, digest: $digest, size: $size}'; } # TYPE FILE
list() { # ENTRY [TAG]: in the layout's index, instead of what has the tag
  jq -c --argjson entry "$1" --arg tag "${2-}" '.manifests |= map(select($tag == "" or .annotations."org.opencontainers.image.ref.name" != $tag)) +
    [$entry + if $tag == "" then {} else {annotations: {"org.opencontainers.image.ref.name": $tag}} end]' "$layout/index.json" >"$work/index"
  cp "$work/index" "$layout/index.json"
}
# The statement of the layout's package about the package with another manifest, changed by a filter.
state() { # HEX FILTER
  local was
  was=$(blob_of "$(jq -r --arg tag "sha256-$hex" '.manifests[] | select(.annotations."org.opencontainers.image.ref.name" == $tag).digest' "$layout/index.json")")
  was=$(blob_of "$(jq -r '.manifests[0].digest' "$was")")
  jq -c --arg hex "$1" ".subject[0].digest.sha256 = \$hex | $2" "$(blob_of "$(jq -r '.layers[0].digest' "$was")")" | tr -d '\n' >"$work/said"
  jq -c --argjson layer "$(described application/vnd.in-toto+json "$work/said")" --arg digest "sha256:$1" \
    --argjson size "$(stat -c %s "$(blob_of "$1")")" '.layers = [$layer] | .subject.digest = $digest | .subject.size = $size' "$was" | tr -d '\n' >"$work/about"
  jq -cn --argjson one "$(described application/vnd.oci.image.manifest.v1+json "$work/about")" \
    '{schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json", manifests: [$one]}' | tr -d '\n' >"$work/list"
  list "$(described application/vnd.oci.image.index.v1+json "$work/list")" "sha256-$1"
}

@test "R-N2: the same digest from another directory, state, home and number of jobs" {
  mkdir "$work/elsewhere"
  cp "$files/driver.tar" "$work/elsewhere/source"
  cp "$files/headers.tar" "$work/elsewhere/tree.tar"
  SOURCE_DATE_EPOCH=86400 HOME=$work/elsewhere kmodsmith rebuild --verify "$tag" --source "$work/elsewhere/source" \
    --headers "$work/elsewhere/tree.tar" --state-dir "$work/again" --package "oci:$layout" --jobs 3
  assert_status 0
  assert_line "$tag sha256:$hex reproduced"
  rebuild "sha256:$hex" --verify --json
  assert_status 0
  assert_json .result reproduced
  assert_json .rebuilt "sha256:$hex"
  assert_json .inputs[0].name driver-source
}

@test "R-N2: a time that the package states is stated again" {
  SOURCE_DATE_EPOCH=1700000000 build "$work/timed"
  layout=$work/timed
  named "$layout"
  rebuild "$tag" --verify
  assert_status 0
  assert_line "$tag sha256:$hex reproduced"
}

@test "R-N2: another input is named before anything is compiled" {
  cp -r "$files/driver" "$work/driver"
  echo '/* another */' >>"$work/driver/kernel-open/nvidia/one.c"
  kmodsmith rebuild "$tag" --verify --source "$work/driver" --headers "$files/headers.tar" --state-dir "$work/again" --package "oci:$layout"
  assert_error E_DIGEST "$(sha256sum "$files/driver.tar" | cut -c1-64)"
  assert_regex "$stderr" "driver source: "
  assert_not_compiled
  cp -r "$files/headers.tar.d" "$work/tree"
  echo '/* another */' >>"$work/tree/usr/src/kernels/$kernel/include/generated/autoconf.h"
  tar -cf "$work/headers.tar" -C "$work/tree" lib usr
  kmodsmith rebuild "$tag" --verify --source "$files/driver.tar" --headers "$work/headers.tar" --state-dir "$work/again" --package "oci:$layout"
  assert_error E_DIGEST "kernel headers (--headers): sha256:$(sum "$work/headers.tar"), but the package was built from sha256:$(sum "$files/headers.tar")"
  assert_not_compiled
  mkdir "$work/patches"
  cat >"$work/patches/three.patch" <<'PATCH'
Driver: 535.*
Why: another answer

--- a/nvidia/three.c
+++ b/nvidia/three.c
@@ -1,2 +1,2 @@
 #include "conftest/three.h"
-int nv_three(void) { return 5; }
+int nv_three(void) { return 6; }
PATCH
  rebuild "$tag" --verify --patches "$work/patches"
  assert_error E_DIGEST "source patches: 'three.patch "
  assert_not_compiled
}

@test "R-N2: a tree of the host is compared by what is in it" {
  cp -a "$files/headers.tar.d/." "$ROOT"
  kmodsmith build --source "$files/driver.tar" --kernel "$kernel" --flavour open --modules nvidia --state-dir "$work/state"
  assert_status 0
  kmodsmith rebuild "$tag" --verify --source "$files/driver.tar" --state-dir "$work/state" # of the store
  assert_status 0
  assert_line --partial reproduced
  echo '/* another */' >>"$ROOT/usr/src/kernels/$kernel/include/generated/autoconf.h"
  kmodsmith rebuild "$tag" --verify --source "$files/driver.tar" --state-dir "$work/state"
  assert_error E_DIGEST "kernel headers (the tree's names and contents)"
}

@test "R-N2: a statement that lies about its package is refused" {
  state "$hex" '.predicate.buildDefinition.externalParameters.driver = "550.54.14"'
  rebuild "$tag" --verify
  assert_error E_FORGED "it says driver '550.54.14', the package's label '535.261.03'"
  assert_not_compiled
  state "$hex" '.predicate.buildDefinition.externalParameters.driver = "535.261.03" | .predicate.buildDefinition.internalParameters.compiler = "gcc"'
  rebuild "$tag" --verify
  assert_error E_FORGED "it says compiler"
}

@test "R-N2: a package whose modules are others than its inputs make differs, and says where" {
  local manifest config ko other
  manifest=$(blob_of "$hex")
  config=$(blob_of "$(jq -r .config.digest "$manifest")")
  tar --zstd -xf "$(blob_of "$(jq -r '.layers[0].digest' "$manifest")")" -C "$work"
  ko=$work/opt/lib/modules/$kernel/nvidia.ko
  printf 'other' >"$work/answer"
  objcopy --update-section .made.two="$work/answer" "$ko"
  tar -C "$work" -cf "$work/layer.tar" --no-recursion opt opt/lib opt/lib/modules "opt/lib/modules/$kernel" "opt/lib/modules/$kernel/nvidia.ko"
  zstd -q "$work/layer.tar" -o "$work/layer"
  jq -c --arg sha "$(sum "$ko")" --argjson size "$(stat -c %s "$ko")" --arg diff "sha256:$(sha256sum <"$work/layer.tar" | cut -c1-64)" \
    '.rootfs.diff_ids = [$diff] | .config.Labels["io.kmodsmith.files"] |= (fromjson | .[0].sha256 = $sha | .[0].size = $size | tojson)' "$config" | tr -d '\n' >"$work/config"
  jq -c --argjson config "$(described application/vnd.oci.image.config.v1+json "$work/config")" \
    --argjson layer "$(described application/vnd.oci.image.layer.v1.tar+zstd "$work/layer")" '.config = $config | .layers = [$layer]' "$manifest" | tr -d '\n' >"$work/manifest"
  other=$(put_blob "$work/manifest")
  state "$other" .
  list "$(described application/vnd.oci.image.manifest.v1+json "$work/manifest")" "$tag"
  rebuild "$tag" --verify
  assert_status 1
  assert_line --regexp "^nvidia.ko: sha256 [0-9a-f]{64} instead of $(sum "$ko"), first in section .made.two$"
  assert_line "$tag sha256:$other differs: this build is sha256:$hex"
}

@test "R-N2: signed modules are compared without their signatures, or signed again" {
  openssl req -new -x509 -newkey rsa:2048 -nodes -days 36500 -subj "/CN=Site/" -keyout "$work/mok.key" -out "$work/mok.pem" 2>/dev/null
  build "$work/signed" --module-key "$work/mok.key" --module-cert "$work/mok.pem"
  assert_status 0
  layout=$work/signed
  named "$layout"
  rebuild "$tag" --verify
  assert_status 0
  assert_line "nvidia.ko: the same, without its signature"
  assert_line --partial "reproduced without signatures"
  rebuild "$tag" --verify --module-key "$work/mok.key" --module-cert "$work/mok.pem"
  assert_status 0
  assert_line "$tag sha256:$hex reproduced"
  openssl req -new -x509 -newkey rsa:2048 -nodes -days 36500 -subj "/CN=Site/" -keyout "$work/mok.key" -out "$work/mok.pem" 2>/dev/null
  rebuild "$tag" --verify --module-key "$work/mok.key" --module-cert "$work/mok.pem"
  assert_error E_KEY "certificate of --module-cert"
}

@test "R-N2: what was built again can be kept; what says nothing of its inputs cannot be built again" {
  rebuild "$tag" --output "oci:$work/kept"
  assert_status 0
  assert_exist "$work/kept/blobs/sha256/$hex"
  rebuild "$tag"
  assert_error E_USAGE "either --verify or --output"
  rebuild "$tag" --verify --modules nvidia
  assert_error E_USAGE "--modules"
  rebuild no-such-tag --verify
  assert_error E_NOT_FOUND no-such-tag
  jq -c --arg tag "sha256-$hex" '.manifests |= map(select(.annotations."org.opencontainers.image.ref.name" != $tag))' "$layout/index.json" >"$work/index"
  cp "$work/index" "$layout/index.json"
  rebuild "$tag" --verify
  assert_error E_NOT_FOUND "has no statement of how sha256:$hex was built"
}
