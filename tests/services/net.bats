#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The way to a source: proxies and who is excepted from them, redirects, and what `net check` says about each layer (R-L1).
# shellcheck disable=SC2030,SC2031,SC2154 # bats runs each test in a subshell, sets status, output and stderr
load helper

setup_file() {
  layout=$BATS_FILE_TMPDIR/layout
  digest=$(make_layout "$layout" --pad 1000000)
  layer=$(layer_of "$layout" "$digest")
  export layout digest layer
  for kind in plain tls wrong; do nginx_start "$kind" "$layout"; done
  registry_start basic
  evil_start "$layout"
  proxy_start open
  proxy_start closed "$USERNAME:$PASSWORD"
  auth_file "$BATS_FILE_TMPDIR/auth.json" "$EVIL" "$HUB_BASIC"
}
teardown_file() { servers_stop; }
setup() {
  fresh
  : >"$SERVERS/proxy-open.log"
}
with_password() { echo "${PROXY_CLOSED/\/\//\/\/$USERNAME:$PASSWORD@}"; }
refute_proxied() { assert_equal "$(log_of proxy-open)" ""; }

@test "a proxy by option: plain requests by address, TLS through a tunnel" {
  fetch "$NGINX_PLAIN" --proxy "$PROXY_OPEN"
  assert_fetched "$digest"
  run log_of proxy-open
  assert_line "GET $NGINX_PLAIN/blobs/sha256/$layer 200"
  fresh
  fetch "$NGINX_TLS" --proxy "$PROXY_OPEN" --ca "$CA"
  assert_fetched "$digest"
  run log_of proxy-open
  assert_line "CONNECT ${NGINX_TLS#https://} 200"
}
@test "a proxy by environment, in each spelling" {
  local name
  for name in http_proxy all_proxy ALL_PROXY HTTP_PROXY; do
    : >"$SERVERS/proxy-open.log"
    fresh
    env "$name=$PROXY_OPEN" true
    export "$name=$PROXY_OPEN"
    fetch "$NGINX_PLAIN"
    unset "$name"
    assert_fetched "$digest"
    [ "$(log_of proxy-open)" != "" ] || fail "$name had no effect"
  done
  https_proxy=$PROXY_OPEN fetch "$NGINX_PLAIN"
  assert_status 0
}
@test "the option wins over the environment, and an empty one means none" {
  http_proxy=http://127.0.0.1:9 fetch "$NGINX_PLAIN" --proxy "$PROXY_OPEN"
  assert_fetched "$digest"
  fresh
  http_proxy=http://127.0.0.1:9 fetch "$NGINX_PLAIN" --proxy ""
  assert_fetched "$digest"
}
@test "excepted from the proxy: an address, a network, host and port, everything; others are not" {
  local no
  for no in 127.0.0.1 127.0.0.0/8 "${NGINX_PLAIN#http://}" 10.0.0.0/8,127.0.0.1/32 '*'; do
    fresh
    fetch "$NGINX_PLAIN" --proxy "$PROXY_OPEN" --no-proxy "$no"
    assert_fetched "$digest"
    refute_proxied
  done
  fresh
  no_proxy=127.0.0.0/8 http_proxy=$PROXY_OPEN fetch "$NGINX_PLAIN"
  assert_fetched "$digest"
  refute_proxied
  for no in 10.0.0.0/8 127.0.0.1:9 example.test 126.0.0.0/8; do
    : >"$SERVERS/proxy-open.log"
    fresh
    fetch "$NGINX_PLAIN" --proxy "$PROXY_OPEN" --no-proxy "$no"
    assert_fetched "$digest"
    refute [ "$(log_of proxy-open)" = "" ]
    refute_regex "$stderr" 'matches no host'
  done
  fetch "$NGINX_PLAIN" --proxy "$PROXY_OPEN" --no-proxy '127.0.0.*,*.svc,http://x'
  assert_equal "$(grep 'matches no host' <<<"$stderr")" "kmodsmith: warn: --no-proxy: '127.0.0.*', 'http://x' is no name, address or range, and matches no host"
}
@test "a proxy with a password; without it the proxy is named, and the password never" {
  fetch "$NGINX_PLAIN" --proxy "$(with_password)"
  assert_fetched "$digest"
  refute_regex "$output$stderr" "$PASSWORD"
  fresh
  fetch "$NGINX_TLS" --ca "$CA" --proxy "$(with_password)"
  assert_fetched "$digest"
  fresh
  fetch "$NGINX_TLS" --ca "$CA" --proxy "$PROXY_CLOSED"
  assert_status 75
  assert_regex "$stderr" "error: E_(NETWORK|AUTH): .*$PROXY_CLOSED"
  fetch "$NGINX_PLAIN" --proxy "$PROXY_CLOSED"
  assert_status 1
  assert_regex "$stderr" "error: E_(NETWORK|AUTH): .*407"
}
@test "a proxy that is not there is named" {
  fetch "$NGINX_PLAIN" --proxy http://127.0.0.1:9
  assert_refused E_NETWORK 127.0.0.1:9
}

