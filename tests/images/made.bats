#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# How images are made: the same inputs give the same bytes, another root can take the place of Debian's packages, and
# what cannot be made says so and leaves the image that was there.
# shellcheck disable=SC2030,SC2031,SC2154 # bats runs each test in a subshell, sets status, output and stderr
load helper

setup() {
  [ "$(id -u)" -eq 0 ] || skip "only root can make images"
  cd "$top" || return
}
make_image() { run --separate-stderr env IMAGES_OUT="$BATS_TEST_TMPDIR/out" "${@:2}" scripts/images.sh "$1"; } # NAME [VARIABLE=VALUE...]

@test "the runtime made twice, at other times and places, is the same image" {
  TZ=Asia/Tokyo LANG=C make_image runtime
  assert_success
  assert_output --regexp '^runtime +[0-9.]+ MiB unpacked, +[0-9.]+ MiB as an image  sha256:[0-9a-f]{64}$'
  run -0 cmp "$BATS_TEST_TMPDIR/out/runtime/root.tar" "$images/runtime/root.tar"
  run -0 cmp "$BATS_TEST_TMPDIR/out/runtime/oci.tar" "$images/runtime/oci.tar"
}
@test "SOURCE_DATE_EPOCH is the time of everything that is newer" {
  make_image runtime SOURCE_DATE_EPOCH=1000000000 KMODSMITH_BASE="$images/base/root"
  assert_success
  run find "$BATS_TEST_TMPDIR/out/runtime/root" -newermt @1000000001
  assert_output ""
  run -0 skopeo inspect --format '{{.Created}}' "oci-archive:$BATS_TEST_TMPDIR/out/runtime/oci.tar"
  assert_output --partial 2001-09-09
}
@test "another root takes the place of Debian's packages: a directory, and a tar file of one" {
  local base=$BATS_TEST_TMPDIR/base
  cp -a "$images/base/root" "$base"
  echo '# of the other root' >>"$base/usr/lib/os-release"
  make_image runtime KMODSMITH_BASE="$base"
  assert_success
  run -0 tail -1 "$BATS_TEST_TMPDIR/out/runtime/root/usr/lib/os-release"
  assert_output '# of the other root'
  tar -C "$base" -cf "$base.tar" .
  mv "$BATS_TEST_TMPDIR/out" "$BATS_TEST_TMPDIR/first"
  make_image runtime KMODSMITH_BASE="$base.tar"
  assert_success
  run -0 cmp "$BATS_TEST_TMPDIR/out/runtime/oci.tar" "$BATS_TEST_TMPDIR/first/runtime/oci.tar"
}
@test "a root that lacks a program is refused by its name, and the image that was there stays" {
  local base=$BATS_TEST_TMPDIR/base
  mkdir -p "$base/usr/bin" "$BATS_TEST_TMPDIR/out/runtime"
  echo before >"$BATS_TEST_TMPDIR/out/runtime/oci.tar"
  make_image runtime KMODSMITH_BASE="$base"
  assert_failure
  assert_equal "$stderr" "images: the base root has no 'usr/bin/bash'"
  assert_equal "$(<"$BATS_TEST_TMPDIR/out/runtime/oci.tar")" before
}
