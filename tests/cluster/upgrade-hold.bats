#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# NVIDIA's upgrade controller is kept from a node until the next driver is proven there (contract 1.17): the real API server, the
# rights of the operator's account, and the controller's rules as turns of a node. Decisions: tests/unit/upgrade_hold_test.c.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # bats runs each test in a subshell; the helpers set and use what is here
load helper
load agent
load driver-manager

setup_file() {
  echo "# the controller's turns are those of $(nvidia_read k8s-operator-libs)" >&3
  kube_start
  operator_rights
}
teardown_file() { kube_stop; }
setup() {
  kube_needed
  agent_machine
  node_begin
  node_patch '{"metadata": {"labels": {"nvidia.com/gpu.deploy.driver": "true"}, "annotations": {"nvidia.com/gpu-driver-upgrade-enabled": "true"}}}'
  image=$old
  set=driver-set-$BATS_TEST_NUMBER sets=/apis/apps/v1/namespaces/$OPERATOR/daemonsets
  from=(KMODSMITH_FROM="oci:$repository" KERNEL_MODULE_TYPE=open)
  kube POST "$sets" "{\"metadata\": {\"name\": \"$set\", \"ownerReferences\": [{\"apiVersion\": \"nvidia.com/v1\", \"kind\": \"ClusterPolicy\",
    \"name\": \"p\", \"uid\": \"p\", \"controller\": true}]}, \"spec\": {\"selector\": {\"matchLabels\": {\"app\": \"$set\"}}, \"updateStrategy\":
    {\"type\": \"OnDelete\"}, \"template\": $(template "$old")}}" | jq -e '.kind == "DaemonSet"' >/dev/null
  OWNERS="[{\"apiVersion\": \"apps/v1\", \"kind\": \"DaemonSet\", \"name\": \"$set\", \"uid\": \"$(kube GET "$sets/$set" | jq -r .metadata.uid)\", \"controller\": true}]"
  driver_pod "$old" "${from[@]}"
  gpu_pod train
}
teardown() {
  [ -z "${driver-}" ] || kill -KILL "$driver" 2>/dev/null || true
  node_end
}
template() { # VERSION [IMAGE]: of the driver's pods
  jq -n --arg app "$set" --arg image "${2-r.example/kmodsmith-driver}:$1-ubuntu24.04" '{metadata: {labels: {app: $app}}, spec: {
    nodeSelector: {"nvidia.com/gpu.deploy.driver": "true"}, containers: [{name: "nvidia-driver-ctr", image: $image,
    env: ($ARGS.positional | map(capture("(?<name>[^=]*)=(?<value>.*)")))}]}}' --args "${from[@]}"
}
wanted() { # VERSION [IMAGE]: of the next driver; the controller sees it
  kube PATCH "$sets/$set" "{\"spec\": {\"template\": $(template "$@")}}" application/merge-patch+json | jq -e '.kind == "DaemonSet"' >/dev/null
  turns
}
state=nvidia.com/gpu-driver-upgrade-state skip=nvidia.com/gpu-driver-upgrade.skip
image_of() { jq -r '.spec.containers[] | select(.name == "nvidia-driver-ctr") | .image'; }
is_outdated() { [ "$(kube GET "/api/v1/namespaces/$OPERATOR/pods/$pod" | image_of)" != "$(kube GET "$sets/$set" | jq .spec.template | image_of)" ]; }
# The controller of gpu-operator 26.7 by the rows of tests/sim/nvidia.def, of which a node takes the first that holds: one turn,
# and the states that it has been through. Its conditions and acts are below.
rows=$(sed -nE 's/^X\("([^"]*)", ([a-z_]+), ([A-Za-z_]+), ("([^"]*)"|NULL)\)$/\1 . \2 \3 \5/p' "$BATS_TEST_DIRNAME/../sim/nvidia.def" | sed 's/^ \. /none /; s/ \. / /')
turn() {
  local now row word condition act next
  now=$(label "$state")
  [ "$now" != null ] || now=none
  while read -r word condition act next; do
    { [ "$word" = "$now" ] && "$condition"; } || continue
    [ "$act" = NULL ] || "$act"
    [ -n "$next" ] || return 1
    echo "$next" >>"$BATS_TEST_TMPDIR/states"
    node_patch "{\"metadata\": {\"labels\": {\"$state\": \"$next\"}}}"
    return
  done <<<"$rows"
  return 1
}
has_driver_pod() { kube GET "/api/v1/namespaces/$OPERATOR/pods/$pod" | jq -e '.kind == "Pod"' >/dev/null; }
is_driver_pod_outdated() { has_driver_pod && is_outdated; }
is_told_to_skip() { [ "$(label "$skip")" = true ]; }
may_begin_restart() { false; } # of an equal digest; here each target is another driver
may_begin_upgrade() { :; }
initial=nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable
was_cordoned() { [ "$(kube GET "/api/v1/nodes/$node" | jq -r --arg note "$initial" '.metadata.annotations[$note]')" = true ]; }
note_cordon() { [ "$(cordoned)" = false ] || node_patch "{\"metadata\": {\"annotations\": {\"$initial\": \"true\"}}}"; }
forget_cordon() { node_patch "{\"metadata\": {\"annotations\": {\"$initial\": null}}}"; }
cordon_site() { node_patch '{"spec": {"unschedulable": true}}'; }
uncordon_site() { node_patch '{"spec": {"unschedulable": null}}'; }
evict_gpu_pods() { kube DELETE "/api/v1/namespaces/default/pods/train-$node" >/dev/null; }
restart_driver_pod() { kube DELETE "/api/v1/namespaces/$OPERATOR/pods/$pod?gracePeriodSeconds=0" >/dev/null; }
states() { paste -sd' ' "$BATS_TEST_TMPDIR/states"; }
turns() { while turn; do :; done; }
look() { # [leaving|starting] [NAME=VALUE...]: of the driver's container
  local word=()
  [[ ${1-} == *=* || -z ${1-} ]] || { word=("$1") && shift; }
  run --separate-stderr env KMODSMITH_ROOT="$ROOT" KUBERNETES_SERVICE_HOST=127.0.0.1 KUBERNETES_SERVICE_PORT="${KUBE##*:}" NODE_NAME="$node" \
    DRIVER_VERSION="$image" "${from[@]}" "$@" "$KMODSMITH" driver-manager hold "${word[@]}" --insecure-skip-verify
}
receipt() { # JQ
  kube GET "/api/v1/nodes/$node" | jq -r '.metadata.annotations["kmodsmith.io/driver-upgrade-hold"] // "none" | (fromjson? // .)' |
    jq -r "${1-.}" 2>/dev/null || echo none
}
assert_jobs_run() { # the controller has done nothing, and nothing was touched
  assert_equal "$(label "$state") $(label "$skip")" "upgrade-required true"
  assert_untouched "plugin train"
}

