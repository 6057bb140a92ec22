# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC1091
# The operator's init container, in its own pod shape, with the real modules and a real API server: another configuration of
# the same driver unloads nothing; a next driver that cannot be had leaves the driver, its root and every pod as they are; a
# process with a GPU open is named; and a real change goes through, the root with it, so that the driver's container starts
# on a free node. Then that container keeps the operator's upgrade controller waiting for a proof, made with the rights that it has
# kept. What differs is the flavour that nobody has, and a module parameter of the pod's ConfigMap.
# gpus: 1
# stub: yes
# root: debian
# image: driver
# beside: operator
# net: yes
# mem: 2G
# timeout: 900
. /vm/pods/pods.sh
if [ -e /beside/skip ]; then
  skip "the operator's init container" "$(cat /beside/skip)"
  exit 0
fi
root=/run/nvidia/driver node=/api/v1/nodes/gpu-1 operator=/api/v1/namespaces/gpu-operator/pods jobs=/api/v1/namespaces/default/pods
api() { # METHOD PATH [JSON]: as an administrator
  /beside/curl/ld-linux-x86-64.so.2 --library-path /beside/curl /beside/curl/curl -sS --cacert /beside/ca.pem --cert /beside/admin.pem --key /beside/admin.key -X "$1" \
    ${3:+-H "Content-Type: application/$([ "$1" = PATCH ] && echo merge-patch+)json" -d "$3"} "$(cat /beside/url)$2"
}
driver_pod() { # KERNEL_MODULE_TYPE [WORD]: as the operator makes it, of the image that is here
  api DELETE "$operator/driver?gracePeriodSeconds=0" >/dev/null
  tag=$(jq -r '.Env[] | select(startswith("DRIVER_VERSION=")) | sub(".*="; "")' /images/driver.json)
  api POST $operator "$(jq -n --arg type "$1" --arg word "${2-}" --arg tag "$tag" '{metadata: {name: "driver", labels: {"app.kubernetes.io/component": "nvidia-driver"}},
    spec: {nodeName: "gpu-1", volumes: [{name: "parameters", configMap: {name: "m"}}],
    initContainers: [{name: "k8s-driver-manager", image: "r.example/kmodsmith-driver:\($tag)"}],
    containers: [{name: "nvidia-driver-ctr", image: "r.example/kmodsmith-driver:\($tag)-debian12", env: [{name: "KERNEL_MODULE_TYPE", value: $type},
    {name: "SITE_WORD", value: $word}], volumeMounts: (if $word == "parameters" then [{name: "parameters",
    mountPath: "/drivers/nvidia.conf", subPath: "nvidia.conf"}] else [] end)}]}}')" | jq -r '.metadata.uid // halt_error'
}
manage() { # DIGEST [VAR=VALUE...]
  address=$(cat /beside/url)
  digest=$1
  shift
  pod_run manager manager DRIVER_CONFIG_DIGEST="$digest" KUBERNETES_SERVICE_HOST=10.0.2.2 KUBERNETES_SERVICE_PORT="${address##*:}" "$@"
}
driver_starts() { pod_start driver clusterpolicy DRIVER_CONFIG_DIGEST="$1" && pod_wait_ready driver; }
srcversions() { cat /sys/module/nvidia*/srcversion; }
mounts() { grep -cE " ${root}(/| )" /proc/self/mountinfo; }
says() { # the operand's label, the cordon, and how many annotations are ours
  api GET $node | jq -r '"\(.metadata.labels["nvidia.com/gpu.deploy.device-plugin"]) \(.spec.unschedulable // false)
\(.metadata.annotations // {} | keys | map(select(startswith("kmodsmith"))) | length)"' | paste -sd' '
}
untouched() { # WHAT
  is "$1: the modules are the same" "$(srcversions)" "$before"
  is "$1: the root is as it was" "$(mounts)" "$mounted"
  t "$1: nvidia-smi starts after a chroot" chroot $root nvidia-smi --help
  is "$1: the operands run, and the node is not cordoned" "$(says)" "true false 0"
  is "$1: the job runs" "$(api GET $jobs/train | jq -r .kind)" Pod
}

t "the node has what a pod needs" pods_begin
t "the node has a package in its store" node_has_store
t "the operator makes its pod" driver_pod auto
mkdir -p $root/lib/firmware # the kubelet does, for the driver's container
t "a node without a driver: there is nothing to do" manage digest-1
like "a node without a driver: it says so" "$out" '^nothing was touched: no driver is loaded'
t "the driver starts" driver_starts digest-1
t "a job gets a GPU" api POST $jobs '{"metadata": {"name": "train", "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1",
  "controller": true}]}, "spec": {"nodeName": "gpu-1", "terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i",
  "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}'
before=$(srcversions) mounted=$(mounts)

t_fails 75 "a driver's container is alive: nothing is taken from it" manage digest-2 FORCE_REINSTALL=true
like "a driver's container is alive: it is named" "$(cat "$pods/manager/termination-log")" "^E_LOCKED .*$(pod_pid driver)"
untouched "a driver's container is alive"
t "the driver's pod is deleted" pod_delete driver

t "other environment: the operator makes its pod anew" driver_pod auto another
t "other environment: the init container ends well" seconds manage digest-2
echo "# nothing to do: $took s"
like "other environment: it says why nothing is done" "$out" '^nothing was touched: the kernel already has what the pod would load'
untouched "other environment"
t "other environment: the driver starts" driver_starts digest-2
unlike "other environment: no module is loaded again" "$(pod_log driver)" '^kmodsmith: (load|unload) '
t "the driver's pod is deleted again" pod_delete driver

t "a flavour that nobody has: the operator makes its pod anew" driver_pod proprietary
t_fails 1 "a flavour that nobody has: the init container fails" manage digest-3
# The image has sources, so that it would be compiled if there were headers.
like "a flavour that nobody has: the termination log has the reason" "$(cat "$pods/manager/termination-log")" \
  '^E_HEADERS_NOT_FOUND \(HeadersNotFound\): driver [0-9.]+ stays loaded: compile: headers of'
untouched "a flavour that nobody has"

uid=$(driver_pod auto parameters)
volume=/var/lib/kubelet/pods/$uid/volumes/kubernetes.io~configmap/parameters
mkdir -p "$volume" && echo "NVreg_DeviceFileMode=0600" >"$volume/nvidia.conf"
hold /dev/nvidia0
t_fails 75 "another parameter, a process has the GPU open: the init container fails" manage digest-4
like "another parameter, a process has the GPU open: it is named" "$(cat "$pods/manager/termination-log")" "^E_IN_USE .*pid $holder "
untouched "another parameter, a process has the GPU open"
release
t "another parameter: the init container ends well" manage digest-4
like "another parameter: it says what it did" "$out" '^unloaded: only parameters differ'
is "another parameter: no module is left" "$(grep -c '^nvidia' /proc/modules)" 0
is "another parameter: the job was evicted" "$(api GET $jobs/train | jq -r .reason)" NotFound
is "another parameter: the root is gone" "$(mounts)" 0
is "another parameter: operands and node are given back" "$(says)" "true false 0"
t "another parameter: the driver's container starts on the free node" driver_starts digest-4
t "another parameter: nvidia-smi starts after a chroot" chroot $root nvidia-smi --help
t "the driver's pod is deleted once more" pod_delete driver

# The upgrade controller, and what the driver's container lets it do: with the rights that it keeps once it serves.
set=/apis/apps/v1/namespaces/gpu-operator/daemonsets state=nvidia.com/gpu-driver-upgrade-state skip=nvidia.com/gpu-driver-upgrade.skip
tag=$(jq -r '.Env[] | select(startswith("DRIVER_VERSION=")) | sub(".*="; "")' /images/driver.json)
template() { # KERNEL_MODULE_TYPE [WORD]
  jq -n --arg type "$1" --arg word "${2-}" --arg tag "$tag" '{metadata: {labels: {app: "d"}}, spec: {containers: [{name: "nvidia-driver-ctr",
    image: "r.example/kmodsmith-driver:\($tag)-debian12", env: [{name: "KERNEL_MODULE_TYPE", value: $type}, {name: "SITE_WORD", value: $word}]}]}}'
}
wants() { # KERNEL_MODULE_TYPE [WORD]: the next template, which the controller sees
  api PATCH $set/driver "{\"spec\": {\"template\": $(template "$@")}}" | jq -r '.metadata.uid // halt_error' &&
    api PATCH $node "{\"metadata\": {\"labels\": {\"$state\": \"upgrade-required\"}}}" >/dev/null
}
receipt() { api GET $node | jq -r '.metadata | "\(.labels["'$skip'"]) \(.annotations["kmodsmith.io/driver-upgrade-hold"])"'; }
becomes() { # REGEXP of label and receipt
  tries=120
  until receipt | grep -qE "$1"; do
    tries=$((tries - 1))
    if [ $tries -eq 0 ] || ! pod_alive driver; then receipt; pod_log driver; return 1; fi
    sleep 0.5
  done
}
with_account() { # as the kubelet gives it to each container of a pod
  address=$(cat /beside/url)
  cp -r /beside/account $pods/account &&
    pod_start driver clusterpolicy-account DRIVER_CONFIG_DIGEST=digest-4 KUBERNETES_SERVICE_HOST=10.0.2.2 KUBERNETES_SERVICE_PORT="${address##*:}"
}
uid=$(api POST $set "{\"metadata\": {\"name\": \"driver\", \"ownerReferences\": [{\"apiVersion\": \"nvidia.com/v1\", \"kind\": \"ClusterPolicy\", \"name\": \"p\",
  \"uid\": \"p\", \"controller\": true}]}, \"spec\": {\"selector\": {\"matchLabels\": {\"app\": \"d\"}}, \"template\": $(template auto)}}" | jq -r .metadata.uid)
