#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What a token of deploy/ can do that was stolen from a node, as a table; and that each right that is granted is used.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # bats runs each test in a subshell; the helpers set and use what is here
load helper

leases=/apis/coordination.k8s.io/v1/namespaces
setup_file() {
  local name
  kube_start
  [ -z "${KUBE_LACKS-}" ] || return 0
  for name in rbac agent-policy coordinator coordinator-policy; do deploy $name.yaml; done
  for name in gpu1 gpu2; do
    kube POST /api/v1/nodes "{\"metadata\": {\"name\": \"$name\", \"labels\": {\"a\": \"b\"}}}" >/dev/null
  done
  for name in agent builder coordinator; do account "kmodsmith-$name" "$name" gpu1 >"$BATS_FILE_TMPDIR/$name"; done
  for name in kube-system/kube-scheduler kmodsmith/kmodsmith-coordinator; do lease_of "$name" master1_0 60; done
  for name in kmodsmith-policy kmodsmith-rollout other; do
    kube POST /api/v1/namespaces/kmodsmith/configmaps "{\"metadata\": {\"name\": \"$name\"}}" >/dev/null
  done
  settled
}
teardown_file() { kube_stop; }
setup() { kube_needed; }
lease_json() { # NAMESPACE/NAME HOLDER SECONDS: as it would be written over what is there
  local version
  version=$(kube GET "$leases/${1%/*}/leases/${1#*/}" | jq -r '.metadata.resourceVersion // ""')
  jq -nc --arg name "${1#*/}" --arg holder "$2" --argjson seconds "$3" --arg version "$version" '{metadata: {name: $name,
    resourceVersion: $version}, spec: {holderIdentity: $holder, leaseDurationSeconds: $seconds, renewTime: "2099-01-01T00:00:00.000000Z"}}'
}
lease_of() { # NAMESPACE/NAME HOLDER SECONDS: as an administrator's kmodsmith
  kube DELETE "$leases/${1%/*}/leases/${1#*/}" >/dev/null
  curl -sSA kmodsmith/1 --cacert "$CA" --cert "$SERVERS/admin.pem" --key "$SERVERS/admin.key" -H "Content-Type: application/json" \
    -d "$(lease_json "$@")" "$KUBE$leases/${1%/*}/leases" | jq -e '.kind == "Lease"' >/dev/null
}
asks() { # WHO METHOD PATH [JSON]: the answer's code, 200 when it has none, and its words
  curl -sSA "${PROGRAM-kmodsmith/1}" --cacert "$CA" -H "Authorization: Bearer $(<"$BATS_FILE_TMPDIR/$1")" -X "$2" \
    -H "Content-Type: application/$([ "$2" != PATCH ] || echo merge-patch+)json" ${4:+-d "$4"} "$KUBE$3" |
    jq -r 'if .kind == "Status" and .status == "Failure" then "\(.code) \(.message)" else "200" end'
}
puts() { asks "$1" PUT "$leases/${2%/*}/leases/${2#*/}" "$(lease_json "${@:2}")"; }    # WHO NAMESPACE/NAME HOLDER SECONDS
makes() { asks "$1" POST "$leases/${2%/*}/leases?dryRun=All" "$(lease_json "${@:2}")"; } # likewise
policy_counts() { [[ $(asks "$1" PATCH "/api/v1/nodes/gpu2?dryRun=All" '{"metadata": {"labels": {"x": "y"}}}') != 200 ]]; } # for WHO
settled() { # a policy counts a moment after it was made
  local who
  for who in agent coordinator; do soon policy_counts "$who"; done
}
table() { # METHOD PATH|JSON|AGENT|BUILDER|COORDINATOR: 200, or a part of the refusal
  local call json row rows name who wanted answer count=0
  while IFS='|' read -r call json row; do
    IFS='|' read -ra rows <<<"$row"
    for who in 0 1 2; do
      wanted=${rows[who]} name=$(cut -d' ' -f$((who + 1)) <<<"agent builder coordinator")
      # shellcheck disable=SC2086 # METHOD and PATH
      answer=$(asks "$name" $call "$json")
      [[ $answer == *"$wanted"* ]] || fail "$name $call $json: '$answer' is not '$wanted'"
      count=$((count + 1))
    done
  done
  echo "$count"
}

