#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Makefile's line of hardening flags that this compiler, with this C library and for this processor, has: asked once in
# a build directory, not in each build.
#
#   scripts/hardening.sh COMPILER...    HARDENING := -D_FORTIFY_SOURCE=3 -fstack-clash-protection -fcf-protection
#
# A level of _FORTIFY_SOURCE that the C library does not know is a warning, and so is a flag of another processor.
set -euo pipefail

takes() { # FLAG
  printf '#include <string.h>\n' | "${compiler[@]}" -O2 -Werror -U_FORTIFY_SOURCE "$1" -x c -c -o /dev/null - 2>/dev/null
}

compiler=("$@")
takes -O2 # else there is no compiler yet, and nothing to remember
flags=()
for level in 3 2; do
  if takes "-D_FORTIFY_SOURCE=$level"; then
    flags+=("-D_FORTIFY_SOURCE=$level")
    break
  fi
done
for flag in -fstack-clash-protection -fcf-protection -mbranch-protection=standard; do
  ! takes "$flag" || flags+=("$flag")
done
echo "HARDENING := ${flags[*]}"
