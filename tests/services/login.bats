#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The login of a coordinator's page: who has no token neither keeps out those who have one nor slows metrics and health.
# shellcheck disable=SC2030,SC2031,SC2154 # bats runs each test in a subshell; bats and helper.bash set output and status
load helper

setup() {
  dir=$BATS_TEST_TMPDIR log=$BATS_TEST_TMPDIR/log port=$(free_port)
  mkdir "$dir/api" "$dir/pulse"
  : >"$dir/api/reviews"
  echo '{"pools": [], "nodes": []}' >"$dir/pulse/rollout.json"
  echo 'kmodsmith_leader 1' >"$dir/pulse/coordinator.prom"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$dir/key.pem" -out "$dir/crt.pem" -days 2 -subj /CN=api \
    -addext subjectAltName=IP:127.0.0.1 2>/dev/null
  printf '%s\n' 'apiVersion: v1' 'kind: Config' 'current-context: t' "clusters: [{name: h, cluster: {server: 'https://127.0.0.1:$port', certificate-authority: crt.pem}}]" \
    'contexts: [{name: t, context: {cluster: h, user: u}}]' 'users: [{name: u, user: {token: x}}]' >"$dir/config"
  python3 "$BATS_TEST_DIRNAME/kube_standin.py" "$port" "$dir/crt.pem" "$dir/key.pem" "$dir/api" >"$dir/api.log" 2>&1 3>&- &
  started=$!
  "$KMODSMITH" serve --listen 0 --pulse-dir "$dir/pulse" --page --page-login --kubeconfig "$dir/config" >"$log" 2>&1 3>&- &
  started="$started $!"
  soon grep -q serving "$log"
  url=$(sed -n 's|.*serving \(http[^ ]*\)/metrics.*|\1|p' "$log")
}
teardown() { for pid in $started; do kill -KILL "$pid" && wait "$pid"; done 2>/dev/null || true; }

get() { # PATH [TOKEN [ADDRESS]]: sets output to its status
  run curl -sS --noproxy '*' --max-time 60 -o /dev/null -w '%{http_code}' ${2:+-H "Authorization: Bearer $2"} --interface "${3-127.0.0.1}" "$url/$1"
}
admitted() { get rollout.json "$1" && [ "$output" = 200 ]; }
flood() { # guesses, one after the other, from this machine's usual address
  local i=0
  while :; do curl -sS --noproxy '*' -o /dev/null -H "Authorization: Bearer guess-$((i++))" "$url/rollout.json"; done
}
reviewed() { [ "$(grep -c "^$1" "$dir/api/reviews")" -ge "$2" ]; } # PREFIX COUNT

@test "whoever guesses tokens does not push out who was let in, nor keep out who comes from elsewhere" {
  soon admitted good-early
  local i
  for i in 1 2 3; do
    flood >/dev/null 2>&1 3>&- &
    started="$started $!"
  done
  for i in {1..10}; do
    get rollout.json "good-$i" "127.0.0.$((i + 1))"
    assert_output 200
  done
  soon reviewed guess- 40 # more than there are places
  for i in {1..10}; do
    get rollout.json good-early
    assert_output 200
  done
  assert_equal "$(grep -c '^good-early' "$dir/api/reviews")" 1
}

pending() { curl -sS --noproxy '*' --max-time 60 -o "$dir/pending-$1" -w '%{http_code}' -H "Authorization: Bearer $1" --interface "$2" "$url/rollout.json" >"$dir/status-$1"; }
health_meanwhile() { # while somebody waits for an API server that accepts and says nothing
  local token=waits-$((tries++)) path
  pending "$token" 127.0.0.3 3>&- &
  soon reviewed "$token" 1
  for path in healthz metrics readyz page.js; do
    get "$path"
    [ "$output" = 200 ] || return 1
  done
  get rollout.json good-early
  [ "$output" = 200 ] && [ ! -s "$dir/status-$token" ]
}

@test "an API server that accepts and says nothing keeps nobody waiting but those it is asked about" {
  tries=0
  soon admitted good-early
  touch "$dir/api/silent"
  soon health_meanwhile
  wait_over() { [ -s "$dir/status-waits-0" ]; }
  soon wait_over
  assert_equal "$(<"$dir/status-waits-0")" 503
  rm "$dir/api/silent"
  soon admitted good-late
}
