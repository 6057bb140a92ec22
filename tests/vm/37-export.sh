# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# R-E4, R-I3: the driver root that other pods look into: what is in it, and how it is switched. What is left behind:
# 38-generations.
# gpus: 1
# stub: yes
# beside: payloads
# programs: strace unshare kill_at
# mem: 1536M
# timeout: 900
# firmware: no
driver=$OPEN_VERSION
root=/run/nvidia/driver
fwpath=/sys/module/firmware_class/parameters/path
from() { payload=$1 && shift && kmodsmith install --package /beside/"$payload" "$@"; }
mounts() { wc -l </proc/self/mountinfo; }
left() { find /run/nvidia -mindepth 1 -maxdepth 1 | sed 's|.*/||' | sort | tr '\n' ' '; }
generations() { find /run/nvidia -maxdepth 1 -name '.driver.*' | wc -l; }
break_it() { umount -l $root/dev; }
library() { ls "${1-}"$root/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.$driver; }
consume() { # a container that has bound the driver root as it is now, and gets events
  /usr/bin/unshare --mount --propagation slave sh -c "mount -o rbind $root /consumer/$root && exec sleep 1000000" &
  consumer=$!
  until grep -q " /consumer$root " /proc/$consumer/mountinfo; do kill -0 $consumer || return; sleep 0.1; done
}
payloads() { for pid; do cat /proc/"$pid"/root/consumer$root/etc/payload; done | tr '\n' ' '; }
driver_manager() { awk '$5 ~ "^/run/nvidia/driver(/|$)" { print $5 }' /proc/self/mountinfo | sort -r | xargs -n 1 umount -l; }
sources=$root/usr/src/nvidia-$driver/kernel-open

empty=$(mounts)
t_fails 1 "an export that is asked for, and nobody has its payload" from plain --export $root
like "  the code is E_NO_PAYLOAD and the payload is named" "$out" "error: E_NO_PAYLOAD.*payload-$driver"
is "  before anything was touched" "$(grep -c ^nvidia /proc/modules)" 0
mkdir -p /lib/firmware/nvidia/$driver
echo x >/lib/firmware/nvidia/$driver/gsp_ga10x.bin
t "without an export the host has its own user space" from plain
unlike "  which is no matter to status" "$out" 'user space|export'
is "  and nothing is mounted" "$(mounts)" "$empty"
t_fails 2 "--export with a relative path" from a --export run/driver
t "unload" kmodsmith unload
rm -r /lib/firmware/nvidia

# As the kubelet does for the driver's firmware, on a machine that shares its mounts.
mount --make-shared /run
mkdir -p $root/lib/firmware /consumer/$root
inode=$(stat -c %i $root)
t "a consumer that is there before the driver" consume
early=$consumer
t "install and export" from a --export $root
like "  in this order" "$(echo "$out" | sed -n 's/^kmodsmith: \([a-z]*\) .*/\1/p' | tr '\n' ' ')" \
  'payload preflight package prove load nodes export gpus verify'
