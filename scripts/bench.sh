#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Budgets beside what the plain tool takes for the same job, in turn on the same machine: medians and their ratio.
# Nothing here fails because it is slow; what the numbers mean is in BENCHMARKS.md.
#   make bench [P5=1] [SCALE=1] [PROCESSES=5000]    P5=1 adds compiles of a driver, about 15 minutes;
#   SCALE=1 rollouts of thousands of nodes, about 20 minutes
set -euo pipefail
cd "$(dirname "$0")/.."
kmodsmith=$PWD/build/release/kmodsmith processes=${PROCESSES:-5000}
scripts/deps.sh build vm bench
[ "$(id -u)" -eq 0 ] || { echo "bench: namespaces and device nodes need root" >&2; exit 1; }
mkdir -p build/bench
cc -std=gnu11 -O2 -Wall -Wextra -o build/bench/lap tests/bench/lap.c
inputs=$(scripts/inputs.sh)
modprobe=$(sed -n 's/^MODPROBE=//p' <<<"$inputs")
[ -n "$modprobe" ] || { echo "bench: scripts/inputs.sh knows no MODPROBE" >&2; exit 1; }
rm -rf build/bench/modprobe && dpkg-deb --extract "$modprobe" build/bench/modprobe
export PATH=$PWD/build/bench:$PATH KMODSMITH=$kmodsmith

cpu=$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)
echo "machine: $(nproc) x $cpu, Linux $(uname -r), load $(cut -d' ' -f1 /proc/loadavg)"
echo "         $("$kmodsmith" --version), $(modinfo --version | sed -n 's/ version / /p'), $(fuser -V 2>&1 | head -n 1)"
unshare --mount --pid --fork --kill-child bash tests/bench/native.sh "$kmodsmith" \
  "$PWD/build/bench/modprobe/usr/bin/nvidia-modprobe" "$processes"
tests/bench/fetch.sh "$kmodsmith"
tests/bench/reuse.sh "$kmodsmith"
tests/bench/start.sh "$kmodsmith"
tests/vm/machine tests/bench/guest.sh
if [ -n "${P5:-}" ]; then
  tests/bench/compile.sh "$kmodsmith"
  tests/bench/same.sh "$kmodsmith" PROPRIETARY:K61 OPEN:K612
else
  echo "P5 skipped: compiles of a driver take 15 minutes; make bench P5=1"
fi
if [ -n "${SCALE:-}" ]; then
  scripts/deps.sh cluster
  tests/bench/scale.sh "$kmodsmith"
else
  echo "P8, P9 skipped: thousands of nodes take 20 minutes; make bench SCALE=1"
fi
