#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The rule "versions": no test contains a version of something that is fetched, because apt offers another one next month. A
# release or a driver version can only be of something fetched where something fetched is at hand. So it is refused
#   - everywhere in tests/vm, tests/images and tests/bench, whose kernels, modules and packages are real (but in tests/vm/driver,
#     a driver of our own with a version of its own), and in the scripts of the demos;
#   - elsewhere in a test whose text asks scripts/inputs.sh, and in a whole file that asks it outside of a single test.
# All other tests know recorded machines (tests/hosts) and data of their own, and may name them. A line that says "made up" may
# name a version, too, and so may a file that says so in a line "# made up: WHAT" of its own.
#   scripts/versions.sh        prints each violation as FILE:LINE:TEXT
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
release='6\\?\.(1|12)\\?\.([0-9]{2,}|0-[0-9]+)'
driver='(?<![0-9.])[0-9]{3}\\?\.[0-9]{2,3}\\?\.[0-9]{2}(?!\.?[0-9])'

real() { find tests/{vm,images,bench} scripts/demo*.sh -type f ! -path 'tests/vm/driver/*' 2>/dev/null; }
asking() { grep -rlIE 'inputs\.(sh|env)' tests/{cli,services,cluster,unit} 2>/dev/null; }
{
  real | sort | while read -r file; do sed "s|^|$file\t|" "$file" | awk '{ print FNR "\t" $0 }'; done
  asking | sort | while read -r file; do
    awk -v file="$file" '
      function flush() { if (asks) all = all text; text = ""; asks = 0; inside = 0 }
      { line = FNR "\t" file "\t" $0 "\n"; every = every line }
      /^(@test|[a-z_0-9]+\(\)) ?.*\{$/ { inside = /^@test/ ? 1 : 2; asks = 0; text = "" }
      inside { text = text line }
      /inputs\.(sh|env)/ && !/^(#|\/\/)/ { if (inside == 1) asks = 1; else whole = 1 }
      /^\}/ { flush() }
      END { printf "%s", whole ? every : all }' "$file"
  done
} | grep -aP "$release|$driver" | grep -v 'made up' | while IFS=$'\t' read -r number file text; do
  grep -q '^# made up: ' "$file" || printf '%s:%s:%s\n' "$file" "$number" "$text"
done