@test "at rest the node is held by a label with a receipt, and a look writes nothing" {
  local before
  look
  assert_success
  assert_equal "$(label "$skip") $(receipt .state) $(receipt .pod) $(receipt .target)" "true held $pod null"
  before=$(version)
  look
  assert_success
  assert_equal "$output$stderr" ""
  assert_equal "$(version)" "$before"
}

@test "a next driver that nobody has: the label stays, the reason is told, and jobs go on until the deadline" {
  rm -r "$repository"
  look
  wanted "$new"
  assert_jobs_run
  look
  assert_failure 1
  turns
  assert_jobs_run
  assert_equal "$(receipt .state)" held
  assert_regex "$(receipt .target)" "kmodsmith-driver:$new-ubuntu24.04"
  assert_regex "$(receipt .reason)" "^E_NOT_FOUND: .*no package of driver $new "
  assert_regex "$stderr" "the operator wants r.example/kmodsmith-driver:$new-ubuntu24.04: the upgrade is held: E_NOT_FOUND"
  look # nothing new is said
  assert_failure 1
  refute_regex "$stderr" "the operator wants"
  kmodsmith status
  assert_output --regexp "the operator wants .*:$new-ubuntu24.04: held until 20.*Z: E_NOT_FOUND"
  wanted "$new" mirror.example/kmodsmith-driver # another target has a deadline of its own
  is_over() { look KMODSMITH_UPGRADE_HOLD=1s && [ "$status" = 0 ]; }
  soon is_over
  assert_equal "$(label "$skip") $(receipt .reason)" "null it is not proven, but the deadline is over"
}

