#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The name driver-manager, as far as nobody has to be asked; what it does is in tests/cluster/driver-manager.bats.
# shellcheck disable=SC2154 # bats and helper.bash set stderr and ROOT
load helper

setup() {
  host h100x8
  mkdir -p "$BATS_TEST_TMPDIR/bin" "$ROOT/dev"
  ln -s "$KMODSMITH" "$BATS_TEST_TMPDIR/bin/driver-manager"
  : >"$ROOT/dev/termination-log"
}
manager() { run --separate-stderr env KMODSMITH_ROOT="$ROOT" "$@"; }

@test "driver-manager: has NVIDIA's verbs, and everything else is a usage error" {
  local program=$BATS_TEST_TMPDIR/bin/driver-manager
  manager "$program" --help
  assert_success
  assert_line --partial "uninstall_driver   see \`kmodsmith driver-manager uninstall --help\`"
  assert_line --partial "preflight_check    see \`kmodsmith driver-manager preflight --help\`"
  for words in "" "uninstall" "--node-name n uninstall_driver" "init"; do
    # shellcheck disable=SC2086 # several words
    manager "$program" $words
    assert_failure 1
    [[ $stderr == "Usage: driver-manager "* ]]
  done
  kmodsmith "driver-manager uninstall" --help
  assert_status 0
  assert_line --partial "ENABLE_GPU_POD_EVICTION"
}

@test "driver-manager: without an API server it touches nothing, and the termination log says why" {
  local program=$BATS_TEST_TMPDIR/bin/driver-manager
  manager "$program" uninstall_driver
  assert_error E_USAGE "NODE_NAME or --node must name the Node of this machine"
  manager NODE_NAME=n "$program" uninstall_driver
  assert_error E_USAGE "not in a pod with a service account"
  run cat "$ROOT/dev/termination-log"
  assert_line --index 0 --partial "E_USAGE (Usage): not in a pod with a service account"
  manager NODE_NAME=n KUBECONFIG="$BATS_TEST_TMPDIR/none" "$program" uninstall_driver
  assert_failure
  [[ $stderr == *"$BATS_TEST_TMPDIR/none"* ]]
  cat >"$BATS_TEST_TMPDIR/config" <<'END'
{"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {"token": "t"}}],
  "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}]}
END
  manager NODE_NAME=n KUBECONFIG="$BATS_TEST_TMPDIR/config" DRAIN_TIMEOUT_SECONDS=soon "$program" uninstall_driver
  assert_error E_CONFIG "DRAIN_TIMEOUT_SECONDS"
  manager NODE_NAME=n KUBECONFIG="$BATS_TEST_TMPDIR/config" ENABLE_AUTO_DRAIN=maybe "$program" preflight_check
  assert_error E_NETWORK
  [[ $stderr == *"ENABLE_AUTO_DRAIN is ignored: it is 'maybe', not true or false"* ]]
  assert_equal "$(calls)" ""
}
