#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What a node says of its driver and its next kernel, as a pod with the rights of deploy/rbac.yaml: on its Node, and as Events.
# shellcheck disable=SC2030,SC2031,SC2154 # bats runs each test in a subshell; bats and helper.bash set stderr, top and ROOT
load helper

next=6.1.0-57-cloud-amd64
setup_file() {
  kube_start --allow-privileged=true
  deploy rbac.yaml
}
setup() {
  kube_needed
  node=gpu$BATS_TEST_NUMBER
  kube POST /api/v1/nodes "{\"metadata\": {\"name\": \"$node\"}}" >/dev/null
  loadable
  local account=$ROOT/var/run/secrets/kubernetes.io/serviceaccount
  mkdir -p "$account" "$ROOT/boot"
  token >"$account/token"
  cp "$CA" "$account/ca.crt"
  echo kmodsmith >"$account/namespace"
}
teardown_file() { kube_stop; }
token() {
  kube POST /api/v1/namespaces/kmodsmith/serviceaccounts/kmodsmith-agent/token \
    '{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}' | jq -r .status.token
}
pod() { # OPTION...: watch --once, in a pod on this node
  NODE_NAME=$node KUBERNETES_SERVICE_HOST=127.0.0.1 KUBERNETES_SERVICE_PORT=${KUBE##*:} \
    kmodsmith watch --once --driver 535.261.03 "$@"
}
note() { kube GET "/api/v1/nodes/$node" | jq -r '.metadata.annotations["kmodsmith.io/agent.next-kernel"]'; }
version() { kube GET "/api/v1/nodes/$node" | jq -r .metadata.resourceVersion; }
events() { # [FILTER of jq]
  kube GET /api/v1/namespaces/default/events |
    jq -r --arg node "$node" ".items[] | select(.involvedObject.name == \$node) | ${1-.type + \" \" + .reason}"
}
gate() { KMODSMITH_RUN_DIR=$ROOT/run/kmodsmith "$top/scripts/hooks/reboot-gate"; }

@test "a next kernel that cannot be served: annotation and Event, once; and again once it can be" {
  local account=$ROOT/var/run/secrets/kubernetes.io/serviceaccount before
  mkdir -p "$ROOT/lib/modules/$next/kernel"
  cp "$ROOT"/lib/modules/6.1.0-56-cloud-amd64/config "$ROOT/lib/modules/$next/config"
  touch "$ROOT/lib/modules/$next"/modules.{builtin,order,dep,dep.bin}
  echo image >"$ROOT/boot/vmlinuz-$next"
  pod
  assert_status 1
  refute [ "${stderr#*is not told}" != "$stderr" ]
  assert_equal "$(note)" "impossible $next E_NO_PACKAGE"
  assert_equal "$(events)" "Warning NextKernelUnservable"
  before=$(version)
  pod
  assert_equal "$(version)" "$before"
  assert_equal "$(events | wc -l)" 1
  tiny_package "$BATS_TEST_TMPDIR/next" "$next"
  pod --from "oci:$BATS_TEST_TMPDIR/next" --insecure-skip-verify
  assert_status 0
  assert_equal "$(note)" "ready $next"
  assert_equal "$(events | sort | tr '\n' ' ')" "Normal NextKernelServable Warning NextKernelUnservable "
  # No rights, or no Node: a line in the log.
  echo made-up >"$account/token"
  pod
  assert_status 0
  [[ $stderr == *"the Node $node is not told: "*"401"* ]]
}

start() { # COMMAND OPTION...: a pod of this node that stays
  # shellcheck disable=SC2154 # loadable
  NODE_NAME=$node KUBERNETES_SERVICE_HOST=127.0.0.1 KUBERNETES_SERVICE_PORT=${KUBE##*:} KMODSMITH_ROOT=$ROOT \
    "$KMODSMITH" "$@" >"$BATS_TEST_TMPDIR/log" 2>&1 3>&- 4>&- &
  pod=$!
}
teardown() { [ -z "${pod-}" ] || kill -KILL "$pod" 2>/dev/null || true; }
condition() { # TYPE
  kube GET "/api/v1/nodes/$node" | jq -r --arg type "$1" '.status.conditions[]? | select(.type == $type) | "\(.status) \(.reason)"'
}
is_told() { [ "$(condition NvidiaDriverReady)" = "$1" ]; }
is_tainted() { [ "$(kube GET "/api/v1/nodes/$node" | jq '[.spec.taints[]?.key] | any(. == "kmodsmith.io/driver-not-ready")')" = true ]; }

@test "conditions: a new node is not ready, is ready once its driver is, and takes work from then on" {
  kube PATCH "/api/v1/nodes/$node" '{"spec": {"taints": [{"key": "kmodsmith.io/driver-not-ready", "effect": "NoSchedule"}]}}' \
    application/merge-patch+json >/dev/null
  start init --driver 999.1 # made up: nobody has it
  log=$BATS_TEST_TMPDIR/log soon is_told "False NoPackage"
  run wait "$pod" # its last word was told before it ended
  assert_failure
  is_tainted
  start init --package "$BATS_TEST_TMPDIR/package" --no-daemons
  log=$BATS_TEST_TMPDIR/log soon is_told "True DriverReady"
  run is_tainted
  assert_failure
  kill -TERM "$pod"
  wait "$pod"
  is_told "True DriverReady" # the driver stays
}

@test "conditions: they follow while nobody calls, and what was missed before a kill is told after it" {
  start watch --driver 535.261.03 --interval 3600
  log=$BATS_TEST_TMPDIR/log soon is_told "Unknown NoRunYet"
  kmodsmith install --package "$BATS_TEST_TMPDIR/package"
  assert_status 0
  log=$BATS_TEST_TMPDIR/log soon is_told "True DriverReady"
  kube PATCH "/api/v1/nodes/$node/status" '{"status": {"conditions": []}}' application/merge-patch+json >/dev/null
  kill -KILL "$pod" # its child tells a last time, if there is news
  kmodsmith unload
  assert_status 0
  start watch --driver 535.261.03 --interval 3600
  log=$BATS_TEST_TMPDIR/log soon is_told "False DriverNotReady"
}

# The pod of deploy/daemonset.yaml, as a kubelet leaves it between two starts of its container.
pod_ended() { # POD: with what was left in the termination log
  local pods=/api/v1/namespaces/kmodsmith/pods
  kube POST $pods "$(python3 -c 'import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))["spec"]["template"]))' "$top/deploy/daemonset.yaml" |
    jq --arg name "$1" --arg node "$node" '.metadata.name = $name | .spec.nodeName = $node')" | jq -e '.kind == "Pod"' >/dev/null
  kube PATCH "$pods/$1/status" "$(jq -n --rawfile log "$ROOT/dev/termination-log" '(now | todate) as $now | {status: {phase: "Running", containerStatuses: [
    {name: "driver", image: "i", imageID: "", ready: false, started: false, restartCount: 3, state: {waiting: {reason: "CrashLoopBackOff"}},
    lastState: {terminated: {exitCode: 1, reason: "Error", startedAt: $now, finishedAt: $now, message: $log}}}]}}')" application/merge-patch+json |
    jq -e '.kind == "Pod"' >/dev/null
}
@test "a refusal: kubectl describe shows of the Node and of the pod what troubleshooting.md says" {
  kubectl_needed
  node=gpu-1
  kube POST /api/v1/nodes "{\"metadata\": {\"name\": \"$node\"}}" >/dev/null
  kube PATCH "/api/v1/nodes/$node/status" '{"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}}' \
    application/merge-patch+json >/dev/null
  mkdir -p "$ROOT/dev"
  : >"$ROOT/dev/termination-log"
  start init --driver 535.261.03
  run wait "$pod"
  assert_failure
  pod_ended kmodsmith-driver-x7k2p
  kubectl describe node gpu-1 | assert_shown "kubectl describe node gpu-1"
  kubectl describe pod -n kmodsmith kmodsmith-driver-x7k2p | assert_shown "kubectl describe pod -n kmodsmith kmodsmith-driver-x7k2p"
}

