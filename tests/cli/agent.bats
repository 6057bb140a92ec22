#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The agent where no API answers, and `init` with one: what is loaded stays, what worked comes back. T36, T37, T57, T76.
# shellcheck disable=SC2154 # helper.bash sets what is used here
load helper
load package

config() { # a kubeconfig of a server that is not there
  printf '%s\n' 'apiVersion: v1' 'kind: Config' 'current-context: t' 'clusters: [{name: h, cluster: {server: "https://127.0.0.1:1"}}]' \
    'contexts: [{name: t, context: {cluster: h, user: u}}]' 'users: [{name: u, user: {token: x}}]' >"$BATS_TEST_TMPDIR/config"
  jq -n '{pools: [{name: "all", target: {driver: "535.261.03", flavour: "open"}}]}' >"$BATS_TEST_TMPDIR/policy.json"
}
until_that() { # CONDITION COMMAND OPTION...: then told to end; $output has its log
  log=$BATS_TEST_TMPDIR/log
  : >"$log"
  timeout --preserve-status $((2 * hung)) "$KMODSMITH" "$2" --root "$ROOT" --node gpu1 --kubeconfig "$BATS_TEST_TMPDIR/config" \
    --policy "$BATS_TEST_TMPDIR/policy.json" "${@:3}" >"$log" 2>&1 3>&- 4>&- &
  soon eval "$1"
  kill -TERM $!
  wait $!
  output=$(<"$log")
}

said() { grep -qF "$1" "$log"; }
remembers() { [ "$(jq -r '.known[].driver' "$ROOT/var/lib/kmodsmith/agent/journal.json")" = 535.261.03 ]; }

@test "agent: missing configuration is reported" {
  host h100x8
  kmodsmith agent --node gpu1
  assert_error E_USAGE "--policy FILE"
  kmodsmith agent --policy x --node ""
  assert_error E_USAGE "--node NAME"
  kmodsmith agent --policy x --node gpu1
  assert_error E_USAGE "--kubeconfig is not set"
  kmodsmith init --agent --policy x
  assert_error E_USAGE "--node NAME"
  kmodsmith report
  assert_error E_USAGE "--node NAME"
  kmodsmith report --node gpu1
  assert_error E_USAGE "--kubeconfig FILE"
  assert_unchanged
}

@test "agent: sleeps on a machine without a GPU" {
  config
  host no-gpu
  until_that "said NO_GPU" agent
}

@test "agent: without an API server it observes, writes its journal and touches nothing" {
  config
  loadable
  kmodsmith install --package "$BATS_TEST_TMPDIR/package"
  rm "$ROOT/.sys-calls"
  until_that "said 'watching the Node' && remembers" agent
  assert_output --partial "the driver stays as it is"
  assert_equal "$(calls)" ""
  assert_equal "$(jq -r '.known[].driver' "$ROOT/var/lib/kmodsmith/agent/journal.json")" 535.261.03
}

@test "init --agent: the loaded driver stays, whatever is requested" {
  config
  loadable
  kmodsmith install --package "$BATS_TEST_TMPDIR/package"
  rm "$ROOT/.sys-calls"
  until_that "said 'agent of Node gpu1'" init --agent --no-daemons --driver 535.216.03 --param nvidia:NVreg_EnableMSI=0
  assert_output --partial "driver 535.261.03"
  assert_equal "$(calls | grep -cE '^(un)?load')" 0
  assert_equal "$(calls | grep -c '^open nvidia')" 0
}

@test "init --agent: a driver that it leaves and that nobody has measured is measured, and one that others load later" {
  config
  loadable
  kmodsmith install --package "$BATS_TEST_TMPDIR/package"
  measured() { jq -e "$1" "$ROOT/run/kmodsmith/gpus.json" >/dev/null 2>&1; }
  rm "$ROOT/.sys-calls" "$ROOT/run/kmodsmith/gpus.json"
  until_that "measured '.gpus | length == 2'" init --agent --no-daemons
  assert_equal "$(calls | grep -c '^open nvidia')" 2
  rm "$ROOT/.sys-calls" "$ROOT/run/kmodsmith/gpus.json"
  until_that "measured .waived" init --agent --no-daemons --gpu-check none
  assert_equal "$(calls)" ""
  rm "$ROOT/run/kmodsmith/gpus.json"
  kmodsmith status --check-gpus
  rm "$ROOT/.sys-calls"
  reload() { # by hand, when the agent is up
    said 'agent of Node gpu1' || return
    [ -e "$BATS_TEST_TMPDIR/first" ] || { mv "$ROOT/sys/module/nvidia" "$BATS_TEST_TMPDIR/first" && cp -a "$BATS_TEST_TMPDIR/first" "$ROOT/sys/module/nvidia"; }
    [ "$(calls | grep -c '^open nvidia')" = 2 ]
  }
  until_that reload init --agent --no-daemons
  kmodsmith status
  assert_status 0
}

