#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Push to and fetch from Debian's registry: plain, TLS, passwords, tokens. Digests never change, secrets never show.
# shellcheck disable=SC2016,SC2030,SC2031,SC2154 # bats runs each test in a subshell, sets status, output and stderr; a script is written
load helper

setup_file() {
  layout=$BATS_FILE_TMPDIR/layout
  digest=$(make_layout "$layout" --pad 2000000)
  layer=$(layer_of "$layout" "$digest")
  export layout digest layer
  for kind in plain tls basic; do registry_start "$kind"; done
  registry_start token
  auth=$BATS_FILE_TMPDIR/auth.json
  auth_file "$auth" "$HUB_BASIC" "$HUB_TOKEN"
  export auth
}
teardown_file() { servers_stop; }
setup() { fresh; }

push() { # DEST [OPTION...]
  kmodsmith push "oci:$layout" "$@" --connect-timeout 10 --stall-timeout 10
}
accept="Accept: application/vnd.oci.image.manifest.v1+json"
refute_secret() { # no password, no token, no header of either, in what was printed
  refute [ -z "$stderr$output" ]
  assert_equal "$(grep -cE "$PASSWORD|$(printf '%s:%s' "$USERNAME" "$PASSWORD" | base64)|eyJ0" <<<"$output$stderr")" 0
}

@test "plain: push, and what the registry has then" {
  push "docker+http://$HUB_PLAIN/site/drivers"
  assert_status 0
  curl -sS -H "$accept" "http://$HUB_PLAIN/v2/site/drivers/manifests/$TAG" >"$BATS_TEST_TMPDIR/manifest"
  assert_equal "$(digest_of <"$BATS_TEST_TMPDIR/manifest")" "$digest"
  fetch "docker+http://$HUB_PLAIN/site/drivers"
  assert_fetched "$digest"
}
@test "plain: a second push sends no blob again" {
  push "docker+http://$HUB_PLAIN/again"
  assert_status 0
  local before
  before=$(log_of registry-plain | grep -c '"PUT /v2/again/blobs') || true
  assert_equal "$before" 2
  push "docker+http://$HUB_PLAIN/again"
  assert_status 0
  assert_equal "$(log_of registry-plain | grep -c '"PUT /v2/again/blobs')" 2
}
@test "plain: --tag chooses which tags go" {
  cp -a "$layout" "$BATS_TEST_TMPDIR/two"
  make_layout "$BATS_TEST_TMPDIR/two" --driver 570.10.01
  kmodsmith push "oci:$BATS_TEST_TMPDIR/two" "docker+http://$HUB_PLAIN/chosen" --tag "$TAG"
  assert_status 0
  run -0 curl -sSf "http://$HUB_PLAIN/v2/chosen/tags/list"
  assert_equal "$(jq -c .tags <<<"$output")" "[\"$TAG\"]"
}
@test "from registry to registry, layout and bundle, and back" {
  push "docker+http://$HUB_PLAIN/round"
  assert_status 0
  kmodsmith push "docker+http://$HUB_PLAIN/round" "docker+http://$HUB_PLAIN/elsewhere/round"
  assert_status 0
  kmodsmith push "docker+http://$HUB_PLAIN/elsewhere/round" "oci:$BATS_TEST_TMPDIR/out"
  assert_status 0
  assert_layout "$BATS_TEST_TMPDIR/out" "$digest"
}
@test "TLS: push and fetch with the private authority, refused without" {
  push "docker://$HUB_TLS/drivers" --ca "$CA"
  assert_status 0
  fetch "docker://$HUB_TLS/drivers" --ca "$CA"
  assert_fetched "$digest"
  fresh
  fetch "docker://$HUB_TLS/drivers"
  assert_refused E_TLS "Private authority of the tests"
  push "docker://$HUB_TLS/drivers"
  assert_error E_TLS
}
@test "TLS: a registry is never spoken to in plain HTTP unless told" {
  push "docker://$HUB_PLAIN/never"
  assert_error E_TLS
  assert_equal "$(log_of registry-plain | grep -c /v2/never)" 0
}
@test "passwords: with them both ways work, without them and with wrong ones it is E_AUTH" {
  push "docker+http://$HUB_BASIC/drivers" --auth-file "$auth"
  assert_status 0
  fetch "docker+http://$HUB_BASIC/drivers" --auth-file "$auth"
  assert_fetched "$digest"
  fresh
  fetch "docker+http://$HUB_BASIC/drivers"
  assert_refused E_AUTH "$HUB_BASIC"
  sed "s/$(printf '%s:%s' "$USERNAME" "$PASSWORD" | base64)/$(printf '%s:%s' "$USERNAME" wrong-word | base64)/" \
    "$auth" >"$BATS_TEST_TMPDIR/wrong.json"
  fetch "docker+http://$HUB_BASIC/drivers" --auth-file "$BATS_TEST_TMPDIR/wrong.json"
  assert_refused E_AUTH "$HUB_BASIC"
  assert_equal "$(grep -c wrong-word <<<"$output$stderr")" 0
}
@test "passwords: DOCKER_CONFIG is found, and a credential for another host is not used" {
  mkdir "$BATS_TEST_TMPDIR/docker"
  cp "$auth" "$BATS_TEST_TMPDIR/docker/config.json"
  push "docker+http://$HUB_BASIC/drivers" --auth-file "$auth"
  DOCKER_CONFIG=$BATS_TEST_TMPDIR/docker fetch "docker+http://$HUB_BASIC/drivers"
  assert_fetched "$digest"
  auth_file "$BATS_TEST_TMPDIR/other.json" "${HUB_BASIC/127.0.0.1/localhost}" "$HUB_PLAIN"
  fresh
  fetch "docker+http://$HUB_BASIC/drivers" --auth-file "$BATS_TEST_TMPDIR/other.json"
  assert_refused E_AUTH
}
@test "passwords: what podman login has stored, and a credential helper that knows one" {
  mkdir -p "$BATS_TEST_TMPDIR/run/containers" "$BATS_TEST_TMPDIR/bin" "$BATS_TEST_TMPDIR/docker"
  push "docker+http://$HUB_BASIC/drivers" --auth-file "$auth"
  cp "$auth" "$BATS_TEST_TMPDIR/run/containers/auth.json"
  fresh
  XDG_RUNTIME_DIR=$BATS_TEST_TMPDIR/run fetch "docker+http://$HUB_BASIC/drivers"
  assert_fetched "$digest"
  jq -r --arg host "$HUB_BASIC" '.auths[$host].auth | @base64d' "$auth" >"$BATS_TEST_TMPDIR/secret"
  jq -n --arg host "$HUB_BASIC" '{credHelpers: {($host): "site"}}' >"$BATS_TEST_TMPDIR/docker/config.json"
  printf '#!/bin/sh\nIFS=: read -r user secret <%s\nprintf \047{"ServerURL":"%%s","Username":"%%s","Secret":"%%s"}\047 "$(cat)" "$user" "$secret"\n' \
    "$BATS_TEST_TMPDIR/secret" >"$BATS_TEST_TMPDIR/bin/docker-credential-site"
  chmod +x "$BATS_TEST_TMPDIR/bin/docker-credential-site"
  fresh
  DOCKER_CONFIG=$BATS_TEST_TMPDIR/docker PATH=$BATS_TEST_TMPDIR/bin:$PATH fetch "docker+http://$HUB_BASIC/drivers"
  assert_fetched "$digest"
  fresh
  DOCKER_CONFIG=$BATS_TEST_TMPDIR/docker fetch "docker+http://$HUB_BASIC/drivers"
  assert_refused E_AUTH "docker-credential-site' of '$BATS_TEST_TMPDIR/docker/config.json' for '$HUB_BASIC' is not in PATH"
}

