#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The servers themselves, seen by curl and skopeo: one that does not misbehave as it was told makes every test that
# builds on it worthless.
# shellcheck disable=SC2030,SC2031,SC2154 # bats runs each test in a subshell, sets status and output; servers.bash the addresses
load helper

setup_file() {
  layout=$BATS_FILE_TMPDIR/layout
  digest=$(make_layout "$layout" --pad 1000000)
  layer=$(layer_of "$layout" "$digest")
  export layout digest layer
  for kind in plain tls basic; do registry_start "$kind"; done
  registry_start token --anonymous-pull
  for kind in plain tls wrong; do nginx_start "$kind" "$layout"; done
  python_start "$layout"
  evil_start "$layout"
  proxy_start open
  proxy_start closed "$USERNAME:$PASSWORD"
}
teardown_file() { servers_stop; }

get() { : >body && run --separate-stderr timeout "$hung" curl -sS --max-time 30 -o body "$@"; }
code() { get -w '%{http_code}' "$@"; } # the HTTP status is the output
setup() { cd "$BATS_TEST_TMPDIR" || return; }
evil() { echo "http://$EVIL/$1/blobs/sha256/$layer"; }
policy() { # skopeo accepts what is not signed
  echo '{"default": [{"type": "insecureAcceptAnything"}]}' >policy.json
  skopeo --policy policy.json "$@"
}

@test "the layout is one that skopeo reads, and the same input gives the same bytes" {
  run -0 policy inspect --raw "oci:$layout:$TAG"
  assert_equal "$(digest_of <<<"$output")" "$(digest_of <<<"$(cat "$layout/blobs/sha256/${digest#*:}")")"
  run -0 policy copy -q --preserve-digests "oci:$layout:$TAG" oci:copy:x
  assert_equal "$(jq -r '.manifests[0].digest' copy/index.json)" "$digest"
  assert_equal "$(make_layout again --pad 1000000)" "$digest"
  assert_equal "$(make_layout other --pad 1000000 --kernel 6.1.0-99-amd64 --tag "$TAG")" \
    "$(jq -r --arg t "$TAG" '.manifests[] | select(.annotations[] == $t).digest' other/index.json)"
  zstd -dc "$layout/blobs/sha256/$layer" | tar -t >names
  assert_file_contains names "^opt/lib/modules/$KERNEL/nvidia.ko$"
}

@test "registries: plain and TLS take what skopeo pushes, with the digest unchanged" {
  run -0 policy copy -q --preserve-digests --dest-tls-verify=false "oci:$layout:$TAG" "docker://$HUB_PLAIN/a/b:$TAG"
  mkdir certificates
  cp "$CA" certificates/ca.crt
  run -0 policy copy -q --preserve-digests --dest-cert-dir certificates "oci:$layout:$TAG" "docker://$HUB_TLS/a/b:$TAG"
  local accept="Accept: application/vnd.oci.image.manifest.v1+json"
  get -H "$accept" "http://$HUB_PLAIN/v2/a/b/manifests/$TAG"
  assert_equal "$(digest_of <body)" "$digest"
  get --cacert "$CA" -H "$accept" "https://$HUB_TLS/v2/a/b/manifests/$TAG"
  assert_equal "$(digest_of <body)" "$digest"
  get "https://$HUB_TLS/v2/"
  assert_equal "$status" 60
}

@test "the registry with passwords refuses strangers and takes the user" {
  code "http://$HUB_BASIC/v2/"
  assert_output 401
  code -u "$USERNAME:wrong" "http://$HUB_BASIC/v2/"
  assert_output 401
  code -u "$USERNAME:$PASSWORD" "http://$HUB_BASIC/v2/"
  assert_output 200
  auth_file auth.json "$HUB_BASIC" "$HUB_TOKEN"
  run -0 policy copy -q --authfile auth.json --dest-tls-verify=false "oci:$layout:$TAG" "docker://$HUB_BASIC/a:$TAG"
}

