#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every test, tier after tier. Each tier ends with "TIER: P passed, F failed, S skipped"; one that does not, or that ran
# nothing, has failed. The last line is the sum: "P passed, F failed, S skipped".
#   TIERS="lint unit" scripts/check.sh    only these tiers; the logs stay in build/check
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
unset MAKEFLAGS MAKELEVEL MFLAGS # what was given to `make check` is not meant for the builds below
read -r -a tiers <<<"${TIERS:-lint unit cli services cluster images matrix vm}"
logs=build/check jobs=$(nproc) table='' sum_p=0 sum_f=0 sum_s=0
mkdir -p "$logs"

run_tier() {
  case $1 in
  lint) scripts/lint.sh ;;
  unit) make -s -j"$jobs" MODE=asan unit-build && make -s MODE=asan unit ;;
  cli) make -s -j"$jobs" all && make -s cli ;;
  services) make -s -j"$jobs" all && make -s services ;;
  cluster) make -s -j"$jobs" all && make -s cluster ;;
  images) make -s -j"$jobs" all static && make -s images-test ;;
  matrix) make -s -j"$jobs" all && scripts/matrix.sh ;;
  vm) make -s -j"$jobs" all && tests/vm/selftest && tests/vm/run ;;
  *) echo "check: there is no tier '$1'"; return 2 ;;
  esac
}
count() { # TIER STATUS: sets p f s from the closing line, and row
  local line
  line=$(grep -E "^$1: [0-9]+ passed, [0-9]+ failed, [0-9]+ skipped\$" "$logs/$1.log" | tail -1)
  read -r p f s <<<"$(sed -E 's/[^0-9]+/ /g' <<<"${line#*:}")"
  note=''
  if [ -z "$line" ]; then
    p=0 f=1 s=0 note="printed no counts (status $2)"
  elif ((p + f == 0)); then
    f=1 note='ran no test'
  elif (($2 != 0 && f == 0)); then
    f=1 note="ended with status $2"
  fi
}

scripts/deps.sh build test cli services cluster images lint vm || exit 1
for tier in "${tiers[@]}"; do
  echo "== $tier"
  start=$SECONDS
  run_tier "$tier" </dev/null 2>&1 | tee "$logs/$tier.log"
  count "$tier" "${PIPESTATUS[0]}"
  row=$(printf '%-8s %7d %7d %8d %6d s  %s' "$tier" "$p" "$f" "$s" $((SECONDS - start)) "$note")
  table+=$row$'\n'
  sum_p=$((sum_p + p)) sum_f=$((sum_f + f)) sum_s=$((sum_s + s))
done
printf '\n%-8s %7s %7s %8s %8s\n%s\n' tier passed failed skipped time "$table"
echo "$sum_p passed, $sum_f failed, $sum_s skipped"
((sum_f == 0))
