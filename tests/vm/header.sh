# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the first comment lines of a guest script say (guest.sh lists the words), and which guests there are.

header() { # SCRIPT NAME DEFAULT [KEY]: "# NAME@13: " has other words for the kernels of Debian 13
  local value=
  case ${4-} in K13*) value=$(sed -n "/^[^#]/q; s/^# $2@13: *//p" "$1") ;; esac
  [ -n "$value" ] || value=$(sed -n "/^[^#]/q; s/^# $2: *//p" "$1")
  echo "${value:-$3}"
}

boots() { # SCRIPT: how often its machine is started: "# boots: FEWER ALL" has a number for CHECK=check and one for all
  local fewer all
  read -r fewer all <<<"$(header "$1" boots 1)"
  if [ "${CHECK:-all}" = check ]; then echo "$fewer"; else echo "${all:-$fewer}"; fi
}

is_guest() { [[ -f $1 && $1 =~ (^|/)[0-9][0-9]-[^/]*\.sh$ ]]; }

guests() { # DIR|TEST[@KEY]...: a line SCRIPT and a line KEY for each guest
  local test script key keys found only
  for test in "$@"; do
    found='' only=''
    if [[ ${test##*/} == *@* ]]; then only=${test##*@} test=${test%@*}; fi
    for script in "$test" "$(dirname "${BASH_SOURCE[0]}")/${test##*/}"*.sh; do
      is_guest "$script" || continue
      keys=$(header "$script" kernel K61)
      for key in $keys; do
        [ -z "$only" ] || [ "$only" = "$key" ] || continue
        found=1
        printf '%s\n' "$script" "$key"
      done
    done
    [ -n "$found" ] || { echo "vm: no test '$test'${only:+ on a kernel $only}" >&2; return 1; }
  done
}
