#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Check the #include lines against the map: a room includes itself and rooms before it only (and kmod and precompiled do
# not know each other), NAME_internal.h stays in its room, and each third-party library has one place. Prints what breaks that.
set -euo pipefail
cd "$(dirname "$0")/.."
# The rooms, from the foundation up: "    ROOM   what it is" in ARCHITECTURE.md.
rooms=$(sed -nE '/^## The rooms/,/^## /s/^    ([a-z_/]+) .*/\1/p' ARCHITECTURE.md)
# Header, as a regular expression | files that may include it | how many of them at most
places='archive(_entry)?\.h    | installer/base/archive/(archive|pack)\.c|tests/unit/(pack\.h|(archive|bundle_repository|source)_test\.c) | 6
(zlib|lzma|zstd|lz4.*)\.h     | installer/base/archive/archive\.c           | 1
openssl/.*                    | installer/base/(file/digest|http/http_tls|crypto/key)\.c|kmod/module/(modsig|modsign|versions)\.c|tests/unit/.* | 11
jansson\.h                    | installer/base/formats/json\.h              | 1
curl/.*                       | installer/base/http/http_lib\.h             | 1
seccomp\.h                    | kmod/sandbox/inside\.c                      | 1
libkmod\.h                    | kmod/load/host_modules\.c                   | 1
yaml\.h                       | installer/base/formats/yaml\.c              | 1
cmocka\.h                     | tests/unit/[a-z0-9_]+\.[ch]                 | 999'

{ find installer kmod precompiled tests/{unit,sim} -name '*.[ch]' 2>/dev/null || true; } | sort |
  xargs grep -HnE '^[[:space:]]*#[[:space:]]*include' | awk -v places="$places" -v rooms="$rooms" '
function folder(path) { return sub(/\/[^\/]*$/, "", path) ? path : "" } # "" = none
function room(path) {
	sub(/^installer\//, "", path)
	return path ~ /^tests\// ? "tests" : path ~ /\// ? folder(path) : "main"
}
function complain(text) { print where ": " text; bad = 1 }
BEGIN {
	n = split(rooms " main tests", list, /[[:space:]]+/)
	for (i = 1; i <= n; i++) rank[list[i]] = i
	rows = split(places, lines, "\n")
	for (i = 1; i <= rows; i++) {
		split(lines[i], p, " +[|] +")
		header[i] = "^(" p[1] ")$"; place[i] = "^(" p[2] ")$"; most[i] = p[3]
	}
}
{
	split($0, at, ":")
	where = at[1] ":" at[2]; file = at[1]; from = room(file); name = $0
	if (!(from in rank)) complain("the map has no room \"" from "\"")
	if (name ~ /include[[:space:]]*</) {
		gsub(/^[^<]*<|>.*$/, "", name)
		for (i = 1; i <= rows; i++) {
			if (name ~ header[i] && file !~ place[i]) complain("<" name "> belongs in " place[i])
			else if (name ~ header[i] && !((i, file) in seen) && ++users[i] > most[i]) complain("<" name "> has two places")
			if (name ~ header[i]) seen[i, file] = 1
		}
		next
	}
	gsub(/^[^"]*"|".*$/, "", name)
	to = folder(name)
	if (to == "" && from != "tests") complain("\"" name "\" is not written from a room")
	if (to == "" || (from == "tests" && name ~ /^tests\//)) next
	if (!(to in rank)) complain("the map has no room \"" to "\"")
	else if (rank[to] > rank[from] || (from ~ /^precompiled/ && to ~ /^kmod/))
		complain("\"" name "\" points up: " from " must not know " to)
	else if (to != from && from != "tests" && name ~ /_internal\.h$/) complain("\"" name "\" is for " to " alone")
}
END { exit bad || NR == 0 }'
