#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The agent of a node against the real API server; the tests are the coordinator. T02, T08, T15, T36, T41, T54.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # bats runs each test in a subshell; the helpers set and use what is here
load helper
load agent

setup_file() { kube_start; }
teardown_file() { kube_stop; }
setup() {
  kube_needed
  node=gpu$BATS_TEST_NUMBER AGENT_CONFIG=$KUBECONFIG
  kube POST /api/v1/nodes "{\"metadata\": {\"name\": \"$node\"}}" >/dev/null
  agent_machine
  agent_policy
}
teardown() { agent_kill; }

@test "a node reports its state once, then nothing more; drift is reported" {
  agent_start
  await agent.loaded "$old_aim $old - $kernel"
  await agent.store "$old_aim"
  await agent.boot "6e0d5b0c-0a3e-4d8e-9d7f-0a1b2c3d4e5f * 1"
  assert_equal "$(note agent.ack)$(note agent.holders)$(note agent.health)" ""
  local before
  before=$(version)
  policy_passes
  assert_equal "$(version)" "$before"
  annotate agent.loaded nonsense
  await agent.loaded "$old_aim *"
  assert_equal "$(calls_of 'unload')" 0
}

@test "stage, replace, validate: each is reported, and the driver is replaced" {
  agent_start
  await agent.loaded "$old_aim *"
  order 1.1 stage "$new_aim"
  await agent.ack 1.1:stage:done
  assert_equal "$(note agent.store)" "$old_aim,$new_aim"
  assert_equal "$(calls_of 'unload')" 0
  state evicting
  await agent.holders "0 *"
  loads "$new"
  order 1.2 replace "$new_aim"
  await agent.ack 1.2:replace:done
  assert_equal "$(note agent.loaded)" "$new_aim $new - $kernel"
  assert_equal "$(calls_of 'unload nvidia')" 1
  state validating
  order 1.3 validate "$new_aim"
  await agent.ack 1.3:validate:done
  assert_equal "$(note agent.health)" "$new_aim:ok"
  assert_equal "$(note agent.holders)" ""
  # Back again, from the disk alone (5.8).
  rm -r "$repository"
  loads "$old"
  order 1.4 restore "$old_aim"
  await agent.ack 1.4:restore:done
  assert_equal "$(note agent.loaded)" "$old_aim $old - $kernel"
}

@test "T15: an order that is not newer is refused, and an invalid one is ignored" {
  agent_start
  order 2.5 stage "$new_aim"
  await agent.ack 2.5:stage:done
  loads "$new"
  while read -r seq aim; do
    order "$seq" replace "$aim"
    seen "$old_aim *"
    assert_equal "$(note agent.ack)" 2.5:stage:done
  done <<<"2.5 $new_aim
2.4 $new_aim
1.9 $new_aim
2.6 not-an-aim
3.0000 $new_aim"
  agent_kill KILL
  order 2.4 replace "$new_aim"
  agent_start
  seen "$old_aim *"
  assert_equal "$(note agent.ack)" 2.5:stage:done
  # What was begun all the same would end before an order that comes later.
  order 2.6 stage "$new_aim"
  await agent.ack 2.6:stage:done
  assert_equal "$(calls_of 'unload')" 0
}

@test "T36: a loaded target is adopted: done at once, nothing is touched" {
  agent_start
  order 1.1 replace "$old_aim"
  await agent.ack 1.1:replace:done
  assert_equal "$(calls_of 'unload')" 0
}

@test "T54: the target is not staged: neither replace nor load unloads anything; another driver is not validated" {
  agent_start
  order 1.1 replace "$new_aim"
  await agent.ack 1.1:replace:failed:transient:not-staged
  order 1.2 load "$new_aim"
  await agent.ack 1.2:load:failed:transient:not-empty
  order 1.3 validate "$new_aim"
  await agent.ack 1.3:validate:failed:permanent:drift
  assert_equal "$(calls_of 'unload')" 0
}

