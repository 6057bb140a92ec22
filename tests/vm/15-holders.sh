# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# Every way to keep the driver in use is seen, whichever node it goes through; the count of users only ever answers
# whether, never who.
# kernel: K61 K612
# gpus: 1
# switches: 1
# stub: yes
# packages: open
# programs: perl
t "install" kmodsmith install --package /packages/open
t "nobody holds it" kmodsmith holders
like "  the answer is that nobody holds it" "$out" 'the driver is not in use'
for file in nvidia0 nvidiactl nvidia-uvm nvidia-uvm-tools nvidia-modeset nvidia-nvswitch0 nvidia-nvswitchctl nvidia-caps/nvidia-cap1; do
  hold /dev/$file
  t "holders of $file" kmodsmith holders
  like "  named" "$out" "pid $holder .*fd /dev/$file\$"
  t_fails 75 "  and the driver cannot be unloaded" kmodsmith unload
  like "  because of it" "$out" "E_IN_USE: .*pid $holder "
  release
done
cp -a /dev/nvidia0 /tmp/other-name
hold /tmp/other-name
t "R-D2: a node under another name" kmodsmith holders
like "  is found by its number" "$out" "pid $holder .*fd /tmp/other-name"
release

# All kinds in one run: an open node, a mapping that outlived its descriptor, a node mounted into another mount namespace,
# a node of a switch, and somebody else's module.
insmod /vm/modules/gdrdrv.ko
node gdrdrv gdrdrv 0
hold /dev/nvidia0
opener=$holder
hold /dev/nvidia-nvswitch0
switcher=$holder
perl -e 'open(my $f, "+<", "/dev/gdrdrv") or die; syscall(9, 0, 4096, 3, 1, fileno($f), 0) > 0 or die; close($f);
  open(my $r, ">", "/tmp/mapped"); close($r); sleep(1000000)' &
mapper=$!
unshare -m sh -c 'mkdir -p /run/container/dev && : >/run/container/dev/nvidia0 &&
  mount --bind /dev/nvidia0 /run/container/dev/nvidia0 && : >/tmp/mounted && exec sleep 1000000' &
mounter=$!
until [ -e /tmp/mapped ] && [ -e /tmp/mounted ]; do sleep 0.1; kill -0 "$mapper" && kill -0 "$mounter" || break; done
t "R-D2: five kinds at once" kmodsmith holders
like "  fd" "$out" "^pid $opener .* fd /dev/nvidia0\$"
like "  fd of a switch" "$out" "^pid $switcher .* fd /dev/nvidia-nvswitch0\$"
like "  mapping without a descriptor" "$out" "^pid $mapper perl .* map /dev/gdrdrv\$"
like "  mount in another namespace" "$out" "^pid $mounter .* mount /run/container/dev/nvidia0\$"
like "  module" "$out" '^module gdrdrv$'
is "  and nobody else" "$(printf '%s\n' "$out" | awk 'END { print NR }')" 5
kill "$opener" "$switcher" "$mapper"
wait "$opener" "$switcher" "$mapper"
rmmod gdrdrv
t "a mount alone keeps nobody from unloading" kmodsmith unload
kill "$mounter"
