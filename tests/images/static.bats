#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# kmodsmith-static in a root where nothing is: it starts, works, and says what it cannot do.
# shellcheck disable=SC2030,SC2031,SC2154 # bats runs each test in a subshell, sets status, output and stderr
load helper

setup_file() {
  work=$BATS_FILE_TMPDIR
  cp "$images/runtime/root/usr/libexec/kmodsmith" "$work/kmodsmith-static"
  export work
}
setup() { KMODSMITH=$work/kmodsmith-static; }

@test "in an empty root it starts and reads a machine" {
  [ "$(id -u)" -eq 0 ] || skip "only root can chroot"
  mkdir "$BATS_TEST_TMPDIR/root"
  cp -a "$top/tests/hosts/h100x8" "$BATS_TEST_TMPDIR/root/machine"
  cp "$KMODSMITH" "$BATS_TEST_TMPDIR/root/"
  run --separate-stderr chroot "$BATS_TEST_TMPDIR/root" /kmodsmith-static status --json --root /machine
  assert_equal "$(jq -r '.ready | type' <<<"$output")" boolean
}
@test "remote sources are refused by name, at once" {
  kmodsmith fetch --driver 570.1 --from docker://localhost:1/x --state-dir "$BATS_TEST_TMPDIR/state"
  assert_error E_NOT_FOUND "has no remote sources"
  kmodsmith fetch --driver 570.1 --from https://localhost:1/x --state-dir "$BATS_TEST_TMPDIR/state"
  assert_error E_NOT_FOUND "has no remote sources"
}
@test "modprobe.d is read" {
  ROOT=$BATS_TEST_TMPDIR/host
  cp -a "$top/tests/hosts/h100x8" "$ROOT"
  kmodsmith plan --driver 570.1 --host-driver use --offline
  assert_status 0
  mkdir -p "$ROOT/etc/modprobe.d"
  echo 'options nvidia NVreg_EnableMSI=1' >"$ROOT/etc/modprobe.d/a.conf"
  kmodsmith plan --driver 570.1 --host-driver use --offline
  assert_status 0
}
@test "a key and a signature, as with the other build" {
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$BATS_TEST_TMPDIR/key.pem" 2>/dev/null
  openssl pkey -in "$BATS_TEST_TMPDIR/key.pem" -pubout -out "$BATS_TEST_TMPDIR/site.pem"
  ROOT=$BATS_TEST_TMPDIR/host
  cp -a "$top/tests/hosts/h100x8" "$ROOT"
  kmodsmith "trust add" "$BATS_TEST_TMPDIR/site.pem"
  assert_status 0
  kmodsmith "trust ls" --json
  assert_status 0
  [ "$(jq 'length' <<<"$output")" -gt 0 ]
}
