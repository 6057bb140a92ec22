# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# R-J1, R-A8: in a container that has the machine's process ids and rights, and nothing mounted, the machine is found by itself:
# its state, its nodes and what others read are the machine's, and nothing of that is left in the container.
# gpus: 1
# packages: smallopen
# programs: unshare flock
mkdir /pod
mount -t tmpfs pod /pod
for dir in bin sbin usr lib lib64 proc sys packages; do
  [ -d /$dir ] && mkdir /pod/$dir && mount -o rbind /$dir /pod/$dir
done
mkdir /pod/dev /pod/tmp /pod/drivers
pod() { /usr/bin/unshare --mount chroot /pod "$@"; }
left() { (cd /pod && find . -xdev \( -name 'nvidia*' -o -name 'kmodsmith*' \) ! -path './drivers/*'); }
last_run() { "$@" kmodsmith status --json | grep -c '"outcome": "change"'; }

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
