#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Twenty minutes of disorder on the real API server, with the rights of deploy/: two coordinators under ASan, ten agents, rollouts
# of two pools, one after the other. CHAOS_SECONDS and CHAOS_SEED in the environment give another length, and the steps of
# an earlier run, though not its moments.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # bats runs each test in a subshell; the helpers set and use what is here
load helper
load agent
load rollout
load chaos

setup_file() {
  local file
  [ -z "${KUBE_LACKS-}" ] || return 0
  export CHAOS_SECONDS=${CHAOS_SECONDS:-1200} CHAOS_SEED=${CHAOS_SEED:-$((EPOCHSECONDS % 32768))}
  export SERVERS_LIVE=$((CHAOS_SECONDS + 1200))
  mkdir -p "$SERVERS"
  printf '%s\n' 'apiVersion: audit.k8s.io/v1' 'kind: Policy' 'omitStages: [RequestReceived]' 'rules:' \
    '- {level: Metadata, verbs: [patch, create], userGroups: ["system:serviceaccounts:kmodsmith"]}' '- {level: None}' >"$SERVERS/audit.yaml"
  kube_start --audit-policy-file="$SERVERS/audit.yaml" --audit-log-path="$SERVERS/audit"
  for file in rbac agent-policy coordinator coordinator-policy; do deploy $file.yaml; done
}
teardown_file() { kube_stop; }
setup() { kube_needed; }
teardown() {
  [ -n "${FARM-}" ] || return 0
  for i in a b $(seq "$FARM"); do signal CONT "$i"; done
  farm_clean
}

@test "chaos: all nodes arrive, no cordon and no slot is left, jobs are waited for, and writes are bounded" {
  local i seconds minutes patches events leaders
  farm_make 10
  RANDOM=$CHAOS_SEED SECONDS=0
  echo "# seed $CHAOS_SEED, $CHAOS_SECONDS s" >&3
  policy_put "$(policy_text)"
  for ((i = 1; i <= FARM; i++)); do agent_config "$i" >"$BATS_TEST_TMPDIR/n$i/config" && node_agent "$i"; done
  coordinator_start a
  coordinator_start b
  all_are "done" 120
  SECONDS=0
  while ((SECONDS < CHAOS_SECONDS)); do
    look
    disturb
    run_due
    for i in a b $(seq "$FARM"); do again "$i"; done
    pick 2 && sleep "$((die + 1))"
  done
  tell "the end of disorder"
  run_due all
  run_due all
  for i in a b $(seq "$FARM"); do signal CONT "$i" && again "$i"; done
  kube DELETE /apis/policy/v1/namespaces/default/poddisruptionbudgets >/dev/null
  kube DELETE "/api/v1/namespaces/default/pods?gracePeriodSeconds=0" >/dev/null
  for ((i = 1; i <= FARM; i++)); do
    merge_node "$(name_of "$i")" '{"metadata": {"annotations": {"kmodsmith.io/retry": "the end"}}}'
  done
  retarget a
  retarget b
  seconds=$SECONDS
  all_are "done" 300 || { tail -n 60 "$BATS_TEST_TMPDIR/chaos.log"; nodes '.[] | "\(.metadata.name) \(.metadata.labels) \(.metadata.annotations)"'; false; } >&2
  echo "# all done $((SECONDS - seconds)) s after the end of disorder" >&3
  assert_equal "$(cordoned)" ""
  renewed
  # No slot is lost: nothing is in the ledger.
  run jq -r '.metadata.annotations["kmodsmith.io/slots"] // ""' < <(kube GET /apis/coordination.k8s.io/v1/namespaces/kmodsmith/leases/kmodsmith-coordinator)
  refute_output --regexp '[0-9a-f]{8}-'
  assert_equal "$(nodes '.[] | select(.metadata.annotations["kmodsmith.io/cordon"]) | .metadata.name')" ""
  # Each has what the policy says of its pool.
  assert_equal "$(nodes '.[] | .metadata.annotations["kmodsmith.io/agent.loaded"] | split(" ")[0]' | sort | uniq -c | awk '{ print $1 }' | paste -sd' ')" "5 5"
  for i in a b; do signal TERM $i; done
  for i in a b; do wait "$(pid_of $i)" || fail "coordinator $i ended badly: $(tail -n 30 "$BATS_TEST_TMPDIR/coordinator-$i.log")"; done
  run grep -hE -A30 'AddressSanitizer|LeakSanitizer|runtime error' "$BATS_TEST_TMPDIR"/coordinator-?.log
  assert_output ""
  [ ! -e "$BATS_TEST_TMPDIR/violations" ] || fail "seed $CHAOS_SEED: $(cat "$BATS_TEST_TMPDIR"/{violations,chaos.log,coordinator-?.log})"
  # What is written about a node: at most a state each four seconds, whatever happens, and more on a fast machine, where
  # each new target is a whole rollout: some ten states.
  minutes=$((SECONDS / 60 + 1))
  patches=$(jq -r "$by_coordinators | .objectRef | select(.resource == \"nodes\").name" "$SERVERS/audit" | most)
  events=$(kube GET /api/v1/namespaces/default/events | jq -r '.items[].involvedObject.name' | most)
  leaders=$(cat "$BATS_TEST_TMPDIR"/coordinator-?.log | grep -c ' leading$')
  echo "# in $minutes minutes with $salt targets at most $patches patches and $events Events of a node, $leaders leaders" >&3
  kube GET /api/v1/namespaces/default/events | jq -r '.items[].message' | sort | uniq -c | sort -rn | sed -n 's/^/# /; 1,6p' >&3
  ((patches <= 15 * minutes + 2 * salt)) || fail "$patches patches of one node in $minutes minutes"
  ((events <= 15 * minutes + 2 * salt)) || fail "$events Events of one node in $minutes minutes"
}
