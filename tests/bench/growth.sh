#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How processor time and peak memory grow with GPUs, installed kernels, packages, entries of a catalogue, processes and
# nodes: medians of the real command on made-up input of each size. Standard output is Markdown, a table and a curve for
# each; progress goes to standard error.
#   tests/bench/growth.sh KMODSMITH [DIMENSION...]    gpus kernels packages catalogue processes nodes; all of them
#
# The exponent is the slope between the last two sizes on logarithmic scales, of what exceeds the first size: 1 is linear,
# 2 quadratic, and n log n what the column beside it says. Less than 3 ms in all is "flat": that is the noise of a start.
# Below 50 ms the exponent says little.
set -euo pipefail
if [ "${1-}" = --in-namespace ]; then # proc, sys and dev as native.sh makes them; $host is a recorded machine
  KMODSMITH=$2 work=$3 sizes=$4
else
  KMODSMITH=$(realpath "$1")
  sizes=
  shift
fi
here=$(cd "$(dirname "$0")" && pwd)
DRIVER=$(<"$here/../hosts/h100x8/sys/module/nvidia/version") running=$(<"$here/../hosts/h100x8/proc/sys/kernel/osrelease")
export DRIVER
tell() { printf 'growth: %s\n' "$*" >&2; }
input() { python3 "$here/growth_input.py" "$@"; }
RUNS=3 before=: after=:

# Measures the command at each size of $sizes and prints one row. %n is the size.
row() { # NAME PREPARE COMMAND
  local n times=() used
  for n in $sizes; do
    tell "$1, $n"
    "$before" "$n"
    used=$("$work/growth" run "$RUNS" "${2//%n/$n}" "${3//%n/$n}")
    "$after"
    times+=("$n $used")
  done
  printf '%s\n' "${times[@]}" | awk -v name="$1" '
    function f(n) { return n * log(n < 2 ? 2 : n) }
    { n[NR] = $1; ms[NR] = $2; kib[NR] = $3 }
    END {
      grown = ms[NR] - ms[1]; before = ms[NR - 1] - ms[1]
      most = log((f(n[NR]) - f(n[1])) / (f(n[NR - 1]) - f(n[1]))) / log(n[NR] / n[NR - 1])
      slope = "flat"; verdict = "yes"
      if (grown >= 3) {
        if (before < 0.3) before = 0.3 # not measurable: what it would be at least
        slope = log(grown / before) / log(n[NR] / n[NR - 1])
        if (slope > most + 0.15) verdict = grown < 50 ? "?" : "**no**"
        slope = sprintf("%.2f", slope)
      }
      printf "| %s |", name
      for (i = 1; i <= NR; i++) printf " %s |", ms[i] < 100 ? sprintf("%.1f", ms[i]) : sprintf("%.0f", ms[i])
      printf " %s | %.2f | %s |", slope, most, verdict
      printf " %.1f to %.1f MiB, %.0f bytes each |\n", kib[1] / 1024, kib[NR] / 1024, (kib[NR] - kib[1]) * 1024 / (n[NR] - n[1])
      for (i = 1; i <= NR; i++) {
        bar = sprintf("%*s", 1 + 6 * log(1 + ms[i]) / log(2) / 2, ""); gsub(/ /, "#", bar)
        printf "%-34s %7d %s %.1f ms\n", i == 1 ? name : "", n[i], bar, ms[i] >>"/dev/fd/3"
      }
    }' 3>>"$work/curve"
}
begin() { # WHAT SIZES
  sizes=$2
  : >"$work/curve"
  printf '\n| %s, ms of processor time |' "$1"
  for n in $sizes; do printf " %s |" "$n"; done
  printf ' exponent | n log n | no worse | peak memory, and of one more |\n|---|'
  for n in $sizes; do printf -- '---|'; done
  printf -- '---|---|---|---|\n'
}
end() { printf '\n    %s\n' 'a column of # is a factor of 1.26 (the scale is logarithmic)' && sed 's/^/    /' "$work/curve"; }
machine() { # NAME [RECORDED-MACHINE]: a copy; by default of the one with eight GPUs and the driver loaded
  rm -rf "${work:?}/$1"
  cp -r "$here/../hosts/${2:-h100x8}" "$work/$1"
}

