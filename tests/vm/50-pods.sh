# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC1091
# The driver image as pods, four ways on one node, whose disk has the user space from the first start on:
# 1. R-R1: without privileged, with the capabilities that deploy/daemonset-unprivileged.yaml names, the runtime's masked and
#    read-only paths, and rules that keep it from every device. It is the first start: it copies all user space.
# 2. As the GPU Operator's pods start it, after the operator's init container; what then looks into the exported root finds
#    what it looks for (driver-container contract 1.3 to 1.8). The first start of that shape is in 51.
# 3. Standalone, on a node without the operator: it leaves a CDI file, and the real podman gives a container the GPUs by it,
#    with no toolkit.
# 4. With an agent, and without what the driver image says of its driver, as in the runtime image: the driver comes by the order
#    that the policy has the agent give itself (D2, T57). The API server is out of reach all the time.
# Between them the node is as after a reboot: no module, node, mount or file in /run is left.
# gpus: 2
# stub: yes
# root: debian
# image: driver
# beside: store
# mem: 2G
# timeout: 900
. /vm/pods/pods.sh
. /vm/pods/consumers.sh
driver=$OPEN_VERSION
root=/run/nvidia/driver
validations=/run/nvidia/validations
cdi=/var/run/cdi/kmodsmith.json
srcversions() { cat /sys/module/nvidia*/srcversion; }
begin() { # SHAPE NAME: as the kubelet does it, init container first
  driver_manager digest-1 && pod_start "$2" "$1" DRIVER_CONFIG_DIGEST=digest-1
}
as_rebooted() {
  driver_manager none && rm -rf /run/nvidia /run/kmodsmith $cdi /dev/nvidia* || return
  find /dev/char -lname '*nvidia*' -delete
  printf '\0' >/sys/module/firmware_class/parameters/path # as it is when the machine starts
  ! grep -E '^nvidia' /proc/modules && ! grep -E ' /run/nvidia/driver' /proc/self/mountinfo
}
policy() { # NUMBER [MEMBER]: as the kubelet writes a ConfigMap: its file is a link into a directory that is exchanged
  config=$pods/kmodsmith-rollout
  mkdir -p "$config/..$1" && ln -s "..$1" "$config/..new" && jq -n --arg driver "$driver" \
    "{mode: \"self\", pools: [{name: \"here\", target: {driver: \$driver, flavour: \"open\"${2-}}}]}" >"$config/..$1/policy.json" &&
    mv -T "$config/..new" "$config/..data" && ln -sfn ..data/policy.json "$config/policy.json"
}
agent() { # with the service account of a cluster whose API server does not answer
  mkdir -p $pods/account && echo token >$pods/account/token && echo kmodsmith >$pods/account/namespace &&
    sed '/END CERT/q' /images/driver/etc/ssl/certs/ca-certificates.crt >$pods/account/ca.crt &&
    pod_start driver agent DRIVER_VERSION= KMODSMITH_PAYLOAD= KUBERNETES_SERVICE_HOST=10.96.0.1 KUBERNETES_SERVICE_PORT=443
}
file_mode() { sed -n 's/^DeviceFileMode: //p' /proc/driver/nvidia/params; }
has_mode() { [ "$(file_mode)" = "$1" ]; }
gpu() { podman run --rm --network none "$@"; }
links() { # every node of the CDI file has its link, which is what a rule for devices is resolved by
  jq -r '.. | .deviceNodes? // empty | .[].path' $cdi | sort -u | while read -r node; do
    device=$(stat -c '%t %T' "$node") || return 1
    # shellcheck disable=SC2086 # two words
    set -- $device
    [ "$(readlink -f "/dev/char/$((0x$1)):$((0x$2))")" = "$node" ] || { echo "$node has no link"; return 1; }
    echo "$node"
  done
}

t "the node has what a pod needs" pods_begin
t "the node has a package in its store" node_has_store

t "unprivileged: the container starts" pod_start driver unprivileged
t "unprivileged: the driver becomes ready" seconds until_ended driver runc exec driver kmodsmith probe startup
echo "# the first start, with the user space copied: $took s until ready"
is "unprivileged: the modules are loaded" "$(grep -cE '^nvidia(_uvm|_modeset)? ' /proc/modules)" 3
t "unprivileged: the machine has its nodes" test -c /dev/nvidia0 -a -L /dev/char/195:0
t "unprivileged: nvidia-smi starts in the export" chroot $root nvidia-smi --help
t_fails 2 "unprivileged: the container may not open a device of the machine" pod_exec driver sh -c "mknod /tmp/kmsg c 1 11 && exec 3</tmp/kmsg"
t "unprivileged: the container is killed" pod_kill driver
t "unprivileged: the killed container starts again" pod_start driver unprivileged
t "unprivileged: the killed container becomes ready again" until_ended driver runc exec driver kmodsmith probe startup
like "unprivileged: the killed container adopts the driver" "$(pod_log driver)" '^kmodsmith: adopt '
t "unprivileged: the pod is deleted" pod_delete driver
t "unprivileged: the driver outlives the pod" chroot $root nvidia-smi --help
t "the node is without a driver before the operator comes" as_rebooted

