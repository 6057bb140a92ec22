#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# --source URL: a driver source from a server, of one digest, downloaded once and kept (installer/acquire/source_url.h).
# The source is made up and not compiled; servers are nginx and one that misbehaves.
# shellcheck disable=SC2030,SC2031,SC2154 # bats runs each test in a subshell, sets status, output and stderr
load helper

# The misbehaving server knows what to damage by an OCI manifest: the source is its layer.
setup_file() {
  site=$BATS_FILE_TMPDIR/site blobs=$BATS_FILE_TMPDIR/site/blobs/sha256 work=$BATS_FILE_TMPDIR
  local config manifest
  mkdir -p "$blobs"
  tiny_source "$work/driver"
  head -c 3000000 /dev/urandom >"$work/driver/kernel-open/nvidia/nv-kernel.o_binary"
  tar -czf "$work/source" -C "$work" driver
  sha=$(sha256sum <"$work/source" | cut -d' ' -f1) size=$(stat -c %s "$work/source")
  mv "$work/source" "$blobs/$sha"
  config=$(printf '{}' | sha256sum | cut -d' ' -f1) && printf '{}' >"$blobs/$config"
  jq -n --arg s "sha256:$sha" --arg c "sha256:$config" '{config: {digest: $c}, layers: [{digest: $s}]}' >"$work/manifest"
  manifest=$(sha256sum <"$work/manifest" | cut -d' ' -f1) && mv "$work/manifest" "$blobs/$manifest"
  jq -n --arg m "sha256:$manifest" '{manifests: [{digest: $m}]}' >"$site/index.json"
  tiny_headers "$work/headers.tar" "$KERNEL"
  built_with "$(gcc -dumpversion | cut -d. -f1)" "$work/headers.tar" "$KERNEL"
  export site blobs work sha size
  evil_start "$site"
  nginx_start plain "$site"
  nginx_start tls "$site"
  proxy_start open
}
teardown_file() { servers_stop; }
setup() { fresh; }

check() { # URL OPTION...: 20 = the source was read, and could be compiled
  kmodsmith check --source "$1" --kernel "$KERNEL" --headers "$work/headers.tar" --state-dir "$state" --flavour open \
    --connect-timeout 10 --stall-timeout 3 --json "${@:2}"
}
from() { check "$1/blobs/sha256/$sha" --source-sha256 "$sha" "${@:2}"; } # SERVER OPTION...
kept() { find "$state/sources" -type f -printf '%f %s\n' 2>/dev/null; }

@test "R-B10: downloaded once: the next run, and one that is offline, ask nobody" {
  from "$NGINX_PLAIN"
  assert_status 20
  assert_equal "$(kept)" "$sha $size"
  local asked
  asked=$(nginx_log plain | grep -c "$sha")
  from "$NGINX_PLAIN"
  assert_status 20
  from "$NGINX_PLAIN" --offline
  assert_status 20
  assert_equal "$(nginx_log plain | grep -c "$sha")" "$asked"
  printf x >>"$state/sources/$sha" # damaged on the disk
  from "$NGINX_PLAIN" --offline
  assert_error E_OFFLINE "is not kept in '$state/sources'"
  from "$NGINX_PLAIN"
  assert_status 20
}

@test "a download that takes a while says how much, how fast and how long still; on a terminal in one line" {
  local url log=$BATS_TEST_TMPDIR/log
  python3 - >"$log" <<'END' 3>&- &
import http.server, time
class Slow(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(32 << 20))
        self.end_headers()
        for _ in range(8):
            self.wfile.write(bytes(4 << 20))
            time.sleep(0.4)
    def log_message(self, *words): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
print("http://127.0.0.1:%d/x.tar" % server.server_port, flush=True)
server.serve_forever()
END
  local server=$!
  soon test -s "$log"
  url=$(<"$log")
  check "$url" --source-sha256 "$sha"
  assert_regex "$stderr" 'fetched [0-9]+% \([0-9]+ of 32 MiB, [0-9.]+ MiB/s, [0-9]+ s left\)'
  [ "$(grep -c fetched <<<"$stderr")" -le 4 ]
  fresh
  run script -qec "'$KMODSMITH' check --source $url --source-sha256 $sha --kernel $KERNEL --headers $work/headers.tar --state-dir $state" /dev/null
  kill "$server"
  assert_regex "$output" $'\r''fetched +[0-9]+% \([0-9]+ of 32 MiB, [0-9.]+ MiB/s'
  [ "$(grep -c fetched <<<"$output")" -eq 1 ]
}

