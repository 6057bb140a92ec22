#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Check the #include lines against the map: a room includes itself and lower rooms only (kmod and precompiled are
# equals, so they do not know each other), and each third-party library has one place. Prints what breaks that.
set -euo pipefail
cd "$(dirname "$0")/.."
# Header, as a regular expression | files that may include it | how many of them at most
places='archive(_entry)?\.h    | installer/base/(archive|inflate|member|pack)\.c|tests/unit/(pack\.h|(archive|bundle_repository|source)_test\.c) | 8
(zlib|lzma|zstd|lz4.*)\.h     | installer/base/inflate\.c                   | 1
openssl/.*                    | installer/base/(digest|http_tls|key|cms)\.c|kmod/(modsig|versions)\.c|tests/unit/(sign\.h|(versions|http_tls|key)_test\.c) | 10
(gelf|libelf|elfutils/.*)\.h  | kmod/sections\.c                            | 1
jansson\.h                    | installer/base/json\.h                      | 1
curl/.*                       | installer/base/http_lib\.h                  | 1
seccomp\.h                   | kmod/syscalls\.c                            | 1
yaml\.h                       | installer/base/yaml\.c                      | 1
libmount/.*                   | installer/node/mounts?\.c                   | 1
cmocka\.h                     | tests/unit/[a-z0-9_]+\.[ch]                 | 999'

{ find installer kmod precompiled tests/{unit,sim} -name '*.[ch]' 2>/dev/null || true; } | sort |
  xargs grep -HnE '^[[:space:]]*#[[:space:]]*include' | awk -v places="$places" '
function room(path) {
	if (path ~ /^tests\//) return "tests"
	if (path ~ /^installer\/[a-z]+\.c$/) return "main"
	sub(/^installer\//, "", path)
	sub(/\/.*/, "", path)
	return path
}
function complain(text) { print where ": " text; bad = 1 }
BEGIN {
	split("base=1 kmod=2 precompiled=2 node=3 cluster=4 cmd=5 main=6 tests=9", pairs, " ")
	for (i in pairs) { split(pairs[i], p, "="); rank[p[1]] = p[2] }
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
			if (name !~ header[i]) continue
			if (file !~ place[i]) complain("<" name "> belongs in " place[i])
			else if (!((i, file) in seen) && ++users[i] > most[i]) complain("<" name "> has two places")
			seen[i, file] = 1
		}
		next
	}
	gsub(/^[^"]*"|".*$/, "", name)
	to = name
	if (to !~ /\//) { if (from != "tests") complain("\"" name "\" is not written from a room"); next }
	sub(/\/.*/, "", to)
	if (!(to in rank)) complain("the map has no room \"" to "\"")
	else if (to != from && rank[to] >= rank[from]) complain("\"" name "\" points up: " from " must not know " to)
}
END { exit bad || NR == 0 }'
