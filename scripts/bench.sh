#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The budgets P1 to P13, each beside what the plain tool takes for the same job, in turn on the same machine: medians, range and
# ratio. Writes docs/benchmarks.tsv and the tables of BENCHMARKS.md. Nothing here fails because it is slow.
#   make bench                        what takes minutes: P1 to P4, P6, P10, P11, P13, growth; P7 where Kubernetes is built
#   make bench P5=1 SCALE=1 P12=1     and compiles of a driver, rollouts of thousands of nodes, `make check`: an hour or two more
#   make bench ONLY="P2 P11 growth"   only parts that measure one of these; the other rows stay
# P5=3 compiles three times; P12=nothing runs `make check` in a fresh clone with empty caches; PROCESSES=500 is a smaller crowd.
set -euo pipefail
cd "$(dirname "$0")/.."
unset MAKEFLAGS MAKELEVEL MFLAGS # of `make bench`, not of what is compiled below
# shellcheck source=tests/bench/part.bash
. tests/bench/part.bash
[ "$(id -u)" -eq 0 ] || { echo "bench: namespaces and device nodes need root" >&2; exit 1; }
kmodsmith=$PWD/build/release/kmodsmith bench=tests/bench
[ -z "${ONLY-}" ] || ! is_wanted P5 compile phases same || P5=${P5:-1}
[ -z "${ONLY-}" ] || ! is_wanted P7 P8 P9 share scale || SCALE=1
scripts/deps.sh build vm bench
mkdir -p build/bench
cc -std=gnu11 -O2 -Wall -Wextra -o build/bench/lap $bench/lap.c
inputs=$(scripts/inputs.sh)
deb=$(sed -n 's/^MODPROBE=//p' <<<"$inputs")
[ -n "$deb" ] || { echo "bench: scripts/inputs.sh knows no MODPROBE" >&2; exit 1; }
rm -rf build/bench/modprobe && dpkg-deb --extract "$deb" build/bench/modprobe
BENCH_RUN=$(describe "$kmodsmith" "$inputs" \
  "make bench${ONLY:+ ONLY=\"$ONLY\"}${P5:+ P5=$P5}${SCALE:+ SCALE=$SCALE}${P12:+ P12=$P12}${PROCESSES:+ PROCESSES=$PROCESSES}")
export PATH=$PWD/build/bench:$PATH KMODSMITH=$kmodsmith BENCH_WHERE=native BENCH_RUN
tr '\t' '\n' <<<"$BENCH_RUN"

part native "P1 P2 P11" unshare --mount --pid --fork --kill-child bash $bench/native.sh "$kmodsmith" \
  "$PWD/build/bench/modprobe/usr/bin/nvidia-modprobe" "${PROCESSES:-5000}"
part guest "P1 P2 P3" tests/vm/machine $bench/guest.sh
part fetch P4 $bench/fetch.sh "$kmodsmith"
[ -z "${P5-}" ] || part compile P5 $bench/compile.sh "$kmodsmith" "$P5"
[ -z "${P5-}" ] || part phases P5 $bench/phases.sh "$kmodsmith"
[ -z "${P5-}" ] || part same P5 $bench/same.sh "$kmodsmith" PROPRIETARY:K61 OPEN:K612
part reuse P6 $bench/reuse.sh "$kmodsmith"
part size P10 $bench/size.sh "$kmodsmith"
part start "" $bench/start.sh "$kmodsmith"
part gpus P13 unshare --mount --pid --fork --kill-child bash $bench/gpus.sh "$kmodsmith"
part edit P12 $bench/edit.sh
[ -z "${P12-}" ] || part check P12 $bench/check.sh "$P12"
[ ! -x $bench/growth.sh ] || part growth "" bash -c "$bench/growth.sh '$kmodsmith' | sed 's/^/text\t/'"
# Last, because these are counts and memory: a machine that is busy again changes little of them.
if [ -n "${SCALE-}" ] || tests/cluster/tools/build.sh --cached kube-apiserver >/dev/null 2>&1; then part share P7 $bench/share.sh "$kmodsmith"; fi
[ -z "${SCALE-}" ] || part scale "P8 P9" $bench/scale.sh "$kmodsmith"
$bench/report.py show
[ ${#failed[@]} -eq 0 ] || { echo "bench: ${failed[*]} failed" >&2; exit 1; }