like "  the firmware that is needed comes with it" "$out" 'preflight .* firmware comes with the user space'
like "  user space is measured" "$out" "pass  user space  $driver exported, $driver in the kernel"
t "  the library by its full version" library
t "  nvidia-smi where the validator looks" test -x $root/usr/bin/nvidia-smi
t "  functions of the bus" test -e $root/sys/bus/pci/devices/0000:40:00.0/vendor
is "  the top level of sysfs alone" "$(ls $root/sys/kernel/security)" ""
t "  nodes" test -c $root/dev/nvidia0
t "  proc" test -e $root/proc/driver/nvidia/version
t_fails 1 "  what is of the payload cannot be written" touch $root/usr/x
is "  nothing is left beside it" "$(generations)" 0
base=$(mounts)
t "the consumer that was there before sees the driver" library /proc/"$early"/root/consumer
t "one that comes now" consume
late=$consumer
t "  sees it, too" library /proc/"$late"/root/consumer
t "nvidia-smi starts after a chroot" chroot $root nvidia-smi --help
like "  and is of this version" "$out" "$driver"
is "  and finds its library, which finds the modules" "$(chroot $root nvidia-smi 2>&1 | grep -c "couldn't find libnvidia-ml")" 0
t "  its tmp is its own" chroot $root /bin/sh -c 'echo x >/tmp/x'
t_fails 1 "  and not the machine's" ls /tmp/x
t "modprobe after a chroot" chroot $root /sbin/modprobe --resolve-alias pci:v000010DEd00002330sv0sd0bc03sc02i00
like "  knows the devices" "$out" '^nvidia$'
t "make may write to the sources" sh -c "echo symbols >$sources/Module.symvers"
is "  which are a copy of the payload's" "$(find /var/lib/kmodsmith/payloads -name Module.symvers | wc -l)" 0
is "the kernel is told where" "$(cat $fwpath)" $root/lib/firmware
rmmod fakeopen
dmesg_since >/dev/null
t_fails 1 "a GPU that is started without the stub" cat /dev/nvidia0
kernel=$(dmesg_since)
like "  is refused by the module" "$kernel" 'NVRM: .*RmInitAdapter failed'
# In Debian 13's kernels only the module tells, of a file that is too small.
like "  which the kernel gave the firmware of the export" "$kernel" "direct-loading firmware nvidia/$driver/gsp_ga10x.bin|elfDataSize"
insmod /vm/modules/fakeopen.ko
t "unload" kmodsmith unload
t "R-I3: modprobe after a chroot" chroot $root /sbin/modprobe nvidia-uvm
is "  loads what the module needs, too" "$(grep -c '^nvidia' /proc/modules)" 2
t "the rest is loaded, the export is as it should be" from a
unlike "  and stays" "$out" 'export  +[0-9]'

t "a start that finds everything" strace -f --seccomp-bpf -e trace=mount,umount2,unshare,setns,connect -o /tmp/calls kmodsmith install --driver $driver \
  --from docker://192.0.2.1/drivers
is "  changes no mount and asks nobody" "$(grep -cE 'mount|unshare|setns|connect' /tmp/calls)" 0
is "  and no generation" "$(generations) $(mounts)" "0 $base"
hold /dev/nvidia0
t "R-E4: another payload of the same version, while the GPU is held" strace -f --seccomp-bpf -e trace=delete_module,finit_module,init_module \
  -o /tmp/calls kmodsmith install --package /beside/b
like "  only the payload is put in place" "$out" '^kmodsmith: payload .*'
is "  no module goes or comes" "$(grep -c module /tmp/calls)" 0
is "  the new one is in place, the old one gone" "$(cat $root/etc/payload) $(generations)" "b 0"
is "  also for the consumers from before the driver, and from before this payload" "$(payloads "$early" "$late")" "b b "
is "  its links lead to itself" "$(readlink $root/lib)" usr/lib
t "  modprobe finds its modules through them" chroot $root /sbin/modprobe --show-depends nvidia-uvm
release
b_base=$(mounts)
t_fails 1 "a payload without libraries" from c
like "  fails the measurement" "$out" 'E_NOT_READY: .*user space'
is "  the former one is in place again" "$(cat $root/etc/payload) $(generations) $(mounts)" "b 0 $b_base"
is "  for the consumers, too" "$(payloads "$early" "$late")" "b b "
t "  and is right" kmodsmith status
t "a plan" kmodsmith plan --package /beside/a
like "  it names the two steps and why" "$out" "payload +user space $driver, [0-9a-f]+ +payload [0-9a-f]{12} is not unpacked yet"
t_fails 1 "another driver without its payload" kmodsmith plan --driver "$TESLA535_VERSION" --no-compile

t "R-E4: modules and user space are replaced in one start" from a --param nvidia:NVreg_DeviceFileMode=432
like "  the firmware before the load, the switch after it" "$(echo "$out" | sed -n 's/^kmodsmith: \([a-z]*\) .*/\1/p' | tr '\n' ' ')" \
  'payload preflight package prove gpus prepare unload load nodes export gpus verify'
is "  both are the new ones" "$(ls $root/etc 2>&1 | grep -c payload) $(sed -n 's/^DeviceFileMode: //p' /proc/driver/nvidia/params)" "0 432"
t "  and the former ones again" from b
t_fails 1 "a replacement whose user space cannot be measured" from c --param nvidia:NVreg_DeviceFileMode=432
is "  modules and user space are those from before" \
  "$(cat $root/etc/payload) $(generations) $(mounts) $(sed -n 's/^DeviceFileMode: //p' /proc/driver/nvidia/params)" "b 0 $b_base 438"
