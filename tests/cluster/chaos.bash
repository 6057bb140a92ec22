# shellcheck shell=bash disable=SC2034,SC2154 # the tests use what is set here; the other helpers set the rest
# SPDX-License-Identifier: Apache-2.0
# Disorder among the nodes of rollout.bash, each step of it drawn from a seed. Load it after rollout.bash. A machine here has
# one driver; targets differ by a parameter of it, which takes the same drain, unload and load, and goes back by itself.
# `uvm_a=bad` is one with which no load succeeds. The test is scheduler, controller of ReplicaSets and namespaces, and kubelet.
CHAOS_ASAN=$top/build/asan/kmodsmith PARALLEL=3 # of the policy
agent_machine() { # of the first one a copy
  local kept=$BATS_FILE_TMPDIR/machine i
  if [ ! -d "$kept" ]; then
    loadable
    layout "$BATS_TEST_TMPDIR/package" "$kernel" --driver "$new"
    "$KMODSMITH" push "oci:$BATS_TEST_TMPDIR/package" "oci:$repository" >/dev/null
    echo 6e0d5b0c-0a3e-4d8e-9d7f-0a1b2c3d4e5f >"$ROOT/proc/sys/kernel/random/boot_id"
    "$KMODSMITH" install --root "$ROOT" --driver "$new" --flavour open --from "oci:$repository" --insecure-skip-verify >/dev/null
    for i in {1..99}; do echo "EINVAL load nvidia_uvm uvm_a=bad"; done >"$ROOT/.sys-refused"
    mkdir "$kept"
    cp -a "$ROOT" "$repository" "$kept"
    return
  fi
  cp -a "$kept/." "$BATS_TEST_TMPDIR"
}
node_make() { # NUMBER: of the pool a, or from the sixth on b
  local pool=b
  (($1 > FARM / 2)) || pool=a
  kube POST /api/v1/nodes "{\"metadata\": {\"name\": \"$(name_of "$1")\", \"labels\": {\"pool\": \"$pool\"}}}" >/dev/null
  kube PATCH "/api/v1/nodes/$(name_of "$1")/status" '{"status": {"conditions": [{"type": "Ready", "status": "True"}]}}' \
    application/merge-patch+json >/dev/null
}
kubelet() { # pods whose end has begun end, and jobs that the policy waits for have none; what is heard of nodes changes all the time
  local space name job node i heartbeat=$BATS_TEST_TMPDIR/heartbeat
  while sleep 0.7; do
    for ((i = 1; i <= FARM; i++)); do
      printf '%s\n' next "url=$KUBE/api/v1/nodes/$(name_of "$i")/status" request=PATCH "cacert=$CA" "cert=$SERVERS/admin.pem" \
        "key=$SERVERS/admin.key" 'header="Content-Type: application/merge-patch+json"' output=/dev/null \
        "data={\\\"status\\\": {\\\"conditions\\\": [{\\\"type\\\": \\\"Ready\\\", \\\"status\\\": \\\"True\\\", \\\"message\\\": \\\"$EPOCHREALTIME\\\"}]}}" |
        sed -E 's/^(url|cacert|cert|key|data|output|request)=(.*)/\1="\2"/'
    done >"$heartbeat"
    curl -sK "$heartbeat" 2>/dev/null || true
    kube GET /api/v1/pods 2>/dev/null | jq -r '.items[]? | select(.metadata.deletionTimestamp) |
      "\(.metadata.namespace) \(.metadata.name) \(.metadata.labels.kind // "-") \(.spec.nodeName)"' 2>/dev/null |
      while read -r space name job node; do
        [ "$job" != training ] || echo "$SECONDS s: the job $space/$name on $node, which the policy waits for, was ended" >>"$BATS_TEST_TMPDIR/violations"
        kube DELETE "/api/v1/namespaces/$space/pods/$name?gracePeriodSeconds=0" >/dev/null 2>&1
      done
  done
}

coordinator_start() { # NAME
  local settings=$BATS_TEST_TMPDIR/coordinator.config
  [ -e "$settings" ] || kube_config_token "$(account kmodsmith-coordinator)" >"$settings"
  "$CHAOS_ASAN" coordinator --kubeconfig "$settings" --identity "$1" --metrics "$BATS_TEST_TMPDIR/$1.prom" \
    >>"$BATS_TEST_TMPDIR/coordinator-$1.log" 2>&1 </dev/null 3>&- 4>&- &
  echo $! >"$BATS_TEST_TMPDIR/coordinator-$1.pid"
}
node_agent() { # NUMBER
  policy=$BATS_TEST_TMPDIR/policy.json AGENT_CONFIG=$BATS_TEST_TMPDIR/n$1/config in_node "$1" agent_start
}
pid_of() { cat "$BATS_TEST_TMPDIR/coordinator-$1.pid" "$BATS_TEST_TMPDIR/n$1/agent.pid" 2>/dev/null; } # NAME or NUMBER
again() { # NAME or NUMBER: as a Deployment or DaemonSet does, when it has ended
  kill -0 "$(pid_of "$1")" 2>/dev/null || case $1 in [0-9]*) node_agent "$1" ;; *) coordinator_start "$1" ;; esac
}
signal() { kill "-$1" "$(pid_of "$2")" 2>/dev/null || true; } # SIGNAL NAME or NUMBER

