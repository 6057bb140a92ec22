# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC1091
# R-D1, R-A2: the container is killed, the pod is deleted, the node is rebooted: what each costs, and what it does not do.
# gpus: 1
# stub: yes
# root: debian
# image: driver
# beside: store
# boots: 2
# mem: 2G
# timeout: 600
. /vm/pods/pods.sh
root=/run/nvidia/driver
modules() { for m in nvidia nvidia_uvm nvidia_modeset; do echo "$m $(cat /sys/module/$m/srcversion) $(cat /sys/module/$m/refcnt)"; done; }
mounts() { grep -vc ' /run/pods/' /proc/self/mountinfo; }
alive() { [ "$(readlink "/proc/$holder/fd/9")" = /dev/nvidia0 ]; }
start() { pod_start driver clusterpolicy DRIVER_CONFIG_DIGEST=digest-1; }
managed() { driver_manager digest-1 && start; }
ready() { "$@" && pod_wait_ready driver; }
unchanged() { # WHAT: after a restart with the driver loaded
  is "$1: the modules are the same, with their references" "$(modules)" "$before"
  unlike "$1: no module was loaded or unloaded" "$(dmesg_since)" 'NVRM: loading|nvidia.*unload|Unloading'
  unlike "$1: nothing was fetched, unpacked or compiled" "$(pod_log driver)" '^kmodsmith: (package|compile|load|unload) '
  is "$1: there are as many mounts as before" "$(mounts)" "$mounted"
  is "$1: no other generation is left" "$(find /run/nvidia -maxdepth 1 -name '.driver.*' | wc -l)" 0
  t "$1: who uses the GPU does not notice" alive
  t "$1: nvidia-smi starts after a chroot" chroot $root nvidia-smi --help
}

t "the node has what a pod needs" pods_begin
if [ "$boot" = 2 ]; then
  is "the node was rebooted: no module is loaded" "$(grep -c '^nvidia' /proc/modules)" 0
  t "the pod starts from what the node has" seconds ready managed
  echo "# node rebooted: $took s until ready"
  unlike "after the reboot nothing is compiled, and no user space unpacked again" "$(pod_log driver)" '^kmodsmith: compile |of the image copied'
  is "after the reboot the modules are loaded" "$(grep -cE '^nvidia(_uvm|_modeset)? ' /proc/modules)" 3
  t "after the reboot nvidia-smi starts after a chroot" chroot $root nvidia-smi --help
  exit 0
fi
t "the node has a package in its store" node_has_store
t "the first start of the pod, with the user space copied, becomes ready" seconds ready managed
echo "# first start: $took s until ready"
hold /dev/nvidia0
before=$(modules) mounted=$(mounts)
dmesg_since >/dev/null

t "the container is killed" pod_kill driver
t "the killed container becomes ready again, without the operator's init container" seconds ready start
echo "# container killed: $took s until ready"
unchanged "container killed"

t "the pod is deleted" pod_delete driver
t "the deleted pod comes again, with the operator's init container" seconds ready managed
echo "# pod deleted: $took s until ready"
unchanged "pod deleted"
t "the pod is deleted before the reboot" pod_delete driver
release
