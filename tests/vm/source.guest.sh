# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# A driver source of your own, compiled for the kernel of the guest and installed in it: a checkout of NVIDIA's open release, say.
#   DRIVER_SOURCE=~/open-gpu-kernel-modules tests/vm/machine tests/vm/source.guest.sh
# kernel: K61
# gpus: 2
# stub: yes
# packages: given
# mem: 2G
set -eu
run() { printf '\n# %s\n' "$*"; "$@"; }

run kmodsmith install --package /packages/given
run kmodsmith status
run cat /proc/driver/nvidia/version
run kmodsmith unload
