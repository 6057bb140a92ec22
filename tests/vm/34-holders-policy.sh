# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# R-D3, R-E3: what becomes of those who use a driver that has to go is the caller's choice: they keep it, they are waited
# for, or they are asked to end. Nobody is ever forced, and whatever ends badly leaves every module as it was.
# gpus: 1
# stub: yes
# packages: open proprietary
# mem: 1536M
# timeout: 150
modules() { awk '/^(nvidia|gdrdrv)/ { print $1 }' /proc/modules | sort | tr '\n' ' '; }
flavour() { sed -nE '/Open/s/.*/open/p; /UNIX x86_64/s/.*/proprietary/p' /proc/driver/nvidia/version | head -n 1; }
in_background() { # COMMAND...: its output goes to /tmp/log, its process is $job
  "$@" >/tmp/log 2>&1 &
  job=$!
}
until_log() { until grep -q "$1" /tmp/log; do sleep 0.1; kill -0 "$job" || break; done; }
unchanged() {
  is "  every module is there" "$(modules)" "$all"
  is "  and the same one" "$(flavour)" "$1"
}
insmod /vm/modules/fakehold.ko
hidden=/sys/module/fakehold/parameters
t "install" kmodsmith install --package /packages/open
all=$(modules)

hold /dev/nvidia0
t_fails 1 "refuse is the default" kmodsmith install --package /packages/proprietary
like "  with every holder" "$out" "in use by pid $holder sleep"
like "  before the package was fetched" "$out" 'E_IN_USE: .*1 holder'
t_fails 2 "a policy that is none" kmodsmith unload --holders kill
like "  is told" "$out" "E_USAGE: .*none of refuse, wait, stop"

in_background kmodsmith install --package /packages/proprietary --holders wait
until_log 'waiting for whoever'
kill "$job"
wait "$job"
is "wait: a signal ends it at once" "$?" 143
unchanged open
in_background kmodsmith install --package /packages/proprietary --holders wait
until_log 'waiting for whoever'
like "wait: the proof comes first" "$(tr '\n' ' ' </tmp/log)" 'prove .*waiting for whoever uses the driver: .*pid'
unchanged open
release
wait "$job"
is "  and the install goes on when they have gone" "$?" 0
is "  to its end" "$(flavour)" proprietary
like "  ready" "$(cat /tmp/log)" '^ready$'

hold /dev/nvidiactl
t_fails 1 "wait has an end" kmodsmith unload --holders wait --holders-timeout 1
like "  which names the holder" "$out" "E_IN_USE: .*pid $holder .*/dev/nvidiactl"
unchanged proprietary
t "  and spares it" release

hold /dev/nvidia0
t "stop" env KMODSMITH_HOLDERS=stop kmodsmith install --package /packages/open
like "  asks" "$out" "asked pid $holder sleep to end \(SIGTERM\)"
wait "$holder"
is "  by a signal" "$?" 143
is "  then replaces" "$(flavour)" open

{ sh -c 'trap "" TERM; : >/tmp/deaf; exec sleep 1000000' & deaf=$!; } 9</dev/nvidia0
until [ -e /tmp/deaf ]; do sleep 0.1; done
t_fails 1 "whoever does not end is never forced" kmodsmith unload --holders stop --holders-timeout 2
like "  and is named" "$out" "E_IN_USE: .*pid $deaf "
t "  it lives" kill -0 "$deaf"
unchanged open
kill -KILL "$deaf"
wait "$deaf"

echo 1 >$hidden/hold
t_fails 1 "a user who is no process and no module" kmodsmith unload
like "  is counted, and nobody is blamed" "$out" 'E_IN_USE: somebody who cannot be seen from here uses module nvidia'
unchanged open
echo 0 >$hidden/hold

echo 1 >$hidden/late
t_fails 1 "a user who comes between two unloads" kmodsmith install --package /packages/proprietary
like "  is met by the kernel's own refusal" "$out" "E_IN_USE: .*unload 'nvidia'"
like "  what had gone comes back" "$out" 'driver 535.261.03 open is loaded again'
unchanged open
t "  and works" kmodsmith status
echo 0 >$hidden/late
echo 0 >$hidden/hold

insmod /vm/modules/gdrdrv.ko
t_fails 1 "somebody else's module" kmodsmith unload
like "  is a holder" "$out" 'E_IN_USE: .*module gdrdrv'
t_fails 1 "  that is waited for" kmodsmith unload --holders wait --holders-timeout 1
is "  and stays" "$(modules)" "gdrdrv $all"
node gdrdrv gdrdrv 0
hold /dev/gdrdrv
t "stop: an idle one goes with the driver, in the order of the graph" kmodsmith install --package /packages/proprietary --holders stop
like "  whoever used it was asked" "$out" "asked pid $holder "
like "  first" "$out" 'unload .*gdrdrv, .*nvidia_uvm, nvidia( |$)'
like "  and it is said" "$out" 'module gdrdrv, which used the driver, is unloaded and is not loaded again'
wait "$holder"
t "the end" kmodsmith unload
is "nothing is left" "$(modules)" ""
