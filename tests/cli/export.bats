#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# --export on recorded machines: what is planned, and what is refused before anything is touched. Mounts are made in the
# VM tier only (37-export): a recorded machine has none.
# shellcheck disable=SC2154 # bats and helper.bash set stderr, top and ROOT
load helper
load package

setup() { package=$BATS_TEST_TMPDIR/package; }
with_payload() { # a machine, and a package beside a payload of the same version
  loadable
  tiny_payload "$BATS_TEST_TMPDIR/payload.tar" 535.261.03
  "$KMODSMITH" pack payload "$BATS_TEST_TMPDIR/payload.tar" --driver 535.261.03 --arch x86_64 --output "oci:$package" \
    --state-dir "$BATS_TEST_TMPDIR/state" >/dev/null 2>&1
}
steps() { kmodsmith plan --json "$@" && assert_json '[.steps[].step] | join(",")' "$expected"; }

@test "plan: user space before the modules are proven, the switch after the device nodes" {
  with_payload
  expected=payload,preflight,package,prove,load,nodes,export,verify
  steps --package "$package" --export /run/nvidia/driver
  assert_json '.steps[0].why' 'there is none yet'
  expected=preflight,package,prove,load,nodes,verify
  steps --package "$package"
  steps --package "$package" --export none
  KMODSMITH_EXPORT=/srv/driver kmodsmith plan --package "$package" --json
  assert_json '[.steps[].step] | index("export")' 6
}

@test "plan: a missing payload is an error only if an export was requested" {
  loadable
  expected=preflight,package,prove,load,nodes,verify
  steps --package "$package"
  kmodsmith install --package "$package" --export /run/nvidia/driver
  assert_status 1
  assert_error E_NO_PAYLOAD
  assert_equal "$(calls)" ""
}

@test "--export: an invalid directory" {
  with_payload
  local dir
  for dir in run/nvidia/driver /driver / /run/../driver /run/nvidia/.driver; do
    kmodsmith plan --package "$package" --export "$dir"
    assert_status 2
    assert_error E_USAGE
  done
}

@test "install: a recorded machine has no mounts, and its modules are not touched for them" {
  with_payload
  kmodsmith install --package "$package" --export /run/nvidia/driver
  assert_status 1
  assert_error E_SYSTEM "a recorded machine has no mounts"
  assert_equal "$(calls | grep -cE '^(un)?load ')" 0
}

@test "init: exports what it finds by default, and says once that there is nothing" {
  loadable
  log=$BATS_TEST_TMPDIR/log
  timeout --preserve-status $((2 * hung)) "$KMODSMITH" init --root "$ROOT" --package "$package" --modules nvidia >"$log" 2>&1 3>&- &
  local pid=$!
  soon grep -q 'ready: driver' "$log"
  kill -TERM "$pid"
  wait "$pid"
  assert_equal "$(grep -c 'no user space is exported' "$BATS_TEST_TMPDIR/log")" 1
}
