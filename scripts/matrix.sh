#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every driver source against every kernel: built, or refused in words. A pair that is neither is a failure.
#   scripts/matrix.sh [SOURCE@KERNEL...]    sources and kernels are keys of scripts/inputs.sh; default: all of them
#   scripts/matrix.sh --list                the names of all pairs, and `again`
# Built packages are kept in the cache, where the guests of tests/vm find them. `again`: the same module is made twice.
# The last line is "matrix: P passed, F failed, S skipped".
# shellcheck disable=SC1091,SC2154 # what is sourced defines of, package, cache, here and top
set -uo pipefail
pairs=$(for kernel in K61 K61B K61R K612; do for source in open proprietary tesla535 tesla470; do echo "$source@$kernel"; done; done)
[ "${1-}" != --list ] || { printf '%s\nagain@K61\n' "$pairs"; exit; }
. "$(dirname "$0")/../tests/vm/cache.sh"
# shellcheck source=../tests/vm/packages.sh
. "$here/packages.sh"
set +e
# shellcheck disable=SC2086 # several names
[ $# -gt 0 ] || set -- $pairs again@K61
kmodsmith=${KMODSMITH:-$top/build/release/kmodsmith}
passed=0 failed=0

verdict() { # WORD SOURCE KEY RESULT DETAIL: one line, and it counts
  printf '%s - %-12s %-32s %-16s %6d s  %s\n' "$1" "$2" "$(of "$3")" "$4" $((SECONDS - start)) "$5"
  if [ "$1" = ok ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}
row() { # SOURCE KEY
  local log dir said headers patches
  log=$(mktemp)
  headers=$(of "$2" _HEADERS)
  said=$("$kmodsmith" check --source "$(of "${1^^}")" --kernel "$(of "$2")" --headers "${headers// /,}" --state-dir "$cache/build" --json)
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
again() { # KEY: R-C2: the same module, made in another directory, at another time, in another set and from a list, is the same file.
  local first again
  first=$(package open "$1") again=$(mktemp -d)
  jq -n --arg source "$OPEN" --arg release "$(of "$1")" --arg headers "$(of "$1" _HEADERS)" \
    '{drivers: [{$source}], kernels: [{$release, headers: ($headers / " ")}], modules: ["nvidia"]}' >"$again/matrix.json"
  if "$kmodsmith" build --quiet --matrix "$again/matrix.json" --state-dir "$again/state" --output "oci:$again/layout" >/dev/null 2>"$again/log" &&
    tar --zstd -xf "$(blob_of "$again/layout" layers)" -C "$again" && cmp "$first/modules/nvidia.ko" "$again"/opt/lib/modules/*/nvidia.ko; then
    verdict ok open "$1" "made again" "the same bytes"
  else
    verdict "not ok" open "$1" "made again" "$(tail -n 2 "$again/log" | head -n 1)"
  fi
  rm -rf "$again"
}
for pair in "$@"; do
  start=$SECONDS
  if [ "${pair%@*}" = again ]; then again "${pair#*@}"; else row "${pair%@*}" "${pair#*@}"; fi
done
echo "matrix: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
