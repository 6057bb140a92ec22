#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The init container of the GPU Operator's driver pods against the real API server: what is proven before anybody is
# disturbed, who is evicted, and that labels and cordons are given back on each way out.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # bats runs each test in a subshell; the helpers set and use what is here
load helper
load agent
load driver-manager

setup_file() {
  kube_start
  operator_rights
}
teardown_file() { kube_stop; }
setup() {
  kube_needed
  agent_machine
  node_begin
  image=$new
  from=(KMODSMITH_FROM="oci:$repository" KERNEL_MODULE_TYPE=open)
}
teardown() { node_end; }

@test "another configuration of the same driver unloads, evicts and pauses nothing" {
  local before
  image=$old
  gpu_pod train
  driver_pod "$old" "${from[@]}" HTTPS_PROXY=http://proxy.example:3128
  before=$(kube GET "/api/v1/nodes/$node" | jq -r .metadata.resourceVersion)
  manage uninstall_driver DRIVER_CONFIG_DIGEST=2
  assert_success
  assert_output "nothing was touched: the kernel already has what the pod would load, driver $old (open) for kernel $kernel"
  assert_untouched "plugin train"
  assert_equal "$(kube GET "/api/v1/nodes/$node" | jq -r .metadata.resourceVersion)" "$before"
}

@test "an unavailable next driver: the termination log has the reason, and nothing is touched" {
  gpu_pod train
  rm -r "$repository"
  driver_pod "$new" "${from[@]}"
  manage uninstall_driver DRIVER_CONFIG_DIGEST=2
  assert_failure 1
  assert_error E_NOT_FOUND
  run cat "$ROOT/dev/termination-log"
  assert_line --regexp "^E_NOT_FOUND \(NotFound\): no package of driver $new "
  assert_line --partial "next: "
  assert_untouched "plugin train"
}

@test "a next driver that does not fit the kernel: nothing is touched" {
  gpu_pod train
  tiny_module "$BATS_TEST_TMPDIR/package.d/nvidia.ko" 6.1.0-99-cloud-amd64 nvidia_register_module "" # made up
  layout "$BATS_TEST_TMPDIR/package" "$kernel" --driver "$new"
  driver_pod "$new" KERNEL_MODULE_TYPE=open KMODSMITH_FROM="oci:$BATS_TEST_TMPDIR/package"
  manage uninstall_driver
  assert_error E_ABI "driver $old stays loaded: prove"
  run head -1 "$ROOT/dev/termination-log"
  assert_output --regexp '^E_ABI \(AbiMismatch\): .*6\.1\.0-99'
  assert_untouched "plugin train"
}

@test "a next driver: proven, operands paused, GPU pods evicted, unloaded, and everything restored" {
  gpu_pod train
  a_pod web Job
  driver_pod "$new" "${from[@]}"
  manage uninstall_driver DRIVER_CONFIG_DIGEST=2
  assert_success
  assert_output --partial "unloaded: driver $old is loaded, $new was requested; driver $new (open) for kernel $kernel is ready in the store"
  assert_regex "$stderr" "evicted default/train-$node"
  assert_equal "$(calls_of 'unload nvidia')" 1
  assert_equal "$(there)" web
  assert_equal "$(label "$operand") $(label nvidia.com/gpu.deploy.dcgm) $(label nvidia.com/gpu.deploy.nvsm)" "true false null"
  assert_equal "$(cordoned) $(cordon_is_ours)" "false no"
  # What it left is what the driver's container finds: nothing is loaded, and the next driver is in the store.
  loads "$new"
  rm -r "$repository"
  kmodsmith install --driver "$new" --flavour open --insecure-skip-verify
  assert_status 0
}

@test "a pod that must not be evicted is named before anything is disturbed" {
  gpu_pod train ""
  driver_pod "$new" "${from[@]}"
  manage uninstall_driver
  assert_error E_IN_USE "default/train-$node: no controller would recreate it"
  assert_untouched "plugin train"
  manage uninstall_driver ENABLE_GPU_POD_EVICTION=false
  assert_error E_IN_USE "train-$node"
  node_patch '{"metadata": {"annotations": {"nvidia.com/gpu-driver-upgrade-enabled": "true"}}}'
  manage uninstall_driver
  assert_error E_IN_USE "train-$node"
  assert_regex "$stderr" "no pod is evicted: the operator's upgrade controller does that"
  assert_untouched "plugin train"
  node_patch '{"metadata": {"annotations": null}}'
  manage uninstall_driver DRAIN_USE_FORCE=true
  assert_success
  assert_equal "$(there)" ""
}

