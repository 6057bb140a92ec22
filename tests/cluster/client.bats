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
@test "an object: absent, created once, found, replaced only by the last reader" { client objects; }
@test "a list in pages of ten has every node once, reduced while it is read" { client pages; }
@test "500 nodes of 20 KiB each: less than 2 KiB a node stay" { client memory; }
@test "a list whose pages have expired starts over" { client expired; }
@test "a watch: reports events, bookmarks move the version, a version too old is gone" { client watch; }
@test "patches: a failed test and another uid are lost races, not errors" { client patches; }
@test "an eviction takes only the pod of its uid" { client eviction; }
@test "a budget that allows nothing blocks an eviction, and is named" { client budget; }
@test "an event about a node" { client event; }
@test "missing rights are reported in the server's words" { client rights; }
