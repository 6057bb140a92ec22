# shellcheck shell=bash disable=SC2016 # nginx's variables
# SPDX-License-Identifier: Apache-2.0
# Real servers on loopback for one test file. Call the *_start functions in setup_file and servers_stop in teardown_file:
#
#   ca_make                       $CA; certificates `server` (127.0.0.1, localhost, 10.0.2.2 as guests see it, and $SERVERS_NAMES) and `wrong`
#                                 (another name)
#   registry_start KIND           plain, tls, token, basic, tls-basic or readonly: $HUB_PLAIN, ... = 127.0.0.1:PORT
#   nginx_start KIND DIR          plain, tls or wrong: $NGINX_PLAIN, ... = the URL of a static server
#   python_start DIR              $PYTHON = the URL of a static server that ignores Range
#   evil_start DIR                $EVIL, $EVIL_OTHER = HOST:PORT; see evil_server.py for what it does
#   proxy_start NAME [USER:PASS]  $PROXY_NAME = URL of a forward proxy
#
# log_of SERVER prints what it wrote; servers are named registry-KIND, nginx-KIND, python, evil, proxy-NAME, token.
# Each has a free port of loopback ($SERVERS_BIND: of more), is waited for, and ends by itself after 15 minutes ($SERVERS_LIVE seconds) if nobody ends it.
SERVERS=$BATS_FILE_TMPDIR/servers
CA=$SERVERS/ca.pem
USERNAME=site PASSWORD=s3cret-of-site # what the servers with authentication accept
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
unset "${!REGISTRY_@}" {http,https,all,no}_proxy {HTTP,HTTPS,ALL,NO}_PROXY DOCKER_CONFIG REGISTRY_AUTH_FILE SSL_CERT_FILE SSL_CERT_DIR
export HOME=$BATS_FILE_TMPDIR/home PYTHONDONTWRITEBYTECODE=1
mkdir -p "$SERVERS" "$HOME"

