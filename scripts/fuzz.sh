#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fuzz the parsers of foreign bytes (tests/fuzz) with clang's libFuzzer, each target for some seconds, starting from the
# committed corpus and from what earlier runs found. A find is kept as build/fuzz/finds/TARGET-...; the way to see it
# again is printed. Exit status 1 when there was one.
#   make fuzz [TARGETS="module yaml"] [FUZZ_SECONDS=60]    needs: scripts/deps.sh build fuzz
#   scripts/fuzz.sh --list                                 names of the targets
#   scripts/fuzz.sh seed                                   write those files of the corpus that are made of bytes anew
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${FUZZ_SECONDS:-60} b=build/fuzz cc=clang
hash clang 2>/dev/null || { echo "fuzz: clang is missing; run scripts/deps.sh build fuzz" >&2; exit 1; }
[[ $seconds =~ ^[1-9][0-9]*$ ]] || { echo "fuzz: FUZZ_SECONDS must be a number above 0, not '$seconds'" >&2; exit 2; }
case ${1-} in '' | --list | seed) ;; *) echo "fuzz: there is no '$1' (--list, seed)" >&2; exit 2 ;; esac
if hash ccache 2>/dev/null; then cc="ccache clang"; fi
if [ "${1-}" = seed ]; then
  make -s -j"$(nproc)" MODE=asan build/asan/fuzz/seed
  exec build/asan/fuzz/seed tests/fuzz/corpus
fi
mkdir -p "$b"
ulimit -c 0
if ! make -s -j"$(nproc)" MODE=fuzz CC="$cc" B="$b" "$b/fuzz" >"$b/build.log" 2>&1; then
  grep -vE '^  (CC|AR|LD) ' "$b/build.log" | tail -n 40
  echo "fuzz: the program does not build; does clang have its runtime? scripts/deps.sh build fuzz" >&2
  exit 1
fi
mapfile -t all < <(FUZZ_TARGET='?' "$b/fuzz")
if [ "${1-}" = --list ]; then printf '%s\n' "${all[@]}"; exit; fi
read -ra targets <<<"${TARGETS:-${all[*]}}"
for target in "${targets[@]}"; do
  [[ " ${all[*]} " == *" $target "* ]] || { echo "fuzz: there is no target '$target' (${all[*]})" >&2; exit 2; }
done
TMPDIR=$(mktemp -d "$( [ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}")/kmodsmith-fuzz.XXXXXX")
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
mkdir -p "$b/finds"
found=0
for target in "${targets[@]}"; do
  mkdir -p "$b/corpus/$target"
  # malloc's limit is above that of memory in use: libarchive asks for all of a cpio name, up to 4 GiB, before it reads it
  if FUZZ_TARGET=$target "$b/fuzz" -max_total_time="$seconds" -max_len=65536 -timeout=20 -rss_limit_mb=4096 \
    -malloc_limit_mb=4200 -print_final_stats=1 -artifact_prefix="$b/finds/$target-" \
    "$b/corpus/$target" "tests/fuzz/corpus/$target" \
    >"$b/$target.log" 2>&1 </dev/null && runs=$(grep -oP '^stat::number_of_executed_units: *\K[1-9][0-9]*' "$b/$target.log"); then
    echo "ok $target: $runs runs, $(grep -oE 'cov: [0-9]+' "$b/$target.log" | tail -n1) edges"
  else
    found=$((found + 1))
    echo "not ok $target: see $b/$target.log"
    grep -E '^(SUMMARY|Test unit written to|artifact_prefix)|runtime error' "$b/$target.log" | head -n 4 | sed 's/^/  /' || true
    echo "  again: FUZZ_TARGET=$target $b/fuzz $b/finds/$target-..."
  fi
done
echo "fuzz: ${#targets[@]} targets, $seconds s each, $found with a find"
[ "$found" -eq 0 ]