@test "the registry with tokens: a user pushes, anybody pulls, a stranger gets no token" {
  auth_file auth.json "$HUB_TOKEN"
  run ! policy copy -q --dest-tls-verify=false "oci:$layout:$TAG" "docker://$HUB_TOKEN/a/b:$TAG"
  run -0 policy copy -q --authfile auth.json --dest-tls-verify=false "oci:$layout:$TAG" "docker://$HUB_TOKEN/a/b:$TAG"
  run -0 policy copy -q --src-tls-verify=false "docker://$HUB_TOKEN/a/b:$TAG" oci:pulled
  code -u "$USERNAME:wrong" "http://$TOKEN/token?service=tests&scope=repository:a/b:pull"
  assert_output 401
  run log_of token
  assert_line "token user tests repository:a/b:pull,push"
  assert_line "token anonymous tests repository:a/b:pull"
  refute_output --partial "$PASSWORD"
}

@test "nginx serves the layout, plain and with TLS, honours Range and logs it" {
  get "$NGINX_PLAIN/index.json"
  assert_equal "$(jq -r '.manifests[0].digest' body)" "$digest"
  get --cacert "$CA" "${NGINX_TLS/127.0.0.1/localhost}/index.json"
  assert_success
  get --cacert "$CA" "$NGINX_WRONG/index.json"
  assert_equal "$status" 60
  assert_regex "$stderr" "does not match|no alternative certificate"
  code -r 1000- "$NGINX_PLAIN/blobs/sha256/$layer"
  assert_output 206
  run nginx_log plain
  assert_line --regexp "GET /blobs/sha256/$layer 206 [0-9]+ range=bytes=1000-"
}

@test "python's server ignores Range" {
  code -r 1000- "$PYTHON/blobs/sha256/$layer"
  assert_output 200
  assert_equal "$(digest_of <body)" "sha256:$layer"
}

@test "evil: statuses, with what belongs to them" {
  local status_code
  for status_code in 401 403 404 429 500 503; do
    code -D head "http://$EVIL/$status_code/index.json"
    assert_output "$status_code"
    code "http://$EVIL/v2/$status_code/n/manifests/$TAG"
    assert_output "$status_code"
  done
  code -D head "http://$EVIL/429/index.json"
  assert_file_contains head "Retry-After: 1"
  for status_code in 500 500 200 200; do
    code "http://$EVIL/500x2.self/index.json"
    assert_output "$status_code"
  done
  code "http://$EVIL/500x2.else/index.json"
  assert_output 500
}

@test "evil: what is fine is fine, as static repository and as registry" {
  get "$(evil ok)"
  assert_equal "$(digest_of <body)" "sha256:$layer"
  run -0 policy copy -q --src-tls-verify=false "docker://$EVIL/ok/n:$TAG" oci:copy
  code -I "http://$EVIL/v2/ok/n/blobs/sha256:$layer"
  assert_output 200
  code "http://$EVIL/v2/ok/n/manifests/none"
  assert_output 404
}

@test "evil: damaged documents and layers" {
  local mode size
  size=$(stat -c %s "$layout/blobs/sha256/$layer")
  for mode in "flip 0" "short -1000" "long 5000"; do
    get "$(evil "${mode% *}")"
    assert_success
    refute [ "$(digest_of <body)" = "sha256:$layer" ]
    assert_equal "${mode% *} $(stat -c %s body)" "${mode% *} $((size + ${mode#* }))"
  done
  get "http://$EVIL/flip/blobs/sha256/${digest#*:}"
  assert_equal "$(digest_of <body)" "$digest"
  get "http://$EVIL/v2/flip-manifest/n/manifests/$digest"
  refute [ "$(digest_of <body)" = "$digest" ]
  get "http://$EVIL/html/index.json"
  assert_file_contains body "DOCTYPE html"
  get "http://$EVIL/v2/html/n/manifests/$TAG"
  assert_file_contains body "DOCTYPE html"
}