t "an upgrade: the operator makes its pod" driver_pod auto
t "an upgrade: the pod is of its DaemonSet" api PATCH $operator/driver "{\"metadata\": {\"ownerReferences\": [{\"apiVersion\": \"apps/v1\", \"kind\": \"DaemonSet\",
  \"name\": \"driver\", \"uid\": \"$uid\", \"controller\": true}]}}"
t "an upgrade: the driver's container has the pod's account" with_account
t "an upgrade: at rest the controller is kept from the node" becomes '^true .*"state":"held".*"target":null'
like "an upgrade: rights were dropped" "$(pod_log driver)" 'capabilities dropped: .*CAP_NET_ADMIN'
t "an upgrade: another parameter" pod_exec driver sh -c 'mkdir -p /drivers && echo NVreg_DeviceFileMode=0644 >/drivers/nvidia.conf'
before=$(srcversions)
t "an upgrade: the controller sees it" wants auto another
t "an upgrade: it is proven with what rights are left, and let go" becomes '^null .*"state":"lifted".*it is proven'
t "an upgrade: a flavour that nobody has" wants proprietary
t "an upgrade: that is held, and says why" becomes '^true .*"state":"held".*"reason":"E_'
like "an upgrade: status says so, too" "$(pod_exec driver kmodsmith status)" 'the operator wants .*: held until .*: E_'
is "an upgrade: the modules are the same" "$(srcversions)" "$before"
t "an upgrade: the operator goes" api DELETE $set/driver
t "an upgrade: its pod is deleted" pod_delete driver
is "an upgrade: nothing is left on the node" "$(receipt)" "null null"
