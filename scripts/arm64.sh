#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compile kmodsmith for arm64 on another machine, and run its tests there under qemu-user (arm64-enter.sh). As root.
#   scripts/arm64.sh [TIER|TIER/NAME...]   unit cli/check; without: unit and cli
#   scripts/arm64.sh -- COMMAND...         something else, when it is compiled
# Where it cannot be done that is said as a skipped test, and as status 3 of what comes after `--`. Logs are build/arm64/TIER-NAME.log
# shellcheck disable=SC2046 # words
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
root=${KMODSMITH_CACHE:-$HOME/.cache/kmodsmith}/roots/arm64 out=build/arm64
why=$(scripts/arm64-enter.sh) || {
  [ $? -eq 3 ] || exit 1
  echo "ok - arm64 # skip $why"
  [ "${1-}" != -- ] && exit || exit 3
}
[ $# -gt 0 ] || set -- unit cli
if [ "$1" != -- ]; then
  tests=$(printf '%s\n' tests/unit/*_test.c tests/cli/*.bats | sed 's#^tests/##; s#\.[a-z]*$##')
  set -- $(for name; do grep -x "$name\(/.*\)\?" <<<"$tests"; done)
  [ $# -gt 0 ] || { echo "arm64: no such test" >&2 && exit 2; }
fi
export PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_LIBDIR=$root/usr/lib/aarch64-linux-gnu/pkgconfig:$root/usr/share/pkgconfig
make -sj"$(nproc)" ARCH=arm64 B="$out" CC="aarch64-linux-gnu-gcc --sysroot=$root" PKG_CONFIG=pkg-config all static "$out/mkman" \
  $(printf '%s\n' "$@" | sed -n "s#^unit/#$out/&#p")
[ "$1" != -- ] || { scripts/arm64-enter.sh "${@:2}"; exit; }
run_test() { # TIER/NAME
  local log=$out/${1/\//-}.log command=("$out/$1")
  [[ $1 != cli/* ]] || command=(bats --tap "tests/$1.bats")
  scripts/arm64-enter.sh timeout -k 9 1200 "${command[@]}" >"$log" 2>&1 || grep -q '^not ok' "$log" || echo "not ok - ended with $?" >>"$log"
  sed -n "/# SKIP/d; s#^not ok#$1: &#p" "$log"
}
logs=()
for name; do
  [ "$(jobs -rp | wc -l)" -lt "$(nproc)" ] || wait -n
  run_test "$name" &
  logs+=("$out/${name/\//-}.log")
done
wait
awk '/^(not )?ok .*# (SKIP|skip)/ { skipped++; next } /^ok / { passed++ } /^not ok/ { failed++ }
  END { printf "arm64: %d passed, %d failed, %d skipped\n", passed, failed, skipped; exit failed > 0 }' "${logs[@]}"
