#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# P12: how long `make check` takes: here, with the caches as they are, or with "nothing" in a fresh clone with empty caches.
#   tests/bench/check.sh 1|nothing
set -euo pipefail
cd "$(dirname "$0")/../.."
name="with caches"
if [ "$1" = nothing ]; then
  name="from nothing"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  git clone -q . "$work/tree"
  cd "$work/tree"
  export KMODSMITH_CACHE=$work/kmodsmith CCACHE_DIR=$work/ccache XDG_CACHE_HOME=$work/cache
fi
unset KMODSMITH BENCH_WHERE BENCH_RUN # the checks find their own program
began=$SECONDS
scripts/check.sh
awk -v name="make check, $name" -v s=$((SECONDS - began)) 'BEGIN { printf "row\tP12\t%s\tnative\tmin\t%.1f\n", name, s / 60 }'