@test "a source that is not there: what to type is named, and not what of it was asked for" {
  local name=docker+http://127.0.0.1:9/team/drivers
  cp -a "$top/tests/hosts/h100x8" "$BATS_TEST_TMPDIR/host"
  for command in plan install fetch; do
    kmodsmith "$command" --root "$BATS_TEST_TMPDIR/host" --driver 999.1 --from "$name"
    assert_status 75
    assert_regex "$stderr" "error: E_NETWORK: .*${name/+/.}: http://127.0.0.1:9 \\(tcp\\): "
    assert_regex "$stderr" "next: \`kmodsmith net check ${name/+/.}\` tells which layer fails"
    refute_regex "$stderr" 'manifests|tags/list|proprietary'
  done
  kmodsmith net check "$name"
  assert_status 1
  assert_regex "$output" tcp
}

@test "a redirect to another place is followed, and no credential goes along" {
  fetch "docker+http://$EVIL/auth-redirect/drivers" --auth-file "$BATS_FILE_TMPDIR/auth.json"
  assert_fetched "$digest"
  run log_of evil
  assert_line --regexp "^${EVIL#*:} GET /v2/auth-redirect/drivers/blobs/sha256:$layer 307 .* auth=basic$"
  assert_line --regexp "^${EVIL_OTHER#*:} GET /v2/auth-redirect/drivers/blobs/sha256:$layer 200 .* auth=none$"
  refute_line --regexp "^${EVIL_OTHER#*:} .* auth=(basic|bearer)$"
}
@test "a redirect of a static repository is followed" {
  fetch "http://$EVIL/redirect"
  assert_fetched "$digest"
}

check() { kmodsmith net check --from "$1" --connect-timeout 10 --stall-timeout 5 "${@:2}"; }
@test "net check: all well, with proxy and authority" {
  check "$NGINX_TLS" --ca "$CA" --proxy "$PROXY_OPEN"
  assert_status 0
  assert_regex "$output" "$PROXY_OPEN"
  assert_regex "$output" "Private authority of the tests"
}
@test "net check: the layer that fails: name, connection, proxy, certificate, answer" {
  check http://nowhere.invalid
  assert_status 1
  assert_regex "$output$stderr" dns
  check "http://127.0.0.1:$(free_port)"
  assert_status 1
  assert_regex "$output$stderr" tcp
  check "$NGINX_PLAIN" --proxy http://127.0.0.1:9
  assert_status 1
  assert_regex "$output$stderr" proxy
  check "$NGINX_TLS"
  assert_status 1
  assert_regex "$output$stderr" tls
  check "http://$EVIL/mute"
  assert_status 1
  assert_regex "$output$stderr" http
}
@test "the site's authorities where the GPU Operator mounts them; what holds none is told and stops nobody" {
  local place root=$BATS_TEST_TMPDIR/root
  for place in usr/local/share/ca-certificates/site.crt etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem etc/pki/trust/anchors/site; do
    rm -rf "$root"
    mkdir -p "$root/${place%/*}/..2026_data"
    check "$NGINX_TLS" --root "$root"
    assert_status 1
    assert_equal "$stderr" ""
    cp "$CA" "$root/$place"
    check "$NGINX_TLS" --root "$root"
    assert_status 0
    assert_regex "$output" "Private authority of the tests"
  done
  echo none >"$root/etc/pki/trust/anchors/a-note"
  check "$NGINX_TLS" --root "$root"
  assert_status 0
  assert_regex "$stderr" "warn: certificate authorities: '.*/a-note' has no PEM certificate"
  mkdir -p "$root/usr/local/share/ca-certificates"
  cp "$CA" "$root/usr/local/share/ca-certificates/README" # not of the names that are looked for
  rm "$root/etc/pki/trust/anchors/"*
  check "$NGINX_TLS" --root "$root"
  assert_status 1
}
@test "net check: every source is looked at, and one that fails does not hide the others" {
  check "http://127.0.0.1:9,$NGINX_PLAIN,docker+http://$HUB_BASIC/x"
  assert_status 1
  assert_regex "$output$stderr" 127.0.0.1:9
  assert_regex "$output$stderr" "$NGINX_PLAIN"
  assert_regex "$output$stderr" "$HUB_BASIC"
}
@test "a peer that goes without a word is noticed: every connection asks for it" {
  run -0 strace -E ASAN_OPTIONS=detect_leaks=0 -f -qq -e trace=setsockopt -e signal=none -o "$BATS_TEST_TMPDIR/calls" "$KMODSMITH" net check "$NGINX_PLAIN"
  run grep -oE 'SO_KEEPALIVE, \[1\]|TCP_KEEP[A-Z]+, \[[0-9]+\]' "$BATS_TEST_TMPDIR/calls"
  for option in 'SO_KEEPALIVE, [1]' 'TCP_KEEPIDLE, [30]' 'TCP_KEEPINTVL, [10]'; do assert_line "$option"; done
}
