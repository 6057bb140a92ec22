# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# kernel: K61
# gpus: 1
# stub: yes
# root: debian
# image: driver
# beside: store
# mem: 2G
. /vm/pods/pods.sh
t "begin" pods_begin; echo "$out"
t "store" node_has_store
t "podman" seconds podman --version; echo "$out $took"
t "start" seconds pod_start driver clusterpolicy
echo "$out" "$took"
t "ready" seconds pod_wait_ready driver
echo "$took $out"
pod_log driver
runc exec driver nvidia-smi --version
runc exec driver sh -c 'ls -l /dev; cat /proc/mounts'
t "kill" seconds pod_kill driver
echo "$took $out"
cat /run/pods/driver/termination-log
t "delete" pod_clear driver
t "podman import" seconds sh -c 'mkdir -p /tmp/bb/bin; cp /bin/busybox /tmp/bb/bin/; ln -s busybox /tmp/bb/bin/sh; tar -C /tmp/bb -c . | podman import - bb'
echo "$took $out"
t "podman run" seconds podman run --rm --network none --cgroups disabled bb sh -c 'echo hi; ls /dev'
echo "$took $out"
t "podman run rootfs" seconds podman run --rm --network none --rootfs /tmp/bb sh -c 'echo hi; ls /dev'
echo "$took $out"
