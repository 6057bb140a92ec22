#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# R-A9, without a cluster: processes that have one state directory agree by a lock. Needs no API server.
# shellcheck disable=SC2034,SC2154 # nodes.bash sets builder, and uses repository
load helper
load nodes

setup_file() { registry_start plain && registry_start readonly; }
teardown_file() { servers_stop; }
setup() { nodes_make; }

@test "four processes with one state directory: one compiler run, four drivers" {
  for i in {1..4}; do node "$i" --state-dir "$PWD/state"; done
  ended 4
  assert_equal "$(compiles)" 1
  assert_equal "$(loads)" 4
}

@test "a registry that they may not push to: the package stays in their store" {
  repository=docker+http://$HUB_READONLY/drivers
  for i in {1..3}; do node "$i" --state-dir "$PWD/state"; done
  ended 3
  assert_equal "$(compiles)" 1
  assert_equal "$(loads)" 3
  assert_equal "$(grep -l 'the package is not shared' log.* | wc -l)" 1
}

@test "--compile-lease off: each node compiles for itself" {
  for i in {1..2}; do node "$i" --compile-lease off; done
  ended 2
  assert_equal "$(compiles)" 2
}

@test "a node that is not a builder signs and pushes nothing, and warns about a key on its disk" {
  role=''
  node 1
  ended 1
  run cat log.1
  assert_output --partial ", a key that this node trusts, can be read here although this node is not a builder: root here could sign"
  assert_output --partial "kept on this node, which is not a builder"
  assert_equal "$(compiles) $(loads)" "1 1"
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out other.pem 2>/dev/null
  share_key=other.pem role=node
  node 2
  ended 2
  run cat log.2
  assert_output --partial "warn: --share-key is ignored: this node is not a builder"
  assert_equal "$(compiles)" 2 # nothing came of the first for the second
  run ! grep -q signature "$PWD/node1/var/lib/kmodsmith/store/index.json"
}

@test "invalid values are refused" {
  while IFS='|' read -r options words; do
    # shellcheck disable=SC2086 # options are words
    run "$KMODSMITH" install --root machine --source driver --headers headers.tar --from "oci:$builder" $options
    assert_failure 2
    assert_output --partial "$words"
  done <<EOF
--share docker://elsewhere.test/x|is not one of --from
--share-key key.pem|belong to --share
--share oci:$builder --compile-lease default|not a pod with a service account
--share-role builder|belong to --share
--share oci:$builder --share-role boss|--share-role 'boss' is not one of builder, node
--share oci:$builder --lease-duration 1|at least 4 seconds
EOF
}
