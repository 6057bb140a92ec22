#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What reaches the user: results that did not arrive are failures, JSON stays JSON, and help always works.
# shellcheck disable=SC2154 # bats and helper.bash set stderr, top and ROOT
load helper

@test "a result that cannot be written is a failure in every command" {
  local args
  for args in --version --help "explain" "explain E_ABI" "status --help" "status --root $top/tests/hosts/no-gpu" \
    "explain --json" "holders --root $top/tests/hosts/held --json"; do
    # shellcheck disable=SC2086 # several words
    run bash -c '"$0" "$@" 2>&1 >/dev/full' "$KMODSMITH" $args
    assert_status 1
    assert_output --partial ": write the result to standard output: "
    # shellcheck disable=SC2086
    run bash -c '"$0" "$@" 2>&1 >&-' "$KMODSMITH" $args
    assert_status 1
    assert_output --partial "standard output"
  done
}

@test "with closed descriptors, no output lands in a file that the command opens" {
  host h100x8
  run bash -c '"$0" nodes --root "$1" <&- >&- 2>&-' "$KMODSMITH" "$ROOT"
  assert_status 1
  assert_file_exist "$ROOT/dev/nvidia0"
  run cat "$ROOT/run/kmodsmith/lock"
  assert_output --regexp '^[0-9]+$'
}

@test "a reader that goes away early causes no crash" {
  run bash -c 'set -o pipefail; "$0" explain | head -n 1' "$KMODSMITH"
  assert_output --partial E_SYSTEM
}

@test "columns are aligned behind their longest word" {
  host h100x8
  kmodsmith doctor
  run awk '/^(pass|warn|FAIL|skip) / { match($0, /^[A-Za-z]+ +/); first = RLENGTH; match($0, /^[A-Za-z]+ +[a-z-]+( [a-z]+)?/); word = RLENGTH
    match($0, /^[A-Za-z]+ +[a-z-]+( [a-z]+)? +/); longest = word > longest ? word : longest; print first, RLENGTH }
    END { print first, longest + 2 }' <<<"$output"
  assert_equal "$(sort -u <<<"$output" | wc -l)" 1
  [ "${#lines[@]}" -gt 5 ]
}

@test "with --json anywhere on the command line an error is JSON, and the same error" {
  local args
  host h100x2-unloaded
  while IFS='|' read -r args code exit; do
    # shellcheck disable=SC2086 # several words
    run --separate-stderr "$KMODSMITH" $args
    assert_status "$exit"
    assert_json .error.code "$code"
    assert_json '.error | .reason and (.text | length > 5) and (.next | length > 10) and has("retryable")'
    assert_error "$code"
  done <<EOF
status --bogus --json|E_USAGE|2
status --json --bogus|E_USAGE|2
stall --json|E_USAGE|2
explain E_NONSENSE --json|E_NOT_FOUND|1
status --root /nowhere --json|E_NOT_FOUND|1
plan --root $ROOT --json|E_USAGE|2
build --json|E_USAGE|2
check --source /nowhere --json|E_NOT_FOUND|1
install --root $ROOT --package /nowhere --json|E_NOT_FOUND|1
EOF
  KMODSMITH_CONFIG=/nowhere run --separate-stderr "$KMODSMITH" status --json
  assert_json .error.code E_CONFIG
}

@test "-o json and --output json mean --json, where a command has no --output of its own" {
  local args asked
  host h100x8
  kmodsmith status --json
  asked=$output
  for args in "-o json" -ojson "--output json" --output=json; do
    # shellcheck disable=SC2086 # two words
    kmodsmith status $args
    assert_status 1
    assert_equal "$output" "$asked"
    # shellcheck disable=SC2086
    kmodsmith status $args --bogus
    assert_json .error.code E_USAGE
    # shellcheck disable=SC2086
    run --separate-stderr "$KMODSMITH" version $args
    assert_json .kind Version
  done
  kmodsmith status -o yaml
  assert_error E_USAGE "--output 'yaml': 'status' prints text, or json"
  assert_status 2
  kmodsmith status --outptu json
  assert_error E_USAGE "did you mean '--output'?"
  kmodsmith status --help
  assert_line --regexp '--json .*; or -o json$'
  kmodsmith build --help-all
  refute_line --regexp '--json .*-o json'
  cd "$BATS_TEST_TMPDIR"
  kmodsmith "cdi generate" -o json # a file of its own
  refute_output --partial apiVersion
}

@test "each document says its version and of which command it is, results, lists and errors alike" {
  local args kind
  host h100x8
  while IFS='|' read -r args kind; do
    # shellcheck disable=SC2086 # several words
    run --separate-stderr "$KMODSMITH" $args --json
    run jq -r 'to_entries[:2] | map("\(.key)=\(.value)") | join(" ")' <<<"$output" # the first two
    assert_output "apiVersion=output.kmodsmith.io/v1 kind=$kind"
  done <<EOF
status --root $ROOT|Status
store ls --root $ROOT|StoreLs
net check oci:/nowhere|NetCheck
plan --root $ROOT|Plan
driver-manager preflight|DriverManagerPreflight
--version|Version
stall|Kmodsmith
EOF
}

