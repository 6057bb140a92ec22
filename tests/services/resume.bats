#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A download that is killed goes on where it was, even in another process and from another mirror, and nothing half-done
# is ever seen.
# shellcheck disable=SC2030,SC2031,SC2154 # bats runs each test in a subshell, sets status, output and stderr
load helper

setup_file() {
  layout=$BATS_FILE_TMPDIR/layout
  digest=$(make_layout "$layout" --pad 4000000)
  layer=$(layer_of "$layout" "$digest")
  export layout digest layer
  evil_start "$layout"
  nginx_start plain "$layout"
  python_start "$layout"
}
teardown_file() { servers_stop; }
setup() { fresh; }

part() { stat -c %s "$state/store/blobs/sha256/.$layer.part" 2>/dev/null || echo 0; }
killed() { # FROM BYTES: a fetch that is killed when so many bytes of the layer are there
  local pid
  "$KMODSMITH" fetch --driver "$DRIVER" --flavour open --kernel "$KERNEL" --from "$1" --state-dir "$state" \
    --insecure-skip-verify >"$BATS_TEST_TMPDIR/killed" 2>&1 3>&- &
  pid=$!
  has_come() { [ "$(part)" -ge "$1" ]; }
  log=$BATS_TEST_TMPDIR/killed soon has_come "$2"
  kill -KILL "$pid"
  wait "$pid" || true
  [ "$(part)" -ge "$2" ] || fail "no part of $2 bytes: $(part); $(<"$BATS_TEST_TMPDIR/killed")"
  assert_equal "$(blobs_of "$state/store" | grep -c "$layer")" 0
  run -0 "$KMODSMITH" store verify --state-dir "$state"
}

@test "killed in the middle: the next run asks for the rest only, from another mirror" {
  killed "http://$EVIL/drip" 500000
  local have
  have=$(part)
  fetch "$NGINX_PLAIN"
  assert_fetched "$digest"
  run -0 nginx_log plain
  assert_line --regexp "GET /blobs/sha256/$layer 206 [0-9]+ range=bytes=$have-"
  assert_equal "$(find "$state/store" -name '*.part')" ""
}
@test "killed in the middle: from a registry as well" {
  killed "docker+http://$EVIL/drip/drivers" 500000
  local have
  have=$(part)
  fetch "docker+http://$EVIL/ok/drivers"
  assert_fetched "$digest"
  run -0 log_of evil
  assert_line --regexp "GET /v2/ok/drivers/blobs/sha256:$layer 206 range=bytes=$have- "
}
@test "killed in the middle: a mirror that ignores Range brings it, too" {
  killed "http://$EVIL/drip" 500000
  fetch "$PYTHON"
  assert_fetched "$digest"
}
@test "a part that was damaged meanwhile is fetched anew" {
  killed "http://$EVIL/drip" 500000
  printf 'damage' | dd of="$state/store/blobs/sha256/.$layer.part" bs=1 seek=1000 conv=notrunc status=none
  fetch "$NGINX_PLAIN"
  assert_fetched "$digest"
}
@test "a mirror that fails half-way is gone on from by the next" {
  fetch "http://$EVIL/stall-body,$NGINX_PLAIN"
  assert_fetched "$digest"
  run -0 nginx_log plain
  assert_line --regexp "GET /blobs/sha256/$layer 206 .* range=bytes=[1-9][0-9]*-"
}
@test "killed at many sizes of the part: the store verifies each time, and the last run brings it" {
  local bytes
  for bytes in 1 70000 140000 300000 600000 900000 1300000; do killed "http://$EVIL/drip" "$bytes"; done
  fetch "http://$EVIL/ok"
  assert_fetched "$digest"
}
@test "two at once: one brings it, and neither harms the other" {
  "$KMODSMITH" fetch --driver "$DRIVER" --flavour open --kernel "$KERNEL" --from "http://$EVIL/ok" --state-dir "$state" \
    --insecure-skip-verify >"$BATS_TEST_TMPDIR/first" 2>&1 3>&- &
  local pid=$!
  fetch "$NGINX_PLAIN"
  wait "$pid" || assert_file_contains "$BATS_TEST_TMPDIR/first" E_LOCKED
  [ "$status" -eq 0 ] || assert_error E_LOCKED
  assert_layout "$state/store" "$digest"
  run -0 "$KMODSMITH" store verify --state-dir "$state"
}