declare -gA target=([a]=1 [b]=1)
salt=1
policy_text() {
  jq -n --arg driver "$new" --arg a "${target[a]}" --arg b "${target[b]}" --argjson parallel "$PARALLEL" '
    def pool(name; value): {name: name, selector: {pool: name}, maxUnavailable: "60%", maxParallel: 2, maxWaiting: 2, breaker: {inARow: 2},
      target: {driver: $driver, flavour: "open", parameters: {"nvidia-uvm:uvm_a": value}}, drain: {waitFor: "kind=training"},
      deadlines: {stage: 30, cordon: 30, evict: 40, replace: 60, validate: 40, restore: 60, release: 30, ack: 20, backoff: 5,
        backoffMost: 20, blockedRelease: 20, pdbDeadlock: 20}};
    {maxUnavailable: "60%", maxParallel: $parallel, pools: [pool("a"; $a), pool("b"; $b)]}'
}
policy_put() { # TEXT: the ConfigMap, and the file that a kubelet makes of it
  echo "$1" >"$BATS_TEST_TMPDIR/policy.new"
  mv "$BATS_TEST_TMPDIR/policy.new" "$BATS_TEST_TMPDIR/policy.json"
  kube PATCH /api/v1/namespaces/kmodsmith/configmaps/kmodsmith-policy "$(jq -n --arg text "$1" '{data: {"policy.json": $text}}')" \
    application/merge-patch+json >/dev/null
}
retarget() { # POOL [bad]
  salt=$((salt + 1))
  target[$1]=${2-$salt}
  policy_put "$(policy_text)"
}
api_away() { # SECONDS: it hangs
  local pid
  pid=$(pgrep -P "$(<"$SERVERS/kube-apiserver.pid")")
  kill -STOP "$pid"
  sleep "$1"
  kill -CONT "$pid"
}
api_gone() { # SECONDS: it dies, and nobody listens
  local pid
  pid=$(<"$SERVERS/kube-apiserver.pid")
  kill -KILL "$(pgrep -P "$pid")"
  timeout 10 tail --pid="$pid" -s 0.05 -f /dev/null
  sleep "$1"
  kube_again
  until kube GET /readyz | grep -q ok; do sleep 0.5; done
}
budget_make() { # PODS: nothing of them may be evicted: nobody counts what is healthy
  kube POST /apis/policy/v1/namespaces/default/poddisruptionbudgets \
    "{\"metadata\": {\"name\": \"$1\"}, \"spec\": {\"selector\": {\"matchLabels\": {\"app\": \"$1\"}}, \"maxUnavailable\": 0}}" >/dev/null
}
budget_end() { kube DELETE "/apis/policy/v1/namespaces/default/poddisruptionbudgets/$1" >/dev/null; }
work() { # NAME NODE NAMESPACE KIND: a pod that asks for a GPU, of a ReplicaSet; KIND training: one that is waited for
  kube POST "/api/v1/namespaces/$3/pods" "{\"metadata\": {\"name\": \"$1\", \"labels\": {\"app\": \"app$((salt % 3))\", \"kind\": \"$4\"},
    \"ownerReferences\": [{\"apiVersion\": \"apps/v1\", \"kind\": \"ReplicaSet\", \"name\": \"x\", \"uid\": \"x\", \"controller\": true}]},
    \"spec\": {\"nodeName\": \"$2\", \"containers\": [{\"name\": \"c\", \"image\": \"i\", \"resources\": {\"limits\": {\"nvidia.com/gpu\": \"1\"}}}]}}" >/dev/null
}
work_end() { kube DELETE "/api/v1/namespaces/$2/pods/$1?gracePeriodSeconds=0" >/dev/null; } # NAME NAMESPACE
namespace_end() { # NAME: its end begins, and comes when nothing is in it
  kube DELETE "/api/v1/namespaces/$1" >/dev/null
  later 15 namespace_gone "$1"
}
namespace_gone() {
  kube DELETE "/api/v1/namespaces/$1/pods?gracePeriodSeconds=0" >/dev/null
  kube PUT "/api/v1/namespaces/$1/finalize" "{\"apiVersion\": \"v1\", \"kind\": \"Namespace\", \"metadata\": {\"name\": \"$1\"}}" >/dev/null
}
cordon_foreign() { merge_node "$1" '{"spec": {"unschedulable": true}}'; }
uncordon_foreign() { merge_node "$1" '{"spec": {"unschedulable": null}}'; }
merge_node() { kube PATCH "/api/v1/nodes/$1" "$2" application/merge-patch+json >/dev/null; }

