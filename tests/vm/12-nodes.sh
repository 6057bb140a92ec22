# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# Device nodes of a whole machine, held against NVIDIA's own tool.
# kernel: K61 K612
# gpus: 8
# switches: 4
# stub: yes
# packages: open
# debs: MODPROBE
# programs: strace
nodes() { find /dev/nvidia* /dev/char -newermt 1970-01-02 -exec stat -c '%n %i %F %a %u %g %t:%T %Z' {} + | sort; }

for module in nvidia nvidia-uvm nvidia-modeset; do t "$module.ko loads" insmod /packages/open.d/$module.ko; done
is "the kernel makes no node" "$(ls /dev/nvidia* 2>/dev/null)" ""
t "nodes makes the device nodes" kmodsmith nodes
like "nodes counts what it made" "$out" '^2[0-9] nodes, [0-9]+ changes, 0 wrong$'
is "nodes of 8 GPUs and 4 switches" "$(ls -d /dev/nvidia[0-7] /dev/nvidia-nvswitch[0-3] | wc -l)" 12
calls=mknodat,mknod,symlinkat,symlink,unlinkat,renameat,renameat2,fchmodat,fchmod,chmod,fchownat,chown
t "R-G2: nodes runs a second time" strace -f --seccomp-bpf -qq -o /tmp/trace -e trace=$calls kmodsmith nodes
is "R-G2: a second run makes no node and changes none" "$(grep -cE 'dev|nvidia' /tmp/trace)" 0
like "R-G2: a second run says that nothing changed" "$out" ' 0 changes, 0 wrong$'

nodes >/tmp/before
for minor in 0 1 2 3 4 5 6 7 255; do t "nvidia-modprobe -c $minor" nvidia-modprobe -c $minor; done
for minor in 0 1 2 3 255; do t "nvidia-modprobe -s -c $minor" nvidia-modprobe -s -c $minor; done
t "nvidia-modprobe -u" nvidia-modprobe -u -c 0
t "nvidia-modprobe -m" nvidia-modprobe -m
t "nvidia-modprobe -l" nvidia-modprobe -l
for file in $(find /proc/driver/nvidia/capabilities /proc/driver/nvidia-nvlink/capabilities -type f); do
  t "nvidia-modprobe -f $file" nvidia-modprobe -f "$file"
done
nodes >/tmp/after
t "NVIDIA's nvidia-modprobe finds nothing to change" diff /tmp/before /tmp/after

rm /dev/nvidia3 /dev/char/195:0 && chmod 600 /dev/nvidia1 && mknod /tmp/x c 1 3 && mv /tmp/x /dev/nvidia5
t_fails 1 "a dry run sees what is wrong" kmodsmith nodes --dry-run
like "a dry run lists a missing node" "$out" 'missing +/dev/nvidia3'
like "a dry run lists a wrong mode" "$out" 'wrong +/dev/nvidia1 .*mode'
like "a dry run lists a wrong number" "$out" 'wrong +/dev/nvidia5 .*number'
like "a dry run lists a missing link" "$out" '(wrong|missing) +/dev/nvidia0 .*link'
t_fails 1 "R-K2: status is not ready while nodes are wrong" kmodsmith status
t "nodes puts the wrong nodes right" kmodsmith nodes
t_fails 1 "a driver that was loaded by hand is not ready" kmodsmith status
like "  its GPUs were not measured" "$out" '^FAIL +gpus +8 of 8; not measured since the driver was loaded'
t "status is ready when the nodes are right, and nobody is to measure" kmodsmith status --check-gpus --gpu-check none
mkdir -p /tmp/root/dev
t "R-G4: nodes in another dev-root" kmodsmith nodes --dev-root /tmp/root
is "R-G4: the other dev-root has the nodes" "$(ls -d /tmp/root/dev/nvidia[0-7] | wc -l)" 8
t "the driver is removed" rmmod nvidia_modeset nvidia_uvm nvidia
t "the driver is loaded with a mode and a group for its files" insmod /packages/open.d/nvidia.ko NVreg_DeviceFileMode=0660 NVreg_DeviceFileGID=44
t "nodes runs with a driver that names mode and group" kmodsmith nodes
is "nodes have the mode and the group that the driver names" "$(stat -c '%a %g' /dev/nvidia0)" "660 44"
t "the driver is removed again" rmmod nvidia
t "the driver is loaded with the word to leave its files alone" insmod /packages/open.d/nvidia.ko NVreg_ModifyDeviceFiles=0
rm /dev/nvidia2
t_fails 1 "nodes fails when the driver wants its files left alone and one is missing" kmodsmith nodes
is "nodes makes none of the files that the driver wants left alone" "$(ls /dev/nvidia2 2>/dev/null)" ""
