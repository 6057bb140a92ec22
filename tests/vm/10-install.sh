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
has() { printf '%s\n' "$out" | grep -qE -- "$1"; }

t "status tells that nothing is loaded" sh -c 'kmodsmith status; [ $? -eq 1 ]'
like "it names the driver" "$out" 'FAIL +driver +not loaded'
t "plan shows the steps" kmodsmith plan --package /packages/open
like "proof comes before load" "$(printf '%s ' $out)" 'prove .* load .* nodes .* verify'
is "plan changes nothing" "$(modules)" ""
t "install" $install
like "it ends ready" "$out" '^ready$'
like "phases have times" "$out" 'load +[0-9.]+ s'
is "R-K4: at most 25 lines" "$(printf '%s\n' "$out" | awk 'END { print (NR > 25) ? NR : "ok" }')" ok
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
t "R-D1: a second install" strace -f -qq -o /tmp/trace -e trace=$calls $install
like "adopts what is loaded" "$out" 'adopt'
is "loads, unloads, connects, starts and makes nothing" "$(grep -vcE 'execve\("(/usr)?/(bin|sbin)/kmodsmith"' /tmp/trace)" 0
is "and leaves the modules alone" "$(modules)" "$before"

t "nobody holds the driver" kmodsmith holders
like "and it says so" "$out" 'nobody holds'
hold /dev/nvidia0
t "holders while a process has /dev/nvidia0" kmodsmith holders
like "R-D2: names pid, program and path" "$out" "pid $holder sleep.* fd /dev/nvidia0"
t_fails 1 "unload refuses" kmodsmith unload
like "with its code and the holder" "$out" 'E_IN_USE: .*pid [0-9]+ sleep'
t_fails 1 "a replacement is refused before anything is touched" kmodsmith install --package /packages/proprietary
like "with the same code" "$out" 'E_IN_USE'
t "an install of what is there is not" $install
release
t "unload when it is free" kmodsmith unload
is "nothing is left" "$(modules)" ""
t "unload of nothing is no error" kmodsmith unload

t "R-A2: install again from the package that the node kept" kmodsmith install --driver 535.261.03 --flavour open
like "ends ready" "$out" '^ready$'
t "the other flavour replaces it" kmodsmith install --package /packages/proprietary
like "unloading came after the proof" "$(printf '%s ' $out)" 'prove .* unload .* load '
like "the proprietary modules run" "$(cat /proc/driver/nvidia/version)" 'NVIDIA UNIX x86_64 Kernel Module'
t "status after the replacement" kmodsmith status
