#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Each right of deploy/ is one that the programs use, and they ask for nothing else: a rollout and a compile with the rights
# of deploy/ and their admission policies, and then what the API server noted of them.
# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2154 # jq has variables; bats runs each test in a subshell; the helpers set and use what is here
load helper
load agent
load rollout

setup_file() {
  local file
  mkdir -p "$SERVERS"
  printf 'apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata, omitStages: [RequestReceived]}]\n' >"$SERVERS/audit.yaml"
  registry_start plain
  kube_start --audit-policy-file="$SERVERS/audit.yaml" --audit-log-path="$SERVERS/audit"
  for file in rbac agent-policy coordinator coordinator-policy validation build-cronjob uninstall-job; do deploy $file.yaml; done
  deploy_kind
}
teardown_file() { kube_stop; }
setup() { kube_needed; }
teardown() { [ -z "${FARM-}" ] || farm_clean; }
of_us='select(.user.username | startswith("system:serviceaccount:kmodsmith:kmodsmith-"))'
agent_config() { # NUMBER: of the second node as a builder's
  local who=agent
  [ "$1" = 1 ] || who=builder
  kube_config_token "$(account "kmodsmith-$who" "agent-$(name_of "$1")" "$(name_of "$1")")"
}
before_uninstall() {
  kube_config_token "$(account kmodsmith-uninstall)" >"$BATS_TEST_TMPDIR/uninstall.config"
  run -0 timeout 120 "$KMODSMITH" rollout pause --wait --ignore-not-found --kubeconfig "$BATS_TEST_TMPDIR/uninstall.config"
  assert_line "paused: no new node is begun; nodes in progress continue"
}
noted() { jq -r "$of_us | $1" "$SERVERS/audit"; } # JQ

@test "rights: a rollout, with a pod that claims a GPU, and a second coordinator that waits" {
  farm_make 2
  farm_loads "$new"
  farm_start
  coordinator_start a
  until grep -q leading "$BATS_TEST_TMPDIR/coordinator-a.log"; do sleep 0.2; done
  coordinator_start b
  kube PATCH "/api/v1/nodes/$(name_of 1)" '{"metadata": {"labels": {"nvidia.com/gpu.deploy.dra-driver": "true"}}}' application/merge-patch+json >/dev/null
  pod train 1
  kube POST /api/v1/namespaces/default/pods "{\"metadata\": {\"name\": \"claims\", \"ownerReferences\": [{\"apiVersion\": \"apps/v1\",
    \"kind\": \"ReplicaSet\", \"name\": \"x\", \"uid\": \"x\", \"controller\": true}]}, \"spec\": {\"nodeName\": \"$(name_of 1)\",
    \"resourceClaims\": [{\"name\": \"gpu\", \"resourceClaimName\": \"c1\"}], \"containers\": [{\"name\": \"c\", \"image\": \"i\"}]}}" >/dev/null
  policy "$new"
  all_are "done" 120
  before_uninstall
}

@test "rights: a job of the user's own as the last word, which the API server takes as it is made" {
  local pods=/api/v1/namespaces/kmodsmith-validation/pods left
  farm_make 1
  kube POST /api/v1/namespaces/kmodsmith-validation/podtemplates '{"metadata": {"name": "vectoradd"}, "template": {"spec":
    {"containers": [{"name": "c", "image": "i"}]}}}' >/dev/null
  kube PATCH "/api/v1/nodes/$(name_of 1)/status" '{"status": {"allocatable": {"nvidia.com/gpu": "8"}}}' application/merge-patch+json >/dev/null
  farm_loads "$new"
  farm_start
  coordinator_start a
  policy "$new" '.pools[0].validation = {template: "vectoradd"}'
  left() { kube GET "$pods" | jq '.items | length'; }
  until [ "$(left)" = 1 ]; do sleep 0.5; done
  assert_equal "$(count_in releasing)" 1
  run -0 kube GET "$pods"
  assert_equal "$(jq -c '.items[0].spec | [.automountServiceAccountToken, .restartPolicy, .activeDeadlineSeconds,
    .containers[0].resources.limits["nvidia.com/gpu"], .containers[0].terminationMessagePolicy]' <<<"$output")" \
    '[false,"Never",600,"8","FallbackToLogsOnError"]'
  kube PATCH "$pods/$(jq -r '.items[0].metadata.name' <<<"$output")/status" '{"status": {"phase": "Succeeded"}}' application/merge-patch+json >/dev/null
  all_are "done" 60
  until [ "$(left)" = 0 ]; do sleep 0.5; done
}

