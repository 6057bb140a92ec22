#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Which lines and branches do the unit and cli tiers run? A table by room (the directories of the product) at the end,
# by file in build/coverage/files.csv, and line by line in build/coverage/html/index.html.
#   make coverage [UNIT="root_test ..."|none] [CLI="usage ..."|none]    only these tests; needs: scripts/deps.sh coverage
# Counters are written when a process ends well. So these run more than is shown: a process that was killed, that has
# gone into a chroot or a sandbox, has given up its rights, or ends by exec or _exit. A failed test is told, and counts.
set -euo pipefail
cd "$(dirname "$0")/.."
b=build/coverage cc=gcc
hash gcovr setfacl 2>/dev/null || { echo "coverage: gcovr or setfacl is missing; run scripts/deps.sh build test cli coverage" >&2; exit 1; }
if hash ccache 2>/dev/null; then cc="ccache gcc"; fi
chosen() { # NAMES FOLDER SUFFIX: files of a tier, one a line
  local name
  [ "$1" != none ] || return 0
  if [ -z "$1" ]; then printf '%s\n' "$2"/*"$3"; return; fi
  for name in $1; do
    [ -e "$2/$name$3" ] || { echo "coverage: there is no '$2/$name$3'" >&2; return 2; }
    printf '%s\n' "$2/$name$3"
  done
}
list=$(chosen "${UNIT-}" tests/unit .c)
mapfile -t unit < <(sed -n 's#^tests/\(unit/.*_test\)\.c$#build/coverage/\1#p' <<<"$list")
list=$(chosen "${CLI-}" tests/cli .bats)
mapfile -t cli < <(sed '/^$/d' <<<"$list")
mkdir -p "$b"
CFLAGS=-w make -s -j"$(nproc)" MODE=coverage CC="$cc" B="$b" "$b/kmodsmith" "${unit[@]}" >"$b/build.log"
find "$b" -name '*.gcda' -delete
setfacl -R -m d:o::rwX,o::rwX "$b" # others than us write counters, too: tests that give up their rights
failed=0
mkdir -p "$b/html" "$b/logs"
run_each() { # COMMAND...: with each of the names on standard input
  # shellcheck disable=SC2016 # the inner shell expands it
  xargs -r -P "$(nproc)" -I{} bash -c 'log=$1/logs/$(basename "${!#}").log
    "${@:2}" >"$log" 2>&1 </dev/null || { echo "failed: ${!#}, see $log"; exit 1; }' - "$b" "$@" {}
}
printf '%s\n' "${unit[@]}" | sed '/^$/d' | run_each env CMOCKA_MESSAGE_OUTPUT=TAP || failed=1
printf '%s\n' "${cli[@]}" | sed '/^$/d' | run_each env KMODSMITH="$PWD/$b/kmodsmith" bats --tap || failed=1
gcovr --root . --object-directory "$b" --filter '(installer|kmod|precompiled)/' -j "$(nproc)" --csv "$b/files.csv" \
  --html-details "$b/html/index.html" "$b" >/dev/null
# filename,line_total,line_covered,line_percent,branch_total,branch_covered,...
awk -F, 'function row(name) {
    printf "%-22s %7d %6.1f%% %9d %6.1f%%\n", name, l[name], 100 * lc[name] / (l[name] ? l[name] : 1), b[name],
      100 * bc[name] / (b[name] ? b[name] : 1)
  }
  FNR == 1 { next }
  { room = $1; sub(/\/[^\/]*$/, "", room); if (!(room in l)) rooms[++n] = room
    l[room] += $2; lc[room] += $3; b[room] += $5; bc[room] += $6
    l["all"] += $2; lc["all"] += $3; b["all"] += $5; bc["all"] += $6 }
  END { printf "%-22s %7s %7s %9s %7s\n", "room", "lines", "run", "branches", "taken"
    for (i = 1; i <= n; i++) row(rooms[i]); row("all") }' <(head -1 "$b/files.csv"; tail -n +2 "$b/files.csv" | sort)
echo "coverage: by line in $b/html/index.html; processes that were killed, sandboxed or in a chroot are not in it"
[ "$failed" -eq 0 ] || { echo "coverage: a test failed (above); what it ran is counted all the same" >&2; exit 1; }
