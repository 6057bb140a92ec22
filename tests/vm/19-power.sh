# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# R-F3, T57: the power goes in the middle of a change, before and after each write of the journal is on the disk; what the
# kernel had by then is lost in any case. The next start brings the target, or the last good driver when the target cannot be
# had. Two boots that end in the middle of one change bring back the last good driver.
# kernel: K61
# gpus: 1
# stub: yes
# packages: open proprietary
# programs: strace mke2fs
# disk: 256M
# boots: 13
# mem: 2G
state=/var/lib/kmodsmith
now() { sed -n 's/^DeviceFileMode: //p' /proc/driver/nvidia/params 2>/dev/null; }
open() { echo --driver 535.261.03 --flavour open --param "nvidia:NVreg_DeviceFileMode=$1"; }
cut_at() { # CALL NUMBER OPTIONS: a change ends there, and the boot with it
  strace -f -qq -o /dev/null -e trace="$1" -e inject="$1:signal=KILL:when=$2" kmodsmith install $3 >/tmp/log 2>&1
  is "boot $boot: the power goes at $1 $2" $? 137
  power_cut
}
mkdir -p $state
if [ "$boot" = 1 ]; then /usr/bin/mke2fs -q -t ext4 /dev/nvme0n1; fi
mount -t ext4 /dev/nvme0n1 $state
set -- fsync:1 fsync:2 fsync:3 fsync:4 fsync:5 fsync:6 fsync:7 fsync:8 fsync:9 fsync:10
eval "point=\${$boot:-}"
old=432 new=438 # each boot is cut in a change from one to the other
if [ $((boot % 2)) = 0 ]; then old=438 new=432; fi

case $boot in
1) t "a driver to begin with" kmodsmith install --package /packages/open --param nvidia:NVreg_DeviceFileMode=$old ;;
12) ;;
13)
  t_fails 1 "R-E1: two boots ended in this change: it is not begun again" kmodsmith install --package /packages/proprietary
  like "  and it says so" "$out" 'E_TARGET_FAILED: .*2 boots ended while it was being loaded'
  like "  the last good driver serves" "$(cat /proc/driver/nvidia/version)" 'Open Kernel Module'
  t "  and is right" kmodsmith status
  t "  unless somebody insists" kmodsmith install --package /packages/proprietary --retry
  t "the store is sound" kmodsmith store verify
  exit 0
  ;;
*)
  if [ $((boot % 2)) = 0 ]; then
    t_fails 1 "boot $boot: a start that cannot have its wish" kmodsmith install --driver 999.1 --no-compile
    like "  brings back what was, or what was wished" "$(now)" '^(432|438)$'
    t "  and that is right" kmodsmith status
  fi
  t "boot $boot: the next start" kmodsmith install $(open $old)
  is "  ends in its target" "$(now)" $old
  ;;
esac
if [ -n "$point" ]; then
  cut_at "${point%:*}" "${point#*:}" "$(open $new)"
else
  cut_at finit_module 1 "--package /packages/proprietary"
fi
