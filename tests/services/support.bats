#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The archive for who helps with a node, where a Kubernetes API is reachable, says no, or nothing.
# shellcheck disable=SC2154 # bats and helper.bash set output, status and top
load helper

setup() {
  dir=$BATS_TEST_TMPDIR port=$(free_port)
  mkdir -p "$dir"/api/api/v1/{nodes,namespaces/default}
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$dir/key.pem" -out "$dir/crt.pem" -days 2 -subj /CN=api \
    -addext subjectAltName=IP:127.0.0.1 2>/dev/null
  printf '%s\n' 'apiVersion: v1' 'kind: Config' 'current-context: t' "clusters: [{name: h, cluster: {server: 'https://127.0.0.1:$port', certificate-authority: crt.pem}}]" \
    'contexts: [{name: t, context: {cluster: h, user: u}}]' 'users: [{name: u, user: {token: hunter2}}]' >"$dir/config"
  cat >"$dir/api/api/v1/nodes/gpu-7" <<END
{"kind": "Node", "metadata": {"name": "gpu-7", "labels": {"team": "none of ours"}, "annotations": {"kmodsmith.io/seq": "1.2", "a/b": "c"}},
 "spec": {"unschedulable": true, "providerID": "x"}, "status": {"conditions": [{"type": "NvidiaDriverReady", "status": "False"}]}}
END
  echo '{"kind": "EventList", "metadata": {"resourceVersion": "7"}, "items": [{"reason": "Replaced", "message": "on gpu-7: token=hunter2", "involvedObject": {}}]}' \
    >"$dir/api/api/v1/namespaces/default/events"
}
teardown() { [ -z "${started-}" ] || { kill -KILL "$started" && wait "$started"; } 2>/dev/null || true; }

support() { # ARGUMENT...: the files are in kmodsmith-support afterwards
  cd "$dir" && rm -rf kmodsmith-support
  NODE_NAME=gpu-7 run --separate-stderr timeout 60 "$KMODSMITH" support --root "$top/tests/hosts/no-gpu" --kubeconfig "$dir/config" -o it.tar.gz "$@"
  [ "$status" -eq 0 ]
  tar -xzf it.tar.gz
}

@test "support: the Node's conditions, our annotations and its Events, without the token" {
  python3 "$BATS_TEST_DIRNAME/kube_standin.py" "$port" "$dir/crt.pem" "$dir/key.pem" "$dir/api" >"$dir/api.log" 2>&1 3>&- &
  started=$!
  soon curl -sk --noproxy '*' -o /dev/null "https://127.0.0.1:$port/"
  support
  run jq -c . kmodsmith-support/cluster/node.json
  assert_output '{"annotations":{"kmodsmith.io/seq":"1.2"},"labels":{},"unschedulable":true,"conditions":[{"type":"NvidiaDriverReady","status":"False"}]}'
  run jq -c . kmodsmith-support/cluster/events.json
  assert_output '[{"reason":"Replaced","message":"on gpu-7: token=(removed)"}]'
  run grep -r hunter2 kmodsmith-support
  assert_failure
  support --anonymous
  run grep -riE 'gpu-7|127\.0\.0\.1' kmodsmith-support
  assert_failure
  rm "$dir/api/api/v1/namespaces/default/events" # as forbidden as it may be: the rest is there
  support
  assert_file_exist kmodsmith-support/cluster/node.json
  run cat kmodsmith-support/missing.txt
  assert_line --partial "cluster/events.json: "
}

@test "support: a cluster that does not answer is said, and keeps nobody waiting" {
  support
  run cat kmodsmith-support/missing.txt
  assert_line --partial "cluster/node.json: "
  refute_output --partial "events.json"
  echo broken >"$dir/config"
  support
  run cat kmodsmith-support/missing.txt
  assert_line --partial "cluster: "
}