free_port() { # a port in TIME_WAIT: the kernel gives it to nobody, and a server may bind it with SO_REUSEADDR
  python3 - <<'PYTHON'
import socket
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(("127.0.0.1", 0))
server.listen(1)
client = socket.create_connection(server.getsockname())
taken, _ = server.accept()
print(server.getsockname()[1])
taken.close()
client.close()
PYTHON
}
log_of() { cat "$SERVERS/$1.log"; }
server_run() { # NAME PORT COMMAND...: in the background until servers_stop; returns when it listens
  local name=$1 port=$2 i
  shift 2
  timeout "${SERVERS_LIVE:-900}" "$@" >>"$SERVERS/$name.log" 2>&1 </dev/null 3>&- 4>&- &
  echo $! >"$SERVERS/$name.pid"
  for ((i = 0; i < 600; i++)); do
    kill -0 "$(<"$SERVERS/$name.pid")" 2>/dev/null || break
    ! (exec 9<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || return 0
    sleep 0.1
  done
  echo "the server '$name' does not listen on port $port:" >&2
  tail -20 "$SERVERS/$name.log" >&2
  return 1
}
server_stop() { # NAME
  local pid
  pid=$(<"$SERVERS/$1.pid")
  rm "$SERVERS/$1.pid"
  kill "$pid" 2>/dev/null || return 0
  wait "$pid" 2>/dev/null || timeout 10 tail --pid="$pid" -s 0.05 -f /dev/null || server_kill "$pid"
}
server_kill() { # PID: of the `timeout` that it runs under. An API server takes its time to end on a busy machine.
  pkill -KILL -P "$1" || true
  kill -KILL "$1" 2>/dev/null || true
}
servers_stop() {
  local file
  for file in "$SERVERS"/*.pid; do
    [ ! -e "$file" ] || server_stop "$(basename "$file" .pid)"
  done
}

key_pair() { # NAME SUBJECT OPENSSL-REQ-OPTION...: NAME.key and NAME.pem
  local name=$1 subject=$2
  shift 2
  openssl req -x509 -nodes -days 2 -subj "/CN=$subject" -keyout "$SERVERS/$name.key" -out "$SERVERS/$name.pem" "$@" \
    2>>"$SERVERS/openssl.log"
}
ca_make() {
  local leaf=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -CA "$CA" -CAkey "$SERVERS/ca.key"
    -addext basicConstraints=CA:FALSE)
  [ ! -e "$CA" ] || return 0
  key_pair ca "Private authority of the tests" -newkey ec -pkeyopt ec_paramgen_curve:P-256 -addext keyUsage=keyCertSign
  key_pair server localhost "${leaf[@]}" -addext "subjectAltName=IP:127.0.0.1,DNS:localhost,IP:10.0.2.2${SERVERS_NAMES:+,$SERVERS_NAMES}"
  key_pair wrong elsewhere.test "${leaf[@]}" -addext "subjectAltName=DNS:elsewhere.test"
}

registry_config() { # KIND PORT
  printf 'version: 0.1\nlog: {level: info}\nhttp:\n  addr: %s:%s\n' "${SERVERS_BIND:-127.0.0.1}" "$2"
  case $1 in tls*) printf '  tls: {certificate: %s, key: %s}\n' "$SERVERS/server.pem" "$SERVERS/server.key" ;; esac
  printf 'storage:\n  filesystem: {rootdirectory: %s}\n  delete: {enabled: true}\n' "$SERVERS/registry-$1"
  case $1 in
  readonly) printf '  maintenance: {readonly: {enabled: true}}\n' ;;
  *basic) printf 'auth:\n  htpasswd: {realm: tests, path: %s}\n' "$SERVERS/htpasswd" ;;
  token) printf 'auth:\n  token: {realm: "%s", service: tests, issuer: tests, rootcertbundle: %s}\n' \
    "http://$TOKEN/token" "$SERVERS/token.pem" ;;
  esac
}
token_start() { # [--anonymous-pull]
  local port
  port=$(free_port)
  key_pair token "Token issuer" -newkey rsa:2048
  export TOKEN=127.0.0.1:$port
  server_run token "$port" python3 "$here/token_server.py" --port "$port" --key "$SERVERS/token.key" \
    --certificate "$SERVERS/token.pem" --user "$USERNAME:$PASSWORD" "$@"
}
registry_start() { # KIND [OPTION-OF-THE-TOKEN-SERVER...]
  local kind=$1 port name=${1^^}
  shift
  [ "$kind" != token ] || token_start "$@"
  case $kind in tls*) ca_make ;; *basic) ;; esac
  case $kind in *basic) htpasswd -Bbn "$USERNAME" "$PASSWORD" >"$SERVERS/htpasswd" ;; esac
  port=$(free_port)
  registry_config "$kind" "$port" >"$SERVERS/registry-$kind.yml"
  declare -gx "HUB_${name//-/_}=127.0.0.1:$port"
  server_run "registry-$kind" "$port" docker-registry serve "$SERVERS/registry-$kind.yml"
}

nginx_start() { # KIND DIR
  local kind=$1 dir=$2 port tls='' scheme=http
  local home=$SERVERS/nginx-$kind
  port=$(free_port)
  mkdir -p "$home"
  if [ "$kind" != plain ]; then
    ca_make
    tls=ssl scheme=https
    local certificate=server
    [ "$kind" != wrong ] || certificate=wrong
  fi
  {
    [ "$(id -u)" -ne 0 ] || echo 'user root;' # the tests' folders are closed to others
    printf 'daemon off;\nworker_processes 1;\npid %s/pid;\nevents {}\nhttp {\n' "$home"
    printf '%s_temp_path %s;\n' client_body "$home" proxy "$home" fastcgi "$home" uwsgi "$home" scgi "$home"
    printf 'log_format seen "$request_method $uri $status $body_bytes_sent range=$http_range";\n'
    printf 'access_log %s.access seen;\nserver {\nlisten 127.0.0.1:%s %s;\nroot %s;\n' "$home" "$port" "$tls" "$dir"
    [ -z "$tls" ] || printf 'ssl_certificate %s.pem;\nssl_certificate_key %s.key;\n' "$SERVERS/$certificate"{,}
    printf 'location = /index.json { add_header Cache-Control no-cache; }\n}\n}\n'
  } >"$home.conf"
  declare -gx "NGINX_${kind^^}=$scheme://127.0.0.1:$port"
  server_run "nginx-$kind" "$port" "$(PATH=$PATH:/usr/sbin command -v nginx)" -e "$home.error" -c "$home.conf"
}
nginx_log() { cat "$SERVERS/nginx-$1.access"; } # KIND: METHOD URI STATUS BYTES range=VALUE
python_start() { # DIR
  local port
  port=$(free_port)
  export PYTHON=http://127.0.0.1:$port
  server_run python "$port" python3 -u -m http.server --bind 127.0.0.1 --directory "$1" "$port"
}
evil_start() { # DIR
  local port other
  port=$(free_port) other=$(free_port)
  export EVIL=127.0.0.1:$port EVIL_OTHER=127.0.0.1:$other
  server_run evil "$port" python3 -u "$here/evil_server.py" --port "$port" --other "$other" \
    --user "$USERNAME:$PASSWORD" "$1"
}
proxy_start() { # NAME [USER:PASSWORD]
  local port
  port=$(free_port)
  declare -gx "PROXY_${1^^}=http://127.0.0.1:$port"
  server_run "proxy-$1" "$port" python3 -u "$here/proxy.py" --port "$port" ${2:+--user "$2"}
}
auth_file() { # FILE HOST...: a docker config.json with the credentials for these hosts
  local file=$1 host auth
  shift
  auth=$(printf '%s:%s' "$USERNAME" "$PASSWORD" | base64 -w0)
  for host in "$@"; do jq -n --arg h "$host" --arg a "$auth" '{auths: {($h): {auth: $a}}}'; done |
    jq -s 'reduce .[] as $x ({}; . * $x)' >"$file"
}