gpus() {
  local n lib=usr/lib/x86_64-linux-gnu
  begin GPUs '1 8 64 256'
  for n in $sizes; do
    machine "gpus$n"
    input gpus "$work/gpus$n" "$n"
    mkdir -p "$work/gpus$n/run/nvidia/driver"/{$lib,usr/bin,usr/libexec,lib/firmware/nvidia/"$DRIVER"}
    touch "$work/gpus$n/run/nvidia/driver/$lib"/lib{cuda,nvidia-ml}.so."$DRIVER" \
      "$work/gpus$n/run/nvidia/driver"/{usr/bin/nvidia-smi,usr/libexec/kmodsmith,lib/firmware/nvidia/"$DRIVER"/gsp_ga10x.bin}
    "$KMODSMITH" nodes --root "$work/gpus$n" >/dev/null
  done
  RUNS=9
  row 'nodes, all missing' "rm -rf $work/gpus%n/dev" "$KMODSMITH nodes --root $work/gpus%n"
  row 'nodes, all there' '' "$KMODSMITH nodes --root $work/gpus%n"
  row 'status' '' "$KMODSMITH status --root $work/gpus%n"
  row 'cdi generate' '' "$KMODSMITH cdi generate --root $work/gpus%n --export /run/nvidia/driver"
  row 'holders' '' "$KMODSMITH holders --root $work/gpus%n"
  row 'plan' '' "$KMODSMITH plan --root $work/gpus%n --driver $DRIVER --flavour open"
  end
}

kernels() {
  local n
  begin 'installed kernels' '1 8 64 512'
  for n in $sizes; do
    machine "kernels$n"
    input kernels "$work/kernels$n" "$n"
    mkdir -p "$work/kernels$n/var/lib/kmodsmith"
    input store "$work/kernels$n/var/lib/kmodsmith/store" 10 "$running"
    input matrix "$work/matrix$n" "$n"
  done
  RUNS=5
  row 'watch --once (looks at 64)' '' "-$KMODSMITH watch --once --no-compile --driver $DRIVER --root $work/kernels%n"
  row 'store gc --dry-run' '' "$KMODSMITH store gc --dry-run --root $work/kernels%n"
  row 'plan' '' "$KMODSMITH plan --driver $DRIVER --flavour open --root $work/kernels%n"
  row 'build --matrix, nothing to be had' '' \
    "-$KMODSMITH build --matrix $work/matrix%n/matrix.json --no-compile --output oci:$work/matrix%n/out --state-dir $work/matrix%n/state --root $work/kernels1"
  end
}

packages() {
  local n
  begin 'packages in the store' '10 100 1000 10000'
  for n in $sizes; do
    machine "packages$n"
    mkdir -p "$work/packages$n/var/lib/kmodsmith"
    input store "$work/packages$n/var/lib/kmodsmith/store" "$n" "$running"
  done
  RUNS=1
  row 'store ls' '' "$KMODSMITH store ls --root $work/packages%n"
  row 'store verify' '' "$KMODSMITH store verify --root $work/packages%n"
  row 'store gc --dry-run' '' "$KMODSMITH store gc --dry-run --root $work/packages%n"
  echo "rm -rf $work/gone\$1; cp -al $work/packages\$1 $work/gone\$1" >"$work/copy"
  row 'store gc' "sh $work/copy %n" "$KMODSMITH store gc --root $work/gone%n"
  row 'plan: the lookup of an install' '' "$KMODSMITH plan --driver $DRIVER --flavour open --root $work/packages%n"
  rm -rf "$work"/packages* "$work"/gone*
  end
}

