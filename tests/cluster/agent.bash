# shellcheck shell=bash disable=SC2034,SC2154,SC2119,SC2120 # the tests use what is set here; the other helpers set the rest
# SPDX-License-Identifier: Apache-2.0
# A recorded machine with the agent of its Node, whose driver has the version that was loaded: what is loaded lies behind
# a link, and what a load makes does not, so that NVIDIA's file of the version, which is named relative to the module, is
# another one before and after it.
kernel=6.1.0-56-cloud-amd64
old=535.216.03 new=535.261.03

agent_machine() { # two packages in $repository, the old driver loaded
  loadable
  repository=$BATS_TEST_TMPDIR/repository
  local version
  for version in "$old" "$new"; do
    layout "$BATS_TEST_TMPDIR/package" "$kernel" --driver "$version"
    "$KMODSMITH" push "oci:$BATS_TEST_TMPDIR/package" "oci:$repository" >/dev/null
    tiny_firmware "$version"
  done
  echo 6e0d5b0c-0a3e-4d8e-9d7f-0a1b2c3d4e5f >"$ROOT/proc/sys/kernel/random/boot_id"
  mkdir -p "$ROOT/old/module"
  mv "$ROOT/proc/driver/nvidia/version" "$BATS_TEST_TMPDIR/version"
  ln -s ../../../sys/module/nvidia/../../version "$ROOT/proc/driver/nvidia/version"
  loads "$old"
  "$KMODSMITH" install --root "$ROOT" --driver "$old" --flavour open --from "oci:$repository" --insecure-skip-verify \
    >/dev/null 2>"$BATS_TEST_TMPDIR/install.log" || { cat "$BATS_TEST_TMPDIR/install.log" >&2 && return 1; }
}
loads() { # VERSION: what the next load brings
  local text
  text=$(sed "s/  535[.0-9]*  /  $1  /" "$BATS_TEST_TMPDIR/version")
  if [ -d "$ROOT/sys/module/nvidia" ] && [ ! -L "$ROOT/sys/module/nvidia" ]; then
    rm -rf "$ROOT/old/module/nvidia"
    mv "$ROOT/sys/version" "$ROOT/old/version"
    mv "$ROOT/sys/module/nvidia" "$ROOT/old/module/nvidia"
    ln -s ../../old/module/nvidia "$ROOT/sys/module/nvidia"
  fi
  echo "$text" >"$ROOT/sys/version"
}
calls_of() { grep -cE "^($1)( |$)" "$ROOT/.sys-calls" || true; }

# POLICY: two pools, one for each driver; their aims as `rollout` tells them.
agent_policy() {
  policy=$BATS_TEST_TMPDIR/policy.json
  jq -n --arg old "$old" --arg new "$new" '{pools: [
    {name: "new", selector: {pool: "new"}, target: {driver: $new, flavour: "open"}},
    {name: "old", target: {driver: $old, flavour: "open"}}]}' >"$policy"
  old_aim=$(aim "$old") new_aim=$(aim "$new")
}
aim() { # VERSION [PARAMETER]: as target.c makes it, of driver, flavour and no package
  local options=0000000000000000
  [ -z "${2-}" ] || options=$(printf %s "$2" | sha256sum | cut -c1-16)
  printf '%s-%s' "$(printf '%s\nopen\n' "$1" | sha256sum | cut -c1-16)" "$options"
}
agent_start() { # [OPTION...]
  "$KMODSMITH" agent --root "$ROOT" --policy "$policy" --node "$node" ${AGENT_CONFIG:+--kubeconfig "$AGENT_CONFIG"} \
    --from "oci:$repository" --insecure-skip-verify "$@" >>"$BATS_TEST_TMPDIR/agent.log" 2>&1 </dev/null 3>&- 4>&- &
  echo $! >"$BATS_TEST_TMPDIR/agent.pid"
}
agent_kill() { # [SIGNAL]
  local pid
  [ -e "$BATS_TEST_TMPDIR/agent.pid" ] || return 0
  pid=$(<"$BATS_TEST_TMPDIR/agent.pid")
  rm "$BATS_TEST_TMPDIR/agent.pid"
  kill "-${1-TERM}" "$pid" 2>/dev/null || return 0
  wait "$pid" 2>/dev/null || true
}

note() { kube GET "/api/v1/nodes/$node" | jq -r --arg key "kmodsmith.io/$1" '.metadata.annotations[$key] // ""'; } # KEY
version() { kube GET "/api/v1/nodes/$node" | jq -r .metadata.resourceVersion; }
annotate() { # KEY VALUE [SPEC]: as an administrator
  kube PATCH "/api/v1/nodes/$node" "$(jq -n --arg k "kmodsmith.io/$1" --arg v "$2" --argjson spec "${3-{\}}" '{metadata: {annotations: {($k): $v}}, $spec}')" \
    application/merge-patch+json >/dev/null
}
order() { # SEQ VERB AIM: what unloads is ordered of a node that is cordoned, as the coordinator does
  case $2 in
    stage | validate) annotate go "$1:$2:$3" ;;
    *) annotate go "$1:$2:$3" '{"unschedulable": true}' ;;
  esac
}
state() { # NAME: what the coordinator says of the node
  kube PATCH "/api/v1/nodes/$node" "{\"metadata\": {\"labels\": {\"kmodsmith.io/state\": \"$1\"}}}" application/merge-patch+json >/dev/null
}
await() { # KEY PATTERN [SECONDS]: until the annotation matches
  local i value
  for ((i = 0; i < ${3:-60} * 5; i++)); do
    value=$(note "$1")
    # shellcheck disable=SC2053 # a pattern
    [[ $value != $2 ]] || return 0
    sleep 0.2
  done
  tail -30 "$BATS_TEST_TMPDIR/agent.log" >&2
  fail "$1 is '$value' and does not become '$2'"
}

# An absence is looked at after a sign that comes later: whatever should not happen would have happened before it.
seen() { # LOADED: until the agent has seen all that was written on its Node until now: it corrects a word of its own that is wrong
  annotate agent.loaded nonsense
  await agent.loaded "$1"
}
policy_passes() { # until the agent has read its policy, as it does every 5 s: for a moment that says nothing, which changes nothing and is told
  local word i
  word=nonsense$(tr 0-9 a-j <<<$RANDOM) # another one each time: what was told is not told again
  cp "$policy" "$policy.kept"
  echo "{$word" >"$policy.none"
  mv "$policy.none" "$policy"
  for ((i = 0; i < 300; i++)); do
    ! grep -q "reading the policy: .*$word" "$BATS_TEST_TMPDIR/agent.log" || break
    sleep 0.2
  done
  mv "$policy.kept" "$policy"
  ((i < 300)) || { tail -30 "$BATS_TEST_TMPDIR/agent.log" >&2 && fail "the agent does not read its policy"; }
}
journaled() { # STEP: until the agent's journal says that it is there
  local i
  for ((i = 0; i < 300; i++)); do
    [ "$(jq -r .step "$ROOT/var/lib/kmodsmith/agent/journal.json")" != "$1" ] || return 0
    sleep 0.2
  done
  tail -30 "$BATS_TEST_TMPDIR/agent.log" >&2
  fail "the journal does not become '$1': $(<"$ROOT/var/lib/kmodsmith/agent/journal.json")"
}