@test "a host process has a GPU open: it is named, and nothing is disturbed for an unload that would fail" {
  gpu_pod train
  driver_pod "$new" "${from[@]}"
  cp -a "$top/tests/hosts/held/proc/6001" "$ROOT/proc/"
  manage uninstall_driver
  assert_error E_IN_USE "pid 6001 mapper (uid 1001) "
  assert_untouched "plugin train"
  # The same in a pod that has not asked for one: it is evicted, and the process stays, since nobody ends it here.
  a_pod hidden Job
  rm -r "$ROOT/proc/6001" && cp -a "$top/tests/hosts/held/proc/4242" "$ROOT/proc/"
  sed -i "s/0f3a9c1e_57d2_4a6b_9c0e_1b2d3e4f5a6b/$(pods 'select(.metadata.labels.app == "hidden") | .metadata.uid' | tr - _)/" "$ROOT/proc/4242/cgroup"
  manage uninstall_driver
  assert_error E_IN_USE "first: pid 4242 python3"
  assert_equal "$(there)" ""
  assert_equal "$(calls_of unload) $(node_says)" "0 true false no"
}

@test "a node that others cordoned stays cordoned" {
  node_patch '{"spec": {"unschedulable": true}}'
  driver_pod "$new" "${from[@]}"
  manage uninstall_driver
  assert_success
  assert_equal "$(calls_of 'unload nvidia')" 1
  assert_equal "$(node_says)" "true true no"
}

@test "another driver container started meanwhile: its driver stays, and everything is restored" {
  local pid
  driver_pod "$new" "${from[@]}"
  manager uninstall_driver >"$BATS_TEST_TMPDIR/log" 2>&1 3>&- 4>&- &
  pid=$!
  log=$BATS_TEST_TMPDIR/log soon is_paused
  mkdir -p "$ROOT/run/nvidia"
  exec 9>"$ROOT/run/nvidia/nvidia-driver.pid"
  flock -n 9
  wait "$pid" && status=0 || status=$?
  exec 9>&-
  output=$(<"$BATS_TEST_TMPDIR/log")
  assert_failure 75
  assert_output --partial "E_LOCKED"
  assert_equal "$(calls_of unload) $(node_says)" "0 true false no"
}

@test "a blocking budget: gives up at the deadline; on a signal, at once; if killed, the next start does" {
  local pid
  gpu_pod train
  kube PATCH "/api/v1/namespaces/default/pods/train-$node/status" '{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}' \
    application/merge-patch+json >/dev/null
  kube POST /apis/policy/v1/namespaces/default/poddisruptionbudgets \
    '{"metadata": {"name": "guard"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "train"}}}}' >/dev/null
  driver_pod "$new" "${from[@]}"
  manage uninstall_driver DRAIN_TIMEOUT_SECONDS=1s
  assert_error E_IN_USE "disruption budget"
  assert_equal "$(calls_of unload) $(node_says)" "0 true false no"
  for signal in TERM KILL; do
    manager uninstall_driver >"$BATS_TEST_TMPDIR/log" 2>&1 3>&- 4>&- &
    pid=$!
    log=$BATS_TEST_TMPDIR/log soon is_paused
    kill -"$signal" "$pid"
    wait "$pid" || true
    [ "$signal" = KILL ] || assert_equal "$(node_says)" "true false no"
  done
  assert_equal "$(node_says)" "paused-for-driver-upgrade true true"
  mkdir -p "$ROOT/run/nvidia"
  echo 7 >"$ROOT/run/nvidia/nvidia-driver.state" # the configuration of before is requested again
  manage uninstall_driver DRIVER_CONFIG_DIGEST=7
  assert_success
  assert_output --partial "was ready with this configuration, 7"
  assert_equal "$(calls_of unload) $(node_says)" "0 true false no"
}
is_paused() { [ "$(label "$operand")" = paused-for-driver-upgrade ]; }

