#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Kernel headers, builders, cores and bundles through a real registry: pushed with their signatures, taken by a compile that has
# none.
# shellcheck disable=SC2153,SC2154 # bats sets status and output; servers.bash the addresses, helper.bash DRIVER and KERNEL
load helper

setup_file() {
  local site=$BATS_FILE_TMPDIR/site
  registry_start plain
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$BATS_FILE_TMPDIR/k.key" 2>/dev/null
  mkdir "$BATS_FILE_TMPDIR/trust"
  openssl pkey -in "$BATS_FILE_TMPDIR/k.key" -pubout -out "$BATS_FILE_TMPDIR/trust/k.pem"
  make_layout "$site" --label kernel.build-id=
  tiny_headers "$BATS_FILE_TMPDIR/headers.tar" "$KERNEL"
  run -0 "$KMODSMITH" pack headers "$BATS_FILE_TMPDIR/headers.tar" --kernel "$KERNEL" --output "oci:$site" \
    --state-dir "$BATS_FILE_TMPDIR/state"
  run -0 "$KMODSMITH" sign "$site" --key "$BATS_FILE_TMPDIR/k.key" --catalog
  run -0 "$KMODSMITH" push "oci:$site" "docker+http://$HUB_PLAIN/drivers" --state-dir "$BATS_FILE_TMPDIR/state"
}
teardown_file() { servers_stop; }
setup() {
  fresh
  trust=$BATS_FILE_TMPDIR/trust from=docker+http://$HUB_PLAIN/drivers
}

@test "a compile takes the headers from a registry, once, and believes the keys that it trusts only" {
  tiny_source "$BATS_TEST_TMPDIR/driver"
  mkdir "$BATS_TEST_TMPDIR/nobody"
  host no-gpu
  kmodsmith build --root "$ROOT" --source "$BATS_TEST_TMPDIR/driver" --kernel "$KERNEL" --from "$from" \
    --state-dir "$state" --trust-dir "$BATS_TEST_TMPDIR/nobody"
  assert_error E_HEADERS_NOT_FOUND "... of $from: "
  kmodsmith build --root "$ROOT" --source "$BATS_TEST_TMPDIR/driver" --kernel "$KERNEL" --from "$from" \
    --state-dir "$state" --trust-dir "$trust"
  [[ $stderr == *"packed headers: $state/headers/"* ]] || fail "$stderr"
  rm -r "$state/headers"
  kmodsmith build --root "$ROOT" --source "$BATS_TEST_TMPDIR/driver" --kernel "$KERNEL" --state-dir "$state" --offline \
    --trust-dir "$BATS_TEST_TMPDIR/nobody"
  assert_error E_HEADERS_NOT_FOUND "packed headers: the store: E_UNTRUSTED: kept from $from, signed by k (key "
  kmodsmith build --root "$ROOT" --source "$BATS_TEST_TMPDIR/driver" --kernel "$KERNEL" --state-dir "$state" --offline \
    --trust-dir "$trust"
  [[ $stderr == *"packed headers: $state/headers/"* ]] || fail "$stderr"
}

@test "a compile takes the builder that is named by its digest from a registry, unsigned, and once" {
  local layout=$BATS_TEST_TMPDIR/builder pin
  tiny_builder "$BATS_TEST_TMPDIR/root.tar" 99 "$KERNEL"
  tiny_headers "$BATS_TEST_TMPDIR/headers.tar" "$KERNEL"
  built_with 99 "$BATS_TEST_TMPDIR/headers.tar" "$KERNEL"
  tiny_source "$BATS_TEST_TMPDIR/driver"
  touch "$BATS_TEST_TMPDIR/driver/kernel-open/nvidia/nvidia.Kbuild"
  run -0 "$KMODSMITH" pack builder "$BATS_TEST_TMPDIR/root.tar" --compiler gcc-99 --arch x86_64 --output "oci:$layout" \
    --state-dir "$BATS_TEST_TMPDIR/elsewhere"
  run -0 "$KMODSMITH" push "oci:$layout" "docker+http://$HUB_PLAIN/builders" --state-dir "$BATS_TEST_TMPDIR/elsewhere"
  pin=docker+http://$HUB_PLAIN/builders@$(jq -r '.manifests[0].digest' "$layout/index.json")
  host no-gpu
  compile() { # OPTION...
    kmodsmith build --root "$ROOT" --source "$BATS_TEST_TMPDIR/driver" --kernel "$KERNEL" --flavour open --modules nvidia \
      --headers "$BATS_TEST_TMPDIR/headers.tar" --state-dir "$state" --trust-dir "$trust" "$@"
  }
  compile --from "$from" --builder "$pin"
  assert_status 0
  [[ $stderr == *"$from: it has no builder-gcc-99-x86_64, it has no builder-x86_64"* ]] || fail "$stderr"
  [[ $stderr == *"those of the builder image at '$state/builders/${pin#*sha256:}'"* ]] || fail "$stderr"
  compile --offline --builder "$pin"
  assert_status 0
  rm -r "$state"
  compile --offline --builder "$pin"
  assert_error E_OFFLINE "; a builder image: --builder: "
}