@test "rights: a table of tokens and objects: another Node, the cluster, and others' keys on the own Node" {
  local n=/api/v1/nodes maps=/api/v1/namespaces/kmodsmith/configmaps events=/api/v1/namespaces/default/events
  local pods=/api/v1/namespaces/kmodsmith/pods node='"involvedObject": {"kind": "Node", "name"' theirs='may only write the annotations kmodsmith.io/agent.*'
  run table <<END
GET $n/gpu1||200|200|200
GET $n||403|403|200
GET $n?watch=true&fieldSelector=metadata.name%3Dgpu1&timeoutSeconds=1||200|200|200
DELETE $n/gpu1||403|403|403
PATCH $n/gpu1?dryRun=All|{"metadata": {"annotations": {"kmodsmith.io/agent.ack": "x"}}}|200|200|except kmodsmith.io/agent.*
PATCH $n/gpu2?dryRun=All|{"metadata": {"annotations": {"kmodsmith.io/agent.ack": "x"}}}|belongs to a pod on gpu1|belongs to a pod on gpu1|except kmodsmith.io/agent.*
PATCH $n/gpu1?dryRun=All|{"metadata": {"annotations": {"kmodsmith.io/go": "1.3:replace:none"}}}|$theirs|$theirs|200
PATCH $n/gpu1?dryRun=All|{"metadata": {"annotations": {"somebody.else/key": "x"}}}|$theirs|$theirs|annotations of the rollout
PATCH $n/gpu1?dryRun=All|{"metadata": {"labels": {"kmodsmith.io/state": "done"}}}|must not change labels|must not change labels|200
PATCH $n/gpu1?dryRun=All|{"metadata": {"labels": {"nvidia.com/gpu.deploy.dcgm": "paused-for-driver-upgrade"}}}|must not change labels|must not change labels|200
PATCH $n/gpu1?dryRun=All|{"metadata": {"labels": {"a": null}}}|must not change labels|must not change labels|labels of the rollout
PATCH $n/gpu1?dryRun=All|{"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}|must not change labels|must not change labels|labels of the rollout
PATCH $n/gpu1?dryRun=All|{"spec": {"unschedulable": true}}|must not cordon|must not cordon|200
PATCH $n/gpu1?dryRun=All|{"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}|may only remove the taint|may only remove the taint|only change spec.unschedulable
PATCH $n/gpu1?dryRun=All|{"metadata": {"finalizers": ["a.b/c"]}}|must not change finalizers|must not change finalizers|must not change finalizers
PATCH $n/gpu1/status?dryRun=All|{"status": {"phase": "Terminated"}}|must not change the status|must not change the status|403
PATCH $n/gpu1/status?dryRun=All|{"status": {"conditions": [{"type": "NvidiaDriverReady", "status": "True"}]}}|200|200|403
GET $maps/kmodsmith-policy||403|403|200
GET $maps/other||403|403|403
PATCH $maps/kmodsmith-policy?dryRun=All|{"data": {"policy.json": "{}"}}|403|403|403
PUT $maps/kmodsmith-policy?dryRun=All|{"metadata": {"name": "kmodsmith-policy"}}|403|403|403
PUT $maps/kmodsmith-rollout?dryRun=All|{"metadata": {"name": "kmodsmith-rollout"}}|403|403|200
DELETE $maps/kmodsmith-rollout||403|403|403
POST $maps?dryRun=All|{"metadata": {"name": "more"}}|403|403|may only write the ConfigMap
POST /api/v1/namespaces/kube-system/configmaps?dryRun=All|{"metadata": {"name": "kmodsmith-rollout"}}|403|403|403
GET /api/v1/pods||403|403|200
GET $pods/agent||403|403|403
DELETE $pods/agent||403|403|403
POST $pods?dryRun=All|{"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}|403|403|403
POST $pods/agent/eviction?dryRun=All|{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "agent"}}|403|403|200
GET /api/v1/namespaces/kmodsmith/secrets||403|403|403
GET /api/v1/namespaces/kube-system/secrets||403|403|403
POST /api/v1/namespaces/kmodsmith/serviceaccounts/kmodsmith-coordinator/token|{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}|403|403|403
POST $events?dryRun=All|{"metadata": {"generateName": "gpu1."}, $node: "gpu1"}}|200|200|200
POST $events?dryRun=All|{"metadata": {"generateName": "gpu2."}, $node: "gpu2"}}|may only create Events about its own Node|may only create Events about its own Node|200
GET $leases/kube-system/leases/kube-scheduler||403|403|403
GET $leases/kmodsmith/leases/kmodsmith-coordinator||403|403|200
END
  assert_success
  assert_output 111
}

