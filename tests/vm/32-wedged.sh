# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# R-D5: a module whose unload does not come back. The verdict comes within the deadline, with the kernel's stack and
# log; nothing else is unloaded or loaded after it; and the verdict leaves nobody waiting but the one stuck call.
# gpus: 1
# stub: yes
# packages: smallopen smallset
# mem: 1536M
modules() { awk '/^nvidia/ { print $1 }' /proc/modules | sort | tr '\n' ' '; }
verdict() { # COMMAND...: as run by somebody who reads to the end of its output
  said=$("$@" 2>&1)
  status=$?
  printf '%s\n' "$said" | tee /tmp/verdict
  return $status
}

t "install" kmodsmith install --package /packages/smallopen
before=$(modules)
# shellcheck disable=SC2086 # $command is words
for command in "unload" "install --package /packages/smallset"; do
  word=${command%% *}
  insmod /vm/modules/nvidia_peermem.ko
  t_fails 1 "R-D5: $word ends although the kernel does not come back" verdict kmodsmith $command --unload-timeout 3
  like "$word that does not come back: the verdict is E_WEDGED" "$out" "E_WEDGED: .*unload 'nvidia_peermem': the kernel did not return within 3 s"
  like "$word that does not come back: the stack says where it is stuck" "$out" 'it is in .*fakewedge_exit \[nvidia_peermem\]'
  like "$word that does not come back: the kernel's words are shown" "$out" 'kernel: .*nvidia_peermem: waiting for a peer that does not answer'
  unlike "$word that does not come back: nothing is loaded again" "$out" 'loaded again'
  is "$word that does not come back: no other module is touched" "$(modules)" "$(echo "$before" nvidia_peermem | tr ' ' '\n' | sed '/^$/d' | sort |
    tr '\n' ' ')"
  stuck=$(sed -nE 's/.*process ([0-9]+) is stuck.*/\1/p' /tmp/verdict | head -n 1)
  is "$word that does not come back: the stuck call is left behind" "$(sed -n 's/^State:[[:space:]]*\([A-Z]\).*/\1/p' "/proc/$stuck/status")" D
  is "$word that does not come back: the stuck call keeps no file open" "$(find "/proc/$stuck/fd" -type l | wc -l)" 0
  t "$word that does not come back: status fails" sh -c 'kmodsmith status; [ $? -eq 1 ]'
  like "$word that does not come back: status says that the module is going" "$out" 'FAIL .*nvidia_peermem .*going'
  for again in unload "install --package /packages/smallset" "install --package /packages/smallset --retry"; do
    t_fails 1 "R-D5: nothing more is tried in this boot: $again" kmodsmith $again
    like "$again after a stuck unload: names the stuck module" "$out" 'E_WEDGED: .*nvidia_peermem'
    unlike "$again after a stuck unload: waits for nothing" "$out" 'waiting for it'
  done
  t "$word that does not come back: the nodes of what is there may be made" kmodsmith nodes
  echo N >/sys/module/nvidia_peermem/parameters/hang
  until [ ! -e /sys/module/nvidia_peermem ]; do sleep 0.1; done
  t_fails 1 "$word that came back late: nothing more is tried in this boot" kmodsmith unload
  rm /var/lib/kmodsmith/journal # as another boot would see it
done
t "once the kernel is free again the driver can be unloaded" kmodsmith unload
is "nothing is left" "$(modules)" ""
