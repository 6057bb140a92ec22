#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Objects and conftest's answers kept from one compile to the next (R-B4, R-H2). Source and kernel tree are made up, and
# small; make, compiler, ccache and sandbox are this machine's.
# shellcheck disable=SC2154,SC2016,SC2030,SC2031 # bats and helper.bash set output, stderr, top and ROOT
load helper
load package

kernel=6.1.0-56-cloud-amd64
setup() {
  needs_seccomp
  work=$BATS_TEST_TMPDIR state=$BATS_TEST_TMPDIR/state driver=$BATS_TEST_TMPDIR/driver
  tiny_headers "$work/headers.tar" "$kernel"
  compiling_tree "$work/headers.tar.d/usr/src/kernels/$kernel"
  built_with "$(gcc -dumpversion | cut -d. -f1)" "$work/headers.tar" "$kernel"
  compiling_source "$driver" 535.261.03
  options=(--source "$driver" --kernel "$kernel" --flavour open --modules nvidia --headers "$work/headers.tar"
    --state-dir "$state" --output "oci:$work/layout" --json --jobs 1)
}

build() { # OPTION...
  host h100x2-unloaded
  kmodsmith build "${options[@]}" "$@"
}
asked() { grep -c '^asked: ' "$state/logs/${1:-535.261.03}-open-$kernel.log" || true; }
kept() { jq -c '[.cache.objects, .cache.probes, .cache.probes_asked]' <<<"$output"; }
digest() { jq -r .digest <<<"$output"; }

@test "an unchanged compile makes no object and no probe twice, and gives the same bytes" {
  build
  assert_status 0
  assert_equal "$(kept) $(asked)" "[0,0,3] 3"
  first=$(digest)
  build
  assert_status 0
  assert_equal "$(kept) $(asked)" "[3,3,0] 0"
  assert_equal "$(digest)" "$first"
  [[ $stderr == *"from the cache: 3 objects, 3 of 3 probes"* ]]
  build --no-cache
  assert_status 0
  assert_equal "$(kept) $(asked)" "[0,0,0] 3"
  assert_equal "$(digest)" "$first"
}

@test "one byte changed in the source: nothing is reused, and the first source's cache stays" {
  build
  first=$(digest)
  cp -a "$driver" "$work/same"
  compiling_source "$driver" 535.300.01
  build
  assert_status 0
  assert_equal "$(kept) $(asked 535.300.01)" "[0,0,3] 3"
  rm -r "$driver" && mv "$work/same" "$driver"
  build
  assert_equal "$(kept) $(digest)" "[3,3,0] $first"
  # shellcheck disable=SC2034 # a patch is a part of the source
  printf 'Driver: *\nKernel: *\n--- a/nvidia/one.c\n+++ b/nvidia/one.c\n@@ -1,2 +1,2 @@\n #include "conftest/one.h"\n-%s\n+%s\n' \
    'int nv_one(void) { return 3; }' 'int nv_one(void) { return 4; }' >"$work/one.patch"
  mkdir -p "$work/patches" && mv "$work/one.patch" "$work/patches/"
  build --patches "$work/patches"
  assert_status 0
  assert_equal "$(kept)" "[0,0,3]"
}

@test "the cache keeps four compiles; a fifth evicts the oldest, and caches of older versions are removed" {
  mkdir -p "$state/cache/objects/a" && touch "$state/cache/objects/ccache.conf"
  for n in 1 2 3 4 5; do
    compiling_source "$driver" "535.261.0$n"
    build
    assert_status 0
  done
  objects=$state/cache/objects
  [ "$(find "$objects" -mindepth 1 -maxdepth 1 -type d | wc -l)" -eq 4 ]
  [ "$(find "$objects" -mindepth 1 -maxdepth 1 -name '*.lock' | wc -l)" -eq 4 ]
  refute [ -e "$objects/a" ]
  refute [ -e "$objects/ccache.conf" ]
  assert_equal "$(stat -c %a "$state/cache" "$objects" "$state/.tmp" | xargs)" "700 700 700"
  build
  assert_equal "$(kept)" "[3,3,0]"
}

