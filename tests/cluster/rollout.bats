#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Whole rollouts on the real API server: two coordinators and the agents of three nodes, each with the rights of deploy/ and
# no others. The test is kubelet and controllers: it ends pods. T16, T28, T50, T51, T78, D1, D2, D7.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # bats runs each test in a subshell; the helpers set and use what is here
load helper
load agent
load rollout

setup_file() {
  kube_start --runtime-config=admissionregistration.k8s.io/v1=true
  deploy rbac.yaml
  deploy agent-policy.yaml
  deploy coordinator.yaml
  deploy coordinator-policy.yaml
}
teardown_file() { kube_stop; }
setup() { kube_needed && farm_make 3; }
teardown() { farm_clean; }

@test "from one driver to the next: no unnecessary disturbance, and each node is validated" {
  farm_loads "$new"
  pod train 2
  farm_start
  coordinator_start a
  policy "$new"
  kubectl_kmodsmith status --watch --interval 1 --timeout 120
  assert_success
  assert_line --regexp "^[0-9TZ:-]+ pool gpus: driver $new: 0 of 3 nodes done, [0-3] in progress, 0 failed; wave rest$"
  assert_equal "${lines[-1]##*Z }" "pool gpus: driver $new: 3 of 3 nodes done, 0 in progress, 0 failed; wave rest"
  assert_equal "$(sort -u <<<"$output" | wc -l)" "${#lines[@]}" # a line for each change, and no more
  all_are "done" 1
  assert_equal "$(versions)" "$new $new $new"
  assert_equal "$(cordoned)" ""
  assert_equal "$(kube GET /api/v1/namespaces/default/pods | jq '.items | length')" 0
  for i in 1 2 3; do assert_equal "$(unloads $i)" 1; done
  kubectl_kmodsmith status
  assert_line --regexp "^pool gpus: driver $new, .* 3 nodes, 3 done, 0 failed"
  run jq -r '.items[] | select(.involvedObject.name == "'"$(name_of 2)"'") | .reason' < <(kube GET /api/v1/namespaces/default/events)
  for reason in RolloutCordoned RolloutEvicting RolloutReplacing RolloutValidating RolloutReleasing RolloutDone; do assert_line $reason; done
  metric a 'kmodsmith_nodes{pool="gpus",state="done"} 3'
  metric a 'kmodsmith_slots{pool="gpus",kind="free"} 1'
  metric a 'kmodsmith_phase_seconds_count{phase="validating"} 3'
  metric a 'kmodsmith_phase_seconds_bucket{phase="validating",le="+Inf"} 3'
  metric a 'kmodsmith_evictions_total{result="evicted"} 1'
  metric a 'kmodsmith_rollbacks_total{class="permanent"} 0'
  metric a 'kmodsmith_node_unavailable_seconds_total{pool="gpus"} [1-9]'
  metric a 'kmodsmith_api_requests_total{connection="cluster",verb="PATCH",code="200"} [1-9]'
  metric a 'kmodsmith_api_requests_total{connection="lease",verb="PUT",code="200"} [1-9]'
  metric a 'kmodsmith_resident_memory_max_bytes [1-9]'
  metric a 'kmodsmith_leader 1'
  # each metric has its two lines of explanation, and each line is of the format
  grep -v '^#' "$BATS_TEST_TMPDIR/a.prom" | sed -E 's/[ {].*//; s/_(bucket|count|sum)$//' | sort -u >"$BATS_TEST_TMPDIR/metrics"
  assert [ "$(wc -l <"$BATS_TEST_TMPDIR/metrics")" -gt 10 ]
  for kind in HELP TYPE; do
    run comm -23 "$BATS_TEST_TMPDIR/metrics" <(sed -nE "s/^# $kind ([a-z_]+) .*/\1/p" "$BATS_TEST_TMPDIR/a.prom" | sort -u)
    assert_output ""
  done
  run grep -vE '^(# (HELP|TYPE) kmodsmith_[a-z_]+ .+|kmodsmith_[a-z_]+(\{([a-zA-Z]+="[^"]*",?)+\})? -?[0-9]+)$' "$BATS_TEST_TMPDIR/a.prom"
  assert_output ""
  # The same over HTTP, from a child that no request to it can make drain a node.
  local before url
  url=$(sed -n 's|.*serving \(http[^ ]*\)/metrics.*|\1|p' "$BATS_TEST_TMPDIR/coordinator-a.log")
  run curl -sS --noproxy '*' "$url/metrics"
  assert_line 'kmodsmith_nodes{pool="gpus",state="done"} 3'
  run curl -sS --noproxy '*' -w '%{http_code}' "$url/readyz"
  assert_output --regexp '^yes, process [0-9]+ is alive.*200$'
  # And again: nothing is to be done, so nothing is written.
  before=$(node_versions)
  renewed
  assert_equal "$(node_versions)" "$before"
}

