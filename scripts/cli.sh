#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Run the command line tests (bats) on a built binary, a few files side by side; show what failed, end with one line of
# counts: "cli: P passed, F failed, S skipped".
#   scripts/cli.sh BINARY [FILE.bats...]    with TIER=NAME the files of tests/NAME; LIMIT=SECONDS for each of them, default
#   300; JOBS=N, files side by side, default as many as processors
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
tier=${TIER:-cli}
KMODSMITH=$(realpath "${1:?usage: scripts/cli.sh BINARY [FILE.bats...]}")
export KMODSMITH
shift
[ -x "$KMODSMITH" ] || { echo "$tier: '$KMODSMITH' is no program"; exit 1; }
[ $# -gt 0 ] || set -- tests/"$tier"/*.bats
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
one() { # the status goes behind the output: a file that bats cannot load has no "not ok" line of its own
  { timeout "${LIMIT:-300}" bats --tap "$1" </dev/null; echo "status $?"; } >"$out/${1##*/}" 2>&1
}
export out
export -f one
printf '%s\0' "$@" | xargs -0 -I{} -P"${JOBS:-$(nproc)}" bash -c 'one "$@"' one {}
passed=0 failed=0 skipped=0
for file in "$out"/*; do
  p=$(grep -cE '^ok ' "$file") f=$(grep -cE '^not ok ' "$file")
  s=$(grep -cE '^ok .* # skip' "$file")
  if ! grep -qx 'status 0' "$file" || ((p + f == 0)); then
    ((f > 0)) || f=1
    printf 'FAILED %s\n' "${file##*/}"
    grep -vE '^(ok |1\.\.)' "$file"
  fi
  grep -hE '^ok .* # skip' "$file"
  passed=$((passed + p - s)) failed=$((failed + f)) skipped=$((skipped + s))
done
echo "$tier: $passed passed, $failed failed, $skipped skipped"
((failed == 0 && passed > 0))
