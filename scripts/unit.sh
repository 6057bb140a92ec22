#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Run unit test programs (cmocka), show what failed, end with one line of counts: "unit: P passed, F failed, S skipped".
set -uo pipefail
passed=0 failed=0 skipped=0
for program in "$@"; do
  out=$(CMOCKA_MESSAGE_OUTPUT=TAP timeout 300 "$program" 2>&1)
  rc=$?
  p=$(grep -cE '^ok ' <<<"$out") s=$(grep -cE '^ok .*# SKIP' <<<"$out") f=$(grep -cE '^not ok ' <<<"$out")
  ((rc != 0 && f == 0)) && f=1
  ((p + f == 0)) && f=1
  passed=$((passed + p - s)) failed=$((failed + f)) skipped=$((skipped + s))
  if ((f)); then printf 'FAILED %s (status %d)\n%s\n' "$(basename "$program")" "$rc" "$out"; fi
done
echo "unit: $passed passed, $failed failed, $skipped skipped"
((failed == 0 && passed > 0))