@test "a next driver that does not fit the kernel: the label stays" {
  tiny_module "$BATS_TEST_TMPDIR/package.d/nvidia.ko" 6.1.0-99-cloud-amd64 nvidia_register_module "" # made up
  layout "$BATS_TEST_TMPDIR/package" "$kernel" --driver "$new"
  from=(KERNEL_MODULE_TYPE=open KMODSMITH_FROM="oci:$BATS_TEST_TMPDIR/package")
  look
  wanted "$new"
  look
  assert_failure 1
  turns
  assert_jobs_run
  assert_regex "$(receipt .reason)" '^E_ABI: .*6\.1\.0-99'
  assert_equal "$(states)" upgrade-required
}

@test "a next driver that fits is staged, the label lifted for it, and the controller does its work" {
  local other=$BATS_TEST_TMPDIR/other
  mv "$repository" "$other" # the next pod is told where it is, this one was not
  look
  from=(KMODSMITH_FROM="oci:$other" KERNEL_MODULE_TYPE=open)
  wanted "$new"
  from=(KMODSMITH_FROM="oci:$repository" KERNEL_MODULE_TYPE=open)
  assert_jobs_run
  look
  assert_success
  assert_equal "$(label "$skip") $(receipt .state) $(receipt .reason)" "null lifted it is proven, and in this node's store"
  assert_equal "$(calls_of unload) $(there)" "0 plugin train"
  kmodsmith status
  assert_output --partial ":$new-ubuntu24.04: let go: it is proven"
  rm -r "$other" # what was proven is here
  turns
  assert_equal "$(label "$state") $(cordoned)" "pod-restart-required true"
  soon job_is_gone
  image=$new
  driver_pod "$new" "${from[@]}"
  manage uninstall_driver
  assert_success
  assert_output --partial "driver $new (open) for kernel $kernel is ready in the store"
  look
  assert_equal "$(label "$skip") $(receipt .state) $(receipt .target)" "true held null"
  turns
  assert_equal "$(label "$state") $(cordoned)" "upgrade-done false"
  assert_equal "$(states)" "upgrade-required cordon-required wait-for-jobs-required pod-deletion-required pod-restart-required \
validation-required uncordon-required upgrade-done"
}
job_is_gone() { [ "$(there)" = plugin ]; }

@test "a label that somebody else set is neither taken over nor removed" {
  node_patch "{\"metadata\": {\"labels\": {\"$skip\": \"true\"}}}"
  look
  assert_success
  wanted "$new"
  look
  kube DELETE "$sets/$set" >/dev/null
  look leaving
  assert_equal "$(label "$skip") $(receipt)" "true none"
}

@test "another image than ours, a DaemonSet that goes: the label goes at once" {
  look
  wanted "$new" nvcr.io/nvidia/driver
  assert_jobs_run
  look
  assert_success
  assert_equal "$(label "$skip") $(receipt)" "null none"
  node_patch "{\"metadata\": {\"labels\": {\"$state\": null}}}"
  kube PATCH "$sets/$set" "{\"spec\": {\"template\": $(template "$old")}}" application/merge-patch+json >/dev/null
  look
  assert_equal "$(label "$skip")" true
  look leaving # there will be a successor
  assert_equal "$(label "$skip")" true
  kube DELETE "$sets/$set" >/dev/null
  look leaving
  assert_equal "$(label "$skip") $(receipt)" "null none"
}

