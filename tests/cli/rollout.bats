#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# rollout plan and check-policy: what the coordinator would do, from files. T03, T13, T27, T32, T80, T81.
# shellcheck disable=SC2154 # bats and helper.bash set stderr and top
load helper

setup() {
  policy=$BATS_TEST_TMPDIR/policy.json nodes=$BATS_TEST_TMPDIR/nodes.json
  jq -n '{schema: 1, pools: [{name: "gpu", selector: {"nvidia.com/gpu.present": "true"}, maxParallel: 2, maxUnavailable: 2,
    target: {driver: "535.261.03", flavour: "open"}}]}' >"$policy"
  kmodsmith "rollout check-policy" "$policy" --json
  target=$(jq -r '.items[0].target' <<<"$output")
  some_nodes
}
old=1111111111111111-0000000000000000
some_nodes() { # six nodes with the old driver; the target is on the disk of all but the first
  jq -n --arg old "$old" --arg target "$target" '{items: [range(6) | {
    metadata: {name: "n\(.)", uid: "uid-\(.)", labels: {"nvidia.com/gpu.present": "true"},
      annotations: {"kmodsmith.io/agent.loaded": "\($old) 535.216.03", "kmodsmith.io/agent.holders": "0",
        "kmodsmith.io/agent.store": (if . == 0 then $old else "\($old),\($target)" end)}},
    spec: {}, status: {conditions: [{type: "Ready", status: "True"}]}}]}' >"$nodes"
}
alter() { # FILE FILTER
  jq "$2" "$1" >"$1.new"
  mv "$1.new" "$1"
}
plan() { kmodsmith "rollout plan" --policy "$policy" --nodes "$nodes" --now 2027-01-15T08:00:00Z "$@"; }
queue() { alter "$nodes" ".items[] |= (.metadata.labels[\"kmodsmith.io/state\"] = \"queued\" | .metadata.annotations[\"kmodsmith.io/target\"] = \"$target\")"; }
node() { echo ".nodes[] | select(.node == \"$1\") | $2"; }

@test "nodes from standard input are the same nodes" {
  local file
  plan --json
  file=$output
  nodes=- plan --json <"$nodes"
  assert_status 0
  assert_equal "$output" "$file"
  nodes=- plan <<<'{"items": 1}'
  assert_error E_CONFIG "standard input"
}
@test "a new cluster: staged targets are queued, others are staged" {
  plan --json
  assert_status 0
  assert_json "$(node n0 .next)" staging
  assert_json "$(node n0 .deadline)" 2027-01-15T09:00:00Z
  assert_json "$(node n1 .next)" queued
  assert_json '.pools[0].halted' false
  assert_json "$(node n1 '.writes | has("nvidia.com/gpu-driver-upgrade-state")')" false
  assert_json '.granted' 0
}

@test "as many nodes as the limits allow get slots, and the others a reason" {
  queue
  plan --json
  assert_json '.granted' 0 # the status of the rollout is not in the files: it begins halted and asks
  assert_json '.pools[0].halted' true
  assert_json '.pools[0].reason' status-lost
  plan --resumed
  assert_output --partial 'gets a slot'
  assert_line --regexp '^n1 +gpu +.*gets a slot'
  refute_line --regexp '(; *$|  ; )'
  plan --json --resumed
  assert_json '.granted' 2
  assert_json "$(node n5 .reason)" limit-parallel
  assert_json "$(node n5 '.action | length > 3')" true
}

@test "T32: nodes cordoned by others use up the budget, and are named" {
  queue
  alter "$nodes" '.items[1,2].spec.unschedulable = true'
  plan --json --resumed
  assert_json '.granted' 0
  assert_json '.pools[0].reason' 'budget-used-by-others n1 n2'
  plan --resumed
  assert_output --partial 'no more grants: budget-used-by-others n1 n2'
  assert_output --partial 'next: bring back the nodes that are listed'
}

@test "T13: an unknown state is shown and left alone" {
  alter "$nodes" '.items[3].metadata.labels["kmodsmith.io/state"] = "foo"'
  plan --json
  assert_json "$(node n3 .state)" unknown
  assert_json "$(node n3 .reason)" unknown-state
  assert_json "$(node n3 '.writes | length')" 0
}

