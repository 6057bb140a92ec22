#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that can be said about the code without running it. One line a check, what it found below it, and at the
# end "lint: P passed, F failed, S skipped". A check whose tool is not installed is skipped and says so.
#   scripts/lint.sh [CHECK...]    only the checks whose names contain one of the words
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
jobs=$(nproc)
mapfile -t c < <(find installer kmod precompiled tests/{unit,sim} -name '*.c' 2>/dev/null | sort)
mapfile -t ch < <(find installer kmod precompiled tests/{unit,sim} -name '*.[ch]' 2>/dev/null | sort)
mapfile -t sh < <(grep -rlE '^#!.*(bash|/sh|bats)$' .ci scripts tests kmod images deploy 2>/dev/null
  find tests -name '*.bash')
mapfile -t text < <(find ./*.md installer kmod precompiled scripts man deploy images tests -type f 2>/dev/null |
  grep -E '\.([ch]|sh|bash|bats|md|scd|def)$')
words=("$@") passed=0 failed=0 skipped=0 log=$(mktemp)
trap 'rm -f "$log"' EXIT

check() { # NAME TOOL COMMAND...
  local name=$1 tool=$2 start=$SECONDS w wanted=${#words[@]}
  shift 2
  for w in "${words[@]}"; do case $name in *"$w"*) wanted=0 ;; esac; done
  [ "$wanted" -eq 0 ] || return 0
  if ! command -v "$tool" >/dev/null; then
    echo "skip $name: $tool is not installed"
    skipped=$((skipped + 1))
  elif "$@" >"$log" 2>&1 </dev/null; then
    echo "ok $name ($((SECONDS - start)) s)"
    passed=$((passed + 1))
  else
    echo "not ok $name"
    grep -vE '^  (CC|AR|LD) |^[0-9]+ warnings? generated' "$log" | sed 's/^/  /' | head -n 80
    failed=$((failed + 1))
  fi
}
build() { # CC MODE, warnings are errors; everything that is compiled, tests too
  CFLAGS="-Werror ${3-}" make -s -j"$jobs" CC="$1" MODE="$2" B="build/lint-$1-$2" V=0 all unit-build
}
tidy() { printf '%s\0' "${c[@]}" | xargs -0 -n4 -P"$jobs" bash -c \
  'clang-tidy --quiet "$@" -- -std=gnu11 -D_GNU_SOURCE -DKMODSMITH_VERSION=\"0\" -Iinstaller -I.' tidy; }
# gcc 12 follows neither the cleanup attribute nor "set when the result is not negative": what is off here is noise.
quiet="-Wno-format-truncation -Wno-analyzer-malloc-leak -Wno-analyzer-null-argument -Wno-analyzer-double-free"
quiet+=" -Wno-analyzer-use-of-uninitialized-value"

check format clang-format clang-format --dry-run --Werror "${ch[@]}"
check gcc gcc build gcc release
check clang clang build clang release
check analyzer gcc build gcc analyzer "$quiet"
check cppcheck cppcheck cppcheck -q --enable=warning,performance,portability --error-exitcode=1 --inline-suppr \
  --std=c11 -j"$jobs" -D_GNU_SOURCE -DKMODSMITH_VERSION='"0"' -Iinstaller -I. "${c[@]}"
check tidy clang-tidy tidy
check shellcheck shellcheck shellcheck -x "${sh[@]}"
check codespell codespell codespell -q 3 -L buildd --ignore-regex '\\[nrt]' "${text[@]}"
check includes awk scripts/includes.sh
for rule in calls paths prints hosts columns sizes spdx notes; do check "rule-$rule" grep scripts/rules.sh "$rule"; done
echo "lint: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
