#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every driver source against every kernel: built, or refused in words. A pair that is neither is a failure.
#   scripts/matrix.sh [SOURCE@KERNEL...]    sources and kernels are keys of scripts/inputs.sh; default: all of them
#   scripts/matrix.sh --list                the names of all pairs, and `again`
#   scripts/matrix.sh today [GLOB...]       every driver source x every kernel that Debian offers in any suite today, as a table in
#                                           Markdown; GLOB: only these, as PACKAGE_VERSION@KERNEL. docs/drivers.md has one. No test: most of a night
# Built packages are kept in the cache, where the guests of tests/vm find them. `again`: the same module is made twice.
# The last line is "matrix: P passed, F failed, S skipped".
# shellcheck disable=SC1091,SC2154 # what is sourced defines of, package, cache, here and top
set -uo pipefail
pairs=$(for kernel in K61 K61B K61R K612; do for source in open proprietary tesla535 tesla470; do echo "$source@$kernel"; done; done
  for kernel in K13 K13B; do for source in open13 proprietary13 tesla13; do echo "$source@$kernel"; done; done)
[ "${1-}" != --list ] || { printf '%s\nagain@K61\n' "$pairs"; exit; }
. "$(dirname "$0")/../tests/vm/cache.sh"
# shellcheck source=../tests/vm/packages.sh
. "$here/packages.sh"
# shellcheck source=../tests/vm/today.sh
. "$here/today.sh"
set +e
# shellcheck disable=SC2086 # several names
[ $# -gt 0 ] || set -- $pairs again@K61
use_inputs "$@"
kmodsmith=${KMODSMITH:-$top/build/release/kmodsmith}
passed=0 failed=0

verdict() { # WORD SOURCE KEY RESULT DETAIL: one line, and it counts
  printf '%s - %-12s %-32s %-16s %6d s  %s\n' "$1" "$2" "$(of "$3")" "$4" $((SECONDS - start)) "$5"
  if [ "$1" = ok ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}
row() { # SOURCE KEY
  local log dir said headers patches state tools
  log=$(mktemp)
  headers=$(of "$2" _HEADERS)
  tools=$(tools_of "$2")
  state=$(state_with "$tools")
  said=$("$kmodsmith" check --source "$(of "${1^^}")" --kernel "$(of "$2")" --headers "${headers// /,}" --state-dir "$state" --json)
  if grep -q '"code": "E_SOURCE_KERNEL"' <<<"$said"; then
    verdict ok "$1" "$2" E_SOURCE_KERNEL "$(jq -r '[.. | .reason? // empty][0]' <<<"$said")"
  elif dir=$(package "$1" "$2" 2>"$log"); then
    patches=$(grep -o '\.patch ' "$(blob_of "$dir/layout" config)" | wc -l)
    verdict ok "$1" "$2" built "$(du -shL "$dir/modules" | cut -f1), patches: $patches"
  else
    verdict "not ok" "$1" "$2" FAILED "$(tail -n 2 "$log" | head -n 1)" && sed 's/^/# /' "$log"
  fi
  rm -f "$log"
}
if [ "$1" = today ]; then
  today "${@:2}"
  set --
fi
for pair in "$@"; do
  start=$SECONDS
  if [ "${pair%@*}" = again ]; then again "${pair#*@}"; else row "${pair%@*}" "${pair#*@}"; fi
done
echo "matrix: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
