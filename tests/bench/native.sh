# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# P1, P2 and P11 on this machine's own processor. In private namespaces a recorded node (8 GPUs, 4 switches, driver
# loaded) takes the place of what proc, sys and dev say about the hardware; the processes are real. Instructions are
# counted by valgrind: they are the same on a busy machine.
#   unshare --mount --pid --fork --kill-child bash tests/bench/native.sh KMODSMITH NVIDIA-MODPROBE [PROCESSES]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
kmodsmith=$1 modprobe=$2 crowd=${3:-5000}
mkdir -p "$here/../../build/bench/machine"
TMPDIR=$(cd "$here/../../build/bench/machine" && pwd)
export TMPDIR KMODSMITH_STATE_DIR=/run/state
mount -t tmpfs tmpfs "$TMPDIR"
cp -r "$here/../hosts/h100x8" "$TMPDIR/host"
host=$TMPDIR/host
# So that /dev/nvidia0 can be opened without a driver it gets the number of /dev/full, which nobody else has open.
sed -i '/^Character devices:/a\  1 nvidia-of-the-bench' "$host/proc/devices"
driver=$(<"$host/sys/module/nvidia/version")
mkdir -p "$TMPDIR/firmware/nvidia/$driver" "$host/sys/module/firmware_class/parameters" # the open modules need it
echo gsp | tee "$TMPDIR/firmware/nvidia/$driver"/gsp_{tu10x,ga10x}.bin >/dev/null
echo "$TMPDIR/firmware" >"$host/sys/module/firmware_class/parameters/path"
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
mount -t proc proc /proc
for file in devices driver version sys/kernel/osrelease; do mount --bind "$host/proc/$file" "/proc/$file"; done
printf 'rm -rf /dev/nvidia* /dev/char/*\n' >"$TMPDIR/clean"
printf '%s\n' 'rm /dev/nvidia0' 'mknod -m 666 /dev/nvidia0 c 1 7' >"$TMPDIR/openable"

nodes() { find /dev/nvidia* -type c | wc -l; }
links() { find /dev/char -type l | wc -l; }
instructions() { # COMMANDS, as lap takes them -> millions of instructions in user space, of all processes
  local calls call
  IFS=';' read -ra calls <<<"$1"
  rm -f "$TMPDIR"/count.*
  for call in "${calls[@]}"; do
    # shellcheck disable=SC2086 # a command with its arguments
    valgrind --tool=cachegrind --cache-sim=no --trace-children=yes --cachegrind-out-file=/dev/null --log-file="$TMPDIR/count.%p" \
      $call >/dev/null 2>&1
  done
  sed -n 's/.*I *refs: *//p' "$TMPDIR"/count.* | tr -d , | awk '{ n += $1 } END { printf "%.2f", n / 1e6 }'
}
count() { # ID CASE PREPARE COMMANDS PLAIN COMMANDS: a row
  local own other
  $3
  own=$(instructions "$4")
  $3
  other=$(instructions "$6")
  printf 'row\t%s\t%s\tnative\tM instructions\t%s\t\t\t\t%s\t%s\n' "$1" "$2" "$own" "$5" "$other"
}
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
lap 15 "P1 probe readiness" kmodsmith "" "$kmodsmith probe readiness" "true (a process)" "" true

cp "$modprobe" "$TMPDIR/nvidia-modprobe" # without its setuid bit, which valgrind refuses
count P2 "instructions, first run" "$clean" "$kmodsmith nodes" "fewest calls" "${together//$modprobe/$TMPDIR/nvidia-modprobe}"
count P2 "instructions, second run" "" "$kmodsmith nodes" "fewest calls" "${together//$modprobe/$TMPDIR/nvidia-modprobe}"
count P1 "instructions, driver loaded, few processes" "" "$install" "nvidia-modprobe -u, -c 0" \
  "$TMPDIR/nvidia-modprobe -u -c 0;$TMPDIR/nvidia-modprobe -c 0"
for ((i = 0; i < crowd; i++)); do sleep 100000 >/dev/null 2>&1 & done
sh "$TMPDIR/openable"
echo "native: $(find /proc -maxdepth 1 -name '[0-9]*' | wc -l) processes, each with" \
  "$(find "/proc/$!/fd" -type l | wc -l) descriptors and $(wc -l <"/proc/$!/maps") mappings"
fuser="fuser $(find /dev/nvidia* -type c | tr '\n' ' ')"
used 2
lap 9 "P11 holders, $crowd processes, driver idle" holders "" "$kmodsmith holders" fuser "" "-$fuser"
used 11
for i in 1 2 3; do { sleep 100000 & } 9</dev/nvidia0; done
lap 9 "P11 holders, $crowd processes, 3 of them hold a GPU" holders "" "$kmodsmith holders" fuser "" "-$fuser"
echo "        holders found $(grep -c /dev/nvidia0 <<<"$("$kmodsmith" holders)"), fuser $($fuser 2>/dev/null | wc -w)"
lap 9 "P1 start, GPU held, $crowd processes" kmodsmith "" "$install" "true (a process)" "" true
