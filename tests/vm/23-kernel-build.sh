# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2016 # scripts in strings
# R-F1, R-H2: a node runs on a kernel with the driver loaded, dpkg installs the next kernel and its headers, and init
# compiles for it with this machine's compiler: killed half-way, then to the end. The machine starts that kernel
# without a network, compiler, headers and sources: the start is a load. The driver is one of one file
# (tests/vm/driver), because NVIDIA's takes an emulated processor more than an hour. The machine's root is the
# toolkit's: a Debian with gcc and dpkg.
# kernel: K61R
# next: K61
# gpus: 1
# stub: yes
# packages: small:K61R
# kernel-debs: K61
# files: tests/vm/driver scripts/hooks/kmodsmith scripts/hooks/reboot-gate scripts/hooks/install.sh
# programs: perl mke2fs
# toolkit: yes
# disk: 512M
# boots: 2
# mem: 2G
# cpus: 2
# timeout: 1800
state=/var/lib/kmodsmith
record=/run/kmodsmith/kernels.json
next=$K61
log=/tmp/init.log
begin() { # OPTION...: of this start, and of the one after the kill
  : >$log
  kmodsmith init --driver "$SMALL_VERSION" --flavour proprietary --modules nvidia --no-daemons --export none --cdi none "$@" \
    >$log 2>&1 &
  init=$!
}
until_true() { # COMMAND...: becomes true while init is there
  until "$@" >/dev/null 2>&1; do kill -0 "$init" || return 1; sleep 0.2; done
}
now_cs() { sed 's/\.//; s/ .*//' /proc/uptime; }
since() { echo $((($(now_cs) - $1) / 100)); }
driver() { # what is loaded
  (cd /sys/module/nvidia && cat version srcversion && grep -c ^nvidia /proc/modules) | tr '\n' ' '
}
kill_all() { # processes of ours, whatever they are called
  for exe in /proc/[0-9]*/exe; do
    [ "$(readlink "$exe")" != /usr/bin/kmodsmith ] || kill -9 "$(echo "$exe" | cut -d/ -f3)" 2>/dev/null
  done
  wait $init
  [ $? -eq 137 ]
}
no_compiler() { # soon
  tries=100
  while grep -qsx cc1 /proc/[0-9]*/comm; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] && sleep 0.1 || return
  done
}
disk() { # SERIAL -> device node
  until serial=$(grep -lsx "$1 *" /sys/block/nvme*n1/device/serial); do sleep 0.1; done
  serial=${serial%/device/serial}
  echo "/dev/${serial##*/}"
}

if [ "$boot" = 2 ]; then
  rm -rf /packages /files
  mkdir -p $state
  mount -t ext4 "$(disk disk)" $state
  is "the next kernel runs" "$(uname -r)" $next
  began=$(now_cs)
  begin --no-compile --offline
  t "init becomes ready from the store alone" until_true grep -q 'ready: driver' $log
  echo "# ready $((($(now_cs) - began) * 10)) ms after the start of init, in an emulated machine"
  out=$(cat $log)
  printf '%s\n' "$out" | sed -n 's/^kmodsmith: \([a-z]* .* s .*\)/#   \1/p'
  like "the start on the next kernel is a load" "$out" 'package .* from .*/store'
  unlike "the start on the next kernel compiles nothing" "$out" 'compile +[0-9]'
  like "the driver is loaded on the next kernel" "$(driver)" "^$SMALL_VERSION [0-9A-F]+ 1 \$"
  t "status is ready on the next kernel" kmodsmith status
  kill $init
  wait $init
  umount $state
  exit 0
fi

