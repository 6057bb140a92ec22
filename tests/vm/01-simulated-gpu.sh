# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# The simulation itself is true: the real open modules probe two simulated H100s, bind, open and unload like on hardware.
# kernel: K61R
# gpus: 2
# stub: yes
# packages: open
dmesg_since >/dev/null
t "nvidia.ko loads" insmod /packages/open/nvidia.ko