@test "rights: Leases of the control plane, of the coordinator with its ledger, and of other builders' compiles" {
  local who compile=kmodsmith-compile/kmodsmith-compile-1
  for who in agent builder coordinator; do
    [[ $(puts $who kube-system/kube-scheduler gpu1_1 60) == 403* ]]
    [[ $(makes $who kube-system/kmodsmith-compile-9 gpu1_1 60) == 403* ]]
    [[ $(makes $who default/kmodsmith-compile-9 gpu1_1 60) == 403* ]]
    [[ $(asks $who DELETE "$leases/kmodsmith/leases/kmodsmith-coordinator") == 403* ]]
  done
  for who in agent builder; do
    [[ $(puts $who kmodsmith/kmodsmith-coordinator gpu1_1 60) == 403* ]]
    [[ $(makes $who kmodsmith/kmodsmith-compile-9 gpu1_1 60) == 403* ]]
  done
  lease_of $compile gpu2_1 60
  for who in agent coordinator; do [[ $(puts $who $compile gpu1_1 60) == 403* ]]; done
  assert_equal "$(puts coordinator kmodsmith/kmodsmith-coordinator gpu1_1 60)" 200
  [[ $(makes coordinator kmodsmith/other gpu1_1 60) == *"may only write the ConfigMap"* ]]

  # A builder of gpu1: that of gpu2 compiles.
  [[ $(puts builder $compile gpu1_1 60) == *"the Lease is held by gpu2_1"* ]]
  [[ $(puts builder $compile "" 60) == *"may only take or release a Lease for itself"* ]]
  [[ $(puts builder $compile gpu2_2 60) == *"may only take or release a Lease for itself"* ]]
  [[ $(asks builder DELETE "$leases/kmodsmith-compile/leases/kmodsmith-compile-1") == 403* ]]
  # What the request says of times and writers is not believed.
  forged() { # JQ
    asks builder PUT "$leases/kmodsmith-compile/leases/kmodsmith-compile-1" "$(kube GET "$leases/kmodsmith-compile/leases/kmodsmith-compile-1" |
      jq -c ".spec.holderIdentity = \"gpu1_1\" | .metadata.managedFields |= ($1)")"
  }
  [[ $(forged '.[0].time = "2099-01-01T00:00:00Z"') == *"the Lease is held by gpu2_1"* ]]
  [[ $(forged "[]") == *"only kmodsmith may write"* ]]
  [[ $(forged '. + [.[0] + {time: "2099-01-01T00:00:00Z", manager: "x"}]') == *"only kmodsmith may write"* ]]
  [[ $(forged '. + [.[0] + {time: "2099-01-01T00:00:00Z", subresource: "status"}]') == *"only kmodsmith may write"* ]]
  [[ $(forged '. + [.[0] + {time: "2099-01-01T00:00:00Z", apiVersion: "coordination.k8s.io/v1beta1"}]') == *"the Lease is held by gpu2_1"* ]]
  [[ $(PROGRAM=curl/1 forged '.[0].time = "2099-01-01T00:00:00Z"') == *"only kmodsmith may write"* ]]
  assert_equal "$(kube GET "$leases/kmodsmith-compile/leases/kmodsmith-compile-1" | jq -r .spec.holderIdentity)" gpu2_1
  # It is given back, or its holder is silent for as long as it says; its own is its own.
  lease_of $compile "" 60
  assert_equal "$(puts builder $compile gpu1_1 60)" 200
  assert_equal "$(puts builder $compile gpu1_1 60)" 200
  assert_equal "$(puts builder $compile "" 60)" 200
  lease_of $compile gpu2_1 2
  sleep 3.1
  assert_equal "$(puts builder $compile gpu1_1 60)" 200
  # Nobody can be kept from it without end, and nothing else is made.
  [[ $(puts builder $compile gpu1_1 999999) == *"must be less than 3600"* ]]
  assert_equal "$(makes builder kmodsmith-compile/kmodsmith-compile-9 gpu1_1 60)" 200
  [[ $(makes builder kmodsmith-compile/kmodsmith-compile-9 gpu2_1 60) == *"may only take or release a Lease for itself"* ]]
  [[ $(makes builder kmodsmith-compile/other gpu1_1 60) == *"may only write Leases of compiles"* ]]
  [[ $(makes agent kmodsmith-compile/kmodsmith-compile-9 gpu1_1 60) == 403* ]]
}

@test "rights: the commands look in the namespace kmodsmith, and say where an older install has its policy" {
  local before=/api/v1/namespaces/kube-system/configmaps
  kube DELETE /api/v1/namespaces/kmodsmith/configmaps/kmodsmith-policy >/dev/null
  unset ROOT # a cluster, not a machine
  run "$KMODSMITH" rollout status --kubeconfig "$KUBECONFIG"
  assert_output --partial "there is neither a DriverRollout nor a ConfigMap kmodsmith-policy in the namespace kmodsmith; see --namespace"
  refute_output --partial kube-system
  kube POST "$before" '{"metadata": {"name": "kmodsmith-policy"}}' >/dev/null
  run "$KMODSMITH" rollout status --kubeconfig "$KUBECONFIG"
  assert_output --partial "the namespace kube-system has one, of an older installation: see deploy/namespace.yaml for how to move it"
}
