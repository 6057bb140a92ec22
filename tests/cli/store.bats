#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The packages that a machine keeps: list, show, verify, collect, pin.
# shellcheck disable=SC2154 # bats and helper.bash set stderr and top
load helper
load package

setup_file() {
  local kernel
  tiny_package "$BATS_FILE_TMPDIR/any" 6.1-any
  for kernel in "$(cat "$top/tests/hosts/h100x8/proc/sys/kernel/osrelease")" 6.2-installed 6.3-removed 6.4-never; do
    keep "$kernel" "$BATS_FILE_TMPDIR/store"
  done
}
setup() { # a machine whose store has packages for its kernel, an installed one and two that are gone
  host h100x8
  store=$ROOT/var/lib/kmodsmith/store
  mkdir -p "$ROOT/var/lib/kmodsmith" "$ROOT/lib/modules"/{6.2-installed,6.3-removed}
  touch "$ROOT/lib/modules/6.2-installed/modules.dep"
  running=$(cat "$ROOT/proc/sys/kernel/osrelease")
  cp -r "$BATS_FILE_TMPDIR/store" "$store"
}
keep() { # KERNEL STORE: a package for it, as another program would write it
  python3 "$top/tests/services/make_layout.py" --kernel "$1" "${2:?}" "$BATS_FILE_TMPDIR"/any.d/*.ko >/dev/null
}
tag() { echo "535.261.03-open-$1-x86_64"; }
kernels() { jq -r '.items[].key.release' <<<"$output" | sort | tr '\n' ' '; }
digest() { # KERNEL: of its manifest
  jq -r --arg tag "$(tag "$1")" '.manifests[] | select(.annotations["org.opencontainers.image.ref.name"] == $tag).digest' \
    "$store/index.json"
}

@test "ls and show list the packages as text and as JSON" {
  kmodsmith "store ls"
  assert_status 0
  assert_line --partial "$(tag 6.2-installed)"
  assert_equal "${#lines[@]}" 5
  kmodsmith "store ls" --json
  assert_json '.items | length' 4
  assert_json '.items[0].pinned' false
  kmodsmith "store show" "$(tag 6.4-never)" --json
  assert_status 0
  assert_json .key.release 6.4-never
  assert_json '.files | length' 3
  kmodsmith "store show" "$(digest 6.4-never)"
  assert_status 0
  assert_line --partial nvidia-uvm.ko
  kmodsmith "store show" no-such-tag
  assert_error E_NOT_FOUND no-such-tag
}

@test "a machine without a store has an empty one" {
  rm -r "$store"
  kmodsmith "store ls" --json
  assert_status 0
  assert_json '.items | length' 0
  kmodsmith "store gc"
  assert_status 0
}

@test "gc keeps packages of running and installed kernels and pinned ones; a dry run changes nothing" {
  kmodsmith "store pin" "$(tag 6.3-removed)" --json
  assert_json .changed
  kmodsmith "store pin" "$(digest 6.3-removed)" --json
  assert_json .changed false
  kmodsmith "store gc" --dry-run --json
  assert_status 0
  assert_json '.packages | length' 1
  kmodsmith "store ls" --json
  assert_json '.items | length' 4
  kmodsmith "store gc"
  assert_status 0
  assert_line --partial "$(tag 6.4-never)"
  kmodsmith "store ls" --json
  assert_equal "$(kernels)" "$(printf '%s\n' "$running" 6.2-installed 6.3-removed | sort | tr '\n' ' ')"
  kmodsmith "store unpin" "$(tag 6.3-removed)"
  assert_status 0
  kmodsmith "store gc" --json
  assert_json '.packages | length' 1
  kmodsmith "store verify"
  assert_status 0
  assert_output --partial "no damage"
}

@test "verify finds a flipped bit and a truncated blob, quarantines them and lists what is lost" {
  local layer how
  for how in flip cut; do
    layer=$(jq -r '.layers[0].digest[7:]' "$store/blobs/sha256/$(digest 6.4-never | cut -c8-)")
    case $how in
    flip) printf 'X' | dd of="$store/blobs/sha256/$layer" bs=1 seek=50 conv=notrunc status=none ;;
    cut) truncate -s 60 "$store/blobs/sha256/$layer" ;;
    esac
    kmodsmith "store verify" --json
    assert_status 1
    assert_json .sound false
    assert_json '.damage[0].lost[0]' "$(tag 6.4-never)"
    assert_file_exist "$ROOT/var/lib/kmodsmith/quarantine/$layer"
    kmodsmith "store verify"
    assert_status 0
    kmodsmith "store ls" --json
    assert_json '.items | length' 3
    keep 6.4-never "$store"
  done
}

@test "an unreadable store is refused with a code, and nothing is removed" {
  echo '{"pins":["x"]}' >"$ROOT/var/lib/kmodsmith/roots.json"
  kmodsmith "store gc"
  assert_error E_STORE_CORRUPT roots.json
  [[ $stderr == *'next: run '*'kmodsmith store verify'* ]]
  kmodsmith "store verify" --json # what is said next leads on
  assert_status 1
  assert_json '.damage[0].digest' roots.json
  kmodsmith "store gc" --dry-run
  assert_status 0
  kmodsmith "store gc" --store-limit 5X
  assert_error E_USAGE 5X
  KMODSMITH_STORE_LIMIT=-1 kmodsmith "store ls"
  assert_error E_CONFIG "environment variable KMODSMITH_STORE_LIMIT: --store-limit '-1'"
  KMODSMITH_STORE_LIMIT=1G kmodsmith "store ls" --json
  assert_json '.items | length' 4
}

@test "ls of a store without packages says so; as JSON it is an empty list" {
  host no-gpu
  kmodsmith "store ls"
  assert_status 0
  assert_output --regexp '^no packages are stored; '
  kmodsmith "store ls" --json
  run jq -c .items <<<"$output"
  assert_output "[]"
}

@test "ls shows payloads, headers and builders beside the packages" {
  tiny_payload "$BATS_TEST_TMPDIR/payload.tar" 535.261.03
  kmodsmith "pack payload" "$BATS_TEST_TMPDIR/payload.tar" --driver 535.261.03 --arch x86_64 --json
  assert_status 0
  local digest
  digest=$(jq -r .digest <<<"$output")
  kmodsmith "store ls"
  assert_line --regexp '^KIND +TAG +BYTES +DIGEST$'
  assert_line --regexp "^payload +payload-535.261.03-x86_64 +[0-9]{3,} +${digest:0:19}$"
  kmodsmith "store ls" --json
  assert_json '.items | length' 4
  assert_json '.assets | length' 1
  assert_json '.assets[0] | "\(.kind) \(.tag) \(.digest) \(.size > 100)"' "payload payload-535.261.03-x86_64 $digest true"
  rm -r "$store"
  kmodsmith "pack payload" "$BATS_TEST_TMPDIR/payload.tar" --driver 535.261.03 --arch x86_64
  kmodsmith "store ls"
  assert_output --regexp '^no packages are stored; .*payload-535'
}

@test "ls leaves a machine without a store as it is" {
  local state=$BATS_TEST_TMPDIR/none
  host no-gpu
  kmodsmith "store ls"
  assert_status 0
  assert_unchanged
  kmodsmith "store ls" --state-dir "$state"
  assert_status 0
  assert_not_exist "$state"
  kmodsmith "store ls" --store-limit 5X
  assert_error E_USAGE 5X
}

@test "an unreadable index is rebuilt from the packages" {
  local command
  for command in "store ls" "store verify"; do
    echo '<html>' >"$store/index.json"
    kmodsmith doctor
    assert_line --regexp '^warn +store +E_STORE_CORRUPT: .*index.json'
    kmodsmith "$command" --json
    assert_status "$([ "$command" = "store ls" ] && echo 0 || echo 1)"
    [ "$(grep -c '^kmodsmith: warn: the store .* was damaged, and is made whole from its packages: index.json' <<<"$stderr")" = 1 ]
    [ "$command" = "store ls" ] || assert_json '.damage[0].digest' index.json
    kmodsmith "store ls" --json
    assert_json '.items | length' 4
    assert_equal "$(cat "$ROOT/var/lib/kmodsmith/quarantine/index.json")" "<html>"
    kmodsmith "store verify"
    assert_status 0
    kmodsmith doctor
    refute_line --regexp '^[a-zA-Z]+ +store '
  done
}

@test "nothing is collected while another process has the store open" {
  exec {fd}>>"$store/.use"
  flock -s "$fd"
  kmodsmith "store gc"
  assert_error E_LOCKED
  exec {fd}>&-
  kmodsmith "store gc"
  assert_status 0
}

@test "the loaded package is target and last good, and is never collected" {
  loadable
  kmodsmith install --package "$BATS_TEST_TMPDIR/package"
  assert_status 0
  kmodsmith "store ls" --json
  assert_json '.items[0] | .target and .last_good'
  rm -r "$ROOT"/lib/modules/*
  echo 6.9-other >"$ROOT/proc/sys/kernel/osrelease"
  kmodsmith "store gc" --json
  assert_json '.packages | length' 0
}

@test "killed at any point, gc leaves a store that verifies" {
  local at call points=0
  needs_strace
  cp -a "$store" "$store.copy"
  for call in write renameat unlinkat fsync; do
    for at in {1..15}; do
      rm -rf "$store" && cp -a "$store.copy" "$store"
      echo rest >"$store/blobs/sha256/.rest.part"
      run strace -E ASAN_OPTIONS=detect_leaks=0 -f -o /dev/null -e "inject=$call:signal=KILL:when=$at" "$KMODSMITH" store gc --root "$ROOT"
      [ "$status" -ne 0 ] || break
      points=$((points + 1))
      kmodsmith "store verify"
      assert_status 0
      kmodsmith "store show" "$(tag "$running")"
      assert_status 0
    done
  done
  [ "$points" -ge 12 ]
}
