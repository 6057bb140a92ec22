#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# When an image is made and when the one that is there is taken (images/kept.sh), and what the preparation of this tier says
# where nothing can be fetched. What makes the images and asks apt is made up here.
# shellcheck disable=SC2016,SC2030,SC2031,SC2154 # the variables of other scripts; bats runs each test in a subshell, sets status
load ../cli/helper

setup() {
  tree=$BATS_TEST_TMPDIR/tree made=$BATS_TEST_TMPDIR/made
  export IMAGES_OUT=$tree/build/images-test
  unset SOURCE_DATE_EPOCH
  mkdir -p "$tree"/{images,scripts,tests/images,build/release}
  cp "$top"/images/{common.bash,kept.sh} "$tree/images/"
  cp "$top/tests/images/prepare" "$tree/tests/images/"
  cp "$top"/{LICENSE,Makefile} "$tree/"
  for name in runtime builder driver; do maker "images/$name.sh" "[ ! -e '$made-wait' ] || sleep 60; mkdir -p \"\$IMAGES_OUT/$name/root\"
    echo $name >>'$made'; echo x >\"\$IMAGES_OUT/$name/root/x\"; echo tar | tee \"\$IMAGES_OUT/$name/root.tar\" >\"\$IMAGES_OUT/$name/oci.tar\""; done
  maker images/base.sh 'mkdir -p "$IMAGES_OUT/base"; cp "$IMAGES_OUT/../debs" "$IMAGES_OUT/base/root.key"; echo "$IMAGES_OUT/base/root"'
  maker images/tools.sh 'cat "$IMAGES_OUT/../tools"'
  echo tools >"$tree/build/tools"
  echo debs >"$tree/build/debs"
  for name in kmodsmith kmodsmith-static; do maker "build/release/$name" :; done
  echo deb >"$BATS_TEST_TMPDIR/a.deb"
}
maker() { # FILE SCRIPT
  printf '#!/bin/bash\n%s\n' "$2" >"$tree/$1"
  chmod +x "$tree/$1"
}
kept() { run --separate-stderr "$tree/images/kept.sh" "$@"; }
driver() { kept driver --driver "${1-1.2}" "$BATS_TEST_TMPDIR/a.deb"; }
assert_made() { # NAME...: these were made since the last time, in this order
  assert_success
  assert_equal "$([ ! -e "$made" ] || paste -sd' ' "$made")" "$*"
  rm -f "$made"
}

@test "an image is made once, and again when a program, a script, a package or an argument is another" {
  driver
  assert_made runtime driver
  driver
  assert_made
  driver 1.3
  assert_made driver
  echo more >>"$BATS_TEST_TMPDIR/a.deb"
  driver 1.3
  assert_made driver
  echo : >>"$tree/build/release/kmodsmith-static"
  driver 1.3
  assert_made runtime driver
  echo '# more' >>"$tree/images/common.bash"
  driver 1.3
  assert_made runtime driver
  kept builder
  assert_made builder
  echo others >"$tree/build/tools"
  kept builder
  assert_made builder
  echo others >"$tree/build/debs"
  kept builder
  assert_made runtime builder
  cp -al "$IMAGES_OUT" "$tree/build/elsewhere"
  IMAGES_OUT=$tree/build/elsewhere kept builder
  assert_made
}
@test "a base root that was begun and not ended is made again, and the one that it was linked from keeps its key" {
  local key
  cp "$top/images/base.sh" "$tree/images/"
  mkdir -p "$tree/etc"
  echo 12 >"$tree/etc/debian_version"
  tar -C "$tree" -cf "$tree/good.tar" etc
  echo "no tar file" >"$tree/bad.tar"
  run -0 env KMODSMITH_BASE="$tree/good.tar" "$tree/images/base.sh"
  cp -al "$IMAGES_OUT" "$tree/build/elsewhere"
  key=$(cat "$IMAGES_OUT/base/root.key")
  run env KMODSMITH_BASE="$tree/bad.tar" "$tree/images/base.sh"
  assert_failure
  run -0 env KMODSMITH_BASE="$tree/good.tar" "$tree/images/base.sh"
  [ -s "$IMAGES_OUT/base/root/etc/debian_version" ]
  sed -i 's/^/other /' "$tree/build/elsewhere/base/root.key"
  run -0 env IMAGES_OUT="$tree/build/elsewhere" KMODSMITH_BASE="$tree/good.tar" "$tree/images/base.sh"
  assert_equal "$(cat "$IMAGES_OUT/base/root.key")" "$key"
}
@test "an image that was damaged, or not ended, is made again" {
  local damage pid i
  driver
  assert_made runtime driver
  for damage in "truncate -s 1 $IMAGES_OUT/driver/oci.tar" "rm $IMAGES_OUT/driver/root.tar" "rm $IMAGES_OUT/driver/root/x"; do
    $damage
    driver
    assert_made driver
  done
  touch "$made-wait"
  echo : >>"$tree/build/release/kmodsmith"
  setsid "$tree/images/kept.sh" runtime >/dev/null 2>"$BATS_TEST_TMPDIR/log" 3>&- 4>&- &
  pid=$!
  for ((i = 0; i < 300; i++)); do ! grep -q 'making the runtime image' "$BATS_TEST_TMPDIR/log" || break; sleep 0.1; done
  kill -KILL -- "-$pid"
  rm "$made-wait"
  kept runtime
  assert_made runtime
}
@test "two runs at once make it once; a maker that fails leaves nothing that is taken" {
  local pid
  sed -i '1a sleep 1' "$tree/images/runtime.sh"
  "$tree/images/kept.sh" runtime 2>/dev/null 3>&- 4>&- &
  pid=$!
  sleep 0.3
  kept runtime
  wait "$pid"
  assert_made runtime
  sed -i '1a echo "tar: no space left on device" >&2; exit 2' "$tree/images/runtime.sh"
  kept runtime
  assert_failure
  assert_regex "$stderr" 'no space left on device'
  assert [ ! -e "$IMAGES_OUT/runtime/key" ]
}
@test "where nothing can be fetched the preparation says so, and makes no image" {
  maker scripts/inputs.sh 'echo "E: Failed to fetch http://mirror.test/x  Could not resolve" >&2; exit 100'
  run --separate-stderr "$tree/tests/images/prepare"
  assert_failure 3
  assert_output "IMAGES_LACKS=the images are made of Debian's packages, and these cannot be fetched: E: Failed to fetch http://mirror.test/x  Could not resolve"
  assert [ ! -e "$made" ]
}
