# shellcheck shell=bash disable=SC2034,SC2154 # the tests use what is set here; the other helpers set the rest
# SPDX-License-Identifier: Apache-2.0
# The operator's driver pod on a recorded machine whose driver is loaded, as its init container sees it: the real API server,
# the rights of the operator's service account, and of a kubelet and the DaemonSet controller what they do. After agent.bash.
OPERATOR=gpu-operator
operand=nvidia.com/gpu.deploy.device-plugin

# The rules of NVIDIA/gpu-operator a22dbf6, assets/state-driver/0210_clusterrole.yaml, as far as they are of Kubernetes.
operator_rights() {
  kube POST /api/v1/namespaces "{\"metadata\": {\"name\": \"$OPERATOR\"}}"
  kube POST /api/v1/namespaces/$OPERATOR/serviceaccounts '{"metadata": {"name": "nvidia-driver"}}'
  kube POST /apis/rbac.authorization.k8s.io/v1/clusterroles '{"metadata": {"name": "nvidia-driver"}, "rules": [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "patch", "update", "watch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get", "list"]},
    {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["get"]}]}'
  kube POST /apis/rbac.authorization.k8s.io/v1/clusterrolebindings "{\"metadata\": {\"name\": \"nvidia-driver\"},
    \"roleRef\": {\"apiGroup\": \"rbac.authorization.k8s.io\", \"kind\": \"ClusterRole\", \"name\": \"nvidia-driver\"},
    \"subjects\": [{\"kind\": \"ServiceAccount\", \"name\": \"nvidia-driver\", \"namespace\": \"$OPERATOR\"}]}"
} >/dev/null

