#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# P7: ten nodes that need the same package at the same moment, and find none. How often it is compiled, and how often what the
# compile needs is fetched from outside: the compiler's image, from a web server whose log is counted. API server, etcd and
# registry are real, the nodes recorded machines, the compiler is made up (as in tests/cluster/lease.bats).
#   tests/bench/share.sh KMODSMITH [NODES]
# shellcheck disable=SC2034,SC2154 # the helpers of the tests use what is set here, and set the rest
set -euo pipefail
KMODSMITH=$(realpath "$1") nodes=${2:-10}
top=$(cd "$(dirname "$0")/../.." && pwd)
"$top/scripts/deps.sh" cluster
KUBE_APISERVER=$("$top/tests/cluster/tools/build.sh" kube-apiserver)
work=$(mktemp -d)
export KMODSMITH KUBE_APISERVER
# shellcheck source=tests/cluster/outside.bash
. "$top/tests/cluster/outside.bash" "$work" helper nodes
trap 'cd /; kube_stop; rm -rf "$work"' EXIT
BATS_TEST_NUMBER=1
registry_start plain
kube_start
nodes_make
mkdir "$work/outside"
cp -r "$builder" "$work/outside/builder"
nginx_start plain "$work/outside"
layer=$(find "$builder/blobs" -type f -printf '%s %f\n' | sort -rn | awk 'NR == 1 { print $2 }')

for ((i = 1; i <= nodes; i++)); do
  outside=$NGINX_PLAIN/builder node "$i" --kubeconfig "$KUBECONFIG" --compile-lease default
done
ended "$nodes"
[ "$(loads)" -eq "$nodes" ] || { cat log.* >&2; exit 1; }
row() { printf 'row\tP7\t%s\treal, %s nodes\t\t%s\n' "$1" "$nodes" "$2"; }
row "compiles" "$(compiles)"
row "fetches of the compiler's image from outside" "$(nginx_log plain | grep -c "GET .*$layer" || true)"
