# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# A GPU that says H100 on its bus and something else in its registers: only the load can tell, and the driver that served
# before comes back.
# kernel: K61
# gpus: 2
# fakegpu: boot0=0x180000a1,0x180000a1 boot42=0x180a1000,0x180a1000
# stub: yes
# packages: open proprietary
# mem: 1536M
t "install the open modules" kmodsmith install --package /packages/open --modules nvidia
rmmod nvidia
rmmod fakeopen fakegpu
export KMODSMITH_GPU_CHECK=none # without the stub none starts, and it is the load that is tried
t "the GPUs come back as Pascal" insmod /vm/modules/fakegpu.ko base=0x30000000 gpus=1 boot0=0x134000a1 boot42=0x134a1000
t_fails 1 "the open modules find no GPU System Processor" kmodsmith install --package /packages/open --modules nvidia
like "  the kernel's line becomes a code" "$out" 'E_UNSUPPORTED_GPU: load: load .nvidia.: .*not supported by open'
is "  nothing stays loaded" "$(grep -c ^nvidia /proc/modules)" 0
t "the proprietary modules drive it" insmod /packages/proprietary.d/nvidia.ko
t_fails 1 "R-E1: what failed is not tried again" kmodsmith install --package /packages/open --modules nvidia
like "  the reason from before is told" "$out" 'E_TARGET_FAILED: .*E_UNSUPPORTED_GPU'
t_fails 1 "a failed replacement without a kept predecessor" kmodsmith install --package /packages/open --modules nvidia --retry
like "  what could not be brought back is told" "$out" 'no way back to driver .*: its modules are neither in a package'
t "install the proprietary modules, so that the node keeps them" kmodsmith install --package /packages/proprietary --modules nvidia
t_fails 1 "a failed replacement" kmodsmith install --package /packages/open --modules nvidia --retry
like "  the proprietary modules come back" "$out" "back +.* $PROPRIETARY_VERSION proprietary is loaded again"
like "  and the old driver serves" "$(cat /proc/driver/nvidia/version)" 'NVIDIA UNIX x86_64 Kernel Module'
t "unload" kmodsmith unload
rm -r /var/lib/kmodsmith # a node that knows nothing

for row in "gpu_id=0x1bb3 boot0=0x134000a1 boot42=0x134a1000:E_FLAVOUR:Pascal by its PCI id" \
  "gpu_id=0x2901 boot0=0x1b2000a1 boot42=0x1b2a1000:E_UNSUPPORTED_GPU:a GPU younger than the driver" \
  "irq=0:E_NO_DEVICE:no interrupt" \
  "boot0=0xffffffff boot42=0xffffffff:E_NO_DEVICE:fallen off the bus"; do
  rmmod fakegpu
  # shellcheck disable=SC2046 # several options
  insmod /vm/modules/fakegpu.ko base=0x30000000 gpus=1 $(echo "$row" | cut -d: -f1)
  t_fails 1 "$(echo "$row" | cut -d: -f3)" kmodsmith install --package /packages/open
  like "  is $(echo "$row" | cut -d: -f2)" "$out" "error: $(echo "$row" | cut -d: -f2): "
  is "  nothing is loaded" "$(grep -c ^nvidia /proc/modules)" 0
done
rmmod fakegpu
t "R-P11: without any GPU" kmodsmith install --package /packages/open
like "  NO_GPU" "$out" '^NO_GPU'
is "  nothing is loaded" "$(grep -c ^nvidia /proc/modules)" 0