t "operator: a consumer starts before the driver" pod_start consumer consumer
t "ClusterPolicy: the pod starts" begin clusterpolicy driver
t "ClusterPolicy: the operator's startup probe passes" seconds pod_wait_ready driver
echo "# a start with modules from the node's store: $took s until ready"
t "ClusterPolicy: the container's own /dev has the nodes that nvidia-smi needs" pod_exec driver sh -c \
  '[ -c /dev/nvidia0 ] && [ -c /dev/nvidia1 ] && [ -c /dev/nvidia-uvm ] && exec 3<>/dev/nvidiactl 4<>/dev/nvidia0'
unlike "ClusterPolicy: no user space is copied again" "$(pod_log driver)" 'of the image copied'
is "ClusterPolicy: the probe leaves the switches for the validator" "$(cat $validations/.driver-ctr-ready)" \
  "$(printf '%s: false\n' GDRCOPY_ENABLED GDS_ENABLED GPU_DIRECT_RDMA_ENABLED)"
is "ClusterPolicy: the daemons are ready" "$(cat $validations/.driver-daemons-status)" Ready
is "ClusterPolicy: the state file has the digest" "$(cat /run/nvidia/nvidia-driver.state)" digest-1
is "ClusterPolicy: the pid file has the process of the container" "$(cat /run/nvidia/nvidia-driver.pid)" "$(pod_pid driver)"
is "ClusterPolicy: the modules are loaded" "$(grep -cE '^nvidia(_uvm|_modeset)? ' /proc/modules)" 3
t "ClusterPolicy: the machine has nodes" test -c /dev/nvidia0 -a -c /dev/nvidia-uvm -a -L /dev/char/195:0
t "ClusterPolicy: the published status is READY" grep -q '"state": "READY"' /run/kmodsmith/status.json
is "ClusterPolicy: the container's own layer has no state" "$(find /var/lib/pods/driver/upper/var/lib/kmodsmith 2>/dev/null)" ""
is "ClusterPolicy: the kernel looks for firmware in the export" "$(cat /sys/module/firmware_class/parameters/path)" $root/lib/firmware

# Each consumer, on the host.
t "validator: the library and nvidia-smi, preloaded" validator_driver $root
like "validator: nvidia-smi is of this version" "$out" "$driver"
t "validator: GPUs on the root's bus" validator_bus $root
t "validator: chroot modprobe" validator_modules $root
t "validator: device nodes" validator_nodes $root
is "toolkit: the suffix of libnvidia-ml" "$(toolkit_version $root libnvidia-ml)" $driver
is "toolkit: the suffix of libcuda" "$(toolkit_version $root libcuda)" $driver
t "toolkit: firmware" toolkit_firmware $root $driver
t "peermem: chroot modprobe nvidia-peermem reaches the modules" peermem_modules $root
t "GDS, gdrcopy: sources" gds_sources $root $driver
t "nvidia-smi starts after a chroot" chroot $root nvidia-smi --help
[ ! -e $root/usr/bin/nvidia-modprobe ] || t "nvidia-modprobe starts after a chroot" chroot $root nvidia-modprobe --version
t "the consumer sees the driver that came after it" pod_exec consumer /bin/sh -c "ls /driver-root/usr/bin/nvidia-smi && ls /driver-root/dev/nvidia0"

t "the container of GPUDirect RDMA starts beside the driver's" pod_start peermem peermem
t "the probes of GPUDirect RDMA's container pass" until_ended peermem runc exec peermem sh -c 'nvidia-driver probe_nvidia_peermem'
before=$(srcversions)
t "a second driver pod starts at the same time" pod_start second driver-cr
pod_wait_end second
like "the second driver pod is refused, and told who is there" "$(pod_log second)" "E_LOCKED: .*$(pod_pid driver)"
like "the second driver pod tells kubectl describe, too" "$(cat /run/pods/second/termination-log)" E_LOCKED
pod_clear second
t "the first driver pod goes on" pod_exec driver sh /usr/local/bin/startup-probe.sh

for shape in driver-cr precompiled; do
  t "$shape: the pod before is deleted" pod_delete driver
  t "$shape: the pod starts" begin $shape driver
  t "$shape: the operator's startup probe passes" seconds pod_wait_ready driver
  echo "# a start with the driver loaded: $took s until ready"
  is "$shape: nothing was loaded again" "$(srcversions)" "$before"
  t "$shape: the validator finds its library and nvidia-smi" validator_driver $root
  t "$shape: the consumer that was there all the time sees nvidia-smi" pod_exec consumer /bin/sh -c "ls /driver-root/usr/bin/nvidia-smi"
