# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# The host that the tests of containers stand on is like a Debian host: a root on a disk, mounts that are shared, the kernel's
# own modules, and a podman with runc that makes containers and reads CDI files.
# gpus: 1
# root: debian
like "the root is a disk" "$(cat /proc/self/mountinfo)" '^[0-9]+ [0-9]+ [0-9:]+ / / rw,.* shared:.* ext4 '
like "the root is a Debian" "$(cat /etc/os-release)" '^ID=debian'
is "process 1 has the same root" "$(stat -Lc %d:%i /proc/1/root)" "$(stat -c %d:%i /)"
is "each mount passes its events on" "$(grep -cv ' shared:' /proc/self/mountinfo)" 0
t "the kernel's own modules are there" modprobe --show-depends ib_core
t "a module of the kernel loads" modprobe overlay
is "the simulated GPU is there" "$(cat /sys/bus/pci/devices/*/vendor | grep -c 0x10de)" 1
mkdir -p /tmp/image/bin /var/run/cdi
cp /bin/busybox /tmp/image/bin/sh
cat >/var/run/cdi/test.json <<'END'
{"cdiVersion": "0.3.0", "kind": "test.example/thing",
 "devices": [{"name": "one", "containerEdits": {"deviceNodes": [{"path": "/dev/kmsg"}], "env": ["THING=one"]}}]}
END
run() { podman run --rm --network none "$@" --rootfs /tmp/image sh -c "echo \$THING; ls /dev"; }
t "podman runs a container" run
unlike "a container has none of the host's devices" "$out" kmsg
t "podman runs a container with a device of a CDI file" run --device test.example/thing=one
like "the container has the device of the CDI file" "$out" '^kmsg$'
like "the container has the variable of the CDI file" "$out" '^one$'
t_fails 126 "podman refuses a device that the CDI file does not have" run --device test.example/thing=two
