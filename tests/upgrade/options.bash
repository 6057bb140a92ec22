# shellcheck shell=bash disable=SC2086 # commands are of one word or two
# SPDX-License-Identifier: Apache-2.0
# What the program in $KMODSMITH understands, by its own help.

helps() { # each command, then its help
  local command
  while read -r command; do
    printf '= %s\n' "$command"
    "$KMODSMITH" $command --help-all 2>/dev/null || "$KMODSMITH" $command --help
  done < <(commands)
}
options() { # COMMAND: OPTION [ARGUMENT]
  helps | awk '/^= / { command = substr($0, 3); on = 0 } /^[A-Z].*:$/ { on = on || $0 == "Options:"; if (/^Examples:/) on = 0 }
    on && match($0, /^(  -[a-zA-Z], |      )--[a-z0-9-]+( [^ [][^ ]*)?/) {
    option = substr($0, RSTART, RLENGTH); sub(/^.*--/, "", option); print command ": " option }' | grep -v ': help' | sort -u
}
variables() { helps | tr -s ' \n' ' ' | grep -oE '\[[A-Z][A-Z_0-9]+\]' | tr -d '[]' | grep -vxE 'CODE|OPTIONS' | sort -u; }
