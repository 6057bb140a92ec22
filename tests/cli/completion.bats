#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What bash, fish and zsh offer after TAB, asked of the shells themselves.
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
    for option in $("$KMODSMITH" $name --help-all | sed -nE 's/^ {2,6}(-[a-z], )?(--[a-z0-9-]+).*/\2/p'); do
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
    for option in $("$KMODSMITH" $name --help-all | sed -nE 's/^ {2,6}(-[a-z], )?(--[a-z0-9-]+).*/\2/p' | grep -vx -e --help -e --help-all); do
      assert_line --regexp "^$option"$'\t'
    done
  done
}

# zsh completes in a terminal only. Here the words arrive as they do there, and what the file asks of zsh is printed: the names of
# _describe, the specifications of _arguments.
zsh_offers() { # WORD...: the last is what was typed so far
  run zsh -f -c '_describe() { print -rl -- ${(P)@[-1]}; }; _arguments() { print -rl -- "${(@)argv[4,-1]}"; }
    kmodsmith() { local -a words=(kmodsmith "$@"); local -i CURRENT=$(( $# + 1 )); source $file; }
    file=$1; kmodsmith "${@[2,-1]}"' - "$BATS_TEST_TMPDIR/_kmodsmith" "$@"
}
@test "zsh is told every command, verb and option, words and files" {
  command -v zsh >/dev/null || skip "zsh is not installed"
  "$(dirname "$COMPLETION")/../mkman" zsh-completion >"$BATS_TEST_TMPDIR/_kmodsmith"
  local name option
  zsh_offers ""
  while read -r name; do
    assert_line --regexp "^${name%% *}:."
  done < <(commands)
  zsh_offers store ""
  assert_line 'gc:remove packages that this machine no longer needs'
  while read -r name; do
    # shellcheck disable=SC2086 # a command may have two words
    zsh_offers $name --
    # shellcheck disable=SC2086
    for option in $("$KMODSMITH" $name --help-all | sed -nE 's/^ {2,6}(-[a-z], )?(--[a-z0-9-]+).*/\2/p'); do
      assert_line --regexp "^$option=?\[..*\]"
    done
    refute_line --regexp '[^\\]\[.*[^\\]\[.*\]$' # a bracket in an explanation would end it
  done < <(commands)
  zsh_offers install --fl
  assert_line --regexp '^--flavour=\[.*\]:.*:\(auto open proprietary\)$'
  assert_line --regexp '^-d\+\[driver version.*\]:VERSION: $'
  assert_line --regexp '^--source=\[.*\]:.*:_files$'
  zsh_offers probe ""
  assert_line --regexp '^1:.*:\(startup readiness liveness\)$'
}
