#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# deploy/: what is asked of a cluster is well formed, says why, and is what the program needs (R-N3).
# shellcheck disable=SC2034,SC2154 # bats and helper.bash set stderr and top, and read ROOT
load helper

query() { # FILE PYTHON: an expression on the last document d
  python3 -c 'import sys, yaml; d = list(yaml.safe_load_all(open(sys.argv[1])))[-1]; print(eval(sys.argv[2]))' "$top/deploy/$1" "$2"
}
container='d["spec"]["template"]["spec"]["containers"][0]'
daemonsets=(daemonset.yaml daemonset-unprivileged.yaml)
job='d["spec"]["jobTemplate"]["spec"]["template"]["spec"]'

@test "deploy: every file passes Kubernetes' validation" {
  local file
  for file in "${daemonsets[@]}" daemonset-{agent,builder}.yaml build-cronjob.yaml; do
    python3 "$top/tests/cli/kube.py" "$top/deploy/$file"
  done
  [ "$(query gpu-operator-values.yaml 'sorted(d)')" = "['driver']" ]
}

@test "deploy: a wrong field is found" {
  local file=$BATS_TEST_TMPDIR/d.yaml change
  for change in 's/hostPID/hostPid/' 's/privileged: true/privileged: yes-please/' 's/mountPath: .*/mountPath: drivers/' \
    's/name: parameters$/name: params/' 's/periodSeconds: 5/periodSeconds: soon/' 's/matchLabels/matchLabel/' '/^kind/d'; do
    sed "$change" "$top/deploy/daemonset.yaml" >"$file"
    run python3 "$top/tests/cli/kube.py" "$file"
    [ "$status" -eq 1 ] || fail "$change was not found"
  done
}

@test "deploy: a wrong field of the build job is found" {
  local file=$BATS_TEST_TMPDIR/d.yaml change
  for change in 's/backoffLimit: 3/backoffLimit: three/' 's/hostUsers/hostUser/' 's/restartPolicy: OnFailure/restartPolicy: Always/' \
    's/name: matrix$/name: matrices/' '/^data:/s/data/date/' 's/kind: CronJob/kind: CronJop/' 's/jobTemplate/jobTemplates/' \
    's/verbs:/verb:/' 's/schedule: .*/schedule: 17/' 's/defaultMode: 0400/defaultMode: "r"/' \
    's/readOnlyRootFilesystem: true/&\n            allowPrivilegeEscalation: false/'; do
    sed "$change" "$top/deploy/build-cronjob.yaml" >"$file"
    run python3 "$top/tests/cli/kube.py" "$file"
    [ "$status" -eq 1 ] || fail "$change was not found"
  done
}

@test "deploy: every pod that loads drivers reaches the machine through process 1, and is a shape that the guests' pods have" {
  local file shapes=$top/tests/vm/pods/shapes.json pod='d["spec"]["template"]["spec"]'
  for file in "${daemonsets[@]}" daemonset-{agent,builder}.yaml; do
    assert_equal "$(query "$file" "$pod.get('hostPID')")" True
    assert_equal "$(query "$file" "[x for x in ('hostNetwork', 'hostIPC', 'hostUsers', 'shareProcessNamespace') if x in $pod]")" "[]"
  done
  # As shapes.json would have the manifest: a field is of the node, a ConfigMap lies in /run/pods.
  for file in standalone= unprivileged=-unprivileged agent=-agent; do
    python3 - "$top/deploy/daemonset${file#*=}.yaml" >"$BATS_TEST_TMPDIR/manifest" <<'END'
import json, sys, yaml
pod = list(yaml.safe_load_all(open(sys.argv[1])))[-1]["spec"]["template"]["spec"]
container, = pod["containers"]
sources = {v["name"]: v["hostPath"]["path"] if "hostPath" in v else "/run/pods/" + v["configMap"]["name"] for v in pod["volumes"]}
mounts = [[m["mountPath"], sources[m["name"]], "ro" if m.get("readOnly") else ""] for m in container["volumeMounts"]]
if pod["automountServiceAccountToken"]:
    mounts.append(["/var/run/secrets/kubernetes.io/serviceaccount", "/run/pods/account", "ro"])
rights = container["securityContext"]
print(json.dumps({"args": container["command"] + container["args"], "env": {e["name"]: e.get("value", "node") for e in container["env"]},
                  "mounts": sorted(mounts), "capabilities": None if rights["privileged"] else sorted(rights["capabilities"]["add"])}))
END
    jq --arg shape "${file%=*}" '.mounts as $m | .shapes[$shape] | {args, env, mounts: ([.mounts[] | $m[.][]] | sort),
      capabilities: (.capabilities | if . then sort else . end)}' "$shapes" >"$BATS_TEST_TMPDIR/shape"
    assert_equal "$(jq -S . "$BATS_TEST_TMPDIR/manifest")" "$(jq -S . "$BATS_TEST_TMPDIR/shape")"
  done
  # The builder's pod reaches the machine as the agent's does.
  assert_equal "$(query daemonset-builder.yaml "${container}['securityContext'], [v for v in ${pod}['volumes'] if 'hostPath' in v]")" \
    "({'privileged': True}, [])"
}

