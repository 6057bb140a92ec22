#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What clang, gcc's analyzer, cppcheck and clang-tidy say of the C files in a folder. A file that passed is not looked at
# again while neither it, nor anything that it includes, nor the tools, nor this script changed. gcc's analyzer and
# clang-tidy have new opinions in each release; they are asked in those that the code is written with, Debian 12's.
#   scripts/analyze.sh FOLDER
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
stamps=${KMODSMITH_CACHE:-$HOME/.cache/kmodsmith}/lint
mkdir -p "$stamps"
mapfile -t flags < <(make -s print-flags)
# The analyzer runs without optimization, which takes away what it would find (a store after free). gcc 12 follows neither
# the cleanup attribute nor "set when the result is not negative": what is off here is noise.
analyzer="-fanalyzer -Wno-format-truncation -Wno-analyzer-malloc-leak -Wno-analyzer-null-argument -Wno-analyzer-double-free"
analyzer+=" -Wno-analyzer-use-of-uninitialized-value" tidy=yes
[[ $(gcc -dumpversion) == 12* ]] || analyzer=
[[ $(clang-tidy --version) == *"version 14."* ]] || tidy=
tools=$({ gcc --version; clang --version; cppcheck --version; clang-tidy --version; echo "${flags[@]}"; cat "$0" .clang-tidy; } | sha256sum)

analyze() { # FILE: each tool's findings, on failure
  # shellcheck disable=SC2086 # several options
  clang "${flags[@]}" -Werror -fsyntax-only "$1" &&
    gcc "${flags[@]}" -Werror -O0 $analyzer -S -o /dev/null "$1" &&
    cppcheck -q --enable=warning,performance,portability --error-exitcode=1 --suppress=ctuuninitvar --suppress=ctunullpointer \
      --suppress=normalCheckLevelMaxBranches --inline-suppr --std=c11 "${includes[@]}" "$1" &&
    { [ -z "$tidy" ] || clang-tidy --quiet "$1" -- "${flags[@]}" 2>/dev/null; }
}
mapfile -t includes < <(printf '%s\n' "${flags[@]}" | grep -E '^-(D|I[^/])')
status=0
for file in "$1"/*.c; do
  # The preprocessed text lacks the comments that tell a tool to be quiet: hence both.
  stamp=$stamps/$({ echo "$tools"; gcc "${flags[@]}" -E "$file"; cat "$file"; } | sha256sum | cut -c1-32)
  [ ! -e "$stamp" ] || { touch "$stamp"; continue; }
  if found=$(analyze "$file" 2>&1); then : >"$stamp"; else echo "$found"; status=1; fi
done
find "$stamps" -type f -mtime +30 -delete
exit "$status"
