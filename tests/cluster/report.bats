#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What a node says of its next kernel, as a pod with the rights of deploy/rbac.yaml: on its Node, and as Events.
# shellcheck disable=SC2154 # bats and helper.bash set stderr, top and ROOT
load helper

next=6.1.0-57-cloud-amd64
setup_file() {
  kube_start
  local doc
  python3 -c 'import json, sys, yaml; [print(json.dumps(d)) for d in yaml.safe_load_all(open(sys.argv[1]))]' \
    "$top/deploy/rbac.yaml" | while read -r doc; do
    local kind namespace group=/apis/rbac.authorization.k8s.io/v1
    kind=$(jq -r '.kind | ascii_downcase' <<<"$doc")s namespace=$(jq -r '.metadata.namespace // ""' <<<"$doc")
    [ "$kind" != serviceaccounts ] || group=/api/v1
    kube POST "$group${namespace:+/namespaces/$namespace}/$kind" "$doc" | jq -e '.kind != "Status"' >/dev/null
  done
  kube POST /api/v1/nodes '{"metadata": {"name": "gpu1"}}' >/dev/null
}
teardown_file() { kube_stop; }
token() {
  kube POST /api/v1/namespaces/kube-system/serviceaccounts/kmodsmith-agent/token \
    '{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}' | jq -r .status.token
}
pod() { # OPTION...: watch --once, in a pod on gpu1
  NODE_NAME=gpu1 KUBERNETES_SERVICE_HOST=127.0.0.1 KUBERNETES_SERVICE_PORT=${KUBE##*:} \
    kmodsmith watch --once --driver 535.261.03 "$@"
}
note() { kube GET /api/v1/nodes/gpu1 | jq -r '.metadata.annotations["kmodsmith.io/agent.next-kernel"]'; }
version() { kube GET /api/v1/nodes/gpu1 | jq -r .metadata.resourceVersion; }
events() { kube GET /api/v1/namespaces/default/events | jq -r '.items[] | select(.involvedObject.name == "gpu1") | .type + " " + .reason'; }

@test "a next kernel that cannot be served: annotation and Event, once; and when it can be again" {
  loadable
  local account=$ROOT/var/run/secrets/kubernetes.io/serviceaccount before
  mkdir -p "$account" "$ROOT/boot" "$ROOT/lib/modules/$next/kernel"
  token >"$account/token"
  cp "$CA" "$account/ca.crt"
  echo kube-system >"$account/namespace"
  cp "$ROOT"/lib/modules/6.1.0-56-cloud-amd64/config "$ROOT/lib/modules/$next/config"
  touch "$ROOT/lib/modules/$next"/modules.{builtin,order,dep,dep.bin}
  echo image >"$ROOT/boot/vmlinuz-$next"
  ln -sfn "boot/vmlinuz-$next" "$ROOT/vmlinuz"
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
  [[ $stderr == *"the Node gpu1 is not told: "*"401"* ]]
}