@test "T08: a holder is reported with its pod and keeps its driver; once it is gone the driver is replaced" {
  local pod=6e0d5b0c-0a3e-4d8e-9d7f-0a1b2c3d4e5f proc=$ROOT/proc/77
  agent_start
  order 1.1 stage "$new_aim"
  await agent.ack 1.1:stage:done
  mkdir -p "$proc/fd"
  ln -s /dev/nvidia0 "$proc/fd/3"
  echo "0::/kubepods.slice/kubepods-pod${pod//-/_}.slice/cri-containerd-$(printf '%064d' 7).scope" >"$proc/cgroup"
  printf '77 (job) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1000 0\n' >"$proc/stat"
  state queued # pods are looked at before the cordon
  await agent.holders "1 * $pod"
  state evicting
  await agent.holders "1 * $pod"
  loads "$new"
  order 1.2 replace "$new_aim"
  await agent.ack 1.2:replace:failed:busy:E_IN_USE
  assert_equal "$(calls_of 'unload')" 0
  rm -r "$proc"
  await agent.holders "0 *"
  order 1.3 replace "$new_aim"
  await agent.ack 1.3:replace:done
  state "done"
  await agent.holders ""
}

@test "T02: an unavailable target is reported before anybody is disturbed" {
  agent_start
  rm -r "$repository"
  order 1.1 stage "$new_aim"
  await agent.ack 1.1:stage:failed:permanent:E_NOT_FOUND
  assert_equal "$(note agent.store)" "$old_aim"
  assert_equal "$(calls_of 'unload')" 0
}

@test "a dropped parameter is a change, even if its origin is unknown; a node's own parameters are not" {
  local with
  mkdir -p "$ROOT/etc/modprobe.d"
  echo 'options nvidia_uvm uvm_disable_hmm=1' >"$ROOT/etc/modprobe.d/site.conf"
  with=$(aim "$old" nvidia-uvm:uvm_peer_copy=phys)
  cp "$policy" "$policy.without"
  jq '.pools[1].target.parameters = {"nvidia-uvm:uvm_peer_copy": "phys"}' "$policy.without" >"$policy"
  agent_start --param nvidia-modeset:config_file=x
  await agent.loaded "$old_aim *"
  loads "$old"
  order 1.1 replace "$with"
  await agent.ack 1.1:replace:done
  assert_equal "$(note agent.loaded)" "$with $old - $kernel"
  assert_equal "$(grep -c '^load nvidia_uvm uvm_disable_hmm=1 uvm_peer_copy=phys$' "$ROOT/.sys-calls")" 1
  # The policy forgets it, and so does the agent.
  agent_kill
  mv "$policy.without" "$policy"
  rm -r "$ROOT/var/lib/kmodsmith/agent"
  agent_start --param nvidia-modeset:config_file=x
  await agent.loaded "$(aim "$old" nvidia_uvm:uvm_peer_copy=phys) $old - $kernel"
  loads "$old"
  order 1.2 replace "$old_aim"
  await agent.ack 1.2:replace:done
  assert_equal "$(note agent.loaded)" "$old_aim $old - $kernel"
  assert_equal "$(grep '^load nvidia_' "$ROOT/.sys-calls" | tail -2 | sort)" "load nvidia_modeset config_file=x
load nvidia_uvm uvm_disable_hmm=1"
  assert_equal "$(calls_of 'unload nvidia')" 2
}

@test "T41: an order for a target that the policy does not have yet waits for the policy" {
  cp "$policy" "$policy.whole"
  jq '.pools |= map(select(.name == "old"))' "$policy.whole" >"$policy"
  agent_start
  order 1.1 stage "$new_aim"
  await agent.ack 1.1:stage:accepted
  policy_passes
  assert_equal "$(note agent.ack)" 1.1:stage:accepted
  cp "$policy.whole" "$policy"
  await agent.ack 1.1:stage:done
  # And what was ordered once is known from then on.
  loads "$new"
  echo "{}" >"$policy"
  order 1.2 replace "$new_aim"
  await agent.ack 1.2:replace:done
  loads "$old"
  order 1.3 restore "$old_aim"
  await agent.ack 1.3:restore:done
}
