#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The life of an agent: killed, booted, damaged, alone, idle, and beside `init`; the API server is real. T37, T57, T71, T76.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # bats runs each test in a subshell; the helpers set and use what is here
load helper
load agent

setup_file() { kube_start; }
teardown_file() { kube_stop; }
setup() {
  kube_needed
  node=gpu$BATS_TEST_NUMBER AGENT_CONFIG=$KUBECONFIG
  kube POST /api/v1/nodes "{\"metadata\": {\"name\": \"$node\"}}" >/dev/null
  agent_machine
  agent_policy
}
teardown() { agent_kill; }

@test "T57: the agent is killed at every step without an API server: the driver is replaced, and that is reported" {
  local i
  agent_start
  order 1.1 stage "$new_aim"
  await agent.ack 1.1:stage:done
  loads "$new"
  order 1.2 replace "$new_aim"
  for ((i = 0; i < 12; i++)); do # whoever journals, starts or tells is killed there
    sleep "0.$((i * 7 % 10))"
    agent_kill KILL
    [ "$(note agent.ack)" != 1.2:replace:done ] || break
    agent_start
  done
  agent_kill KILL
  sed "s#server: .*#server: https://127.0.0.1:1#" "$KUBECONFIG" >"$BATS_TEST_TMPDIR/away"
  AGENT_CONFIG=$BATS_TEST_TMPDIR/away agent_start
  journaled "done"
  policy_passes
  agent_kill
  assert_equal "$(calls_of 'unload nvidia')" 1
  grep -q " $new " "$ROOT/sys/version"
  agent_start
  await agent.ack 1.2:replace:done
  await agent.loaded "$new_aim *"
  assert_equal "$(calls_of 'unload nvidia')" 1
}

@test "T76: after a boot, the last good driver is loaded, API or not; two boots during a change restore the old one" {
  agent_start
  await agent.loaded "$old_aim *"
  agent_kill
  boot() { # NUMBER
    agent_kill KILL
    rm -rf "$ROOT"/run/* "$ROOT"/sys/module/nvidia*
    echo "$1e0d5b0c-0a3e-4d8e-9d7f-0a1b2c3d4e5f" >"$ROOT/proc/sys/kernel/random/boot_id"
  }
  boot 7
  agent_start
  await agent.loaded "$old_aim *" 60
  order 1.1 stage "$new_aim"
  await agent.ack 1.1:stage:done
  agent_kill
  # The journal says: it was begun in two boots before.
  jq --arg order "1.2:replace:$new_aim" --arg previous "$old_aim" '.order = $order | .step = "begun" | .boots = 2 |
    .boot = "8e0d5b0c-0a3e-4d8e-9d7f-0a1b2c3d4e5f" | .tries = 1 | .previous = $previous' \
    "$ROOT/var/lib/kmodsmith/agent/journal.json" >journal.new
  mv journal.new "$ROOT/var/lib/kmodsmith/agent/journal.json"
  order 1.2 replace "$new_aim"
  boot 9
  agent_start
  await agent.ack 1.2:replace:failed:permanent:boot-loop
  await agent.loaded "$old_aim *"
}

@test "a damaged journal is set aside with a message; the current order is taken again, and does no harm" {
  mkdir -p "$ROOT/var/lib/kmodsmith/agent"
  echo '{"schema": 1, "order": "9' >"$ROOT/var/lib/kmodsmith/agent/journal.json"
  order 1.1 replace "$old_aim"
  agent_start
  await agent.ack 1.1:replace:done
  grep -q "the agent's journal is damaged" "$BATS_TEST_TMPDIR/agent.log"
  [ -e "$ROOT/var/lib/kmodsmith/agent/journal.damaged" ]
  assert_equal "$(calls_of 'unload')" 0
}

@test "one agent a node; it waits for its Node, and ignores another Node of the same name" {
  agent_start
  await agent.loaded "$old_aim *"
  run timeout 20 "$KMODSMITH" agent --root "$ROOT" --policy "$policy" --node "$node" --kubeconfig "$KUBECONFIG"
  assert_failure
  assert_output --partial E_LOCKED
  order 7.7 stage "$new_aim"
  await agent.ack 7.7:stage:done
  kube DELETE "/api/v1/nodes/$node" >/dev/null
  sleep 2
  kube POST /api/v1/nodes "{\"metadata\": {\"name\": \"$node\"}}" >/dev/null
  await agent.loaded "$old_aim *" 40
  assert_equal "$(note agent.ack)" ""
  order 1.1 stage "$new_aim" # T71: its numbers begin anew
  await agent.ack 1.1:stage:done
}

init_start() { # [OPTION...]: sets pid
  "$KMODSMITH" init --agent --no-daemons --root "$ROOT" --policy "$policy" --node "$node" --kubeconfig "$AGENT_CONFIG" \
    --from "oci:$repository" --insecure-skip-verify --no-watch "$@" >>"$BATS_TEST_TMPDIR/agent.log" 2>&1 </dev/null 3>&- 4>&- &
  pid=$!
  echo "$pid" >"$BATS_TEST_TMPDIR/agent.pid"
}
@test "init --agent: a target's user space is staged with it, although nothing was exported before" {
  tiny_payload "$BATS_TEST_TMPDIR/payload.tar" "$new"
  "$KMODSMITH" pack payload "$BATS_TEST_TMPDIR/payload.tar" --driver "$new" --output "oci:$repository" --state-dir "$BATS_TEST_TMPDIR/state" >/dev/null
  init_start
  await agent.loaded "$old_aim *"
  order 1.1 stage "$new_aim"
  await agent.ack 1.1:stage:done
  grep -E "payload +[0-9.]+ s +user space $new" "$BATS_TEST_TMPDIR/agent.log"
}
@test "init --agent: runs beside the daemons; a killed agent restarts and continues; the driver outlives both" {
  local child
  init_start --export none
  await agent.loaded "$old_aim *"
  child=$(pgrep -P "$pid" -f 'kmodsmith agent')
  kill -KILL "$child"
  order 1.1 stage "$new_aim"
  await agent.ack 1.1:stage:done
  loads "$new"
  order 1.2 replace "$new_aim"
  await agent.ack 1.2:replace:done
  order 1.3 validate "$new_aim"
  await agent.ack 1.3:validate:done
  child=$(pgrep -P "$pid" -f 'kmodsmith agent')
  agent_kill
  log=$BATS_TEST_TMPDIR/agent.log soon test ! -d "/proc/$child"
  [ -d "$ROOT/sys/module/nvidia" ]
  grep -q "the driver stays as it is" "$BATS_TEST_TMPDIR/agent.log"
}

@test "an idle agent has one watch, writes nothing, and uses little memory of its own (S4, S10)" {
  local before pid
  requests() { kube GET /metrics | grep '^apiserver_request_total.*resource="nodes"' | grep -v 'verb="GET"' | sort; }
  before=$(requests)
  agent_start
  await agent.loaded "$old_aim *"
  pid=$(<"$BATS_TEST_TMPDIR/agent.pid")
  policy_passes # a request is counted when it has ended
  refute [ "$(requests)" = "$before" ]
  before=$(requests)
  [[ $before == *'verb="PATCH"'*'} '[1-9]* ]] || fail "$before"
  policy_passes
  assert_equal "$(requests)" "$before"
  [ "$(awk '/^RssAnon/ { print $2 }' "/proc/$pid/status")" -le 8192 ] || fail "$(grep Rss "/proc/$pid/status")"
}