@test "rights: the policy as a DriverRollout" {
  farm_make 1
  farm_loads "$new"
  farm_start
  coordinator_start a
  until grep -q leading "$BATS_TEST_TMPDIR/coordinator-a.log"; do sleep 0.2; done
  jq -n --arg driver "$new" '{apiVersion: "kmodsmith.io/v1alpha1", kind: "DriverRollout", metadata: {name: "kmodsmith-policy"},
    spec: {pools: [{name: "gpus", target: {driver: $driver, flavour: "open"}}]}}' >"$BATS_TEST_TMPDIR/object"
  kube POST /apis/kmodsmith.io/v1alpha1/namespaces/kmodsmith/driverrollouts "$(cat "$BATS_TEST_TMPDIR/object")" >/dev/null
  all_are "done" 120
  before_uninstall
  kube DELETE /apis/kmodsmith.io/v1alpha1/namespaces/kmodsmith/driverrollouts/kmodsmith-policy >/dev/null
}

@test "rights: Events and conditions of an agent and of a builder about their Nodes" {
  local who
  loadable
  mkdir -p "$ROOT/boot" "$ROOT/lib/modules/6.1.0-57-cloud-amd64/kernel"
  cp "$ROOT"/lib/modules/6.1.0-{56,57}-cloud-amd64/config
  touch "$ROOT/lib/modules/6.1.0-57-cloud-amd64"/modules.{builtin,order,dep,dep.bin}
  echo image >"$ROOT/boot/vmlinuz-6.1.0-57-cloud-amd64"
  for who in agent builder; do
    kube POST /api/v1/nodes "{\"metadata\": {\"name\": \"of-$who\"}}" >/dev/null
    kube_config_token "$(account "kmodsmith-$who" "reports-$who" "of-$who")" >"$BATS_TEST_TMPDIR/config"
    NODE_NAME=of-$who kmodsmith watch --once --driver 535.261.03 --kubeconfig "$BATS_TEST_TMPDIR/config"
    assert_status 1
    refute [ "${stderr#*is not told}" != "$stderr" ]
    kmodsmith report --once --node "of-$who" --kubeconfig "$BATS_TEST_TMPDIR/config" --json
    assert_status 0
    assert_equal "$(jq -c '[.node, .conditions[].reason]' <<<"$output")" "[\"of-$who\",\"NoRunYet\",\"NoPackage\"]"
    run -0 kube GET "/api/v1/nodes/of-$who"
    assert_equal "$(jq -c '[.status.conditions[] | [.type, .status]]' <<<"$output")" \
      '[["NvidiaDriverReady","Unknown"],["NvidiaDriverNextKernel","False"]]'
  done
  assert_equal "$(kube GET /api/v1/namespaces/default/events | jq -r '.items[] | select(.reason == "NextKernelUnservable") | .involvedObject.name' | sort | paste -sd' ')" \
    "of-agent of-builder"
}

@test "rights: builders and a node that waits for them, by Leases of kmodsmith-compile" {
  local i who
  load nodes
  nodes_make
  who=(- builder builder agent)
  for i in 1 2 3; do kube_config_token "$(account "kmodsmith-${who[i]}" "pod$i" "node$i")" >"config.$i"; done
  node 1 --kubeconfig config.1
  node 2 --kubeconfig config.2
  role='' share_key=''
  node 3 --kubeconfig config.3
  ended 3
  assert_equal "$(compiles)" 1
  run cat log.3
  assert_output --regexp 'node[12]_[0-9a-f]* compiles it; waiting for the package|pushed'
  run noted 'select(.objectRef.resource == "leases" and .objectRef.namespace == "kmodsmith-compile" and .verb == "create") | .user.username'
  assert_line system:serviceaccount:kmodsmith:kmodsmith-builder
}

