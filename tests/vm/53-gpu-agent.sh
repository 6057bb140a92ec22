# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# One of eight GPUs does not start, or all: at a first install, with an agent that replaces the driver, after a real reboot.
# docs/gpu-check.md has the table; 42 and 49 have its other cells. The agent gives itself its orders (`mode: self`), by the
# rules of a coordinator and without an API server; its children do what those of any agent do.
# kernel: K61
# gpus: 8
# stub: yes
# net: yes
# packages: open proprietary
# programs: mke2fs
# disk: 512M
# boots: 2
# mem: 2G
# timeout: 600
stub=/sys/module/fakeopen/parameters state=/var/lib/kmodsmith
eighth=0000:b0:00.0 unhealthy=hold
open=$(modinfo -F srcversion /packages/open.d/nvidia.ko) proprietary=$(modinfo -F srcversion /packages/proprietary.d/nvidia.ko)
gpus() { # PARAMETER=VALUE...: nothing else is told to the stub
  for word in fail= block= driver= from=1 starts= "$@"; do echo "${word#*=}" >"$stub/${word%%=*}"; done
}
loaded() { cat /sys/module/nvidia/srcversion; }
bad_targets() { kmodsmith status | grep '^bad target'; }
not_ready() { # GPUS
  t_fails 1 "  status" kmodsmith status
  like "  NOT READY, with the GPU" "$out" "FAIL +gpus +$1"
}
ready() { # GPUS
  t "  status" kmodsmith status
  like "  READY" "$out" "pass +gpus +$1"
}
policy() { # FLAVOUR MODE: a mode of the device nodes makes it another target
  printf '{"mode": "self", "pools": [{"name": "here", "unhealthyBefore": "%s", "target": {"driver": "%s", "flavour": "%s",
    "parameters": {"NVreg_DeviceFileMode": "%s"}}}]}' "$unhealthy" "$OPEN_VERSION" "$1" "$2" >/tmp/policy.new
  mv /tmp/policy.new /tmp/policy.json
}
agent_begin() { # COMMAND...
  cat >/tmp/config <<'EOF'
{"apiVersion": "v1", "kind": "Config", "current-context": "t",
 "clusters": [{"name": "h", "cluster": {"server": "https://127.0.0.1:1"}}],
 "contexts": [{"name": "t", "context": {"cluster": "h", "user": "u"}}], "users": [{"name": "u", "user": {"token": "x"}}]}
EOF
  kmodsmith "$@" --node gpu-1 --policy /tmp/policy.json --kubeconfig /tmp/config --gpu-timeout 3 >>/tmp/agent.log 2>&1 &
  agent=$!
}
says() { # REGEXP: the agent, sooner or later
  until grep -qE "$1" /tmp/agent.log; do kill -0 $agent || return; sleep 0.2; done
}
settles() { # STATE
  says '^kmodsmith: mode self: (done|rolledback|failed|held)' || return
  sed -nE 's/^kmodsmith: mode self: (done|rolledback|failed|held).*/\1/p' /tmp/agent.log | grep -qx "$1"
}
replace() { # FLAVOUR MODE PARAMETER=VALUE...: another target for the agent
  : >/tmp/agent.log
  flavour=$1 mode=$2
  shift 2
  gpus "$@"
  policy "$flavour" "$mode"
}
ends() { # NAME STATE DRIVER
  t "$1: the agent ends $2" settles "$2"
  log=$(cat /tmp/agent.log)
  is "  the driver" "$(loaded)" "$3"
}

mkdir -p $state
[ "$boot" != 1 ] || /usr/bin/mke2fs -q -t ext4 /dev/nvme0n1
mount -t ext4 /dev/nvme0n1 $state
if [ "$boot" = 2 ]; then
  before=$(bad_targets)
  gpus fail=$eighth
  policy proprietary 434
  agent_begin init --agent --no-daemons
  t "a reboot, one of eight fails that worked: the agent's pod loads its driver" says 'E_GPU_START: .*7 of 8 start '
  is "  the driver stays" "$(loaded)" "$proprietary"
  not_ready "7 of 8 start .*; $eighth: "
  is "  no target is bad for it" "$(bad_targets)" "$before"
  t_fails 1 "  the pod is not ready" kmodsmith probe readiness
  exit
