# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# R-A1, R-A2, R-H4: a node that nobody prepared, without headers and compiler, and the driver image in a pod that sees the
# machine's process ids. The node's own apt fetches the headers from the repository that the node is configured for, the
# compiler comes from the site's builder, the driver is compiled, proven and loaded: READY. Nothing that is the machine's
# has changed, and the next start needs neither network nor compiler. The driver is one of one file (tests/vm/driver),
# because NVIDIA's takes an emulated processor more than an hour.
# kernel: K61
# gpus: 1
# stub: yes
# root: stock
# image: driver
# beside: stock
# files: tests/vm/driver
# mem: 3G
# cpus: 2
# timeout: 2400
log=/tmp/log
mkdir /pod
mount -t tmpfs pod /pod
for dir in bin sbin usr lib lib64 etc opt; do
  [ ! -e /images/driver/$dir ] || { mkdir /pod/$dir && mount -o rbind,ro /images/driver/$dir /pod/$dir; }
done
for dir in proc sys beside files; do mkdir /pod/$dir && mount -o rbind /$dir /pod/$dir; done
mkdir /pod/dev /pod/tmp /pod/run
mknod /pod/dev/null c 1 3
mknod /pod/dev/random c 1 8
mknod /pod/dev/urandom c 1 9
mknod /pod/dev/zero c 1 5
mknod /pod/dev/full c 1 7
begin() { # OPTION...: with the small driver in place of the source in the image
  : >$log
  unshare --mount chroot /pod env PATH=/usr/local/bin:/usr/bin:/bin KMODSMITH_SOURCE=/files/driver KMODSMITH_TRUST_DIR=/beside/trust \
    KERNEL_MODULE_TYPE=proprietary kmodsmith init --modules nvidia --no-daemons --export none --cdi none "$@" >$log 2>&1 &
  init=$!
}
until_ready() { until grep -q 'ready: driver' $log; do kill -0 $init 2>/dev/null || { cat $log; return 1; }; sleep 0.5; done; }
in_pod() { unshare --mount chroot /pod env PATH=/usr/local/bin:/usr/bin:/bin "$@"; }
# All that is the machine's: names, modes, sizes and times; of configuration and databases the content, too.
machine() {
  find / -xdev \( -path /var/lib/kmodsmith -o -path /pod -o -path /tmp -o -path /dev -o -path /run \) -prune -o -printf '%p %m %s %T@ %l\n' | sort
  find /etc /var/lib/dpkg /var/lib/apt /var/cache/apt -xdev -type f -exec sha256sum {} +
}
stop() { kill $init; wait $init; }

t_fails 2 "the machine has no compiler" ls /usr/bin/gcc /usr/bin/gcc-12 /usr/bin/cc
t_fails 2 "the machine has no headers" ls /lib/modules/"$K61"/build
busybox ip link set lo up
busybox httpd -f -p 127.0.0.1:80 -h /beside/repository &
httpd=$!
mkdir -p /etc/apt/keyrings /etc/apt/sources.list.d
cp /beside/key.gpg /etc/apt/keyrings/archive.gpg
echo "deb [signed-by=/etc/apt/keyrings/archive.gpg] http://127.0.0.1/ ./" >/etc/apt/sources.list.d/archive.list
mkdir -p "/lib/firmware/nvidia/$SMALL_VERSION" # of the driver's user space, which is not what this is about
for name in tu10x ga10x; do echo placeholder >"/lib/firmware/nvidia/$SMALL_VERSION/gsp_$name.bin"; done
mkdir -p /var/lib/kmodsmith /run/kmodsmith # what kmodsmith itself makes is not the machine's
machine >/tmp/before
t "plan says what would be asked" in_pod env KMODSMITH_SOURCE=/files/driver KMODSMITH_TRUST_DIR=/beside/trust \
  kmodsmith plan --flavour proprietary --modules nvidia --from oci:/beside/site
like "the plan names apt and the package" "$out" "apt for linux-headers-$K61, from the host's repositories"
begin --from oci:/beside/site --listen 9477
t "the node becomes ready" until_ready
like "the host's apt was asked" "$(cat $log)" "asking apt for linux-headers-$K61, in the repositories of the host"
like "the headers are the repository's" "$(cat $log)" "apt fetched linux-headers-$K61"
like "the compiler is the builder's" "$(cat $log)" "no compiler of this machine fits; trying those of the builder image"
sed -n 's/^kmodsmith: \([a-z]* .* s .*\)/#   \1/p' $log
is "the driver is loaded" "$(cat /sys/module/nvidia/version)" "$SMALL_VERSION"
t "status is ready" in_pod kmodsmith status
served() { busybox wget -q -O - "http://127.0.0.1:9477/$1"; } # by a child, of the files that the pod made on the machine
is "  readiness over HTTP" "$(served readyz)" "yes, driver $SMALL_VERSION"
like "  metrics over HTTP" "$(served metrics)" "^kmodsmith_driver_info\{driver=\"$SMALL_VERSION\".* 1\$"
server=$(for p in /proc/[0-9]*; do case $(tr '\0' ' ' <"$p/cmdline") in "kmodsmith serve "*) echo "$p" ;; esac; done 2>/dev/null)
is "  by nobody" "$(stat -c %u "$server")" 65534
stop
machine >/tmp/after
t "nothing that is the machine's has changed" diff /tmp/before /tmp/after
t "the driver is unloaded" in_pod kmodsmith unload
kill $httpd
busybox ip link set lo down
begin --offline
t "the node becomes ready again, without a network" until_ready
unlike "nothing is compiled the second time" "$(cat $log)" 'compile +[0-9]'
like "the package is the store's" "$(cat $log)" 'package .* from .*/store'
is "the driver is loaded again" "$(cat /sys/module/nvidia/version)" "$SMALL_VERSION"
stop
