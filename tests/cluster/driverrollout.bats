#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The policy as a DriverRollout on the real API server: what it refuses by itself, what it tells of the fields, and what the
# coordinator makes of it, with the rights of deploy/ and no others. tests/unit/sim_driverrollout_test.c has the scenes.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # bats runs each test in a subshell; the helpers set and use what is here
load helper
load agent
load rollout

OBJECTS=/apis/kmodsmith.io/v1alpha1/namespaces/kmodsmith/driverrollouts
OBJECT=$OBJECTS/kmodsmith-policy
setup_file() {
  kube_start --runtime-config=admissionregistration.k8s.io/v1=true
  deploy rbac.yaml
  deploy agent-policy.yaml
  deploy coordinator.yaml
  deploy_kind
}
teardown_file() { kube_stop; }
setup() { kube_needed; }
teardown() {
  [ -z "${FARM-}" ] || farm_clean
  kube DELETE $OBJECT >/dev/null
}

rollout() { # [JQ]: an object with one pool
  jq -n --arg driver "$new" "{apiVersion: \"kmodsmith.io/v1alpha1\", kind: \"DriverRollout\", metadata: {name: \"kmodsmith-policy\"},
    spec: {pools: [{name: \"gpus\", maxUnavailable: \"50%\", target: {driver: \$driver, flavour: \"open\"}}]}} | ${1-.}"
}
condition() { kube GET $OBJECT | jq -r --arg t "$1" '.status.conditions[]? | select(.type == $t) | "\(.status) \(.reason)"'; } # TYPE
until_condition() { # TYPE STATUS-REASON SECONDS: of the generation of now
  local end=$((SECONDS + $3))
  until kube GET $OBJECT | jq -e --arg t "$1" --arg w "$2" '.metadata.generation as $g | any(.status.conditions[]?;
    .type == $t and "\(.status) \(.reason)" == $w and .observedGeneration == $g)' >/dev/null; do
    sleep 0.5
    ((SECONDS < end)) || { show_logs && fail "$1 is not '$2' after $3 s: $(kube GET $OBJECT | jq -c .status)"; }
  done
}
@test "the API server refuses an invalid policy, with the field" {
  while IFS=';' read -r filter text; do
    run kube POST "$OBJECTS?fieldValidation=Strict" "$(rollout "$filter")"
    assert_equal "$(jq -r .kind <<<"$output")" Status
    assert_output --partial "$text"
  done <<'END'
.spec.pools[0].maxParalel = 1;unknown field \"spec.pools[0].maxParalel\"
.spec.pools[0].maxUnavailable = "110%";spec.pools[0].maxUnavailable
.spec.pools[0].maxUnavailable = "some";spec.pools[0].maxUnavailable
.spec.pools[0].deadlines.evict = 0;spec.pools[0].deadlines.evict
.spec.pools[0].target.driver = "new";spec.pools[0].target.driver
.spec.pools[0].target.driver = "570.86.15-open";spec.pools[0].target.driver
.spec.pools[0].target.flavour = "closed";spec.pools[0].target.flavour: Unsupported value
.spec.pools[0].target.parameters = {NVreg_A: "a,b"};spec.pools[0].target.parameters.NVreg_A
.spec.pools[0].target.package = "latest";spec.pools[0].target.package
del(.spec.pools[0].target);spec.pools[0].target: Required value
.spec.pools = [];spec.pools
.spec.pools[1] = .spec.pools[0];pool names must be unique
.spec.pools[1] = (.spec.pools[0] | .name = "b" | .selector = {a: "b"});must be the last one
.spec.pools[1] = (.spec.pools[0] | .name = "b");only one pool may have no selector
.spec.pools[0].zoneByZone = true;zoneByZone requires zoneLabel
.spec.pools[0].waves = [{name: "a"}];must have exactly one of selector, percent and count
.spec.pools[0].waves = [{name: "a", percent: 60}, {name: "b", percent: 50}];must not add up to more than 100
.spec.pools[0].waves = [{name: "rest", count: 1}];rest is the reserved name
.spec.pools[0].windows = [{from: "24:00", to: "01:00"}];spec.pools[0].windows[0].from
.spec.pools[0].drain.evict = "some";spec.pools[0].drain.evict
.metadata.name = "other";the name must be kmodsmith-policy
END
}

@test "defaults are filled in, and every field has a description" {
  run kube POST "$OBJECTS?fieldValidation=Strict" "$(rollout '.spec.pools[0].deadlines = {} | .spec.pools[0].waves = [{name: "a", percent: 10, soak: 60}]')"
  assert_equal "$(jq -c '[.spec.maxStaging, .spec.pools[0].maxParallel, .spec.pools[0].deadlines.evict, .spec.pools[0].waves[0].approval]' \
    <<<"$output")" '[20,1,"30m","auto"]'
  run kube GET /openapi/v3/apis/kmodsmith.io/v1alpha1
  assert_equal "$(jq -r '.components.schemas["io.kmodsmith.v1alpha1.DriverRollout"].properties.spec.properties.pools.items.properties
    .breaker.properties.inARow.description' <<<"$output")" "Number of nodes that failed in a row."
  kubectl_found || return 0 # its explain prints that document
  run kubectl --kubeconfig "$KUBECONFIG" explain driverrollout.spec.pools.drain.evict
  assert_output --partial "DaemonSet pods and static pods are never evicted"
  run kubectl --kubeconfig "$KUBECONFIG" -n kmodsmith get driverrollouts
  assert_line --regexp '^NAME +DRIVER +NODES +DONE +FAILED +ACCEPTED +COMPLETE +HALTED +AGE'
}

@test "from the spec to the last node: conditions move, a typo is reported, and the ConfigMap is ignored" {
  farm_make 2
  farm_loads "$new"
  farm_start
  kube POST $OBJECTS "$(rollout)" >/dev/null
  coordinator_start a
  until_condition Accepted "True Accepted" 60
  until_condition Progressing "True RollingOut" 60
  until_condition Complete "True AllNodesDone" 120
  assert_equal "$(condition Halted)" "False NotHalted"
  assert_equal "$(versions)" "$new $new"
  assert_equal "$(kube GET $OBJECT | jq -c '[.status.driver, .status.nodes, .status.done, .status.failed]')" "[\"$new\",2,2,0]"
  if kubectl_found; then
    run kubectl --kubeconfig "$KUBECONFIG" -n kmodsmith wait driverrollout/kmodsmith-policy --for=condition=Complete --timeout=10s
    assert_success
    run kubectl --kubeconfig "$KUBECONFIG" -n kmodsmith get driverrollout kmodsmith-policy
    assert_line --regexp "^kmodsmith-policy +$new +2 +2 +0 +True +True +False "
  fi
  metric a 'kmodsmith_policy_accepted 1'
  kubectl_kmodsmith status
  assert_line --partial "there is a DriverRollout, and the ConfigMap kmodsmith-policy is ignored"
  run kube GET /api/v1/namespaces/kmodsmith/events
  assert_equal "$(jq -r '.items[] | select(.reason == "PolicyIgnored") | .involvedObject.kind' <<<"$output")" ConfigMap
  # What the schema lets through and the coordinator does not; nothing is moved by it, and it is said.
  kube PATCH $OBJECT '{"spec": {"pools": [{"name": "gpus", "target": {"driver": "1.0", "parameters": {"nvdia:x": "1"}}}]}}' \
    application/merge-patch+json >/dev/null
  until_condition Accepted "False InvalidPolicy" 30
  assert_equal "$(condition Complete)" "False InvalidPolicy"
  assert_equal "$(count_in "done")" 2
  metric a 'kmodsmith_policy_accepted 0'
  kubectl_kmodsmith status
  assert_line --partial "policy: refused, the last good one stays in force: pools[0].target.parameters: 'nvdia' is not a module of the NVIDIA driver"
  run kube GET /api/v1/namespaces/kmodsmith/events
  assert_equal "$(jq -r '.items[] | select(.reason == "PolicyRefused") | .involvedObject.kind' <<<"$output")" DriverRollout
  kubectl_kmodsmith pause
  kube GET $OBJECT >"$BATS_TEST_TMPDIR/object"
  run jq -r '.metadata.annotations["kmodsmith.io/pause"]' "$BATS_TEST_TMPDIR/object"
  assert_output --regexp '^20.*Z by '
}
