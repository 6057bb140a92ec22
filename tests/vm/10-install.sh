# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# The main job: install, look, install again, hold, unload, on both kernel lines and with both flavours.
# kernel: K61 K612
# gpus: 2
# stub: yes
# packages: open proprietary
# mem: 1536M
# programs: strace
install="kmodsmith install --package /packages/open"
modules() { awk '/^nvidia/ { print $1, $2 }' /proc/modules | sort; }

t "status tells that nothing is loaded" sh -c 'kmodsmith status; [ $? -eq 1 ]'
like "status names the driver as not loaded" "$out" 'FAIL +driver +not loaded'
t "plan shows the steps" kmodsmith plan --package /packages/open
like "the plan proves before it loads" "$(printf '%s ' $out)" 'prove .* load .* nodes .* verify'
is "plan changes nothing" "$(modules)" ""
t "install" $install
like "install ends ready" "$out" '^ready$'
like "install tells the time of the load" "$out" 'load +[0-9.]+ s'
is "R-K4: install prints at most 25 lines" "$(printf '%s\n' "$out" | awk 'END { print (NR > 25) ? NR : "ok" }')" ok
like "the real driver runs" "$(cat /proc/driver/nvidia/version)" 'NVIDIA UNIX Open Kernel Module'
for node in nvidia0 nvidia1 nvidiactl nvidia-uvm nvidia-uvm-tools nvidia-modeset nvidia-caps/nvidia-cap1; do
  t "/dev/$node is a device" test -c /dev/$node
done
link() { readlink -f "/dev/char/$(($(stat -c '0x%t' "$1"))):$(($(stat -c '0x%T' "$1")))"; }
is "R-G1: every node has its link" "$(for node in nvidia0 nvidia1 nvidiactl nvidia-uvm nvidia-modeset; do
  link /dev/$node; done | tr '\n' ' ')" \
  "/dev/nvidia0 /dev/nvidia1 /dev/nvidiactl /dev/nvidia-uvm /dev/nvidia-modeset "
t "status" kmodsmith status
t "status --json" sh -c 'kmodsmith status --json >/tmp/status.json && grep -q "\"state\": \"READY\"" /tmp/status.json'

before=$(modules)
calls=init_module,finit_module,delete_module,connect,execve,mknodat,symlinkat,fchmodat,fchownat
t "R-D1: a second install" strace -f --seccomp-bpf -qq -o /tmp/trace -e trace=$calls $install
like "a second install adopts what is loaded" "$out" 'adopt'
is "a second install loads, unloads, connects, starts and makes nothing" "$(grep -vcE 'execve\("(/usr)?/(bin|sbin)/kmodsmith"' /tmp/trace)" 0
is "a second install leaves the modules alone" "$(modules)" "$before"

t "holders while nobody holds the driver" kmodsmith holders
like "holders says that nobody holds the driver" "$out" 'the driver is not in use'
hold /dev/nvidia0
t "holders while a process has /dev/nvidia0" kmodsmith holders
like "R-D2: holders names pid, program and path" "$out" "pid $holder sleep.* fd /dev/nvidia0"
t_fails 75 "unload is refused while a process has /dev/nvidia0" kmodsmith unload
like "the refusal of unload has the code E_IN_USE and names the holder" "$out" 'E_IN_USE: .*pid [0-9]+ sleep'
t_fails 75 "a replacement is refused while a process has /dev/nvidia0" kmodsmith install --package /packages/proprietary
like "the refusal of the replacement has the code E_IN_USE" "$out" 'E_IN_USE'
t "an install of what is loaded is not refused while a process has /dev/nvidia0" $install
release
t "unload when nobody holds the driver" kmodsmith unload
is "unload leaves no module" "$(modules)" ""
t "unload without a driver is no error" kmodsmith unload

t "R-A2: install again from the package that the node kept" kmodsmith install --driver "$OPEN_VERSION" --flavour open
like "an install from the kept package ends ready" "$out" '^ready$'
t "the proprietary modules replace the open ones" kmodsmith install --package /packages/proprietary
like "a replacement proves before it unloads" "$(printf '%s ' $out)" 'prove .* unload .* load '
like "the proprietary modules run" "$(cat /proc/driver/nvidia/version)" 'NVIDIA UNIX x86_64 Kernel Module'
t "status after the replacement" kmodsmith status
