# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# R-J1, R-A8: in a container that has the machine's process ids and rights, and nothing mounted, the machine is found by itself:
# its state, its nodes and what others read are the machine's, and nothing of that is left in the container. As in a pod of
# containerd before 2.1, the container's sysfs is read-only below a mount that says rw: what is written there goes to the machine's.
# The user space comes without a program for the hooks of containers, and the machine has none: the container's own is exported.
# gpus: 1
# stub: yes
# packages: smallopen
# beside: payloads
# programs: unshare flock
# files: build/release/kmodsmith-static
# mem: 1536M
mkdir /pod
mount -t tmpfs pod /pod
for dir in bin sbin usr/bin usr/lib lib lib64 proc packages beside; do
  [ -d /$dir ] && mkdir -p /pod/$dir && mount -o rbind /$dir /pod/$dir
done
mkdir -p /pod/dev /pod/sys /pod/tmp /pod/drivers /pod/usr/libexec /pause
cp /files/kmodsmith-static /pod/usr/libexec/kmodsmith
own_sysfs() { /usr/bin/unshare --net sh -c 'mount -o ro -t sysfs pause /pause && mount -t sysfs sysfs /pod/sys'; }
pod() { /usr/bin/unshare --mount chroot /pod "$@"; }
left() { (cd /pod && find . -xdev \( -name 'nvidia*' -o -name 'kmodsmith*' \) ! -path './drivers/*' ! -path './usr/libexec/*'); }
last_run() { "$@" kmodsmith status --json | grep -c '"outcome": "change"'; }
fwpath=sys/module/firmware_class/parameters/path root=/run/nvidia/driver cdi=/var/run/cdi/kmodsmith.json

t "the container's network has its own sysfs, read-only first" own_sysfs
like "the container's sysfs is mounted rw" "$(grep ' /pod/sys ' /proc/self/mountinfo)" ' /pod/sys rw,.* - sysfs sysfs ro'
t_fails 1 "the container's sysfs cannot be written" pod sh -c "echo /tmp >/$fwpath"
like "the refusal is of the file system" "$out" 'Read-only file system'
echo NVreg_DeviceFileMode=432 >/pod/drivers/nvidia.conf
t "install in a container" pod kmodsmith install --package /packages/smallopen
t "an install in a container makes the nodes on the machine" test -c /dev/nvidia0
t "an install in a container makes the links on the machine" test -L "/dev/char/195:0"
is "an install in a container keeps its state on the machine" "$(ls -d /var/lib/kmodsmith/store)" /var/lib/kmodsmith/store
is "an install in a container tells the machine that it is ready" "$(sed -n 's/^  "state": "\(.*\)",/\1/p' /run/kmodsmith/status.json)" READY
is "an install leaves nothing in the container" "$(left)" ""
is "an install in a container takes the parameters of the container" "$(sed -n 's/^DeviceFileMode: //p' /proc/driver/nvidia/params)" 432
is "status reads the machine's" "$(last_run pod)" 1
t "nodes looks at the machine's" pod kmodsmith nodes --dry-run
exec 8>/run/kmodsmith/lock
flock 8
t_fails 75 "the lock is the machine's" pod kmodsmith install --package /packages/smallopen
like "the refusal in a container is E_LOCKED" "$out" E_LOCKED
exec 8>&-
is "a chroot in the machine's mount namespace is no container" "$(last_run chroot /pod)" 0
is "a mount namespace alone is no container" "$(last_run /usr/bin/unshare --mount)" 1
is "a host that is named is that one" "$(last_run env KMODSMITH_HOST_ROOT=/pod)" 0
is "a host that is named is that one, also in a container" "$(last_run pod env KMODSMITH_HOST_ROOT=/)" 0
t "unload in a container" pod kmodsmith unload
is "an unload in a container is told on the machine" "$(sed -n 's/^  "state": "\(.*\)",/\1/p' /run/kmodsmith/status.json)" NOT_READY
is "an unload leaves nothing in the container" "$(left)" ""

release=$(uname -r)
mkdir -p "/lib/modules/$release/extra" && cp /vm/modules/nouveau.ko "/lib/modules/$release/extra/" && depmod "$release" 2>/dev/null
t "nouveau takes the GPU" modprobe nouveau
rm -r "/lib/firmware/nvidia/$OPEN_VERSION" # the export has it
mount --bind /dev/null /usr/bin/kmodsmith # the machine has none
t "an install in a container unbinds nouveau, and exports user space with firmware" pod kmodsmith install --package /beside/a \
  --export $root --cdi $cdi
is "an install in a container sets the kernel's firmware path" "$(cat /$fwpath)" $root/lib/firmware
is "an install in a container takes the GPU" "$(basename "$(readlink /sys/bus/pci/devices/0000:40:00.0/driver)")" nvidia
is "an install in a container resets driver_override" "$(cat /sys/bus/pci/devices/0000:40:00.0/driver_override)" "(null)"
like "the CDI file names the program in the export" "$(cat $cdi)" "\"$root/usr/libexec/kmodsmith\""
t "the machine runs that program" $root/usr/libexec/kmodsmith explain E_READ_ONLY
t "unload in a container, with what was exported" pod kmodsmith unload
