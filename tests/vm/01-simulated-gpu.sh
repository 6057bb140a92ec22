# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# The simulation itself is true: NVIDIA's open modules probe two simulated H100s and behave as on hardware.
# kernel: K61
# gpus: 2
# stub: yes
# packages: open
packages=/packages/open.d
gpu=0000:40:00.0

is "no module is loaded before" "$(lsmod | grep -c '^nvidia')" 0
t_fails 1 "uvm needs nvidia first" insmod $packages/nvidia-uvm.ko
like "the kernel names the missing symbol" "$(dmesg)" 'nvidia_uvm: Unknown symbol nvUvmInterface.* \(err -2\)'
for module in nvidia nvidia-uvm nvidia-modeset; do t "$module.ko loads" insmod $packages/$module.ko; done
t_fails 1 "nvidia.ko loads only once" insmod $packages/nvidia.ko
like "a second nvidia.ko is refused because it exists" "$out" 'File exists'

is "both GPUs are bound" "$(ls -x /proc/driver/nvidia/gpus)" "$gpu  0000:50:00.0"
like "the driver knows the name of the GPU" "$(cat /proc/driver/nvidia/gpus/$gpu/information)" 'Model:.*NVIDIA H100 80GB HBM3'
is "sysfs shows the driver" "$(readlink /sys/bus/pci/devices/$gpu/driver)" ../../../bus/pci/drivers/nvidia
like "the modules are the open ones" "$(cat /proc/driver/nvidia/version)" 'NVIDIA UNIX Open Kernel Module'
is "no device node appears by itself" "$(ls -d /dev/nvidia* 2>/dev/null)" ""

node nvidia0 nvidia 0
refcnt=/sys/module/nvidia/refcnt
is "uvm and modeset use nvidia" "$(cat $refcnt)" 2
t "/dev/nvidia0 can be opened and held" hold /dev/nvidia0
t "an open file adds to the count of users of nvidia" test "$(cat $refcnt)" -gt 2 # three up to 535, one since 545
t_fails 1 "nvidia cannot be removed while modules use it" rmmod nvidia
like "rmmod names the modules that use nvidia" "$out" 'in use by: .*nvidia_(uvm|modeset)'
t "uvm and modeset are removed" rmmod nvidia_uvm nvidia_modeset
t_fails 1 "nvidia cannot be removed while a file is open" rmmod nvidia
t "the holder of /dev/nvidia0 ends" release
is "nothing uses nvidia" "$(cat $refcnt)" 0
t "nvidia is removed" rmmod nvidia
t_fails 1 "nothing is left in /proc" test -e /proc/driver/nvidia

t "nvidia.ko loads again" insmod $packages/nvidia.ko
t "/dev/nvidia0 can be opened again" hold /dev/nvidia0
release
t "nvidia is removed again" rmmod nvidia
t "the GPUs are unplugged" rmmod fakegpu
t_fails 1 "a driver without GPUs does not load" insmod $packages/nvidia.ko
like "insmod says that there is no device" "$out" 'No such device'
like "the kernel's log says that no GPU was found" "$(dmesg | tail -n 3)" 'NVRM: No NVIDIA GPU found'
