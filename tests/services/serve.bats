#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Metrics and health over HTTP, asked with curl: by `serve`, and by the child that `init` and `watch` start.
# shellcheck disable=SC2030,SC2031,SC2154 # bats runs each test in a subshell; bats and helper.bash set output, stderr, status and top
load helper
load prometheus

setup_file() { prometheus_fetch; }
setup() { log=$BATS_TEST_TMPDIR/log; }
teardown() { for pid in ${started-}; do kill -KILL "$pid" && wait "$pid"; done 2>/dev/null || true; }

start() { # COMMAND [OPTION...]: in the background, until it serves; sets pid and url
  : >"$log"
  "$KMODSMITH" "$@" >>"$log" 2>&1 3>&- &
  pid=$! started="${started-} $!"
  served 1
}
served() { # N: the Nth line that says where; sets url
  nth=$1
  said_or_gone() { url=$(sed -n 's|.*serving \(http[^ ]*\)/metrics.*|\1|p' "$log" | sed -n "${nth}p"); [ -n "$url" ] || ! kill -0 "$pid"; }
  soon said_or_gone
  [ -n "$url" ] || fail "$(<"$log")"
  url=${url/\*/localhost}
}
get() { run curl -sS --noproxy '*' --max-time 60 -w '%{http_code}' "$@"; } # the page, and its status without a line of its own
server_of() { pgrep -P "$1" -f 'kmodsmith serve'; }
gone() { ! kill -0 "$1" 2>/dev/null; }

@test "init serves what it wrote; a server that is killed comes again, and ends with its init" {
  loadable
  start init --root "$ROOT" --package "$BATS_TEST_TMPDIR/package" --modules nvidia --no-daemons --listen 0
  ready() { [ "$(curl -sS --noproxy '*' -o /dev/null -w '%{http_code}' "$url/readyz")" = 200 ]; }
  soon ready
  get "$url/readyz"
  assert_output --regexp '^yes, driver [0-9.]+
200$'
  get "$url/metrics"
  assert_line 'kmodsmith_ready 1'
  assert_equal "$(curl -sS --noproxy '*' "$url/metrics")" "$(cat "$ROOT"/run/kmodsmith/metrics/*.prom)"
  get "$url/healthz"
  assert_output --regexp '^yes, process [0-9]+ .*200$'
  local server
  server=$(server_of "$pid")
  kill -KILL "$server"
  served 2
  get "$url/healthz"
  assert_output --partial 200
  grep -q 'the server of metrics was ended by signal 9; started again in' "$log"
  server=$(server_of "$pid")
  kill -KILL "$pid"
  soon gone "$server"
}

@test "a signal ends init and its server together; without --listen there is none" {
  loadable
  start init --root "$ROOT" --package "$BATS_TEST_TMPDIR/package" --modules nvidia --no-daemons --listen 127.0.0.1:0
  server=$(server_of "$pid")
  said() { grep -q 'ready: driver' "$log"; }
  soon said
  kill "$pid"
  wait "$pid"
  gone "$server"
  : >"$log"
  "$KMODSMITH" init --root "$ROOT" --package "$BATS_TEST_TMPDIR/package" --modules nvidia --no-daemons >>"$log" 2>&1 3>&- &
  pid=$! started="$started $!"
  soon said
  run server_of "$pid"
  assert_output ""
  kill "$pid"
}

@test "watch serves, too; an address that is none is refused before anything is started" {
  ROOT=$BATS_TEST_TMPDIR/host
  cp -a "$top/tests/hosts/h100x8" "$ROOT"
  start watch --root "$ROOT" --driver 535.261.03 --from "oci:$BATS_TEST_TMPDIR" --listen 0
  get "$url/healthz"
  assert_output --partial 200
  kill "$pid"
  for command in "watch --root $ROOT --listen example:80" "init --root $ROOT --listen :80:80" "serve --listen x" \
    "init --root $ROOT --tls-key k.pem" "watch --root $ROOT --listen 0 --tls-cert c.pem" "coordinator --listen 0"; do
    # shellcheck disable=SC2086 # words
    run --separate-stderr "$KMODSMITH" $command
    assert_status 2
    assert_regex "$stderr" 'E_USAGE: .*(--listen|--tls-cert)'
  done
}

