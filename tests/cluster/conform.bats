#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What the simulated API server of tests/sim answers is what a real one answers: the same table of requests.
load helper
setup_file() { kube_start; }
teardown_file() { kube_stop; }

@test "every request of the table has the same answer here as in the simulation" {
  run timeout 120 "$(dirname "$CLIENT")/conform"
  assert_success
}
