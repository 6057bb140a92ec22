# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# R-D3, R-E3: what becomes of those who use a driver that has to go is the caller's choice: they keep it, they are waited
# for, or they are asked to end. Nobody is ever forced, and whatever ends badly leaves every module as it was.
# gpus: 1
# stub: yes
# packages: smallopen smallset
# mem: 1536M
# timeout: 150
modules() { awk '/^(nvidia|gdrdrv)/ { print $1 }' /proc/modules | sort | tr '\n' ' '; }
flavour() { sed -nE '/Open/s/.*/open/p; /UNIX x86_64/s/.*/proprietary/p' /proc/driver/nvidia/version | head -n 1; }
in_background() { # COMMAND...: its output goes to /tmp/log, its process is $job
  : >/tmp/log # here: the background process may empty it only after somebody has found the old lines
  "$@" >/tmp/log 2>&1 &
  job=$!
}
until_log() { until grep -q "$1" /tmp/log; do sleep 0.1; kill -0 "$job" || break; done; }
unchanged() { # FLAVOUR AFTER
  is "$2: every module is there" "$(modules)" "$all"
  is "$2: the driver is the same one" "$(flavour)" "$1"
}
insmod /vm/modules/fakehold.ko
hidden=/sys/module/fakehold/parameters
t "install" kmodsmith install --package /packages/smallopen
all=$(modules)

hold /dev/nvidia0
t_fails 75 "a driver in use is refused by default" kmodsmith install --package /packages/smallset
like "a refusal names every holder" "$out" "in use by pid $holder sleep"
like "a refusal counts the holders before the package is fetched" "$out" 'E_IN_USE: .*1 holder'
t_fails 2 "an unknown policy is a usage error" kmodsmith unload --holders kill
like "an unknown policy is answered with the known ones" "$out" "E_USAGE: --holders '.*' is not one of refuse, wait, stop"

in_background kmodsmith install --package /packages/smallset --holders wait
until_log 'waiting for users of the driver'
kill "$job"
wait "$job"
is "wait: a signal ends it at once" "$?" 143
unchanged open "after a wait that a signal ended"
in_background kmodsmith install --package /packages/smallset --holders wait
until_log 'waiting for users of the driver'
like "wait: the proof comes first" "$(tr '\n' ' ' </tmp/log)" 'prove .*waiting for users of the driver: .*pid'
unchanged open "during a wait"
release
wait "$job"
is "wait: the install goes on when the holders have gone" "$?" 0
is "wait: the other flavour is loaded in the end" "$(flavour)" proprietary
like "wait: the install says ready" "$(cat /tmp/log)" '^ready$'

hold /dev/nvidiactl
t_fails 75 "wait: there is a deadline" kmodsmith unload --holders wait --holders-timeout 1
like "wait: the deadline names the holder" "$out" "E_IN_USE: .*pid $holder .*/dev/nvidiactl"
unchanged proprietary "after a wait that came to its end"
t "wait: the holder lives after the deadline" release

hold /dev/nvidia0
t "stop: the install succeeds" env KMODSMITH_HOLDERS=stop kmodsmith install --package /packages/smallopen
like "stop: the holder is asked to end" "$out" "sent SIGTERM to pid $holder sleep"
wait "$holder"
is "stop: the holder ends by SIGTERM" "$?" 143
is "stop: the driver is replaced afterwards" "$(flavour)" open

{ sh -c 'trap "" TERM; : >/tmp/deaf; exec sleep 1000000' & deaf=$!; } 9</dev/nvidia0
until [ -e /tmp/deaf ]; do sleep 0.1; done
t_fails 75 "stop: a holder that ignores SIGTERM is never forced" kmodsmith unload --holders stop --holders-timeout 2
like "stop: a holder that ignores SIGTERM is named" "$out" "E_IN_USE: .*pid $deaf "
t "stop: a holder that ignores SIGTERM lives" kill -0 "$deaf"
unchanged open "after a user who does not end"
kill -KILL "$deaf"
wait "$deaf"

echo 1 >$hidden/hold
t_fails 75 "a user who is no process and no module stops an unload" kmodsmith unload
like "a user who is no process and no module is counted, and nobody is blamed" "$out" 'E_IN_USE: something that is not visible from here uses module nvidia'
unchanged open "after a user who cannot be seen"
echo 0 >$hidden/hold

echo 1 >$hidden/late
t_fails 75 "a user who comes between two unloads stops an install" kmodsmith install --package /packages/smallset
like "a user who comes between two unloads is met by the kernel's own refusal" "$out" "E_IN_USE: .*unload 'nvidia'"
like "a user who comes between two unloads: what had gone comes back" "$out" "driver $SMALLOPEN_VERSION open is loaded again"
unchanged open "after a user who came between two unloads"
t "a user who comes between two unloads: status finds everything right" kmodsmith status
echo 0 >$hidden/late
echo 0 >$hidden/hold

insmod /vm/modules/gdrdrv.ko
t_fails 75 "somebody else's module that uses the driver stops an unload" kmodsmith unload
like "somebody else's module is named as a holder" "$out" 'E_IN_USE: .*module gdrdrv'
t_fails 75 "wait: somebody else's module is waited for" kmodsmith unload --holders wait --holders-timeout 1
is "wait: somebody else's module stays" "$(modules)" "gdrdrv $all"
node gdrdrv gdrdrv 0
hold /dev/gdrdrv
t "stop: an idle one goes with the driver, in the order of the graph" kmodsmith install --package /packages/smallset --holders stop
like "stop: who uses the other module is asked to end" "$out" "sent SIGTERM to pid $holder "
like "stop: the other module is unloaded first" "$out" 'unload .*gdrdrv, .*nvidia_uvm, nvidia( |$)'
like "stop: the install says that the other module is not loaded again" "$out" 'module gdrdrv, which used the driver, was unloaded and will not be reloaded'
wait "$holder"
t "an unload goes through when nobody uses the driver" kmodsmith unload
is "no module is left after the unload" "$(modules)" ""
