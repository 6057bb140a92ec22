# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# A node of `make demo-cluster`: real kernel, NVIDIA's real modules, the agent, and of a kubelet what a rollout needs: the
# Node is ready, the policy's ConfigMap is a file, and a pod whose end has begun ends with its processes. Until the Node is gone.
# kernel: K61
# gpus: 2
# stub: yes
# net: yes
# beside: node
# packages: proprietary tesla535
# programs: curl jq
# mem: 2G
# timeout: 1500
set -eu
name=$(cat /beside/name)
api() { # METHOD PATH [JSON]
  curl -sS --cacert /beside/ca.pem --cert /beside/admin.pem --key /beside/admin.key -X "$1" \
    ${3:+-H "Content-Type: application/merge-patch+json" -d "$3"} "$(cat /beside/url)$2"
}
keep_policy() { # as a mounted ConfigMap: replaced when it changes
  api GET /api/v1/namespaces/kmodsmith/configmaps/kmodsmith-rollout | jq -rj '.data["policy.json"] // ""' >/tmp/policy.new
  [ ! -s /tmp/policy.new ] || cmp -s /tmp/policy.new /tmp/policy.json || mv /tmp/policy.new /tmp/policy.json
}
holder=
pods() { api GET "/api/v1/namespaces/default/pods?fieldSelector=spec.nodeName%3D$name" | jq -r ".items[] | $1"; }
keep_pods() { # each of them computes on the first GPU
  [ "$holder" ] || [ -z "$(pods .metadata.name)" ] || { sleep 10000 </dev/nvidia0 & holder=$!; }
  for pod in $(pods 'select(.metadata.deletionTimestamp) | .metadata.name'); do
    kill "$holder" && wait "$holder" || holder=
    api DELETE "/api/v1/namespaces/default/pods/$pod?gracePeriodSeconds=0" >/dev/null
  done
}

kmodsmith install --package /packages/tesla535 --flavour proprietary
keep_policy
kmodsmith agent --node "$name" --policy /tmp/policy.json --kubeconfig /beside/config --insecure-skip-verify \
  --from oci:/packages/proprietary,oci:/packages/tesla535 2>&1 &
api PATCH "/api/v1/nodes/$name/status" '{"status": {"conditions": [{"type": "Ready", "status": "True"}]}}' >/dev/null
while [ "$(api GET "/api/v1/nodes/$name" | jq -r .kind)" = Node ]; do
  keep_policy
  keep_pods
  sleep 2
done
printf '\n# %s: kmodsmith status\n' "$name"
kmodsmith status
cat /proc/driver/nvidia/version
