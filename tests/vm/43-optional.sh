# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# R-P3, R-P10, R-P2: modules that the driver works without, refused by the real kernel; parameters; nvidia-peermem of a
# driver that was compiled without a network driver, which is the one that can be had here: it never starts. The
# function of vendor 15b3 is simulated, the network driver's word that it is ready is a file. With NVIDIA's own modules: what
# they and their nvidia-peermem tell the kernel when they refuse to start is what is tested.
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
like "the log says why nvidia-modeset is not loaded" "$out" 'nvidia-modeset is not loaded, and the driver works without it: E_PARAM: .*fail_malloc'
like "an install without nvidia-modeset says ready" "$out" '^ready$'
is "without nvidia-modeset the other modules are loaded" "$(modules)" "nvidia nvidia_uvm "
is "R-P10: both parameters of one line without an end" "$(sed -nE 's/^(EnableMSI|DeviceFileMode): //p' /proc/driver/nvidia/params |
  sort | tr '\n' ' ')" "0 432 "
t_fails 1 "without nvidia-modeset there is no node for it" test -e /dev/nvidia-modeset
t "status is ready without nvidia-modeset" kmodsmith status
like "status names the module that is not loaded" "$out" '^note +optional +nvidia-modeset: not loaded, E_PARAM: '
hold /dev/nvidia0
t "the same install again goes through while somebody uses the driver" $install $bad
like "the same install again adopts" "$out" ' adopt '
t "an install with a right parameter goes through while somebody uses the driver" $install
is "the install with a right parameter loads nvidia-modeset" "$(modules)" "nvidia nvidia_modeset nvidia_uvm "
t "the install with a right parameter makes the node of nvidia-modeset" test -c /dev/nvidia-modeset
t "status is ready with nvidia-modeset" kmodsmith status
unlike "status has nothing more to say of nvidia-modeset" "$out" optional

t_fails 1 "a module that was named must load" $install --modules nvidia,uvm,modeset,peermem
like "the kernel's word on nvidia-peermem is shown" "$out" 'E_SYMBOL: .*without IB peer memory symbols'
is "what was there stays when a named module does not load" "$(modules)" "nvidia nvidia_modeset nvidia_uvm "
t "status is ready when a named module does not load" kmodsmith status
release
t_fails 75 "R-P2: the network driver does not come" kmodsmith peermem load --timeout 1
like "the wait for the network driver ends at its deadline" "$out" 'E_PEERMEM: waited 1 s for the network driver.s container'
mkdir -p /run/mellanox/drivers && : >/run/mellanox/drivers/.driver-ready
dmesg_since >/dev/null
t_fails 1 "R-P2: what would not start is not tried" env -i /usr/bin/kmodsmith peermem load
like "a nvidia-peermem that would not start: the reason is said" "$out" 'E_SYMBOL: .*was compiled without ib_register_peer_memory_client'
like "a nvidia-peermem that would not start: another way is named" "$out" 'GPU memory can still be shared through dma-buf'
unlike "a nvidia-peermem that would not start: the kernel is not asked" "$(dmesg_since)" peermem
t "the GPUs stay ready without nvidia-peermem" kmodsmith status
t_fails 1 "the probe says that nvidia-peermem is lost" kmodsmith peermem probe
t "unload" kmodsmith unload
t_fails 1 "R-P3: all that was named, on a node without a driver" $install --modules nvidia,uvm,modeset $bad --retry
like "R-P3: on a node without a driver the refusal is E_PARAM" "$out" 'E_PARAM'
is "R-P3: on a node without a driver the last good driver comes back" "$(modules)" "nvidia nvidia_modeset nvidia_uvm "
