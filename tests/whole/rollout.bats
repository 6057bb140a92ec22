#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# From an empty cluster to the second driver with real kubelets, containerd and pods. helper.bash says what is not as at a user's.
# shellcheck disable=SC2030,SC2031,SC2154 # bats runs each test in a subshell; bats and the helpers set what is used here
load helper

setup_file() { whole_start 2; }
teardown_file() { whole_stop; }
setup() { kube_needed; }

pools() { # DRIVER [MEMBERS]
  jq -nc --arg driver "$1" --argjson more "${2-{\}}" '[{name: "gpus", selector: {"nvidia.com/gpu.present": "true"},
    target: {driver: $driver, flavour: "open"}} + $more]'
}
have() { # VERSION COUNT: so many nodes are done with that driver
  kube GET /api/v1/nodes | jq -e --arg version " $1 " --argjson count "$2" '[.items[].metadata | select(.labels["kmodsmith.io/state"] == "done" and
    (.annotations["kmodsmith.io/agent.loaded"] | contains($version)))] | length == $count'
}
ready_pods() { # NAME COUNT: of kmodsmith, none started twice
  kube GET /api/v1/namespaces/kmodsmith/pods | jq -e --arg name "$1-" --argjson count "$2" '[.items[] |
    select((.metadata.name | startswith($name)) and (.status.containerStatuses[0] | .ready and .restartCount == 0))] | length == $count'
}
conditions() { # TYPE -> the status of each node's
  kube GET /api/v1/nodes | jq -r --arg type "$1" '[.items[].status.conditions[] | select(.type == $type) | .status] | join(" ")'
}

budget() { # COUNT: so many pods of web have to be there
  kube PATCH /apis/policy/v1/namespaces/default/poddisruptionbudgets/web "{\"spec\": {\"minAvailable\": $1}}" application/merge-patch+json >/dev/null
}
conditions_are() { [ "$(conditions "$1")" = "$2" ]; }
template() { # NAME GPUS [SPEC]: of pods with a name for what they are; they end within a second, unless SPEC says otherwise
  jq -nc --arg name "$1" --arg image "$HUB/pause:1" --arg gpus "$2" --argjson more "${3-{\}}" '{metadata: {labels: {app: $name}}, spec: ({
    containers: [{name: "c", image: $image, resources: (if $gpus == "0" then {} else {limits: {"nvidia.com/gpu": $gpus}} end)}]} + $more)}'
}
make() { # PATH OBJECT
  kube POST "$1" "$2" | jq -e '.kind != "Status"' >/dev/null || { kube POST "$1" "$2" >&2 && return 1; }
}
workload() { # KIND NAME REPLICAS TEMPLATE
  make "/apis/apps/v1/namespaces/default/$1" "$(jq -nc --arg name "$2" --argjson replicas "$3" --argjson template "$4" '{metadata: {name: $name},
    spec: ({selector: {matchLabels: {app: $name}}, template: $template} + if $replicas then {replicas: $replicas} else {} end)}')"
}
pods_of() { kube GET "/api/v1/namespaces/default/pods?labelSelector=app%3D$1" | jq -r "[.items[] | select(.metadata.deletionTimestamp == null) | $2] | join(\" \")"; } # APP JQ
running() { # APP COUNT
  kube GET "/api/v1/namespaces/default/pods?labelSelector=app%3D$1" | jq -e --argjson count "$2" \
    '[.items[] | select(.status.phase == "Running" and .metadata.deletionTimestamp == null)] | length == $count'
}
waits() { # STATE REASON: of one node
  "$KMODSMITH" rollout status --json | jq -e --arg state "$1" --arg reason "$2" '[.nodes[] | select(.state == $state) | .reason] == [$reason]'
}
loads_are() { [ "$(loaded)" = "$1" ]; }
loaded() { sed -nE 's/^NVRM.*  ([0-9.]+)  .*/\1/p' "$work"/node-*/machine/proc/driver/nvidia/version | paste -sd' '; }

nobody() { kube GET /api/v1/namespaces/kmodsmith/pods | jq -e '.items == []'; }

@test "helm install: containerd of two generations runs coordinators and agents, which load the driver and say so on their Nodes" {
  run kube GET /api/v1/nodes
  echo "# $(jq -r '[.items[].status.nodeInfo | .containerRuntimeVersion, .kubeletVersion] | join(" ")' <<<"$output")" >&3
  machines_load "$old"
  run chart install "$(pools "$old")"
  assert_success
  until_so 180 have "$old" 2
  until_so 60 conditions_are NvidiaDriverReady "True True"
  assert_equal "$(conditions Ready)" "True True"
  until_so 60 ready_pods kmodsmith-agent 2
  until_so 60 ready_pods kmodsmith-coordinator 2
}

