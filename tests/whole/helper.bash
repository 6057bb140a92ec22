# shellcheck shell=bash disable=SC2034,SC2154 # the tests use what is set here; bats and the other helpers set the rest
# SPDX-License-Identifier: Apache-2.0
# A complete cluster for a file of tests: etcd, API server, controllers and scheduler, a registry with the site's certificate, and nodes with
# real kubelets, each of another Debian's containerd. What is not as at a user's:
#   - The nodes run on this machine's kernel, in namespaces (node, boot.sh), and a driver is loaded on a recorded machine, which the pods of
#     agents reach as /machine of their host: files stand for what a kernel would say. User space is not exported (no mounts there).
#   - Their GPUs are a resource that the test writes into the Node, not a device plugin's.
#
#   setup_file() { whole_start COUNT; }    nodes node-1 ... of NODE_ROOTS in turn, whose recorded machines have no driver
#   teardown_file() { whole_stop; }
export SERVERS_BIND=0.0.0.0 SERVERS_NAMES=IP:10.77.0.1,IP:10.0.0.1 KUBE_NODES=yes SERVERS_LIVE=3000
load ../cluster/helper
load ../cluster/agent
work=$BATS_FILE_TMPDIR/whole

whole_start() { # COUNT
  local number
  export count=$1
  [ -z "${KUBE_LACKS-}" ] || return 0
  mkdir -p "$work"
  kube_start --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --allow-privileged=true --advertise-address=10.77.0.1 \
    --kubelet-client-certificate="$SERVERS/admin.pem" --kubelet-client-key="$SERVERS/admin.key" --kubelet-preferred-address-types=InternalIP
  export API=https://10.77.0.1:${KUBE##*:}
  managers_start
  registry_start tls
  export HUB=10.77.0.1:${HUB_TLS##*:}
  images_push
  machine_record
  packages_push
  for ((number = 1; number <= $1; number++)); do
    node_make "$number"
    node_boot "$number"
  done
  for ((number = 1; number <= $1; number++)); do
    until_so 180 node_ready "node-$number"
    kube PATCH "/api/v1/nodes/node-$number/status" '{"status": {"capacity": {"nvidia.com/gpu": "2"}}}' application/merge-patch+json >/dev/null
  done
  kube POST /api/v1/namespaces/kmodsmith/configmaps "$(jq -n --rawfile ca "$CA" '{metadata: {name: "site-ca"}, data: {"ca.crt": $ca}}')" >/dev/null
}
whole_stop() {
  [ -z "${KUBE_LACKS-}" ] || return 0
  pkill -KILL -f "^bash $BATS_TEST_DIRNAME/boot.sh$" || true
  kube_stop
}
managers_start() { # what a cluster has beside its API server
  local port
  port=$(free_port)
  server_run kube-controller-manager "$port" "$KUBE_CONTROLLER_MANAGER" --kubeconfig="$KUBECONFIG" --leader-elect=false --bind-address=127.0.0.1 \
    --secure-port="$port" --node-monitor-grace-period=40s --root-ca-file="$CA" --use-service-account-credentials \
    --service-account-private-key-file="$SERVERS/kube/accounts.key"
  port=$(free_port)
  server_run kube-scheduler "$port" "$KUBE_SCHEDULER" --kubeconfig="$KUBECONFIG" --leader-elect=false --bind-address=127.0.0.1 --secure-port="$port"
}
account_of() { # CERTIFICATE SUBJECT: a kubeconfig with all that it names in it
  key_pair "$1" "$1" -newkey ec -pkeyopt ec_paramgen_curve:P-256 -CA "$CA" -CAkey "$SERVERS/ca.key" -subj "$2" \
    -addext basicConstraints=CA:FALSE -addext extendedKeyUsage=clientAuth
  KUBE=$API kube_config "$1" | sed "s#certificate-authority: .*#certificate-authority-data: $(base64 -w0 "$CA")#
    s#client-key: .*#client-key-data: $(base64 -w0 "$SERVERS/$1.key")#"
}

machine_record() { # what each node gets a copy of: no driver yet, and firmware of two
  BATS_TEST_TMPDIR=$work/recorded
  mkdir -p "$BATS_TEST_TMPDIR"
  loadable
  tiny_firmware "$old"
  tiny_firmware "$new"
  mv "$ROOT/proc/driver/nvidia/version" "$BATS_TEST_TMPDIR/version" # see agent.bash
  ln -s ../../../sys/module/nvidia/../../version "$ROOT/proc/driver/nvidia/version"
  mkdir -p "$ROOT/old/module"
}
machines_load() { # VERSION: what the next load brings, on each node
  local number
  for ((number = 1; number <= count; number++)); do ROOT=$work/node-$number/machine BATS_TEST_TMPDIR=$work/recorded loads "$1"; done
}
packages_push() { # of both drivers, signed by the site's key
  local version
  for version in "$old" "$new"; do
    layout "$work/recorded/package" "$kernel" --driver "$version"
    "$KMODSMITH" push "oci:$work/recorded/package" "oci:$work/packages" >/dev/null
  done
  key_pair site site -newkey ec -pkeyopt ec_paramgen_curve:P-256
  openssl pkey -in "$SERVERS/site.key" -pubout -out "$work/site.pem"
  "$KMODSMITH" sign "oci:$work/packages" --key "$SERVERS/site.key" --catalog >/dev/null
  KMODSMITH_CA=$CA "$KMODSMITH" push "oci:$work/packages" "docker://$HUB/drivers" >/dev/null
}
chart() { # install|upgrade POLICY-POOLS [OPTION...]: the chart, as the pages say, with what is not as at a user's
  jq -n --arg hub "$HUB/drivers" --argjson pools "$2" '{mode: "rollout", registry: $hub, caConfigMap: "site-ca", policy: {pools: $pools},
    env: {KMODSMITH_EXPORT: "none"}}' >"$work/values.yaml"
  "$HELM" "$1" kmodsmith "$top/deploy/helm/kmodsmith" -n kmodsmith -f "$work/values.yaml" --set-file "trust.keys.site\\.pem=$work/site.pem" \
    --post-renderer "$BATS_TEST_DIRNAME/recorded.py" "${@:3}"
}