catalogue() {
  local n kernel
  begin 'entries of a catalogue' '10 100 1000 10000'
  mkdir "$work/trust"
  echo '{"sources": [{"prefix": "oci:", "keys": [], "unsigned": "accept"}]}' >"$work/trust/policy.json"
  machine catalogue h100x2-unloaded
  kernel=$(<"$work/catalogue/proc/sys/kernel/osrelease")
  for n in $sizes; do
    input store "$work/catalogue$n" 1 "$kernel"
    input catalogue "$work/catalogue$n" "$n"
  done
  RUNS=5
  row 'plan --from' '' "$KMODSMITH plan --driver $DRIVER --flavour open --root $work/catalogue --from oci:$work/catalogue%n --trust-dir $work/trust"
  end
}

nodes() {
  local n target policy
  begin 'nodes of a cluster' '100 1000 10000'
  policy='{"schema": 1, "maxParallel": "10%", "maxUnavailable": "10%", "groupBy": "rack", "pools": [{"name": "gpu", "selector":
    {"nvidia.com/gpu.present": "true"}, "waves": [{"name": "first", "percent": 10}], "maxParallel": "10%", "maxUnavailable": "10%", "windows": [{"days": ["Fri"],
    "from": "22:00", "to": "06:00"}], "target": {"driver": "'"$DRIVER"'", "flavour": "open"}}]}'
  echo "$policy" >"$work/policy.json"
  target=$("$KMODSMITH" rollout check-policy "$work/policy.json" --json | jq -r '.items[0].target')
  for n in $sizes; do input nodes "$work/nodes$n" "$n" "$target"; done
  RUNS=3
  local plan="$KMODSMITH rollout plan --resumed --policy $work/policy.json --nodes $work/nodes%n --now"
  row 'rollout plan, window open' '' "$plan 2027-01-15T23:00:00Z"
  row 'rollout plan, window closed' '' "$plan 2027-01-16T08:00:00Z"
  row 'rollout plan --json' '' "$plan 2027-01-15T23:00:00Z --json"
  row 'rollout check-policy --nodes' '' "$KMODSMITH rollout check-policy $work/policy.json --nodes $work/nodes%n"
  rm -f "$work"/nodes*
  end
}

processes() {
  local most=$(($(</proc/sys/kernel/pid_max) - 2000))
  [ "$(id -u)" -eq 0 ] || { tell "processes are left out: namespaces need root" && return; }
  begin processes "500 5000 $((most < 50000 ? most : 50000))"
  machine machine
  unshare --mount --pid --fork --kill-child bash "$here/growth.sh" --in-namespace "$KMODSMITH" "$work" "$sizes"
  end
}
# As native.sh: what proc and sys say of hardware is the recorded machine's, the processes are real. The driver's counters
# say that somebody uses it, so that each process is asked for its files.
in_namespace() {
  local file host=$work/machine
  mount --bind "$host/sys" /sys
  mount -t proc proc /proc
  for file in devices driver version sys/kernel/osrelease; do mount --bind "$host/proc/$file" "/proc/$file"; done
  echo 11 >"$host/sys/module/nvidia/refcnt"
  before=crowd_begin after=crowd_end
  row 'holders, driver in use' '' "$KMODSMITH holders"
}
crowd_begin() { # COUNT
  coproc CROWD { exec "$work/growth" crowd "$1"; }
  read -r _ <&"${CROWD[0]}"
}
crowd_end() {
  eval "exec ${CROWD[1]}>&-"
  wait
}

if [ -n "$sizes" ]; then
  in_namespace
  exit
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc -std=gnu11 -O2 -Wall -Wextra -o "$work/growth" "$here/growth.c"
for dimension in "${@:-gpus kernels packages catalogue processes nodes}"; do
  for one in $dimension; do "$one"; done
done