# No random number in a subshell: each would be another one.
pick() { die=$((RANDOM % $1)); } # COUNT: sets die
due=()
later() { due+=("$((SECONDS + $1)) ${*:2}"); } # SECONDS COMMAND...
run_due() { # [all]
  local -a left=("${due[@]}")
  local item
  due=()
  for item in "${left[@]}"; do
    # shellcheck disable=SC2086 # words
    if [ "${1-}" = all ] || ((${item%% *} <= SECONDS)); then ${item#* }; else due+=("$item"); fi
  done
}
tell() { printf '%4d s  %s\n' "$SECONDS" "$*" >>"$BATS_TEST_TMPDIR/chaos.log"; }
does() { tell "$@" && "$@"; }

look() { # what no moment may show; nodes that wait for jobs have a limit of their own
  local busy
  nodes_now=$(kube GET /api/v1/nodes)
  busy=$(jq -r '[.items[] | select(.metadata.labels["kmodsmith.io/state"] // "" |
    test("^(evicting|replacing|validating|restoring|releasing)$")) | .metadata.name] | join(" ")' <<<"$nodes_now")
  [ "$(wc -w <<<"$busy")" -le "$PARALLEL" ] || echo "more than $PARALLEL nodes are worked on at $SECONDS s: $busy" >>"$BATS_TEST_TMPDIR/violations"
}
disturb() { # one step
  local who node pods
  pick 3 && who=b
  ! grep -q '^kmodsmith_leader 1' "$BATS_TEST_TMPDIR/a.prom" || who=a # who leads, in two of three
  [ "$die" != 0 ] || who=$(tr ab ba <<<$who)
  pick 40
  case $die in
  0 | 1) does signal KILL "$who" ;;
  2 | 3) does signal STOP "$who" && pick 40 && later $((die + 3)) signal CONT "$who" ;;
  4 | 5) pick "$FARM" && does signal KILL $((die + 1)) ;;
  6 | 7) pick "$FARM" && who=$((die + 1)) && does signal STOP "$who" && pick 30 && later $((die + 3)) signal CONT "$who" ;;
  8 | 9) does retarget "$who" ;;
  10) does retarget "$who" bad && later 20 retarget "$who" ;;
  11) does policy_put '{"pools": [' && pick 15 && later $((die + 3)) retarget "$who" ;;
  12 | 13) pick 3 && does budget_make "app$die" && who=app$die && pick 40 && later $((die + 5)) budget_end "$who" ;;
  14) # a namespace that ends with a pod in it
    who=chaos$salt-$SECONDS
    kube POST /api/v1/namespaces "{\"metadata\": {\"name\": \"$who\"}}" >/dev/null
    pick "$FARM" && work stuck "$(name_of $((die + 1)))" "$who" serving
    does namespace_end "$who"
    ;;
  15 | 16) pick "$FARM" && node=$(name_of $((die + 1))) && does cordon_foreign "$node" && pick 30 && later $((die + 5)) uncordon_foreign "$node" ;;
  17) pick "$FARM" && node=$((die + 1)) && does kube DELETE "/api/v1/nodes/$(name_of "$node")" >/dev/null && pick 10 && later $((die + 1)) node_make $node ;;
  18 | 19) # seldom
    who=$([ "$die" = 18 ] && echo api_away || echo api_gone)
    pick 6
    [ "$die" = 0 ] || return 0
    pick 20 && does "$who" $((die + 5))
    ;;
  20) pick "$FARM" && does merge_node "$(name_of $((die + 1)))" "{\"metadata\": {\"annotations\": {\"kmodsmith.io/retry\": \"$SECONDS\"}}}" ;;
  *) # a pod where there is room
    mapfile -t pods < <(jq -r '.items[] | select(.spec.unschedulable | not) | .metadata.name' <<<"$nodes_now")
    [ ${#pods[@]} -gt 0 ] || return 0
    pick ${#pods[@]} && node=${pods[die]} && pick 3
    who=serving
    [ "$die" != 0 ] || who=training
    work "pod-$SECONDS-$salt" "$node" default $who
    pick 30 && later $((die + 15)) work_end "pod-$SECONDS-$salt" default
    ;;
  esac
}
by_coordinators='select((.user.username | endswith(":kmodsmith-coordinator")) and .verb == "patch" and .responseStatus.code < 300)'
most() { sort | uniq -c | sort -rn | awk 'NR == 1 { print $1 }'; } # how often the line is there that is there most often
