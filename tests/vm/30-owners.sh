# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# Another driver has the GPUs: the kernel's own ones let go and get them back, everybody else is left alone (R-P8). The
# module is one of ours that binds like nouveau does. (The kernel's vfio-pci wants an IOMMU, which these GPUs have not:
# a driver of that name stands for it.)
# kernel: K61 K612
# gpus: 2
# stub: yes
# packages: open
# programs: kill_at
# mem: 1536M
# timeout: 150
install="kmodsmith install --package /packages/open"
pci=/sys/bus/pci
release=$(uname -r)
mkdir -p "/lib/modules/$release/extra"
cp /vm/modules/nouveau.ko "/lib/modules/$release/extra/"
depmod "$release" 2>/dev/null
drivers() { # of both GPUs
  for gpu in 0000:40:00.0 0000:50:00.0; do
    if [ -e $pci/devices/$gpu/driver ]; then basename "$(readlink $pci/devices/$gpu/driver)"; else echo none; fi
  done | tr '\n' ' '
}
overrides() { cat $pci/devices/0000:40:00.0/driver_override $pci/devices/0000:50:00.0/driver_override | tr '\n' ' '; }
modules() { awk '/^(nvidia|nouveau)/ { print $1 }' /proc/modules | sort | tr '\n' ' '; }
untouched() { # NAME OF DRIVER
  is "  the GPUs are where they were" "$(drivers)" "$1 $1 "
  is "  and may go where they could" "$(overrides)" "(null) (null) "
  is "  no module came or went" "$(modules)" "nouveau "
}

modprobe nouveau
is "nouveau has both GPUs" "$(drivers)" "nouveau nouveau "
t "doctor" kmodsmith doctor
like "  tells what an install takes" "$out" '^warn +owner +E_BOUND: .*0000:40:00.0 from nouveau, 0000:50:00.0 from nouveau'
t_fails 1 "R-P8: a load that fails after nouveau let go" $install --param nvidia:NVreg_EnableMSI=x --state-dir /tmp/other
like "  failed in the load" "$out" 'E_PARAM: load: load .nvidia.'
untouched nouveau

hold /dev/dri/card1
t_fails 1 "R-P8: a GPU that somebody has open" $install
like "  is named with its holder" "$out" "E_BOUND: unbind: nouveau of 0000:50:00.0 is held by pid $holder sleep.* fd /dev/dri/card1"
untouched nouveau
release

t "R-P8: an install takes both" $install
like "  after the proof, before the load" "$(printf '%s ' $out)" 'prove .* unbind .* load .* ready'
like "  and unloads what nobody uses any more" "$out" 'unbind .*; unloaded nouveau$'
is "  nvidia has them" "$(drivers)" "nvidia nvidia "
is "  nouveau is gone" "$(modules)" "nvidia nvidia_modeset nvidia_uvm "
is "  and could come back" "$(overrides)" "(null) (null) "
t "an install of what is there" $install
like "  is an adoption" "$out" adopt
t "unload" kmodsmith unload

modprobe nouveau
echo 1 >/sys/module/nouveau/parameters/linger
t_fails 1 "R-P8: a driver that does not let go" $install --unload-timeout 1
like "  is waited for so long and no longer" "$out" \
  'E_WEDGED: .*nouveau of 0000:40:00.0: the kernel did not come back within 1 s; process [0-9]+ is still waiting'
is "  the other GPU is where it was" "$(drivers)" "none nouveau "
t_fails 1 "R-D5: a load would wait with it" $install
like "  so nothing is tried until the next boot" "$out" 'E_WEDGED'
is "  nothing is loaded" "$(modules)" "nouveau "
echo 0 >/sys/module/nouveau/parameters/linger
until [ ! -e $pci/devices/0000:40:00.0/drm ]; do sleep 0.1; done
rm /var/lib/kmodsmith/journal # as after a boot
t "a start that knows nothing of it" $install
is "  has both" "$(drivers)" "nvidia nvidia "
t "unload" kmodsmith unload
for gpu in 0000:40:00.0 0000:50:00.0; do echo >$pci/devices/$gpu/driver_override; done

t "the driver alone" $install --modules nvidia
echo 0000:50:00.0 >$pci/drivers/nvidia/unbind
modprobe nouveau
is "nouveau has one beside it" "$(drivers)" "nvidia nouveau "
t_fails 1 "R-P8: an adoption releases nobody" $install --modules nvidia
like "  and says who is in the way" "$out" "E_BOUND: 0000:50:00.0 10de:2330 is bound to nouveau; put 'blacklist nouveau'"
t "R-P8: a load beside a driver that is there" $install --modules nvidia,uvm
is "  gives it that GPU, too" "$(drivers)" "nvidia nvidia "
t "unload" kmodsmith unload

modprobe nouveau
t_fails 137 "R-D1: killed when the load was due" kill_at finit_module 1 $install
is "  nobody has the GPUs" "$(drivers)" "none none "
t "the next start" $install
is "  puts the driver in" "$(drivers)" "nvidia nvidia "
is "  and leaves no mark of the one before" "$(overrides)" "(null) (null) "
t "unload" kmodsmith unload

insmod /vm/modules/nouveau.ko name=NovaCore
is "nova_core's driver has them" "$(drivers)" "NovaCore NovaCore "
t "R-P8: it lets go, too" $install
is "  nvidia has them" "$(drivers)" "nvidia nvidia "
t "unload" kmodsmith unload

insmod /vm/modules/nouveau.ko name=mine
t_fails 1 "R-P8: a driver that nobody knows" $install
like "  is named, with what to do" "$out" "E_BOUND: 0000:40:00.0 10de:2330 is bound to mine; put 'blacklist mine' into .*modprobe.d"
untouched mine
rmmod nouveau

insmod /vm/modules/nouveau.ko name=vfio-pci
t "R-P8: GPUs of virtual machines" $install
like "  are none of ours" "$out" '^NO_GPU'
untouched vfio-pci
echo 0000:50:00.0 >$pci/drivers/vfio-pci/unbind
t "R-P8: one of two is a virtual machine's" $install
like "  the other one is served" "$out" 'verify .* 1 GPU,'
is "  and the first one stays where it is" "$(drivers)" "vfio-pci nvidia "
is "  without a trace" "$(overrides)" "(null) (null) "
