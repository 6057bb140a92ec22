#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that can be said about the code without running it. TAP: one line a check, what it found below it.
#   scripts/lint.sh [CHECK...]    these checks, else all; * as in a shell: 'rule-*', 'c:*'; --list prints their names
# LINT_FILES: lines of paths; format, shellcheck and codespell look only at these. (gcc's warnings: the tests' builds, WERROR=1.)
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
mapfile -t ch < <(find installer kmod precompiled tests/{unit,sim,fuzz} -name '*.[ch]' 2>/dev/null | sort)
mapfile -t rooms < <(printf '%s\n' "${ch[@]%/*}" | sort -u)
mapfile -t sh < <(grep -rlE '^#!.*(bash|/sh|bats)$' .ci scripts tests kmod images deploy --exclude-dir=corpus 2>/dev/null
  find tests packaging -name '*.bash')
mapfile -t text < <(find ./*.md docs installer kmod precompiled scripts deploy images tests -type f 2>/dev/null |
  grep -E '\.([ch]|sh|bash|bats|md|scd|def|py|toml)$')
mapfile -t rules < <(scripts/rules.sh --list)
only() { sed 's#^\./##' | if [ -n "${LINT_FILES-}" ]; then grep -xF "$LINT_FILES" || :; else cat; fi; }

all() { printf '%s\n' format "${rooms[@]/#/c:}" clang-build shellcheck codespell includes lists subjects unused names release "${rules[@]/#/rule-}"; }
shells() {
  printf '%s\n' "${sh[@]}" | only | xargs -r -d '\n' -n8 -P"$(nproc)" shellcheck -x
}
format() { # versions differ in what they do with macros; `make format` is run with this one, Debian 12's
  [[ $(clang-format --version) == *"version 14."* ]] || { echo "the code has the format of clang-format 14, this is another"; return 77; }
  printf '%s\n' "${ch[@]}" | only | xargs -r -d '\n' clang-format --dry-run --Werror
}
run_check() { # CHECK; status 77: skipped, and why
  case $1 in
  format) format ;;
  c:*) scripts/analyze.sh "${1#c:}" ;;
  clang-build) make -s -j"$(nproc)" CC=clang WERROR=1 B=build/lint-clang V=0 all unit-build ;; # its optimizer warns of some more
  shellcheck) shells ;;
  codespell) printf '%s\n' "${text[@]}" | only | xargs -r -d '\n' codespell -q 3 -L buildd,asymmetri,renderd --ignore-regex '\\[nrt]' ;;
  includes) scripts/includes.sh ;;
  lists) tests/check/run --lint ;;
  subjects) scripts/subjects.sh ;;
  unused | names) "scripts/$1.py" ;;
  release) scripts/release.sh --check ;;
  rule-*) scripts/rules.sh "${1#rule-}" ;;
  esac
}

case ${1-} in --list) all && exit ;; esac
[ $# -gt 0 ] || set -- '*'
passed=0 failed=0 skipped=0
while read -r name; do
  for pattern in "$@"; do
    # shellcheck disable=SC2053 # a pattern
    [[ $name == $pattern ]] || continue
    start=$SECONDS
    found=$(run_check "$name" 2>&1 </dev/null)
    case $? in
    0) echo "ok - $name ($((SECONDS - start)) s)" && passed=$((passed + 1)) ;;
    77) echo "ok - $name # SKIP $found" && skipped=$((skipped + 1)) ;;
    *) echo "not ok - $name" && failed=$((failed + 1)) &&
      grep -vE '^  (CC|AR|LD) |^[0-9]+ warnings? generated' <<<"$found" | sed 's/^/  /' | head -n 80 ;;
    esac
    break
  done
done < <(all)
echo "lint: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ $((passed + skipped)) -gt 0 ]
