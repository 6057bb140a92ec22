# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# P1, P2 and P11 on this machine's own processor. In private namespaces a recorded node (8 GPUs, 4 switches, driver
# loaded) takes the place of what proc, sys and dev say about the hardware; the processes are real.
#   unshare --mount --pid --fork --kill-child bash tests/bench/native.sh KMODSMITH NVIDIA-MODPROBE [PROCESSES]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
kmodsmith=$1 modprobe=$2 crowd=${3:-5000}
export TMPDIR=$here/../../build/bench/machine KMODSMITH_STATE_DIR=/run/state
mkdir -p "$TMPDIR"
mount -t tmpfs tmpfs "$TMPDIR"
cp -r "$here/../hosts/h100x8" "$TMPDIR/host"
host=$TMPDIR/host
# So that /dev/nvidia0 can be opened without a driver it gets the number of /dev/full, which nobody else has open.
sed -i '/^Character devices:/a\  1 nvidia-of-the-bench' "$host/proc/devices"
driver=$(<"$host/sys/module/nvidia/version")
install="$kmodsmith install --driver $driver --flavour open"
separate=
for minor in 0 1 2 3 4 5 6 7 255; do separate+="$modprobe -c $minor;"; done
for minor in 0 1 2 3 255; do separate+="$modprobe -s -c $minor;"; done
separate+="$modprobe -u -c 0;$modprobe -m;$modprobe -l"
together="$modprobe -c 0 -c 1 -c 2 -c 3 -c 4 -c 5 -c 6 -c 7 -c 255;$modprobe -s -c 0 -c 1 -c 2 -c 3 -c 255;"
together+="$modprobe -u -c 0;$modprobe -m;$modprobe -l"
mapfile -t capabilities < <(find "$host"/proc/driver/nvidia{,-nvlink}/capabilities -type f | sed "s|^$host||")
for file in "${capabilities[@]}"; do separate+=";$modprobe -f $file" together+=";$modprobe -f $file"; done

mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /dev
mknod -m 666 /dev/null c 1 3
mkdir /dev/char
mount --bind "$host/sys" /sys
mount --bind "$host/proc" /proc
printf 'rm -rf /dev/nvidia* /dev/char/*\n' >"$TMPDIR/clean"
printf '%s\n' 'rm /dev/nvidia0' 'mknod -m 666 /dev/nvidia0 c 1 7' >"$TMPDIR/openable"

nodes() { find /dev/nvidia* -type c | wc -l; }
links() { find /dev/char -type l | wc -l; }
used() { echo "$1" >/sys/module/nvidia/refcnt; } # 2 are the other modules; each open adds 3

echo "native: nodes and links after kmodsmith nodes, and after nvidia-modprobe"
"$kmodsmith" nodes >/dev/null
echo "        kmodsmith $(nodes) and $(links)"
sh "$TMPDIR/clean"
IFS=';' read -ra calls <<<"$together"
for call in "${calls[@]}"; do $call; done
many=$(grep -o "$modprobe" <<<"$separate" | wc -l)
echo "        nvidia-modprobe $(nodes) and $(links), in $many calls or in ${#calls[@]}"
clean="sh $TMPDIR/clean"
lap 15 "P2 all nodes, first run" kmodsmith "$clean" "$kmodsmith nodes" "one call a node" "$clean" "$separate"
lap 15 "P2 all nodes, first run" kmodsmith "$clean" "$kmodsmith nodes" "fewest calls" "$clean" "$together"
lap 15 "P2 all nodes, second run" kmodsmith "" "$kmodsmith nodes" "one call a node" "" "$separate"
lap 15 "P2 all nodes, second run" kmodsmith "" "$kmodsmith nodes" "fewest calls" "" "$together"
lap 15 "P1 start, driver loaded, few processes" kmodsmith "" "$install" "nvidia-modprobe -u, -c 0" "" \
  "$modprobe -u -c 0;$modprobe -c 0"

mount -t proc proc /proc
for file in devices driver version sys/kernel/osrelease; do mount --bind "$host/proc/$file" "/proc/$file"; done
for ((i = 0; i < crowd; i++)); do sleep 100000 >/dev/null 2>&1 & done
sh "$TMPDIR/openable"
echo "native: $(find /proc -maxdepth 1 -name '[0-9]*' | wc -l) processes, each with" \
  "$(find "/proc/$!/fd" -type l | wc -l) descriptors and $(wc -l <"/proc/$!/maps") mappings"
fuser="fuser $(find /dev/nvidia* -type c | tr '\n' ' ')"
used 2
lap 9 "P11 holders, driver idle" holders "" "$kmodsmith holders" fuser "" "-$fuser"
used 11
for i in 1 2 3; do { sleep 100000 & } 9</dev/nvidia0; done
lap 9 "P11 holders, 3 processes hold a GPU" holders "" "$kmodsmith holders" fuser "" "-$fuser"
echo "        holders found $(grep -c /dev/nvidia0 <<<"$("$kmodsmith" holders)"), fuser $($fuser 2>/dev/null | wc -w)"
lap 9 "P1 start, GPU held, many processes" kmodsmith "" "$install" "true (a process)" "" true
