# shellcheck shell=bash disable=SC2034,SC2154 # the tests use what is set here; ../cli/helper.bash sets top
# SPDX-License-Identifier: Apache-2.0
# What every file of this tier loads: a real kube-apiserver with its etcd and own certificates, for one test file, with the
# namespaces of deploy/.
#
#   setup_file() { kube_start; }
#   setup() { kube_needed; ...; }
#   $KUBECONFIG is an administrator; kube METHOD PATH [JSON] asks as one, and prints the answer
# With KUBE_EMPTY=yes kube_start leaves out the namespaces, too; with KUBE_NODES=yes its options say who may what, as tests/whole needs.
# The programs come from tests/cluster/prepare. Where it says KUBE_LACKS=WHY nothing starts, nothing is asked, and what needs
# the API server is skipped.
load ../cli/helper
load ../cli/package
load ../services/servers
CLIENT=$(dirname "$KMODSMITH")/cluster/client

nvidia_read() { # REPOSITORY: in which version its facts were read
  sed -nE "s/^SOURCE\(\"($1)\", \"([^\"]*)\", \"([^\"]*)\", \"([^\"]*)\"\)/\1 \2 (\3, \4)/p" "$top/installer/cluster/node_state/nvidia.def"
}
kube_needed() { [ -z "${KUBE_LACKS-}" ] || skip "$KUBE_LACKS"; }
kube_start() { # [OPTION...]
  local dir=$SERVERS/kube etcd peer port command
  [ -z "${KUBE_LACKS-}" ] || return 0
  mkdir -p "$dir"
  ca_make
  key_pair admin admin -newkey ec -pkeyopt ec_paramgen_curve:P-256 -CA "$CA" -CAkey "$SERVERS/ca.key" \
    -subj /O=system:masters/CN=admin -addext basicConstraints=CA:FALSE -addext extendedKeyUsage=clientAuth
  openssl genrsa -out "$dir/accounts.key" 2048 2>>"$SERVERS/openssl.log"
  etcd=$(free_port) peer=$(free_port) port=$(free_port)
  server_run etcd "$etcd" etcd --data-dir "$dir/etcd" --listen-client-urls "http://127.0.0.1:$etcd" --unsafe-no-fsync \
    --advertise-client-urls "http://127.0.0.1:$etcd" --listen-peer-urls "http://127.0.0.1:$peer" \
    --initial-advertise-peer-urls "http://127.0.0.1:$peer" --initial-cluster "default=http://127.0.0.1:$peer"
  # Where no kubelet is, nobody makes tokens for pods.
  [ -n "${KUBE_NODES-}" ] || set -- --authorization-mode=RBAC --disable-admission-plugins=ServiceAccount "$@"
  command=("$KUBE_APISERVER" --etcd-servers="http://127.0.0.1:$etcd" \
    --bind-address="${SERVERS_BIND:-127.0.0.1}" --secure-port="$port" --client-ca-file="$CA" \
    --tls-cert-file="$SERVERS/server.pem" --tls-private-key-file="$SERVERS/server.key" \
    --service-account-issuer=https://kubernetes.test --service-account-key-file="$dir/accounts.key" \
    --service-account-signing-key-file="$dir/accounts.key" --service-cluster-ip-range=10.0.0.0/24 \
    --etcd-compaction-interval=5s "$@")
  declare -p port command >"$SERVERS/kube-apiserver.again"
  kube_again
  export KUBE=https://127.0.0.1:$port KUBECONFIG=$SERVERS/kubeconfig
  kube_config admin >"$KUBECONFIG"
  for ((i = 0; i < 600; i++)); do
    ! curl -sf --cacert "$CA" --cert "$SERVERS/admin.pem" --key "$SERVERS/admin.key" "$KUBE/readyz" >/dev/null || break
    sleep 0.2
  done
  ((i == 600)) || { [ -n "${KUBE_EMPTY-}" ] || deploy namespace.yaml; return; }
  tail -20 "$SERVERS/kube-apiserver.log" >&2
  return 1
}
kube_again() { # where it was, after a server_stop
  local port command
  # shellcheck source=/dev/null # of kube_start
  . "$SERVERS/kube-apiserver.again"
  server_run kube-apiserver "$port" "${command[@]}"
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
  [ -z "${KUBE_LACKS-}" ] || return 0
  curl -sS --cacert "$CA" --cert "$SERVERS/admin.pem" --key "$SERVERS/admin.key" -X "$1" \
    ${3:+-H "Content-Type: ${4:-application/json}" -d "$3"} "$KUBE$2"
}
deploy() { # FILE of deploy/: each document is created as it is, and nothing in it is unknown to the API server
  local doc kind namespace group answer
  python3 -c 'import json, sys, yaml; [print(json.dumps(d)) for d in yaml.safe_load_all(open(sys.argv[1]))]' "$top/deploy/$1" |
    while read -r doc; do
      kind=$(jq -r '.kind | ascii_downcase | sub("y$"; "ie") + "s"' <<<"$doc") namespace=$(jq -r '.metadata.namespace // ""' <<<"$doc")
      group=$(jq -r .apiVersion <<<"$doc")
      [ "$group" = v1 ] && group=/api/v1 || group=/apis/$group
      answer=$(kube POST "$group${namespace:+/namespaces/$namespace}/$kind?fieldValidation=Strict" "$doc")
      [ "$(jq -r .kind <<<"$answer")" != Status ] || { echo "$1: $answer" >&2 && return 1; }
    done
}
has_kind() { [ "$(kube GET /apis/kmodsmith.io/v1alpha1/driverrollouts | jq -r .kind)" = DriverRolloutList ]; }
deploy_kind() { # crd.yaml, until the API server has such objects
  [ -z "${KUBE_LACKS-}" ] || return 0
  deploy crd.yaml
  soon has_kind
}
account() { # NAME [POD NODE]: a token of that service account of kmodsmith; of a pod on that node
  local spec={}
  if [ $# -gt 1 ]; then
    local pod
    pod=$(kube POST /api/v1/namespaces/kmodsmith/pods "{\"metadata\": {\"name\": \"$2\"}, \"spec\": {\"nodeName\": \"$3\",
      \"serviceAccountName\": \"$1\", \"containers\": [{\"name\": \"c\", \"image\": \"i\"}]}}" | jq -r .metadata.uid)
    spec="{\"boundObjectRef\": {\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"name\": \"$2\", \"uid\": \"$pod\"}}"
  fi
  kube POST "/api/v1/namespaces/kmodsmith/serviceaccounts/$1/token" \
    "{\"apiVersion\": \"authentication.k8s.io/v1\", \"kind\": \"TokenRequest\", \"spec\": $spec}" | jq -r .status.token
}
kube_config_token() { # TOKEN
  cat <<EOF
apiVersion: v1
kind: Config
current-context: tests
clusters:
- {name: here, cluster: {server: $KUBE, certificate-authority: $CA}}
contexts:
- {name: tests, context: {cluster: here, user: it, namespace: kmodsmith}}
users:
- {name: it, user: {token: $1}}
EOF
}
