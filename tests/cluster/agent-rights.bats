#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What a token of the agent may do (upgrade-design 5.10): tell of the Node on which its pod runs, and nothing else.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # bats runs each test in a subshell; the helpers set and use what is here
load helper
load agent

setup_file() {
  kube_start
  deploy rbac.yaml
  deploy agent-policy.yaml
  for node in gpu1 gpu2; do
    kube POST /api/v1/nodes "{\"metadata\": {\"name\": \"$node\", \"labels\": {\"a\": \"b\"}}}" >/dev/null
  done
  kube POST /api/v1/namespaces/kmodsmith/pods '{"metadata": {"name": "agent"}, "spec": {"nodeName": "gpu1",
    "serviceAccountName": "kmodsmith-agent", "containers": [{"name": "a", "image": "a"}]}}' >/dev/null
  token bound >"$BATS_FILE_TMPDIR/token"
  soon policy_counts # a moment after it was made
}
teardown_file() { kube_stop; }
setup() { kube_needed; }
token() { # bound|unbound: to the pod on gpu1
  local uid spec='{}'
  uid=$(kube GET /api/v1/namespaces/kmodsmith/pods/agent | jq -r .metadata.uid)
  [ "$1" = unbound ] || spec="{\"boundObjectRef\": {\"kind\": \"Pod\", \"apiVersion\": \"v1\", \"name\": \"agent\", \"uid\": \"$uid\"}}"
  kube POST /api/v1/namespaces/kmodsmith/serviceaccounts/kmodsmith-agent/token \
    "{\"apiVersion\": \"authentication.k8s.io/v1\", \"kind\": \"TokenRequest\", \"spec\": $spec}" | jq -r .status.token
}
asks() { # TOKEN METHOD PATH [JSON [TYPE]]: the answer's code, 200 when it has none, and its words
  curl -sS --cacert "$CA" -H "Authorization: Bearer $1" -X "$2" ${4:+-H "Content-Type: ${5:-application/merge-patch+json}" -d "$4"} \
    "$KUBE$3" | jq -r 'if .kind == "Status" and .status == "Failure" then "\(.code) \(.message)" else "200" end'
}
policy_counts() { [[ $(asks "$(<"$BATS_FILE_TMPDIR/token")" PATCH /api/v1/nodes/gpu2 '{"metadata": {"annotations": {"kmodsmith.io/agent.x": "y"}}}') != 200 ]]; }

@test "rights: an agent writes its own Node, whatever others write there" {
  local mine
  mine=$(<"$BATS_FILE_TMPDIR/token")
  assert_equal "$(asks "$mine" GET /api/v1/nodes/gpu1)" 200
  assert_equal "$(asks "$mine" PATCH /api/v1/nodes/gpu1 '{"metadata": {"annotations": {"kmodsmith.io/agent.ack": "1.1:stage:done"}}}')" 200
  node=gpu1
  annotate go 1.2:none:none
  assert_equal "$(asks "$mine" PATCH /api/v1/nodes/gpu1 '{"metadata": {"annotations": {"kmodsmith.io/agent.ack": null}}}')" 200
  assert_equal "$(note go)" 1.2:none:none
}

@test "rights: an agent writes nothing else" {
  local mine change count=0
  mine=$(<"$BATS_FILE_TMPDIR/token")
  node=gpu1
  annotate go 1.2:none:none
  refused() { # PATH JSON WORDS
    local answer
    answer=$(asks "$mine" PATCH "$1" "$2")
    [[ $answer == 4*"$3"* ]] || fail "$1 $2: $answer"
    count=$((count + 1))
  }
  refused /api/v1/nodes/gpu2 '{"metadata": {"annotations": {"kmodsmith.io/agent.ack": "x"}}}' "this token belongs to a pod on gpu1"
  for change in '"unschedulable": true' '"podCIDR": "10.1.0.0/24"'; do
    refused /api/v1/nodes/gpu1 "{\"spec\": {$change}}" "must not cordon"
  done
  for change in '{"key": "a", "effect": "NoExecute"}' '{"key": "kmodsmith.io/driver-not-ready", "effect": "NoSchedule"}'; do
    refused /api/v1/nodes/gpu1 "{\"spec\": {\"taints\": [$change]}}" "may only remove the taint"
  done
  refused /api/v1/nodes/gpu1 '{"metadata": {"labels": {"kmodsmith.io/state": "done"}}}' "must not change labels"
  refused /api/v1/nodes/gpu1 '{"metadata": {"labels": {"a": null}}}' "must not change labels"
  for change in '"kmodsmith.io/go": "1.3:replace:none"' '"kmodsmith.io/go": null' '"kmodsmith.io/agent": "x"' '"other": "x"' '"kmodsmith.io/cordon": "x"'; do
    refused /api/v1/nodes/gpu1 "{\"metadata\": {\"annotations\": {\"kmodsmith.io/agent.ack\": \"x\", $change}}}" "may only write the annotations kmodsmith.io/agent.*"
  done
  refused /api/v1/nodes/gpu1 '{"metadata": {"finalizers": ["a.b/c"]}}' "must not change finalizers"
  refused /api/v1/nodes/gpu1 '{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "gpu2", "uid": "u"}]}}' "must not change finalizers"
  refused /api/v1/nodes/gpu2/status '{"status": {"conditions": []}}' "this token belongs to a pod on gpu1"
  for change in '"phase": "Terminated"' '"capacity": {"nvidia.com/gpu": "8"}' '"nodeInfo": {"kernelVersion": "x"}' '"addresses": [{"type": "Hostname", "address": "x"}]'; do
    refused /api/v1/nodes/gpu1/status "{\"status\": {$change}}" "must not change the status"
  done
  for change in '{"type": "Ready", "status": "True"}' '{"type": "NvidiaDriverReady", "status": "True"}, {"type": "Ready", "status": "False"}'; do
    refused /api/v1/nodes/gpu1/status "{\"status\": {\"conditions\": [$change]}}" "may only write the conditions"
  done
  refused /api/v1/nodes/gpu1/status '{"metadata": {"labels": {"kmodsmith.io/state": "done"}}}' "must not change labels"
  assert_equal "$count" 22
  [[ $(asks "$mine" DELETE /api/v1/nodes/gpu1) == 403* ]]
  [[ $(asks "$mine" GET /api/v1/nodes) == 403* ]]
  [[ $(asks "$mine" GET /api/v1/pods) == 403* ]]
  [[ $(asks "$mine" GET /api/v1/namespaces/kmodsmith/secrets) == 403* ]]
  assert_equal "$(note agent.ack)" ""
}