@test "tokens: push and fetch by a user, and nothing without credentials" {
  push "docker+http://$HUB_TOKEN/a/drivers" --auth-file "$auth"
  assert_status 0
  run -0 log_of token
  assert_line --regexp "^token user tests repository:a/drivers:(pull,push|push,pull)$"
  fetch "docker+http://$HUB_TOKEN/a/drivers" --auth-file "$auth"
  assert_fetched "$digest"
  fresh
  fetch "docker+http://$HUB_TOKEN/a/drivers"
  assert_refused E_AUTH
  push "docker+http://$HUB_TOKEN/a/drivers"
  assert_error E_AUTH
}
@test "tokens: anybody may pull where the registry allows it, and no credential is sent for that" {
  push "docker+http://$HUB_TOKEN/open" --auth-file "$auth"
  assert_status 0
  server_stop token
  server_run token "${TOKEN#*:}" python3 "$here/token_server.py" --port "${TOKEN#*:}" --key "$SERVERS/token.key" \
    --certificate "$SERVERS/token.pem" --user "$USERNAME:$PASSWORD" --anonymous-pull --field access_token --lifetime 60
  fetch "docker+http://$HUB_TOKEN/open"
  assert_fetched "$digest"
  push "docker+http://$HUB_TOKEN/open"
  assert_error E_AUTH
}
@test "secrets do not show, whatever is printed" {
  push "docker+http://$HUB_TOKEN/quiet" --auth-file "$auth" --verbose
  assert_status 0
  refute_secret
  fetch "docker+http://$HUB_TOKEN/quiet" --auth-file "$auth" --verbose
  assert_fetched "$digest"
  refute_secret
  fetch "docker+http://$USERNAME:$PASSWORD@$HUB_BASIC/none" --verbose
  refute_secret
  run grep -rl "$PASSWORD" "$state"
  assert_output ""
}
@test "a package that is not there is E_NO_PACKAGE, a name that cannot be is E_USAGE" {
  fetch "docker+http://$HUB_PLAIN/nothing/here"
  assert_refused E_NO_PACKAGE
  push "docker+http://$HUB_PLAIN/UPPER"
  assert_error E_USAGE
  push "http://$HUB_PLAIN/drivers"
  assert_error E_USAGE
}
@test "a driver without a version: the newest of the registry's tags" {
  push "docker+http://$HUB_PLAIN/many"
  local newest
  newest=$(make_layout "$BATS_TEST_TMPDIR/newer" --driver 570.10.01)
  kmodsmith push "oci:$BATS_TEST_TMPDIR/newer" "docker+http://$HUB_PLAIN/many"
  assert_status 0
  kmodsmith fetch --kernel "$KERNEL" --flavour open --from "docker+http://$HUB_PLAIN/many" --state-dir "$state" --insecure-skip-verify
  assert_fetched "$newest"
}
