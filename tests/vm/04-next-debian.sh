# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# Debian 13's kernel, the newest of its backports and the drivers that it offers for them: compiled with the gcc of the kernel,
# installed, replaced, unloaded. 7.x has no CRCs, and its table of exported symbols has another form.
# kernel: K13 K13B
# gpus: 2
# stub: yes
# packages: open13 proprietary13 tesla13
# mem: 2G
modules() { awk '/^nvidia/ { print $1 }' /proc/modules | sort; }

t "check, without headers" kmodsmith check --package /packages/open13
like "  it fits, by the kernel's image" "$out" '^ok: '
t "install of the open modules" kmodsmith install --package /packages/open13
like "  it ends ready" "$out" '^ready$'
like "  the real driver runs" "$(cat /proc/driver/nvidia/version)" "NVIDIA UNIX Open Kernel Module.* $OPEN13_VERSION "
for node in nvidia0 nvidia1 nvidiactl nvidia-uvm nvidia-modeset; do
  t "  /dev/$node is a device" test -c /dev/$node
done
t "status" kmodsmith status
hold /dev/nvidia0
t_fails 75 "a replacement is refused while a process has /dev/nvidia0" kmodsmith install --package /packages/proprietary13
like "  with the code E_IN_USE" "$out" 'E_IN_USE'
release
t "the proprietary modules replace them" kmodsmith install --package /packages/proprietary13
like "  they run" "$(cat /proc/driver/nvidia/version)" "NVIDIA UNIX x86_64 Kernel Module.* $PROPRIETARY13_VERSION "
t "the modules of another branch replace those" kmodsmith install --package /packages/tesla13
like "  they run" "$(cat /proc/driver/nvidia/version)" "NVIDIA UNIX x86_64 Kernel Module.* $TESLA13_VERSION "
t "unload" kmodsmith unload
is "  it leaves no module" "$(modules)" ""