@test "deploy: the build job has only what a sandboxed compile needs, and only one container has the key, and one the token" {
  local pod=$job each='(p["initContainers"] + p["containers"])'
  of() { query build-cronjob.yaml "[($1) for p in [$pod]][0]"; }
  assert_equal "$(of 'p["hostUsers"], p["automountServiceAccountToken"], p["securityContext"]["seccompProfile"]["type"]')" \
    "(False, False, 'RuntimeDefault')"
  assert_equal "$(of 'any(x in p for x in ("hostPID", "hostNetwork", "hostIPC"))')" False
  assert_equal "$(of "all(c['securityContext']['readOnlyRootFilesystem'] and 'privileged' not in c['securityContext'] for c in $each)")" True
  assert_equal "$(of "[c['name'] for c in $each if 'add' in c['securityContext']['capabilities']]")" "['build']"
  assert_equal "$(of "[c['securityContext']['capabilities']['drop'] for c in $each] == [['ALL']] * 6")" True
  assert_equal "$(of "[[c['name'] for c in $each if any(m['name'] == v for m in c['volumeMounts'])] for v in ('key', 'token')]")" "[['sign'], ['nodes']]"
  assert_equal "$(of "all('limits' in c['resources'] and 'requests' in c['resources'] for c in $each)")" True
  assert_equal "$(of 'any("hostPath" in v for v in p["volumes"])')" False
}

@test "deploy: the build job's commands and options exist, and its matrix is valid" {
  local words
  ROOT=
  host no-gpu
  query build-cronjob.yaml "'\n'.join(' '.join(c['command'] + c['args']) for c in ${job}['initContainers'][1:] + ${job}['containers'])" \
    >"$BATS_TEST_TMPDIR/commands"
  assert_equal "$(cut -d' ' -f1,2 "$BATS_TEST_TMPDIR/commands" | paste -sd,)" \
    "kmodsmith rollout,kmodsmith build,kmodsmith sign,kmodsmith push,kmodsmith build"
  while read -ra words; do
    run "$KMODSMITH" "${words[@]:1}" --help-all
    assert_success
  done <"$BATS_TEST_TMPDIR/commands"
  python3 -c 'import sys, yaml
print(next(d["data"]["matrix.json"] for d in yaml.safe_load_all(open(sys.argv[1])) if d["kind"] == "ConfigMap"))' "$top/deploy/build-cronjob.yaml" >"$BATS_TEST_TMPDIR/matrix.json"
  echo '{"items": [{"metadata": {"name": "n"}, "status": {"nodeInfo": {"kernelVersion": "6.1.0-1-amd64", "architecture": "amd64"}}}]}' \
    >"$BATS_TEST_TMPDIR/nodes.json"
  kmodsmith build --matrix "$BATS_TEST_TMPDIR/matrix.json" --nodes "$BATS_TEST_TMPDIR/nodes.json" --output "oci:$BATS_TEST_TMPDIR/out" --state-dir "$BATS_TEST_TMPDIR/state" --json
  assert_json '.pairs[].error.code' E_NOT_FOUND # of the source, which an image has; the file was well
}

