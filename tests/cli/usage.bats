#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What every command has in common: help, usage errors, codes, configuration.
# shellcheck disable=SC2016,SC2154 # quotes around the commands of messages; bats and helper.bash set stderr and top
load helper

@test "help lists the commands and explains each" {
  run commands
  assert_line plan
  assert_line install
  assert_line status
  local name
  while read -r name; do
    kmodsmith "$name" --help
    assert_status 0
    assert_output --partial "kmodsmith $name"
    assert_output --regexp '--json'
    assert_equal "$stderr" ""
  done < <(commands)
}

@test "a group lists its verbs, and refuses an unknown one with the list" {
  local group verb
  for group in $(groups); do
    kmodsmith "$group" --help
    assert_status 0
    assert_equal "$stderr" ""
    kmodsmith "$group"
    assert_status 2
    assert_output ""
    assert_regex "$stderr" "Usage: kmodsmith $group VERB"
    run --separate-stderr "$KMODSMITH" "$group" stall --json
    assert_status 2
    assert_json .error.code E_USAGE
    for verb in $(commands | sed -n "s/^$group //p"); do
      assert_error E_USAGE "$verb"
    done
    run --separate-stderr "$KMODSMITH" "$group ${verb:?}"
    assert_error E_USAGE "unknown command '$group $verb'"
  done
}

@test "help is grouped, and help COMMAND is what COMMAND --help prints" {
  local name
  run --separate-stderr "$KMODSMITH" help
  assert_status 0
  assert_line "The driver on this machine:"
  assert_equal "$stderr" ""
  while read -r name; do
    # shellcheck disable=SC2086 # a command may have two words
    assert_equal "$("$KMODSMITH" help $name)" "$("$KMODSMITH" $name --help)"
  done < <(commands)
  assert_equal "$("$KMODSMITH" help store)" "$("$KMODSMITH" store --help)"
  run --separate-stderr "$KMODSMITH" help instalk
  assert_error E_USAGE "did you mean 'install'?"
  assert_status 2
  run --separate-stderr "$KMODSMITH" help store lss
  assert_error E_USAGE "did you mean 'ls'?"
}

# What somebody wants who has only the helps: the help where it is looked for, and what has to be typed. The list of commands leads there.
@test "ten tasks of a beginner, each by help alone" {
  local task page command rows=0
  kmodsmith help
  printf '%s\n' "$output" >"$BATS_TEST_TMPDIR/commands"
  while IFS='|' read -r task page command; do
    grep -qE "^  ${page%% *} " "$BATS_TEST_TMPDIR/commands" || fail "$task: the list of commands has no ${page%% *}"
    kmodsmith "$page" --help
    assert_output --partial "$command"
    rows=$((rows + 1))
  done <<'EOF'
can this machine run the driver|doctor|kmodsmith doctor --driver 580.95.05
what would happen|plan|kmodsmith plan --source NVIDIA-Linux-x86_64-535.261.03.run
install NVIDIA's file|install|kmodsmith install --source FILE
at each boot|install|/etc/kmodsmith/kmodsmith.conf
containers get libcuda|install|--export /run/nvidia/driver
is it well|status|kmodsmith status
who keeps the driver in use|holders|kmodsmith holders
take it away|unload|kmodsmith unload --holders wait
go back to an earlier driver|install|what `kmodsmith store ls` lists, also to go back to it
why did the compile fail|logs|kmodsmith logs
sign with a key of one's own|sign|openssl genpkey
trust that key|trust add|kmodsmith trust add site.pem
Secure Boot|trust enroll|kmodsmith trust enroll --new keys
EOF
  [ "$rows" -ge 10 ]
}

@test "on a terminal help has the terminal's width" {
  local columns
  for columns in 60 100; do
    script -qec "stty cols $columns; '$KMODSMITH' install --help" /dev/null | tr -d '\r' |
      sed '/^Examples:/,/^$/d' | awk '{ if (length > most) most = length } END { print most }' >"$BATS_TEST_TMPDIR/most"
    [ "$(cat "$BATS_TEST_TMPDIR/most")" -le "$columns" ]
    [ "$(cat "$BATS_TEST_TMPDIR/most")" -gt $((columns - 10)) ]
  done
}