@test "rights: an agent says whether its driver is ready, and lets work onto a new node, beside the conditions and taints of others" {
  local mine
  mine=$(<"$BATS_FILE_TMPDIR/token")
  kube PATCH /api/v1/nodes/gpu1 '{"spec": {"taints": [{"key": "b", "effect": "NoSchedule"},
    {"key": "kmodsmith.io/driver-not-ready", "effect": "NoSchedule"}]}}' application/merge-patch+json >/dev/null
  kube PATCH /api/v1/nodes/gpu1/status '{"status": {"conditions": [{"type": "Ready", "status": "True"}]}}' \
    application/merge-patch+json >/dev/null
  ready() { # STATE: the file that runs leave
    mkdir -p "$BATS_TEST_TMPDIR/root/run/kmodsmith" "$BATS_TEST_TMPDIR/root/proc/sys/kernel/random"
    echo 11111111-1111-1111-1111-111111111111 >"$BATS_TEST_TMPDIR/root/proc/sys/kernel/random/boot_id"
    jq -n --arg state "$1" '{boot_id: "11111111-1111-1111-1111-111111111111", $state, run: null, last_run: null}' \
      >"$BATS_TEST_TMPDIR/root/run/kmodsmith/status.json"
    "$KMODSMITH" report --once --root "$BATS_TEST_TMPDIR/root" --node gpu1 --kubeconfig "$BATS_TEST_TMPDIR/config"
  }
  jq -n --arg server "$KUBE" --arg ca "$(base64 -w0 "$CA")" --arg token "$mine" '{apiVersion: "v1", kind: "Config", "current-context": "t",
    contexts: [{name: "t", context: {cluster: "t", user: "t"}}], users: [{name: "t", user: {$token}}],
    clusters: [{name: "t", cluster: {$server, "certificate-authority-data": $ca}}]}' >"$BATS_TEST_TMPDIR/config"
  says() { kube GET /api/v1/nodes/gpu1 | jq -r '[.status.conditions[] | "\(.type)=\(.status)"] + [.spec.taints[].key] | join(" ")'; }
  run --separate-stderr ready NOT_READY
  assert_line "NvidiaDriverReady False, DriverNotReady: see \`kmodsmith status\` on the node"
  assert_equal "$(says)" "Ready=True NvidiaDriverReady=False b kmodsmith.io/driver-not-ready"
  ready READY
  assert_equal "$(says)" "Ready=True NvidiaDriverReady=True b"
}

@test "rights: a token without a pod writes nothing; other users are not affected" {
  local loose
  loose=$(token unbound)
  assert_equal "$(asks "$loose" GET /api/v1/nodes/gpu1)" 200
  [[ $(asks "$loose" PATCH /api/v1/nodes/gpu1 '{"metadata": {"annotations": {"kmodsmith.io/agent.ack": "x"}}}') == 4*"belongs to a pod on no node"* ]]
  node=gpu2
  annotate anything goes
  assert_equal "$(note anything)" goes
}

@test "rights: they are enough for an agent in its pod, which watches and writes" {
  local account
  node=gpu1
  agent_machine
  agent_policy
  account=$ROOT/var/run/secrets/kubernetes.io/serviceaccount
  mkdir -p "$account"
  cp "$BATS_FILE_TMPDIR/token" "$account/token"
  cp "$CA" "$account/ca.crt"
  echo kmodsmith >"$account/namespace"
  AGENT_CONFIG="" KUBERNETES_SERVICE_HOST=127.0.0.1 KUBERNETES_SERVICE_PORT=${KUBE##*:} agent_start
  await agent.loaded "$old_aim *"
  order 5.1 stage "$new_aim"
  await agent.ack 5.1:stage:done
  agent_kill
}