@test "machine names that are not UTF-8 neither break nor truncate the JSON" {
  host h100x8
  printf '\xff\xfe6.1\x01"\n' >"$ROOT/proc/sys/kernel/osrelease"
  printf '\xff' >"$ROOT/proc/version"
  printf '\xfe\n' >"$ROOT/sys/module/nvidia/version"
  head -c 4000 /dev/urandom >"$ROOT/proc/devices"
  kmodsmith status --json
  assert_json '.kernel | has("release") and has("build_id") and has("arch")'
  assert_json '.modules | length' 4
  kmodsmith doctor --json
  assert_json '.checks | length > 4'
  kmodsmith holders --json
  assert_json .looked_at 0
}

@test "control characters in a process name do not reach the terminal" {
  host held
  printf 'a\033[2Jb\n' >"$ROOT/proc/4242/comm"
  ln -s $'/dev/nvidia\n9\r' "$ROOT/proc/4242/fd/20"
  kmodsmith holders
  assert_status 0
  refute_output --partial $'\033'
  refute_output --partial $'\r'
  assert_line --partial 'pid 4242 a?[2Jb (uid 1000'
  assert_line --partial '/dev/nvidia?9?'
  kmodsmith holders --json
  assert_json '.processes[] | select(.path | test("nvidia\n9")) | .pid' 4242
}

@test "help works whatever is wrong with environment and configuration" {
  MAX_THREADS=many run --separate-stderr "$KMODSMITH" build --help
  assert_status 0
  KMODSMITH_CONFIG=/nowhere run --separate-stderr "$KMODSMITH" status --bogus --help
  assert_status 0
  assert_output --partial "Usage: kmodsmith status"
}

@test "configuration: a relative name, an empty one, and things that are not a file" {
  cd "$BATS_TEST_TMPDIR"
  echo 'json = yes' >conf
  KMODSMITH_CONFIG=conf run --separate-stderr "$KMODSMITH" explain E_ABI
  assert_status 0
  assert_json .code E_ABI
  KMODSMITH_CONFIG='' run --separate-stderr "$KMODSMITH" explain E_ABI
  assert_status 0
  mkfifo pipe
  for name in pipe /dev/zero . none; do
    KMODSMITH_CONFIG=$name run --separate-stderr timeout "$hung" "$KMODSMITH" explain E_ABI
    assert_status 2
    assert_error E_CONFIG "'$name'"
  done
}

@test "configuration < environment < flag, and each bad value names where it came from" {
  cd "$BATS_TEST_TMPDIR"
  export KMODSMITH_CONFIG=$PWD/conf
  while IFS='|' read -r line code text; do
    printf '# a comment\n\n%s\n' "$line" >conf
    run --separate-stderr "$KMODSMITH" build --source /nowhere
    assert_error "$code" "$text"
  done <<'EOF'
json|E_CONFIG|line 3: 'json' is not of the form KEY = VALUE
json = perhaps|E_CONFIG|line 3: json: 'perhaps' is not yes or no
jobs = many|E_CONFIG|line 3: jobs: 'many' is not a whole number
jobs = -1|E_CONFIG|line 3: jobs: '-1' is not a whole number
Jobs = 1|E_CONFIG|line 3: unknown key 'Jobs'
= 1|E_CONFIG|line 3: unknown key ''
log-format = xml|E_CONFIG|line 3, key 'log-format': --log-format 'xml' is not one of text, json
package = x|E_NOT_FOUND|'/nowhere'
EOF
  echo 'log-format = json' >conf
  KMODSMITH_LOG_FORMAT=text run --separate-stderr "$KMODSMITH" explain E_X
  assert_error E_NOT_FOUND
  KMODSMITH_LOG_FORMAT=text run --separate-stderr "$KMODSMITH" explain E_X --log-format=json
  [ "$(jq -r .code <<<"$stderr")" = E_NOT_FOUND ]
  MAX_THREADS=1e3 run --separate-stderr "$KMODSMITH" build --source /nowhere
  assert_error E_CONFIG "environment variable MAX_THREADS: jobs: '1e3' is not a whole number"
}

@test "status begins with one sentence: ready, or what is wrong first" {
  host h100x8
  kmodsmith status
  assert_line --index 0 --partial "Not ready: driver 535.261.03 is loaded, and 2 of 10 checks fail, first nodes: 0 of 21 correct"
  kmodsmith install 535.261.03
  kmodsmith status
  assert_line --index 0 "Ready: driver 535.261.03 (open), 8 GPUs, kernel 6.1.0-50-cloud-amd64"
  host pascal
  kmodsmith status
  assert_line --index 0 "Not ready: no driver is loaded for 1 GPU"
  host no-gpu
  kmodsmith status
  assert_line --index 0 "NO_GPU: no NVIDIA function on this machine, nothing to do"
}
