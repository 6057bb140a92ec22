# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# R-D4: nothing is left of earlier generations of the driver root, however often it is made anew, whoever is killed in the
# middle of it, and whoever still looks at an earlier one.
# gpus: 1
# stub: yes
# kernel: K61 K612
# beside: payloads
# programs: kill_at
# mem: 1536M
# timeout: 900
driver=$OPEN_VERSION
root=/run/nvidia/driver
from() { payload=$1 && shift && kmodsmith install --package /beside/"$payload" "$@"; }
mounts() { wc -l </proc/self/mountinfo; }
generations() { find /run/nvidia -maxdepth 1 -name '.driver.*' | wc -l; }
files() { find /run /var -xdev | wc -l; }
payloads() { find /var/lib/kmodsmith/payloads -mindepth 1 -maxdepth 1 ! -name .tmp | wc -l; }
trees() { find /var/lib/kmodsmith/payloads /var/lib/kmodsmith/modules /var/lib/kmodsmith/sources -mindepth 1 -maxdepth 1 ! -name .tmp | wc -l; }
measure() { echo "$(mounts) $(files) $(df -k /run /var | awk 'NR > 1 { print $3 }' | tr '\n' ' ')$(trees) $(generations)"; }
break_it() { umount -l $root/dev; }
library() { ls $root/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.$driver; }

t "install and export" from b --export $root
t "another payload" from a
before=$(measure)
failed=0 restarts=40 least=40 step=1 from=1
if [ "$CHECK" = check ]; then
  restarts=20 least=12 step=3 from=$((1 + DAY % 3))
  echo "# CHECK=check: 20 of 40 restarts, and killed at every third call of each kind from number $from"
fi
for i in $(seq 1 $restarts); do
  case $i in
  *5) from b >/tmp/out 2>&1 ;;
  *[37]) break_it && from a >/tmp/out 2>&1 ;;
  *) from a >/tmp/out 2>&1 ;;
  esac
  [ $? -eq 0 ] || { failed=$((failed + 1)) && cat /tmp/out; }
done
is "R-D4: $restarts restarts, three of ten with new generations, all succeed" $failed 0
is "  mounts, files, bytes, trees and generations are as before" "$(measure)" "$before"

# Killed at every change of a mount or a namespace: either generation is in place, and the next start is enough.
base=$(mounts) killed=0 lost=0 stuck=0
for call in mount umount2 unshare setns; do
  n=$((from - step))
  while n=$((n + step)); do
    break_it
    kill_at $call $n kmodsmith install --package /beside/a >/dev/null 2>&1
    [ $? -eq 137 ] || break
    killed=$((killed + 1))
    library >/dev/null || lost=$((lost + 1))
    from a >/tmp/out 2>&1
    if [ "$? $(mounts) $(generations)" != "0 $base 0" ]; then
      stuck=$((stuck + 1))
      cat /tmp/out /proc/self/mountinfo
    fi
  done
done
t "R-D4: killed $killed times at another call" test $killed -ge $least
is "  a root was in place each time" $lost 0
is "  and one more start put it right, with as many mounts" $stuck 0
is "  the machine's own mounts are there" "$(ls /sys/kernel/security | wc -l | grep -c '^[1-9]')" 1

# Who still looks at an earlier one.
mkdir -p /mnt
unshare -m sh -c "mount -o rbind $root /mnt && exec sleep 1000000" &
consumer=$!
until [ -e /proc/$consumer/root/mnt/usr ]; do kill -0 $consumer || break; sleep 0.1; done
t "another payload while a consumer that gets no events has the former one" from b
is "  which stays on the disk, and nowhere else" "$(payloads) $(generations) $(mounts)" "2 0 $base"
t "  the consumer sees its library" ls /proc/$consumer/root/mnt/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.$driver
is "  others see the new one" "$(cat $root/etc/payload)" b
kill $consumer
wait $consumer
t "when it has left" from b
is "  the former one is collected" "$(payloads) $(generations) $(mounts)" "1 0 $base"
t "and back" from a
chroot $root /bin/busybox sleep 1000000 &
consumer=$!
until [ "$(readlink /proc/$consumer/root)" = $root ]; do kill -0 $consumer || break; sleep 0.1; done
break_it
t "a new generation while a process is in the former one" from a
is "  nothing of which is left" "$(generations) $(mounts)" "0 $base"
t "  the process lives" kill -0 $consumer
kill $consumer
wait $consumer || true # killed
