#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What a proof rests on, on a kernel without symbol versions: the build of the kernel, or nothing. Nothing is said in other
# words than something, and a driver that works does not go for it.
# shellcheck disable=SC2154 # bats and helper.bash set status, output, stderr and ROOT
load helper
load package

setup() { package=$BATS_TEST_TMPDIR/package; }
unnamed() { BUILD_ID='' layout "$package" 6.1.0-56-cloud-amd64; } # the package does not say for which build it was made

@test "made for this very kernel build: reported, and allowed as a replacement" {
  loadable
  for params in nvidia:NVreg_EnableMSI=1 nvidia:NVreg_EnableMSI=0; do
    kmodsmith install --package "$package" --param "$params" --json
    assert_status 0
    assert_json .compared build
    assert_json '.phases[] | select(.phase == "prove").note | test("^built for this very build of 6.1.0-56-cloud-amd64 .build id 75b83788bfc2.")'
    [[ $stderr != *"nothing tells before the load whether"* ]]
  done
  kmodsmith check --package "$package" --json
  assert_json .compared build
}

@test "nothing to compare with, on a node without a driver: it is tried, with a warning" {
  loadable
  unnamed
  kmodsmith check --package "$package" --json
  assert_json .compared nothing
  assert_json '.reason | test("proved nothing: ")'
  kmodsmith install --package "$package" --json
  assert_status 0
  assert_json .compared nothing
  assert_json '.phases[] | select(.phase == "prove").note | test("^nvidia.*: proved nothing: built for 6.1.0-56-cloud-amd64, and neither headers")'
  [[ $stderr == *"nothing tells before the load whether the modules fit this kernel"* ]]
  kmodsmith install --package "$package" --json
  assert_json .compared null
}

@test "nothing to compare with, and a working driver: not replaced, unless forced" {
  loadable
  kmodsmith install --package "$package"
  assert_status 0
  unnamed
  rm "$ROOT/.sys-calls"
  for stage in "" --stage; do
    kmodsmith install --package "$package" --param nvidia:NVreg_EnableMSI=0 $stage
    assert_status 1
    assert_error E_UNPROVEN "prove: nvidia"
    assert_error E_UNPROVEN ": proved nothing: built for 6.1.0-56-cloud-amd64, and neither headers nor symbols of that kernel"
    [[ $stderr == *"or pass --allow-unproven"* ]]
  done
  assert_equal "$(calls)" ""
  kmodsmith status
  assert_line ready
  assert_equal "$(jq '.failures | length' "$ROOT/var/lib/kmodsmith/journal")" 0
  KMODSMITH_ALLOW_UNPROVEN=true kmodsmith install --package "$package" --param nvidia:NVreg_EnableMSI=0 --dry-run
  assert_status 0
  kmodsmith install --package "$package" --param nvidia:NVreg_EnableMSI=0 --allow-unproven
  assert_status 0
  [[ $stderr == *"nothing tells before the load whether"* ]]
}
