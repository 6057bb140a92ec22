#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Refresh what the pages in docs/ take from the program's own tables: everything between a line `<!-- mkman BLOCK -->` and the
# next line `<!-- /mkman -->` is replaced by the output of `mkman markdown BLOCK`.
#   scripts/docs.sh MKMAN [FILE...]    these pages; without names all pages that have such a line (`make docs`)
set -euo pipefail
mkman=$(realpath "${1:?usage: docs.sh MKMAN [FILE...]}")
pages=("${@:2}")
[ ${#pages[@]} -gt 0 ] || mapfile -t pages < <(cd "$(dirname "$0")/.." && grep -lrE '^<!-- mkman [a-z]+ -->$' "$PWD/docs")

refresh() { # on standard input and output
  local line skip=''
  while IFS= read -r line; do
    [ -z "$skip" ] || [ "$line" = '<!-- /mkman -->' ] || continue
    skip=''
    printf '%s\n' "$line"
    if [[ $line =~ ^'<!-- mkman '([a-z]+)' -->'$ ]]; then
      skip=1
      "$mkman" markdown "${BASH_REMATCH[1]}" || return
    fi
  done
  [ -z "$skip" ] || { echo "docs: a block has no end" >&2 && return 1; }
}
for page in "${pages[@]}"; do
  refresh <"$page" >"$page.new" || { rm "$page.new" && echo "docs: '$page' was not changed" >&2 && exit 1; }
  mv "$page.new" "$page"
done
