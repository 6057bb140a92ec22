# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# R-P1, contract 1.10 and 1.11: the driver's daemons are started by rule, kept running, adopted, and stopped only for an
# unload that succeeds. nvidia-persistenced is Debian's own; programs/fabric.c stands for the fabric manager.
# gpus: 1
# switches: 1
# stub: yes
# beside: daemons
# programs: strace jq
# mem: 1536M
# timeout: 900
driver=$OPEN_VERSION
record=/run/kmodsmith/daemons.json
of() { jq -r ".daemons[] | select(.name == \"$1\") | .$2" $record 2>/dev/null; }
fabric() { of nvidia-fabricmanager "$1"; }
until_of() { # DAEMON FIELD VALUE: of its record; as long as init lives
  until [ "$(of "$1" "$2")" = "$3" ]; do kill -0 "$init" || return 1; sleep 0.1; done
}
until_is() { until_of nvidia-fabricmanager "$@"; }
persistenced() { pidof nvidia-persistenced; }
until_state() { # of the node, as others read it
  until [ "$(jq -r .state /run/kmodsmith/status.json)" = "$1" ]; do kill -0 "$init" || return 1; sleep 0.1; done
}
start_init() { # ARGUMENT...
  : >/tmp/init.log # here: the background process may empty it only after somebody has found the old lines
  NVFM_CONFIG_LOG_LEVEL=3 NVFM_CONFIG_FABRIC_MODE=0 kmodsmith init "$@" >/tmp/init.log 2>&1 &
  init=$!
  until grep -q 'ready: driver' /tmp/init.log; do kill -0 $init 2>/dev/null || return 1; sleep 0.1; done
}
until_said() { until grep -q "$1" /tmp/init.log; do kill -0 "$init" || return 1; sleep 0.1; done; } # TEXT: by init, which is ready first
running() { pidof nv-fabricmanager | wc -w; }
until_running() { # COUNT: a program that was started has its name a moment later
  local i
  for i in $(seq 100); do [ "$(running)" != "$1" ] || return 0; sleep 0.1; done
  return 1
}

insmod /vm/modules/fakehold.ko
hidden=/sys/module/fakehold/parameters/hold

# Before anything is touched.
t_fails 1 "R-P1: NVSwitches, and no fabric manager" kmodsmith init --package /beside/none
like "  init is refused with E_DAEMON" "$out" 'E_DAEMON: .*1 NVSwitches needs nvidia-fabricmanager: the driver.s user space has no /usr/bin/nv-fabricmanager'
is "  before the load" "$(grep -c ^nvidia /proc/modules)" 0

ln -s /run/systemd/journal/dev-log /dev/log # as on a host with systemd
t "init with both" start_init --package /beside/good
t "  the fabric manager comes up" until_is state up
first=$(fabric pid)
is "  with the requested configuration, in the foreground" "$(grep -v '^#' /run/nvidia-fabricmanager/fabricmanager.cfg | tr '\n' ' ')" \
  "LOG_LEVEL=3 LOG_FILE_NAME= DAEMONIZE=0 LOG_USE_SYSLOG=0 STATE_FILE_NAME=/run/nvidia-fabricmanager/fabricmanager.state FABRIC_MODE=0 "
is "  in the driver root" "$(readlink /proc/"$first"/root)" /run/nvidia/driver
is "  in a session of its own" "$(awk '{ print $6 }' /proc/"$first"/stat)" "$first"
t "  its output is in the log" until_said "nvidia-fabricmanager: Fabric Manager version is : $driver"
t "nvidia-persistenced comes up in the background" until_of nvidia-persistenced state up
is "  by its pid file" "$(of nvidia-persistenced pid)" "$(cat /run/nvidia-persistenced/nvidia-persistenced.pid)"
t "  with its socket where consumers of the driver root look" test -S /run/nvidia/driver/run/nvidia-persistenced/socket
t "  what it tells syslog is in the log" until_said "nvidia-persistenced: Started ($(persistenced))"
t "  and kept" test "$(of nvidia-persistenced 'log | length')" -gt 0
t "status" kmodsmith status
like "  tells of them" "$out" "pass  daemons .*nvidia-fabricmanager up \(pid $first\); nvidia-persistenced up \(pid $(persistenced)\)"
t "  and --json" sh -c "kmodsmith status --json | jq -e '.daemons | map(select(.running)) | length == 2'"
kill -9 "$(persistenced)"
t "killed, with its pid file and socket left behind: it is started again" until_of nvidia-persistenced restarts 1
t "  and up" until_of nvidia-persistenced state up
kept=$(persistenced)