@test "another driver: who holds no GPU stays, a job is waited for, a budget is kept, who ignores SIGTERM is gone after its grace" {
  local job
  workload deployments web 2 "$(template web 1)"
  make /apis/policy/v1/namespaces/default/poddisruptionbudgets '{"metadata": {"name": "web"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}}'
  workload daemonsets log null "$(template log 0)"
  workload statefulsets deaf 1 "$(template deaf 1 '{"terminationGracePeriodSeconds": 3, "containers": [{"name": "c", "image": "'"$HUB"'/pause:1",
    "command": ["/bin/sh", "-c", "trap : TERM; while :; do sleep 1; done"], "resources": {"limits": {"nvidia.com/gpu": 1}}}]}')"
  make /apis/batch/v1/namespaces/default/jobs "$(jq -nc --argjson template "$(template train 1 '{"restartPolicy": "Never", "containers": [{"name": "c",
    "image": "'"$HUB"'/pause:1", "command": ["/bin/sleep", "45"], "resources": {"limits": {"nvidia.com/gpu": 1}}}]}')" '{metadata: {name: "train"}, spec: {$template}}')"
  until_so 90 running web 2
  until_so 60 running log 2
  until_so 60 running deaf 1
  until_so 60 running train 1
  job=$(pods_of train .metadata.uid) stays=$(pods_of log .metadata.uid)
  machines_load "$new"
  run chart upgrade "$(pools "$new" '{"drain": {"waitFor": "app=train"}}')"
  assert_success
  until_so 300 have "$new" 2
  assert_equal "$(loaded)" "$new $new"
  assert_equal "$(pods_of log .metadata.uid)" "$stays"
  assert_equal "$(kube GET "/apis/batch/v1/namespaces/default/jobs/train" | jq -r '.status | "\(.succeeded) \(.failed)"')" "1 null"
  assert_equal "$(pods_of train .metadata.uid)" "$job"
  until_so 60 running web 2
  until_so 60 running deaf 1
  assert_equal "$(kube GET /api/v1/nodes | jq '[.items[] | select(.spec.unschedulable)] | length')" 0
  until_so 60 conditions_are NvidiaDriverReady "True True"
  ready_pods kmodsmith-agent 2
}

@test "a budget that blocks: kubelet, containerd and API server start again meanwhile, and no pod of a workload is lost" {
  local stays number
  budget 2
  machines_load "$old"
  run chart upgrade "$(pools "$old")"
  assert_success
  until_so 120 waits evicting pdb-blocked
  stays=$(pods_of web .metadata.uid)
  for number in 1 2; do
    node_stop "$number" kubelet
    node_stop "$number" containerd
  done
  server_stop kube-apiserver
  sleep 15
  kube_again
  until_so 120 nodes_ready
  until_so 120 waits evicting pdb-blocked
  assert_equal "$(pods_of web .metadata.uid)" "$stays"
  budget 1
  until_so 240 have "$old" 2
  until_so 60 running web 2
}

@test "a power cut while pods are evicted: the node boots without a driver, its agent loads what it had, and then the target" {
  local node
  budget 2
  machines_load "$new"
  run chart upgrade "$(pools "$new")"
  assert_success
  until_so 120 waits evicting pdb-blocked
  node=$("$KMODSMITH" rollout status --json | jq -r '.nodes[] | select(.state == "evicting") | .node')
  node_cut "${node#node-}"
  until_so 120 conditions_are Ready "$([ "$node" = node-1 ] && echo Unknown True || echo True Unknown)"
  machines_load "$old" # its agent loads what it had
  node_boot "${node#node-}"
  until_so 120 nodes_ready
  until_so 120 loads_are "$old $old"
  machines_load "$new"
  budget 1
  until_so 300 have "$new" 2
  assert_equal "$(loaded)" "$new $new"
  assert_equal "$(kube GET /api/v1/nodes | jq '[.items[] | select(.spec.unschedulable)] | length')" 0
}

@test "an image that cannot be pulled: drivers and pods stay, and why says what the pod of the silent agent waits for" {
  local node stays target
  stays=$(pods_of web .metadata.uid)
  is_silent_held() { "$KMODSMITH" rollout status --json | jq -e '.nodes[] | select(.state == "held" and .reason == "agent-silent")'; }
  why() { run "$KMODSMITH" rollout why "$node" --namespace kmodsmith && [[ ${lines[0]} == *"$1"* ]]; }
  run chart upgrade "$(pools "$new")" --set images.runtime.tag=none
  assert_success
  kube DELETE "/api/v1/namespaces/kmodsmith/pods?labelSelector=app.kubernetes.io%2Fcomponent%3Dagent" >/dev/null
  until_so 120 ready_pods kmodsmith-agent 0
  for target in "${new%.*}.99" "$old"; do # the second one is in the stores of both
    run chart upgrade "$(pools "$target" '{"deadlines": {"ack": "20s"}}')" --set images.runtime.tag=none
    assert_success
    until_so 180 is_silent_held
    node=$(is_silent_held | jq -rs '.[0].node')
    until_so 120 why "driver: ImagePullBackOff"
    assert_equal "$(pods_of web .metadata.uid)" "$stays"
    assert_equal "$(kube GET /api/v1/nodes | jq '[.items[] | select(.spec.unschedulable)] | length')" 0
  done
  assert_equal "$(loaded)" "$new $new"
  run chart upgrade "$(pools "$new")"
  assert_success
  until_so 120 ready_pods kmodsmith-agent 2
}

@test "helm uninstall: pods go, drivers and Nodes stay as they are" {
  run "$HELM" uninstall kmodsmith -n kmodsmith --timeout 3m
  assert_success
  until_so 60 nobody
  assert_equal "$(loaded)" "$new $new"
  assert_equal "$(kube GET /api/v1/nodes | jq '[.items[] | select(.spec.unschedulable)] | length')" 0
}
