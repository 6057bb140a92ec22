# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# Every way to keep the driver in use is seen, whichever node it goes through; the count of users only ever answers
# whether, never who.
# kernel: K61 K612
# gpus: 1
# switches: 1
# stub: yes
# packages: open
t "install" kmodsmith install --package /packages/open
t "nobody holds it" kmodsmith holders
like "  and it says so" "$out" 'nobody holds'
for file in nvidia0 nvidiactl nvidia-uvm nvidia-uvm-tools nvidia-modeset nvidia-nvswitch0 nvidia-nvswitchctl nvidia-caps/nvidia-cap1; do
  hold /dev/$file
  t "holders of $file" kmodsmith holders
  like "  named" "$out" "pid $holder .*fd /dev/$file\$"
  t_fails 1 "  and the driver cannot be unloaded" kmodsmith unload
  like "  because of it" "$out" "E_IN_USE: .*pid $holder "
  release
done
cp -a /dev/nvidia0 /tmp/other-name
hold /tmp/other-name
t "R-D2: a node under another name" kmodsmith holders
like "  is found by its number" "$out" "pid $holder .*fd /tmp/other-name"
release
t "nobody is left" kmodsmith unload