done
t "the container of GPUDirect RDMA outlives the driver's pods" pod_exec peermem sh -c 'nvidia-driver probe_nvidia_peermem'
t "the container of GPUDirect RDMA ends when it is told" pod_delete peermem
t "operator: the last pod is deleted" pod_delete driver
is "operator: the driver outlives the pod" "$(srcversions)" "$before"
pod_kill consumer
pod_clear consumer
t "the node is without a driver before the standalone container comes" as_rebooted

t "standalone: the container starts" pod_start driver standalone
t "standalone: the driver becomes ready" until_ended driver runc exec driver kmodsmith probe startup
unlike "standalone: no user space is copied again" "$(pod_log driver)" 'of the image copied'
t "standalone: the container leaves a CDI file" jq -e '.kind == "nvidia.com/gpu"' $cdi
t "R-G1: each node of the CDI file has its link in /dev/char" links
like "R-G1: the CDI file has the second GPU" "$out" '^/dev/nvidia1$'
t "podman gives a container all GPUs" gpu --device nvidia.com/gpu=all --rootfs $pods/scratch sh -c \
  'ls /dev; find /usr /lib -name "libnvidia-ml*" -o -name nvidia-smi'
like "a container with all GPUs has their nodes" "$(echo "$out" | tr '\n' ' ')" 'nvidia-uvm .*nvidia0 nvidia1 nvidiactl'
like "a container with all GPUs has the library" "$out" "libnvidia-ml.so.${driver%%.*}"
like "a container with all GPUs has nvidia-smi" "$out" 'nvidia-smi'
t "podman gives a container one GPU" gpu --device nvidia.com/gpu=1 --rootfs $pods/scratch sh -c 'ls /dev'
unlike "a container with one GPU has not the other" "$out" '^nvidia0$'
t "real nvidia-smi starts in a container with a libc of its own" gpu --device nvidia.com/gpu=all --rootfs /images/driver:O nvidia-smi --help
like "nvidia-smi in a container with a libc of its own is of this version" "$out" "$driver"

t "podman starts a container that stays" podman run --detach --name stays --network none --device nvidia.com/gpu=all --rootfs $pods/scratch sleep 1000000
touch_gpu() { podman exec stays sh -c 'exec 3<>/dev/nvidia0 4<>/dev/nvidiactl'; }
t "the container that stays opens its GPU" touch_gpu
t "standalone: the driver's container is killed" pod_kill driver
t "the container that stays opens its GPU without the driver's container" touch_gpu
podman rm --force --time 0 stays >/dev/null

t "the node is without a driver before the agent comes" as_rebooted
t "agent: there is a policy" policy 1
t "agent: the container starts" agent
t "agent: the driver becomes ready" seconds until_ended driver runc exec driver kmodsmith probe readiness
echo "# an order of the agent's own, with modules from the node's store: $took s until ready"
like "agent: the container's sysfs is read-only below a mount that says rw" "$(pod_exec driver cat /proc/self/mountinfo)" \
  ' /sys rw,[^ ]* - sysfs sysfs ro'
like "agent: it was loaded by the order" "$(pod_log driver)" '^kmodsmith: load: starting the worker'
is "agent: the kernel looks for firmware in the export" "$(cat /sys/module/firmware_class/parameters/path)" $root/lib/firmware
t "agent: the container leaves a CDI file" jq -e '.kind == "nvidia.com/gpu"' $cdi
t "agent: the liveness probe passes" pod_exec driver kmodsmith probe liveness
t "agent: another parameter is in the ConfigMap" policy 2 ', parameters: {NVreg_DeviceFileMode: "0600"}'
t "agent: the driver is replaced" seconds until_ended driver has_mode 384
echo "# from another policy until the driver is replaced: $took s"
t "agent: the replaced driver is validated" pod_wait_log driver '^kmodsmith: validate: done'
is "agent: it said once that it cannot watch its Node, and why" \
  "$(grep -c 'watching the Node: https://10.96.0.1:443 (tcp): Failed to connect' $pods/driver/log)" 1
like "agent: what is not told on the Node is said" "$(pod_log driver)" 'the Node node is not told: https://10.96.0.1:443 .tcp.: '
like "agent: the process of the agent runs" "$(ps)" 'kmodsmith agent --policy=/policy/policy.json'
t "agent: the pod is deleted" pod_delete driver
t "agent: the pod comes again" agent
t "agent: the driver becomes ready again" until_ended driver runc exec driver kmodsmith probe readiness
t "agent: what is loaded is adopted" pod_wait_log driver '^kmodsmith: adopt '
is "agent: and stays as it is" "$(file_mode)" 384
