#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The page of a coordinator, in a browser.
# shellcheck disable=SC2154 # bats and helper.bash set output, status and top
load helper

setup_file() { command -v chromium || "$BATS_TEST_DIRNAME/../../scripts/deps.sh" browser || true; } >/dev/null 2>&1
setup() { command -v chromium >/dev/null || skip "chromium is not here: scripts/deps.sh browser"; }
teardown() { [ -z "${server-}" ] || kill "$server" 2>/dev/null || true; }
serve() { # of the JSON on standard input; sets url
  local log=$BATS_TEST_TMPDIR/log
  mkdir -p "$BATS_TEST_TMPDIR/pulse"
  cat >"$BATS_TEST_TMPDIR/pulse/rollout.json"
  "$KMODSMITH" serve --listen 0 --pulse-dir "$BATS_TEST_TMPDIR/pulse" --page >"$log" 2>&1 3>&- &
  server=$!
  soon grep -q serving "$log"
  url=$(sed -n 's|.*serving \(http[^ ]*\)/metrics.*|\1|p' "$log")
}
browse() { # OPTION...: what chromium makes of it, once its scripts have run
  run timeout 120 chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$BATS_TEST_TMPDIR/profile" --no-proxy-server \
    --virtual-time-budget=4000 "$@" "$url/"
}

@test "it shows pools and nodes, and whatever a node is called is text" {
  serve < <(jq -n '{time: (now | todate), policy: null, pools: [{pool: "gpus", driver: "580.1", wave: "main", halted: true, reason: "too many failed", action: "look",
    nodes: 4, done: 2, failed: 1, unavailable: 2, maxUnavailable: 2, used: 2, maxParallel: 2, secondsLeft: 5400}], nodes: [
    {node: "<img src=x onerror=document.title=1>", pool: "gpus", wave: "main", state: "failed", reason: "\"quoted\" & <b>bold</b>", since: (now - 7300 | todate)},
    {node: "gpu-2", pool: null, wave: "", state: "draining", reason: "pdb-blocked default/train", text: "a budget says no", since: (now - 90 | todate)},
    {node: "gpu-1", pool: "gpus", wave: "main", state: "done", reason: "", since: null}]} | .nodes |= reverse')
  browse --dump-dom 2>/dev/null
  assert_success
  assert_output --partial '<h2>gpus: driver 580.1</h2>'
  assert_output --partial '2 of 4 nodes done, 1 in progress, 1 failed; wave main, about 1 h 30 min left'
  assert_output --partial 'Halted: too many failed. Next: look'
  assert_output --partial '<td>&lt;img src=x onerror=document.title=1&gt;</td>'
  assert_output --partial '&amp; &lt;b&gt;bold&lt;/b&gt;'
  assert_output --partial '<td>2 h</td>'
  assert_output --partial '<td>pdb-blocked default/train<div class="small">a budget says no</div></td>'
  assert_output --partial '3 shown'
  assert_output --regexp 'img src=x.*gpu-2.*gpu-1' # what needs somebody comes first
  assert_output --partial '<title>kmodsmith: rollout</title>'
  refute_output --partial 'style="width: NaN'
}

@test "a refused policy, and a coordinator that does not lead, are said" {
  serve < <(jq -n '{time: (now | todate), policy: "pools[0]: no target", pools: [], nodes: []}')
  browse --dump-dom 2>/dev/null
  assert_output --partial 'The policy is refused, and the last good one stays in force: pools[0]: no target'
  rm "$BATS_TEST_TMPDIR/pulse/rollout.json"
  browse --dump-dom 2>/dev/null
  assert_output --partial 'this coordinator does not lead'
}

@test "with a login it asks for a token first" {
  local log=$BATS_TEST_TMPDIR/log
  mkdir "$BATS_TEST_TMPDIR/pulse"
  printf '%s\n' 'apiVersion: v1' 'kind: Config' 'current-context: t' 'clusters: [{name: h, cluster: {server: "https://127.0.0.1:1"}}]' \
    'contexts: [{name: t, context: {cluster: h, user: u}}]' 'users: [{name: u, user: {token: x}}]' >"$BATS_TEST_TMPDIR/config"
  "$KMODSMITH" serve --listen 0 --pulse-dir "$BATS_TEST_TMPDIR/pulse" --page --page-login --kubeconfig "$BATS_TEST_TMPDIR/config" >"$log" 2>&1 3>&- &
  server=$!
  soon grep -q serving "$log"
  url=$(sed -n 's|.*serving \(http[^ ]*\)/metrics.*|\1|p' "$log")
  browse --dump-dom 2>/dev/null
  assert_output --partial '<form id="login">'
  assert_output --partial 'a bearer token is required, of a user who may list nodes'
}

@test "five thousand nodes are drawn, the first 500 of them" {
  serve < <(jq -n '{time: (now | todate), policy: null, pools: [], nodes: [range(5000) | {node: "gpu-\(.)", pool: "gpus", wave: "rest", state: "idle", reason: "", since: null}]}')
  browse --dump-dom 2>/dev/null
  assert_output --partial 'the first 500 of 5000'
  assert_equal "$(grep -o '<td>gpu-' <<<"$output" | wc -l)" 500
}
