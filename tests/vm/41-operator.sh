# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2086 # $in_pod and $driver are several words
# The driver container as the GPU Operator's pod runs it: nothing of the machine is mounted but /run/nvidia; what is in the
# way of a start after a crash, and what the driver manager does between two pods.
# gpus: 1
# stub: yes
# beside: payloads
# programs: unshare
# mem: 1536M
# firmware: no
run=/run/nvidia status=/run/nvidia/validations/.driver-daemons-status
mkdir -p $run
mount --bind $run $run
mount --make-shared $run
mkdir /pod
mount -t tmpfs pod /pod
for dir in bin sbin usr lib lib64 proc sys beside; do
  [ -d /$dir ] && mkdir /pod/$dir && mount -o rbind /$dir /pod/$dir
done
mkdir -p /pod/dev /pod/tmp /pod/run/nvidia /pod/opt
mount -o rbind $run /pod/run/nvidia
ln -s "$(command -v kmodsmith)" /pod/opt/nvidia-driver
in_pod="/usr/bin/unshare --mount --propagation unchanged chroot /pod"
driver="$in_pod env KMODSMITH_PACKAGE=/beside/a DRIVER_CONFIG_DIGEST=abc OPEN_KERNEL_MODULES_ENABLED=true /opt/nvidia-driver"
pod() { $in_pod "$@"; }
start() { # until it serves, or has ended
  (exec $driver "$@" >/tmp/log 2>&1) &
  init=$!
  until grep -q '"step": "serve"' /run/kmodsmith/pulse.json 2>/dev/null && grep -q "\"pid\": $init," /run/kmodsmith/pulse.json &&
    grep -qx Ready $status && grep -qx abc $run/nvidia-driver.state; do
    kill -0 "$init" 2>/dev/null || return 1
    sleep 0.1
  done
}
crash() { kill -KILL "$init" && wait "$init"; [ $? -eq 137 ]; }
startup_probe() { # the operator's, step by step (contract 1.3)
  pod sh -c "[ -f /sys/module/nvidia/refcnt ] && [ \"\$(cat $status)\" = Ready ]"
}
files() { (cd $run && find nvidia-driver.* validations -type f | sort | tr '\n' ' '); }
mounts() { grep -c " $run/driver" /proc/self/mountinfo; }
all="nvidia-driver.pid nvidia-driver.state validations/.driver-daemons-status "

t_fails 1 "before: the probe" pod kmodsmith probe startup
t "nvidia-driver init in a pod" start init --accept-license
is "  its files" "$(files)" "$all"
is "  who serves" "$(cat $run/nvidia-driver.pid)" "$init"
is "  the state" "$(cat $run/nvidia-driver.state)" abc
t "  the operator's startup probe" startup_probe
t "  ours" pod kmodsmith probe startup
t "  readiness" pod kmodsmith probe readiness
t "  liveness" pod kmodsmith probe liveness
like "  the process that serves is named" "$out" "process $init serves"
t "  the machine has the export" test -x $run/driver/usr/bin/nvidia-smi -a -c $run/driver/dev/nvidia0
t "  the pod, too" pod test -x $run/driver/usr/bin/nvidia-smi
base=$(mounts)
touch $run/validations/driver-ready
t_fails 75 "a second pod" $driver init
like "  it is told who is there" "$out" "E_LOCKED: .*process $init"
is "  and changes nothing" "$(cat $run/nvidia-driver.pid) $(cat $status)" "$init Ready"

hold /dev/nvidia0
t "a crash, while somebody uses the GPU" crash
is "  leaves all" "$(files)" "${all}validations/driver-ready "
t "the container starts alone, without the driver manager" start
like "  nobody said init" "$(cat /tmp/log)" 'warn: no verb'
like "  and finds everything" "$(cat /tmp/log)" 'adopt'
is "  nothing is mounted twice" "$(mounts)" "$base"
t "  and is ready" pod kmodsmith probe readiness

t "a crash again" crash
awk -v dir="$run/driver" 'index($5, dir) == 1 { print $5 }' /proc/self/mountinfo | sort -r | xargs -n 1 umount -l
rm $run/nvidia-driver.pid
is "as the driver manager leaves it: no root, no pid" "$(mounts)" 0
t_fails 1 "  which readiness sees" pod kmodsmith probe readiness
like "  the export is named" "$out" 'export'
t "the next pod" start init
is "  exports again, with the GPU in use" "$(mounts)" "$base"
t "  and is ready" pod kmodsmith probe readiness
is "  as the files say" "$(cat $run/nvidia-driver.pid) $(cat $status)" "$init Ready"
release

kill -TERM "$init"
wait "$init"
is "SIGTERM ends it well" $? 0
is "  the driver stays, who serves is gone, the validator's file is its own" "$(grep -c '^nvidia ' /proc/modules) $(files)" \
  "1 nvidia-driver.state validations/driver-ready "
t "  the export stays" test -c $run/driver/dev/nvidia0