@test "a misspelt command, verb, option or value is answered with the nearest" {
  local words hint
  while IFS='|' read -r words hint; do
    # shellcheck disable=SC2086 # words of a command line
    run --separate-stderr "$KMODSMITH" $words
    assert_error E_USAGE "did you mean '$hint'?"
    assert_status 2
  done <<'EOF'
instalk|install
stauts --json|status
trust remov x|remove
install --diver 535.261.03|--driver
install --flavour opn|open
unload --holders stopq|stop
EOF
}

@test "an option before the command is shown behind it" {
  run --separate-stderr "$KMODSMITH" --json status
  assert_status 2
  assert_error E_USAGE "'--json' stands before the command; options come after it"
  assert_regex "$stderr" 'next: `kmodsmith status --json`$'
}

@test "--version prints a version" {
  run --separate-stderr "$KMODSMITH" --version
  assert_status 0
  assert_output --regexp '^kmodsmith [0-9]+\.[0-9]+\.[0-9]+( \(commit [0-9a-f]{12}(-dirty)?\))?$'
}

@test "without a command, with an unknown one or with an unknown option the exit status is 2" {
  run "$KMODSMITH"
  assert_status 2
  run --separate-stderr "$KMODSMITH" stall
  assert_error E_USAGE "'stall'"
  assert_status 2
  local name
  while read -r name; do
    kmodsmith "$name" --no-such-option
    assert_error E_USAGE no-such-option
    assert_status 2
  done < <(commands)
}

@test "explain knows every code of the table and its next step" {
  local code codes
  mapfile -t codes < <(sed -nE 's/^X\((E_[A-Z_]+),.*/\1/p' "$top/installer/base/core/errors.def")
  for code in "${codes[@]}"; do
    kmodsmith explain "$code"
    assert_status 0
    assert_output --partial "Next: "
    kmodsmith explain "$code" --json
    echo "$output" >>"$BATS_TEST_TMPDIR/all"
  done
  run jq -r 'select(.next | length > 10).code' "$BATS_TEST_TMPDIR/all"
  assert_output "$(printf '%s\n' "${codes[@]}")"
  run --separate-stderr "$KMODSMITH" explain --json
  assert_json '.items | length >= 30'
}

@test "explain lists causes with commands, and takes a code however it is written" {
  local word
  run --separate-stderr "$KMODSMITH" explain E_IN_USE
  assert_line --regexp "^  1\. "
  assert_line "        kmodsmith holders"
  local want=$output
  for word in e_in_use IN_USE in-use; do
    run --separate-stderr "$KMODSMITH" explain "$word"
    assert_output "$want"
  done
  run --separate-stderr "$KMODSMITH" explain E_IN_USE --json
  assert_json '.causes[0].command' "kmodsmith holders"
  run --separate-stderr "$KMODSMITH" explain E_IN_USED
  assert_error E_NOT_FOUND "did you mean 'E_IN_USE'?"
}

@test "explain of an unknown code fails with a code" {
  run --separate-stderr "$KMODSMITH" explain E_NONSENSE
  assert_error E_NOT_FOUND E_NONSENSE
}

@test "an unknown key in the configuration is named with its line" {
  printf 'driver = 535.261.03\nno-such-key = 1\n' >"$BATS_TEST_TMPDIR/conf"
  KMODSMITH_CONFIG=$BATS_TEST_TMPDIR/conf run --separate-stderr "$KMODSMITH" explain
  assert_error E_CONFIG "line 2: unknown key 'no-such-key'"
  assert_status 2
}

@test "a configuration file that is named must exist" {
  KMODSMITH_CONFIG=$BATS_TEST_TMPDIR/none run --separate-stderr "$KMODSMITH" explain
  assert_error E_CONFIG "$BATS_TEST_TMPDIR/none"
}

@test "errors are JSON if JSON was requested, and standard output has nothing else" {
  run --separate-stderr "$KMODSMITH" explain E_NONSENSE --json
  assert_json .error.code E_NOT_FOUND
  assert_json '.error.next | length > 10'
}

@test "the log is one JSON object a line if requested" {
  run --separate-stderr "$KMODSMITH" explain E_NONSENSE --log-format json
  assert_status 1
  run jq -r .code <<<"$stderr"
  assert_output E_NOT_FOUND
}
