#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# P6: the node has booted into a kernel whose CRCs are those of the one before, and its store has the package of that one.
# How long the decision takes (whole command, and the phase alone), and which programs it starts: it must start none, so no
# compiler either. From CRCs of the kernel's image, and from Module.symvers of its headers.
#   tests/bench/reuse.sh KMODSMITH
set -euo pipefail
kmodsmith=$1
# shellcheck source=tests/vm/cache.sh
. "$(dirname "$0")/../vm/cache.sh"
# shellcheck source=tests/vm/packages.sh
. "$top/tests/vm/packages.sh"
release=$(of K61) before=$(of K61B) driver=$(driver_version OPEN)
package=$(package open K61B)
kernel=$(kernel K61)
headers=$(headers K61)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cp -a "$top/tests/hosts/h100x2-unloaded" "$work/root"
cp -a "$kernel"/{boot,lib} "$work/root"
"$kmodsmith" fetch --quiet --root "$work/root" --driver "$driver" --flavour open --kernel "$before" \
  --from "oci:$package/layout" --insecure-skip-verify >/dev/null 2>&1
plan="$kmodsmith plan --root $work/root --driver $driver --flavour open"

phase() { # of 15 plans: "MEDIAN LOW HIGH" of the phase, in ms
  for _ in {1..15}; do $plan 2>&1 >/dev/null | sed -nE 's/^kmodsmith: reuse +([0-9.]+) s .*/\1/p'; done | sort -n |
    awk '{ v[NR] = $1 * 1000 } END { printf "%.0f %.0f %.0f", v[int((NR + 1) / 2)], v[1], v[NR] }'
}
measure() { # NAME
  local median low high programs
  read -r median low high <<<"$(phase)"
  # shellcheck disable=SC2086 # a command with its arguments
  programs=$(strace -f -qq -e trace=execve,execveat $plan 2>&1 >/dev/null | grep -c '^\(\[pid.*\] \)\?execve' || true)
  printf 'row\tP6\tdecision, %s\tnative\tms\t%s\t%s\t%s\n' "$1" "$median" "$low" "$high"
  printf 'row\tP6\tprograms started, %s\tnative\t\t%s\n' "$1" $((programs - 1))
  TMPDIR=$work lap 15 "P6 whole plan, $1" kmodsmith "" "$plan" "true (a process)" "" true
}

$plan --json 2>/dev/null | jq -e --arg before "$before" '.compatible.made_for == $before' >/dev/null ||
  { echo "bench: the package of $before does not serve $release" >&2; exit 1; }
measure "CRCs of the kernel's image"
cp -a "$headers/usr" "$work/root"
measure "CRCs of the headers"
