#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Make a library that stands in for one whose functions are never called: the same names (and their versions); each function
# ends the process, each pointer is null. What needs the library starts without it, and without all that it would bring along.
#   images/standin.sh LIBRARY USER OUTPUT    USER, a program or a library, is what names LIBRARY
# shellcheck source=images/common.bash
. "$(dirname "$0")/common.bash"
library=$1 user=$2 output=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

symbols() { nm -D --with-symbol-versions "$@" | sed -E 's/@@/@/' | sort -k2 -k3; } # [ADDRESS] KIND NAME[@VERSION]
symbols --defined-only "$library" | awk '{ print $3, $2 }' | sort >"$work/has"
symbols --undefined-only "$user" | awk '{ print $2 }' | sort >"$work/wants"
join "$work/has" "$work/wants" >"$work/used"
[ -s "$work/used" ] || fail "'$user' uses nothing of '$library'"
awk '{ split($1, s, "@"); print $2 ~ /[TWi]/ ? "void " s[1] "(void) { __builtin_trap(); }" : "void *" s[1] ";" }' "$work/used" >"$work/a.c"
awk '{ split($1, s, "@"); if (s[2]) names[s[2]] = names[s[2]] " " s[1] ";" }
  END { for (v in names) print v " { global:" names[v] " };" }' "$work/used" >"$work/versions"
versions=()
[ ! -s "$work/versions" ] || versions=("-Wl,--version-script=$work/versions")
gcc -Os -shared -fPIC -nostdlib -s -Wl,-soname,"$(basename "$library")",--build-id=none "${versions[@]}" -o "$output" "$work/a.c"
