#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Static repositories, layouts and bundles: what a web server, a directory or a stick offers.
# shellcheck disable=SC2030,SC2031,SC2154 # bats runs each test in a subshell, sets status, output and stderr
load helper

setup_file() {
  layout=$BATS_FILE_TMPDIR/layout
  digest=$(make_layout "$layout" --pad 2000000)
  make_layout "$layout" --kernel 6.1.0-99-cloud-amd64
  layer=$(layer_of "$layout" "$digest")
  export layout digest layer
  for kind in plain tls wrong; do nginx_start "$kind" "$layout"; done
  python_start "$layout"
}
teardown_file() { servers_stop; }
setup() { fresh; }

@test "a layout directory" {
  fetch "oci:$layout"
  assert_fetched "$digest"
}
@test "a bundle, named with and without ./" {
  (cd "$layout" && tar -cf "$BATS_TEST_TMPDIR/a.tar" oci-layout index.json blobs && tar -cf "$BATS_TEST_TMPDIR/b.tar" .)
  fetch "oci-archive:$BATS_TEST_TMPDIR/a.tar"
  assert_fetched "$digest"
  fresh
  fetch "oci-archive:$BATS_TEST_TMPDIR/b.tar"
  assert_fetched "$digest"
}
@test "nginx: only the documents of this package and its layer are asked for" {
  fetch "$NGINX_PLAIN"
  assert_fetched "$digest"
  run -0 nginx_log plain
  assert_line --partial "GET /blobs/sha256/$layer 200"
  assert_equal "$(nginx_log plain | grep -c ' /blobs/')" 3
}
@test "a second fetch brings nothing again" {
  fetch "$NGINX_PLAIN"
  assert_fetched "$digest"
  : >"$SERVERS/nginx-plain.access"
  fetch "$NGINX_PLAIN"
  assert_fetched "$digest"
  run nginx_log plain
  refute_output --partial "$layer"
}
@test "python's server, which ignores Range" {
  fetch "$PYTHON"
  assert_fetched "$digest"
}
@test "an address with a path and a slash at its end" {
  mkdir "$BATS_TEST_TMPDIR/www"
  cp -a "$layout" "$BATS_TEST_TMPDIR/www/kernel drivers"
  server_stop python
  python_start "$BATS_TEST_TMPDIR/www"
  fetch "$PYTHON/kernel%20drivers/"
  assert_fetched "$digest"
}
@test "into a layout: the same bytes as at the source, and skopeo reads them" {
  fetch "$NGINX_PLAIN" --output "oci:$BATS_TEST_TMPDIR/out"
  assert_status 0
  assert_layout "$BATS_TEST_TMPDIR/out" "$digest"
  run -0 skopeo --insecure-policy inspect --raw "oci:$BATS_TEST_TMPDIR/out:$TAG"
  assert_equal "$(printf %s "$output" | digest_of)" "$digest"
}

@test "TLS: with the private authority, by address and by name; without it E_TLS names the authority" {
  fetch "$NGINX_TLS" --ca "$CA"
  assert_fetched "$digest"
  fresh
  fetch "${NGINX_TLS/127.0.0.1/localhost}" --ca "$CA"
  assert_fetched "$digest"
  fresh
  fetch "$NGINX_TLS"
  assert_refused E_TLS "Private authority of the tests"
}
@test "TLS: a directory of authorities" {
  mkdir "$BATS_TEST_TMPDIR/authorities"
  cp "$CA" "$BATS_TEST_TMPDIR/authorities/site.pem"
  fetch "$NGINX_TLS" --ca "$BATS_TEST_TMPDIR/authorities"
  assert_fetched "$digest"
}
@test "TLS: a certificate for another name is E_TLS, whoever signed it" {
  fetch "$NGINX_WRONG" --ca "$CA"
  assert_refused E_TLS
  assert_regex "$stderr" "127.0.0.1"
}
@test "TLS to a server that speaks plain HTTP is E_TLS" {
  fetch "${NGINX_PLAIN/http:/https:}" --ca "$CA"
  assert_refused E_TLS
}

@test "mirrors in order: closed port, unknown name, no layout, other kernel, and then the one that has it" {
  make_layout "$BATS_TEST_TMPDIR/other" --kernel 6.1.0-98-cloud-amd64
  mkdir "$BATS_TEST_TMPDIR/empty"
  fetch "http://127.0.0.1:$(free_port),http://nowhere.invalid,oci:$BATS_TEST_TMPDIR/empty,oci:$BATS_TEST_TMPDIR/other,$NGINX_PLAIN"
  assert_fetched "$digest"
  assert_quick
}
@test "no mirror has it: one clause for each" {
  local port
  port=$(free_port)
  fetch "http://127.0.0.1:$port,$NGINX_PLAIN" --kernel 6.1.0-1-amd64
  assert_status 75
  assert_regex "$stderr" "127.0.0.1:$port"
  assert_regex "$stderr" "$NGINX_PLAIN"
}
@test "an address that nobody answers at costs no more than the deadline" {
  # A queue that is full answers no SYN. The kernel would go on asking for two minutes.
  python3 - >"$BATS_TEST_TMPDIR/port" 3>&- <<'PYTHON' &
import socket, time
server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen(0)
clients = []
while len(clients) < 8:
    client = socket.socket()
    client.settimeout(1)
    clients.append(client)
    if client.connect_ex(server.getsockname()) != 0:
        break
print(server.getsockname()[1], flush=True)
time.sleep(600)
PYTHON
  local hole=$! port
  soon test -s "$BATS_TEST_TMPDIR/port"
  port=$(<"$BATS_TEST_TMPDIR/port")
  fetch "http://127.0.0.1:$port" --connect-timeout 1
  kill "$hole"
  assert_status 75
  assert_error E_TIMEOUT "http://127.0.0.1:$port (tcp): "
  assert_quick
}
@test "offline: remote ones are refused and not connected to, local ones work" {
  : >"$SERVERS/nginx-plain.access"
  fetch "$NGINX_PLAIN" --offline
  assert_refused E_OFFLINE
  assert_equal "$(nginx_log plain)" ""
  fetch "oci:$layout" --offline
  assert_fetched "$digest"
}
