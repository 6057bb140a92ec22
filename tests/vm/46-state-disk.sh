# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# The disk of the state directory is full when the machine starts, and then read-only: the node gets the driver that lies in
# its store, with its user space, from memory, and is ready. What is loaded is not replaced meanwhile.
# kernel: K61
# gpus: 1
# stub: yes
# beside: payloads
# programs: mke2fs
# disk: 256M
# boots: 2
# mem: 2G
# timeout: 300
# firmware: no
state=/var/lib/kmodsmith root=/run/nvidia/driver
mkdir -p $state
if [ "$boot" = 1 ]; then /usr/bin/mke2fs -q -t ext4 -m 0 /dev/nvme0n1; fi
mount -t ext4 /dev/nvme0n1 $state
install="kmodsmith install --driver $OPEN_VERSION --export $root"
journal() { sed -n 's/.*"last-good-boot": *"\([^"]*\)".*/\1/p' "$1"; }
this_boot=$(cat /proc/sys/kernel/random/boot_id)
served() { # WHY: what the node ends with
  like "  the driver is unpacked in memory, and why is said" "$out" "cannot be written \(.*$1\): driver $OPEN_VERSION is unpacked in memory"
  like "  the node is ready" "$out" '^ready$'
  like "  with its user space" "$out" "^pass +user space +$OPEN_VERSION exported, $OPEN_VERSION in the kernel"
  t "  a GPU can be opened" sh -c ': </dev/nvidia0'
  t "  status agrees" kmodsmith status
  like "  and tells where the journal is" "$out" "^pass +journal +in memory only, .*$1"
  is "  the journal in memory is of this boot" "$(journal /run/kmodsmith/journal)" "$this_boot"
  is "  nothing unpacked stays in memory" "$(find /run/kmodsmith/.tmp -mindepth 1)" ""
  t_fails 1 "  doctor fails" kmodsmith doctor
  like "  and warns of the journal" "$out" '^warn +journal +E_(NO_SPACE|READ_ONLY): in memory only'
  before=$(cat /sys/module/nvidia/srcversion)
  t_fails 1 "  what is loaded is not replaced" $install --param nvidia:NVreg_DeviceFileMode=432
  like "  for the disk" "$out" 'error: E_(NO_SPACE|READ_ONLY): preflight: '
  is "  and stays" "$(cat /sys/module/nvidia/srcversion)" "$before"
  t "  ready" kmodsmith status
}

if [ "$boot" = 1 ]; then
  t "a driver to begin with" kmodsmith install --package /beside/a --export $root
  dd if=/dev/zero of=$state/filler bs=1M 2>/tmp/dd
  like "the disk is filled up" "$(cat /tmp/dd)" 'No space left on device'
  sync
  exit
fi
for n in 2 3; do # to the last block: the start of a machine frees some
  dd if=/dev/zero of=$state/filler.$n bs=1k 2>/tmp/dd
  sync
done
t "a full disk at boot" $install
served 'No space left on device'
t "unload" kmodsmith unload
t "the disk is read-only" mount -o remount,ro $state
t "a read-only disk at boot" $install
served 'Read-only file system'
mount -o remount,rw $state && rm $state/filler*
t "the disk can be written again" $install
like "  the journal is on it" "$out" "the journal is on disk again, in '/+var/lib/kmodsmith'"
is "  with what was done meanwhile" "$(journal $state/journal)" "$this_boot"
t "  and not in memory" test ! -e /run/kmodsmith/journal
t "  ready" kmodsmith status