@test "T27: a node in no pool is released" {
  alter "$nodes" '.items[2] |= (.spec.unschedulable = true | .metadata.labels["kmodsmith.io/state"] = "evicting" |
    .metadata.annotations["kmodsmith.io/rollout"] = "gone" |
    .metadata.annotations["kmodsmith.io/deadline"] = "2027-01-15T08:20:00Z" | .metadata.annotations["kmodsmith.io/cordon"] =
    "{\"by\":\"kmodsmith\",\"prior\":false,\"touched\":false,\"again\":0,\"until\":1800003600}")'
  plan --json
  assert_json "$(node n2 .next)" releasing
  assert_json "$(node n2 .cordon)" off
  assert_json "$(node n2 .reason)" policy-gone
  assert_json "$(node n2 '.writes | has("kmodsmith.io/cordon")')" true
  plan --node n2 # no rule behind the one that is taken is asked: it would look for the pool
  assert_status 0
  assert_output --partial 'n2 is evicting: policy-gone'
}

@test "why a node is where it is: the rules and conditions for a slot" {
  queue
  alter "$nodes" '.items[1].spec.unschedulable = true'
  plan --resumed --node n1
  assert_status 0
  assert_output --partial 'n1 is queued: foreign-cordon'
  assert_output --regexp '  no   it was not cordoned by others: foreign-cordon .*next: uncordon it'
  assert_output --partial '  yes  the node is ready'
  plan --resumed --node n1 --json
  assert_json '.slot[] | select(.reason == "foreign-cordon") | .holds' false
  assert_json '[.rules[] | select(.holds)] | length' 0
  plan --node nobody
  assert_error E_NOT_FOUND "no node 'nobody'"
}

