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
export TMPDIR=/tmp BENCH_WHERE=guest
install="kmodsmith install --driver $OPEN_VERSION --flavour open"
printf 'rm -rf /dev/nvidia* /dev/char/*\n' >/tmp/clean
calls() { # STRACE-FILTER COMMAND...: how many such calls it makes
  filter=$1
  shift
  strace -f -qq -o /tmp/trace -e "trace=$filter" "$@" >/dev/null 2>&1
  grep -c '(' /tmp/trace || true
}
row() { # ID CASE UNIT VALUE
  printf 'row\t%s\t%s\tguest\t%s\t%s\n' "$@"
}

kmodsmith install --package /packages/open >/dev/null 2>&1
# shellcheck disable=SC2086 # a command with its arguments
row P1 "unloads, loads, connects and programs started" "" \
  $(($(calls delete_module,init_module,finit_module,connect,execve $install) - 1))
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
row P2 "changing calls of a second run" "" "$(calls mknod,mknodat,symlink,symlinkat,link,linkat,rename,renameat,renameat2,unlink,unlinkat,\
mkdir,mkdirat,rmdir,chmod,fchmod,fchmodat,chown,fchown,lchown,fchownat kmodsmith nodes)"

unload="-rmmod nvidia_modeset;-rmmod nvidia_uvm;-rmmod nvidia"
lap 5 "P3 load from the store, whole command" kmodsmith "$unload" "$install --json" insmod "$unload" \
  "insmod /packages/open.d/nvidia.ko;insmod /packages/open.d/nvidia-uvm.ko;insmod /packages/open.d/nvidia-modeset.ko" >/tmp/loads
cat /tmp/loads
echo "guest:  median of each phase of these installs, in ms"
awk '/"phase":/ { gsub(/[",]/, ""); phase = $2 }
  /"seconds":/ { printf "%s %.1f\n", phase, $2 * 1000 }' /tmp/lap.kmodsmith | sort -k1,1 -k2,2n >/tmp/phases
for phase in $(cut -d' ' -f1 /tmp/phases | uniq); do
  grep "^$phase " /tmp/phases | awk '{ value[NR] = $2 }
    END { printf "    %-26s %8.1f\n", $1, value[int((NR + 1) / 2)] }'
done
# The load alone, beside the insmod of the same laps.
load=$(sed -n 's/^load //p' /tmp/phases | awk '{ v[NR] = $1 } END { printf "%s\t%s\t%s\t", v[int((NR + 1) / 2)], v[1], v[NR] }')
printf 'row\tP3\tload from the store, load alone\tguest\tms\t%s\tinsmod\t%s\n' "$load" "$(sed -n 's/^row.*\tinsmod\t//p' /tmp/loads)"