offers() { # NODE GPUS: the test is its kubelet
  kube PATCH "/api/v1/nodes/$1/status" "{\"status\": {\"capacity\": {\"nvidia.com/gpu\": \"8\"}, \"allocatable\": {\"nvidia.com/gpu\": \"$2\"}}}" \
    application/merge-patch+json >/dev/null
}
@test "a node stays cordoned until its GPU resources are allocatable again" {
  local i first
  farm_loads "$new"
  for i in 1 2 3; do offers "$(name_of $i)" 8; done
  farm_start
  coordinator_start a
  policy "$new"
  until_some validating 60
  first=$(nodes 'map(select(.metadata.labels["kmodsmith.io/state"] == "validating")) | .[0].metadata.name')
  offers "$first" 7
  until_some releasing 60
  renewed
  assert_equal "$(cordoned)" "$first"
  kubectl_kmodsmith why "$first"
  assert_line "$first is releasing: waits-for-allocatable nvidia.com/gpu 7 of 8"
  metric a 'kmodsmith_nodes_unreleased{pool="gpus",reason="waits-for-allocatable"} 1'
  offers "$first" 8
  all_are "done" 120
  assert_equal "$(cordoned)" ""
}

@test "D2: a bad target is undone on the first node, and the rollout halts; undo names what it goes back to" {
  farm_start
  coordinator_start a
  policy "$old"
  all_are "done" 60
  renewed
  farm_loads "$old" # whatever is loaded: the new one does not come up
  policy "$new"
  until_some rolledback 120
  renewed
  assert_equal "$(versions)" "$old $old $old"
  assert_equal "$(cordoned)" ""
  kubectl_kmodsmith status
  assert_line --partial "halted: "
  kubectl_kmodsmith status --watch --interval 1
  assert_failure 1
  assert_line --partial "E_ROLLOUT_HALTED: pool gpus is halted: 0 of 3 nodes are done, 1 failed: "
  kubectl_kmodsmith status --watch --json
  assert_failure 1
  assert_equal "$(sed -n '/^{/,$p' <<<"$output" | jq -s 'length, .[0].error.code' | paste -sd,)" '1,"E_ROLLOUT_HALTED"'
  kubectl_kmodsmith status --state rolledback,failed --json
  assert_equal "$(jq '.nodes | length' <<<"$output")" 1
  metric a 'kmodsmith_rollbacks_total{class="[a-z]*"} 1'
  metric a 'kmodsmith_rollout_halted{pool="gpus",reason="[a-z-]*"} 1'
  kubectl_kmodsmith why "$(name_of 1)"
  assert_success
  kubectl_kmodsmith undo gpus
  assert_line --partial "pool gpus: the target is driver $old again"
  assert_line "target: {\"driver\": \"$old\", \"flavour\": \"open\", \"parameters\": {}}"
  assert_equal "$(kube GET /api/v1/namespaces/kmodsmith/configmaps/kmodsmith-policy | jq -r '.data["policy.json"] | fromjson | .pools[0].target.driver')" "$new"
  all_are "done" 60
  assert_equal "$(versions)" "$old $old $old"
  kubectl_kmodsmith status
  assert_line "policy: pool gpus: driver $old instead of $new, by rollout undo"
  kubectl_kmodsmith undo gpus
  assert_failure
  assert_output --partial "has had no driver on all its nodes before this one"
}

@test "retry: the node that went back is tried again, and its halted pool goes on" {
  local back
  farm_start
  coordinator_start a
  policy "$old"
  all_are "done" 60
  renewed
  farm_loads "$old"
  policy "$new"
  until_some rolledback 120
  renewed
  back=$(nodes 'map(select(.metadata.labels["kmodsmith.io/state"] == "rolledback")) | .[0].metadata.name')
  kubectl_kmodsmith why "$back"
  assert_line --partial "next: set another target, or \`kmodsmith rollout retry NODE\`"
  kubectl_kmodsmith retry nobody
  assert_failure 1
  assert_line --partial "E_NOT_FOUND: 'nobody' is neither a pool of the policy nor a node"
  farm_loads "$new" # the cure
  kubectl_kmodsmith retry "$back"
  assert_success
  assert_line "node $back: one more attempt"
  assert_line --partial "pool gpus: resumed; earlier failures do not count"
  all_are "done" 120
  assert_equal "$(versions)" "$new $new $new"
  kubectl_kmodsmith retry "$back"
  assert_failure 1
  assert_line --partial "node '$back' is done: there is nothing to try again"
  kubectl_kmodsmith retry gpus --json
  assert_success
  assert_equal "$(jq -c '[.retried, .resumed]' <<<"$output")" '[[],null]'
}

