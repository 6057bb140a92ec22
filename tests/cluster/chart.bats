#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The chart with helm itself: each example is installed into a real API server, changed and removed; its objects are those of deploy/,
# and a value that is wrong is refused by its name.
# shellcheck disable=SC2030,SC2031,SC2154 # bats runs each test in a subshell; bats sets output; the helpers set top and KUBECONFIG
load helper

setup_file() {
  export HELM HELM_LACKS='' work=$BATS_FILE_TMPDIR
  [ -z "${KUBE_LACKS-}" ] || return 0
  HELM=$(kept "$top/scripts/go-program.sh" helm.sh/helm/v3/cmd/helm 2>"$work/lacking") ||
    HELM_LACKS="there is no helm: $(tail -n 1 "$work/lacking")"
  kube_start --runtime-config=admissionregistration.k8s.io/v1=true --allow-privileged=true
  [ -n "$HELM_LACKS" ] || "$HELM" package "$BATS_TEST_DIRNAME/../../deploy/helm/kmodsmith" --destination "$work" >/dev/null 2>&1
}
teardown_file() { kube_stop; }
setup() {
  kube_needed
  [ -z "$HELM_LACKS" ] || skip "$HELM_LACKS"
  examples=$top/deploy/helm/examples chart=$(echo "$work"/kmodsmith-*.tgz)
}
teardown() { [ -n "${KUBE_LACKS-}$HELM_LACKS" ] || helm uninstall it first --no-hooks --ignore-not-found >/dev/null 2>&1; }
helm() { "$HELM" --kubeconfig "$KUBECONFIG" --namespace kmodsmith "$@"; }
rendered() { helm template it "$chart" --kube-version 1.33.0 "$@"; } # OPTION...
objects() { # of YAML documents: KIND NAMESPACE/NAME, one a line
  python3 -c 'import sys, yaml
for d in yaml.safe_load_all(sys.stdin):
    if d: print(d["kind"], d["metadata"].get("namespace", "-") + "/" + d["metadata"]["name"])' | sort
}
remaining() { # what of kmodsmith the API server has, beside what every namespace has
  local path
  for path in /apis/apps/v1/{daemonsets,deployments} /apis/rbac.authorization.k8s.io/v1/{roles,rolebindings,clusterroles,clusterrolebindings} \
    /apis/admissionregistration.k8s.io/v1/validatingadmissionpolic{ies,ybindings} /apis/policy/v1/poddisruptionbudgets \
    /apis/networking.k8s.io/v1/networkpolicies /api/v1/{configmaps,serviceaccounts,secrets}; do
    kube GET "$path" | jq -r '(.kind | sub("List$"; "")) as $kind | .items[].metadata | select(.name | test("kmodsmith|helm")) |
      "\($kind) \(.namespace // "-")/\(.name)"'
  done | sort
}

@test "lint has nothing to say, and each example gives objects of deploy/ and the two that it makes itself" {
  local example name
  for name in namespace rbac agent-policy coordinator-policy coordinator validation daemonset daemonset-agent daemonset-builder uninstall-job; do
    objects <"$top/deploy/$name.yaml"
  done | grep -vx 'Namespace -/kmodsmith' >"$BATS_TEST_TMPDIR/known"
  printf '%s\n' "ConfigMap kmodsmith/kmodsmith-parameters" "ConfigMap kmodsmith/kmodsmith-policy" "NetworkPolicy kmodsmith/kmodsmith" >>"$BATS_TEST_TMPDIR/known"
  for example in "$examples"/*.yaml; do
    run helm lint --strict "$chart" --kube-version 1.33.0 -f "$example"
    assert_success
    name=$(basename "$example" .yaml)
    rendered -f "$example" >"$BATS_TEST_TMPDIR/$name"
    run comm -13 <(sort -u "$BATS_TEST_TMPDIR/known") <(objects <"$BATS_TEST_TMPDIR/$name")
    assert_output ""
  done
  rendered --set mode=rollout,builders.enabled=true,driver.version=1.2.3,createNamespace=true,coordinator.validation=true \
    --set-json 'policy={"pools": []}' | objects >"$BATS_TEST_TMPDIR/all"
  run comm -23 <(grep -v 'kmodsmith-driver\|-parameters' "$BATS_TEST_TMPDIR/known" | sort) "$BATS_TEST_TMPDIR/all"
  assert_output ""
  assert_equal "$(grep -c . <(objects <"$BATS_TEST_TMPDIR/standalone"))" 3
  run grep -cE 'Deployment|coordinator' <(objects <"$BATS_TEST_TMPDIR/single-node")
  assert_output 0
}

@test "every object of every example keeps the rules that reviewers and their tools ask for" {
  local example
  for example in "$examples"/*.yaml; do rendered -f "$example" >"$BATS_TEST_TMPDIR/$(basename "$example")"; done
  rendered --set mode=rollout,builders.enabled=true,driver.version=1.2.3,createNamespace=true \
    --set metrics.podMonitor.enabled=true,metrics.rules.enabled=true,metrics.dashboards.enabled=true >"$BATS_TEST_TMPDIR/all.yaml"
  run python3 "$top/tests/cluster/chart_rules.py" "$BATS_TEST_TMPDIR"/*.yaml
  assert_output ""
  assert_success
  sed -i 's/drop:/keep:/; /app.kubernetes.io.part-of/d; s/^ *activeDeadlineSeconds:.*//; s/AlwaysAllow/IfHealthyBudget/' "$BATS_TEST_TMPDIR/all.yaml"
  run python3 "$top/tests/cluster/chart_rules.py" "$BATS_TEST_TMPDIR/all.yaml"
  assert_failure
  assert_line "all.yaml: Deployment kmodsmith-coordinator: labels"
  assert_line "all.yaml: Deployment kmodsmith-coordinator: container coordinator: drops all capabilities"
  assert_line "all.yaml: Job kmodsmith-uninstall: ends"
  assert_line "all.yaml: PodDisruptionBudget kmodsmith-coordinator: lets a broken pod go"
}