@test "R-B10: a compile takes the core of an open release from a registry, once, and compiles it where the registry is silent" {
  # shellcheck disable=SC2034 # release_source reads it
  local layout=$BATS_TEST_TMPDIR/cores kernel=$KERNEL driver=$BATS_TEST_TMPDIR/driver
  tiny_headers "$BATS_TEST_TMPDIR/headers.tar" "$KERNEL"
  compiling_tree "$BATS_TEST_TMPDIR/headers.tar.d/usr/src/kernels/$KERNEL"
  built_with "$(gcc -dumpversion | cut -d. -f1)" "$BATS_TEST_TMPDIR/headers.tar" "$KERNEL"
  release_source "$driver" 595.45.04
  run -0 "$KMODSMITH" pack core --source "$driver" --kernel "$KERNEL" --headers "$BATS_TEST_TMPDIR/headers.tar" --output "oci:$layout" \
    --state-dir "$BATS_TEST_TMPDIR/elsewhere"
  run -0 "$KMODSMITH" sign "$layout" --key "$BATS_FILE_TMPDIR/k.key" --catalog
  run -0 "$KMODSMITH" push "oci:$layout" "docker+http://$HUB_PLAIN/cores" --state-dir "$BATS_TEST_TMPDIR/elsewhere"
  host no-gpu
  compile() { # OPTION...
    kmodsmith build --root "$ROOT" --source "$driver" --kernel "$KERNEL" --flavour open --modules nvidia --headers \
      "$BATS_TEST_TMPDIR/headers.tar" --state-dir "$state" --trust-dir "$trust" --json "$@"
    assert_status 0
    note=$(jq -r '.phases[] | select(.phase == "core").note' <<<"$output") digest=$(jq -r .digest <<<"$output")
  }
  compile --from "docker+http://$HUB_PLAIN/cores"
  assert_equal "$note" "nvidia: from docker+http://$HUB_PLAIN/cores"
  local first=$digest
  compile --from docker+http://127.0.0.1:1/cores --connect-timeout 5
  assert_equal "$note" "nvidia: from the store"
  rm -r "$state"
  compile --from docker+http://127.0.0.1:1/cores --connect-timeout 5
  [[ $note == "nvidia: 3 objects, "* ]] || fail "$note"
  [[ $stderr == *"the core of nvidia is not fetched, and compiled here: E_NETWORK: docker+http://127.0.0.1:1/cores: "* ]] || fail "$stderr"
  assert_equal "$digest" "$first"
}

@test "a bundle of a registry's packages and headers is complete, and carries the signatures of whoever made them" {
  kmodsmith bundle create --output "$BATS_TEST_TMPDIR/site.tar" --from "$from" --driver "$DRIVER" --kernel "$KERNEL" \
    --arch x86_64 --headers-too --state-dir "$state" --trust-dir "$trust" --key "$BATS_FILE_TMPDIR/k.key"
  assert_status 0
  assert_small
  kmodsmith bundle verify "$BATS_TEST_TMPDIR/site.tar" --trust-dir "$trust" --json
  assert_status 0
  assert_json '[.promises[].tag] | join(" ")' "$TAG headers-$KERNEL-x86_64"
  assert_small
}

@test "headers that were packed again take the place of those in the store, and those serve while nobody answers" {
  local site=$BATS_TEST_TMPDIR/again
  build() { kmodsmith build --root "$ROOT" --source "$BATS_TEST_TMPDIR/driver" --kernel "$KERNEL" --state-dir "$state" \
    --trust-dir "$trust" --from "$from" --connect-timeout 5; }
  taken() { sed -n 's|.*packed headers: .*/headers/\([0-9a-f]*\).*|\1|p' <<<"$stderr" | head -n 1; }
  offered() { jq -r --arg tag "headers-$KERNEL-x86_64" '.manifests[] |
    select(.annotations["org.opencontainers.image.ref.name"] == $tag).digest[7:]' "$1/index.json"; }
  tiny_source "$BATS_TEST_TMPDIR/driver"
  host no-gpu
  build
  assert_equal "$(taken)" "$(offered "$BATS_FILE_TMPDIR/site")"
  cp -a "$BATS_FILE_TMPDIR/site" "$site"
  tiny_headers "$BATS_TEST_TMPDIR/headers.tar" "$KERNEL"
  echo '# mended' >>"$BATS_TEST_TMPDIR/headers.tar.d/usr/src/kernels/$KERNEL/Makefile"
  tar -cf "$BATS_TEST_TMPDIR/headers.tar" -C "$BATS_TEST_TMPDIR/headers.tar.d" lib usr
  run -0 "$KMODSMITH" pack headers "$BATS_TEST_TMPDIR/headers.tar" --kernel "$KERNEL" --output "oci:$site" --state-dir "$state.other"
  run -0 "$KMODSMITH" sign "$site" --key "$BATS_FILE_TMPDIR/k.key" --catalog
  run -0 "$KMODSMITH" push "oci:$site" "$from" --state-dir "$state.other"
  build
  assert_equal "$(taken)" "$(offered "$site")"
  from=docker+http://127.0.0.1:1/drivers build
  assert_equal "$(taken)" "$(offered "$site")"
  [[ $stderr == *"headers-$KERNEL-x86_64: using the one in the store: "* ]] || fail "$stderr"
}
