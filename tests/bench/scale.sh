#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# P8 and P9: thousands of nodes. First whole rollouts on the simulated API server, where every call is counted and time is
# virtual; then a real kube-apiserver with etcd and NODES Node objects of real size: the memory of the coordinator, its
# calls at rest while kubelets tell their status (counted by the API server's audit log), a rollout of a fifth of the
# nodes whose agents are played by one program, and how long it takes until another coordinator leads and has read all.
#   tests/bench/scale.sh KMODSMITH    with NODES=5000, TAKEOVERS=3 (of each kind)
# shellcheck disable=SC1010,SC2154 # "done" is a state here; the helpers of the tests set the rest
set -euo pipefail
KMODSMITH=$(realpath "$1") nodes=${NODES:-5000} takeovers=${TAKEOVERS:-3}
top=$(cd "$(dirname "$0")/../.." && pwd) programs=$(dirname "$KMODSMITH")/bench
KUBE_APISERVER=$("$top/tests/cluster/tools/build.sh" kube-apiserver)
work=$(mktemp -d)
export KMODSMITH KUBE_APISERVER SERVERS_LIVE=3600
# shellcheck source=tests/cluster/outside.bash
. "$top/tests/cluster/outside.bash" "$work" helper
end() { for pid in "$work"/*.pid; do kill "$(<"$pid")" 2>/dev/null || true; done; kube_stop; rm -rf "$work"; }
trap end EXIT

where=real
row() { # ID UNIT CASE VALUE [LOW HIGH]
  printf 'row\t%s\t%s\t%s\t%s\t%s' "$1" "$3" "$where, $nodes nodes" "$2" "$4"
  printf '\t%s' "${@:5}"
  echo
}
simulated() { # TEXT ID UNIT CASE: a row of what scale.c has printed
  where=simulated nodes=$n row "${@:2}" "$(sed -nE "s/^ *$1 +([0-9.]+).*/\1/p" "$work/simulated")"
}
for n in "$nodes" $((2 * nodes)); do
  echo "simulated: $n nodes, 500 at once, a pod on every tenth"
  "$programs/scale" "$n" 500 | tee "$work/simulated"
  simulated "patches by the coordinator" P8 "" "patches of a node by the coordinator"
  simulated "calls at rest, for an hour" P8 "" "calls a second at rest"
  simulated "writes on nodes at rest" P8 "" "writes on nodes at rest"
done

start_server() {
  printf '%s\n' 'apiVersion: audit.k8s.io/v1' 'kind: Policy' 'omitStages: [RequestReceived]' \
    'rules: [{level: None, userGroups: ["system:apiserver"]}, {level: Metadata}]' >"$work/audit.yaml"
  kube_start --etcd-compaction-interval=30s --audit-policy-file="$work/audit.yaml" --audit-log-path="$work/audit" \
    --audit-log-maxbackup=0 --audit-log-maxsize=4000
  deploy rbac.yaml
  deploy coordinator.yaml
  key_pair crowd crowd -newkey ec -pkeyopt ec_paramgen_curve:P-256 -CA "$CA" -CAkey "$SERVERS/ca.key" \
    -subj /O=system:masters/CN=crowd -addext basicConstraints=CA:FALSE -addext extendedKeyUsage=clientAuth
  kube_config crowd >"$work/crowd.config"
  kube_config_token "$(account kmodsmith-coordinator)" >"$work/coordinator.config"
}
crowd() { KUBECONFIG=$work/crowd.config "$programs/crowd" "$@"; }
coordinator() { # NAME
  "$KMODSMITH" coordinator --kubeconfig "$work/coordinator.config" --identity "$1" --metrics "$work/$1.prom" \
    >"$work/$1.log" 2>&1 </dev/null &
  echo $! >"$work/$1.pid"
  disown $! # that it is killed is no news
}
agent() { # of a recorded machine with 8 GPUs
  cp -a "$top/tests/hosts/h100x8" "$work/host"
  echo '{"pools": [{"name": "none", "target": {"driver": "1.0"}}]}' >"$work/policy.json"
  kube POST /api/v1/nodes '{"metadata": {"name": "one"}}' >/dev/null
  "$KMODSMITH" agent --root "$work/host" --policy "$work/policy.json" --node one --kubeconfig "$KUBECONFIG" \
    >"$work/agent.log" 2>&1 </dev/null &
  echo $! >"$work/agent.pid"
}
until_read() { # NAME: it leads, and has read and planned everything
  local i
  for ((i = 0; i < 2400; i++)); do
    [ ! -s "$work/$1.prom" ] || return 0
    sleep 0.05
  done
  tail -n 5 "$work/$1.log" >&2
  return 1
}
calls() { # JQ: how many requests of the log fit, since reset_calls
  jq -c "select($1)" "$work/audit" | wc -l
}
reset_calls() { : >"$work/audit"; }
of_coordinator='(.user.username == "system:serviceaccount:kmodsmith:kmodsmith-coordinator")'
policy() { # ZONE LIMIT
  local text
  text=$(jq -nc --arg zone "$1" --argjson n "$2" '{maxUnavailable: $n, maxParallel: $n, maxStaging: $n, pools: [{name: "gpus",
    maxUnavailable: $n, maxParallel: $n, selector: {"topology.kubernetes.io/zone": $zone}, target: {driver: "535.2", flavour: "open"}}]}')
  kube POST /api/v1/namespaces/kmodsmith/configmaps "$(jq -nc --arg p "$text" \
    '{metadata: {name: "kmodsmith-policy"}, data: {"policy.json": $p}}')" >/dev/null
}
per() { awk -v a="$1" -v b="$2" 'BEGIN {printf "%.3f", a / b}'; }
status_of() { awk -v key="$2:" '$1 == key { printf "%.1f", $2 / 1024 }' "/proc/$(<"$work/$1.pid")/status"; } # NAME KEY: MiB
median() { printf '%s\n' "$@" | sort -n | awk '{ v[NR] = $1 } END { printf "%s\t%s\t%s", v[int((NR + 1) / 2)], v[1], v[NR] }'; }

