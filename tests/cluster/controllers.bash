# shellcheck shell=bash disable=SC2154 # the other helpers set what is used here
# SPDX-License-Identifier: Apache-2.0
# The real kube-controller-manager and kube-scheduler beside the API server of helper.bash, and of a kubelet what they need:
# pods that were scheduled run, those whose end has begun end, and a node that is not $BATS_TEST_TMPDIR/silent-NODE renews its Lease.
# Load it after rollout.bash.
controllers_start() {
  local port
  [ -z "${KUBE_LACKS-}" ] || return 0
  port=$(free_port)
  server_run kube-controller-manager "$port" "$KUBE_CONTROLLER_MANAGER" --kubeconfig="$KUBECONFIG" --leader-elect=false \
    --bind-address=127.0.0.1 --secure-port="$port" --node-monitor-grace-period=30s --node-monitor-period=2s \
    --controllers=deployment-controller,replicaset-controller,daemonset-controller,disruption-controller,node-lifecycle-controller
  port=$(free_port)
  server_run kube-scheduler "$port" "$KUBE_SCHEDULER" --kubeconfig="$KUBECONFIG" --leader-elect=false \
    --bind-address=127.0.0.1 --secure-port="$port"
}
controllers_stop() {
  local name
  for name in kube-scheduler kube-controller-manager; do [ ! -e "$SERVERS/$name.pid" ] || server_stop "$name"; done
}

merge() { kube PATCH "$1" "$2" application/merge-patch+json >/dev/null; } # PATH JSON
lease() { # NODE
  local path=/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases spec
  spec="{\"holderIdentity\": \"$1\", \"leaseDurationSeconds\": 40, \"renewTime\": \"$(date -u +%Y-%m-%dT%H:%M:%S.%6NZ)\"}"
  kube PATCH "$path/$1" "{\"spec\": $spec}" application/merge-patch+json | jq -e '.kind == "Lease"' >/dev/null ||
    kube POST "$path" "{\"metadata\": {\"name\": \"$1\"}, \"spec\": $spec}" >/dev/null
  merge "/api/v1/nodes/$1/status" '{"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
    "capacity": {"cpu": "8", "memory": "16Gi", "pods": "50", "nvidia.com/gpu": "3"},
    "allocatable": {"cpu": "8", "memory": "16Gi", "pods": "50", "nvidia.com/gpu": "3"}}}'
}
pods() { kube GET /api/v1/pods | jq -r ".items[] | select((.spec.nodeName // \"\") | startswith(\"gpu$BATS_TEST_NUMBER-\")) | $1"; } # JQ
kubelet() {
  local namespace name i due=0
  while sleep 0.5; do
    policy_mounted
    for ((i = 1; i <= FARM && SECONDS >= due; i++)); do
      [ -e "$BATS_TEST_TMPDIR/silent-$(name_of "$i")" ] || lease "$(name_of "$i")"
    done
    ((SECONDS < due)) || due=$((SECONDS + 3))
    while read -r namespace name; do
      kube DELETE "/api/v1/namespaces/$namespace/pods/$name?gracePeriodSeconds=0" >/dev/null
    done < <(pods 'select(.metadata.deletionTimestamp) | "\(.metadata.namespace) \(.metadata.name)"')
    while read -r namespace name; do
      merge "/api/v1/namespaces/$namespace/pods/$name/status" '{"status": {"phase": "Running",
        "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]}}'
    done < <(pods 'select(.status.phase == "Pending" and .metadata.deletionTimestamp == null) | "\(.metadata.namespace) \(.metadata.name)"')
  done
}

until_so() { # SECONDS COMMAND...: until it succeeds
  local end=$((SECONDS + $1))
  until "${@:2}" >/dev/null; do
    sleep 0.5
    ((SECONDS < end)) || { show_logs && fail "not so after $1 s: ${*:2}"; }
  done
}
has() { kube GET "$1" | jq -e "$2"; } # PATH JQ
workload() { # KIND NAME [REPLICAS]: pods that ask for a GPU
  kube POST "/apis/apps/v1/namespaces/default/$1" "$(jq -n --arg name "$2" --argjson replicas "${3:-null}" '{metadata: {name: $name},
    spec: ({selector: {matchLabels: {app: $name}}, template: {metadata: {labels: {app: $name}}, spec: {containers:
      [{name: "c", image: "i", resources: {limits: {"nvidia.com/gpu": "1"}}}]}}} + if $replicas then {replicas: $replicas} else {} end)}')" |
    jq -e '.kind != "Status"' >/dev/null
}
budget() { # NAME SPEC: of the workload of that name
  kube POST /apis/policy/v1/namespaces/default/poddisruptionbudgets \
    "{\"metadata\": {\"name\": \"$1\"}, \"spec\": {\"selector\": {\"matchLabels\": {\"app\": \"$1\"}}, $2}}" | jq -e '.kind != "Status"' >/dev/null
}
allows() { # NAME COUNT: as the disruption controller counts
  has "/apis/policy/v1/namespaces/default/poddisruptionbudgets/$1" \
    ".status.observedGeneration == .metadata.generation and .status.disruptionsAllowed == $2 and .status.currentHealthy == .status.expectedPods"
}
uids() { kube GET "/api/v1/namespaces/default/pods?labelSelector=app%3D$1" | jq -r '[.items[].metadata.uid] | sort | join(" ")'; } # NAME
