#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Run the tests against a real kube-apiserver and etcd on loopback (bats), each file with its own. It ends with one line of
# counts: "cluster: P passed, F failed, S skipped". Where the API server cannot be built, what needs it is skipped.
#   scripts/cluster.sh BINARY [FILE.bats...]    with KUBERNETES=1.30 another version that tests/cluster/tools has a go.mod for
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
for tool in etcd openssl jq curl python3 as busybox docker-registry; do
  hash "$tool" 2>/dev/null || { echo "cluster: there is no '$tool'; run scripts/deps.sh cluster"; exit 1; }
done
log=$(mktemp)
build() { # PROGRAM: its path, or why it cannot be built, with status 3
  tests/cluster/tools/build.sh "$1" 2>"$log" && return
  case $? in
  3) tail -1 "$log" | tr -d "'" && return 3 ;;
  *) cat "$log" >&2 && echo "cluster: $1 does not build" >&2 && return 1 ;;
  esac
}
lacks='' lacks_controllers=''
KUBE_APISERVER=$(build kube-apiserver) || { (($? == 3)) && lacks=$KUBE_APISERVER; } || exit 1
KUBE_CONTROLLER_MANAGER=$(build kube-controller-manager) || { (($? == 3)) && lacks_controllers=$KUBE_CONTROLLER_MANAGER; } || exit 1
KUBE_SCHEDULER=$(build kube-scheduler) || { (($? == 3)) && lacks_controllers=$KUBE_SCHEDULER; } || exit 1
rm "$log"
export KUBE_APISERVER KUBE_CONTROLLER_MANAGER KUBE_SCHEDULER
mark=$(mktemp -d) # every server has its files below: its command line names this folder
trap 'rm -rf "$mark"' EXIT
binary=${1:?usage: cluster.sh BINARY [FILE.bats...]}
shift
[ $# -gt 0 ] || set -- tests/cluster/*.bats
files=()
for file in "$@"; do # bats 1.8 cannot skip a file in setup_file: another one stands for it, whose tests are skipped
  why=
  ! grep -q kube_start "$file" || why=$lacks
  ! grep -q controllers_start "$file" || why=${why:-$lacks_controllers}
  [ -z "$why" ] || { why=$why perl -ne 'print "$1 { skip \047$ENV{why}\047; }\n" if /^(\@test .*) \{/' "$file" >"$mark/${file##*/}" && file=$mark/${file##*/}; }
  files+=("$file")
done
# Most of their time they wait for a state, so that more files than processors run side by side.
TMPDIR=$mark TIER=cluster LIMIT=${LIMIT:-600} JOBS=${JOBS:-$((2 * $(nproc)))} scripts/cli.sh "$binary" "${files[@]}"
status=$?
left=$(pgrep -af "$mark/bats-run") && { echo "cluster: still running: $left"; exit 1; }
exit "$status"
