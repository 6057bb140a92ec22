# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2016 # a script in a string
# R-F1: a node runs on a kernel with the driver loaded; dpkg installs the next kernel and its headers, and meanwhile init has
# its package ready; the machine starts that kernel, without a network and without sources: the start is a load.
# A compile in here would take half an hour: the package comes from a repository, and compiles are the matrix's.
# kernel: K61R
# next: K61
# gpus: 1
# stub: yes
# packages: open:K61R open:K61
# kernel-debs: K61
# files: scripts/hooks/kmodsmith scripts/hooks/reboot-gate scripts/hooks/install.sh
# programs: dpkg dpkg-deb dpkg-split tar perl run-parts mke2fs
# disk: 512M
# boots: 2
# mem: 3G
# timeout: 1200
state=/var/lib/kmodsmith
record=/run/kmodsmith/kernels.json
driver=$OPEN_VERSION
uptime_cs() { sed 's/\.//; s/ .*//' /proc/uptime; }
uptime_s() { cut -d. -f1 /proc/uptime; }
modules() { awk '/^nvidia/ { print $1 }' /proc/modules | sort | tr '\n' ' '; }
ended() { while kill -0 "$1" 2>/dev/null; do sleep 0.2; done; }
until_true() { # COMMAND...: becomes true while init is there
  until "$@" >/dev/null 2>&1; do kill -0 "$init" || return 1; sleep 0.5; done
}
mkdir -p $state
[ "$boot" = 2 ] || /usr/bin/mke2fs -q -t ext4 /dev/nvme0n1
mount -t ext4 /dev/nvme0n1 $state

if [ "$boot" = 2 ]; then
  rm -rf /packages
  is "the next kernel runs" "$(uname -r)" "$K61"
  before=$(uptime_cs)
  t "install, from the store alone" kmodsmith install --driver $driver --no-compile --offline
  took=$((($(uptime_cs) - before) * 10))
  echo "# ready $took ms after the start of the command, in an emulated machine"
  like "  it is a load" "$out" 'package .* from .*/store'
  unlike "  without a compile" "$out" 'compile +[0-9]'
  is "  all modules are loaded" "$(modules)" "nvidia nvidia_modeset nvidia_uvm "
  t "  ready" kmodsmith status
  t "  in a few seconds" test $took -le 60000 # of an emulated processor; the budget of a real one is 5 s
  umount $state
  exit 0
fi

export PATH=/usr/bin:$PATH # before busybox
# What dpkg and Debian's maintainer scripts need of a system.
mkdir -p /var/lib/dpkg/info /var/lib/dpkg/updates /etc/kernel/postinst.d
: >/var/lib/dpkg/status
printf '#!/bin/sh\n' >/usr/bin/linux-update-symlinks # of linux-base, which is Perl with modules
printf '#!/bin/sh\n' >/usr/bin/ldconfig
chmod +x /usr/bin/*
t "the hooks are installed" sh /files/install.sh --gate
kmodsmith init --driver $driver --from oci:/packages/open-K61R,oci:/packages/open-K61 --insecure-skip-verify --gate \
  --no-daemons --export none --cdi none >/tmp/init.log 2>&1 &
init=$!
t "the node is ready" until_true grep -q 'ready: driver' /tmp/init.log
loaded=$(cat /sys/module/nvidia/srcversion)
t "a reboot may come" /etc/kmodsmith/reboot-gate
t "dpkg installs the next kernel and its headers" dpkg --force-depends --force-script-chrootless -i /files/*.deb
installed=$(uptime_s)
t "  its package is ready before the reboot" until_true grep -q '"verdict": "ready"' $record
echo "# ready for the next kernel $(($(uptime_s) - installed)) s after dpkg, 10 s of them quiet, in an emulated machine"
t "  status" kmodsmith status
like "  status tells it" "$out" "^kernel $K61 may start next: ready: .*CRCs equal"
t "  the gate is open" /etc/kmodsmith/reboot-gate
is "  the driver was not touched" "$(cat /sys/module/nvidia/srcversion) $(modules)" "$loaded nvidia nvidia_modeset nvidia_uvm "
kill $init
ended $init
t "the store verifies" kmodsmith store verify
umount $state