@test "it says no where the answer is no, and why; and nothing where metrics cannot be read" {
  ROOT=$BATS_TEST_TMPDIR/host
  cp -a "$top/tests/hosts/h100x8" "$ROOT"
  start serve --root "$ROOT" --listen 0
  get "$url/readyz"
  assert_output --regexp '^no, the last run reported nothing in this boot
503$'
  get "$url/healthz"
  assert_output --partial 200
  get "$url/metrics"
  assert_output 200
  mkdir -p "$ROOT/run/kmodsmith/metrics/b.prom"
  echo 'a 1' >"$ROOT/run/kmodsmith/metrics/a.prom"
  get "$url/metrics"
  assert_output --regexp '^E_.*b.prom.*500$'
  refute_line 'a 1'
  rmdir "$ROOT/run/kmodsmith/metrics/b.prom"
  echo 'half' >"$ROOT/run/kmodsmith/metrics/.node.prom.tmp"
  get "$url/metrics"
  assert_output $'a 1\n200'
  get "$url/metrics/../../../etc/passwd" --path-as-is
  assert_output --partial 404
  jq -n --arg boot "$(<"$ROOT/proc/sys/kernel/random/boot_id")" \
    '{boot_id: $boot, pid: 4711, step: "compile", done: 3, total: 9, uptime_ms: -3600000}' >"$ROOT/run/kmodsmith/pulse.json"
  mkdir -p "$ROOT/proc/4711"
  echo "4711 (a) S 1 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 7 0 0" >"$ROOT/proc/4711/stat"
  get "$url/healthz"
  assert_output --regexp '^no, compile has made no progress for [0-9]+ s: 3 of 9
503$'
}

@test "64 clients of the same address that send a byte now and then keep nobody from an answer" {
  cp -a "$top/tests/hosts/h100x8" "$BATS_TEST_TMPDIR/host"
  start serve --root "$BATS_TEST_TMPDIR/host" --listen 0
  python3 - "${url##*:}" >"$BATS_TEST_TMPDIR/slow" 3>&- <<'PYTHON' &
import socket, sys, time
slow = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(64)]
print("connected", flush=True)
while True:
    for client in slow:
        try:
            client.send(b"G")
        except OSError:
            pass
    time.sleep(1)
PYTHON
  started="$started $!"
  soon grep -q connected "$BATS_TEST_TMPDIR/slow"
  get "$url/healthz"
  assert_output --partial 200
  get "$url/metrics"
  assert_output 200
}

@test "HTTPS with the site's certificate; one that does not belong to its key is refused" {
  local dir=$BATS_TEST_TMPDIR
  for name in a b; do
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$dir/$name.key" -out "$dir/$name.pem" -days 2 \
      -subj /CN=localhost -addext subjectAltName=DNS:localhost 2>/dev/null
  done
  cp -a "$top/tests/hosts/h100x8" "$dir/host"
  start serve --root "$dir/host" --listen :0 --tls-cert "$dir/a.pem" --tls-key "$dir/a.key"
  assert_regex "$url" ^https
  get --cacert "$dir/a.pem" "$url/healthz"
  assert_output --partial 200
  get --cacert "$dir/b.pem" "$url/healthz"
  assert_failure
  get "${url/https/http}/healthz"
  assert_failure
  run --separate-stderr "$KMODSMITH" serve --root "$dir/host" --listen 0 --tls-cert "$dir/a.pem" --tls-key "$dir/b.key"
  assert_status 2
  assert_regex "$stderr" "belong together"
  run --separate-stderr "$KMODSMITH" serve --root "$dir/host" --listen 0 --tls-cert "$dir/none.pem" --tls-key "$dir/b.key"
  assert_failure
  assert_regex "$stderr" "--tls-cert: there is no .*none.pem"
}

pair() { # NAME: certificate and key, in a directory of that name, as a Secret's volume has them
  mkdir "$secret/..$1"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$secret/..$1/tls.key" -out "$secret/..$1/tls.crt" -days 2 \
    -subj "/CN=$1" -addext subjectAltName=DNS:localhost 2>/dev/null
}
swap() { ln -s "..$1" "$secret/..new" && mv -T "$secret/..new" "$secret/..data"; }
of_subject() { grep -qE "^subject=CN ?= ?$1$"; } # NAME: openssl of Debian 13 writes no blanks
serves() { openssl s_client -connect "${url#https://}" </dev/null 2>/dev/null | of_subject "$1"; }
serves_meanwhile() { printf 'A: a\r\n' >&"$ask" && serves "$1"; } # to a client whose request takes long, and is not idle
says() { [ "$(grep -c "$2" "$log")" -eq "$1" ]; } # COUNT TEXT