@test "init --agent: with NVSwitches the GPUs of a driver that it loads are asked once more, too" {
  config
  loadable
  cp -a "$top/tests/hosts/h100x8/sys/devices/pci0000:c0" "$ROOT/sys/devices/"
  rm "$ROOT/sys/devices/pci0000:c0/0000:c0:00.0/driver"
  ln -s ../../../devices/pci0000:c0/0000:c0:00.0 "$ROOT/sys/bus/pci/devices/0000:c0:00.0"
  mkdir -p "$ROOT/proc/driver/nvidia-nvswitch/devices/0000:c0:00.0" "$ROOT/dev"
  touch "$ROOT/dev/kmsg"
  twice() { [ "$(calls | grep -c '^open nvidia')" = 4 ]; }
  until_that twice init --agent --no-daemons --export none --package "$BATS_TEST_TMPDIR/package"
}

@test "init --agent: after a boot it loads what the agent loaded last, not what is requested" {
  config
  loadable
  kmodsmith install --package "$BATS_TEST_TMPDIR/package"
  until_that "said 'watching the Node' && remembers" agent
  rm -rf "$ROOT"/sys/module/nvidia* "$ROOT"/run/* "$ROOT/.sys-calls"
  until_that "said 'ready: driver 535.261.03, open'" init --agent --no-daemons --driver 535.216.03 --export none
  assert_equal "$(calls | grep -c '^load')" 3
}

@test "init --agent: with nothing loaded, and nothing requested or available, it waits for an order" {
  config
  loadable
  until_that "said 'the agent waits for an order'" init --agent --no-daemons
  until_that "said 'agent of Node gpu1'" init --agent --no-daemons --driver 535.216.03
  assert_output --partial E_NO_PACKAGE
  assert_equal "$(calls)" ""
}

@test "init --agent: a pod whose agent cannot stay up is alive and started, and not ready" {
  config
  loadable
  kmodsmith install --package "$BATS_TEST_TMPDIR/package"
  rm "$BATS_TEST_TMPDIR/config"
  probe() { # as it would be in the pod, where init is a process of the machine
    local pid
    pid=$(jq .pid "$ROOT/run/kmodsmith/pulse.json") && mkdir -p "$ROOT/proc/$pid" && echo "$pid (x) S 1" >"$ROOT/proc/$pid/stat"
    "$KMODSMITH" probe "$1" --root "$ROOT"
  }
  is_down() {
    [ "$(probe readiness)" = "readiness: no, driver 535.261.03, but the agent of rollouts does not stay up; its log says why" ] &&
      probe liveness >"$BATS_TEST_TMPDIR/alive"
  }
  until_that is_down init --agent --no-daemons
  assert_equal "$(grep -c 'the agent ended with status' "$log")" 3
  grep -q '^liveness: yes, process [0-9]* serves' "$BATS_TEST_TMPDIR/alive"
}

@test "init --agent: no child has a password or a PIN in its arguments" {
  config
  loadable
  kmodsmith install --package "$BATS_TEST_TMPDIR/package"
  export KMODSMITH_FROM=http://user:s3cr3t@127.0.0.1:1/x KMODSMITH_PROXY=http://user:s3cr3t@127.0.0.1:1
  export ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 # the engine's library leaks its own tables
  export KMODSMITH_SHARE=$KMODSMITH_FROM KMODSMITH_SHARE_KEY='pkcs11:token=t?pin-value=s3cr3t'
  seen() { # the agent runs, and what it was told of
    pgrep -f "kmodsmith agent .*--root=$ROOT" >"$BATS_TEST_TMPDIR/pids" &&
      tr '\0' '\n' <"/proc/$(<"$BATS_TEST_TMPDIR/pids")/environ" >"$BATS_TEST_TMPDIR/environ" &&
      tr '\0' '\n' <"/proc/$(<"$BATS_TEST_TMPDIR/pids")/cmdline" >"$BATS_TEST_TMPDIR/cmdline" &&
      said 'agent of Node gpu1'
  }
  until_that seen init --agent --no-daemons
  run grep -c s3cr3t "$BATS_TEST_TMPDIR/cmdline"
  assert_output 0
  run grep -cE '^KMODSMITH_(FROM|PROXY|SHARE|SHARE_KEY)=.*s3cr3t' "$BATS_TEST_TMPDIR/environ"
  assert_output 4
}