@test "values that an earlier version's chart took are rendered, also all of them as they stood there" {
  local values rendered=0
  for values in "$top"/tests/upgrade/*/values/*.yaml; do
    rendered -f "${values%/*}/values.yaml" -f "$values" --set-string driver.version=1.2.3,nodes.selector.pool=a >"$BATS_TEST_TMPDIR/made"
    grep -q 'pool: a' "$BATS_TEST_TMPDIR/made"
    rendered=$((rendered + 1))
  done
  [ "$rendered" -ge 7 ]
}

@test "what pages tell helm to set is rendered" {
  local options seen=0
  cd "$BATS_TEST_TMPDIR"
  echo key >site.pem
  while read -r options; do
    eval "rendered --set-string driver.version=1.2.3 --api-versions monitoring.coreos.com/v1 $options" >made
    seen=$((seen + 1))
    run grep -oE 'site.pem:|KMODSMITH_TRUST_DIR|kind: PodMonitor|image: registry.example/drivers/kmodsmith-driver:[0-9]' made
    case $options in
    *trust.keys*) assert_output "site.pem:"$'\n'"KMODSMITH_TRUST_DIR"$'\n'"image: registry.example/drivers/kmodsmith-driver:5" ;;
    *podMonitor*) assert_line "kind: PodMonitor" ;;
    *) assert_output "image: registry.example/drivers/kmodsmith-driver:5" ;;
    esac
  done < <(python3 "$top/tests/cli/pages.py" values "$top"/{README,docs/*}.md)
  [ "$seen" -ge 3 ]
}

@test "the driver's pods are those of deploy/ with what the values say, and nothing else" {
  python3 - "$top/deploy" <(rendered -f "$examples/standalone.yaml" --set-string 'trust.keys.site\.pem=key,from={docker://a/b,https://c}') \
    <(rendered -f "$examples/air-gapped.yaml") <(rendered -f "$examples/least-privilege.yaml") <(rendered -f "$examples/single-node.yaml") <<'END'
import sys, yaml
def pod(path):
    d, = [d for d in yaml.safe_load_all(open(path)) if d and d["kind"] == "DaemonSet"]
    p = d["spec"]["template"]["spec"]
    return p, p["containers"][0], {e["name"]: e.get("value") for e in p["containers"][0]["env"]}
deploy = sys.argv[1]
p, c, env = pod(sys.argv[2])
q, d, was = pod(deploy + "/daemonset.yaml")
assert env == {**was, "KMODSMITH_FROM": "docker://a/b,https://c", "KMODSMITH_TRUST_DIR": "/drivers"}, env
assert [t["matchExpressions"][0]["key"] for t in p["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]] == [
    "nvidia.com/gpu.present", *[f"feature.node.kubernetes.io/pci-{n}10de.present" for n in ("", "0302_", "0300_")]]
assert p["tolerations"] == q["tolerations"] + [{"key": "dedicated", "operator": "Exists"}]
for x in (p, q): x.pop("affinity", None), x.pop("tolerations")
for x in (c, d): x.pop("env"), x.pop("imagePullPolicy", None)
assert p == q, (p, q)
p, c, env = pod(sys.argv[3])
assert c["image"].startswith("registry.site.example/gpu/kmodsmith-driver:") and p["imagePullSecrets"] == [{"name": "kmodsmith-registry"}]
assert (env["KMODSMITH_FROM"], env["KMODSMITH_AUTH_FILE"], env["KMODSMITH_CA"], env["KMODSMITH_BUNDLE"]) == (
    "docker://registry.site.example/gpu", "/auth/.dockerconfigjson", "/ca", "/bundle.tar"), env
mounts = {m["name"]: m["mountPath"] for m in c["volumeMounts"]}
volumes = {v["name"]: v for v in p["volumes"]}
assert mounts == {"parameters": "/drivers", "auth": "/auth", "ca": "/ca", "bundle": "/bundle.tar"} and set(volumes) == set(mounts)
assert volumes["parameters"]["configMap"]["name"] == "kmodsmith-site" and volumes["bundle"]["hostPath"] == {"path": "/srv/kmodsmith/site.tar", "type": "File"}
p, c, env = pod(sys.argv[4])
assert c["image"].endswith("@sha256:" + 64 * "0") and c["securityContext"] == pod(deploy + "/daemonset-unprivileged.yaml")[1]["securityContext"]
p, c, env = pod(sys.argv[5])
assert [v["configMap"]["name"] for v in p["volumes"] if v["name"] == "policy"] == ["kmodsmith-policy"]
END
}

@test "values reach the pods that they are of, beside what deploy/ asks, and no label that is selected by" {
  cat >"$BATS_TEST_TMPDIR/site.yaml" <<'END'
mode: rollout
driver: {version: "1.2.3"}
fullnameOverride: gpus
nodes:
  nodeSelector: {pool: a}
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: Exists}]}]}}}
  gpuLabels: [gpu, npu]
  tolerations: [{key: dedicated, operator: Exists}]
  priorityClassName: mine
  podAnnotations: {a: b}
  podLabels: {team: red}
  serviceAccount: {annotations: {role: puller}}
builders: {enabled: true, resources: {requests: {cpu: "4", memory: 8Gi}}, serviceAccount: {annotations: {role: pusher}}}
coordinator:
  nodeSelector: {pool: b}
  tolerations: [{key: control, operator: Exists}]
  affinity: {podAffinity: {}}
  resources: {requests: {cpu: 1m, memory: 1Mi}, limits: {memory: 99Mi}}
  podLabels: {team: blue}
  serviceAccount: {annotations: {role: none}}
END
  rendered -f "$BATS_TEST_TMPDIR/site.yaml" >"$BATS_TEST_TMPDIR/made"
  python3 - "$BATS_TEST_TMPDIR/made" <<'END'
import sys, yaml
objects = [d for d in yaml.safe_load_all(open(sys.argv[1])) if d]
def of(kind, name): return next(d for d in objects if (d["kind"], d["metadata"]["name"]) == (kind, name))
agent, builder = of("DaemonSet", "gpus-agent"), of("DaemonSet", "gpus-builder")
coordinator, job = of("Deployment", "gpus-coordinator"), of("Job", "kmodsmith-uninstall")
def pod(d): return d["spec"]["template"]["spec"]
terms = [[(e["key"], e["operator"]) for e in t["matchExpressions"]]
         for t in pod(agent)["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]]
assert terms == [[("kmodsmith.io/builder", "DoesNotExist"), ("zone", "Exists"), (label, "In")] for label in ("gpu", "npu")], terms
assert pod(agent)["nodeSelector"] == {"pool": "a"} and pod(builder)["nodeSelector"] == {"pool": "a", "kmodsmith.io/builder": "true"}
assert pod(agent)["tolerations"][-1] == {"key": "dedicated", "operator": "Exists"} and len(pod(agent)["tolerations"]) == 3
assert pod(agent)["priorityClassName"] == "mine" and pod(coordinator)["priorityClassName"] == "system-cluster-critical"
assert agent["spec"]["template"]["metadata"]["annotations"] == {"a": "b"}
assert agent["spec"]["template"]["metadata"]["labels"]["team"] == "red" and "team" not in agent["metadata"]["labels"]
assert agent["spec"]["selector"]["matchLabels"] == {"app.kubernetes.io/name": "kmodsmith-agent"}
assert pod(agent)["containers"][0]["resources"]["requests"]["cpu"] == "20m" and pod(builder)["containers"][0]["resources"]["requests"]["cpu"] == "4"
for d in (coordinator, job):
    assert pod(d)["nodeSelector"] == {"pool": "b"} and pod(d)["tolerations"] == [{"key": "control", "operator": "Exists"}]
    assert d["spec"]["template"]["metadata"]["labels"]["team"] == "blue"
assert pod(coordinator)["containers"][0]["resources"]["limits"] == {"memory": "99Mi"} and pod(job)["containers"][0]["resources"]["limits"] == {"memory": "64Mi"}
assert len(pod(coordinator)["affinity"]) == 2
roles = {name: of("ServiceAccount", "kmodsmith-" + name)["metadata"]["annotations"]["role"] for name in ("agent", "builder", "coordinator", "uninstall")}
assert roles == {"agent": "puller", "builder": "pusher", "coordinator": "none", "uninstall": "none"}, roles
END
}

@test "values of an older chart, and names that went, never stop an upgrade" {
  mkdir "$BATS_TEST_TMPDIR/old"
  tar -xf "$chart" -C "$BATS_TEST_TMPDIR/old"
  cp "$top/tests/cluster/chart-values.yaml" "$BATS_TEST_TMPDIR/old/kmodsmith/values.yaml"
  for options in driver.version=1.2.3 driver.version=1.2.3,privileged=false mode=rollout mode=rollout,builders.enabled=true,driver.version=1.2.3; do
    run helm template it "$BATS_TEST_TMPDIR/old/kmodsmith" --kube-version 1.33.0 --set "$options"
    assert_success
    echo "$output" >"$BATS_TEST_TMPDIR/made.yaml"
    run python3 "$top/tests/cluster/chart_rules.py" "$BATS_TEST_TMPDIR/made.yaml"
    assert_output ""
  done
  kube POST /api/v1/nodes '{"metadata": {"name": "gpu1", "labels": {"pool": "a"}}}' >/dev/null
  helm install it "$chart" -f "$examples/rollout.yaml" --set nodes.selector.pool=a --set-json nodes.gpuLabels=[] >/dev/null
  run helm upgrade it "$chart" -f "$examples/rollout.yaml" --set nodes.selector.pool=a
  assert_success
  assert_output --partial "WARNING: nodes.selector is nodes.nodeSelector now"
  assert_output --partial "Pods stay on all of them, as they were"
  run kube GET /apis/apps/v1/namespaces/kmodsmith/daemonsets/kmodsmith-agent
  assert_json '.spec.template.spec.nodeSelector.pool' a
  assert_json '[.. | .key? // empty] | map(select(contains("present"))) | length' 0
  run helm upgrade it "$chart" -f "$examples/rollout.yaml" --set-json 'nodes.gpuLabels=["nvidia.com/gpu.present"]'
  assert_success
  run kube GET /apis/apps/v1/namespaces/kmodsmith/daemonsets/kmodsmith-agent
  assert_json '[.. | .key? // empty] | map(select(contains("present"))) | length' 1
  kube DELETE /api/v1/nodes/gpu1 >/dev/null
}

@test "a value that is wrong is refused by its name" {
  local wrong why
  while IFS='|' read -r wrong why; do
    run rendered -f "$examples/standalone.yaml" --set-string "$wrong"
    assert_failure
    assert_output --partial "$why"
  done <<'EOF'
driver.versions=1|'/driver': additional properties 'versions' not allowed
mode=cluster|'/mode': value must be one of 'standalone', 'rollout'
registry=docker://x/y|'/registry': 'docker://x/y' does not match pattern
driver.version=latest|'/driver/version': 'latest' does not match pattern
from={x/y}|'/from/0': 'x/y' does not match pattern
env.lower=1|'lower' does not match pattern
metrics.dashboards.folder=x|'/metrics/dashboards': additional properties 'folder' not allowed
trust.keys.site=x|'site' does not match pattern
parameters.nvidia=x|'nvidia' does not match pattern
images.driver.digest=latest|'/images/driver/digest': 'latest' does not match pattern
driver.version=|which driver? Set driver.version
existingConfigMap=mine|leave these out
nodes.nodeselector.x=1|'/nodes': additional properties 'nodeselector' not allowed
nodes.tolerations[0].keys=x|'/nodes/tolerations/0': additional properties 'keys' not allowed
nodes.resources.request.cpu=1|'/nodes/resources': additional properties 'request' not allowed
nodes.podLabels.app\.kubernetes\.io/name=x|invalid propertyName 'app.kubernetes.io/name'
coordinator.affinity.nodeaffinity=x|'/coordinator/affinity': additional properties 'nodeaffinity' not allowed
builders.serviceAccount.name=x|'/builders/serviceAccount': additional properties 'name' not allowed
fullnameOverride=GPUs|'/fullnameOverride': 'GPUs' does not match pattern
EOF
  run rendered -f "$examples/standalone.yaml" --set builders.enabled=true
  assert_output --partial "policy and builders take effect with mode=rollout only"
  run rendered -f "$examples/rollout.yaml" --set privileged=false
  assert_output --partial "privileged=false takes effect with mode=standalone only"
  run "$HELM" template it "$chart" --namespace default --kube-version 1.33.0 -f "$examples/standalone.yaml"
  assert_output --partial "install into the namespace kmodsmith"
}

@test "metrics: every pod that has some is reachable for them, and for nothing else; without them nothing listens" {
  local example=$examples/rollout.yaml object
  python3 - <(rendered -f "$example" --set-json 'networkPolicy.metricsFrom=[{"namespaceSelector": {}}]' \
    --set metrics.podMonitor.enabled=true,metrics.podMonitor.labels.release=prom,metrics.rules.enabled=true,metrics.dashboards.enabled=true) \
    <(rendered -f "$example" --set metrics.enabled=false) "$top/deploy/monitoring" <(rendered -f "$examples/standalone.yaml" \
      --set metrics.rules.enabled=true,metrics.dashboards.enabled=true,metrics.dashboards.labels.team=gpus) <<'END'
import sys, yaml
def load(path): return [d for d in yaml.safe_load_all(open(path)) if d]
def pods(objects): return [d["spec"]["template"] for d in objects if d["kind"] in ("DaemonSet", "Deployment")]
def of(objects, kind): return [d for d in objects if d["kind"] == kind]
on, off = load(sys.argv[1]), load(sys.argv[2])
policy, = of(on, "NetworkPolicy")
assert policy["spec"]["ingress"] == [{"ports": [{"port": "metrics", "protocol": "TCP"}], "from": [{"namespaceSelector": {}}]}], policy
monitor, = of(on, "PodMonitor")
assert monitor["metadata"]["labels"]["release"] == "prom"
scraped = monitor["spec"]["selector"]["matchExpressions"][0]["values"]
endpoint, = monitor["spec"]["podMetricsEndpoints"]
for pod in pods(on):
    c = pod["spec"]["containers"][0]
    listen = [e["value"] for e in c["env"] if e["name"] == "KMODSMITH_LISTEN"]
    name = pod["metadata"]["labels"]["app.kubernetes.io/name"]
    assert bool(listen) == (name in scraped) == bool(c.get("ports")), (name, listen)
    if listen: assert c["ports"] == [{"name": endpoint["port"], "containerPort": int(listen[0][1:])}], c["ports"]
assert {p["metadata"]["labels"]["app.kubernetes.io/name"] for p in pods(on)} >= {"kmodsmith-agent", "kmodsmith-coordinator"}
for pod in pods(off):
    c = pod["spec"]["containers"][0]
    assert "ports" not in c and not [e for e in c["env"] if e["name"] == "KMODSMITH_LISTEN"]
policy, = of(off, "NetworkPolicy")
assert "ingress" not in policy["spec"] and policy["spec"]["policyTypes"] == ["Ingress"]
rules = {d["metadata"]["name"]: d["spec"] for d in of(on, "PrometheusRule")}
assert rules == {"kmodsmith-" + n: yaml.safe_load(open(f"{sys.argv[3]}/{n}.rules.yaml")) for n in ("nodes", "rollouts")}
alone = load(sys.argv[4])
assert [d["metadata"]["name"] for d in of(alone, "PrometheusRule")] == ["kmodsmith-nodes"]
def own(labels): return {k: v for k, v in labels.items() if "/" not in k}
def boards(objects): return {d["metadata"]["name"]: (own(d["metadata"]["labels"]), d["data"]) for d in of(objects, "ConfigMap") if "dashboard" in d["metadata"]["name"]}
def files(labels, *names): return {f"kmodsmith-dashboard-{n}": (labels, {f"kmodsmith-{n}.json": open(f"{sys.argv[3]}/dashboards/{n}.json").read()}) for n in names}
assert boards(on) == files({"grafana_dashboard": "1"}, "fleet", "node", "rollout"), boards(on).keys()
assert boards(alone) == files({"grafana_dashboard": "1", "team": "gpus"}, "fleet", "node"), boards(alone).keys()
END
  for object in rules dashboards podMonitor; do
    run rendered -f "$example" --set "metrics.enabled=false,metrics.$object.enabled=true"
    assert_output --partial "need metrics.enabled"
  done
}

complete() { # CONDITION...: as the controller of Jobs does
  kube PATCH /apis/batch/v1/namespaces/kmodsmith/jobs/kmodsmith-uninstall/status "$(jq -n --arg now "$(date -u +%FT%TZ)" \
    '{status: {startTime: $now, completionTime: $now, succeeded: 1,
      conditions: [$ARGS.positional[] | {type: ., status: "True", lastTransitionTime: $now}]}}' --args "$@")" application/merge-patch+json |
    jq -e '.kind == "Job"' >/dev/null
}
uninstall() { # helm's, with this test as the kubelet of its Job: with the rights of the Job's account
  local pid job=/apis/batch/v1/namespaces/kmodsmith/jobs/kmodsmith-uninstall words
  helm uninstall it --timeout 5m >"$BATS_TEST_TMPDIR/uninstall" 2>&1 3>&- &
  pid=$!
  until kube GET $job | jq -e '.kind == "Job"' >/dev/null || ! kill -0 "$pid" 2>/dev/null; do sleep 0.2; done
  if kill -0 "$pid" 2>/dev/null; then
    kube GET $job | jq -r '.spec.template.spec | .serviceAccountName, (.containers[0].command[1:] | join(" "))' >"$BATS_TEST_TMPDIR/job"
    { read -r account && read -ra words; } <"$BATS_TEST_TMPDIR/job"
    kube_config_token "$(kube POST "/api/v1/namespaces/kmodsmith/serviceaccounts/$account/token" \
      '{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}' | jq -r .status.token)" >"$BATS_TEST_TMPDIR/job.config"
    run timeout 120 "$KMODSMITH" "${words[@]}" --kubeconfig "$BATS_TEST_TMPDIR/job.config"
    echo "$output" >"$BATS_TEST_TMPDIR/job.log"
    [ "$status" -eq 0 ] || { kill "$pid" && fail "${words[*]}: $output"; }
    complete SuccessCriteriaMet Complete || complete Complete # 1.30 refuses the first one where a Job has no successPolicy
  fi
  wait "$pid" || fail "$(cat "$BATS_TEST_TMPDIR/uninstall")"
}

@test "each example is installed, changed and removed, and nothing of it is left" {
  local example before
  before=$(remaining)
  for example in "$examples"/*.yaml; do
    run helm install it "$chart" -f "$example"
    assert_success
    run kube GET /api/v1/namespaces/kmodsmith/configmaps/kmodsmith-policy
    if jq -e .data <<<"$output" >/dev/null; then
      jq -r '.data["policy.json"]' <<<"$output" >"$BATS_TEST_TMPDIR/policy.json"
      kmodsmith "rollout check-policy" "$BATS_TEST_TMPDIR/policy.json"
      assert_output --partial "pool gpus: driver 535.261.03"
    fi
    run helm upgrade it "$chart" -f "$example" --set-string env.KMODSMITH_HOLDERS=wait
    assert_success
    run helm get manifest it
    assert_output --partial KMODSMITH_HOLDERS
    uninstall
    assert_equal "$(remaining)" "$before"
  done
  kube GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions/driverrollouts.kmodsmith.io | jq -e .metadata.uid >/dev/null # helm leaves it
}

@test "from one mode to the other: the coordinator comes, the driver's DaemonSet goes, and the API server accepts both" {
  helm install it "$chart" -f "$examples/standalone.yaml" >/dev/null
  run helm upgrade it "$chart" -f "$examples/rollout.yaml" --set-string 'trust.keys.site\.pem=key'
  assert_success
  assert_output --partial "The policy is applied."
  refute_output --partial "No key is trusted here"
  assert_equal "$(kube GET /apis/apps/v1/namespaces/kmodsmith/daemonsets | jq -r '[.items[].metadata.name] | join(" ")')" kmodsmith-agent
  assert_equal "$(kube GET /apis/apps/v1/namespaces/kmodsmith/deployments/kmodsmith-coordinator | jq .spec.replicas)" 2
}

@test "an uninstall begins no further node, and waits for one that is drained" {
  local node='{"metadata": {"name": "gpu1", "labels": {"kmodsmith.io/state": "evicting"}}, "spec": {"unschedulable": true}}'
  kube POST /api/v1/nodes "$node" >/dev/null
  helm install it "$chart" -f "$examples/rollout.yaml" >/dev/null
  paused() { kube GET /api/v1/namespaces/kmodsmith/configmaps/kmodsmith-policy | jq -e '.metadata.annotations["kmodsmith.io/pause"]' >/dev/null; }
  { # the coordinator, once it was told
    until paused; do sleep 0.5; done
    sleep 15
    date +%s >"$BATS_TEST_TMPDIR/over"
    kube PATCH /api/v1/nodes/gpu1 '{"metadata": {"labels": {"kmodsmith.io/state": "done"}}, "spec": {"unschedulable": false}}' application/merge-patch+json
  } >/dev/null 3>&- &
  uninstall
  assert [ "$(date +%s)" -ge "$(cat "$BATS_TEST_TMPDIR/over")" ]
  run cat "$BATS_TEST_TMPDIR/job.log"
  assert_line "paused: no new node is begun; nodes in progress continue"
  assert_equal "$(remaining)" "$(remaining | grep -v kmodsmith-uninstall)"
  kube DELETE /api/v1/nodes/gpu1 >/dev/null
}

quota() { # METHOD
  kube "$1" "/api/v1/namespaces/kmodsmith/resourcequotas$([ "$1" = POST ] || echo /small)" \
    '{"metadata": {"name": "small"}, "spec": {"hard": {"pods": "2", "limits.cpu": "5"}}}' >/dev/null
}
namespace_label() { # LEVEL, or null
  kube PATCH /api/v1/namespaces/kmodsmith "{\"metadata\": {\"labels\": {\"pod-security.kubernetes.io/enforce\": $1}}}" application/merge-patch+json >/dev/null
}
installed() { # [OPTION...]: what helm says of the cluster
  run helm install it "$chart" -f "$examples/rollout.yaml" "$@"
  assert_success
  helm uninstall it --no-hooks >/dev/null
}

@test "after an install helm says how many nodes fit and what keeps pods from running, with the cure" {
  local quota="the quota small of the namespace kmodsmith allows 2 pods, and this needs 4" limits="wants limits.cpu of every pod"
  kube POST /api/v1/nodes '{"metadata": {"name": "cpu1"}}' >/dev/null
  kube POST /api/v1/nodes '{"metadata": {"name": "gpu1", "labels": {"feature.node.kubernetes.io/pci-0302_10de.present": "true"}}}' >/dev/null
  installed
  assert_line "1 of 2 nodes fit: gpu1"
  refute_output --partial WARNING
  refute_output --partial "pod-security"

  kube PATCH /api/v1/nodes/gpu1 '{"metadata": {"labels": {"feature.node.kubernetes.io/pci-0302_10de.present": "false"}}}' application/merge-patch+json >/dev/null
  installed
  assert_output --partial "WARNING: no pod runs, for none of 2 nodes has one of the labels nvidia.com/gpu.present,"
  assert_line "    kubectl label node NODE nvidia.com/gpu.present=true"
  assert_line "    helm -n kmodsmith upgrade it CHART --reuse-values --set-json 'nodes.gpuLabels=[]'"
  installed --set-json nodes.gpuLabels=[]
  assert_line "2 of 2 nodes fit: cpu1, gpu1"
  installed --set-json nodes.gpuLabels=[] --set nodes.nodeSelector.pool=a
  assert_output --partial "WARNING: no pod runs, for none of 2 nodes has pool=a."

  namespace_label '"baseline"'
  installed --set-json nodes.gpuLabels=[]
  assert_output --partial "WARNING: the namespace kmodsmith forbids the pods that load drivers: it is baseline"
  assert_line "    kubectl label --overwrite namespace kmodsmith pod-security.kubernetes.io/enforce=privileged"
  namespace_label null
  installed --set-json nodes.gpuLabels=[]
  refute_output --partial WARNING
  assert_line "    kubectl label namespace kmodsmith pod-security.kubernetes.io/enforce=privileged"
  namespace_label '"privileged"'

  quota POST
  installed --set-json nodes.gpuLabels=[]
  assert_output --partial "WARNING: $quota"
  assert_output --partial "WARNING: a quota of the namespace kmodsmith $limits"
  installed --set-json 'nodes={"gpuLabels": ["none"], "resources": {"limits": {"cpu": 4}}}'
  refute_output --partial quota
  quota DELETE

  run helm install it "$chart" -f "$examples/rollout.yaml" --dry-run=client
  assert_line "    kubectl get nodes -l 'nvidia.com/gpu.present=true'"
  installed --set lookup=false
  assert_line "    kubectl get nodes -l 'feature.node.kubernetes.io/pci-0300_10de.present=true'"
  kube DELETE /api/v1/nodes/gpu1 >/dev/null
  kube DELETE /api/v1/nodes/cpu1 >/dev/null
}

@test "an uninstall that was given up goes on when it is typed again, or ends without its Job; neither leaves anything" {
  local before
  before=$(remaining)
  kube POST /api/v1/nodes '{"metadata": {"name": "gpu1", "labels": {"kmodsmith.io/state": "evicting"}}, "spec": {"unschedulable": true}}' >/dev/null
  helm install it "$chart" -f "$examples/rollout.yaml" >/dev/null
  run helm uninstall it --timeout 3s
  assert_failure
  assert_output --partial "timed out"
  run kube GET /apis/batch/v1/namespaces/kmodsmith/jobs
  assert_json '.items | length' 0
  kube PATCH /api/v1/nodes/gpu1 '{"metadata": {"labels": {"kmodsmith.io/state": "done"}}, "spec": {"unschedulable": false}}' application/merge-patch+json >/dev/null
  uninstall
  assert_equal "$(remaining)" "$before"
  helm install it "$chart" -f "$examples/rollout.yaml" >/dev/null
  run helm uninstall it --timeout 3s
  assert_failure
  run helm uninstall it --no-hooks
  assert_success
  assert_equal "$(remaining)" "$before"
  kube DELETE /api/v1/nodes/gpu1 >/dev/null
}

@test "a second release is refused, and so is one beside manifests of deploy/" {
  helm install first "$chart" -f "$examples/standalone.yaml" >/dev/null
  run helm install second "$chart" -f "$examples/rollout.yaml"
  assert_failure
  assert_output --partial "a cluster has kmodsmith once, and this one has it as the release 'first': helm -n kmodsmith upgrade first, or uninstall that one first"
  helm uninstall first >/dev/null
  deploy daemonset-agent.yaml
  run helm install second "$chart" -f "$examples/standalone.yaml"
  assert_failure
  assert_output --partial "this one has it without helm: kubectl -n kmodsmith delete daemonset kmodsmith-agent, which leaves drivers loaded"
  kube DELETE /apis/apps/v1/namespaces/kmodsmith/daemonsets/kmodsmith-agent >/dev/null
}

@test "without deploy/namespace.yaml the chart makes what is missing, and a namespace stays" {
  local name
  kube DELETE /api/v1/namespaces/kmodsmith/resourcequotas/kmodsmith-critical-pods >/dev/null
  for name in kmodsmith kmodsmith-compile; do # as the controller of namespaces does
    kube DELETE "/api/v1/namespaces/$name" >/dev/null
    kube GET "/api/v1/namespaces/$name" | jq '.spec.finalizers = []' >"$BATS_TEST_TMPDIR/$name"
    kube PUT "/api/v1/namespaces/$name/finalize" "$(<"$BATS_TEST_TMPDIR/$name")" >/dev/null
  done
  run helm install it "$chart" -f "$examples/rollout.yaml" --create-namespace
  assert_success
  assert_output --partial "pod-security.kubernetes.io/enforce=privileged"
  namespace_label '"privileged"'
  run kube GET /api/v1/namespaces/kmodsmith-compile
  assert_json '.metadata.labels["pod-security.kubernetes.io/enforce"]' restricted
  run kube GET /api/v1/namespaces/kmodsmith/resourcequotas/kmodsmith-critical-pods
  assert_json '.spec.hard.pods' 20k
  run helm upgrade it "$chart" -f "$examples/rollout.yaml"
  assert_success
  run helm uninstall it --no-hooks
  assert_output --partial "[Namespace] kmodsmith-compile"
  run kube GET /api/v1/namespaces/kmodsmith-compile
  assert_json .status.phase Active
  helm install it "$chart" -f "$examples/rollout.yaml" >/dev/null # with the one that is there
}
