# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# R-F3, T57: the power goes in the middle of a change, before and after each write of the journal is on the disk; what the
# kernel had by then is lost in any case. The next start brings the target, or the last good driver when the target cannot be
# had. Two boots that end in the middle of one change bring back the last good driver. With CHECK=check four of the ten
# moments, others each day: three days have them all.
# kernel: K61
# gpus: 1
# stub: yes
# packages: smallopen smallset
# programs: kill_at mke2fs
# disk: 256M
# boots: 7 13
# mem: 2G
state=/var/lib/kmodsmith
now() { sed -n 's/^DeviceFileMode: //p' /proc/driver/nvidia/params 2>/dev/null; }
open() { echo --driver $SMALLOPEN_VERSION --flavour open --param "nvidia:NVreg_DeviceFileMode=$1"; }
cut_at() { # CALL NUMBER OPTIONS: a change ends there, and the boot with it
  kill_at "$1" "$2" kmodsmith install $3 >/tmp/log 2>&1
  is "boot $boot: the power goes at $1 $2" $? 137
  power_cut
}
mkdir -p $state
if [ "$boot" = 1 ]; then /usr/bin/mke2fs -q -t ext4 /dev/nvme0n1; fi
mount -t ext4 /dev/nvme0n1 $state
case $CHECK$((DAY % 3)) in
all?) set -- 1 2 3 4 5 6 7 8 9 10 ;;
check0) set -- 1 4 7 10 ;;
check1) set -- 2 5 8 10 ;;
check2) set -- 3 6 9 1 ;;
esac
begun=$(($# + 2)) ended=$(($# + 3)) # the boots that begin the refused change again, and that find it so
if [ "$boot$CHECK" = 1check ]; then echo "# CHECK=check: the power goes at fsync $*; $((10 - $#)) of 10 moments left out"; fi
eval "point=\${$boot:-}"
old=432 new=438 # each boot is cut in a change from one to the other
if [ $((boot % 2)) = 0 ]; then old=438 new=432; fi

case $boot in
1) t "a driver to begin with" kmodsmith install --package /packages/smallopen --param nvidia:NVreg_DeviceFileMode=$old ;;
"$begun") ;;
"$ended")
  t_fails 1 "R-E1: two boots ended in this change: it is not begun again" kmodsmith install --package /packages/smallset
  like "a change that ended two boots is refused by its code" "$out" 'E_TARGET_FAILED: .*2 boots ended while it was being loaded'
  like "after two boots that ended in a change the last good driver serves" "$(cat /proc/driver/nvidia/version)" 'Open Kernel Module'
  t "after two boots that ended in a change status finds the last good driver right" kmodsmith status
  t "a change that ended two boots is begun again when somebody insists" kmodsmith install --package /packages/smallset --retry
  t "the store is sound" kmodsmith store verify
  exit 0
  ;;
*)
  if [ $((boot % 2)) = 0 ]; then
    t_fails 1 "boot $boot: a start that cannot have its request" kmodsmith install --driver 999.1 --no-compile
    like "boot $boot: a failed start brings back what was, or what was requested" "$(now)" '^(432|438)$'
    t "boot $boot: status finds what came back right" kmodsmith status
  fi
  t "boot $boot: the next start" kmodsmith install $(open $old)
  is "boot $boot: the next start ends in its target" "$(now)" $old
  ;;
esac
if [ -n "$point" ]; then
  cut_at fsync "$point" "$(open $new)"
else
  cut_at finit_module 1 "--package /packages/smallset"
fi