node_make() { # NUMBER: its files, and the recorded machine
  local dir=$work/node-$1 etc=$work/node-$1/etc
  mkdir -p "$etc"
  account_of "node-$1" "/O=system:nodes/CN=system:node:node-$1" >"$etc/node.conf"
  account_of proxy /CN=system:kube-proxy >"$etc/proxy.conf"
  cp "$CA" "$etc/ca.pem"
  printf 'server = "https://%s"\n[host."https://%s"]\n  ca = "/etc/kubernetes/ca.pem"\n' "$HUB" "$HUB" >"$etc/hosts.toml"
  sed "s#REGISTRY#$HUB#" "$BATS_TEST_DIRNAME/etc/containerd.toml" >"$etc/containerd.toml"
  cp "$BATS_TEST_DIRNAME"/etc/{kubelet.yaml,cni.json} "$etc"
  cp -a "$ROOT" "$dir/machine"
}
node_boot() { # NUMBER: another boot id than any boot before; the driver that was loaded is not
  local roots
  read -r -a roots <<<"$NODE_ROOTS"
  rm -rf "$work/node-$1/machine"/{run/*,sys/module/nvidia*}
  cat /proc/sys/kernel/random/uuid >"$work/node-$1/machine/proc/sys/kernel/random/boot_id"
  registry=$HUB setsid "$BATS_TEST_DIRNAME/node" "node-$1" "$1" "${roots[($1 - 1) % ${#roots[@]}]}" "$work/node-$1" </dev/null >/dev/null 2>&1 3>&- 4>&- &
  echo $! >"$work/node-$1/pid"
}
node_cut() { # NUMBER: its power
  kill -KILL "$(<"$work/node-$1/pid")" || true
}
node_stop() { # NUMBER kubelet|containerd: it is started again as a service manager does
  pkill -KILL -x "$2" --ns "$(pgrep -f "^bash $BATS_TEST_DIRNAME/boot.sh$" --parent "$(<"$work/node-$1/pid")")" --nslist pid
}
nodes_ready() { local number; for ((number = 1; number <= count; number++)); do node_ready "node-$number" || return; done; }
node_ready() { kube GET "/api/v1/nodes/$1" | jq -e '.status.conditions[]? | select(.type == "Ready" and .status == "True")' >/dev/null; } # NODE

images_push() { # the sandbox, which is the workload, too, and the runtime image
  local container program buildah=(buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs)
  mkdir -p "$work/bin"
  cp "$(type -P busybox)" "$work/bin/busybox"
  for program in sh sleep cat true; do ln -sf busybox "$work/bin/$program"; done
  container=$("${buildah[@]}" from scratch)
  "${buildah[@]}" copy -q "$container" "$work/bin" /bin >/dev/null
  "${buildah[@]}" config --entrypoint '["/bin/sh", "-c", "trap exit TERM; while :; do sleep 3600 & wait; done"]' "$container"
  "${buildah[@]}" commit -q "$container" pause >/dev/null
  SSL_CERT_FILE=$CA "${buildah[@]}" push -q pause "docker://$HUB/pause:1"
  SSL_CERT_FILE=$CA "$top/scripts/images.sh" push "$IMAGES_OUT/runtime/oci.tar" "docker://$HUB/drivers/kmodsmith-runtime" \
    --tags "$(sed -n 's/^VERSION := //p' "$top/Makefile")" >/dev/null
}

until_so() { # SECONDS COMMAND...: until it succeeds
  local end=$((SECONDS + $1))
  until "${@:2}" >/dev/null 2>&1; do
    sleep 0.5
    ((SECONDS < end)) || { whole_tell >&2 && fail "not so after $1 s: ${*:2}"; }
  done
}
whole_tell() { # for whoever reads a failure
  tail -n 5 "$work"/node-*/log/{node,kubelet,containerd}.log
  kube GET /api/v1/pods | jq -r '.items[] | [.metadata.namespace, .metadata.name, .spec.nodeName, .status.phase,
    ([.status.containerStatuses[]?.state.waiting | values | .reason, .message] | join(" "))] | @tsv'
  kube GET /api/v1/nodes | jq -c '.items[].metadata | .labels, .annotations'
  tail -n 20 "$work"/node-*/log/pods/kmodsmith_*/*/*.log
}
