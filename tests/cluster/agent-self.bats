#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Mode self: one node, no coordinator. The agent gives itself its orders, and asks the API server for nothing. D2, T08, T57.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # bats runs each test in a subshell; the helpers set and use what is here
load helper
load agent

setup_file() {
  kube_start
  deploy rbac.yaml
  deploy agent-policy.yaml
}
teardown_file() { kube_stop; }
setup() {
  kube_needed
  node=gpu$BATS_TEST_NUMBER policy=$BATS_TEST_TMPDIR/policy.json
  kube POST /api/v1/nodes "{\"metadata\": {\"name\": \"$node\"}}" >/dev/null
  agent_machine
  old_aim=$(aim "$old") new_aim=$(aim "$new")
  kube_config_token "$(account kmodsmith-agent "agent-$node" "$node")" >"$BATS_TEST_TMPDIR/config"
  AGENT_CONFIG=$BATS_TEST_TMPDIR/config
}
teardown() { agent_kill; }
wish() { # VERSION [JQ]
  jq -n --arg driver "$1" "{mode: \"self\", pools: [{name: \"here\", target: {driver: \$driver, flavour: \"open\"}}]} | ${2-.}" >"$policy.part"
  mv "$policy.part" "$policy"
}
holder() { # PID: it holds the driver that is loaded
  mkdir -p "$ROOT/proc/$1/fd"
  ln -s /dev/nvidia0 "$ROOT/proc/$1/fd/3"
  printf '%s (job) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1000 0\n' "$1" >"$ROOT/proc/$1/stat"
}
is_in() { # STATE [SECONDS]: until it is, by the agent's own record
  local i
  for ((i = 0; i < ${2:-60} * 5; i++)); do
    [ "$(jq -r '.labels["kmodsmith.io/state"]' "$ROOT/var/lib/kmodsmith/agent/self.json" 2>/dev/null)" != "$1" ] || return 0
    sleep 0.2
  done
  tail -30 "$BATS_TEST_TMPDIR/agent.log" >&2
  fail "it is $(jq -r '.labels["kmodsmith.io/state"]' "$ROOT/var/lib/kmodsmith/agent/self.json"), not $1"
}

@test "mode self: staged, waits for the holder, replaced, validated; killed on the way it continues; then it is quiet" {
  holder 77
  wish "$new"
  loads "$new"
  agent_start
  is_in evicting
  await agent.holders "1 *"
  holder 78
  await agent.holders "2 *" # it has looked again
  assert_equal "$(calls_of 'unload')" 0
  assert_equal "$(note agent.store)" "$old_aim,$new_aim"
  agent_kill KILL
  rm -r "$ROOT"/proc/7[78]
  agent_start
  is_in "done" 60
  await agent.loaded "$new_aim *"
  assert_equal "$(note agent.health)" "$new_aim:ok"
  assert_equal "$(calls_of 'unload nvidia')" 1
  assert_equal "$(kube GET "/api/v1/nodes/$node" | jq -r '.spec.unschedulable, .metadata.annotations["kmodsmith.io/go"]')" "null
null"
  run jq -r '.items[] | select(.involvedObject.name == "'"$node"'") | .reason' < <(kube GET /api/v1/namespaces/default/events)
  for reason in RolloutEvicting RolloutReplacing RolloutValidating RolloutDone; do assert_line $reason; done
  local before
  before=$(version)-$(stat -c %i%Y "$ROOT/var/lib/kmodsmith/agent/self.json")
  policy_passes
  assert_equal "$(version)-$(stat -c %i%Y "$ROOT/var/lib/kmodsmith/agent/self.json")" "$before"
}

@test "mode self, D2: a bad target is undone from the node's disk, and retried only on request; another target is tried" {
  holder 77
  wish "$new"
  agent_start # whatever is loaded: the new one does not come up
  is_in evicting
  loads "$old"
  rm -r "$repository" "$ROOT/proc/77"
  is_in rolledback 90
  await agent.loaded "$old_aim *"
  local before
  before=$(calls_of unload)
  policy_passes
  assert_equal "$(calls_of unload)" "$before"
  loads "$new"
  annotate retry once
  is_in "done" 60
  await agent.loaded "$new_aim *"
  loads "$old"
  wish "$old"
  await agent.loaded "$old_aim *" 60
  is_in "done"
}

@test "mode self, T57: works without an API server" {
  wish "$new"
  loads "$new"
  sed "s#server: [^,}]*#server: https://127.0.0.1:1#" "$BATS_TEST_TMPDIR/config" >"$BATS_TEST_TMPDIR/away"
  AGENT_CONFIG=$BATS_TEST_TMPDIR/away agent_start
  is_in "done" 90
  grep -q " $new " "$ROOT/sys/version"
  assert_equal "$(calls_of 'unload nvidia')" 1
}
