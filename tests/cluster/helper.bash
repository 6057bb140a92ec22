# shellcheck shell=bash disable=SC2034,SC2154 # the tests use what is set here; ../cli/helper.bash sets top
# SPDX-License-Identifier: Apache-2.0
# What every file of this tier loads: a real kube-apiserver with its etcd and own certificates, for one test file.
#
#   setup_file() { kube_start; }
#   $KUBECONFIG is an administrator; kube METHOD PATH [JSON] asks as one, and prints the answer
load ../cli/helper
load ../cli/package
load ../services/servers
CLIENT=$(dirname "$KMODSMITH")/cluster/client

kube_start() { # skips the file where there is no API server to start
  [ -z "${KUBE_SKIP-}" ] || skip "$KUBE_SKIP"
  local dir=$SERVERS/kube etcd peer port
  mkdir -p "$dir"
  ca_make
  key_pair admin admin -newkey ec -pkeyopt ec_paramgen_curve:P-256 -CA "$CA" -CAkey "$SERVERS/ca.key" \
    -subj /O=system:masters/CN=admin -addext basicConstraints=CA:FALSE -addext extendedKeyUsage=clientAuth
  openssl genrsa -out "$dir/accounts.key" 2048 2>>"$SERVERS/openssl.log"
  etcd=$(free_port) peer=$(free_port) port=$(free_port)
  server_run etcd "$etcd" etcd --data-dir "$dir/etcd" --listen-client-urls "http://127.0.0.1:$etcd" --unsafe-no-fsync \
    --advertise-client-urls "http://127.0.0.1:$etcd" --listen-peer-urls "http://127.0.0.1:$peer" \
    --initial-advertise-peer-urls "http://127.0.0.1:$peer" --initial-cluster "default=http://127.0.0.1:$peer"
  server_run kube-apiserver "$port" "$KUBE_APISERVER" --etcd-servers="http://127.0.0.1:$etcd" \
    --bind-address=127.0.0.1 --secure-port="$port" --client-ca-file="$CA" --authorization-mode=RBAC \
    --tls-cert-file="$SERVERS/server.pem" --tls-private-key-file="$SERVERS/server.key" \
    --service-account-issuer=https://kubernetes.test --service-account-key-file="$dir/accounts.key" \
    --service-account-signing-key-file="$dir/accounts.key" --service-cluster-ip-range=10.0.0.0/24 \
    --disable-admission-plugins=ServiceAccount --etcd-compaction-interval=5s "$@"
  export KUBE=https://127.0.0.1:$port KUBECONFIG=$SERVERS/kubeconfig
  kube_config admin >"$KUBECONFIG"
  for ((i = 0; i < 300; i++)); do
    ! curl -sf --cacert "$CA" --cert "$SERVERS/admin.pem" --key "$SERVERS/admin.key" "$KUBE/readyz" >/dev/null || return 0
    sleep 0.2
  done
  tail -20 "$SERVERS/kube-apiserver.log" >&2
  return 1
}
kube_stop() { # the API server first: it does not end well without its etcd
  [ ! -e "$SERVERS/kube-apiserver.pid" ] || server_stop kube-apiserver
  servers_stop
}
kube_config() { # USER: by a client certificate
  cat <<EOF
apiVersion: v1
kind: Config
current-context: tests
clusters:
- name: here
  cluster:
    server: $KUBE
    certificate-authority: $CA
contexts:
- {name: tests, context: {cluster: here, user: $1, namespace: default}}
users:
- name: $1
  user:
    client-certificate-data: $(base64 -w0 "$SERVERS/$1.pem")
    client-key: $SERVERS/$1.key
EOF
}
kube() { # METHOD PATH [JSON [CONTENT-TYPE]]
  curl -sS --cacert "$CA" --cert "$SERVERS/admin.pem" --key "$SERVERS/admin.key" -X "$1" \
    ${3:+-H "Content-Type: ${4:-application/json}" -d "$3"} "$KUBE$2"
}
