# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC1091
# The pod of OpenShift, two containers that share a directory: the one with the driver has no compiler, the one with the
# compiler and the headers has nothing of ours. What is compiled is a driver of one file (tests/vm/driver), by the kernel's
# own gcc and headers; NVIDIA's takes an emulated processor half an hour.
# gpus: 1
# root: debian
# image: driver
# toolkit: yes
# files: tests/vm/driver
# mem: 2G
# cpus: 2
# timeout: 1200
. /vm/pods/pods.sh
shared=/run/pods/shared
root=/run/nvidia/driver
release=$(uname -r)
driver() { pod_start driver driver-dtk KMODSMITH_SOURCE=/run/nvidia/source KMODSMITH_MODULES=nvidia "$@"; }
pod_goes() { # both containers, and with the pod its emptyDir
  pod_kill toolkit && pod_clear toolkit && pod_clear driver && rm -rf $shared
}
flag() { [ "$(cat "$shared/$1")" = "$(sha256sum <$shared/kmodsmith/request.json | cut -d ' ' -f 1)" ]; }
built() { # as long as it takes: the end of the guest is the limit
  until flag driver_built 2>/dev/null; do pod_alive toolkit && pod_alive driver && sleep 1 || return; done
}

t "a node" pods_begin
mkdir -p /run/nvidia && cp -r /files/driver /run/nvidia/source
t "the toolkit's container" pod_start toolkit toolkit
t "  of an image of another kernel" pod_exec toolkit mv "/lib/modules/$release/vmlinuz" /lib/modules/
t "the driver's container" driver
pod_wait_end driver
like "  is told why there is no compile" "$(pod_log driver)" \
  "going on without the driver toolkit: E_HEADERS_NOT_FOUND: the toolkit image is not of this kernel"
like "  and has no compiler itself" "$(cat /run/pods/driver/termination-log)" E_HEADERS_NOT_FOUND
is "  nothing is loaded" "$(grep -c '^nvidia' /proc/modules)" 0
t "the pod is deleted" pod_goes

t "a pod whose toolkit is of this kernel" pod_start toolkit toolkit
t "  and whose driver has a secret in its environment" driver HTTPS_PROXY=http://user:hidden-word@192.0.2.1:1
t "  the toolkit begins" pod_wait_log driver "the driver toolkit has begun"
t "the toolkit's container is killed meanwhile" pod_kill toolkit
t_fails 1 "  nothing was built" test -e $shared/driver_built
t "  and starts again" pod_start toolkit toolkit
t "  and makes the modules" seconds built
echo "# $took s for the compile"
t "the operator's startup probe passes" pod_wait_ready driver
t "  the flags are set, as the images of GPUDirect Storage and GDRCopy know them" flag dir_prepared
t "  driver_build_started" flag driver_build_started
t "  driver_built" flag driver_built
like "  the compiler is the toolkit's" "$(pod_log toolkit)" '2 objects with gcc-12 \(Debian '
echo "# $(pod_log toolkit | grep '^kmodsmith: compile ')"
unlike "  not the driver's container's" "$(pod_log driver)" '^kmodsmith: compile '
like "  what came was proven before it was kept" "$(pod_log driver)" '^kmodsmith: toolkit .* proven, is in the store'
is "  the driver is loaded" "$(cat /sys/module/nvidia/version)" 535.261.03
like "  of what the toolkit made" "$(chroot $root modinfo -F srcversion nvidia)" "^$(cat /sys/module/nvidia/srcversion || echo none)\$"
t "  the machine has its nodes" test -c /dev/nvidia0 -a -L /dev/char/195:0
t_fails 1 "  no environment was shared" grep -r hidden-word $shared
t "the toolkit's container waits for the next request" pod_wait_log toolkit "waiting for a request"
t "  and ends when it is told" runc kill toolkit TERM
pod_wait_end toolkit
t "the driver's container is killed" pod_kill driver
rm -rf $shared
t "  and starts again, in a pod without a toolkit" driver
t "  is ready" pod_wait_ready driver
like "  with the driver that is there" "$(pod_log driver)" '^kmodsmith: adopt '
t "the pod is deleted, and the node is without a driver" pod_delete driver
t "  as after a reboot" rmmod nvidia
t "the driver comes from the node's store" driver
t "  is ready" seconds pod_wait_ready driver
echo "# from the store: $took s until ready"
is "  nobody was asked" "$(ls -A $shared)" ""