@test "evil: too much" {
  get --max-time 20 "http://$EVIL/huge/index.json"
  assert_success
  assert_equal "$(stat -c %s body)" $((100 << 20))
  get --max-time 1 "http://$EVIL/v2/endless/n/manifests/$TAG"
  assert_equal "$status" 28
  assert [ "$(stat -c %s body)" -gt $((10 << 20)) ]
  get --max-time 1 "$(evil endless-layer)"
  assert_equal "$status" 28
  get "http://$EVIL/bighead/index.json"
  assert_equal "$status" 56 # more than curl takes
}

@test "evil: cuts, and what comes after them" {
  local size half
  size=$(stat -c %s "$layout/blobs/sha256/$layer") half=$((size / 2))
  get "$(evil cut)"
  assert_equal "$status $(stat -c %s body)" "18 $((256 << 10))"
  get "$(evil cut0)"
  assert_equal "$status $(stat -c %s body)" "18 0"
  for mode in cut1 norange r416 badrange; do
    get "$(evil $mode.self)"
    assert_equal "$status $(stat -c %s body)" "18 $half"
    code -D head -r "$half-" "$(evil $mode.self)"
    case $mode in
    cut1) assert_output 206 && assert_equal "$(stat -c %s body)" $((size - half)) ;;
    norange) assert_output 200 && assert_equal "$(stat -c %s body)" "$size" ;;
    r416) assert_output 416 ;;
    badrange) assert_output 206 && assert_file_contains head "Content-Range: bytes 0-$((size - 1))/$size" ;;
    esac
    get "$(evil $mode.self)"
    assert_equal "$(digest_of <body)" "sha256:$layer"
  done
  run log_of evil
  assert_line "${EVIL#*:} GET /cut1.self/blobs/sha256/$layer 206 range=bytes=$half- auth=none"
}

@test "evil: silence and slowness" {
  get --max-time 1 "http://$EVIL/mute/index.json"
  assert_equal "$status" 28
  get --max-time 1 -D head "http://$EVIL/stall/index.json"
  assert_equal "$status" 28
  assert_file_contains head "200 OK"
  get --max-time 1 "$(evil stall-body)"
  assert_equal "$status" 28
  assert_equal "$(stat -c %s body)" $(($(stat -c %s "$layout/blobs/sha256/$layer") / 2))
  get --max-time 1 "$(evil stall1.self)"
  assert_equal "$status" 28
  get --max-time 1 "$(evil stall1.self)"
  assert_success
  get --max-time 1 "$(evil drip)"
  assert_equal "$status" 28
  assert [ "$(stat -c %s body)" -gt 300000 ]
}

@test "evil: redirects, and whether credentials arrive there" {
  code "$(evil redirect)"
  assert_output 307
  code "$(evil auth-redirect)"
  assert_output 401
  get -L --location-trusted -u "$USERNAME:$PASSWORD" "$(evil auth-redirect)"
  assert_equal "$(digest_of <body)" "sha256:$layer"
  run log_of evil
  assert_line "${EVIL_OTHER#*:} GET /auth-redirect/blobs/sha256/$layer 200 range=- auth=basic"
  get -L "http://$EVIL/loop/index.json"
  assert_equal "$status" 47
  get -L "http://$EVIL/file/index.json"
  assert_equal "$status" 1
}

@test "proxies forward, tunnel, log, and ask for credentials" {
  get -x "$PROXY_OPEN" "$NGINX_PLAIN/index.json"
  assert_success
  assert_equal "$(jq -r '.manifests[0].digest' body)" "$digest"
  get -x "$PROXY_OPEN" --cacert "$CA" "$NGINX_TLS/blobs/sha256/$layer"
  assert_equal "$(digest_of <body)" "sha256:$layer"
  run log_of proxy-open
  assert_output "GET $NGINX_PLAIN/index.json 200
CONNECT ${NGINX_TLS#https://} 200"
  code -x "$PROXY_CLOSED" "$NGINX_PLAIN/index.json"
  assert_output 407
  get -x "$PROXY_CLOSED" --cacert "$CA" "$NGINX_TLS/index.json"
  assert_equal "$status" 56
  get -x "${PROXY_CLOSED/\/\//\/\/$USERNAME:$PASSWORD@}" "$NGINX_PLAIN/index.json"
  assert_success
}