# The real kernel package, its real headers, and NVIDIA's real source. The patch that repairs the pair is switched off
# by a file of its name, which is for no driver.
# By what the headers declare and the source calls: the kernel wants a parameter more than the driver gives.
needs_patch() {
  grep -A1 'pci_resize_resource(' "$ROOT/usr/src/linux-headers-${K61%-cloud-amd64}-common/include/linux/pci.h" | grep -q exclude_bars &&
    dpkg-deb --fsys-tarfile "$OPEN" | tar -xO ./usr/src/nvidia-open-kernel.tar.xz | tar -xJO --wildcards '*/nvidia/nv-pci.c' |
    grep -E 'pci_resize_resource\([^,]*,[^,]*,[^,]*\);' >/dev/null
}
@test "a driver without the patch that the next kernel needs: reported before the reboot, and the gate holds" {
  local K61 K61_IMAGE K61_HEADERS OPEN deb driver patches=$BATS_TEST_TMPDIR/patches
  # shellcheck source=/dev/null # made by scripts/inputs.sh
  source <(kept "$top/scripts/inputs.sh" | grep -E '^(K61|K61_IMAGE|K61_HEADERS|OPEN)=')
  sed -i 's/6\.1\.0-[0-9]*-cloud/6.1.0-1-cloud/' "$ROOT/proc/sys/kernel/osrelease" "$ROOT/proc/version" # made up
  mv "$ROOT"/lib/modules/6.1.0-{56,1}-cloud-amd64 # recorded, made up
  mkdir -p "$ROOT/usr" "$patches"
  # shellcheck disable=SC2086 # several paths
  for deb in $K61_IMAGE $K61_HEADERS; do
    dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$ROOT" --keep-directory-symlink
  done
  touch "$ROOT/lib/modules/$K61"/modules.{dep,dep.bin} # depmod's
  echo 'Driver: none' >"$patches/pci_resize_resource.patch"
  if ! needs_patch; then # then it can be built without
    kmodsmith check --kernel "$K61" --source "$OPEN" --headers "${K61_HEADERS// /,}" --patches "$patches"
    assert_status 20
    return
  fi
  driver=${OPEN##*source_} driver=${driver%%-*}
  gate
  pod --gate --source "$OPEN" --patches "$patches"
  assert_status 1
  refute [ "${stderr#*is not told}" != "$stderr" ]
  assert_line --partial "$K61 may start next: impossible: E_SOURCE_KERNEL: driver $driver (open) does not compile"
  refute_regex "$stderr" 'compile +[0-9.]+ s'
  assert_equal "$(note)" "impossible $K61 E_SOURCE_KERNEL"
  assert_equal "$(events)" "Warning NextKernelUnservable"
  assert_regex "$(events .message)" "^$K61 may start next: impossible: E_SOURCE_KERNEL: .*; next step: "
  kmodsmith status
  assert_line --partial "kernel $K61 may start next: impossible: E_SOURCE_KERNEL"
  kmodsmith doctor
  assert_line --regexp '^warn +next boot +E_SOURCE_KERNEL: '
  run gate
  assert_failure 1
  assert_output --partial "no reboot: $K61 may start next: impossible: E_SOURCE_KERNEL"
  # With it the pair can be built.
  kmodsmith check --kernel "$K61" --source "$OPEN" --headers "${K61_HEADERS// /,}"
  assert_status 20
}
