# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# P1, P2 and P3 on a real kernel with the real modules. Times are those of an emulated processor: the ratios count.
# kernel: K61
# gpus: 8
# switches: 4
# stub: yes
# packages: open
# debs: MODPROBE
# programs: strace lap
# mem: 1536M
# timeout: 600
set -eu
# shellcheck source=/dev/null
. /vm/inputs
export TMPDIR=/tmp
install="kmodsmith install --driver $OPEN_VERSION --flavour open"
printf 'rm -rf /dev/nvidia* /dev/char/*\n' >/tmp/clean
calls() { # STRACE-FILTER: calls of a start with the requested driver loaded
  # shellcheck disable=SC2086 # a command with its arguments
  strace -f -qq -o /tmp/trace -e "trace=$1" $install >/dev/null 2>&1
  grep -c '(' /tmp/trace || true
}

kmodsmith install --package /packages/open >/dev/null 2>&1
programs=$(calls execve)
echo "guest:  kernel $(uname -r); P1 makes $(calls delete_module) unloads, $(calls init_module,finit_module) loads," \
  "$(calls connect) connects and starts $((programs - 1)) programs"
lap 5 "P1 start, driver loaded" kmodsmith "" "$install" \
  "nvidia-modprobe -u, -c 0" "" "nvidia-modprobe -u -c 0;nvidia-modprobe -c 0"

one="" all="nvidia-modprobe" switches="nvidia-modprobe -s"
for minor in 0 1 2 3 4 5 6 7 255; do one="$one nvidia-modprobe -c $minor;" all="$all -c $minor"; done
for minor in 0 1 2 3 255; do one="$one nvidia-modprobe -s -c $minor;" switches="$switches -c $minor"; done
rest="nvidia-modprobe -u -c 0;nvidia-modprobe -m;nvidia-modprobe -l"
find /proc/driver/nvidia/capabilities /proc/driver/nvidia-nvlink/capabilities -type f >/tmp/capabilities
while read -r file; do rest="$rest;nvidia-modprobe -f $file"; done </tmp/capabilities
few="$all;$switches;$rest"
clean="sh /tmp/clean"
lap 5 "P2 all nodes, first run" kmodsmith "$clean" "kmodsmith nodes" "one call a node" "$clean" "$one$rest"
lap 5 "P2 all nodes, first run" kmodsmith "$clean" "kmodsmith nodes" "fewest calls" "$clean" "$few"
lap 5 "P2 all nodes, second run" kmodsmith "" "kmodsmith nodes" "one call a node" "" "$one$rest"
lap 5 "P2 all nodes, second run" kmodsmith "" "kmodsmith nodes" "fewest calls" "" "$few"

unload="-rmmod nvidia_modeset;-rmmod nvidia_uvm;-rmmod nvidia"
lap 5 "P3 load from the store, whole command" kmodsmith "$unload" "$install --json" insmod "$unload" \
  "insmod /packages/open.d/nvidia.ko;insmod /packages/open.d/nvidia-uvm.ko;insmod /packages/open.d/nvidia-modeset.ko"
echo "guest:  median of each phase of these installs, in ms"
awk '/"phase":/ { gsub(/[",]/, ""); phase = $2 }
  /"seconds":/ { printf "%s %.1f\n", phase, $2 * 1000 }' /tmp/lap.kmodsmith | sort -k1,1 -k2,2n >/tmp/phases
for phase in $(cut -d' ' -f1 /tmp/phases | uniq); do
  grep "^$phase " /tmp/phases | awk '{ value[NR] = $2 }
    END { printf "    %-26s %8.1f\n", $1, value[int((NR + 1) / 2)] }'
done