@test "a renewed certificate is served without a restart or a refused client; a broken one is not, and is looked at again" {
  secret=$BATS_TEST_TMPDIR/secret
  mkdir "$secret"
  for name in one two three; do pair "$name"; done
  mkdir "$secret/..half" "$secret/..mixed"
  cp "$secret/..two/tls.key" "$secret/..half"
  head -c 100 "$secret/..two/tls.crt" >"$secret/..half/tls.crt"
  cp "$secret/..one/tls.crt" "$secret/..two/tls.key" "$secret/..mixed"
  ln -s ..data/tls.crt ..data/tls.key "$secret"
  swap one
  cp -a "$top/tests/hosts/h100x8" "$BATS_TEST_TMPDIR/host"
  start serve --root "$BATS_TEST_TMPDIR/host" --listen 0 --tls-cert "$secret/tls.crt" --tls-key "$secret/tls.key"
  serves one
  while curl -sSk --noproxy '*' --max-time 60 -o /dev/null "$url/healthz"; do sleep 0.02; done >"$BATS_TEST_TMPDIR/asked" 2>&1 3>&- &
  local asks=$!
  started="$started $asks"
  # Through files: a coproc's pipes go with it, also unread, and this one ends with its answer.
  mkfifo "$BATS_TEST_TMPDIR/ask"
  openssl s_client -connect "${url#https://}" <"$BATS_TEST_TMPDIR/ask" >"$BATS_TEST_TMPDIR/answer" 2>&1 3>&- &
  started="$started $!"
  exec {ask}>"$BATS_TEST_TMPDIR/ask"
  greeted() { of_subject one <"$BATS_TEST_TMPDIR/answer"; }
  soon greeted
  swap two
  printf 'GET /healthz HTTP/1.1\r\nHost: a\r\n' >&"$ask"
  soon serves_meanwhile two
  # Whoever was connected before is answered.
  printf '\r\n' >&"$ask"
  soon grep -q '^HTTP/1.1 200 ' "$BATS_TEST_TMPDIR/answer"
  exec {ask}>&-
  soon says 1 'serving the renewed certificate'
  swap half
  soon says 1 'warn: the renewed certificate is not used, and the one before stays: E_USAGE: .*belong together'
  swap mixed
  sleep 6 # one more look
  serves two
  says 1 'the renewed certificate is not used'
  rm "$secret/..data"
  soon says 1 'warn: a renewed certificate would not be seen, and the one before stays: E_NOT_FOUND: --tls-cert: there is no '
  serves two
  swap three
  soon serves three
  kill -0 "$asks" || fail "$(cat "$BATS_TEST_TMPDIR/asked")"
  soon says 2 'serving the renewed certificate'
  says 1 'serving https'
  run ls "/proc/$pid/fd"
  assert [ "${#lines[@]}" -lt 24 ]
}

@test "where root alone may read the key, it is said at once that a renewed one would not be seen" {
  [ "$(id -u)" -eq 0 ] || skip "only root has rights to give up"
  secret=$BATS_TEST_TMPDIR
  pair one
  start serve --listen 0 --tls-cert "$secret/..one/tls.crt" --tls-key "$secret/..one/tls.key"
  soon says 1 'warn: a renewed certificate would not be seen, and the one before stays: E_RIGHTS: '
  serves one
  sleep 6 # one more look
  says 1 warn:
}

@test "it is nobody, without any capability, and gains none" {
  [ "$(id -u)" -eq 0 ] || skip "only root has rights to give up"
  start serve --listen 0
  run awk '/^(Uid|Gid|Groups|Cap(Prm|Eff|Amb)|NoNewPrivs):/ { $1 = $1; print }' "/proc/$pid/status"
  assert_output "Uid: 65534 65534 65534 65534
Gid: 65534 65534 65534 65534
Groups:
CapPrm: 0000000000000000
CapEff: 0000000000000000
CapAmb: 0000000000000000
NoNewPrivs: 1"
  get "$url/healthz"
  assert_output --partial 200
}

@test "Prometheus itself scrapes it, by its own name for the node" {
  prometheus_needed
  local dir=$BATS_TEST_TMPDIR query
  ROOT=$dir/host
  cp -a "$top/tests/hosts/h100x8" "$ROOT"
  "$KMODSMITH" install 535.261.03 --root "$ROOT" >/dev/null
  start serve --root "$ROOT" --listen 0
  cat >"$dir/prometheus.yml" <<END
scrape_configs:
  - job_name: nodes
    scrape_interval: 1s
    static_configs: [{targets: ["${url#http://}"]}]
    relabel_configs: [{target_label: instance, replacement: gpu-1}]
END
  "$PROMETHEUS" --config.file="$dir/prometheus.yml" --storage.tsdb.path="$dir/tsdb" --web.listen-address=127.0.0.1:0 >"$dir/prometheus.log" 2>&1 3>&- &
  started="$started $!"
  listening() { query=$(sed -n 's/.*[Ll]isten.*address=\(127[0-9.:]*\).*/\1/p' "$dir/prometheus.log" | grep -v ':0$' | head -n 1) && [ -n "$query" ]; }
  log=$dir/prometheus.log soon listening
  scraped() { curl -sS --noproxy '*' "http://$query/api/v1/query?query=kmodsmith_ready" | jq -e '.data.result | length == 1'; }
  log=$dir/prometheus.log soon scraped
  run curl -sS --noproxy '*' "http://$query/api/v1/query?query=kmodsmith_driver_info"
  assert_output --partial '"instance":"gpu-1"'
  assert_output --partial '"driver":"535.261.03"'
}
