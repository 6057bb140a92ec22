#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Run the tests against a real kube-apiserver and etcd on loopback (bats), each file with its own. It ends with one line of
# counts: "cluster: P passed, F failed, S skipped". Where the API server cannot be built, what needs it is skipped.
#   scripts/cluster.sh BINARY [FILE.bats...]
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
for tool in etcd openssl jq curl python3 as busybox docker-registry; do
  hash "$tool" 2>/dev/null || { echo "cluster: there is no '$tool'; run scripts/deps.sh cluster"; exit 1; }
done
log=$(mktemp)
KUBE_APISERVER=$(tests/cluster/tools/build.sh kube-apiserver 2>"$log")
case $? in
0) ;;
3) KUBE_SKIP=$(tail -1 "$log") ;;
*) cat "$log" && echo "cluster: kube-apiserver does not build" && exit 1 ;;
esac
rm "$log"
export KUBE_APISERVER KUBE_SKIP=${KUBE_SKIP-}
mark=$(mktemp -d) # every server has its files below: its command line names this folder
trap 'rm -rf "$mark"' EXIT
TMPDIR=$mark TIER=cluster scripts/cli.sh "$@"
status=$?
left=$(pgrep -af "$mark/bats-run") && { echo "cluster: still running: $left"; exit 1; }
exit "$status"