@test "deploy: only builders have the key and may take Leases, and other nodes' agents run elsewhere" {
  local agent='d["spec"]["template"]["spec"]' verbs words
  words=$(query daemonset-builder.yaml "' '.join(${container}['args'])")
  [[ $words == *"--share-role builder --share-key /key/"* ]]
  run grep -lE -e 'share-key|signing-key|share-role' "$top"/deploy/*.yaml
  assert_output "$top/deploy/daemonset-builder.yaml"
  assert_equal "$(query daemonset-builder.yaml "${agent}['nodeSelector']")" "{'kmodsmith.io/builder': 'true'}"
  assert_equal "$(query daemonset-builder.yaml "${agent}['serviceAccountName']")" kmodsmith-builder
  run query daemonset-agent.yaml "${agent}['affinity']"
  assert_output --partial "'key': 'kmodsmith.io/builder', 'operator': 'DoesNotExist'"
  verbs=$(python3 -c 'import sys, yaml
for d in yaml.safe_load_all(open(sys.argv[1])):
  for r in d.get("rules", []):
    if "leases" in r["resources"]: print(d["metadata"]["name"], *r["verbs"])' "$top/deploy/rbac.yaml")
  assert_equal "$verbs" $'kmodsmith-agent get watch\nkmodsmith-builder create update'
  read -ra words <<<"$words" # no option is unknown, and what is named fits together
  host no-gpu
  kmodsmith "${words[@]}" --node ""
  assert_error E_USAGE "--agent needs --node"
}

@test "deploy: everything is in our own namespaces, created first; rights elsewhere are only for Events" {
  python3 - "$top"/deploy/*.yaml <<'END'
import sys, yaml
docs = [d for path in sys.argv[1:] if "values" not in path and "kustomization" not in path for d in yaml.safe_load_all(open(path))]
spaces = {d["metadata"]["name"] for d in docs if d["kind"] == "Namespace"}
assert spaces == {"kmodsmith", "kmodsmith-compile", "kmodsmith-validation"}, spaces
wide = ("Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
for d in docs:
    name, space = f'{d["kind"]} {d["metadata"]["name"]}', d["metadata"].get("namespace")
    assert (space is None) == (d["kind"] in wide), name
    if space == "kmodsmith-compile":
        assert d["kind"] in ("Role", "RoleBinding") and all(r["resources"] == ["leases"] for r in d.get("rules", [])), name
    elif space == "kmodsmith-validation":
        rights = [(r["resources"], r["verbs"]) for r in d.get("rules", [])]
        assert d["kind"] == "RoleBinding" or rights == [(["podtemplates"], ["get"]), (["pods"], ["create", "delete"])], name
    elif space == "default":
        assert d["kind"] in ("Role", "RoleBinding"), name
        assert all((r["resources"], r["verbs"]) == (["events"], ["create"]) for r in d.get("rules", [])), name
    else:
        assert space in (None, "kmodsmith"), name
    for who in d.get("subjects", []):
        assert who["namespace"] == "kmodsmith", name
    for rule in d.get("rules", []):
        assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"], name
        is_look = (rule["resources"], rule["verbs"], rule.get("resourceNames")) == (["leases"], ["get"], ["kmodsmith-coordinator"])
        assert d["kind"] == "Role" or is_look or not {"leases", "configmaps", "secrets"} & set(rule["resources"]), name
END
}

@test "without a cluster, each place that was looked at is named" {
  KUBECONFIG='' HOME=$BATS_TEST_TMPDIR run "$KMODSMITH" rollout status
  assert_failure 2
  assert_output --partial "no cluster: KUBECONFIG is not set, '$BATS_TEST_TMPDIR/.kube/config' cannot be read, and this is not a pod"
}

@test "deploy: the commands look where the manifests put things" {
  assert_equal "$(query coordinator.yaml 'd["metadata"]["namespace"]')" kmodsmith
  run "$KMODSMITH" rollout status --help-all
  assert_output --partial "else kmodsmith"
  run "$KMODSMITH" install --help-all
  assert_regex "$(tr -s ' \n' ' ' <<<"$output")" "default auto: kmodsmith-compile"
}

@test "deploy: no image has a moving tag, and each name has one tag" { # for every kernel: R-E5
  local images
  images=$(sed -nE 's/^ +image: ([^ ]+).*/\1/p' "$top"/deploy/*.yaml | sort -u)
  assert [ "$(wc -l <<<"$images")" -ge 3 ]
  run grep -vE '/[a-z-]+:[0-9][0-9.]*$|^kmodsmith-driver$' <<<"$images"
  assert_output ""
  assert_equal "$(grep / <<<"$images" | sed 's/:[^:]*$//' | sort | uniq -d)" ""
}

@test "deploy: the capabilities are those that the program documents" {
  local granted
  host no-gpu
  kmodsmith doctor --json
  granted=$(sed -nE '/^ +add:$/,/^ +[a-z]+Probe/s/^ +- ([A-Z_]+) # (.*)/CAP_\1 \2/p' "$top/deploy/daemonset-unprivileged.yaml")
  assert_equal "$granted" "$(jq -r '.rights[] | .capability + " " + .why' <<<"$output")"
  [ "$(query daemonset-unprivileged.yaml "${container}['securityContext']['capabilities']['drop']")" = "['ALL']" ]
  [ "$(query daemonset-unprivileged.yaml "${container}['securityContext']['privileged']")" = False ]
}

@test "deploy: the commands are the program's" {
  local file words
  ROOT=
  for file in "${daemonsets[@]}"; do
    for words in "['command'] + ${container}['args']" "['startupProbe']['exec']['command']" \
      "['livenessProbe']['exec']['command']" "['readinessProbe']['exec']['command']"; do
      read -ra words <<<"$(query "$file" "' '.join(${container}$words)")"
      [ "${words[0]}" = kmodsmith ]
      run "$KMODSMITH" "${words[@]:1}" --help-all
      assert_success
    done
  done
}

