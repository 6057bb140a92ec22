# shellcheck shell=bash disable=SC2034,SC2154 # the tests use what is set here; the other helpers set the rest
# SPDX-License-Identifier: Apache-2.0
# Some nodes with their agents, each a recorded machine of its own (agent.bash) below $BATS_TEST_TMPDIR/nN, and coordinators.
in_node() { # NUMBER COMMAND...: with the variables of that machine
  local tmp=$BATS_TEST_TMPDIR/n$1
  BATS_TEST_TMPDIR=$tmp ROOT=$tmp/host repository=$tmp/repository node=$(name_of "$1") "${@:2}"
}
name_of() { echo "gpu$BATS_TEST_NUMBER-$1"; }
farm_make() { # COUNT
  local i
  FARM=$1
  kube DELETE /api/v1/namespaces/kmodsmith/configmaps/kmodsmith-rollout >/dev/null
  kube DELETE /apis/coordination.k8s.io/v1/namespaces/kmodsmith/leases/kmodsmith-coordinator >/dev/null
  kube POST /api/v1/namespaces/kmodsmith/configmaps '{"metadata": {"name": "kmodsmith-policy"}, "data": {"policy.json": "{}"}}' >/dev/null
  echo '{"pools": [{"name": "none", "target": {"driver": "1.0"}}]}' >"$BATS_TEST_TMPDIR/policy.json"
  for ((i = 1; i <= FARM; i++)); do
    mkdir "$BATS_TEST_TMPDIR/n$i"
    node_make "$i"
    in_node "$i" agent_machine
  done
  kubelet 3>&- 4>&- &
  echo $! >"$BATS_TEST_TMPDIR/kubelet.pid"
}
node_make() { # NUMBER
  kube POST /api/v1/nodes "{\"metadata\": {\"name\": \"$(name_of "$1")\", \"labels\": {\"nvidia.com/gpu.deploy.dcgm\": \"true\"}}}" >/dev/null
  kube PATCH "/api/v1/nodes/$(name_of "$1")/status" '{"status": {"conditions": [{"type": "Ready", "status": "True"}]}}' \
    application/merge-patch+json >/dev/null
}
agent_config() { # NUMBER: with the rights of the agent of that node
  kube_config_token "$(account kmodsmith-agent "agent-$(name_of "$1")" "$(name_of "$1")")"
}
policy_mounted() { # agents have the policy in force as the file that they mount
  kube GET /api/v1/namespaces/kmodsmith/configmaps/kmodsmith-rollout | jq -rj '.data["policy.json"] // ""' >"$BATS_TEST_TMPDIR/policy.new"
  [ ! -s "$BATS_TEST_TMPDIR/policy.new" ] || cmp -s "$BATS_TEST_TMPDIR/policy.new" "$BATS_TEST_TMPDIR/policy.json" ||
    mv "$BATS_TEST_TMPDIR/policy.new" "$BATS_TEST_TMPDIR/policy.json"
}
kubelet() { # pods of these nodes whose end has begun end
  local path
  while sleep 0.5; do
    policy_mounted
    kube GET /api/v1/namespaces/default/pods | jq -r --argjson count "$FARM" '.items[] |
      select(.metadata.deletionTimestamp and (.spec.nodeName | sub(".*-"; "") | tonumber) <= $count) | .metadata.name' |
      while read -r path; do
        kube DELETE "/api/v1/namespaces/default/pods/$path?gracePeriodSeconds=0" >/dev/null
      done
  done
}
farm_loads() { local i; for ((i = 1; i <= FARM; i++)); do in_node "$i" loads "$1"; done; } # VERSION
farm_start() { # the agents
  local i
  for ((i = 1; i <= FARM; i++)); do
    agent_config "$i" >"$BATS_TEST_TMPDIR/n$i/config"
    policy=$BATS_TEST_TMPDIR/policy.json AGENT_CONFIG=$BATS_TEST_TMPDIR/n$i/config in_node "$i" agent_start
  done
}
farm_clean() {
  local i pid
  for pid in "$BATS_TEST_TMPDIR"/coordinator-*.pid "$BATS_TEST_TMPDIR/kubelet.pid"; do
    [ ! -e "$pid" ] || kill "$(<"$pid")" 2>/dev/null || true
  done
  for ((i = 1; i <= FARM; i++)); do
    in_node "$i" agent_kill
    kube DELETE "/api/v1/nodes/$(name_of "$i")" >/dev/null
  done
  kube DELETE /api/v1/namespaces/kmodsmith/configmaps/kmodsmith-policy >/dev/null
}
policy() { # VERSION [JQ]: one pool
  jq -n --arg driver "$1" "{maxUnavailable: \"50%\", pools: [{name: \"gpus\", maxUnavailable: \"50%\",
    target: {driver: \$driver, flavour: \"open\"}}]} | ${2-.}" >"$BATS_TEST_TMPDIR/policy.wanted"
  kube PATCH /api/v1/namespaces/kmodsmith/configmaps/kmodsmith-policy \
    "$(jq -n --rawfile text "$BATS_TEST_TMPDIR/policy.wanted" '{data: {"policy.json": $text}}')" application/merge-patch+json >/dev/null
}
coordinator_start() { # NAME
  kube_config_token "$(account kmodsmith-coordinator)" >"$BATS_TEST_TMPDIR/coordinator.config"
  "$KMODSMITH" coordinator --kubeconfig "$BATS_TEST_TMPDIR/coordinator.config" --identity "$1" \
    --metrics "$BATS_TEST_TMPDIR/$1.prom" --pulse-dir "$BATS_TEST_TMPDIR/$1.pulse" --listen 0 >"$BATS_TEST_TMPDIR/coordinator-$1.log" 2>&1 </dev/null 3>&- 4>&- &
  echo $! >"$BATS_TEST_TMPDIR/coordinator-$1.pid"
}
coordinator_kill() { # SIGNAL NAME
  kill "-$1" "$(<"$BATS_TEST_TMPDIR/coordinator-$2.pid")"
  rm "$BATS_TEST_TMPDIR/coordinator-$2.pid"
}
pod() { # NAME NODE: that asks for a GPU, of a ReplicaSet
  kube POST /api/v1/namespaces/default/pods "{\"metadata\": {\"name\": \"$1\", \"ownerReferences\": [{\"apiVersion\": \"apps/v1\",
    \"kind\": \"ReplicaSet\", \"name\": \"x\", \"uid\": \"x\", \"controller\": true}]}, \"spec\": {\"nodeName\": \"$(name_of "$2")\",
    \"containers\": [{\"name\": \"c\", \"image\": \"i\", \"resources\": {\"limits\": {\"nvidia.com/gpu\": \"1\"}}}]}}" | jq -e '.kind == "Pod"' >/dev/null
}
nodes() { kube GET /api/v1/nodes | jq -r "[.items[] | select(.metadata.name | startswith(\"gpu$BATS_TEST_NUMBER-\"))] | $1"; } # JQ
count_in() { nodes "map(select(.metadata.labels[\"kmodsmith.io/state\"] == \"$1\")) | length"; } # STATE
cordoned() { nodes '.[] | select(.spec.unschedulable) | .metadata.name'; }
node_versions() { nodes 'map(.metadata.resourceVersion) | join(" ")'; }
versions() { # of what is loaded, node after node
  local i
  for ((i = 1; i <= FARM; i++)); do sed -nE 's/^NVRM.*  (535[.0-9]*)  .*/\1/p' "$BATS_TEST_TMPDIR/n$i/host/proc/driver/nvidia/version"; done | paste -sd' '
}
metric() { # COORDINATOR PATTERN: a line of its metrics begins so
  grep -q "^$2" "$BATS_TEST_TMPDIR/$1.prom" || { cat "$BATS_TEST_TMPDIR/$1.prom" >&2; fail "no metric $2"; }
}
unloads() { in_node "$1" calls_of 'unload nvidia'; } # NODE
show_logs() { tail -n 15 "$BATS_TEST_TMPDIR"/coordinator-*.log "$BATS_TEST_TMPDIR"/n*/agent.log >&2; }
all_at_least() { # STATE COUNT SECONDS
  local end=$((SECONDS + $3))
  until [ "$(count_in "$1")" -ge "$2" ]; do
    sleep 0.5
    ((SECONDS < end)) || { show_logs && fail "not $2 nodes are '$1' after $3 s: $(nodes 'map(.metadata.labels["kmodsmith.io/state"]) | join(" ")')"; }
  done
}
all_are() { all_at_least "$1" "$FARM" "$2"; } # STATE SECONDS
until_some() { all_at_least "$1" 1 "$2"; }   # STATE SECONDS
kubectl_kmodsmith() { # VERB...: as kubectl calls its plugin
  ln -sf "$KMODSMITH" "$BATS_TEST_TMPDIR/kubectl-kmodsmith"
  KUBECONFIG=$KUBECONFIG run "$BATS_TEST_TMPDIR/kubectl-kmodsmith" "$@" --namespace kmodsmith
}
until_told() { # EVENT SECONDS: of any node of this test
  local end=$((SECONDS + $2))
  until kube GET /api/v1/namespaces/default/events | jq -e --arg e "$1" --arg n "gpu$BATS_TEST_NUMBER-" \
    'any(.items[]; .reason == $e and (.involvedObject.name | startswith($n)))' >/dev/null; do
    sleep 0.1
    ((SECONDS < end)) || { show_logs && fail "no event $1 after $2 s"; }
  done
}
renewed() { # until whoever leads has renewed its Lease twice: between the two, every 5 s, it has also thought of each node
  local count=0 last='' now end=$((SECONDS + 90))
  while ((count < 3)); do # the first one was there
    now=$(kube GET /apis/coordination.k8s.io/v1/namespaces/kmodsmith/leases/kmodsmith-coordinator | jq -r .spec.renewTime)
    [ "$now" = "$last" ] || count=$((count + 1))
    last=$now
    sleep 0.5
    ((SECONDS < end)) || { show_logs && fail "nobody renews the Lease: $now"; }
  done
}
count_of() { sed -n "s/^$2 //p" "$BATS_TEST_TMPDIR/$1.prom"; } # COORDINATOR METRIC