loaded_by_others() { # nothing here remembers that it was us
  sed -i 's/"boot_id": *"[^"]*"/"boot_id": "another"/' "$ROOT"/run/kmodsmith/*.json
  rm -rf "$ROOT/var/lib/kmodsmith/store"
}

@test "a driver that another container left, such as NVIDIA's, is unloaded like ours" {
  loaded_by_others
  a_pod hidden Job
  cp -a "$top/tests/hosts/held/proc/4242" "$ROOT/proc/"
  sed -i "s/0f3a9c1e_57d2_4a6b_9c0e_1b2d3e4f5a6b/$(pods 'select(.metadata.labels.app == "hidden") | .metadata.uid' | tr - _)/" "$ROOT/proc/4242/cgroup"
  driver_pod "$new" "${from[@]}"
  echo 8 >"$ROOT/sys/module/nvidia/refcnt"
  manage uninstall_driver
  assert_error E_IN_USE "first: pid 4242 python3" # on a recorded machine it outlives its pod
  assert_equal "$(there) $(label nvidia.com/gpu.deploy.driver)" " null"
  rm -r "$ROOT/proc/4242"
  rm "$ROOT/sys/module/nvidia/refcnt"
  manage uninstall_driver
  assert_success
  assert_equal "$(calls_of 'unload nvidia')" 1
}

@test "the host's own driver is left alone, and the operator is told" {
  local ko=lib/modules/$kernel/updates/dkms
  loaded_by_others
  mkdir -p "$ROOT/$ko"
  cp "$BATS_TEST_TMPDIR/package.d/nvidia.ko" "$ROOT/$ko/"
  echo "updates/dkms/nvidia.ko:" >"$ROOT/lib/modules/$kernel/modules.dep"
  driver_pod "$new" "${from[@]}"
  manage uninstall_driver
  assert_error E_HOST_DRIVER
  assert_equal "$(label nvidia.com/gpu.deploy.driver)" pre-installed
  assert_equal "$(calls_of unload) $(label "$operand")" "0 true"
}

@test "module parameters of the pod count: other values mean another load, the same ones none" {
  image=$old
  local dir=$ROOT/var/lib/kubelet/pods
  VOLUMES='[{"name": "params", "configMap": {"name": "m"}}]' MOUNTS='[{"name": "params", "mountPath": "/drivers/nvidia.conf", "subPath": "nvidia.conf"}]' \
    driver_pod "$old" "${from[@]}"
  manage uninstall_driver
  assert_error E_NOT_FOUND "KMODSMITH_KUBELET_DIR"
  dir=$dir/$(kube GET "/api/v1/namespaces/$OPERATOR/pods/$pod" | jq -r .metadata.uid)/volumes/kubernetes.io~configmap/params
  mkdir -p "$dir"
  echo "NVreg_DeviceFileMode=0$(printf %o "$(sed -n 's/^DeviceFileMode: //p' "$ROOT/proc/driver/nvidia/params")")" >"$dir/nvidia.conf"
  manage uninstall_driver
  assert_success
  assert_untouched plugin
  echo key >"$dir/..data"
  echo "NVreg_DeviceFileMode=0600" >"$dir/nvidia.conf"
  manage uninstall_driver
  assert_success
  assert_output --partial "unloaded: only parameters differ"
  assert_equal "$(calls_of 'unload nvidia')" 1
}

@test "what is mounted below /drivers, and repositories, are read as the driver's container sees them: files in directories, none special" {
  image=$old
  local dir=$ROOT/var/lib/kubelet/pods
  VOLUMES='[{"name": "licence", "secret": {"secretName": "s"}}, {"name": "params", "configMap": {"name": "m"}},
    {"name": "sources", "configMap": {"name": "r"}}]' MOUNTS='[{"name": "sources", "mountPath": "/etc/apt/sources.list.d/site.list", "subPath": "site.list"},
    {"name": "licence", "mountPath": "/drivers/licensing-config"}, {"name": "licence", "mountPath": "/drivers/gridd.conf", "subPath": "gridd.conf"},
    {"name": "licence", "mountPath": "/drivers/ClientConfigToken/client_configuration_token.tok", "subPath": "client_configuration_token.tok"},
    {"name": "params", "mountPath": "/drivers/nvidia.conf", "subPath": "nvidia.conf"}, {"name": "params", "mountPath": "/drivers"}]' driver_pod "$old" "${from[@]}"
  dir=$dir/$(kube GET "/api/v1/namespaces/$OPERATOR/pods/$pod" | jq -r .metadata.uid)/volumes
  mkdir -p "$dir/kubernetes.io~secret/licence/..2026" "$dir/kubernetes.io~configmap/params/nvidia.conf"
  mkdir "$dir/kubernetes.io~configmap/sources"
  echo "deb http://site ./" >"$dir/kubernetes.io~configmap/sources/site.list"
  cd "$dir/kubernetes.io~secret/licence"
  ln -s ..2026 ..data
  for name in gridd.conf client_configuration_token.tok; do
    echo "$name" >"..2026/$name"
    ln -s "..data/$name" "$name"
  done
  mkfifo fifo ../../kubernetes.io~configmap/params/fifo
  python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
  cd "$ROOT"
  manage uninstall_driver
  assert_success
  assert_untouched plugin
  assert_equal "$(cd "$ROOT" && find drivers -type f -exec cat {} + | sort | uniq -c | xargs)" "2 client_configuration_token.tok 2 gridd.conf"
  assert_equal "$(cat "$ROOT/drivers/licensing-config/gridd.conf")" gridd.conf
  assert_equal "$(cat "$ROOT/etc/apt/sources.list.d/site.list")" "deb http://site ./"
  assert_equal "$(grep -c "is skipped: it is a \(FIFO\|socket\)" <<<"$stderr")" 3
}

@test "GPUs that vfio-pci has are for the driver's container where the operator's label says so, and only as long" {
  image=$old
  driver_pod "$old" "${from[@]}"
  manage uninstall_driver
  [ ! -e "$ROOT/run/kmodsmith/from-vfio" ]
  node_patch '{"metadata": {"labels": {"nvidia.com/gpu.workload.config": "container"}}}'
  manage uninstall_driver
  [ -e "$ROOT/run/kmodsmith/from-vfio" ]
  node_patch '{"metadata": {"labels": {"nvidia.com/gpu.workload.config": "vm-passthrough"}}}'
  manage uninstall_driver
  [ ! -e "$ROOT/run/kmodsmith/from-vfio" ]
}

@test "the kernel refuses a module after others were unloaded: they are loaded again, and everything is restored" {
  driver_pod "$new" "${from[@]}"
  loads "$old"
  echo "EBUSY unload nvidia" >"$ROOT/.sys-refused"
  manage uninstall_driver
  assert_error E_IN_USE "after nvidia"
  assert_regex "$(sed -n '/^unload nvidia_/,$p' "$ROOT/.sys-calls" | sed 's/ *$//' | paste -sd';')" '^unload nvidia_.*;load nvidia_'
  assert_equal "$(cd "$ROOT/sys/module" && echo nvidia*)" "nvidia nvidia_modeset nvidia_uvm"
  assert_equal "$(node_says)" "true false no"
}

@test "ENABLE_AUTO_DRAIN: the driver is in use after the GPU pods are gone, so all pods but DaemonSets' are evicted" {
  a_pod web Job
  a_pod log DaemonSet
  driver_pod "$new" "${from[@]}"
  echo 'EBUSY unload nvidia_modeset' >"$ROOT/.sys-refused"
  manage uninstall_driver
  assert_error E_IN_USE
  assert_equal "$(there)" "log web"
  echo 'EBUSY unload nvidia_modeset' >"$ROOT/.sys-refused"
  manage uninstall_driver ENABLE_AUTO_DRAIN=true
  assert_success
  assert_equal "$(there)" log
  assert_equal "$(node_says)" "true false no"
}

@test "preflight_check fetches and proves the next driver, and writes nothing on the Node" {
  gpu_pod train
  driver_pod "$new" "${from[@]}"
  manage preflight_check
  assert_success
  assert_output --partial "driver $new (open) for kernel $kernel is ready in the store"
  assert_untouched "plugin train"
  rm -r "$repository" "$ROOT/var/lib/kmodsmith/store"
  manage preflight_check
  assert_failure 1
}

@test "an image other than the driver container's proves nothing, and says so" {
  driver_pod 595.99.01 "${from[@]}"
  manage uninstall_driver
  assert_error E_CONFIG "set driver.manager.version to driver.version"
  assert_untouched plugin
}

@test "FORCE_REINSTALL unloads the requested driver if it can be loaded again" {
  image=$old
  driver_pod "$old" "${from[@]}"
  manage uninstall_driver FORCE_REINSTALL=true
  assert_success
  assert_output --partial "unloaded: FORCE_REINSTALL; driver $old (open)"
  assert_equal "$(calls_of 'unload nvidia')" 1
}

@test "no driver is loaded: nothing is evicted, and what an earlier start left is restored" { # R-D6
  gpu_pod train
  kube DELETE "/api/v1/namespaces/default/pods/plugin-$node?gracePeriodSeconds=0" >/dev/null
  kmodsmith unload
  assert_status 0
  node_patch "{\"spec\": {\"unschedulable\": true}, \"metadata\": {\"labels\": {\"$operand\": \"paused-for-driver-upgrade\"},
    \"annotations\": {\"kmodsmith.io/driver-manager.cordon\": \"true\"}}}"
  mkdir -p "$ROOT/run/nvidia"
  echo 4711 >"$ROOT/run/nvidia/nvidia-driver.pid"
  manage uninstall_driver
  assert_success
  assert_output "nothing was touched: no driver is loaded"
  assert_equal "$(there) $(node_says)" "train true false no"
  assert [ ! -e "$ROOT/run/nvidia/nvidia-driver.pid" ]
}
