# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# A GPU whose registers say Pascal below the PCI id of a Hopper: only the load finds out that the open modules cannot
# serve it, when the old ones are gone already.
# kernel: K61
# gpus: 1
# stub: yes
# fakegpu: boot0=0x134000a1 boot42=0x134a1000
# packages: open proprietary
# mem: 2G
t "the proprietary modules serve it" kmodsmith install --package /packages/proprietary --param nvidia:NVreg_DeviceFileMode=432
before=$(cat /sys/module/nvidia/srcversion)
t_fails 1 "the open ones fail when they are loaded" kmodsmith install --package /packages/open
like "  R-K1: the code is of the kernel's reason" "$out" 'E_UNSUPPORTED_GPU: load: .*not supported by open'
like "  it comes after the unload" "$(printf '%s ' $out)" "unload .* back .* $PROPRIETARY_VERSION proprietary is loaded again"
is "the proprietary ones are back" "$(cat /sys/module/nvidia/srcversion)" "$before"
is "  with their parameters" "$(sed -n 's/^DeviceFileMode: //p' /proc/driver/nvidia/params)" 432
t "  and ready" kmodsmith status
t_fails 1 "R-E1: the open ones are not tried again" kmodsmith install --package /packages/open
like "  the reason from before is told" "$out" 'E_TARGET_FAILED: .*E_UNSUPPORTED_GPU'
is "  nothing was touched for it" "$(cat /sys/module/nvidia/srcversion)" "$before"

# The kernel of a driver that nobody put here through kmodsmith tells its parameters, too.
t "unload" kmodsmith unload
rm -r /var/lib/kmodsmith
mkdir -p "/lib/modules/$(uname -r)/updates/dkms" && cp /packages/proprietary.d/*.ko "/lib/modules/$(uname -r)/updates/dkms/"
depmod
t "the host loads its own driver" sh -c 'modprobe nvidia NVreg_DeviceFileMode=384 && modprobe nvidia-uvm uvm_disable_hmm=1'
t_fails 1 "the host's own driver is replaced by what fails" kmodsmith install --package /packages/open --host-driver replace
like "  the code is the same" "$out" 'E_UNSUPPORTED_GPU: load: '
is "  and back from the host's files" "$(cat /sys/module/nvidia/srcversion)" "$before"
is "  with the parameters that the kernel showed" \
  "$(sed -n 's/^DeviceFileMode: //p' /proc/driver/nvidia/params) $(cat /sys/module/nvidia_uvm/parameters/uvm_disable_hmm)" "384 Y"
