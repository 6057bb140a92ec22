#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Our client against the real API server: what installer/cluster takes for granted of it, and that the simulated one of tests/sim
# answers the same to the table of conform.def.
load helper
setup_file() { kube_start && deploy_kind; }
teardown_file() { kube_stop; }
setup() { kube_needed; }

client() { # TEST
  run timeout 120 "$CLIENT" "$1"
  assert_success
}

@test "every request of the table has the same answer here as in the simulation" {
  run timeout 120 "$(dirname "$CLIENT")/conform"
  assert_success
}
@test "an object: absent, created once, found, replaced only by who has read it last" { client objects; }
@test "a list in pages of ten has every node once, reduced on its way" { client pages; }
@test "500 nodes of 20 KiB each: less than 2 KiB a node stay" { client memory; }
@test "a list whose pages have expired begins anew" { client expired; }
@test "a watch: what happens comes, bookmarks move the version, a version of long ago is gone" { client watch; }
@test "patches: a test that does not hold and another uid are lost races, not errors" { client patches; }
@test "an eviction takes the pod of its uid, and no other" { client eviction; }
@test "a budget that allows nothing blocks an eviction, and is named" { client budget; }
@test "an event about a node" { client event; }
@test "who may not is told, and the words are the server's" { client rights; }
