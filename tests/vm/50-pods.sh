# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC1091
# The driver image started as the GPU Operator's pods start it, after the operator's init container; what then looks into
# the exported root finds what it looks for (driver-container contract 1.3 to 1.8).
# gpus: 1
# stub: yes
# root: debian
# image: driver
# beside: store
# mem: 2G
# timeout: 600
. /vm/pods/pods.sh
. /vm/pods/consumers.sh
driver=535.261.03
root=/run/nvidia/driver
validations=/run/nvidia/validations
srcversions() { cat /sys/module/nvidia*/srcversion; }
begin() { # SHAPE NAME: as the kubelet does it, init container first
  driver_manager digest-1 && pod_start "$2" "$1" DRIVER_CONFIG_DIGEST=digest-1
}

t "a node" pods_begin
t "  with a package in its store" node_has_store
t "a consumer that is there before the driver" pod_start consumer consumer
t "ClusterPolicy: the pod starts" begin clusterpolicy driver
t "  the operator's startup probe passes" seconds pod_wait_ready driver
echo "# the first start, with modules from the node's store: $took s until ready"
is "  it leaves the switches for the validator" "$(cat $validations/.driver-ctr-ready)" \
  "$(printf '%s: false\n' GDRCOPY_ENABLED GDS_ENABLED GPU_DIRECT_RDMA_ENABLED)"
is "  the daemons are ready" "$(cat $validations/.driver-daemons-status)" Ready
is "  the state file has the digest" "$(cat /run/nvidia/nvidia-driver.state)" digest-1
is "  the pid file its process" "$(cat /run/nvidia/nvidia-driver.pid)" "$(pod_pid driver)"
is "  modules are loaded" "$(grep -cE '^nvidia(_uvm|_modeset)? ' /proc/modules)" 3
t "  the machine has nodes" test -c /dev/nvidia0 -a -c /dev/nvidia-uvm -a -L /dev/char/195:0
t "  and what others read" grep -q '"state": "READY"' /run/kmodsmith/status.json
is "  the container's own layer has no state" "$(find /var/lib/pods/driver/upper/var/lib/kmodsmith 2>/dev/null)" ""
is "  the kernel looks for firmware in the export" "$(cat /sys/module/firmware_class/parameters/path)" $root/lib/firmware

# Each consumer, on the host.
t "validator: the library and nvidia-smi, preloaded" validator_driver $root
like "  of this version" "$out" "$driver"
t "validator: GPUs on the root's bus" validator_bus $root
t "validator: chroot modprobe" validator_modules $root
t "validator: device nodes" validator_nodes $root
is "toolkit: the suffix of libnvidia-ml" "$(toolkit_version $root libnvidia-ml)" $driver
is "toolkit: the suffix of libcuda" "$(toolkit_version $root libcuda)" $driver
t "toolkit: firmware" toolkit_firmware $root $driver
t "peermem: chroot modprobe nvidia-peermem reaches the modules" peermem_modules $root
t "GDS, gdrcopy: sources" gds_sources $root $driver
t "nvidia-smi starts after a chroot" chroot $root nvidia-smi --help
t "nvidia-modprobe starts after a chroot" chroot $root nvidia-modprobe --version
t "the consumer sees the driver that came after it" pod_exec consumer /bin/sh -c "ls /driver-root/usr/bin/nvidia-smi && ls /driver-root/dev/nvidia0"

t "the container of GPUDirect RDMA starts beside it" pod_start peermem peermem
t "  its probes pass" until_ended peermem runc exec peermem sh -c 'nvidia-driver probe_nvidia_peermem'
before=$(srcversions)
t "a second driver pod at the same time" pod_start second driver-cr
pod_wait_end second
like "  is refused, and told who is there" "$(pod_log second)" "E_LOCKED: .*$(pod_pid driver)"
like "  also kubectl describe" "$(cat /run/pods/second/termination-log)" E_LOCKED
pod_clear second
t "  the first goes on" pod_exec driver sh /usr/local/bin/startup-probe.sh

for shape in driver-cr precompiled; do
  t "the pod is deleted" pod_delete driver
  t "$shape: the pod starts" begin $shape driver
  t "  the operator's startup probe passes" seconds pod_wait_ready driver
  echo "# a start with the driver loaded: $took s until ready"
  is "  nothing was loaded again" "$(srcversions)" "$before"
  t "  the validator finds its library and nvidia-smi" validator_driver $root
  t "  and the consumer that was there all the time" pod_exec consumer /bin/sh -c "ls /driver-root/usr/bin/nvidia-smi"
done
t "the container of GPUDirect RDMA is there still" pod_exec peermem sh -c 'nvidia-driver probe_nvidia_peermem'
t "  and ends when it is told" pod_delete peermem
t "the pod is deleted" pod_delete driver
is "  the driver stays" "$(srcversions)" "$before"
