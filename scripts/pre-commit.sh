#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The fast part of lint, on what is about to be committed: a few seconds. As git's hook:
#   ln -s ../../scripts/pre-commit.sh .git/hooks/pre-commit
#   ln -s ../../scripts/pre-commit.sh .git/hooks/commit-msg    the subject of the message
# It looks at the files as they lie in the work tree. The unit test of a changed C file runs where make says that it is built
# and current, or nearly: what takes longer is left to `make check`. `git commit --no-verify` goes past it.
set -uo pipefail
cd "$(git rev-parse --show-toplevel)" || exit 2
[ $# -eq 0 ] || exec scripts/subjects.sh "$1" # commit-msg gets a file
mapfile -t staged < <(git diff --cached --name-only --diff-filter=ACMR)
[ ${#staged[@]} -gt 0 ] || exit 0
bad=0
check() { # NAME COMMAND...
  local found
  found=$("${@:2}" 2>&1) && return
  echo "pre-commit: $1" >&2
  awk 'NR <= 40 { print "  " $0 }' <<<"$found" >&2
  bad=1
}
named() { printf '%s\n' "${staged[@]}" | grep -E "$1"; }
mapfile -t c < <(named '^(installer|kmod|precompiled|tests/(unit|sim|fuzz))/.*\.[ch]$')
mapfile -t text < <(named '\.([ch]|sh|bash|bats|md|scd|def|py|toml)$' | grep -v '^tests/hosts/')
mapfile -t shell < <(named '\.(sh|bash|bats)$')

[ ${#c[@]} -eq 0 ] || check "format (make format)" clang-format --dry-run --Werror "${c[@]}"
[ ${#text[@]} -eq 0 ] || check codespell codespell -q 3 -L buildd,asymmetri,renderd --ignore-regex '\\[nrt]' "${text[@]}"
[ ${#shell[@]} -eq 0 ] || [ ${#shell[@]} -gt 8 ] || check shellcheck shellcheck -x "${shell[@]}"
check "includes, rules, lists" scripts/lint.sh includes lists 'rule-*'
for file in "${c[@]}"; do
  test=$(basename "${file%.*}")
  test=build/asan/unit/${test%_test}_test
  [ ! -x "$test" ] || ! timeout 5 make -q MODE=asan "$test" 2>/dev/null || check "$test" timeout 20 "$test"
done
exit "$bad"
