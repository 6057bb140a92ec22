# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# The container's entry: it installs, waits, and leaves the driver behind; two at once do not meet.
# kernel: K61
# gpus: 1
# stub: yes
# packages: smallopen
# programs: flock
started() { # LOG: waits until init says so or ends
  until grep -q 'ready: driver' "$1"; do kill -0 "$init" 2>/dev/null || return 1; sleep 0.1; done
}
kmodsmith init --package /packages/smallopen >/tmp/init.log 2>&1 &
init=$!
t "init installs and stays" started /tmp/init.log
t "the driver is ready" kmodsmith status
for signal in TERM; do
  kill -$signal $init
  wait $init
  is "SIG$signal ends it with status 0" $? 0
done
is "the driver stays loaded" "$(grep -c '^nvidia ' /proc/modules)" 1
kmodsmith init --package /packages/smallopen >/tmp/init2.log 2>&1 &
init=$!
t "init on a running driver" started /tmp/init2.log
like "init adopts a driver that runs" "$(cat /tmp/init2.log)" 'adopt'
kill -KILL $init
wait $init
t "after SIGKILL the driver still serves" kmodsmith status
t "the driver can be unloaded" kmodsmith unload

mkdir -p /run/kmodsmith
exec 8>/run/kmodsmith/lock
echo $$ >&8
t "somebody else has the node's lock" flock -n 8
t_fails 75 "two at once: install" kmodsmith install --package /packages/smallopen
like "an install beside another is told who has the lock" "$out" "E_LOCKED: process $$ is changing this node"
t_fails 75 "two at once: unload" kmodsmith unload
t_fails 75 "two at once: nodes" kmodsmith nodes
t "status needs no lock" sh -c 'kmodsmith status; [ $? -eq 1 ]'
exec 8>&-
t "an install goes through when the lock is free" kmodsmith install --package /packages/smallopen
