#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# check on real packages, by an ordinary user without network (R-F2): verdicts, exit codes, and what a run that was
# killed leaves behind.
# shellcheck disable=SC2153,SC2154 # bats, helper.bash and inputs.sh set stderr, top and the paths
load helper

setup_file() {
  local where=/tmp # the user must be able to enter it
  [[ $BATS_FILE_TMPDIR != /dev/shm/* ]] || where=/dev/shm
  work=$(mktemp -d "$where/kmodsmith-check.XXXXXX")
  mkdir "$work/state"
  "$BATS_TEST_DIRNAME/../../scripts/inputs.sh" >"$work/inputs.env"
  cp "${KMODSMITH:-$BATS_TEST_DIRNAME/../../build/release/kmodsmith}" "$work/kmodsmith"
  # shellcheck source=/dev/null # made a line above
  source "$work/inputs.env"
  # shellcheck disable=SC2086 # lists of files
  cp $K61_HEADERS $K61B_HEADERS ${K612_HEADERS-} "$OPEN" ${TESLA470-} "$work"
  chmod -R a+rX "$work"
  [ "$(id -u)" -ne 0 ] || chown 65534:65534 "$work/state"
  export work
}
teardown_file() { rm -rf "$work"; }
setup() {
  # shellcheck source=/dev/null # made by setup_file
  source "$work/inputs.env"
  headers61=$(files "$K61_HEADERS")
  headers61b=$(files "$K61B_HEADERS")
  open=$work/${OPEN##*/}
  user=(env -i HOME="$work/nobody" PATH="$PATH") # an ordinary one, without network where that can be arranged
  [ "$(id -u)" -ne 0 ] || user+=(unshare -n setpriv --reuid 65534 --regid 65534 --clear-groups)
}
files() { # FILES: as the list of an option, below the directory that the user can read
  local f list=
  for f in $1; do list+=${list:+,}$work/${f##*/}; done
  echo "$list"
}
needs_kbuild() { # the headers that are fetched have programs, which have to run here, or nothing can be built with them
  [ "$(uname -m)" = x86_64 ] || skip "the headers' programs are for x86_64"
}
check() { run --separate-stderr "${user[@]}" timeout $((5 * hung)) "$work/kmodsmith" check --state-dir "$work/state" "$@"; }

@test "help lists the exit codes" {
  check --help
  assert_status 0
  assert_regex "$(tr -s ' \n' ' ' <<<"$output")" '0 ok, 10 compatible .* 20 needs-build, 30 impossible; 1 and 2 are errors'
}

@test "a check killed halfway leaves nothing that looks complete; the next one answers needs-build" {
  needs_kbuild
  "${user[@]}" "$work/kmodsmith" check --state-dir "$work/state" --kernel "$K61" --headers "$headers61" \
    --source "$open" &
  local child=$! name
  has_begun() { [ "$(find "$work/state" -name '*.h' -print -quit)" ]; }
  soon has_begun
  kill -KILL "$child" # env, unshare and setpriv became the program itself
  wait "$child" || [ $? -eq 137 ]
  for name in "$work/state/headers"/*; do [ ! -e "$name" ]; done
  check --kernel "$K61" --headers "$headers61" --source "$open"
  assert_status 20
  assert_line --partial "needs-build: "
  assert_line "compared with: --headers: $(echo "$work"/state/headers/*)"
  run find "$work/state/.tmp" "$work/state/headers/.tmp" -mindepth 1
  assert_output ""
}

@test "the answer as JSON, with the source pinned" {
  needs_kbuild
  local pin
  pin=$(sha256sum <"$open" | cut -c1-64)
  check --kernel "$K61" --headers "$headers61" --source "$open" --source-sha256 "$pin" --json
  assert_status 20
  assert_json .verdict needs-build
  assert_json .exit 20
  assert_json .code null
  assert_json '.reason and (.evidence | contains("/headers/"))'
  [ "$stderr" = "" ]
}

@test "headers without a source: whether this kernel can be built for at all" {
  needs_kbuild
  check --kernel "$K61" --headers "$headers61"
  assert_status 20
}

@test "headers of another kernel are an error, even if the right ones are in the store" {
  needs_kbuild
  check --kernel "$K61B" --headers "$headers61"
  assert_status 1
  assert_error E_HEADERS_MISMATCH "$K61, expected $K61B"
  check --kernel "$K61B" --headers "$headers61b"
  assert_status 20
  check --kernel "$K61" --headers "$headers61b"
  assert_status 1
  assert_error E_HEADERS_MISMATCH "$K61B, expected $K61"
  check --kernel "$K61" --headers "$(files "${K61_HEADERS%% *}")"
  assert_status 1
  assert_error E_HEADERS_NOT_FOUND "which does not exist"
}

@test "a known-bad pair is impossible, with code, reason and next step, in words and as JSON" {
  [ -z "${LACKING-}" ] || skip "apt offers no $LACKING here"
  local pair=(--kernel "$K612" --headers "$(files "$K612_HEADERS")" --source "$work/${TESLA470##*/}")
  check "${pair[@]}"
  assert_status 30
  assert_line --partial "impossible: E_SOURCE_KERNEL: driver 470."
  assert_line --partial "next: use the driver version"
  check "${pair[@]}" --json
  assert_status 30
  assert_json .verdict impossible
  assert_json .code E_SOURCE_KERNEL
  assert_json '(.reason | test("follow_pfn")) and (.next | length > 10)'
}

@test "no headers anywhere: impossible, with the places that were searched" {
  local none=6.1.0-999-cloud-amd64 # made up
  check --kernel "$none"
  assert_status 30
  assert_line --partial "impossible: E_HEADERS_NOT_FOUND: headers of $none: host: "
  assert_line --partial "/usr/src/linux-headers-$none"
}

@test "a wrong digest, an unreadable file and another user's state directory" {
  check --source "$open" --source-sha256 "$(printf '0%.0s' {1..64})"
  assert_status 1
  assert_error E_DIGEST "expected 0000"
  check --source "$open" --source-sha256 abc
  assert_status 2
  assert_error E_USAGE "'abc' is not a digest"
  [ "$(id -u)" -eq 0 ] || skip "needs root to make files of another user"
  install -m 600 /dev/null "$work/secret.deb"
  echo x >"$work/secret.deb"
  check --source "$work/secret.deb"
  assert_status 1
  assert_error E_RIGHTS "--source: open '$work/secret.deb': Permission denied"
  check --headers "$work/secret.deb" --kernel "$K61"
  assert_error E_RIGHTS "--headers: open '$work/secret.deb'"
  install -d -m 755 "$work/theirs"
  run --separate-stderr "${user[@]}" "$work/kmodsmith" check --state-dir "$work/theirs" --kernel "$K61" \
    --headers "$headers61"
  assert_status 1
  assert_error E_RIGHTS "$work/theirs/headers"
  run --separate-stderr "${user[@]}" "$work/kmodsmith" check --state-dir "$work/theirs/mine"
  assert_error E_RIGHTS "--state-dir: make the directory '$work/theirs/mine'"
  run find "$work/theirs"
  assert_output "$work/theirs"
  run --separate-stderr "${user[@]}" "$work/kmodsmith" check --kernel "$K61"
  assert_status 30
  assert_regex "$stderr" "warn: kept packages are not visible.*'$work/nobody'"
}
