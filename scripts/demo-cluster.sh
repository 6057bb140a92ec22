#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A rollout, end to end: a real kube-apiserver with etcd, two coordinators, and the agents of twelve nodes: two are virtual
# machines with NVIDIA's real modules, ten are recorded machines whose kernel is written down. To a newer version in two waves,
# then a target that no kernel takes, which is undone by itself.
#   make demo-cluster
# shellcheck disable=SC2154 # the helpers of the tests set old, new, vms
set -euo pipefail
cd "$(dirname "$0")/.."
unset MAKEFLAGS MAKELEVEL MFLAGS
echo "== 1. what is needed on this machine (apt), and kmodsmith itself"
scripts/deps.sh build vm cluster
make -s -j"$(nproc)"
echo "== 2. kube-apiserver from the Go modules of Kubernetes (minutes, the first time)"
KUBE_APISERVER=$(tests/cluster/tools/build.sh kube-apiserver)
export KUBE_APISERVER SERVERS_LIVE=3600 work=$PWD/build/demo-cluster home=$HOME
mkdir -p build && exec 8>build/demo-cluster.lock
flock -n 8 || { echo "another make demo-cluster runs here" >&2 && exit 1; }
rm -rf "$work" && mkdir -p "$work"
# shellcheck source=tests/cluster/outside.bash
. tests/cluster/outside.bash "$work" helper agent rollout demo
version_of() { HOME=$home scripts/inputs.sh | sed -nE "s/^$1=.*_([0-9.]+)-[^_]*_[^_]*\.deb\$/\1/p"; }
old=$(version_of TESLA535) new=$(version_of PROPRIETARY) # what the virtual machines have packages of

say "3. API server, rights, and twelve nodes with $old; gpu-11 and gpu-12 are virtual machines with the real modules"
demo_server
farm_make 10 2>"$work/farm.log"
waves='.pools[0] += {maxParallel: 4, waves: [{name: "canary", selector: {canary: "true"}, soak: "10s"},
  {name: "main", percent: 100}]} | del(.pools[].target.flavour)'
begin
policy "$old" "$waves"
for i in $vms; do vm_start "$i" "$home"; done
farm_start
demo_begin
all_at_least "done" 12 300
all_have "$old"

say "4. a job computes on gpu-12; the policy's target is now $new: first the canaries, ten seconds later all others"
farm_loads "$new"
pod training 12
begin
policy "$new" "$waves"
sleep 5
all_at_least "done" 12 600
show status
all_have "$new"

say "5. a target that no kernel takes: a parameter with a wrong value"
begin
policy "$new" "$waves | .pools[0].target.parameters = {NVreg_DeviceFileMode: \"wrong\"}"
all_at_least rolledback 2 300
show status
show why gpu-11
show undo gpus
all_at_least "done" 12 120
all_have "$new"

say "6. the two machines, seen from inside, before they end"
vms_end
printf '\ndone\n'
