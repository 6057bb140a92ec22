#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# P12: from an edit of a source file to the result of its unit test, under sanitizers: a small file, and one that is large.
# make is told that the file is new (-W); nothing is edited.
#   tests/bench/edit.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
scripts/deps.sh build test >&2
jobs=$(nproc)
for pair in installer/plan/plan.c:plan_test precompiled/oci/layout.c:layout_test; do
  file=${pair%:*} test=build/asan/unit/${pair#*:}
  make -s -j"$jobs" MODE=asan "$test" >/dev/null
  times=()
  for _ in 1 2 3; do
    began=$(date +%s%N)
    make -s MODE=asan -W "$file" "$test" >/dev/null
    "$test" >/dev/null 2>&1
    times+=($((($(date +%s%N) - began) / 1000000)))
  done
  printf '%s\n' "${times[@]}" | sort -n | awk -v name="an edit to its unit test, ${file##*/}" '{ v[NR] = $1 / 1000 }
    END { printf "row\tP12\t%s\tnative\ts\t%.1f\t%.1f\t%.1f\n", name, v[2], v[1], v[3] }'
done