is "  and the kernel looks for their firmware" "$(cat $fwpath)" $root/lib/firmware
t "  and ready" kmodsmith status
rm /run/kmodsmith/export.json
t "a pod that does not know what the one before it exported" strace -f --seccomp-bpf -e trace=mount,umount2,unshare,setns -o /tmp/calls kmodsmith install \
  --package /beside/b --export $root
is "  sees that it is right" "$(grep -cE 'mount|unshare|setns' /tmp/calls) $(generations) $(mounts)" "0 0 $b_base"
like "  and measures it" "$out" "pass  export +$root"

# Between two pods the driver manager detaches whatever is mounted, and the kubelet makes the directory of the firmware.
t "as the driver manager leaves it" driver_manager
is "  nothing of ours is in the directory" "$(find $root -mindepth 1 | sort | tr '\n' ' ')" "$root/lib $root/lib/firmware "
t "  nothing is in the way of the kubelet" mkdir -p $root/lib/firmware/nvidia
rmdir $root/lib/firmware/nvidia
t "the next start" from b
is "  as before" "$(cat $root/etc/payload) $(generations) $(mounts)" "b 0 $b_base"
is "  the consumer that has bound the directory sees it again" "$(payloads "$early")" "b "
for consumer in $early $late; do
  kill "$consumer"
  wait "$consumer"
done

# Elsewhere, and nowhere.
t "another place" from b --export /run/nvidia/other
is "  the old one is gone, with its mounts" "$(left)$(mounts)" "driver other $b_base"
is "  the kernel looks for firmware there" "$(cat $fwpath)" /run/nvidia/other/lib/firmware
like "  status knows" "$out" 'pass  export +/run/nvidia/other'
t_fails 1 "none, while the kernel finds its firmware nowhere else" from b --export none
like "  is refused with the file" "$out" "E_FIRMWARE: .*nvidia/$driver/gsp_ga10x.bin"
is "  and it stays" "$(left)$(mounts)" "driver other $b_base"
mkdir -p /lib/firmware/nvidia/$driver
echo x >/lib/firmware/nvidia/$driver/gsp_ga10x.bin
t "none, with firmware of the host's own" from b --export none
is "  nothing of it is left but the directories" "$(left)$(mounts) $(cat $fwpath)" "driver other $empty "
is "  and nothing is in them" "$(find /run/nvidia -mindepth 2 | sort | tr '\n' ' ')" "$root/lib $root/lib/firmware "
is "  which are the same as ever" "$(stat -c %i $root)" "$inode"
unlike "  and status expects nothing" "$out" '(pass|FAIL) +(user space|export) '
is "  nor on the disk" "$(find /var/lib/kmodsmith/payloads /var/lib/kmodsmith/sources -mindepth 1 -maxdepth 1 ! -name .tmp | wc -l)" 0
rm -r /lib/firmware/nvidia
t "and exported again" from b --export $root
is "  as before" "$(cat $root/etc/payload) $(generations) $(mounts)" "b 0 $b_base"
is "  and the kernel is told again" "$(cat $fwpath)" $root/lib/firmware
# Killed at each unmount of a move, the next start removes the old place, too.
place=/run/nvidia/other number=1 wrong=
while kill_at umount2 $number kmodsmith install --package /beside/b --export $place >/dev/null 2>&1; [ $? -eq 137 ]; do
  until from b --export $place >/tmp/out 2>&1 || ! grep -q E_LOCKED /tmp/out; do sleep 0.1; done
  [ "$(mounts) $(cat $place/etc/payload)" = "$b_base b" ] || wrong="$wrong $number ($place: $(mounts) mounts)"
  number=$((number + 1))
  if [ $place = $root ]; then place=/run/nvidia/other; else place=$root; fi
done
report $((number < 3)) "a move has two unmounts or more" "$((number - 1))"
is "killed at each of them, the next start leaves the new place alone" "$wrong" ""
t "exported where it was" from b --export $root

# Somebody else's mounts.
break_it
t_fails 1 "status sees that a mount is gone" kmodsmith status
like "  which" "$out" 'FAIL  export .*dev is not mounted'
mount -o bind /tmp $root/etc
t "a start puts it right" from b
is "  with as many mounts as before" "$(mounts) $(generations)" "$b_base 0"
mount -o rbind / $root
t "NVIDIA's way to export, its own root on the place" from b
is "  is replaced" "$(cat $root/etc/payload) $(mounts)" "b $b_base"
t "  the machine's own mounts are there" test -e /sys/kernel/security -a -c /dev/null -a -d /proc/1

