#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The login of a coordinator's page: real tokens, reviewed by a real API server, with the rights that the chart gives.
# shellcheck disable=SC2030,SC2031,SC2154 # bats runs each test in a subshell; bats and helper.bash set output and top
load helper

setup_file() {
  kube_start
  deploy rbac.yaml
  deploy coordinator.yaml
  kube POST /apis/rbac.authorization.k8s.io/v1/clusterroles '{"metadata": {"name": "looks"}, "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]}' >/dev/null
  local name
  for name in viewer stranger; do
    kube POST /api/v1/namespaces/default/serviceaccounts "{\"metadata\": {\"name\": \"$name\"}}" >/dev/null
  done
  bind viewer looks default viewer
  mkdir -p "$BATS_FILE_TMPDIR/pulse"
  echo '{"pools": [], "nodes": [{"node": "secret"}]}' >"$BATS_FILE_TMPDIR/pulse/rollout.json"
  echo 'kmodsmith_leader 1' >"$BATS_FILE_TMPDIR/pulse/coordinator.prom"
}
teardown_file() { kube_stop; }
setup() { kube_needed; }
teardown() { [ -z "${server-}" ] || kill "$server" 2>/dev/null || true; }
bind() { # NAME CLUSTERROLE NAMESPACE ACCOUNT
  kube POST /apis/rbac.authorization.k8s.io/v1/clusterrolebindings "{\"metadata\": {\"name\": \"$1\"}, \"roleRef\": {\"apiGroup\":
    \"rbac.authorization.k8s.io\", \"kind\": \"ClusterRole\", \"name\": \"$2\"}, \"subjects\": [{\"kind\": \"ServiceAccount\",
    \"namespace\": \"$3\", \"name\": \"$4\"}]}" | jq -e '.kind == "ClusterRoleBinding"' >/dev/null
}
token() { # NAMESPACE ACCOUNT
  kube POST "/api/v1/namespaces/$1/serviceaccounts/$2/token" \
    '{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}' | jq -r .status.token
}
start() { # [SERVER]: by another one than ours
  kube_config_token "$(token kmodsmith kmodsmith-coordinator)" | sed "s|server: [^,]*|server: '${1-$KUBE}'|" >"$BATS_TEST_TMPDIR/config"
  "$KMODSMITH" serve --listen 0 --pulse-dir "$BATS_FILE_TMPDIR/pulse" --page --page-login --kubeconfig "$BATS_TEST_TMPDIR/config" \
    >"$BATS_TEST_TMPDIR/log" 2>&1 3>&- 4>&- &
  server=$!
  log=$BATS_TEST_TMPDIR/log soon grep -q serving "$BATS_TEST_TMPDIR/log"
  url=$(sed -n 's|.*serving \(http[^ ]*\)/metrics.*|\1|p' "$BATS_TEST_TMPDIR/log")
}
get() { # PATH [TOKEN]: the page, and its status
  run curl -sS --noproxy '*' --max-time 60 -w '%{http_code}' ${2:+-H "Authorization: Bearer $2"} "$url/$1"
}

@test "the page: only who may list nodes sees them; the rest is as without a login" {
  local viewer stranger
  bind delegator system:auth-delegator kmodsmith kmodsmith-coordinator
  viewer=$(token default viewer) stranger=$(token default stranger)
  start
  log=$BATS_TEST_TMPDIR/log soon reviewed # a binding counts a moment after it was made
  get rollout.json
  assert_output "a bearer token is required, of a user who may list nodes
401"
  run curl -sS --noproxy '*' -D - -o /dev/null "$url/rollout.json"
  assert_output --partial "WWW-Authenticate: Bearer"
  get rollout.json "${viewer}x"
  assert_output --partial "this token is not valid, or no longer"
  assert_output --regexp '401$'
  get rollout.json "$stranger"
  assert_output "system:serviceaccount:default:stranger may not list nodes
403"
  get rollout.json "$viewer"
  assert_output --partial '"node": "secret"'
  assert_output --regexp '200$'
  for path in "" page.js metrics healthz; do
    get "$path"
    refute_output --partial secret
    assert_output --regexp '(200|503)$'
  done
  # Whoever guesses is kept from the API server; whoever was let in is not.
  run bash -c 'for i in {1..20}; do curl -sS --noproxy "*" -H "Authorization: Bearer guess$i" "$1/rollout.json" & done | sort | uniq -c; wait' - "$url"
  assert_output --partial "too many requests"
  get rollout.json "$viewer"
  assert_output --regexp '200$'
}
reviewed() { get rollout.json "$viewer" && [[ $output == *200 ]]; }

@test "the page: without the right to review tokens, and without an API server, nobody is let in" {
  start
  kube DELETE /apis/rbac.authorization.k8s.io/v1/clusterrolebindings/delegator >/dev/null
  forbidden() { get rollout.json "guess$RANDOM" && [[ $output == *TokenReview*503 ]]; }
  log=$BATS_TEST_TMPDIR/log soon forbidden
  kill "$server"
  start https://127.0.0.1:1
  get rollout.json "$(token default viewer)"
  refute_output --partial secret
  assert_output --regexp '503$'
}