fi

gpus fail=$eighth
t_fails 1 "a first install, one of eight fails: install" kmodsmith install --package /packages/open
like "  its code and the reason" "$out" "error: E_GPU_START: .*7 of 8 start \([0-9.]+ s\); $eighth: GSP firmware did not boot"
is "  the driver stays" "$(loaded)" "$open"
not_ready "7 of 8 start .*; $eighth: "
t "one of eight may be missing: install" kmodsmith install --package /packages/open --allow-missing-gpus 1
ready "7 of 8 start .*; $eighth: "
t_fails 1 "none may be missing: install" kmodsmith install --package /packages/open
gpus
t "all eight start: status --check-gpus" kmodsmith status --check-gpus
t "all eight start: install" kmodsmith install --package /packages/open
ready "8 of 8 start"

t "both drivers are stored" kmodsmith fetch --driver "$PROPRIETARY_VERSION" --flavour proprietary --from oci:/packages/proprietary \
  --insecure-skip-verify
policy open 438
agent_begin agent --insecure-skip-verify
ends "what is loaded is the target" "done" "$open"
replace proprietary 432 driver="$proprietary" fail=$eighth
ends "one of eight fails with the target" rolledback "$open"
like "  why" "$log" '^kmodsmith: replace: failed E_GPU_START'
like "  its child went back" "$log" "error: E_GPU_START: .*7 of 8 start .*; $eighth: "
ready "8 of 8 start"
like "  the target is marked" "$out" '^bad target: .* proprietary failed at .* E_GPU_START: '
replace proprietary 433 driver="$proprietary" fail=all
ends "all fail with the target" rolledback "$open"
like "  why" "$log" "error: E_GPU_START: .*0 of 8 start "
ready "8 of 8 start"
replace proprietary 439 driver="$proprietary" fail=$eighth from=3
ends "it fails from its second start with the target on" rolledback "$open"
like "  why" "$log" '^kmodsmith: validate: failed E_GPU_START'
ready "8 of 8 start"
replace proprietary 434 driver="$proprietary" fail=$eighth from=4
ends "it fails from its third start with the target on" "done" "$proprietary"
is "  each was started before, after, and when it was validated" "$(cut -d' ' -f2 $stub/starts | uniq)" 3
ready "8 of 8 start"
t_fails 1 "  status --check-gpus, the next start" kmodsmith status --check-gpus
not_ready "7 of 8 start .*; $eighth: "
replace open 435 fail=$eighth
sleep 15
unlike "it failed before, and unhealthyBefore is hold: it is not begun" "$(cat /tmp/agent.log)" 'replace|stage'
unhealthy=replace
replace open 435 fail=$eighth
ends "it failed before, and fails with the target" failed "$proprietary"
like "  it failed before" "$log" "gpus +.* before the change: 7 of 8 start .*; $eighth: "
unlike "  the target was not undone for it, but left for the driver before it" "$log" ' back +[0-9.]+ s '
like "  which does not help" "$log" '^kmodsmith: restore: failed E_GPU_START'
not_ready "7 of 8 start .*; $eighth: "
unlike "  the target is not to blame" "$out" '^bad target: [0-9.]+ open '
replace open 436 driver="$open" block=$eighth
t "it hangs with the target: the agent waits" says '^kmodsmith: validate: failed E_GPU_PENDING'
is "  the target stays: it cannot be unloaded" "$(loaded)" "$open"
not_ready "7 of 8 start .*; $eighth: its start has not ended"
gpus
ends "it hung with the target, and ended" "done" "$open"
ready "8 of 8 start"
unlike "  the target is not to blame" "$out" '^bad target: [0-9.]+ open '
replace proprietary 434
ends "all eight start with the next target" "done" "$proprietary"
kill $agent
wait $agent
sync
