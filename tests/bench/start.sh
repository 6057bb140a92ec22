#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The start after a reboot into a kernel whose package was made before: from the store, without network and compiler, with
# the real package for the real kernel, on this machine's processor. All of it is real up to the load, which a recorded
# machine only writes down; what the kernel takes for the load itself is P3's.
#   tests/bench/start.sh KMODSMITH
set -euo pipefail
kmodsmith=$1
# shellcheck source=tests/vm/cache.sh
. "$(dirname "$0")/../vm/cache.sh"
# shellcheck source=tests/vm/packages.sh
. "$top/tests/vm/packages.sh"
release=$(of K61)
driver=$(driver_version OPEN)
package=$(package open K61)
kernel=$(kernel K61)
layer=$(blob_of "$package/layout" layers)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cp -a "$top/tests/hosts/h100x2-unloaded" "$work/root"
mkdir -p "$work/root/lib/modules/$release"
cp -a "$kernel/boot" "$work/root"
cp -a "$kernel/lib/modules/$release"/modules.* "$work/root/lib/modules/$release"
cp "$top/tests/hosts/h100x8/proc/devices" "$work/root/proc/devices"
mkdir -p "$work/root/proc/driver" "$work/root/lib/firmware/nvidia/$driver"
cp -a "$top/tests/hosts/h100x8/proc/driver/nvidia" "$work/root/proc/driver/"
rm -rf "$work"/root/proc/driver/nvidia/gpus/0000:[6-9ab]*
sed -i /nvswitch/d "$work/root/proc/devices"
echo gsp | tee "$work/root/lib/firmware/nvidia/$driver"/gsp_{tu10x,ga10x}.bin >/dev/null
"$kmodsmith" fetch --quiet --root "$work/root" --driver "$driver" --flavour open --kernel "$release" \
  --from "oci:$package/layout" --insecure-skip-verify >/dev/null 2>&1
start="$kmodsmith install --root $work/now --driver $driver --flavour open --no-compile --offline"
reboot="rm -rf $work/now $work/out;cp -a $work/root $work/now;mkdir $work/out;sync"

IFS=';' read -ra steps <<<"$reboot"
for step in "${steps[@]}"; do $step; done
$start 2>"$work/log" | tail -n 1 | grep -qx ready || { cat "$work/log" >&2; exit 1; }
echo "start after a reboot: $(sed -n 's/^kmodsmith: package *\([0-9.]*\) s *//p' "$work/log" | tail -n 1)"
sed -nE 's/^kmodsmith: ([a-z]+) +([0-9.]+) s .*/    \1 \2 s/p' "$work/log"
TMPDIR=$work lap 9 "start from the store, up to ready" kmodsmith "$reboot" "$start" "sha256sum, tar" "$reboot" \
  "sha256sum $layer;tar --zstd -C $work/out -xf $layer"
