#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Where the time of a cold compile goes, by kmodsmith and by bare make, which gets source and headers unpacked: the open and
# the proprietary source, each for the newest 6.1 and 6.12 kernels. Processor time is the whole machine's (compile.sh says why):
# measure on an idle machine.
#   tests/bench/phases.sh KMODSMITH [SOURCE:KERNEL...]    keys of scripts/inputs.sh; three minutes each on two processors
set -euo pipefail
kmodsmith=$1 pairs=("${@:2}") jobs=$(nproc)
# shellcheck source=tests/vm/cache.sh
. "$(dirname "$0")/../vm/cache.sh"
all=$(mktemp -d)
trap 'rm -rf "$all"' EXIT
[ "${#pairs[@]}" -gt 0 ] || pairs=({OPEN,PROPRIETARY}:{K61,K612})

# What has passed since the last call, as "WALL CPU" in seconds.
lap_clock() {
  local now
  now="$(cut -d' ' -f1 /proc/uptime) $(awk -v ticks="$(getconf CLK_TCK)" '/^cpu / { print ($2 + $3 + $4) / ticks }' /proc/stat)"
  echo "${clock-$now} $now" | awk '{ printf "%.1f %.1f\n", $3 - $1, $4 - $2 }' >"$work/lap"
  clock=$now
}
ended() { # WHO PHASE
  lap_clock
  echo "$(<"$work/lap") $2" >>"$work/$1"
}
# kmodsmith says when each program that it ran has ended: patch for what this kernel needs; the compiler tried with the kernel's
# flags, and as a fork server; make for the probes' headers, and for all else; strip.
kmodsmith_phases() {
  local line programs=0
  while IFS= read -r line; do
    case $line in
    *": source "*) ended kmodsmith unpack ;;
    *" debug: run "*/patch\ *) programs=$((programs - 1)) ;;
    *"'/proc/self/exe' ended"*)
      programs=$((programs + 1))
      case $programs in
      2) ended kmodsmith "try the compiler" ;;
      3) ended kmodsmith conftest ;;
      4) ended kmodsmith "objects and link" ;;
      esac
      ;;
    esac
    echo "$line" >>"$work/log"
  done
  ended kmodsmith "strip, prove, pack"
  [ "$programs" -eq 5 ] || { tail -n 20 "$work/log" >&2; return 1; }
}
make_phases() {
  local line is_asking=1
  while IFS= read -r line; do
    [ -z "$is_asking" ] || [[ $line != *"CC [M]"* ]] || { is_asking=; ended make conftest; }
    echo "$line" >>"$work/log"
  done
  ended make "objects and link"
  [ -z "$is_asking" ] || { tail -n 20 "$work/log" >&2; return 1; }
}
bare_make() { # SOURCE-KEY KERNEL-KEY
  local release tree
  release=$(of "$2")
  tree=$(headers "$2")
  at_home "$tree" make -C "$work/source" -j"$jobs" modules CONFIG_DEBUG_INFO_BTF_MODULES= \
    SYSSRC="/usr/src/linux-headers-${release%-cloud-amd64}-common" SYSOUT="/usr/src/linux-headers-$release"
}
sum() { awk '{ wall += $1; cpu += $2 } END { printf "%.1f %.1f whole\n", wall, cpu }' "$1"; }
row() { # CASE KMODSMITH'S-LINE MAKE'S-LINE
  local own other
  read -ra own <<<"$2"
  read -ra other <<<"$3"
  printf 'row\tP5\t%s\tnative, %s jobs\ts\t%s\t%s\t%s\t%s' "$1" "$jobs" "${own[0]}" "${own[0]}" "${own[0]}" "${own[1]}"
  [ -z "$3" ] || printf '\tbare make\t%s\t%s\t%s\t%s' "${other[0]}" "${other[0]}" "${other[0]}" "${other[1]}"
  printf '\n'
}
for pair in "${pairs[@]}"; do
  source=${pair%:*} kernel=${pair#*:} flavour=proprietary
  [ "$source" != OPEN ] || flavour=open
  debs=$(of "$kernel" _HEADERS)
  work=$all/${pair/:/-} # nothing is removed in between: ext4 is slow to find inodes while many were deleted in the last seconds
  mkdir -p "$work/source" "$work/deb"
  dpkg-deb --extract "$(of "$source")" "$work/deb"
  tar -xf "$work"/deb/usr/src/*.tar.xz -C "$work/source" --strip-components=2
  headers "$kernel" >/dev/null
  lap_clock
  "$kmodsmith" build --verbose --source "$(of "$source")" --headers "${debs// /,}" --kernel "$(of "$kernel")" --jobs "$jobs" \
    --flavour "$flavour" --state-dir "$work/state" --output "oci:$work/out" 2>&1 >"$work/table" | kmodsmith_phases
  if grep -q '/patch -p1 ' "$work/log"; then # make gets it, too: it would not compile
    for patch in "$top/kmod/source/patches/$flavour"-*.patch; do patch -s -d "$work/source" -p1 <"$patch"; done
  fi
  lap_clock
  bare_make "$source" "$kernel" 2>&1 | make_phases || { tail -n 20 "$work/log" >&2; exit 1; }
  name="$flavour, $(of "$kernel" | cut -d. -f1,2)"
  while read -r wall cpu phase; do
    row "phases of $name: $phase" "$wall $cpu" "$(grep " $phase\$" "$work/make" || true)"
  done <"$work/kmodsmith"
  row "phases of $name: whole" "$(sum "$work/kmodsmith")" "$(sum "$work/make")"
done
