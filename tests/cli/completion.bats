#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What bash offers after TAB, asked of bash itself.
# shellcheck disable=SC2154 # bats and helper.bash set top
load helper

setup_file() {
  local build # the file of this very program, where it lies where make put it
  build=$(basename "$(dirname "$(realpath "$KMODSMITH")")")
  [ "$(realpath "$KMODSMITH")" = "$(realpath "$top")/build/$build/kmodsmith" ] || build=release
  make_in "$build" "build/$build/completion/kmodsmith"
  export COMPLETION=$top/build/$build/completion/kmodsmith
}
offers() { # WORD...: the last is what was typed so far; one offer a line
  run bash -c 'source "$1"; COMP_WORDS=(kmodsmith "${@:2}"); COMP_CWORD=$(($# - 1)); _kmodsmith; printf "%s\n" "${COMPREPLY[@]}"' - "$COMPLETION" "$@"
}

@test "bash completes every command, verb and option" {
  local name option
  offers ""
  while read -r name; do
    assert_line "${name%% *}"
  done < <(commands)
  offers ins
  assert_output install
  while read -r name; do
    # shellcheck disable=SC2086 # a command may have two words
    offers $name --
    # shellcheck disable=SC2086
    for option in $("$KMODSMITH" $name --help | sed -nE 's/^ {2,6}(-[a-z], )?(--[a-z0-9-]+).*/\2/p'); do
      assert_line -- "$option"
    done
  done < <(commands)
  offers store g
  assert_output gc
  offers help store p
  assert_output $'pin'
}

@test "bash completes the words of an option, files, and error codes" {
  offers install --flavour p
  assert_output proprietary
  offers install --flavour = o
  assert_output open
  offers bundle create -f b
  assert_output both
  offers explain E_IN
  assert_output $'E_INCOMPLETE\nE_IN_USE'
  offers probe r
  assert_output readiness
  cd "$BATS_TEST_TMPDIR"
  touch driver.run
  offers install --source dri
  assert_output driver.run
  offers install --driver dri
  assert_output ""
  offers bundle verify dri
  assert_output driver.run
}
