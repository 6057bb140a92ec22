# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC1091
# R-R1: the driver's container without privileged: with the capabilities that deploy/daemonset-unprivileged.yaml names, the
# runtime's masked and read-only paths, and rules that keep it from every device; it puts the driver on the node all the same.
# gpus: 1
# stub: yes
# root: debian
# image: driver
# beside: store
# files: deploy/daemonset-unprivileged.yaml
# mem: 2G
# timeout: 600
. /vm/pods/pods.sh
root=/run/nvidia/driver
right() { pod_exec driver sh -c "sed -n 's/^CapEff:[^0-9a-f]*//p' /proc/$(pod_pid driver)/status"; }

is "the capabilities are those of the manifest" \
  "$(jq -r '.shapes.unprivileged.capabilities | sort | .[]' $here/shapes.json)" \
  "$(sed -n '/^ *add:/,/^ *[a-z]/s/^ *- \([A-Z_]*\) #.*/\1/p' /files/daemonset-unprivileged.yaml | sort)"
t "a node" pods_begin
t "  with a package in its store" node_has_store
t "the driver's container" pod_start driver unprivileged
t "  is ready" seconds until_ended driver runc exec driver kmodsmith probe startup
echo "# $took s until ready"
is "  modules are loaded" "$(grep -cE '^nvidia(_uvm|_modeset)? ' /proc/modules)" 3
t "  the machine has its nodes" test -c /dev/nvidia0 -a -L /dev/char/195:0
t "  and the export" chroot $root nvidia-smi --help
t_fails 2 "  it may not open a device of the machine" pod_exec driver sh -c "mknod /tmp/kmsg c 1 11 && exec 3</tmp/kmsg"
t "the container is killed" pod_kill driver
t "  and starts again" pod_start driver unprivileged
t "  is ready" until_ended driver runc exec driver kmodsmith probe startup
like "  with the driver that is there" "$(pod_log driver)" '^kmodsmith: adopt '
t "the pod is deleted" pod_delete driver
t "  the driver stays" chroot $root nvidia-smi --help