kill -9 "$first"
t "killed: it is started again" until_is restarts 1
t "  and up" until_is state up
is "  once" "$(running)" 1
second=$(fabric pid)
like "  the log tells the signal" "$(cat /tmp/init.log)" 'nvidia-fabricmanager: ended by signal 9; retrying in 1 s'

fail() { printf 'NVRM: Xid (PCI:0000:40:00): 79, pid=1, name=x, GPU has fallen off the bus.' >/sys/module/fakegpu/parameters/say; }
xids() { sed -n 's/^kmodsmith_xid_errors_total{gpu="0000:40:00.0",xid="79"} //p' /run/kmodsmith/metrics/xid.prom 2>/dev/null; }
until_xids() { until [ "$(xids)" = "$1" ]; do kill -0 "$init" || return 1; sleep 0.1; done; }
fail
t "an Xid in the kernel log is counted" until_xids 1
printf '<4>NVRM: Xid (PCI:0000:40:00): 79, of a process' >/dev/kmsg
fail
t "  another one, too, and not what a process writes there" until_xids 2

kill -9 "$init"
wait "$init"
is "R-P1: init is killed, the daemon goes on" "$(running) $(fabric pid)" "1 $second"
t "  status measures it" kmodsmith status
t "the next init" start_init --package /beside/good
t "  takes it over" until_said "nvidia-fabricmanager is already running, pid $second"
t "  and keeps it" until_is pid "$second"
fail
t "  it counts on" until_xids 3
t "  the other, too" until_said "nvidia-persistenced is already running, pid $kept"

hold /dev/nvidia0
t_fails 75 "unload while somebody uses the GPU" kmodsmith unload
like "  the one who uses it is named" "$out" "pid $holder sleep"
unlike "  none of our daemons is named" "$out" "nv-fabric|persistenced"
is "  and the daemons stay" "$(pidof nv-fabricmanager) $(persistenced)" "$second $kept"
release
touch /run/nvidia-fabricmanager/fail
kill -9 "$second"
t "a needed daemon that does not come up" until_is last_exit 'ended with exit status 3'
t "  makes the node NOT_READY for others" until_state NOT_READY
t_fails 1 "  and for status" kmodsmith status
like "  which says why" "$out" 'FAIL  daemons .*nvidia-fabricmanager (down|starting|not running): ended with exit status 3'
rm /run/nvidia-fabricmanager/fail
t "  until it is up again" until_state READY
t "  status" kmodsmith status

echo 1 >$hidden
third=$(fabric pid)
t_fails 75 "an unload that fails because of somebody who is not seen" kmodsmith unload
like "  had stopped the daemon" "$out" "stopped nvidia-fabricmanager \(pid $third\)"
t "  which is started again" until_is state up
is "  and no module went" "$(grep -c '^nvidia' /proc/modules)" 3
echo 0 >$hidden
t "unload" kmodsmith unload
like "  stops the daemon" "$out" "stopped nvidia-fabricmanager \(pid [0-9]+\) to unload the driver"
is "  and it stays so" "$(running) $(persistenced) $(grep -c '^nvidia' /proc/modules)" "0  0"
t "  because there is no driver" until_is why_not "no driver is loaded"
t "somebody loads it again" kmodsmith install --driver $driver --no-compile
t "  and the daemons come back" until_is state up
t "  both" until_of nvidia-persistenced state up

before=$(awk '/^voluntary/ { print $2 }' /proc/"$init"/status)
sleep 3
is "P9: nothing wakes an idle init" "$(($(awk '/^voluntary/ { print $2 }' /proc/"$init"/status) - before))" 0
kill "$init"
wait "$init"
is "SIGTERM ends init" $? 0
is "  and leaves the daemon, as it leaves the driver" "$(running)" 1
echo 1 >$hidden
t_fails 75 "without an init, an unload that fails" kmodsmith unload
t "  starts again what it stopped" until_running 1
echo 0 >$hidden
t "unload" kmodsmith unload
is "  stops it" "$(running)" 0