@test "a node with a broken GPU is not begun, and says which GPU, of which model, and why; an error since the load is told" {
  queue
  alter "$nodes" '.items[1].metadata.annotations["kmodsmith.io/agent.gpus"] = "7/8 535.1 NVIDIA-A2 0000:3b:00.0=xid79x1"'
  plan --resumed --node n1
  assert_status 0
  assert_output --partial 'n1 is queued: gpu-broken 0000:3b:00.0 Xid 79, NVIDIA-A2'
  assert_line 'GPUs that work, their driver, model and faults: 7/8 535.1 NVIDIA-A2 0000:3b:00.0=xid79x1'
  assert_output --regexp '  no   none of its GPUs is broken before, or unhealthyBefore is replace: gpu-broken '
  plan --resumed --node n1 --json
  assert_json .gpus '7/8 535.1 NVIDIA-A2 0000:3b:00.0=xid79x1'
  plan --resumed
  assert_line --regexp '^n1 .* queued .* gpu-broken 0000:3b:00.0 Xid 79, NVIDIA-A2 '
  alter "$policy" '.pools[0].unhealthyBefore = "replace"'
  plan --resumed --node n1
  refute_output --partial gpu-broken
  alter "$nodes" ".items[1].metadata |= (.labels[\"kmodsmith.io/state\"] = \"done\" |
    .annotations[\"kmodsmith.io/agent.loaded\"] = \"$target 535.2\" |
    .annotations[\"kmodsmith.io/agent.gpus\"] = \"8/8 535.2 NVIDIA-A2 0000:3b:00.0=xid119x3\")"
  plan --resumed --node n1
  assert_output --partial 'n1 is done: gpu-error 0000:3b:00.0 Xid 119, NVIDIA-A2'
}

@test "a node whose GPUs are not back: which, of how many, since when, and what follows" {
  queue
  alter "$nodes" ".items[1] |= (.spec.unschedulable = true | .metadata.labels[\"kmodsmith.io/state\"] = \"releasing\" |
    .status.allocatable = {cpu: \"8\", \"nvidia.com/gpu\": \"7\", \"nvidia.com/hostdev\": \"1\"} |
    .metadata.annotations += {\"kmodsmith.io/since\": \"2027-01-15T07:55:00Z\", \"kmodsmith.io/deadline\": \"2027-01-15T08:05:00Z\",
      \"kmodsmith.io/outcome\": \"done\", \"kmodsmith.io/target\": \"$target\", \"kmodsmith.io/go\": \"1.9:validate:$target\",
      \"kmodsmith.io/baseline\": \"gpu=8\", \"kmodsmith.io/agent.ack\": \"1.9:validate:done\",
      \"kmodsmith.io/agent.loaded\": \"$target 535.2\", \"kmodsmith.io/agent.health\": \"$target:ok\", \"kmodsmith.io/cordon\":
        \"{\\\"by\\\":\\\"kmodsmith\\\",\\\"prior\\\":false,\\\"touched\\\":true,\\\"again\\\":0,\\\"until\\\":1800003600}\"})"
  plan --resumed --node n1
  assert_status 0
  assert_output --partial 'n1 is releasing: waits-for-allocatable nvidia.com/gpu 7 of 8'
  assert_output --partial 'at 2027-01-15T08:05:00Z: the node stays cordoned until all of it is back'
  assert_output --partial 'device plugin'
  plan --resumed
  assert_line --regexp '^n1 .* releasing +ours .* waits-for-allocatable nvidia.com/gpu 7 of 8 '
  alter "$nodes" '.items[1].status.allocatable["nvidia.com/gpu"] = "8"'
  plan --resumed --json
  assert_json "$(node n1 .cordon)" off
}

@test "why a draining node is where it is: since when, the deadline and what follows, who cordoned it, which drain it is" {
  queue
  alter "$nodes" ".items[1] |= (.spec.unschedulable = true | .metadata.labels[\"kmodsmith.io/state\"] = \"evicting\" |
    .metadata.annotations += {\"kmodsmith.io/since\": \"2027-01-15T07:50:00Z\", \"kmodsmith.io/deadline\": \"2027-01-15T08:20:00Z\",
      \"kmodsmith.io/reason\": \"pdb-blocked default/db, budget all\", \"kmodsmith.io/reason-since\": \"2027-01-15T07:55:00Z\",
      \"kmodsmith.io/drains\": \"2.0:$target\", \"kmodsmith.io/cordon\":
        \"{\\\"by\\\":\\\"kmodsmith\\\",\\\"prior\\\":false,\\\"touched\\\":false,\\\"again\\\":0,\\\"until\\\":1800003600}\"})"
  plan --resumed --node n1
  assert_status 0
  assert_output --partial 'n1 is evicting: pdb-blocked default/db, budget all'
  assert_output --partial 'since 2027-01-15T07:55:00Z, for 5 min; cordoned by: ours'
  assert_output --partial 'at 2027-01-15T08:20:00Z: the drain is cancelled, the node returns to service'
  assert_output --partial 'drains for this target that ended without a replacement: 2 of 5'
  refute_output --partial 'conditions for a slot'
  plan --resumed --node n1 --json
  assert_json '.slot | length' 0
  assert_json .since 2027-01-15T07:50:00Z
  assert_json .reasonSince 2027-01-15T07:55:00Z
  assert_json .drains 2
  assert_json .cordonedBy ours
  alter "$nodes" '.items[2].metadata.annotations["kmodsmith.io/reason"] = "drain-timeout default/alone: no controller would recreate it"'
  plan --resumed --node n2
  assert_output --partial 'its last drain ended with drain-timeout default/alone: no controller'
  assert_output --partial 'conditions for a slot'
  plan --resumed
  assert_line --regexp '^n2 .*last drain: drain-timeout default/alone'
  plan --resumed --json
  assert_json "$(node n2 .lastDrain)" 'drain-timeout default/alone: no controller would recreate it'
  assert_json "$(node n1 .cordonedBy)" ours
  alter "$nodes" '.items[3].spec.unschedulable = true'
  plan
  assert_line --regexp '^NODE +POOL +WAVE +STATE +CORDON +NEXT '
  assert_line --regexp '^n1 +gpu +[a-z]+ +evicting +ours +[a-z-]+ .* 0[0-9]:[0-9]{2}Z '
  assert_line --regexp '^n3 +gpu +[a-z]+ +queued +foreign '
  assert_line --regexp '^n4 +gpu +[a-z]+ +queued +- '
}

@test "an invalid policy is refused with the field" {
  while IFS='|' read -r filter text; do
    setup
    alter "$policy" "$filter"
    kmodsmith "rollout check-policy" "$policy"
    assert_error E_CONFIG "$text"
    assert_status 2
    plan
    assert_error E_CONFIG "$text"
  done <<'END'
.pools[0].maxParalel = 1|pools[0].maxParalel: unknown field
.pools[0].maxUnavailable = "110%"|pools[0].maxUnavailable: must be
.pools[0].deadlines.evict = 0|pools[0].deadlines.evict: must be at least 1s; there is no unlimited
.schema = 9|schema: 9 is newer
END
}

@test "waves are shown with their nodes, including one that tests nothing before others wait for it" {
  alter "$policy" '.pools[0].waves = [{name: "canary", selector: {"example/canary": "tru"}}, {name: "two", count: 2, minDone: 2}]'
  kmodsmith "rollout check-policy" "$policy" --nodes "$nodes"
  assert_status 0
  assert_line '  wave canary: 0 nodes, 0 done, open'
  assert_line '  wave two: 2 nodes, 0 done, closed'
  assert_line '  wave rest: 4 nodes, 0 done, closed'
  assert_output --partial 'warning: pool gpu: with wave canary no nodes are begun, and 1 have to be done'
  assert_output --partial 'kmodsmith rollout approve gpu two'
  refute_output --partial 'with wave two'
  kmodsmith "rollout check-policy" "$policy" --nodes "$nodes" --json
  assert_json '.items[0].nodesOfWaves | map([.wave, .nodes, .tooFewNodes]) | flatten | join(" ")' 'canary 0 true two 2 false rest 4 false'
  queue
  plan --resumed --json
  assert_json .granted 0
  assert_json '.pools[0].reason' 'wave-untested canary'
  assert_json "$(node n5 .reason)" wave-untested
  assert_json '.pools[0].waves[0].tooFewNodes' true
  alter "$policy" '.paused = true' # nothing that is done about a wave helps before that ends
  plan --resumed
  assert_line 'no more grants: paused'
  assert_line --regexp '^  next: .*kmodsmith rollout resume'
  plan --resumed --node n5
  assert_line --regexp ' no .*: paused .*next: .*kmodsmith rollout resume'
}

@test "a closed window shows when it opens" { # it is a Friday, 8 o'clock
  alter "$policy" '.pools[0].windows = [{"days": ["Fri"], "from": "22:00", "to": "04:00"}]'
  queue
  plan --resumed
  assert_line '  windows: closed until 2027-01-15T22:00:00Z'
  plan --resumed --json
  assert_json '.pools[0].windowOpens' 2027-01-15T22:00:00Z
  assert_json "$(node n1 .reason)" window-closed
  alter "$policy" '.pools[0].windows = [{"from": "07:00", "to": "12:00"}]'
  plan --resumed --json
  assert_json '.pools[0].windowOpens' null
  assert_json .granted 2
}

@test "unreadable files and missing arguments" {
  kmodsmith "rollout plan" --policy "$policy"
  assert_error E_USAGE "--policy and --nodes"
  assert_status 2
  kmodsmith "rollout plan" --policy "$policy" --nodes "$BATS_TEST_TMPDIR/none"
  assert_error E_NOT_FOUND none
  echo '{"items": [{"metadata": {"name": "a"}}]}' >"$nodes"
  plan
  assert_error E_CONFIG "items[0]: metadata: must have a name and a uid"
  echo '{"items": 3}' >"$nodes"
  plan
  assert_error E_CONFIG "items: must be a list"
  head -c 100 /dev/urandom >"$nodes"
  plan
  assert_error E_CONFIG "is not JSON"
  kmodsmith "rollout plan" --policy "$policy" --nodes "$nodes" --now yesterday
  assert_error E_USAGE yesterday
}

@test "every scenario in a table has its test, and the test its scenario" {
  local id test open file name count=0
  while IFS='|' read -r _ id test open _; do
    read -r id <<<"$id"
    [[ $id == T[0-9]* ]] || continue
    count=$((count + 1))
    [[ -n ${test// /} || -n ${open// /} ]] || fail "$id has neither a test nor a word on it"
    [[ -n ${test// /} ]] || continue
    read -r file name <<<"$test"
    file=$top/tests/unit/${file%:}.c
    grep -qE "^static void $name\(|unit_test\($name\)|T\($name\)" "$file" || fail "$id: no test '$name' in $file"
    grep -qsiE "(^|[^a-z0-9])$id([^0-9]|$)" "$file" "${file%_test.c}.def" || fail "$id: $file does not name it"
  done <"$top/tests/cluster/scenarios.md"
  [ "$count" -ge 70 ] || fail "only $count scenarios"
}

@test "a policy in YAML is the same policy, and an error has its place" {
  local yaml=$BATS_TEST_TMPDIR/policy.yaml
  kmodsmith "rollout check-policy" "$policy" --json
  local want=$output
  cat >"$yaml" <<'POLICY'
schema: 1
pools:
- name: gpu
  selector: {nvidia.com/gpu.present: "true"}
  maxParallel: 2
  maxUnavailable: 2
  target: {driver: 535.261.03, flavour: open}
POLICY
  kmodsmith "rollout check-policy" "$yaml" --json
  assert_status 0
  assert_equal "$output" "$want"
  policy=$yaml plan --json
  assert_json "$(node n0 .next)" staging
  sed -i 's/^  maxParallel/   maxParallel/' "$yaml"
  kmodsmith "rollout check-policy" "$yaml"
  assert_error E_CONFIG "line 5, column 4: not valid YAML"
  printf 'pools:\n- name: gpu\n  maxparallel: 2\n' >"$yaml"
  kmodsmith "rollout check-policy" "$yaml"
  assert_error E_CONFIG "pools[0].maxparallel: unknown field"
}
