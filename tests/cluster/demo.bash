# shellcheck shell=bash disable=SC2154 # the other helpers set the rest
# SPDX-License-Identifier: Apache-2.0
# What scripts/demo-cluster.sh shows a rollout with: two virtual machines beside the farm, and the cluster's words.
vms="11 12" machines=() timeline=''

vm_start() { # NUMBER HOME: what its agent and its kubelet need, and the machine
  local files=$BATS_TEST_TMPDIR/n$1 name
  name=$(name_of "$1")
  mkdir "$files"
  kube POST /api/v1/nodes "{\"metadata\": {\"name\": \"$name\", \"labels\": {\"canary\": \"true\"}}}" >/dev/null
  echo "$name" >"$files/name"
  echo "${KUBE/127.0.0.1/10.0.2.2}" >"$files/url"
  agent_config "$1" | sed "s|127\.0\.0\.1|10.0.2.2|; s|$CA|/beside/ca.pem|" >"$files/config"
  cp "$SERVERS"/{ca.pem,admin.pem,admin.key} "$files"
  HOME=$2 NODE_FILES=$files setsid "$top/tests/vm/machine" "$top/tests/vm/demo-cluster.guest.sh" \
    >"$BATS_TEST_TMPDIR/$name.log" 2>&1 &
  machines+=($!)
}
vms_end() { # their Nodes go, and they say what they have
  local i
  for i in $vms; do kube DELETE "/api/v1/nodes/$(name_of "$i")" >/dev/null; done
  for ((i = 0; i < 60; i++)); do
    [ "$(cat "$BATS_TEST_TMPDIR"/gpu-*.log | grep -c '^GCC version')" -lt 2 ] || break
    sleep 1
  done
  for i in $vms; do sed -n "/^# $(name_of "$i"): kmodsmith status/,\$p" "$BATS_TEST_TMPDIR/$(name_of "$i").log"; done
}
say() { printf '\n== %s\n' "$*"; }
demo_server() { # it ends with the script, however that ends
  local file
  trap kube_stop EXIT
  kube_start
  trap demo_end EXIT
  for file in rbac.yaml agent-policy.yaml coordinator.yaml coordinator-policy.yaml; do deploy "$file"; done
}
demo_begin() {
  ln -s "$KMODSMITH" "$BATS_TEST_TMPDIR/kubectl-kmodsmith"
  coordinator_start a
  coordinator_start b
  tell &
  timeline=$!
}
demo_end() {
  local pid
  kill "$timeline" 2>/dev/null || true
  farm_clean
  for pid in "${machines[@]}"; do kill -- "-$pid" 2>/dev/null || true; done
  kube_stop
}

begin() { echo "$EPOCHSECONDS" >"$BATS_TEST_TMPDIR/begun"; } # the clock of the timeline
tell() { # what the coordinators tell as Events, as it comes
  local uid at node line
  local -A seen=()
  while sleep 1; do
    while IFS=$'\t' read -r uid at node line; do
      [ -z "${seen[$uid]-}" ] || continue
      seen[$uid]=yes
      printf '%4d s  %-7s %s\n' $((at - $(<"$BATS_TEST_TMPDIR/begun"))) "$node" "$line"
    done < <(kube GET /api/v1/namespaces/default/events | jq -r '.items | sort_by(.metadata.resourceVersion | tonumber) | .[] |
      [.metadata.uid, (.metadata.creationTimestamp | fromdateiso8601), .involvedObject.name, .message] | @tsv')
  done
}
show() { # VERB...: as kubectl's plugin; first the timeline comes to its end
  sleep 2
  printf '\n# kubectl kmodsmith %s\n' "$*"
  "$BATS_TEST_TMPDIR/kubectl-kmodsmith" "$@" --namespace kmodsmith
}
drivers() { # how many nodes have which
  nodes '.[] | .metadata.annotations["kmodsmith.io/agent.loaded"] // "- -"' | awk '{ print $2 }' | sort | uniq -c
}
all_have() { # VERSION
  local found
  sleep 2
  drivers
  found=$(drivers | awk '{ print $1, $2 }')
  [ "$found" = "12 $1" ] || fail "not all nodes have $1"
  [ -z "$(cordoned)" ] || fail "still cordoned: $(cordoned)"
}
