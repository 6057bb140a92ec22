# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# R-A2, R-A3, R-A11: a site without any network. One file brings the driver; after a reboot the node's disk is enough.
# gpus: 2
# stub: yes
# beside: bundle
# programs: strace
# disk: 256M
# boots: 2
state=/var/lib/kmodsmith
asked() { # FILE: connections but those to a local name service; nobody may be asked for a name or an address
  grep -cE 'connect\(|sendto\(.*AF_INET|AF_INET6?, SOCK' "$1"
}
traced() { strace -f --seccomp-bpf -e trace=network -o /tmp/calls "$@" >/tmp/said 2>&1; }

is "there is no network device but the loopback" "$(ls /sys/class/net)" lo
if [ "$boot" = 1 ]; then
  t "a disk for the node's state" mke2fs -q /dev/nvme0n1
  mkdir -p $state
  mount -t ext2 /dev/nvme0n1 $state
  cp /beside/site.tar /tmp/site.tar
  t "bundle verify" kmodsmith bundle verify /tmp/site.tar --trust-dir /beside/trust
  t_fails 1 "a bundle whose publisher is not known" kmodsmith install --bundle /tmp/site.tar
  like "  it is not believed" "$out" 'error: E_UNTRUSTED'
  traced kmodsmith install --bundle /tmp/site.tar --trust-dir /beside/trust
  is "install from the bundle alone" $? 0
  is "  nobody was asked" "$(asked /tmp/calls)" 0
  t "  the driver is ready" kmodsmith status
  like "  it is the one of the bundle" "$(cat /proc/driver/nvidia/version)" "Open Kernel Module.* $OPEN_VERSION"
  t "the store is on the disk and sound" kmodsmith store verify
  sync
  umount $state
else
  mkdir -p $state
  mount -t ext2 /dev/nvme0n1 $state
  is "after a reboot no module is loaded" "$(grep -c ^nvidia /proc/modules)" 0
  traced kmodsmith install --driver "$OPEN_VERSION"
  is "R-A2: install from the store alone" $? 0
  is "  nobody was asked" "$(asked /tmp/calls)" 0
  t "  the driver is ready" kmodsmith status
  like "  it is the same version" "$(cat /proc/driver/nvidia/version)" "Open Kernel Module.* $OPEN_VERSION"
fi
