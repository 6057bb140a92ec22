# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC1091
# The pod of OpenShift, two containers that share a directory: the one with the driver has no compiler, the one with the
# compiler and the headers has nothing of ours. What is compiled is a driver of one file (tests/vm/driver), by the kernel's
# own gcc and headers; NVIDIA's takes an emulated processor half an hour. It gets the version of the image's user space.
# gpus: 1
# stub: yes
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

t "the node has what a pod needs" pods_begin
mkdir -p /run/nvidia && cp -r /files/driver /run/nvidia/source
sed -i "s/$SMALL_VERSION/$OPEN_VERSION/" /run/nvidia/source/kernel/Kbuild
t "the toolkit's container starts" pod_start toolkit toolkit
t "the toolkit's image is made one of another kernel" pod_exec toolkit mv "/lib/modules/$release/vmlinuz" /lib/modules/
t "the driver's container starts beside a toolkit of another kernel" driver
pod_wait_end driver
like "with a toolkit of another kernel the log says why there is no compile" "$(pod_log driver)" \
  "continuing without the driver toolkit: E_HEADERS_NOT_FOUND: the toolkit image is not for this kernel"
like "with a toolkit of another kernel the container ends for lack of headers" "$(cat /run/pods/driver/termination-log)" E_HEADERS_NOT_FOUND
is "with a toolkit of another kernel nothing is loaded" "$(grep -c '^nvidia' /proc/modules)" 0
t "the pod with a toolkit of another kernel is deleted" pod_goes

t "a toolkit of this kernel starts, as in a pod of an NVIDIADriver" pod_start toolkit toolkit-cr
t "the driver's container starts with a secret in its environment" driver HTTPS_PROXY=http://user:hidden-word@192.0.2.1:1
t "the toolkit begins a compile" pod_wait_log driver "the driver toolkit has started"
t "the toolkit's container is killed during the compile" pod_kill toolkit
t_fails 1 "a killed toolkit says of nothing that it was built" test -e $shared/driver_built
t "the killed toolkit starts again" pod_start toolkit toolkit-cr
t "the toolkit that started again makes the modules" seconds built
echo "# $took s for the compile"
t "the operator's startup probe passes" pod_wait_ready driver
t "the flag dir_prepared is set, as the images of GPUDirect Storage and GDRCopy know it" flag dir_prepared
t "the flag driver_build_started is set" flag driver_build_started
t "the flag driver_built is set" flag driver_built
like "the compiler is the toolkit's" "$(pod_log toolkit)" '2 objects with gcc-[0-9]+ \(Debian '
echo "# $(pod_log toolkit | grep '^kmodsmith: compile ')"
unlike "the driver's container compiles nothing" "$(pod_log driver)" '^kmodsmith: compile '
like "what the toolkit made is proven before it is kept" "$(pod_log driver)" '^kmodsmith: toolkit .* proven, is in the store'
is "the driver of the toolkit is loaded" "$(cat /sys/module/nvidia/version)" "$OPEN_VERSION"
like "the export has the modules that are loaded" "$(chroot $root modinfo -F srcversion nvidia)" "^$(cat /sys/module/nvidia/srcversion || echo none)\$"
t "the machine has the nodes of the driver" test -c /dev/nvidia0 -a -L /dev/char/195:0
t_fails 1 "no environment was shared with the toolkit" grep -r hidden-word $shared
t "the toolkit's container waits for the next request" pod_wait_log toolkit "waiting for a request"
t "the toolkit's container ends when it is told" runc kill toolkit TERM
pod_wait_end toolkit
t "the driver's container is killed" pod_kill driver
rm -rf $shared
t "the driver's container starts again in a pod without a toolkit" driver
t "the driver's container becomes ready without a toolkit" pod_wait_ready driver
t "the driver's container adopts the driver without a toolkit" pod_wait_log driver '^kmodsmith: adopt '
t "the pod is deleted, and the node is without a driver" pod_delete driver
t "the driver is unloaded, as after a reboot" rmmod nvidia
t "the driver's container starts on a node whose store has the package" driver
t "the driver comes from the node's store" seconds pod_wait_ready driver
echo "# from the store: $took s until ready"
is "no toolkit is asked when the store has the package" "$(ls -A $shared)" ""
