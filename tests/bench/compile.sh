#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# P5, on a machine that does nothing else: one cold compile of the proprietary modules for the newest 6.1 kernel by kmodsmith,
# and by bare make, by `dkms build` and by the steps of NVIDIA's container. make and dkms get source and headers that are
# unpacked already; kmodsmith and the container start from the packages, and kmodsmith ends with a stripped, proven package.
# Then, with what the first compile left (probes, objects): the same again, the other module type, the kernel before, another
# driver version; and the first one without fork servers.
#   tests/bench/compile.sh KMODSMITH [LAPS]    about ten minutes each on two processors
set -euo pipefail
# shellcheck source=tests/vm/cache.sh
. "$(dirname "$0")/../vm/cache.sh"
kmodsmith=$1 laps=${2:-1} jobs=$(nproc)
source=$(of PROPRIETARY)
release=$(of K61)
image=$(of K61 _IMAGE)
debs=$(of K61 _HEADERS)
driver=$(driver_version PROPRIETARY)
tree=$(headers K61)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=tests/bench/others.bash
. "$here/../bench/others.bash"
mkdir "$work/times"

busy() { awk -v ticks="$(getconf CLK_TCK)" '/^cpu / { print ($2 + $3 + $4) / ticks }' /proc/stat; }
# CASE COMMAND...: one more line "WALL CPU", in seconds, for CASE; what COMMAND says goes to a log that is shown when it fails.
# CPU is what the whole machine spent, because nobody waits for fork servers, and only who is waited for is in a process's times.
spent() {
  local TIMEFORMAT='%R' before after
  before=$(busy)
  { time "${@:2}" >"$work/log" 2>&1; } 2>"$work/time" || { tail -n 20 "$work/log" >&2; return 1; }
  after=$(busy)
  awk -v before="$before" -v after="$after" '{ printf "%.1f %.1f\n", $1, after - before }' "$work/time" |
    tee -a "$work/times/$1" | awk -v name="$1" '{ printf "    %-46s %8.1f s, processor %.1f s\n", name, $1, $2 }'
}
layer() { find "$1/blobs" -type f -size +1M; } # the one large blob
modules() { find "$@" -name '*.ko' -printf '%f\n' | sed 's/^nvidia-current/nvidia/' | sort | paste -sd' '; }
compile() { # SOURCE-KEY KERNEL-KEY OUT [OPTION]
  local debs flavour=proprietary
  debs=$(of "$2" _HEADERS)
  [ "$1" != OPEN ] || flavour=open
  "$kmodsmith" build --source "$(of "$1")" --headers "${debs// /,}" --kernel "$(of "$2")" --jobs "$jobs" \
    --flavour "$flavour" --state-dir "$work/state" --output "oci:$work/$3" "${@:4}"
}
again() { # CASE ARGUMENT...: with the caches of the cold compile
  spent "$1" compile "${@:2}"
  sed -nE "s/.*(from the cache.*)/        \1/p" "$work/log"
}

lap() {
  rm -rf "$work/state" "$work/out" "$work/again" "$work/source" "$work/container" "$work/deb"
  mkdir -p "$work/source" "$work/container/root"
  spent "cold compile" compile PROPRIETARY K61 out
  grep -E ' [0-9.]+ s ' "$work/log" | sed 's/^kmodsmith: /        /'
  dpkg-deb --extract "$source" "$work/deb"
  tar -xf "$work"/deb/usr/src/*.tar.xz -C "$work/source" --strip-components=2
  spent "bare make" at_home "$tree" make -C "$work/source" -j"$jobs" modules CONFIG_DEBUG_INFO_BTF_MODULES= \
    SYSSRC="/usr/src/linux-headers-${release%-cloud-amd64}-common" SYSOUT="/usr/src/linux-headers-$release"
  spent "dkms build" dkms_build "$tree" "$release"
  spent "container, unpack the driver" container_unpack "$source"
  # shellcheck disable=SC2086 # several paths
  spent "container, install the headers" container_headers $debs
  spent "container, unpack the kernel package, depmod" container_kernel "$image" "$release"
  spent "container, make" container_make "$release"
  spent "container, link" container_link
  for made in "kmodsmith $(tar --zstd -tf "$(layer "$work/out")" | grep -oE '[^/]+\.ko' | sort | paste -sd' ')" \
    "make $(modules "$work/source" -maxdepth 1)" "dkms $(modules "$work/dkms/tree" -path '*/module/*')" \
    "container $(modules "$work/container/kernel" -maxdepth 1)"; do
    echo "        ${made%% *} made ${made#* }"
  done
  again "the same again" PROPRIETARY K61 again
  again "the other module type after it" OPEN K61 again
  again "the kernel before after it" PROPRIETARY K61B again
  again "another driver version after it" TESLA535 K61 again
  again "cold compile without fork servers" PROPRIETARY K61 again --no-cache
}
# FILE... -> "MEDIAN LOW HIGH CPU", tabs between them, of the laps; several files are the steps of one thing
summary() {
  paste -d' ' "${@/#/$work/times/}" | awk '{ wall = cpu = 0; for (i = 1; i < NF; i += 2) { wall += $i; cpu += $(i + 1) } print wall, cpu }' |
    sort -n | awk '{ wall[NR] = $1; cpu[NR] = $2 }
      END { n = int((NR + 1) / 2); printf "%.1f\t%.1f\t%.1f\t%.1f", wall[n], wall[1], wall[NR], cpu[n] }'
}

dkms_prepare "$driver"
for ((i = 1; i <= laps; i++)); do
  echo "P5, lap $i of $laps, $jobs jobs"
  lap
done
steps=("container, unpack the driver" "container, install the headers" "container, unpack the kernel package, depmod"
  "container, make" "container, link")
row() { printf 'row\tP5\t%s\tnative, %s jobs\ts\t%s\t%s\t%s\n' "$1" "$jobs" "$(summary "$1")" "$2" "$(summary "${@:3}")"; }
row "cold compile" "bare make" "bare make"
row "cold compile" "dkms build" "dkms build"
row "cold compile" "steps of NVIDIA's container" "${steps[@]}"
for name in "the same again" "the "{"other module type","kernel before"}" after it" "another driver version after it" \
  "cold compile without fork servers"; do
  row "$name" "bare make" "bare make"
done
for name in "${steps[@]}"; do
  printf 'row\tP5\tone step of it\tnative, %s jobs\ts\t\t\t\t\t%s\t%s\n' "$jobs" "$name" "$(summary "$name")"
done