@test "rights: the build job lists the nodes, and a build reads what it wrote" {
  local name
  for name in of-build-1 of-build-2 of-build-3; do
    kube POST /api/v1/nodes "{\"metadata\": {\"name\": \"$name\", \"labels\": {\"of\": \"build\", \"n\": \"${name##*-}\"},
      \"annotations\": {\"kmodsmith.io/agent.kernels\": \"[\\\"6.6.$name\\\"]\", \"others\": \"$(printf %0200d 0)\"}},
      \"status\": {\"images\": [{\"names\": [\"i\"]}], \"nodeInfo\": {\"kernelVersion\": \"6.1.$name\", \"architecture\": \"amd64\"}}}" >/dev/null
  done
  kube_config_token "$(account kmodsmith-build)" >"$BATS_TEST_TMPDIR/config"
  kmodsmith "rollout nodes" --selector 'of=build,n in (1,2)' --output "$BATS_TEST_TMPDIR/nodes.json" --kubeconfig "$BATS_TEST_TMPDIR/config"
  assert_status 0
  assert_equal "$(jq -c '[.kind, .items[].metadata.name]' "$BATS_TEST_TMPDIR/nodes.json")" '["List","of-build-1","of-build-2"]'
  assert_equal "$(jq '[.. | .images?, .others? | values] | length' "$BATS_TEST_TMPDIR/nodes.json")" 0
  echo "{\"drivers\": [{\"source\": \"$BATS_TEST_TMPDIR\"}]}" >"$BATS_TEST_TMPDIR/matrix.json"
  kmodsmith build --matrix "$BATS_TEST_TMPDIR/matrix.json" --nodes "$BATS_TEST_TMPDIR/nodes.json" --state-dir "$BATS_TEST_TMPDIR/state" \
    --output "oci:$BATS_TEST_TMPDIR/out" --json
  assert_equal "$(jq -c '[.pairs[].kernel] | sort' <<<"$output")" '["6.1.of-build-1","6.1.of-build-2","6.6.of-build-1","6.6.of-build-2"]'
  echo '{"pools": [{"name": "gpus", "selector": {"n": "1"}, "target": {"driver": "535.1"}}]}' >"$BATS_TEST_TMPDIR/policy.json"
  kmodsmith "rollout plan" --policy "$BATS_TEST_TMPDIR/policy.json" --nodes - --json < <(
    "$KMODSMITH" rollout nodes -q --kubeconfig "$BATS_TEST_TMPDIR/config")
  assert_status 0
  kmodsmith "rollout nodes" --selector of=nothing --kubeconfig "$BATS_TEST_TMPDIR/config"
  assert_error E_NOT_FOUND "no node has the labels 'of=nothing'"
  kmodsmith "rollout nodes" --selector 'a,,==' --kubeconfig "$BATS_TEST_TMPDIR/config"
  assert_error E_KUBE "cannot list the nodes: "
}

@test "rights: nothing was refused, and nothing is granted that was not used" {
  local seldom
  run noted 'select(.responseStatus.code == 403 or (.responseStatus.message // "" | test("ValidatingAdmissionPolicy"))) |
    "\(.user.username) \(.verb) \(.requestURI): \(.responseStatus.message)"'
  assert_output ""
  noted '.objectRef as $o | "\(.user.username | sub(".*:"; "")) " +
    "\($o.apiGroup // "")/\($o.resource)\(if $o.subresource then "/" + $o.subresource else "" end) \($o.namespace // "-") \(.verb)"' |
    sort -u >"$BATS_TEST_TMPDIR/used"
  python3 -c 'import sys, yaml
docs = [d for path in sys.argv[1:] for d in yaml.safe_load_all(open(path))]
for binding in (d for d in docs if d["kind"].endswith("Binding") and "roleRef" in d):
    space = binding["metadata"].get("namespace")
    role = next(d for d in docs if d["kind"] == binding["roleRef"]["kind"] and d["metadata"] == binding["metadata"] | {"name": binding["roleRef"]["name"]})
    for who in binding["subjects"]:
        for rule in role["rules"]:
            for verb in rule["verbs"]:
                for kind in rule["resources"]:
                    print("^%s %s/%s %s %s$" % (who["name"], rule["apiGroups"][0], kind, space or "[^ ]*", verb))' \
    "$top"/deploy/{rbac,coordinator,validation,build-cronjob,uninstall-job}.yaml >"$BATS_TEST_TMPDIR/granted"
  assert [ "$(wc -l <"$BATS_TEST_TMPDIR/granted")" -gt 20 ]
  while read -r line; do grep -q "$line" "$BATS_TEST_TMPDIR/used" || echo "$line"; done <"$BATS_TEST_TMPDIR/granted" >"$BATS_TEST_TMPDIR/unused"
  seldom=('^kmodsmith-coordinator /nodes [^ ]* get$') # only when a patch lost a race, see the simulation
  kube GET /apis/resource.k8s.io | jq -e '.kind == "APIGroup"' >/dev/null || # no claims in 1.30
    seldom+=('^kmodsmith-coordinator resource.k8s.io/resourceclaims [^ ]* get$' '^kmodsmith-coordinator resource.k8s.io/resourceslices [^ ]* list$')
  run grep -vxF -f <(printf '%s\n' "${seldom[@]}") "$BATS_TEST_TMPDIR/unused"
  assert_output ""
}