account_files() { # DIR: as a container of the pod finds them
  mkdir -p "$1"
  kube POST /api/v1/namespaces/$OPERATOR/serviceaccounts/nvidia-driver/token \
    '{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}' | jq -r .status.token >"$1/token"
  cp "$CA" "$1/ca.crt"
  echo $OPERATOR >"$1/namespace"
}
node_begin() { # the machine, its Node, and an operand that is deployed there
  node=gpu$BATS_TEST_NUMBER pod=driver-$BATS_TEST_NUMBER
  kube POST /api/v1/nodes "{\"metadata\": {\"name\": \"$node\", \"labels\": {\"$operand\": \"true\", \"nvidia.com/gpu.deploy.dcgm\": \"false\"}}}" >/dev/null
  mkdir -p "$ROOT/dev" "$BATS_TEST_TMPDIR/bin"
  echo "$pod" >"$ROOT/proc/sys/kernel/hostname"
  : >"$ROOT/dev/termination-log"
  account_files "$ROOT/var/run/secrets/kubernetes.io/serviceaccount"
  ln -sf "$KMODSMITH" "$BATS_TEST_TMPDIR/bin/driver-manager"
  a_pod plugin DaemonSet "{\"nodeSelector\": {\"$operand\": \"true\"}}"
  kubelet 3>&- 4>&- &
  kubelet=$!
}
node_end() { [ -z "${kubelet-}" ] || kill "$kubelet" 2>/dev/null || true; }
kubelet() { # pods whose end has begun end, and a paused operand's are taken away
  local name
  while sleep 0.3; do
    [ "$(label "$operand")" = true ] || kube DELETE "/api/v1/namespaces/default/pods/plugin-$node?gracePeriodSeconds=0"
    while read -r name; do
      kube DELETE "/api/v1/namespaces/default/pods/$name?gracePeriodSeconds=0"
    done < <(pods 'select(.metadata.deletionTimestamp) | .metadata.name')
  done >/dev/null 2>&1
}
pods() { kube GET "/api/v1/namespaces/default/pods?fieldSelector=spec.nodeName%3D$node" | jq -r ".items[] | $1"; }
there() { pods ".metadata.name | sub(\"-$node\$\"; \"\")" | sort | paste -sd' '; }
a_pod() { # NAME KIND-OF-OWNER [SPEC]: in namespace default, on the node; an owner of no kind is none
  local owner='[]'
  [ -z "$2" ] || owner="[{\"apiVersion\": \"apps/v1\", \"kind\": \"$2\", \"name\": \"x\", \"uid\": \"1\", \"controller\": true}]"
  kube POST /api/v1/namespaces/default/pods "$(jq -n --arg name "$1-$node" --arg app "$1" --arg node "$node" --argjson owner "$owner" --argjson spec "${3-{\}}" \
    '{metadata: {name: $name, labels: {app: $app}, ownerReferences: $owner}, spec: ({nodeName: $node, containers: [{name: "c", image: "i"}]} + $spec)}')" |
    jq -e '.kind == "Pod"' >/dev/null
}
gpu_pod() { # NAME [KIND-OF-OWNER [SPEC]]
  a_pod "$1" "${2-Job}" "$(jq -n --argjson more "${3-{\}}" '{containers: [{name: "c", image: "i", resources: {limits: {"nvidia.com/gpu": "1"}}}]} + $more')"
}
# The pod that we are the init container of: its driver's container has what follows in its environment.
driver_pod() { # VERSION-OF-THE-TAG [NAME=VALUE...]; $VOLUMES and $MOUNTS of the pod and of the container, $OWNERS of the pod
  local tag=$1
  shift
  kube DELETE "/api/v1/namespaces/$OPERATOR/pods/$pod?gracePeriodSeconds=0" >/dev/null
  kube POST /api/v1/namespaces/$OPERATOR/pods "$(jq -n --arg name "$pod" --arg node "$node" --arg tag "$tag" \
    --argjson volumes "${VOLUMES-[]}" --argjson mounts "${MOUNTS-[]}" --argjson owners "${OWNERS-[]}" '{metadata: {name: $name,
    labels: {"app.kubernetes.io/component": "nvidia-driver"}, ownerReferences: $owners},
    spec: {nodeName: $node, volumes: $volumes, initContainers: [{name: "k8s-driver-manager", image: "r.example/kmodsmith-driver:\($tag)"}],
    containers: [{name: "nvidia-driver-ctr", image: "r.example/kmodsmith-driver:\($tag)-ubuntu24.04", volumeMounts: $mounts, env: ([{name: "NODE_NAME",
    valueFrom: {fieldRef: {fieldPath: "spec.nodeName"}}}] + [$ARGS.positional[] | capture("(?<name>[^=]*)=(?<value>.*)")])}]}}' --args "$@")" |
    jq -e '.kind == "Pod"' >/dev/null
}
manager() { # VERB [NAME=VALUE...]: as the operator's template starts it, of the image of driver $image; ends the shell
  exec env KMODSMITH_ROOT="$ROOT" KUBERNETES_SERVICE_HOST=127.0.0.1 KUBERNETES_SERVICE_PORT="${KUBE##*:}" \
    NODE_NAME="$node" NVIDIA_VISIBLE_DEVICES=void OPERATOR_NAMESPACE=$OPERATOR DRIVER_VERSION="$image" KMODSMITH_EXPORT=none \
    ENABLE_GPU_POD_EVICTION=true ENABLE_AUTO_DRAIN=false DRAIN_USE_FORCE=false DRAIN_POD_SELECTOR_LABEL= \
    DRAIN_TIMEOUT_SECONDS=0s DRAIN_DELETE_EMPTYDIR_DATA=false "${@:2}" "$BATS_TEST_TMPDIR/bin/driver-manager" "$1" --insecure-skip-verify
}
manage() { # VERB [NAME=VALUE...]
  : >"$ROOT/dev/termination-log"
  run --separate-stderr manager "$@"
}
label() { kube GET "/api/v1/nodes/$node" | jq -r ".metadata.labels[\"$1\"]"; }
cordoned() { kube GET "/api/v1/nodes/$node" | jq -r '.spec.unschedulable // false'; }
cordon_is_ours() { kube GET "/api/v1/nodes/$node" | jq -r '.metadata.annotations["kmodsmith.io/driver-manager.cordon"] // "no"'; }
node_says() { echo "$(label "$operand") $(cordoned) $(cordon_is_ours)"; } # of the operand, the cordon, and whose it is
node_patch() { kube PATCH "/api/v1/nodes/$node" "$1" application/merge-patch+json >/dev/null; }
assert_untouched() { # the driver, the Node and the pods
  assert_equal "$(calls_of unload)" 0
  assert_equal "$(node_says)" "true false no"
  assert_equal "$(there)" "$1"
}
