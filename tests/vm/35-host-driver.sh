# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# R-Q1: a driver that the host's own package put there: used, replaced, or a reason to stop. No nvidia-smi anywhere.
# kernel: K61
# gpus: 2
# stub: yes
# packages: open proprietary
# mem: 3G
# timeout: 600
tree=lib/modules/$(uname -r)/updates/dkms
runs() { sed -n 's/.*\(Open\|x86_64\) Kernel Module.*  \([0-9.]*\)  .*/\1 \2/p' /proc/driver/nvidia/version; }
state() { sed -n 's/^  "state": "\(.*\)",/\1/p' /run/kmodsmith/status.json; }
of() { cat /sys/module/nvidia/srcversion; }
mkdir -p "/$tree" && cp /packages/open.d/*.ko "/$tree/" && depmod
host=$(literally "$OPEN_VERSION (open, from $tree/nvidia.ko)")

t_fails 1 "installed and not loaded: the next boot would load it" kmodsmith install --package /packages/proprietary
like "  the driver of the host is named" "$out" "E_HOST_DRIVER: .*proprietary was requested; the host's own driver $host is installed"
t_fails 1 "use of what is not loaded" kmodsmith install --package /packages/proprietary --host-driver use
like "  what to do is told" "$out" 'E_HOST_DRIVER: .*modprobe nvidia'
mkdir -p /etc/modprobe.d && echo blacklist nvidia >/etc/modprobe.d/nvidia.conf
t "a blacklisted one is in nobody's way" kmodsmith plan --package /packages/proprietary
rm /etc/modprobe.d/nvidia.conf
is "nothing was loaded for any of that" "$(grep -c ^nvidia /proc/modules)" 0

t "the host loads its driver" sh -c 'modprobe nvidia && modprobe nvidia-uvm && modprobe nvidia-modeset'
theirs=$(of)
t_fails 1 "another flavour is requested: fail is the default" kmodsmith install --package /packages/proprietary
like "  version, flavour, file and choices are told" "$out" \
  "E_HOST_DRIVER: .*the host's own driver $host is loaded; --host-driver use keeps .* replace .* fail \(the default\)"
is "  and nothing was touched" "$(of) $(ls /dev/nvidia* 2>/dev/null)" "$theirs "
t "the requested one is adopted under any policy" kmodsmith install --package /packages/open
like "  it is adopted as what was requested" "$out" "adopt .*$OPEN_VERSION open is loaded already"
is "  and ready" "$(state)" READY
t_fails 1 "what was adopted is the host's still" kmodsmith install --package /packages/proprietary
is "  that is told beside the driver that works" "$(state) $(sed -n 's/^ *"code": "\(.*\)",/\1/p' /run/kmodsmith/status.json)" \
  "READY E_HOST_DRIVER"

rm -r /dev/nvidia* /dev/char/195:*
t "use: another version, flavour and parameter are requested" kmodsmith install --driver 570.1 --flavour proprietary \
  --param nvidia:NVreg_DeviceFileMode=432 --host-driver use
like "  one line says what is used" "$out" "adopt .*the host's own driver $host is loaded already"
is "  it stays" "$(of)" "$theirs"
is "  with its nodes" "$(cd /dev && echo nvidia[0-9ctl]* nvidia-uvm)" "nvidia0 nvidia1 nvidiactl nvidia-uvm"
is "  and readiness" "$(state)" READY
t "status agrees" kmodsmith status
KMODSMITH_HOST_DRIVER=use kmodsmith init --driver 570.1 >/tmp/init.log 2>&1 &
init=$!
t "init, told by the environment" sh -c "until grep -q ready: /tmp/init.log; do kill -0 $init || exit 1; sleep 0.1; done"
like "  the driver that it found is named" "$(cat /tmp/init.log)" "ready: driver $OPEN_VERSION, open"
kill $init && wait $init

hold /dev/nvidia0
t_fails 75 "replace: not while it is held" kmodsmith install --package /packages/proprietary --host-driver replace
like "  the holder is told" "$out" "E_IN_USE: .*pid $holder sleep"
is "  it stays" "$(of)" "$theirs"
release
t "replace" kmodsmith install --package /packages/proprietary --host-driver replace
is "  ours runs" "$(runs)" "x86_64 $PROPRIETARY_VERSION"
t "ours is nobody's own: the default policy replaces it" kmodsmith install --package /packages/open --flavour open
t "the proprietary modules replace ours again" kmodsmith install --package /packages/proprietary
rm -r /var/lib/kmodsmith
t "an emptied store does not make it a stranger's" kmodsmith install --package /packages/open
like "  it was replaced" "$out" 'unload '

t "unload" kmodsmith unload
rm -r "/$tree" /var/lib/kmodsmith /run/kmodsmith && depmod
t "a driver that somebody left behind" insmod /packages/open.d/nvidia.ko
node nvidiactl nvidia 255
hold /dev/nvidiactl
t_fails 1 "  in use it is somebody's" kmodsmith install --package /packages/proprietary
like "  nothing is known of whose it is" "$out" "E_HOST_DRIVER: .*$OPEN_VERSION \(open, no file on the host\)"
release
t "  with use it stays" kmodsmith plan --driver 570.1 --host-driver use
like "  whoever it was of" "$out" "adopt +the host's own driver"
t "  used by nobody it is replaced" kmodsmith install --package /packages/proprietary
is "  ours runs" "$(runs)" "x86_64 $PROPRIETARY_VERSION"
