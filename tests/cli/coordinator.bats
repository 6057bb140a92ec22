#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Whether a coordinator is alive, as the kubelet asks: not where it hangs, and always where only the API server is away.
# shellcheck disable=SC2154 # bats and helper.bash set output and top
load helper

setup() {
  dir=$BATS_TEST_TMPDIR/pulse
  printf '%s\n' 'apiVersion: v1' 'kind: Config' 'current-context: t' 'clusters: [{name: h, cluster: {server: "https://127.0.0.1:1"}}]' \
    'contexts: [{name: t, context: {cluster: h, user: u}}]' 'users: [{name: u, user: {token: x}}]' >"$BATS_TEST_TMPDIR/config"
}
teardown() { [ -z "${pid-}" ] || kill -KILL "$pid" ${silent:+"$silent"}; }
start() { # OPTION...: of this machine: its processes are looked at
  "$KMODSMITH" coordinator --kubeconfig "$BATS_TEST_TMPDIR/config" --pulse-dir "$dir" "$@" >"$BATS_TEST_TMPDIR/log" 2>&1 3>&- 4>&- &
  pid=$!
}
says() { [[ $("$KMODSMITH" probe liveness --pulse-dir "$dir" --stall 60) == "$1" ]]; }

@test "coordinator: alive without an API server, dead when stopped or hung, unknown before it has started" {
  mkdir "$dir"
  run -0 "$KMODSMITH" probe liveness --pulse-dir "$dir"
  assert_output "liveness: yes, nothing was started in this boot"
  start
  soon says "liveness: yes, process $pid is alive"
  soon grep -q "asking for the Lease" "$BATS_TEST_TMPDIR/log"
  kill -STOP "$pid"
  soon says "liveness: no, process $pid is stopped in turn"
  kill -CONT "$pid"
  soon says "liveness: yes, process $pid is alive"
  kill -STOP "$pid" # so that it writes nothing; another process of that name and age would
  jq '.uptime_ms -= 61000' "$dir/pulse.json" >"$dir/new"
  jq --argjson pid $$ --argjson start "$(cut -d' ' -f22 "/proc/$$/stat")" '.pid = $pid | .start = $start' "$dir/new" >"$dir/pulse.json"
  run -1 "$KMODSMITH" probe liveness --pulse-dir "$dir" --stall 60
  assert_output --regexp "^liveness: no, process $$ has hung for ([6-9][0-9]|[0-9]{3}) s$"
}

@test "coordinator: it serves before it has an API server, and nothing of what a container before it said" {
  mkdir "$dir"
  echo 'kmodsmith_leader 1' >"$dir/coordinator.prom"
  "$KMODSMITH" serve --listen 0 --pulse-dir "$BATS_TEST_TMPDIR" >"$BATS_TEST_TMPDIR/silent" 2>&1 3>&- 4>&- & # takes and never answers
  silent=$!
  log=$BATS_TEST_TMPDIR/silent soon grep -q "serving http" "$BATS_TEST_TMPDIR/silent"
  kill -STOP "$silent"
  sed -i "s|127.0.0.1:1\"|$(grep -om1 '127.0.0.1:[0-9]*' "$BATS_TEST_TMPDIR/silent")\"|" "$BATS_TEST_TMPDIR/config"
  start --listen 0
  log=$BATS_TEST_TMPDIR/log soon grep -q "serving http://127.0.0.1:" "$BATS_TEST_TMPDIR/log"
  soon says "liveness: yes, process $pid is alive"
  assert [ ! -e "$dir/coordinator.prom" ]
  kill -KILL "$silent"
  silent=
  soon grep -q '^kmodsmith_leader 0$' "$dir/coordinator.prom"
}

@test "coordinator: an unusable directory is reported" {
  echo >"$dir"
  run -1 "$KMODSMITH" coordinator --kubeconfig "$BATS_TEST_TMPDIR/config" --pulse-dir "$dir"
  assert_output --partial "--pulse-dir: "
  run -1 "$KMODSMITH" probe liveness --pulse-dir "$dir/none"
  assert_output --partial "--pulse-dir: "
}
