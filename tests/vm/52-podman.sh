# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC1091
# Standalone, on a node without the operator: the driver's container leaves a CDI file, and the real podman gives a container
# the GPUs by it, with no toolkit.
# gpus: 2
# stub: yes
# root: debian
# image: driver
# beside: store
# mem: 2G
# timeout: 600
. /vm/pods/pods.sh
cdi=/var/run/cdi/kmodsmith.json
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

t "a node" pods_begin
t "  with a package in its store" node_has_store
t "the driver's container, without the operator" pod_start driver standalone
t "  is ready" until_ended driver runc exec driver kmodsmith probe startup
t "  it leaves a CDI file" jq -e '.kind == "nvidia.com/gpu"' $cdi
t "  R-G1: each of its nodes has its link in /dev/char" links
like "  also the second GPU" "$out" '^/dev/nvidia1$'
t "podman gives a container all GPUs" gpu --device nvidia.com/gpu=all --rootfs $pods/scratch sh -c \
  'ls /dev; find /usr /lib -name "libnvidia-ml*" -o -name nvidia-smi'
like "  their nodes" "$(echo "$out" | tr '\n' ' ')" 'nvidia-uvm .*nvidia0 nvidia1 nvidiactl'
like "  the library" "$out" 'libnvidia-ml.so.535'
like "  nvidia-smi" "$out" 'nvidia-smi'
t "podman gives a container one GPU" gpu --device nvidia.com/gpu=1 --rootfs $pods/scratch sh -c 'ls /dev'
unlike "  and not the other" "$out" '^nvidia0$'
t "real nvidia-smi starts in a container with a libc of its own" gpu --device nvidia.com/gpu=all --rootfs /images/driver:O nvidia-smi --help
like "  of this version" "$out" '535\.261\.03'

t "a container that stays" podman run --detach --name stays --network none --device nvidia.com/gpu=all --rootfs $pods/scratch sleep 1000000
touch_gpu() { podman exec stays sh -c 'exec 3<>/dev/nvidia0 4<>/dev/nvidiactl'; }
t "  opens its GPU" touch_gpu
t "the driver's container is killed" pod_kill driver
t "  which is no matter to it" touch_gpu
podman rm --force --time 0 stays >/dev/null
