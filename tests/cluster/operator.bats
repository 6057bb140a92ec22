#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A rollout beside what NVIDIA's GPU Operator puts into a cluster, on the real API server, with the rights of deploy/ and no
# others: its nodes are held, the others go on, and a node that it gives up goes on, too.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # bats runs each test in a subshell; the helpers set and use what is here
load helper
load agent
load rollout

setup_file() {
  kube_start --runtime-config=admissionregistration.k8s.io/v1=true
  deploy rbac.yaml
  deploy agent-policy.yaml
  deploy coordinator.yaml
  deploy coordinator-policy.yaml
}
teardown_file() { kube_stop; }
setup() { kube_needed && farm_make 3; }
teardown() { farm_clean; }
DRIVERS=/apis/apps/v1/namespaces/default/daemonsets
driver_daemonset() {
  kube POST "$DRIVERS" '{"metadata": {"name": "nvidia-driver-daemonset", "labels": {"app.kubernetes.io/component": "nvidia-driver"},
    "ownerReferences": [{"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "name": "cluster-policy", "uid": "p", "controller": true}]},
    "spec": {"selector": {"matchLabels": {"app": "d"}}, "updateStrategy": {"type": "OnDelete"}, "template": {
      "metadata": {"labels": {"app": "d"}}, "spec": {"nodeSelector": {"nvidia.com/gpu.deploy.driver": "true"},
        "containers": [{"name": "nvidia-driver-ctr", "image": "i"}]}}}}' | jq -e '.kind == "DaemonSet"' >/dev/null
}
mark() { kube PATCH "/api/v1/nodes/$(name_of "$1")" "{\"metadata\": $2}" application/merge-patch+json >/dev/null; } # NODE JSON

@test "the operator's nodes are held with a reason, the others go on, and nodes that it releases are ours" {
  farm_loads "$new"
  driver_daemonset
  mark 2 '{"labels": {"nvidia.com/gpu.deploy.driver": "true"}}'
  mark 3 '{"annotations": {"nvidia.com/gpu-driver-upgrade-enabled": "true"}}'
  pod train 2
  farm_start
  coordinator_start a
  policy "$new" '.mirror = true'
  all_at_least "done" 1 120
  renewed
  assert_equal "$(nodes 'map(.metadata.labels["kmodsmith.io/state"]) | join(" ")')" "done held held"
  kubectl_kmodsmith status
  assert_line --regexp "^$(name_of 2) .*foreign-controller default/nvidia-driver-daemonset"
  assert_line --regexp "^$(name_of 3) .*foreign-controller nvidia.com/gpu-driver-upgrade-enabled"
  kubectl_kmodsmith why "$(name_of 2)"
  assert_output --partial "kmodsmith-operator(7)"
  assert_equal "$(nodes 'map(.metadata.labels["nvidia.com/gpu-driver-upgrade-state"] // "-") | join(" ")')" "upgrade-done - -"
  assert_equal "$(cordoned)" ""
  assert_equal "$(kube GET /api/v1/namespaces/default/pods | jq '.items | length')" 1
  for i in 2 3; do assert_equal "$(unloads $i)" 0; done
  run grep -c "NVIDIA's operator manages the driver on 2 of the nodes that the policy selects" "$BATS_TEST_TMPDIR/coordinator-a.log"
  assert_output 1
  kube GET /api/v1/namespaces/kmodsmith/events | jq -e '[.items[] | select(.reason == "NodesOfOtherOperator" and
    .involvedObject.name == "kmodsmith-policy" and .type == "Warning")] | length == 1' >/dev/null
  mark 2 '{"labels": {"nvidia.com/gpu.deploy.driver": "false"}}'
  all_at_least "done" 2 120
  mark 3 '{"annotations": {"nvidia.com/gpu-driver-upgrade-enabled": null}}'
  all_are "done" 120
  assert_equal "$(versions)" "$new $new $new"
  assert_equal "$(cordoned)" ""
  kube DELETE "$DRIVERS/nvidia-driver-daemonset" >/dev/null
}