@test "T78: the leader is killed halfway, the next one exits cleanly: another one continues from the nodes" {
  farm_loads "$new"
  farm_start
  coordinator_start a
  coordinator_start b
  policy "$new"
  until_told RolloutCordoned 60
  coordinator_kill KILL a
  coordinator_kill KILL b # whoever led
  coordinator_start c
  local begun=$SECONDS
  until grep -q leading "$BATS_TEST_TMPDIR/coordinator-c.log"; do sleep 0.5; ((SECONDS - begun < 40)) || fail "no leader after a crash"; done
  coordinator_start d
  until grep -q "waiting for the Lease" "$BATS_TEST_TMPDIR/coordinator-d.log"; do sleep 0.2; done
  renewed # by c; d watches the Lease, and does not ask every 5 s
  assert_equal "$(count_of d 'kmodsmith_api_requests_total{connection="lease",verb="GET",code="200"}')" 1
  coordinator_kill TERM c
  begun=$SECONDS
  until grep -q leading "$BATS_TEST_TMPDIR/coordinator-d.log"; do sleep 0.2; ((SECONDS - begun < 6)) || fail "no leader after a clean end"; done
  all_are "done" 120
  assert_equal "$(versions)" "$new $new $new"
  assert_equal "$(cordoned)" ""
  for i in 1 2 3; do assert_equal "$(unloads $i)" 1; done
}

@test "pause, wave, approve, abort: users' commands take effect, and are refused where they make no sense" {
  farm_loads "$new"
  farm_start
  kube DELETE /apis/coordination.k8s.io/v1/namespaces/kmodsmith/leases/kmodsmith-coordinator >/dev/null || true
  policy "$new" '.pools[0].waves = [{name: "canary", count: 1}, {name: "main", percent: 100, approval: "manual"}]'
  kubectl_kmodsmith status
  assert_line "nobody leads: there is no Lease kmodsmith-coordinator in the namespace kmodsmith"
  coordinator_start a
  until_some "done" 60
  renewed
  assert_equal "$(count_in "done")" 1
  kubectl_kmodsmith status --watch --interval 1 --timeout 1
  assert_failure
  assert_line --partial "E_ROLLOUT_PENDING: not all nodes are done after 1 s"
  kubectl_kmodsmith status --context elsewhere
  assert_failure
  assert_output --partial "elsewhere"
  KUBECONFIG=$KUBECONFIG run "$KMODSMITH" rollout status -n kmodsmith --context tests
  assert_success
  assert_line --regexp "^pool gpus: driver $new, "
  kubectl_kmodsmith status --pool other
  assert_failure 1
  assert_line --partial "E_NOT_FOUND: --pool: the policy has no pool 'other'"
  kubectl_kmodsmith status --state "done",gone
  assert_line --partial "E_USAGE: --state: 'gone' is none of idle, staging, queued"
  kubectl_kmodsmith approve gpus nine
  assert_failure 1
  assert_output --partial "has no wave 'nine'"
  kubectl_kmodsmith pause
  kubectl_kmodsmith status --watch --until idle --interval 1 --timeout 60 # before somebody uninstalls it
  assert_success
  assert_equal "$(cordoned)" ""
  kubectl_kmodsmith status # whose next step is not the one of the wave
  refute_output --partial "nobody leads"
  assert_line --regexp '^paused since 20[0-9-]+T[0-9:]+Z by [^ ]+: no further node is begun$'
  assert_line "no more grants: paused"
  refute_output --partial approve
  kubectl_kmodsmith status --json
  assert_equal "$(jq -r '.policy.paused, .policy.nobodyLeads, .pools[0].reason' <<<"$output" | cut -c1-8 | paste -sd' ')" "since 20 null paused"
  kubectl_kmodsmith status --until idle
  assert_line --partial "E_USAGE: --until requires --watch"
  kubectl_kmodsmith approve gpus main
  assert_success
  renewed
  assert_equal "$(count_in "done")" 1
  kubectl_kmodsmith resume
  assert_output "no longer paused"
  all_are "done" 120
  policy "$new" '.paused = true' # which no annotation takes back
  kubectl_kmodsmith resume
  assert_output --partial "the policy itself is still paused"
  kubectl_kmodsmith abort gpus
  assert_success
  kubectl_kmodsmith status --watch # an abort of what is done already is no failure
  assert_success
  kubectl_kmodsmith abort other
  assert_failure 1
}
