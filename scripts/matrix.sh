#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every driver source against every kernel: built, or refused in words. A pair that is neither is a failure.
#   scripts/matrix.sh [KERNEL-KEY...]    keys of scripts/inputs.sh; default: the two newest 6.1 and the newest 6.12
# Built packages are kept in the cache, where the guests of tests/vm find them. The last line is
# "matrix: P passed, F failed, S skipped".
# shellcheck disable=SC1091,SC2154 # what is sourced defines of, package, cache, here and top
set -uo pipefail
. "$(dirname "$0")/../tests/vm/cache.sh"
# shellcheck source=../tests/vm/packages.sh
. "$here/packages.sh"
set +e
[ $# -gt 0 ] || set -- K61 K61B K612
kmodsmith=${KMODSMITH:-$top/build/release/kmodsmith}
passed=0 failed=0
printf '%-12s %-32s %-16s %8s  %s\n' source kernel result seconds detail

row() { # NAME KEY: one line, and the verdict in $result
  local start detail='' dir release said headers
  release=$(of "$2")
  headers=$(of "$2" _HEADERS)
  start=$(date +%s%N)
  said=$("$kmodsmith" check --source "$(of "${1^^}")" --kernel "$release" --headers "${headers// /,}" --state-dir "$cache/build" --json)
  if grep -q '"code": "E_SOURCE_KERNEL"' <<<"$said"; then
    result=E_SOURCE_KERNEL detail=$(sed -n 's/^ *"reason": "\(.*\)",$/\1/p' <<<"$said")
  elif dir=$(package "$1" "$2" 2>"$cache/matrix.log"); then
    result=built detail="$(du -shL "$dir/modules" | cut -f1), patches: $(grep -o '\.patch ' "$(blob_of "$dir/layout" config)" | wc -l)"
  else
    result=FAILED detail=$(tail -n 2 "$cache/matrix.log" | head -n 1)
  fi
  printf '%-12s %-32s %-16s %8.1f  %s\n' "$1" "$release" "$result" "$(($(date +%s%N) - start))e-9" "$detail"
}

for key in "$@"; do
  for name in open proprietary tesla535 tesla470; do
    row "$name" "$key"
    if [ "$result" = FAILED ]; then failed=$((failed + 1)); else passed=$((passed + 1)); fi
  done
done
# R-C2: the same module, made in another directory, at another time, in another set and from a list, is the same file.
first=$(package open "$1") again=$(mktemp -d)
jq -n --arg source "$OPEN" --arg release "$(of "$1")" --arg headers "$(of "$1" _HEADERS)" \
  '{drivers: [{$source}], kernels: [{$release, headers: ($headers / " ")}], modules: ["nvidia"]}' >"$again/matrix.json"
"$kmodsmith" build --quiet --matrix "$again/matrix.json" --state-dir "$again/state" --output "oci:$again/layout" \
  >/dev/null 2>"$cache/matrix.log"
if tar --zstd -xf "$(blob_of "$again/layout" layers)" -C "$again" && cmp "$first/modules/nvidia.ko" "$again"/opt/lib/modules/*/nvidia.ko; then
  passed=$((passed + 1)) && printf '%-12s %-32s %s\n' open "$(of "$1")" "made again: the same bytes"
else
  failed=$((failed + 1)) && tail -n 2 "$cache/matrix.log"
fi
rm -rf "$again"
echo "matrix: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
