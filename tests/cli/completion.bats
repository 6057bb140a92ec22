#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What bash and fish offer after TAB, asked of the shells themselves.
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

@test "fish completes every command, verb and option, words and files" {
  local name option fish=$BATS_TEST_TMPDIR/kmodsmith.fish
  command -v fish >/dev/null || skip "fish is not installed"
  "$(dirname "$COMPLETION")/../mkman" fish-completion >"$fish"
  fish_offers() { HOME=$BATS_TEST_TMPDIR run fish -c "source $fish; complete -C '$1'"; } # LINE
  fish_offers "kmodsmith "
  while read -r name; do
    assert_line --regexp "^${name%% *}"$'\t'
  done < <(commands)
  fish_offers "kmodsmith store g"
  assert_output $'gc\tremove packages that this machine no longer needs'
  fish_offers "kmodsmith install --flavour "
  assert_line --regexp '^open'$'\t'
  refute_line --regexp '^kmodsmith.fish'
  cd "$BATS_TEST_TMPDIR"
  fish_offers "kmodsmith install --source kmod"
  assert_line --regexp '^kmodsmith.fish'
  for name in install "store gc" "rollout status"; do
    fish_offers "kmodsmith $name --"
    # shellcheck disable=SC2086 # a command may have two words
    for option in $("$KMODSMITH" $name --help | sed -nE 's/^ {2,6}(-[a-z], )?(--[a-z0-9-]+).*/\2/p' | grep -vx -e --help); do
      assert_line --regexp "^$option"$'\t'
    done
  done
}
