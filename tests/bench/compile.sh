#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# P5, on a machine that does nothing else: one cold compile of the proprietary modules for the newest 6.1 kernel by kmodsmith, and one by bare make. Make
# gets source and headers that are unpacked already; kmodsmith starts from the packages and ends with a proven package.
# Then, with what the first compile left (probes, objects): the same again, the other flavour, and the kernel before; and
# the first one without fork servers.
#   tests/bench/compile.sh KMODSMITH
set -euo pipefail
# shellcheck source=tests/vm/cache.sh
. "$(dirname "$0")/../vm/cache.sh"
kmodsmith=$1 jobs=$(nproc)
source=$(of PROPRIETARY)
release=$(of K61)
tree=$(headers K61)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/source"
dpkg-deb --extract "$source" "$work/deb"
tar -xf "$work"/deb/usr/src/*.tar.xz -C "$work/source" --strip-components=2

busy() { awk -v ticks="$(getconf CLK_TCK)" '/^cpu / { print ($2 + $3 + $4) / ticks }' /proc/stat; }
# COMMAND... -> "WALL CPU" in seconds; its output goes to a log that is shown when it fails. CPU is what the whole machine
# spent, because nobody waits for fork servers, and only who is waited for is in a process's times.
spent() {
  local TIMEFORMAT='%R' before after
  before=$(busy)
  { time "$@" >"$work/log" 2>&1; } 2>"$work/time" || { tail -n 20 "$work/log" >&2; return 1; }
  after=$(busy)
  awk -v before="$before" -v after="$after" '{ printf "%.1f %.1f", $1, after - before }' "$work/time"
}
layer() { find "$1/blobs" -type f -size +1M; } # the one large blob
modules() { find "$1" -maxdepth "$2" -name '*.ko' -printf '%f\n' | sort | tr '\n' ' '; }

compile() { # SOURCE-KEY KERNEL-KEY OUT [OPTION]
  local debs flavour=proprietary
  debs=$(of "$2" _HEADERS)
  [ "$1" = OPEN ] && flavour=open
  "$kmodsmith" build --source "$(of "$1")" --headers "${debs// /,}" --kernel "$(of "$2")" --jobs "$jobs" \
    --flavour "$flavour" --state-dir "$work/state" --output "oci:$work/$3" "${@:4}"
}
ours=$(spent compile PROPRIETARY K61 out)
grep -E ' [0-9.]+ s ' "$work/log" | sed 's/^kmodsmith: /          /'
bare=$(spent at_home "$tree" make -C "$work/source" -j"$jobs" modules CONFIG_DEBUG_INFO_BTF_MODULES= \
  SYSSRC="/usr/src/linux-headers-${release%-cloud-amd64}-common" SYSOUT="/usr/src/linux-headers-$release")
echo "          kmodsmith made $(tar --zstd -tf "$(layer "$work/out")" | grep -oE '[^/]+\.ko' | sort | tr '\n' ' ')"
echo "          make made      $(modules "$work/source" 1)"
warm=''
while read -r key kernel option text; do
  [ "$option" != none ] || option=
  warm+="$(spent compile "$key" "$kernel" again ${option:+"$option"} </dev/null) $text;"
  sed -nE "s/.*(from the cache.*)/          $text: \1/p" "$work/log"
done <<'EOF'
PROPRIETARY K61 none the same again
OPEN K61 none the other flavour
PROPRIETARY K61B none the kernel before
PROPRIETARY K61 --no-cache no fork servers
EOF
awk -v ours="$ours" -v bare="$bare" -v warm="$warm" -v jobs="$jobs" 'BEGIN {
  split(ours, o); split(bare, b)
  printf "P5 cold compile, %d jobs, one run each\n", jobs
  printf "    %-26s %8.1f s, processor %.1f s\n", "kmodsmith", o[1], o[2]
  printf "    %-26s %8.1f s, processor %.1f s\n", "bare make", b[1], b[2]
  printf "    %-26s %8.2f, processor %.2f\n", "ratio", o[1] / b[1], o[2] / b[2]
  for (i = 1; i < split(warm, rows, ";"); i++) {
    split(rows[i], w); text = rows[i]; sub(/^[^ ]+ [^ ]+ /, "", text)
    printf "    %-26s %8.1f s, processor %.1f s, ratio %.2f, processor %.2f\n", text, w[1], w[2], w[1] / b[1], w[2] / b[2] } }'