# As systemd has it: every mount passes its events on. What is exported of the machine must not take its source along.
mkdir -p /dev/pts
mount -t devpts devpts /dev/pts
mount --make-rshared /
break_it
t "on a machine that shares its mounts" from b
b_base=$(mounts)
/usr/bin/unshare --mount --propagation slave sleep 1000000 &
other=$!
until [ "$(readlink /proc/$other/ns/mnt)" != "$(readlink /proc/self/ns/mnt)" ]; do kill -0 $other || break; done
others=$(wc -l </proc/$other/mountinfo)
wrong=0 step=2 from=1
if [ "$CHECK" = check ]; then step=6 from=$((1 + DAY % 3 * 2)) && echo "# CHECK=check: every third of 20 moments from number $from"; fi
for n in $(seq $from $step 40); do
  break_it
  kill_at mount $n kmodsmith install --package /beside/b >/dev/null 2>&1
  from b >/tmp/out 2>&1
  now="$? $(mounts) $(generations) $(wc -l </proc/$other/mountinfo) $(grep -c ' /dev/pts ' /proc/self/mountinfo)"
  [ "$now" = "0 $b_base 0 $others 1" ] || { wrong=$((wrong + 1)) && echo "$n: $now" && cat /tmp/out; }
done
is "R-D4: killed and started again: as many mounts here and elsewhere, and the machine's own" "$wrong" 0
kill $other
wait $other

# From a pod: its mounts come to the machine by way of /run/nvidia, or are made in the machine's namespace.
for pod in first second; do
  break_it
  t "the $pod pod that shares /run" /usr/bin/unshare --mount --propagation unchanged kmodsmith install --package /beside/b
  is "  its mounts are here, and the old ones gone" "$(mounts) $(generations)" "$b_base 0"
  t "  also for status" kmodsmith status
done
break_it
t "a namespace of its own, the host by the root of process 1" unshare -m kmodsmith install --package /beside/b --host-root /proc/1/root
is "  the mounts are made here" "$(mounts) $(generations)" "$b_base 0"
t "  status is right" kmodsmith status
is "  and the machine has its own" "$(grep -c ' /dev/pts ' /proc/self/mountinfo)" 1
mount --make-rprivate /

t "the firmware path of somebody else" sh -c "echo -n /opt/firmware >$fwpath"
break_it
t_fails 1 "  where the firmware is not: no driver is ready" from b
like "  and the path is named" "$out" "E_FIRMWARE: verify: firmware: nvidia/$driver/.* firmware_class.path is '/opt/firmware'"
mkdir -p /opt/firmware/nvidia/$driver
echo x >/opt/firmware/nvidia/$driver/gsp_ga10x.bin
t "  with it there: is no reason to fail" from b
is "  and stays" "$(cat $fwpath)" /opt/firmware
echo >$fwpath

# As after a boot, with a request that cannot be had: the last good driver comes back with its user space, which has its firmware.
t "unload" kmodsmith unload
awk '$5 ~ "^/run/nvidia" { print $5 }' /proc/self/mountinfo | sort -r | xargs -n 1 umount -l
rm -rf /run/nvidia /run/kmodsmith
t_fails 1 "R-E4: a request that cannot be had" kmodsmith install --driver 999.1 --no-compile --export $root
t "  brings back the driver" kmodsmith status
like "  and its user space" "$out" "pass  user space  $driver exported, $driver in the kernel"

# An image that carries the user space: copied once.
carried() { kmodsmith install --package /beside/plain --payload /beside/carried --export $root "$@"; }
t "unload" kmodsmith unload
rm -rf /var/lib/kmodsmith/store
echo >$fwpath
t "a payload that an image carries" carried
like "  is copied to the node" "$out" 'payload .* MiB of the image copied'
t "  and exported from there" library
is "  with its driver as the request" "$(cat /sys/module/nvidia/version)" "$driver"
t "a second start" strace -f --seccomp-bpf -e trace=openat,openat2,open -o /tmp/calls kmodsmith install --payload /beside/carried --package /beside/plain
is "  opens nothing of it but its document" "$(grep carried /tmp/calls | grep -vc '"/beside/carried"')" 0
unlike "  and copies nothing" "$out" 'copied|export  +[0-9]'
