#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Make a library that stands in for one that is not wanted: the same names and versions. Each function ends the process,
# since it is never called, or returns a number; each pointer is null. What names the library starts without it, and
# without all that it would bring along.
#   images/standin.sh LIBRARY OUTPUT [NUMBER]
# shellcheck source=images/common.bash
. "$(dirname "$0")/common.bash"
library=$1 output=$2
body=${3:+return $3;} body=${body:-__builtin_trap();}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

nm -D --defined-only --with-symbol-versions "$library" | awk '$2 != "A" { sub(/@@/, "@", $3); print $3, $2 }' | sort -u >"$work/names"
[ -s "$work/names" ] || fail "'$library' defines nothing"
awk -v body="$body" '{ split($1, s, "@"); print $2 ~ /[TWi]/ ? "long " s[1] "(void) { " body " }" : "void *" s[1] ";" }' \
  "$work/names" >"$work/a.c"
awk '{ split($1, s, "@"); if (s[2]) names[s[2]] = names[s[2]] " " s[1] ";" }
  END { for (v in names) print v " { global:" names[v] " };" }' "$work/names" | sort >"$work/versions"
versions=()
[ ! -s "$work/versions" ] || versions=("-Wl,--version-script=$work/versions")
gcc -Os -shared -fPIC -nostdlib -fno-builtin -s -fno-asynchronous-unwind-tables -Wl,-soname,"$(basename "$library")",--build-id=none \
  "${versions[@]}" -o "$output" "$work/a.c"
