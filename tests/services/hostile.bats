#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Servers that are broken or hostile: each way has its own code, takes bounded time and memory, and leaves nothing in the
# store. Every way is tried as static repository and as registry.
# shellcheck disable=SC2030,SC2031,SC2154 # bats runs each test in a subshell, sets status, output and stderr
load helper

setup_file() {
  layout=$BATS_FILE_TMPDIR/layout
  digest=$(make_layout "$layout" --pad 3000000)
  layer=$(layer_of "$layout" "$digest")
  export layout digest layer
  evil_start "$layout"
}
teardown_file() { servers_stop; }

both() { # MODE CODE [TEXT]: refused in both roles
  local from
  for from in "http://$EVIL/$1" "docker+http://$EVIL/$1/drivers"; do
    fresh
    fetch "$from"
    assert_refused "$2" "${3-}"
    assert_regex "$stderr" "$EVIL"
  done
}
both_bring() { # MODE: brought in both roles
  local role from
  for role in static registry; do
    from=http://$EVIL/$1.$role
    [ "$role" = static ] || from=docker+http://$EVIL/$1.$role/drivers
    fresh
    fetch "$from"
    assert_fetched "$digest"
  done
}
requests() { log_of evil | grep -c " /.*$1" || true; } # TEXT: how often a path with it was asked for

@test "the same server, when it behaves, is fetched from" { both_bring ok; }

@test "401 and 403 are E_AUTH" {
  both 401 E_AUTH 401
  both 403 E_AUTH 403
}
@test "404: there is no repository, or no such package" {
  fresh
  fetch "http://$EVIL/404"
  assert_refused E_NOT_FOUND "$EVIL/404"
  fresh
  fetch "docker+http://$EVIL/404/drivers"
  assert_refused E_NO_PACKAGE "$EVIL/404"
}
@test "429, 500 and 503 are E_SERVER, with the status" {
  both 429 E_SERVER 429
  both 500 E_SERVER 500
  fresh
  fetch "http://$EVIL/503"
  assert_refused E_SERVER 503
}
@test "an error page with 200 is E_MANIFEST" { both html E_MANIFEST; }

@test "an index or manifest of 100 MB, or without an end, is E_TOO_LARGE" {
  both huge E_TOO_LARGE
  both endless E_TOO_LARGE
}
@test "headers of 1 MiB are refused" { both bighead E_NETWORK; }

@test "one bit wrong in the layer or the configuration is E_DIGEST; in the manifest of a static server, too" {
  both flip E_DIGEST "$layer"
  both flip-config E_DIGEST
  fresh
  fetch "http://$EVIL/flip-manifest"
  assert_error E_DIGEST
  assert_equal "$(blobs_of "$state/store")" ""
}
@test "a layer that is shorter than promised is E_DIGEST, a longer one E_TOO_LARGE" {
  both short E_DIGEST "$layer"
  both long E_TOO_LARGE
  both endless-layer E_TOO_LARGE
}
@test "a connection that is cut before the first byte each time ends as E_NETWORK" { both cut0 E_NETWORK; }

@test "silence before, after the headers and in the middle is E_TIMEOUT, and takes seconds" {
  both mute E_TIMEOUT
  both stall E_TIMEOUT
  both stall-body E_TIMEOUT
}
@test "redirects without end, and to a file, are E_NETWORK" {
  both loop E_NETWORK redirect
  both file E_NETWORK redirect
}

@test "a tag that leads to a package of another kernel counts as none" {
  make_layout "$BATS_TEST_TMPDIR/other" --kernel 6.1.0-99-cloud-amd64 --tag "$TAG"
  fresh
  fetch "oci:$BATS_TEST_TMPDIR/other"
  assert_refused E_NO_PACKAGE 6.1.0-99-cloud-amd64
}
@test "a label that contradicts the layer is refused" {
  make_layout "$BATS_TEST_TMPDIR/lies" --label 'files=[{"name":"nvidia.ko","module":"nvidia","sha256":"'"$(printf '0%.0s' {1..64})"'","size":5,"srcversion":"0"}]'
  fresh
  fetch "oci:$BATS_TEST_TMPDIR/lies"
  assert_status 1
  assert_regex "$stderr" "error: E_(DIGEST|MANIFEST|ARCHIVE_UNSAFE): "
  assert_equal "$(blobs_of "$state/store")" ""
}

@test "cuts that pass are resumed: once, and where Range is ignored or answered wrongly" {
  for mode in cut1 cut norange badrange r416 stall1; do both_bring "$mode"; done
}
@test "an error that passes is tried again" { both_bring 500x2; }

@test "a slow server that makes progress is waited for" { both_bring drip; }

@test "a bad mirror costs a line, and the next one brings it" {
  for mode in 500 html flip stall-body; do
    fresh
    fetch "http://$EVIL/$mode,docker+http://$EVIL/$mode/drivers,http://$EVIL/ok"
    assert_fetched "$digest"
    assert_regex "$stderr" "$EVIL/$mode"
  done
}
