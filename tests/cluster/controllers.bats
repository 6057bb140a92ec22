#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Rollouts among the real controllers: kube-scheduler places what was evicted, kube-controller-manager makes it anew, keeps
# disruption budgets and says which nodes are there. The test is kubelet alone. T04, T05, T72, T73.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # bats runs each test in a subshell; the helpers set and use what is here
load helper
load agent
load rollout
load controllers

setup_file() {
  kube_start --allow-privileged=true
  controllers_start
  deploy rbac.yaml
  deploy agent-policy.yaml
  deploy coordinator.yaml
  deploy coordinator-policy.yaml
}
teardown_file() {
  controllers_stop
  kube_stop
}
setup() {
  kube_needed
  farm_make 3
  farm_loads "$new"
}
teardown() {
  local kind
  for kind in deployments daemonsets; do kube DELETE "/apis/apps/v1/namespaces/default/$kind" >/dev/null; done
  kube DELETE /apis/policy/v1/namespaces/default/poddisruptionbudgets >/dev/null
  kube DELETE /api/v1/namespaces/default/pods?gracePeriodSeconds=0 >/dev/null
  kube DELETE /apis/apps/v1/namespaces/kmodsmith/daemonsets >/dev/null
  farm_clean
}

@test "evicted pods run elsewhere, one at a time as their budget says; DaemonSet pods stay" {
  local before daemons uid
  workload daemonsets exporter
  workload deployments train 2
  budget train '"minAvailable": 1'
  until_so 60 allows train 1
  until_so 60 has /apis/apps/v1/namespaces/default/daemonsets/exporter '.status.numberReady == 3'
  before=$(uids train) daemons=$(uids exporter)
  farm_start
  coordinator_start a
  policy "$new"
  all_are "done" 150
  assert_equal "$(versions)" "$new $new $new"
  assert_equal "$(cordoned)" ""
  assert_equal "$(uids exporter)" "$daemons"
  until_so 30 allows train 1
  for uid in $(uids train); do refute [ "${before/$uid/}" != "$before" ]; done
  # Two were placed, and two more when these were evicted.
  [ "$(kube GET /api/v1/namespaces/default/events | jq '[.items[] | select(.reason == "Scheduled" and (.involvedObject.name | startswith("train-")))] | length')" -ge 4 ]
  for i in 1 2 3; do assert_equal "$(unloads $i)" 1; done
}

@test "T04, T05: budgets that allow nothing block, why names them, and nothing is evicted; once one allows it, it continues" {
  local before node asked path=/apis/policy/v1/namespaces/default/poddisruptionbudgets/serve
  workload deployments serve 2
  budget serve '"maxUnavailable": 0'
  until_so 60 has "$path" '.status.currentHealthy == 2 and .status.observedGeneration == 1'
  before=$(uids serve)
  farm_start
  coordinator_start a
  policy "$new"
  blocked() { nodes '.[] | select(.metadata.annotations["kmodsmith.io/reason"] // "" | startswith("pdb-blocked default/serve-")) | .metadata.name'; }
  is_blocked() { [ -n "$(blocked)" ]; }
  blocks() { count_of a 'kmodsmith_evictions_total{result="blocked"}'; }
  until_so 90 is_blocked
  node=$(blocked)
  kubectl_kmodsmith why "$node"
  assert_success
  assert_line --regexp "^$node is evicting: pdb-blocked default/serve-.*, budget serve"
  merge "$path" '{"spec": {"maxUnavailable": null, "minAvailable": 2}}'
  until_so 30 allows serve 0
  asked=$(blocks)
  is_asked_again() { (($(blocks) > asked + 1)); }
  until_so 60 is_asked_again
  assert_equal "$(uids serve)" "$before"
  assert_equal "$(cordoned)" "$node"
  assert_equal "$(unloads "${node##*-}")" 0
  merge "$path" '{"spec": {"minAvailable": 1}}'
  all_are "done" 150
  assert_equal "$(versions)" "$new $new $new"
  until_so 30 allows serve 1
  assert_equal "$(cordoned)" ""
}

@test "T72: a node with a silent kubelet is no candidate, and the others go on; once it is back it follows" {
  touch "$BATS_TEST_TMPDIR/silent-$(name_of 2)"
  until_so 90 has "/api/v1/nodes/$(name_of 2)" 'any(.spec.taints[]?; .key == "node.kubernetes.io/unreachable")'
  farm_start
  coordinator_start a
  policy "$new" '.maxUnavailable = 2 | .pools[0].maxUnavailable = 2'
  all_at_least "done" 2 90
  assert_equal "$(versions)" "$new $old $new"
  kubectl_kmodsmith why "$(name_of 2)"
  assert_output --partial "not-ready"
  rm "$BATS_TEST_TMPDIR/silent-$(name_of 2)"
  all_are "done" 90
  assert_equal "$(versions)" "$new $new $new"
}

@test "T73: why says what the pod of a silent agent waits for, in the scheduler's words, with the coordinator's rights" {
  local path=/apis/apps/v1/namespaces/kmodsmith/daemonsets
  why() { run "$KMODSMITH" rollout why "$(name_of 2)" --kubeconfig "$BATS_TEST_TMPDIR/coordinator.config" --namespace kmodsmith; }
  coordinator_start a
  policy "$new"
  is_silent() { why && [[ ${lines[0]} == *" is idle: no-report"* ]]; }
  until_so 60 is_silent
  assert_line "$(name_of 2) is idle: no-report no pod of an agent in the namespace kmodsmith is for this node"
  kube POST "$path" "$(python3 -c 'import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))' "$top/deploy/daemonset-agent.yaml" |
    jq '.spec.template.spec.containers[0].resources.requests.cpu = "99"')" | jq -e '.kind == "DaemonSet"' >/dev/null
  is_refused() { why && [[ ${lines[0]} == *": Pending: Unschedulable: "* ]]; }
  until_so 60 is_refused
  assert_line --regexp "^$(name_of 2) is idle: no-report kmodsmith/kmodsmith-agent-[a-z0-9]+: Pending: Unschedulable: 0/3 nodes are available: .*Insufficient cpu"
}
