# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# A whole node is simulated: eight GPUs and four NVSwitches, on both kernel lines, with the proprietary modules.
# kernel: K61 K612
# gpus: 8
# switches: 4
# stub: yes
# packages: proprietary
# mem: 1536M
packages=/packages/proprietary.d

for module in nvidia nvidia-uvm nvidia-modeset; do t "$module.ko loads" insmod $packages/$module.ko; done
is "eight GPUs are bound" "$(ls /proc/driver/nvidia/gpus | wc -l)" 8
is "four switches are bound" "$(ls /proc/driver/nvidia-nvswitch/devices | wc -l)" 4
like "the modules are the proprietary ones" "$(cat /proc/driver/nvidia/version)" 'NVIDIA UNIX x86_64 Kernel Module'
is "proprietary and unsigned modules taint the kernel" "$(cat /proc/sys/kernel/tainted)" 12289

for minor in 0 1 2 3 4 5 6 7; do
  node nvidia$minor nvidia $minor
  t "nvidia$minor can be opened" hold /dev/nvidia$minor
  release
done
for minor in 0 1 2 3; do
  node nvidia-nvswitch$minor nvidia-nvswitch $minor
  t "nvidia-nvswitch$minor can be opened" hold /dev/nvidia-nvswitch$minor
  release
done
node nvidiactl nvidia 255
node nvidia-uvm nvidia-uvm 0
node nvidia-modeset nvidia 254
for name in nvidiactl nvidia-uvm nvidia-modeset; do
  t "$name can be opened" hold /dev/$name
  release
done
t "the modules are removed" rmmod nvidia_modeset nvidia_uvm nvidia
is "the devices are there without the modules" "$(cat /sys/bus/pci/devices/*/vendor | grep -c 0x10de)" 12
