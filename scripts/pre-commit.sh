#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The fast part of lint, on what is about to be committed and nothing beside it: a few seconds. As git's hook:
#   ln -s ../../scripts/pre-commit.sh .git/hooks/pre-commit
#   ln -s ../../scripts/pre-commit.sh .git/hooks/commit-msg    the subject of the message
# The unit test of a changed C file runs where make says that it is built and current, or nearly: what takes longer is left to
# `make check-mine`. `git commit --no-verify` goes past it.
set -uo pipefail
cd "$(git rev-parse --show-toplevel)" || exit 2
[ $# -eq 0 ] || exec scripts/subjects.sh "$1" # commit-msg gets a file
LINT_FILES=$(git diff --cached --name-only --diff-filter=ACMR)
[ -n "$LINT_FILES" ] || exit 0
bad=0
tree=$(mktemp -d) || exit 2
trap 'rm -rf "$tree"' EXIT
git checkout-index -a --prefix="$tree/"
checks=(format codespell includes lists 'rule-*')
[ "$(grep -cE '\.(sh|bash|bats)$' <<<"$LINT_FILES")" -gt 8 ] || checks+=(shellcheck)
GIT_DIR=$(git rev-parse --absolute-git-dir) GIT_INDEX_FILE=$(realpath "${GIT_INDEX_FILE:-$GIT_DIR/index}")
found=$(export LINT_FILES GIT_DIR GIT_INDEX_FILE GIT_WORK_TREE=$tree && cd "$tree" && scripts/lint.sh "${checks[@]}") || {
  echo "pre-commit: (make format mends what clang-format says)"
  grep -vE '^ok |^lint: ' <<<"$found" | head -n 60
  bad=1
} >&2
while read -r file; do
  test=$(basename "${file%.*}")
  test=build/asan/unit/${test%_test}_test
  if [ ! -x "$test" ] || ! timeout 5 make -q MODE=asan "$test" 2>/dev/null; then continue; fi
  found=$(timeout 20 "$test" 2>&1) || { printf 'pre-commit: %s\n' "$test" "$(head -n 40 <<<"$found")" >&2 && bad=1; }
done < <(grep '\.[ch]$' <<<"$LINT_FILES")
exit "$bad"
