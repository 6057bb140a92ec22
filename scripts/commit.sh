#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The commit that this source is of: of a checkout what git says, with -dirty for changes that are not committed; of an
# archive that git made what it wrote into .commit; otherwise nothing.
#   scripts/commit.sh [FILE]    prints it; FILE gets it too, and is written only when that changes something
set -uo pipefail
cd "$(dirname "$0")/.." || exit
commit=$(grep -oE '^[0-9a-f]{12}' .commit)
# Not that of another repository that an unpacked archive lies in.
if [ "$(git rev-parse --show-toplevel 2>/dev/null)" = "$(pwd -P)" ]; then
  commit=$(git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null)
fi
[ -z "${1-}" ] || { mkdir -p "$(dirname "$1")" && { [ -e "$1" ] && [ "$(cat "$1")" = "$commit" ] || echo "$commit" >"$1"; }; }
echo "$commit"
