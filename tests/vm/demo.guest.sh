# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# What `make demo` shows inside the guest.
# kernel: K61
# gpus: 2
# stub: yes
# files: build/demo/layout
# mem: 1G
set -eu
run() { printf '\n# %s\n' "$*"; "$@"; }

run uname -r
run kmodsmith doctor || true
run kmodsmith plan --package /files/layout
run kmodsmith install --package /files/layout
run kmodsmith status
run ls -l /dev/nvidia0 /dev/nvidia1 /dev/nvidiactl /dev/nvidia-uvm /dev/nvidia-modeset
run cat /proc/driver/nvidia/version

printf '\n# a second install changes nothing\n'
run kmodsmith install --package /files/layout
printf '\n# somebody uses a GPU, and the driver stays\n'
sleep 1000 </dev/nvidia0 &
run kmodsmith holders
run kmodsmith unload || echo "(exit status $?)"
kill $!
wait $! 2>/dev/null || true
run kmodsmith unload
printf '\ndone\n'
