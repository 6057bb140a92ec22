#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A roll-out, end to end: a real kube-apiserver with etcd, two coordinators, and the agents of twelve nodes: two are virtual
# machines with NVIDIA's real modules, ten are recorded machines whose kernel is written down. From 535.216.03 to 535.261.03 in
# two waves, then a target that no kernel takes, which is undone by itself.
#   make demo-cluster
# shellcheck disable=SC2154 # the helpers of the tests set old and new
set -euo pipefail
cd "$(dirname "$0")/.."
unset MAKEFLAGS MAKELEVEL MFLAGS
say() { printf '\n== %s\n' "$*"; }
say "1. what is needed on this machine (apt), and kmodsmith itself"
scripts/deps.sh build vm cluster
make -s -j"$(nproc)"
say "2. kube-apiserver from the Go modules of Kubernetes (minutes, the first time)"
export KUBE_APISERVER
KUBE_APISERVER=$(tests/cluster/tools/build.sh kube-apiserver)

export SERVERS_LIVE=3600
work=$PWD/build/demo-cluster home=$HOME
rm -rf "$work" && mkdir -p "$work"
# shellcheck source=tests/cluster/outside.bash
. tests/cluster/outside.bash "$work" helper agent rollout
vms="11 12" count=12 pids=() timeline=
finish() {
  kill $timeline 2>/dev/null || true
  farm_clean
  for pid in "${pids[@]}"; do kill -- "-$pid" 2>/dev/null || true; done
  kube_stop
}
vm_start() { # NUMBER: what its agent and its kubelet need, and the machine
  local files=$work/n$1
  mkdir "$files"
  kube POST /api/v1/nodes "{\"metadata\": {\"name\": \"$(name_of "$1")\", \"labels\": {\"canary\": \"true\"}}}" >/dev/null
  name_of "$1" >"$files/name"
  echo "${KUBE/127.0.0.1/10.0.2.2}" >"$files/url"
  agent_config "$1" | sed "s|127\.0\.0\.1|10.0.2.2|; s|$CA|/beside/ca.pem|" >"$files/config"
  cp "$SERVERS"/{ca.pem,admin.pem,admin.key} "$files"
  HOME=$home NODE_FILES=$files setsid tests/vm/machine tests/vm/demo-cluster.guest.sh >"$work/$(name_of "$1").log" 2>&1 &
  pids+=($!)
}
timeline() { # what the coordinators tell as Events, as it comes
  local uid at node line
  local -A seen=()
  while sleep 1; do
    while IFS=$'\t' read -r uid at node line; do
      [ -z "${seen[$uid]-}" ] || continue
      seen[$uid]=yes
      printf '%4d s  %-7s %s\n' $((at - $(<"$work/begun"))) "$node" "$line"
    done < <(kube GET /api/v1/namespaces/default/events | jq -r '.items | sort_by(.metadata.resourceVersion | tonumber) | .[] |
      [.metadata.uid, (.metadata.creationTimestamp | fromdateiso8601), .involvedObject.name, .message] | @tsv')
  done
}
begin() { echo "$EPOCHSECONDS" >"$work/begun"; } # the clock of the timeline
show() { # VERB...: as kubectl's plugin; first the timeline comes to its end
  sleep 2
  printf '\n# kubectl kmodsmith %s\n' "$*"
  "$work/kubectl-kmodsmith" "$@" --namespace kube-system
}
drivers() { nodes '.[] | "\(.metadata.name) \(.metadata.annotations["kmodsmith.io/agent.loaded"] // "- -")"' | awk '{ print $3 }' | sort | uniq -c; }

say "3. API server, rights, and twelve nodes with $old"
kube_start
trap finish EXIT
for file in rbac.yaml agent-policy.yaml coordinator.yaml; do deploy "$file"; done
ln -s "$KMODSMITH" "$work/kubectl-kmodsmith"
farm_make 10 2>"$work/farm.log"
begin
waves='.pools[0] += {maxParallel: 4, waves: [{name: "canary", selector: {canary: "true"}, soak: "10s"}, {name: "main", percent: 100}]}
  | del(.pools[].target.flavour)'
policy "$old" "$waves"
for i in $vms; do vm_start "$i"; done
farm_start
coordinator_start a
coordinator_start b
timeline &
timeline=$!
all_at_least "done" "$count" 300
sleep 2
drivers

say "4. a job computes on gpu-12; the policy's target is now $new: first the canaries, ten seconds later all others"
farm_loads "$new"
pod training 12
begin
policy "$new" "$waves"
sleep 5
all_at_least "done" "$count" 600
show status
drivers
[ "$(drivers | awk '{ print $1, $2 }')" = "$count $new" ] || fail "not all nodes have $new"

say "5. a target that no kernel takes: a parameter with a wrong value"
begin
policy "$new" "$waves | .pools[0].target.parameters = {NVreg_DeviceFileMode: \"wrong\"}"
all_at_least rolledback 1 300
show status
show why gpu-11
show undo gpus
all_at_least "done" "$count" 120
[ "$(drivers | awk '{ print $1, $2 }')" = "$count $new" ] || fail "not all nodes have $new"
[ -z "$(cordoned)" ] || fail "still cordoned: $(cordoned)"

say "6. the two machines, seen from inside, before they end"
for i in $vms; do kube DELETE "/api/v1/nodes/$(name_of "$i")" >/dev/null; done
for ((i = 0; i < 60; i++)); do
  [ "$(grep -c '^GCC version' "$work"/gpu-1[12].log | grep -c ':1$')" -lt 2 ] || break
  sleep 1
done
for i in $vms; do sed -n "/^# $(name_of "$i"): kmodsmith status/,\$p" "$work/$(name_of "$i").log"; done
printf '\ndone\n'