@test "deploy: the coordinator's liveness probe reads the directory that it writes to, in memory" {
  local words told pod='d["spec"]["template"]["spec"]'
  read -ra words <<<"$(query coordinator.yaml "' '.join(${container}['command'])")"
  told=${words[*]: -1}
  [ "${words[*]:0:3}" = "kmodsmith coordinator --pulse-dir" ]
  assert_equal "$(query coordinator.yaml "' '.join(${container}['livenessProbe']['exec']['command'])")" \
    "kmodsmith probe liveness --pulse-dir $told --stall 120"
  assert_equal "$(query coordinator.yaml "[m['mountPath'] for m in ${container}['volumeMounts']]")" "['$told']"
  assert_equal "$(query coordinator.yaml "[v['emptyDir']['medium'] for v in ${pod}['volumes']]")" "['Memory']"
  run -0 "$KMODSMITH" probe liveness --pulse-dir "$BATS_TEST_TMPDIR" --stall 120
}

@test "deploy: every mount has a comment, and the operator's probe starts early" {
  local file
  for file in "${daemonsets[@]}"; do
    run grep -cE '^ +- name: [a-z]+ # ' "$top/deploy/$file"
    assert_equal "$output" "$(query "$file" "len(${container}['volumeMounts'])")"
  done
  [ "$(query gpu-operator-values.yaml 'd["driver"]["startupProbe"]["initialDelaySeconds"] < 60')" = True ]
}

@test "deploy: the operator's values have what a node without headers needs: packages and trusted keys" {
  local name env='d["driver"]["env"]'
  for name in $(query gpu-operator-values.yaml "' '.join(e['name'] for e in $env)"); do
    kmodsmith init --help-all
    assert_output --partial "[$name]"
  done
  [ "$(query gpu-operator-values.yaml "sorted(e['name'] for e in $env)")" = "['KMODSMITH_FROM', 'KMODSMITH_TRUST_DIR']" ]
  # What is proven by the init container is what the driver's container loads.
  [ "$(query gpu-operator-values.yaml 'd["driver"]["manager"]["image"] == d["driver"]["image"]')" = True ]
  [ "$(query gpu-operator-values.yaml 'd["driver"]["manager"]["version"].split("-")[0] == d["driver"]["version"]')" = True ]
  # The ConfigMap that the values and their comment name, as its keys lie in /drivers: a public key beside parameters.
  run grep -c "configmap $(query gpu-operator-values.yaml 'd["driver"]["kernelModuleConfig"]["name"]') --from-file=site.pem" \
    "$top/deploy/gpu-operator-values.yaml"
  assert_output 1
  mkdir "$BATS_TEST_TMPDIR/drivers"
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 2>/dev/null | openssl pkey -pubout >"$BATS_TEST_TMPDIR/drivers/site.pem"
  echo NVreg_EnableGpuFirmware=0 >"$BATS_TEST_TMPDIR/drivers/nvidia.conf"
  KMODSMITH_TRUST_DIR=$BATS_TEST_TMPDIR/drivers kmodsmith "trust ls"
  assert_line --regexp '^site +ecdsa-p256 '
}

@test "deploy: the agent can be limited to nodes that the GPU Operator released, as kmodsmith-operator(7) says" {
  kubectl_needed
  local patch
  patch=$(sed -n "/^kubectl patch --local/,/}'/p" "$top/docs/man/kmodsmith-operator.7.scd" | sed "1s/.*-p '//; s/'.*//")
  HOME=$BATS_TEST_TMPDIR kubectl patch --local -f "$top/deploy/daemonset-agent.yaml" -o yaml -p "$patch" >"$BATS_TEST_TMPDIR/d.yaml"
  python3 "$top/tests/cli/kube.py" "$BATS_TEST_TMPDIR/d.yaml"
  run grep -A1 -E 'nodeSelector:|name: KMODSMITH_CDI' "$BATS_TEST_TMPDIR/d.yaml"
  assert_line --partial 'nvidia.com/gpu.deploy.driver: "false"'
  assert_line --partial 'value: none'
}

@test "deploy: the file that the GPU Operator's validator waits for on a released node, as kmodsmith-operator(7) makes it" {
  local command
  command=$(sed -n "/exec AGENT-POD/,/'$/p" "$top/docs/man/kmodsmith-operator.7.scd" | sed "1s/.*sh -ec '//; \$s/'\$//")
  mkdir -p "$BATS_TEST_TMPDIR/run/nvidia"
  run sh -ec "${command//\/proc\/1\/root/$BATS_TEST_TMPDIR}"
  assert_success
  run cat "$BATS_TEST_TMPDIR/run/nvidia/validations/.driver-ctr-ready"
  assert_output "GDRCOPY_ENABLED: false
GDS_ENABLED: false
GPU_DIRECT_RDMA_ENABLED: false"
}