@test "another kernel: every probe runs, and no object with a changed header is reused" {
  build
  first=$(digest)
  rm -r "$state/headers"
  echo '#define CONFIG_NEW 1' >>"$work/headers.tar.d/usr/src/kernels/$kernel/include/generated/autoconf.h"
  tar -cf "$work/headers.tar" -C "$work/headers.tar.d" lib usr
  build
  assert_status 0
  assert_equal "$(asked)" 3
}

@test "killed halfway: the next compile continues" {
  echo 1.5 >"$driver/kernel-open/slow"
  host h100x2-unloaded
  "$KMODSMITH" build --root "$ROOT" "${options[@]}" >/dev/null 2>&1 3>&- &
  has_asked() { [ "$(asked 2>/dev/null)" = 3 ]; }
  soon has_asked
  kill -KILL $!
  wait $! 2>/dev/null || true
  build
  assert_status 0
  [ "$(jq .cache.probes <<<"$output")" -ge 1 ]
  [ "$(asked)" -le 2 ]
}

@test "a compile that failed at its end is not paid for twice: the next try has its objects and answers" {
  sed -i 's,objcopy .*,case "$$MAKEFLAGS" in *-j2*) & ;; *) echo "ld: final link failed: No space left on device"; exit 1 ;; esac,' \
    "$driver/kernel-open/Makefile"
  build
  assert_error E_BUILD "ld: final link failed: No space left on device"
  assert_equal "$(asked)" 3
  build --jobs 2
  assert_status 0
  assert_equal "$(kept) $(asked)" "[3,3,0] 0"
}

@test "as root with only the documented capabilities: compiled and cached, and a killed compile leaves nothing" {
  [ "$EUID" -eq 0 ] || skip "others have no rights to give up"
  local all
  all=$("$KMODSMITH" doctor --json | jq -r '.rights | map("+" + (.capability | ascii_downcase | .[4:])) | join(",")')
  mkdir -p "$state/.tmp/build.0/job/src"
  chown -R 65534:65534 "$state/.tmp/build.0/job"
  for want in '[0,0,3]' '[3,3,0]'; do
    run --separate-stderr setpriv --bounding-set "-all,$all" --inh-caps=-all "$KMODSMITH" build "${options[@]}"
    assert_status 0
    assert_equal "$(kept)" "$want"
    assert_equal "$(ls -A "$state/.tmp")" ""
  done
}

@test "two compiles at once share it" {
  host h100x2-unloaded
  "$KMODSMITH" build --root "$ROOT" "${options[@]}" >/dev/null 2>&1 3>&- &
  "$KMODSMITH" build --root "$ROOT" "${options[@]}" --output "oci:$work/second" >/dev/null 2>&1
  wait $!
  build
  assert_status 0
  assert_equal "$(kept)" "[3,3,0]"
}

@test "a damaged cache only costs time" {
  build
  first=$(digest)
  find "$state/cache" -type f -size +0 -exec sh -c 'for f; do printf x | dd of="$f" bs=1 seek=20 conv=notrunc 2>/dev/null; done' _ {} +
  build
  assert_status 0
  assert_equal "$(asked)" 3
  assert_equal "$(digest)" "$first"
}

@test "a cache that cannot be written: everything is compiled" {
  mkdir -p "$state" && touch "$state/cache"
  build
  assert_status 0
  assert_equal "$(kept) $(asked)" "[0,0,0] 3"
}

@test "store gc --cache: reports its size and removes it, but not during a compile" {
  gc() { kmodsmith "store gc" --state-dir "$state" --cache "$@"; }
  build
  gc --dry-run --json
  assert_status 0
  [ "$(jq .cache_bytes <<<"$output")" -gt 10000 ]
  assert_equal "$(stat -c %a "$state/locks/cache")" 600
  exec 5<"$state/locks/cache"
  flock -s 5
  gc
  assert_error E_LOCKED "cache' is in use"
  build # shares it
  assert_equal "$(kept)" "[3,3,0]"
  exec 5<&- 6<"$state/cache"
  flock -x 6 # as every local user can
  build
  assert_equal "$(kept)" "[3,3,0]"
  gc
  assert_status 0
  [[ $output == *"removed: "*" bytes of the cache"* ]]
  [ ! -e "$state/cache" ]
  gc --json
  assert_json .cache_bytes 0
  build
  assert_equal "$(kept) $(asked)" "[0,0,3] 3"
}
