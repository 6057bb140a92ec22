#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Are the bytes of a compile by fork servers those of one without? Each driver source for each kernel is compiled both ways,
# and the digests of the packages are compared; a pair that does not compile has to fail both ways.
#   tests/bench/same.sh KMODSMITH [SOURCE:KERNEL...]    keys of scripts/inputs.sh; all of them, unless named: an hour
set -euo pipefail
kmodsmith=$1 pairs=("${@:2}")
# shellcheck source=tests/vm/cache.sh
. "$(dirname "$0")/../vm/cache.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ "${#pairs[@]}" -gt 0 ] || pairs=({OPEN,PROPRIETARY,TESLA535,TESLA470}:{K61,K61B,K61R,K612})

compile() { # SOURCE KERNEL [OPTION] -> "DIGEST COMPILES" in one line, or "none none"
  local debs
  debs=$(of "$2" _HEADERS)
  "$kmodsmith" build --source "$(of "$1")" --headers "${debs// /,}" --kernel "$(of "$2")" "${@:3}" --json \
    --state-dir "$work/state" --output "oci:$work/out" 2>"$work/log" | jq -r '"\(.digest // "none") \(.forked // "none")"'
  rm -rf "$work/state" "$work/out"
}
different=0
for pair in "${pairs[@]}"; do
  forked=$(compile "${pair%:*}" "${pair#*:}" || true)
  alone=$(compile "${pair%:*}" "${pair#*:}" --no-cache || true)
  verdict=same
  [ "${forked% *}" = "${alone% *}" ] || { verdict=DIFFERENT; different=$((different + 1)); }
  printf '%-20s %s  %s compiles forked, %s  %s\n' "$pair" "$verdict" "${forked#* }" "${alone#* }" "${forked% *}"
done
printf 'row\tP5\tpackages with other bytes without fork servers, of %s\tnative\t\t%s\n' "${#pairs[@]}" "$different"
[ "$different" -eq 0 ]
