#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# The first process of a guest. /vm/machine says which devices to simulate, /vm/start is what to run; its output goes to
# the second serial port, so that it never mixes with the kernel's log on the first, and its exit status to the kernel's log.
# Should anything in here fail, the guest ends without a status, which the host takes for a failure.
# With a root on a disk it runs twice: from the initramfs, then from the disk as the same first process, or as a service.
set -eu
export PATH=/sbin:/usr/sbin:/bin:/usr/bin HOME=/root TERM=dumb LC_ALL=C
trap 'poweroff -f' EXIT

run() { # the script
  cd /root
  boot=$(sed -n 's/.*\<boot=\([0-9]*\).*/\1/p' /proc/cmdline)
  export boot
  sh /vm/start </dev/null >/dev/ttyS1 2>&1 && status=0 || status=$?
  echo "<0>guest: exit $status" >/dev/kmsg
  exit
}
disk() { # SERIAL -> device node, when the kernel has found it
  local serial=''
  until serial=$(grep -lsx "$1 *" /sys/block/nvme*n1/device/serial); do sleep 0.1; done
  serial=${serial%/device/serial}
  echo "/dev/${serial##*/}"
}
# What the host's end needs stays in the initramfs and is bound into the disk's root. Mounts are shared, as systemd has
# them and the kubelet demands. Not pivot_root, which an initramfs refuses.
switch_root() {
  mkdir /new
  mount -t ext4 "$(disk root)" /new
  if [ "$image" ]; then mount -o ro -t ext4 "$(disk image)" /new/images; fi
  if [ "$toolkit" ]; then mkdir /new/toolkit && mount -o ro -t ext4 "$(disk toolkit)" /new/toolkit; fi
  for dir in vm files packages beside boot; do
    [ ! -d /$dir ] || mount -o bind /$dir /new/$dir
  done
  for dir in proc sys dev run tmp; do mount -o move /$dir /new/$dir; done
  cp /init /new/init
  cp /init /new/vm/init
  cd /new
  mount -o move . /
  [ "$root" != service ] || exec chroot . /lib/systemd/systemd
  switched=yes exec chroot . /bin/sh /init
}
if [ "${1-}" = script ]; then # systemd stops the rest, unmounts and ends the machine; one that does not answer is asked again
  trap 'until systemctl --no-block poweroff 2>/dev/kmsg; do sleep 1; done' EXIT
  run
fi
if [ "${switched-}" ]; then
  mount --make-rshared /
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
  mkdir -p /dev/pts /dev/shm
  mount -t devpts devpts /dev/pts
  mount -t tmpfs tmpfs /dev/shm
  run
fi
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t securityfs securityfs /sys/kernel/security
mount -t devtmpfs devtmpfs /dev
exec >/dev/console 2>&1
for dir in /run /tmp /var; do mount -t tmpfs tmpfs $dir; done
mkdir -p /dev/char /var/lib /var/log
ln -s ../run /var/run
gpus=0 switches=0 stub=no net=no fakegpu='' secure='' root='' image='' toolkit=''
# shellcheck source=/dev/null
. /vm/machine
if [ "$secure" ]; then # the second port of this machine would be the firmware's, too
  mv /dev/ttyS2 /dev/ttyS1
  mv /dev/ttyS3 /dev/ttyS2
fi
stty -F /dev/ttyS1 raw -echo
stty -F /dev/ttyS2 raw -echo

if [ "$gpus$switches" != 00 ]; then
  # shellcheck disable=SC2086 # several options
  insmod /vm/modules/fakegpu.ko base=0x30000000 gpus="$gpus" switches="$switches" $fakegpu
fi
if [ -d /vm/drivers ]; then
  for driver in /vm/drivers/*.ko; do insmod "$driver"; done
fi
if [ -d /sys/firmware/efi/efivars ]; then mount -t efivarfs efivarfs /sys/firmware/efi/efivars; fi
if [ "$net" = yes ]; then
  ip link set lo up
  ip link set eth0 up
  ip addr add 10.0.2.15/24 dev eth0
fi
if [ "$stub" = yes ]; then # NVIDIA's NVML knows no simulated GPU, though its node opens
  insmod /vm/modules/fakeopen.ko
  export KMODSMITH_GPU_CHECK=start
fi
if [ "$root" ]; then switch_root; fi
run