if [ -z "${switched-}" ]; then
  root=/new/root
  mkdir /new
  mount -t ext4 "$(disk toolkit)" /new
  for file in /lib/x86_64-linux-gnu/*; do [ -e "$root$file" ] || cp "$file" "$root$file"; done
  cp /usr/bin/kmodsmith /usr/bin/perl /bin/busybox /sbin/depmod $root/usr/bin/
  for applet in $(busybox --list); do
    [ -e "$root/usr/bin/$applet" ] || [ -e "$root/usr/sbin/$applet" ] || ln -s busybox "$root/usr/bin/$applet"
  done
  cp -r /lib/firmware $root/usr/lib/
  cp /boot/* $root/boot/
  mkdir -p $root/vm $root/files $root/packages $root$state $root/var/lib/dpkg/info $root/var/lib/dpkg/updates \
    $root/etc/kernel/postinst.d
  : >$root/var/lib/dpkg/status
  # Of linux-base, where it is Perl with modules.
  ln -sf true $root/usr/bin/linux-update-symlinks
  [ -x $root/usr/sbin/ldconfig ] || ln -s ../bin/true $root/usr/sbin/ldconfig
  /usr/bin/mke2fs -q -t ext4 "$(disk disk)"
  mount -t ext4 "$(disk disk)" $root$state
  export switched=yes
  # With process ids of its own: who sees another root at process 1 takes that for the machine's.
  exec unshare -m -p -f sh -c 'mount -o rbind "$0" "$0" && mount -t proc proc "$0/proc" &&
    for dir in sys dev run tmp vm files packages; do mount -o rbind /$dir "$0/$dir" || exit; done
    cd "$0" && mount -o move . / && exec chroot . /bin/sh /vm/start' $root
fi

t "the hooks are installed" sh /files/install.sh --gate
begin --source /files/driver --from oci:/packages/small-K61R --insecure-skip-verify --gate
t "the node is ready" until_true grep -q 'ready: driver' $log
unlike "the node got ready by a package, without a compile" "$(cat $log)" 'compile +[0-9]'
loaded=$(driver)
like "the driver of the package is loaded" "$loaded" "^$SMALL_VERSION [0-9A-F]+ 1 \$"
t "a reboot may come" /etc/kmodsmith/reboot-gate
t "dpkg installs the next kernel and its headers" dpkg --force-depends --force-script-chrootless -i /files/*.deb
installed=$(now_cs)
t "init compiles for the next kernel" until_true grep -q '"verdict": "building"' $record
t_fails 1 "no reboot may come during the compile" /etc/kmodsmith/reboot-gate
like "the gate says that the next kernel is building" "$out" "no reboot: $next may start next: building"
t "half of the objects are compiled" until_true grep -q 'compile 50% (1 of 2)' $log
echo "# half-way $(since "$installed") s after dpkg, 10 s of them quiet"
t "kill -9 of init, and of who compiles" kill_all
t "no compiler outlives init" no_compiler
is "the kill does not touch the driver" "$(driver)" "$loaded"
t_fails 1 "no reboot may come after the kill" /etc/kmodsmith/reboot-gate
began=$(now_cs)
begin --source /files/driver --from oci:/packages/small-K61R --insecure-skip-verify --gate
t "init starts again" until_true grep -q 'ready: driver' $log
like "the init that started again adopts the driver" "$(cat $log)" '^kmodsmith: adopt '
t "the next kernel has its package" until_true grep -q '"verdict": "ready"' $record
echo "# ready for the next kernel $(since "$began") s after this start, in an emulated machine"
grep '^kmodsmith: compile .* s ' $log | sed 's/^/# /'
like "the package is compiled here, with the kernel's compiler" "$(cat $log)" \
  '^kmodsmith: compile +[0-9.]+ s .* 2 objects with gcc-[0-9]+ \(Debian '
t "status is right with the package for the next kernel" kmodsmith status
like "status says that the package was proven for the next kernel" "$out" "^kernel $next may start next: ready: .*CRCs equal"
t "a reboot may come again" /etc/kmodsmith/reboot-gate
like "the store has the package for the next kernel" "$(kmodsmith store ls)" "$SMALL_VERSION .*$next"
is "the compile does not touch the driver" "$(driver)" "$loaded"
kill $init
wait $init
t "the store verifies" kmodsmith store verify
is "nothing is left of who was killed" "$(ls -A $state/.tmp)" ""
umount $state