@test "build, matrix and file:// take it as well; plan and install only when they need it" {
  kmodsmith build --source "$NGINX_PLAIN/blobs/sha256/$sha" --source-sha256 "$sha" --kernel "$KERNEL" --flavour open \
    --headers "$work/headers.tar" --state-dir "$state" --output "oci:$BATS_TEST_TMPDIR/out"
  assert_error E_TOOLCHAIN "cannot compile an empty module" # the tree is made up: the source was opened
  assert_equal "$(kept)" "$sha $size"
  fresh
  jq -n --arg u "$NGINX_PLAIN/blobs/sha256/$sha" --arg s "$sha" --arg k "$KERNEL" --arg h "$work/headers.tar" \
    '{drivers: [{source: $u, sha256: $s}], kernels: [{release: $k, headers: [$h]}]}' >"$BATS_TEST_TMPDIR/matrix.json"
  kmodsmith build --matrix "$BATS_TEST_TMPDIR/matrix.json" --state-dir "$state" --output "oci:$BATS_TEST_TMPDIR/out" --json
  assert_json '.pairs[0] | [.driver, .error.code] | join(" ")' "535.261.03 E_TOOLCHAIN"
  assert_equal "$(kept)" "$sha $size"
  fresh
  check "file://$blobs/$sha" --source-sha256 "$sha"
  assert_status 20
  assert_equal "$(kept)" ""
  check "file://$blobs/$sha" --source-sha256 "$(printf '0%.0s' {1..64})"
  assert_error E_DIGEST "has SHA-256 $sha"
  host h100x2-unloaded
  kmodsmith plan --root "$ROOT" --source "$NGINX_PLAIN/blobs/sha256/$sha" --source-sha256 "$sha" --state-dir "$state" --json
  assert_json .driver 535.261.03
  assert_equal "$(kept)" "$sha $size"
}

@test "no digest, another digest, credentials in the URL, a half path: refused, and nothing is kept" {
  check "$NGINX_PLAIN/blobs/sha256/$sha"
  assert_error E_USAGE "is a URL without a digest: add the SHA-256 that its publisher states, or that of a copy you trust, from \`curl -fsSL "
  check "http://me:secret@127.0.0.1/a" --source-sha256 "$sha"
  assert_error E_USAGE "has credentials in it"
  refute_regex "$stderr" secret
  check "file://a/b" --source-sha256 "$sha"
  assert_error E_USAGE "expected file:///PATH"
  check "$NGINX_PLAIN/blobs/sha256/$sha" --source-sha256 "$(printf '0%.0s' {1..64})"
  assert_error E_DIGEST "has SHA-256 $sha, expected 0000"
  assert_equal "$(kept)" ""
  jq -n --arg u "$NGINX_PLAIN/a" --arg k "$KERNEL" '{drivers: [{source: $u}], kernels: [{release: $k}]}' >"$BATS_TEST_TMPDIR/m.json"
  kmodsmith build --matrix "$BATS_TEST_TMPDIR/m.json" --state-dir "$state" --output "oci:$BATS_TEST_TMPDIR/out"
  assert_error E_CONFIG "drivers[0].source"
}

@test "servers that fail or lie: each with its code, and nothing is kept" {
  local mode code
  while read -r mode code; do
    fresh
    from "http://$EVIL/$mode"
    assert_error "$code"
    assert_equal "$(kept | grep -v '\.part' || true)" ""
  done <<'EOF'
404 E_NOT_FOUND
401 E_AUTH
503 E_SERVER
html E_DIGEST
flip E_DIGEST
short E_DIGEST
long E_DIGEST
cut0 E_NETWORK
mute E_TIMEOUT
file E_NETWORK
EOF
}

@test "cuts that pass are resumed, also where the rest is refused or sent from the beginning" {
  local mode
  for mode in cut cut1.a norange.a r416.a badrange.a stall1.a 500x2.a redirect; do
    fresh
    from "http://$EVIL/$mode"
    assert_status 20
    assert_equal "$(kept)" "$sha $size"
  done
  run -0 log_of evil
  assert_line --regexp "/cut1.a/blobs/sha256/$sha 206 range=bytes=[1-9][0-9]*-"
}

@test "killed in the middle: the next run asks another server for the rest; what is damaged is asked for again" {
  local pid have
  part() { stat -c %s "$state/sources/.$sha.part" 2>/dev/null || echo 0; }
  has_come() { [ "$(part)" -ge 500000 ]; }
  "$KMODSMITH" check --source "http://$EVIL/drip/blobs/sha256/$sha" --source-sha256 "$sha" --kernel "$KERNEL" \
    --headers "$work/headers.tar" --state-dir "$state" >/dev/null 2>&1 3>&- &
  pid=$!
  soon has_come
  kill -KILL "$pid" && { wait "$pid" || true; }
  have=$(part)
  cp -a "$state" "$state.damaged"
  from "$NGINX_PLAIN"
  assert_status 20
  run -0 nginx_log plain
  assert_line --regexp "GET /blobs/sha256/$sha 206 [0-9]+ range=bytes=$have-"
  rm -r "$state" && mv "$state.damaged" "$state"
  printf '\377\377\377\377' | dd of="$state/sources/.$sha.part" bs=1 seek=1000 conv=notrunc status=none
  from "$NGINX_PLAIN"
  assert_status 20
  assert_equal "$(kept)" "$sha $size"
}

@test "private authority and proxy, as for packages" {
  from "$NGINX_TLS"
  assert_error E_TLS
  from "$NGINX_TLS" --ca "$CA"
  assert_status 20
  fresh
  from "$NGINX_PLAIN" --proxy "$PROXY_OPEN"
  assert_status 20
  run -0 log_of proxy-open
  assert_output --partial "$sha"
}
