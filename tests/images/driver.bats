#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# How driver images are made: the same files give the same bytes, and what is not of the version makes no image.
# shellcheck disable=SC2030,SC2031,SC2154 # bats runs each test in a subshell, sets status, output and stderr
load helper

setup() {
  [ "$(id -u)" -eq 0 ] || skip "only root can make images"
  cd "$top" || return
  mkdir -p "$BATS_TEST_TMPDIR/out/runtime"
  cp "$images"/runtime/{layer.tar,root.tar,root.epoch} "$BATS_TEST_TMPDIR/out/runtime"
}
driver_image() { # ARGUMENT...
  run --separate-stderr env IMAGES_OUT="$BATS_TEST_TMPDIR/out" KMODSMITH_BASE="$images/base/root" images/driver.sh "$@"
}

@test "files of another driver version, and files without a version, make no driver image" {
  local file
  file=$(tr ' ' '\n' <<<"$DRIVER_FILES" | grep /libcuda1_)
  driver_image "$file"
  assert_failure
  assert_regex "$stderr" 'FILE needs --driver VERSION'
  driver_image --driver 535.999.01 "$file" # made up
  assert_failure
  assert_regex "$stderr" "is for driver $DRIVER, 535.999.01 was requested" # made up
  [ ! -e "$BATS_TEST_TMPDIR/out/driver/oci.tar" ]
}
@test "the driver image made twice is the same image" {
  mkdir -p "$BATS_TEST_TMPDIR/out/builder"
  cp -r "$images/builder/asset" "$BATS_TEST_TMPDIR/out/builder/" # whose digest the image names
  # shellcheck disable=SC2086 # a list of files
  driver_image --driver "$DRIVER" --builder - $DRIVER_FILES
  assert_success
  run -0 cmp "$BATS_TEST_TMPDIR/out/driver/oci.tar" "$images/driver/oci.tar"
}
