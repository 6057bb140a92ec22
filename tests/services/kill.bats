#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A fetch killed at any instant: what it leaves verifies, the package is there whole or not at all, and the next fetch
# goes on where this one stopped. Killed is before a system call that changes or opens something, at points that are
# spread evenly over an undisturbed fetch.
# shellcheck disable=SC2154 # bats and the helpers set status, output and state
load helper

POINTS=54
CALLS=write,pwrite64,openat,openat2,renameat,renameat2,fsync,ftruncate,unlinkat,mkdirat,flock

setup_file() {
  nginx_start plain "$BATS_FILE_TMPDIR/from"
  DIGEST=$(make_layout "$BATS_FILE_TMPDIR/from" --pad 3000000)
  export DIGEST
  openssl genpkey -algorithm ED25519 -out "$BATS_FILE_TMPDIR/release.key"
  openssl pkey -in "$BATS_FILE_TMPDIR/release.key" -pubout -out "$BATS_FILE_TMPDIR/release.pem"
  "$KMODSMITH" sign "$BATS_FILE_TMPDIR/from" --key "$BATS_FILE_TMPDIR/release.key" --catalog
  "$KMODSMITH" trust add "$BATS_FILE_TMPDIR/release.pem" --trust-dir "$BATS_FILE_TMPDIR/trust"
}
teardown_file() { servers_stop; }

traced() { # FROM STRACE-OPTION...: a signed fetch into the store of $state
  run timeout "$hung" strace -E ASAN_OPTIONS=detect_leaks=0 -f -qq -e signal=none "${@:2}" "$KMODSMITH" fetch --driver "$DRIVER" --flavour open --kernel "$KERNEL" \
    --from "$1" --trust-dir "$BATS_FILE_TMPDIR/trust" --state-dir "$state"
}
calls_of() { # FROM: "CALL N", the N-th of its kind, for every call of an undisturbed fetch from the first that writes on
  fresh
  traced "$1" -o "$BATS_TEST_TMPDIR/trace" -e "trace=$CALLS"
  assert_success
  sed -nE 's/^[0-9]+ +([a-z0-9]+)\((.*)/\1 \2/p' "$BATS_TEST_TMPDIR/trace" |
    awk '{ n[$1]++ } /^mkdirat/ { begun = 1 } begun { print $1, n[$1] }'
}
killed_at() { # FROM CALL N: a fetch into the store of $state that is killed there
  traced "$1" -o "$BATS_TEST_TMPDIR/last" -e "trace=$2" -e "inject=$2:signal=KILL:when=$3"
  [ "$status" -eq 137 ] || fail "$2 $3 is no point of this fetch: status $status, $output"
}
assert_sound() { # WHEN: the store verifies (what the index names is read), and has one package or none: $there
  run "$KMODSMITH" store verify --state-dir "$state"
  [ "$status" -eq 0 ] || fail "$1: the store does not verify: $output"
  run --separate-stderr "$KMODSMITH" store ls --json --state-dir "$state"
  [ "$status" -eq 0 ] || fail "$1: the store cannot be listed: $output"
  there=$(grep -cF "\"tag\": \"$TAG\"" <<<"$output") || [ "$(jq -c .items <<<"$output")" = "[]" ]
}
undisturbed() { # FROM
  traced "$1" -o /dev/null -e trace=none
  assert_success
  assert_sound "$1 again"
  assert_equal "$there" 1
  assert_layout "$state/store" "$DIGEST"
  run -0 "$KMODSMITH" store gc --state-dir "$state" # what nothing names goes
  assert_equal "$(find "$state" -name '*.part' -o -type f -name '*.tmp' -o -path '*/.tmp/*')" ""
}
everywhere() { # FROM
  local call n seen=0 whole=0
  calls_of "$1" >"$BATS_TEST_TMPDIR/calls"
  awk -v most="$POINTS" '{ line[NR] = $0 } END { for (i = 0; i < most; i++) print line[1 + int(i * (NR - 1) / (most - 1))] }' \
    "$BATS_TEST_TMPDIR/calls" | uniq >"$BATS_TEST_TMPDIR/points"
  while read -r call n; do
    fresh
    killed_at "$1" "$call" "$n"
    assert_sound "$call $n"
    seen=$((seen + 1)) whole=$((whole + there))
    ((seen % 18)) || undisturbed "$1"
  done <"$BATS_TEST_TMPDIR/points"
  [ "$seen" -ge 50 ] || fail "only $seen points"
  ((whole > 0 && whole < seen)) || fail "$whole of $seen were whole: not all of the fetch was seen"
  undisturbed "$1"
}

@test "a fetch from a layout, killed at every part of its way" { everywhere "oci:$BATS_FILE_TMPDIR/from"; }
@test "a fetch from a web server, killed at every part of its way" { everywhere "$NGINX_PLAIN"; }

@test "fetches that are killed one after the other in the same store" {
  local call n
  calls_of "$NGINX_PLAIN" | awk 'NR % 23 == 0' >"$BATS_TEST_TMPDIR/points"
  fresh
  while read -r call n; do
    traced "$NGINX_PLAIN" -o /dev/null -e "trace=$call" -e "inject=$call:signal=KILL:when=$n" # or done before
    assert_sound "$call $n"
  done <"$BATS_TEST_TMPDIR/points"
  undisturbed "$NGINX_PLAIN"
}

@test "what was there of the layer when it was killed is not fetched again" {
  local call n have
  calls_of "$NGINX_PLAIN" >/dev/null
  read -r call n < <(sed -nE 's/^[0-9]+ +([a-z0-9]+)\((.*)/\1 \2/p' "$BATS_TEST_TMPDIR/trace" |
    awk '{ n[$1]++ } $1 == "pwrite64" && $NF > 10000 { print $1, n[$1] }' | tail -n 1) # the last of the layer
  fresh
  killed_at "$NGINX_PLAIN" "$call" "$n"
  have=$(stat -c %s "$state"/store/blobs/sha256/.*.part)
  [ "$have" -gt 1000000 ]
  : >"$SERVERS/nginx-plain.access"
  undisturbed "$NGINX_PLAIN"
  run grep -F "range=bytes=$have-" "$SERVERS/nginx-plain.access"
  assert_output --regexp "^GET /blobs/sha256/[0-9a-f]{64} 206 [0-9]+ "
}