echo "kube-apiserver and etcd: $nodes nodes"
start_server
crowd make "$nodes"
row P8 bytes "size of a Node, as the server lists it" \
  "$(per "$(kube GET '/api/v1/nodes?limit=100' | jq -c '.items[]' | wc -c)" 100 | cut -d. -f1)"
crowd play 45 # what agents tell first
coordinator a
until_read a
row P8 MiB "memory of the coordinator after the first reading, VmHWM" "$(status_of a VmHWM)"
agent # on a Node of its own
sleep 10
reset_calls
crowd beat 60
row P8 "" "calls a second at rest, beside $((nodes / 300)) heartbeats a second" "$(per "$(calls "$of_coordinator")" 60)"
row P8 "" "writes on nodes at rest" "$(calls "$of_coordinator and .verb == \"patch\"")"
row P9 "" "writes of an agent at rest" "$(calls '.objectRef.name == "one" and .verb == "patch"')"
row P9 MiB "memory of an agent, VmHWM" "$(status_of agent VmHWM)"
row P9 MiB "of it its own, RssAnon" "$(status_of agent RssAnon)"
kill "$(<"$work/agent.pid")"
row P8 s "resync, processor time (rollout status, which reads everything)" \
  "$( (TIMEFORMAT='%U %S' && time "$KMODSMITH" rollout status --kubeconfig "$KUBECONFIG" --namespace kmodsmith >/dev/null 2>&1) 2>&1 |
    awk '{ print $1 + $2 }')"

count=$((nodes / 5)) began=$SECONDS
echo "a rollout of $count of them, 500 at once"
reset_calls
policy region-1a 500
crowd play 1500 done "$count" 2>"$work/played" || { tail -n 2 "$work/played" >&2 && exit 1; }
row P8 s "a rollout of $count of them, 500 at once" $((SECONDS - began))
row P8 "" "patches of a node by the coordinator" "$(per "$(calls "$of_coordinator and .verb == \"patch\"")" "$count")"
row P8 "" "writes of a node by its agent" "$(per "$(calls '.user.username == "crowd" and .verb == "patch"')" "$count")"
row P8 "" "events of a node" "$(per "$(calls "$of_coordinator and .verb == \"create\"")" "$count")"
row P8 "" "writes of the Lease, all in all" "$(calls "$of_coordinator and .objectRef.resource == \"leases\" and .verb == \"update\"")"
row P8 "" "refused calls" "$(calls "$of_coordinator and .responseStatus.code >= 400")"
row P8 MiB "memory of the coordinator in a rollout, VmHWM" "$(status_of a VmHWM)"

leader=a other=b
coordinator b
sleep 3
for signal in KILL TERM; do
  times=()
  for ((i = 0; i < takeovers; i++)); do
    rm -f "$work/$other.prom"
    began=$(date +%s%N)
    kill -$signal "$(<"$work/$leader.pid")"
    until_read "$other"
    times+=("$(per $(($(date +%s%N) - began)) 1000000000)")
    coordinator "$leader"
    sleep 6
    read -r leader other <<<"$other $leader"
  done
  row P8 s "take-over after SIG$signal, everything read" "$(median "${times[@]}")"
done
