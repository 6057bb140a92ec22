# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# R-P3, R-P10, R-P2: modules that the driver works without, refused by the real kernel; parameters; nvidia-peermem of a
# driver that was compiled where no network driver was, which is the one that can be had here: it never starts. The
# function of vendor 15b3 is simulated, the network driver's word that it is ready is a file.
# gpus: 1
# switches: 1
# fakegpu: sw_vendor=0x15b3 sw_id=0x101e
# stub: yes
# packages: open
# timeout: 400
bad="--param nvidia-modeset:fail_malloc=many"
install="kmodsmith install --package /packages/open"
modules() { lsmod | sed -n 's/^\(nvidia[a-z_]*\) .*/\1/p' | sort | tr '\n' ' '; }

mkdir /drivers
printf 'NVreg_EnableMSI=0 NVreg_DeviceFileMode=432' >/drivers/nvidia.conf
t "R-P3: the kernel refuses nvidia-modeset, and the rest is ready" $install $bad
like "  the log says why" "$out" 'nvidia-modeset is not loaded, and the driver works without it: E_PARAM: .*fail_malloc'
like "  and ready" "$out" '^ready$'
is "  the core is loaded" "$(modules)" "nvidia nvidia_uvm "
is "R-P10: both parameters of one line without an end" "$(sed -nE 's/^(EnableMSI|DeviceFileMode): //p' /proc/driver/nvidia/params |
  sort | tr '\n' ' ')" "0 432 "
t_fails 1 "  no node for it" test -e /dev/nvidia-modeset
t "status is ready" kmodsmith status
like "  and names the module" "$out" '^note +optional +nvidia-modeset: not loaded, E_PARAM: '
hold /dev/nvidia0
t "the same again, while somebody uses the driver" $install $bad
like "  adopts" "$out" ' adopt '
t "what was wrong is corrected, while somebody uses the driver" $install
is "  the module comes" "$(modules)" "nvidia nvidia_modeset nvidia_uvm "
t "  with its node" test -c /dev/nvidia-modeset
t "status" kmodsmith status
unlike "  has nothing more to say" "$out" optional

t_fails 1 "a module that was named must load" $install --modules nvidia,uvm,modeset,peermem
like "  the kernel's word" "$out" 'E_SYMBOL: .*without IB peer memory symbols'
is "  what was there stays" "$(modules)" "nvidia nvidia_modeset nvidia_uvm "
t "  and is ready" kmodsmith status
release
t_fails 1 "R-P2: the network driver does not come" kmodsmith peermem load --timeout 1
like "  within the deadline" "$out" 'E_PEERMEM: waited 1 s for the network driver.s container'
mkdir -p /run/mellanox/drivers && : >/run/mellanox/drivers/.driver-ready
dmesg_since >/dev/null
t_fails 1 "R-P2: what would not start is not tried" env -i /usr/bin/kmodsmith peermem load
like "  and said" "$out" 'E_SYMBOL: .*was compiled where no ib_register_peer_memory_client was known'
like "  with another way" "$out" 'GPU memory can be shared through dma-buf'
unlike "  the kernel was not asked" "$(dmesg_since)" peermem
t "the GPUs stay ready" kmodsmith status
t_fails 1 "the probe says that it is lost" kmodsmith peermem probe
t "unload" kmodsmith unload
t_fails 1 "R-P3: all that was named, on a node without a driver" $install --modules nvidia,uvm,modeset $bad --retry
like "  " "$out" 'E_PARAM'
is "  the last good driver is back" "$(modules)" "nvidia nvidia_modeset nvidia_uvm "
