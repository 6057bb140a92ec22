#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# The first process of the guest of scripts/arm64-boot.sh: two simulated GPUs, NVIDIA's modules loaded, opened and unloaded.
# Ends the machine; "guest: exit 0" is said when all went well.
set -eux
export PATH=/bin:/usr/bin HOME=/root TERM=dumb LC_ALL=C
trap 'poweroff -f' EXIT
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t securityfs securityfs /sys/kernel/security
mount -t devtmpfs devtmpfs /dev
exec >/dev/console 2>&1
for dir in /run /tmp /var; do mount -t tmpfs tmpfs $dir; done
mkdir -p /dev/char /var/lib
ln -s ../run /var/run
# The last 512 MiB of memory are kept free (mem=). The GPUs share the line of the console, one of the few that this machine has.
irq=$(sed -n 's/^ *\([0-9]*\):.*uart-pl011$/\1/p' /proc/interrupts)
insmod /vm/fakegpu.ko base=0xa0000000 gpus=2 irq="$irq"
insmod /vm/fakeopen.ko
kmodsmith doctor || true # no driver yet
kmodsmith plan --package /package
kmodsmith check --package /package
kmodsmith install --package /package
kmodsmith status
grep aarch64 /proc/driver/nvidia/version
: </dev/nvidia0
kmodsmith install --package /package # changes nothing
kmodsmith unload
if grep '^nvidia' /proc/modules; then exit 1; fi
echo "guest: exit 0"
