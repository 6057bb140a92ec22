#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# NVIDIA's GPU Operator itself, unchanged, on the real API server: what it makes of our values, and of the labels that a
# rollout changes. Program, chart, kinds and manifests are those of its Go module.
# shellcheck disable=SC2154,SC2016 # bats sets output; the helpers set top and KUBECONFIG; a shell in a namespace expands
load helper
load agent
load rollout

setup_file() {
  local name
  export work=$BATS_FILE_TMPDIR LACKS='' HELM OPERATOR SOURCE
  [ -z "${KUBE_LACKS-}" ] || return 0
  program() { kept "$top/scripts/go-program.sh" "$@" 2>"$work/lacks"; }
  HELM=$(program helm.sh/helm/v3/cmd/helm) && OPERATOR=$(program github.com/NVIDIA/gpu-operator/cmd/gpu-operator) &&
    SOURCE=$(program --source github.com/NVIDIA/gpu-operator/cmd/gpu-operator) || LACKS=$(tail -n 1 "$work/lacks")
  unshare -m true 2>/dev/null || LACKS="no mounts of one's own here"
  [ -z "$LACKS" ] || return 0
  export VERSION=${SOURCE##*@}
  echo "# NVIDIA's operator here is $VERSION; the pages and tables were read in $(nvidia_read gpu-operator)" >&3
  kube_start --allow-privileged=true --runtime-config=admissionregistration.k8s.io/v1=true
  for name in rbac agent-policy coordinator coordinator-policy; do deploy "$name.yaml"; done
  kube POST /api/v1/namespaces '{"metadata": {"name": "gpu-operator"}}' >/dev/null
  for name in "$SOURCE"/deployments/gpu-operator/{,charts/node-feature-discovery/}crds/*.yaml; do documents "$name" | create; done
  "$HELM" template gpu-operator "$SOURCE/deployments/gpu-operator" --namespace gpu-operator --set nfd.enabled=false \
    --values "$top/deploy/gpu-operator-values.yaml" >"$work/rendered"
  kube POST /api/v1/nodes '{"metadata": {"name": "n1"}}' >/dev/null
  machine_known n1
  kube POST /api/v1/namespaces/gpu-operator/configmaps '{"metadata": {"name": "kmodsmith-site"},
    "data": {"site.pem": "a key", "nvidia.conf": "NVreg_EnableGpuFirmware=0"}}' >/dev/null
  operator_start
  documents "$work/rendered" | jq -c 'select(.kind == "ClusterPolicy")' | create
}
teardown_file() {
  [ ! -e "$SERVERS/operator.pid" ] || server_stop operator # the API server waits for whoever watches
  kube_stop
}
teardown() { [ -z "${FARM-}" ] || farm_clean; }
setup() {
  kube_needed
  [ -z "$LACKS" ] || skip "$LACKS"
}
machine_known() { # NODE: what NFD and the kubelet say of it
  local nfd=feature.node.kubernetes.io
  kube PATCH "/api/v1/nodes/$1" "{\"metadata\": {\"annotations\": {\"node.alpha.kubernetes.io/ttl\": \"0\"}, \"labels\": {
    \"$nfd/pci-10de.present\": \"true\", \"$nfd/kernel-version.full\": \"6.8.0-1-generic\", \"$nfd/system-os_release.ID\": \"ubuntu\",
    \"$nfd/system-os_release.VERSION_ID\": \"24.04\", \"kubernetes.io/arch\": \"amd64\"}}}" application/merge-patch+json >/dev/null
  kube PATCH "/api/v1/nodes/$1/status" '{"status": {"nodeInfo": {"containerRuntimeVersion": "containerd://1.7.0", "kernelVersion": "6.8.0-1-generic",
    "osImage": "", "architecture": "amd64", "operatingSystem": "linux", "kubeletVersion": "v1.33.0", "kubeProxyVersion": "", "bootID": "b",
    "machineID": "m", "systemUUID": "s"}}}' application/merge-patch+json >/dev/null
}
operator_start() { # in a root of its own, where it finds its manifests and the name of the machine's system
  local probe
  probe=$(free_port)
  export SERVERS probe OPERATOR_NAMESPACE=gpu-operator
  server_run operator "$probe" unshare -m --propagation private sh -euc '
    root=$work/root
    for one in bin lib lib64 sbin usr etc dev proc "$SERVERS"; do mkdir -p "$root/$one" && mount --rbind "/$one" "$root/$one"; done
    mkdir -p "$root/opt" "$root/host-etc"
    printf "ID=ubuntu\nVERSION_ID=24.04\n" >"$root/host-etc/os-release"
    cp -r "$SOURCE/assets" "$root/opt/gpu-operator"
    cp -r "$SOURCE/manifests" "$root/opt/gpu-operator"
    cp "$OPERATOR" "$root/gpu-operator"
    exec chroot "$root" /gpu-operator --metrics-bind-address 0 --health-probe-bind-address "127.0.0.1:$probe"'
}
documents() { python3 -c 'import json, sys, yaml; [print(json.dumps(d)) for d in yaml.safe_load_all(open(sys.argv[1])) if d]' "$1"; } # FILE
create() { # of documents, those of all namespaces
  local doc answer path
  while read -r doc; do
    path=/apis/$(jq -r '.apiVersion + "/" + (.kind | ascii_downcase | sub("y$"; "ie") + "s")' <<<"$doc")
    answer=$(kube POST "$path" "$doc")
    [ "$(jq -r .kind <<<"$answer")" != Status ] || { echo "$path: $answer" >&2; return 1; }
  done
}
SETS=/apis/apps/v1/namespaces/gpu-operator/daemonsets
DRIVER=$SETS/nvidia-driver-daemonset
is_there() { [ "$(kube GET "$1" | jq -r .kind)" != Status ]; } # PATH
label_of() { kube GET /api/v1/nodes/n1 | jq -r --arg l "nvidia.com/gpu.deploy.$1" '.metadata.labels[$l]'; } # NAME
label() { # NAME JSON
  kube PATCH /api/v1/nodes/n1 "{\"metadata\": {\"labels\": {\"nvidia.com/gpu.deploy.$1\": $2}}}" application/merge-patch+json >/dev/null
}
change() { # JSON: in the spec of its ClusterPolicy
  kube PATCH /apis/nvidia.com/v1/clusterpolicies/cluster-policy "{\"spec\": $1}" application/merge-patch+json >/dev/null
}

@test "the operator that runs here is the one that docs/limits.md says was run" {
  grep -qF "gpu-operator $VERSION" "$top/docs/limits.md" || skip "NEW: $VERSION is the newest that can be had; docs/limits.md names another one"
}

@test "of our values it makes a driver DaemonSet with our image for the node's system, and our driver manager before it" {
  soon is_there $DRIVER
  output=$(kube GET $DRIVER)
  assert_json '.spec.template.spec | .initContainers[], .containers[] | [.image, .command[], .args[]] | join(" ")' \
    "registry.example/drivers/kmodsmith-driver:535.261.03-ubuntu24.04 driver-manager uninstall_driver
registry.example/drivers/kmodsmith-driver:535.261.03-ubuntu24.04 nvidia-driver init"
  assert_json '[.spec.template.spec.containers[0].env[] | select(.name | test("KMODSMITH")) | .name + "=" + .value] | join(" ")' \
    "KMODSMITH_FROM=docker://registry.example/drivers KMODSMITH_TRUST_DIR=/drivers"
  assert_json '[.spec.template.spec.containers[0].volumeMounts[].mountPath | select(test("^/drivers"))] | sort | join(" ")' \
    "/drivers/nvidia.conf /drivers/site.pem"
  assert_json '.spec.template.spec.containers[0].startupProbe | "\(.initialDelaySeconds) \(.periodSeconds) \(.failureThreshold)"' "2 5 252"
  # By these the coordinator knows that the operator has a node's driver; operator.bats makes such an object itself.
  assert_json '.metadata.labels["app.kubernetes.io/component"]' nvidia-driver
  assert_json '.metadata.ownerReferences[0] | "\(.apiVersion) \(.kind) \(.controller)"' "nvidia.com/v1 ClusterPolicy true"
  assert_json '.spec.template.spec.nodeSelector | tojson' '{"nvidia.com/gpu.deploy.driver":"true"}'
}

@test "each label that selects one of its DaemonSets is one that a rollout pauses" {
  local name
  soon is_there $SETS/nvidia-operator-validator
  run jq -r '.items[].spec.template.spec.nodeSelector | keys[] | select(test("gpu.deploy")) | sub(".*deploy."; "")' < <(kube GET $SETS)
  for name in container-toolkit device-plugin gpu-feature-discovery operator-validator; do assert_line "$name"; done
  for name in $output; do
    case $name in driver | node-status-exporter) continue ;; esac # the driver's own, and one that nobody pauses
    grep -qF "OPERAND(\"$name\", " "$top/installer/cluster/node_state/nvidia.def"
  done
}

@test "it leaves a label that a rollout paused as it is, and gives back one that is missing" {
  soon is_there $SETS/nvidia-operator-validator
  label device-plugin '"paused-for-driver-upgrade"'
  label dcgm null
  change '{"nodeStatusExporter": {"enabled": true}}'
  soon is_there $SETS/nvidia-node-status-exporter # the labels come first
  assert_equal "$(label_of dcgm)" true
  assert_equal "$(label_of device-plugin)" paused-for-driver-upgrade
  label device-plugin '"true"'
}

# Its pods would be ended by their nodeSelector; here are none.
# From 26.7 on (2026-06-22, controllers/nodelabeling_controller.go) the annotation goes with the driver.
claims_without_driver() { [[ $VERSION == v0.0.0-* && $VERSION < v0.0.0-20260622 ]]; }
@test "a rollout holds its nodes until the operator claims them no more, and then replaces their drivers, its labels paused meanwhile" {
  local i
  soon is_there $DRIVER
  change '{"driver": {"upgradePolicy": {"autoUpgrade": true}}}' # the chart's default, and not ours
  kube DELETE /api/v1/nodes/n1 >/dev/null
  farm_make 2
  farm_loads "$new"
  for i in 1 2; do machine_known "$(name_of $i)"; done
  is_labelled() { nodes 'all(.metadata.labels["nvidia.com/gpu.deploy.driver"] == "true")' | grep -q true; }
  soon is_labelled
  farm_start
  coordinator_start a
  policy "$new"
  all_are held 120
  kubectl_kmodsmith status
  assert_line --regexp "^$(name_of 1) .*foreign-controller gpu-operator/nvidia-driver-daemonset"
  change '{"driver": {"enabled": false}}'
  soon not is_there $DRIVER
  if claims_without_driver; then
    renewed
    assert_equal "$(count_in held)" 2
    assert_equal "$(nodes 'map(.metadata.annotations["nvidia.com/gpu-driver-upgrade-enabled"]) | join(" ")')" "true true"
  fi
  change '{"driver": {"upgradePolicy": {"autoUpgrade": false}}}'
  all_are "done" 120
  assert_equal "$(grep -c 'operands paused' "$BATS_TEST_TMPDIR/coordinator-a.log")" 2
  assert_equal "$(versions)" "$new $new"
  is_there $SETS/nvidia-container-toolkit-daemonset
  assert_equal "$(nodes 'map(.metadata.labels | with_entries(select(.key | test("gpu.deploy"))) | map(values) | unique | .[]) | unique | join(" ")')" true
}