@test "a pod that died leaves nothing for ever: the next one's driver manager goes on from its receipt" {
  look
  rm -r "$repository"
  wanted "$new"
  look
  assert_failure 1
  image=$new
  driver_pod "$new" "${from[@]}" # the other one was killed, and has a successor
  manage uninstall_driver
  assert_error E_NOT_FOUND
  turns
  assert_jobs_run
  agent_machine_again
  manage uninstall_driver # it must not evict: the controller has to, and may now
  assert_error E_IN_USE "train-$node"
  assert_equal "$(label "$skip") $(receipt .state)" "null lifted"
  turns
  soon job_is_gone
  manage uninstall_driver
  assert_success
  node_patch '{"metadata": {"labels": {"nvidia.com/gpu.deploy.driver": "pre-installed"}}}' # nobody serves it from now on
  kube PATCH "/api/v1/nodes/$node" "{\"metadata\": {\"labels\": {\"$skip\": \"true\"}, \"annotations\": {\"kmodsmith.io/driver-upgrade-hold\": \"?\"}}}" \
    application/merge-patch+json >/dev/null
  look starting
  assert_equal "$(label "$skip") $(receipt)" "null none"
}
agent_machine_again() { # the packages are there after all
  local version
  for version in "$old" "$new"; do
    layout "$BATS_TEST_TMPDIR/package" "$kernel" --driver "$version"
    "$KMODSMITH" push "oci:$BATS_TEST_TMPDIR/package" "oci:$repository" >/dev/null
  done
}

@test "the driver's container looks by itself, proves with its own rights, and leaves no label behind when the operator goes" {
  "$KMODSMITH" sign "oci:$repository" --key "$(signing_key)" >/dev/null
  from+=(KMODSMITH_TRUST_DIR="$BATS_TEST_TMPDIR/trust")
  driver_pod "$old" "${from[@]}"
  ln -sf "$KMODSMITH" "$BATS_TEST_TMPDIR/bin/nvidia-driver"
  driver_starts() {
    env KMODSMITH_ROOT="$ROOT" KUBERNETES_SERVICE_HOST=127.0.0.1 KUBERNETES_SERVICE_PORT="${KUBE##*:}" NODE_NAME="$node" KMODSMITH_EXPORT=none \
      KMODSMITH_NO_DAEMONS=true DRIVER_VERSION="$old" "${from[@]}" "$BATS_TEST_TMPDIR/bin/nvidia-driver" init >"$BATS_TEST_TMPDIR/driver.log" 2>&1 3>&- 4>&- &
    driver=$!
  }
  is_held() { [ "$(label "$skip")" = true ]; }
  driver_starts
  log=$BATS_TEST_TMPDIR/driver.log soon is_held
  kill "$driver" && wait "$driver"
  assert_equal "$(label "$skip")" true # for its successor
  wanted "$new"
  driver_starts
  log=$BATS_TEST_TMPDIR/driver.log soon not is_held
  assert_equal "$(receipt .state)" lifted
  node_patch "{\"metadata\": {\"labels\": {\"$skip\": null, \"$state\": null}, \"annotations\": {\"kmodsmith.io/driver-upgrade-hold\": null}}}"
  kill "$driver" && wait "$driver"
  driver_starts
  log=$BATS_TEST_TMPDIR/driver.log soon is_held
  kube DELETE "$sets/$set" >/dev/null
  kill "$driver" && wait "$driver"
  driver=''
  assert_equal "$(label "$skip") $(receipt)" "null none"
}
signing_key() {
  mkdir -p "$BATS_TEST_TMPDIR/trust"
  openssl genpkey -algorithm ed25519 -out "$BATS_TEST_TMPDIR/key.pem" 2>/dev/null
  openssl pkey -in "$BATS_TEST_TMPDIR/key.pem" -pubout -out "$BATS_TEST_TMPDIR/trust/site.pem" 2>/dev/null
  echo "$BATS_TEST_TMPDIR/key.pem"
}

@test "without the rights it says so once, and all else goes on as before" {
  kube POST "/api/v1/namespaces/$OPERATOR/serviceaccounts" "{\"metadata\": {\"name\": \"plain-$node\"}}" >/dev/null
  kube POST "/api/v1/namespaces/$OPERATOR/serviceaccounts/plain-$node/token" '{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}' |
    jq -r .status.token >"$ROOT/var/run/secrets/kubernetes.io/serviceaccount/token"
  look
  assert_failure 1
  assert_regex "$stderr" "its upgrade controller may evict before a proof: E_AUTH: .*nodes"
  look
  assert_failure 1
  refute_regex "$stderr" "E_AUTH"
  kmodsmith status
  assert_output --regexp "the operator's upgrades: not held: E_AUTH: .*nodes"
  assert_equal "$(label "$skip")" null
}
