#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What the guests' tests keep between runs (tests/vm/cached.sh): made once, and anew when it was damaged.
# shellcheck disable=SC2154,SC2030,SC2031 # bats and helper.bash set stderr and top
load helper

setup() {
  export cache=$BATS_TEST_TMPDIR/cache made=$BATS_TEST_TMPDIR/made
  mkdir -p "$cache/vm"
  : >"$made"
  cat >"$BATS_TEST_TMPDIR/script" <<'EOF'
set -euo pipefail
. "$1/tests/vm/cached.sh"
fill() { echo "${2-}" >>"$made" && [ "${2-}" != bad ] && mkdir "$1/d" && echo 12345 >"$1/d/a" && echo 678 >"$1/b"; }
cached thing fill "${@:2}"
EOF
}
thing() { run --separate-stderr bash "$BATS_TEST_TMPDIR/script" "$top" "$@"; }

@test "the same inputs are built once, different ones separately" {
  thing one
  assert_success
  first=$output
  thing one
  assert_equal "$output" "$first"
  thing two
  assert_success
  refute [ "$output" = "$first" ]
  assert_equal "$(<"$made")" $'one\ntwo'
}

@test "a truncated, emptied or deleted result is built again, with a note" {
  thing one
  for damage in 'truncate -s 3 d/a' ': >b' 'rm b' 'rm -r d'; do
    (cd "$output" && eval "$damage")
    thing one
    assert_success
    assert_regex "$stderr" "is damaged .*made anew"
    assert_equal "$(<"$output/d/a")" 12345
    assert_equal "$(<"$output/b")" 678
  done
}

@test "files that a user adds beside the results do not count" {
  thing one
  : >"$output/lock"
  thing one
  assert_equal "$stderr" ""
  assert_equal "$(<"$made")" one
}

@test "a failed build is not kept, and its log is named" {
  thing bad
  assert_failure
  assert_regex "$stderr" "cannot make thing, see .*\.log"
  thing bad
  assert_failure
  assert_equal "$(<"$made")" $'bad\nbad'
}

@test "two at once build once" {
  thing slow &
  thing slow &
  wait
  assert_equal "$(wc -l <"$made")" 1
}
