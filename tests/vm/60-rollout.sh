# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# D1, D2, D5, T08, T36: a node with the real modules in a rollout: the agent here, coordinator and API server beside, each
# with the rights of deploy/. A holder is waited for, the driver is replaced when it goes; a bad target is undone from the
# node's own disk, and the rollout halts. No authorities of the machine's own are here: the cluster's is enough. What the new
# driver needs beside modules comes with its user space alone: the agent of a pod exports it, and names the GPUs for runtimes.
# kernel: K61
# gpus: 2
# stub: yes
# net: yes
# beside: rollout
# packages: tesla535
# programs: curl
# firmware: no
# mem: 2G
# timeout: 600
old=$TESLA535_VERSION new=$OPEN_VERSION root=/run/nvidia/driver
node=/api/v1/nodes/gpu-1 map=/api/v1/namespaces/kmodsmith/configmaps
if [ -e /beside/skip ]; then
  skip "a node in a rollout" "$(cat /beside/skip)"
  exit 0
fi
api() { # METHOD PATH [JSON]: as an administrator
  curl -sS --cacert /beside/ca.pem --cert /beside/admin.pem --key /beside/admin.key -X "$1" \
    ${3:+-H "Content-Type: application/$([ "$1" = PATCH ] && echo merge-patch+)json" -d "$3"} "$(cat /beside/url)$2?pretty=true"
}
state() { api GET $node | sed -n 's/.*"kmodsmith.io\/state": "\(.*\)".*/\1/p'; }
becomes() { # STATE SECONDS
  until [ "$(state)" = "$1" ]; do
    [ "$2" -gt 0 ] || return 1
    sleep 1
    set -- "$1" $(($2 - 1))
  done
}
policy() { # TARGET [METHOD PATH]: into the file of the agent and the ConfigMap of the coordinator
  printf '{"maxUnavailable": 1, "pools": [{"name": "gpus", "maxUnavailable": 1, "target": %s}]}' "$1" >/tmp/policy.new
  mv /tmp/policy.new /tmp/policy.json
  api "${2-PATCH}" "$map${3-/kmodsmith-policy}" "{\"metadata\": {\"name\": \"kmodsmith-policy\"},
    \"data\": {\"policy.json\": \"$(sed 's/"/\\"/g' /tmp/policy.json)\"}}" >/dev/null
}
kernel_has() { sed -n 's/.*Kernel Module\( for x86_64\)\? *\([0-9.]*\) .*/\2/p' /proc/driver/nvidia/version; }
cordoned() { api GET $node | grep -c '"unschedulable": true'; }

mkdir -p /lib/firmware/nvidia/$old && echo placeholder >/lib/firmware/nvidia/$old/gsp_ga10x.bin
t "the older driver is loaded" kmodsmith install --package /packages/tesla535 --flavour proprietary
loaded=$(cat /sys/module/nvidia/srcversion)
policy "{\"driver\": \"$old\", \"flavour\": \"proprietary\"}" POST ""
kmodsmith init --agent --no-daemons --node gpu-1 --policy /tmp/policy.json --kubeconfig /beside/config --insecure-skip-verify \
  --from oci:/beside/payloads/a,oci:/packages/tesla535 >/tmp/agent.log 2>&1 &
t "what is loaded is adopted" becomes "done" 90 || { cat /tmp/agent.log; exit 1; }
is "  and not touched" "$(cat /sys/module/nvidia/srcversion)" "$loaded"
is "  nobody has its user space: nothing is exported" "$(find /run/nvidia/driver /var/run/cdi 2>/dev/null | wc -l)" 0

hold /dev/nvidia0
begun=$(cut -d. -f1 /proc/uptime)
policy "{\"driver\": \"$new\", \"flavour\": \"open\"}"
t "another target: staged, then cordoned and drained" becomes evicting 240 || cat /tmp/agent.log
sleep 8
is "  a process holds the GPU: nothing is touched" "$(kernel_has)" "$old"
t "  why can be asked" kmodsmith rollout why gpu-1 --kubeconfig /beside/admin --namespace kmodsmith
like "  the node and what it waits for are named" "$out" 'gpu-1 is evicting: holders'
is "  the node is cordoned" "$(cordoned)" 1
release
t "it goes: replaced, validated, uncordoned" becomes "done" 240 || cat /tmp/agent.log
echo "# $(($(cut -d. -f1 /proc/uptime) - begun)) s from the new target to done, some of them held, in an emulated machine"
is "  the new driver runs" "$(kernel_has)" "$new"
is "  the node is in service" "$(cordoned)" 0
t "  and everything is right" kmodsmith status
like "  with the user space that came with it" "$out" "user space +$new exported, $new in the kernel"
t "  containers find it" ls $root/usr/lib/x86_64-linux-gnu/libnvidia-ml.so."$new"
is "  the kernel its firmware" "$(cat /sys/module/firmware_class/parameters/path)" $root/lib/firmware
is "  runtimes both GPUs" "$(grep -cE '"name": ?"[01]"' /var/run/cdi/kmodsmith.json)" 2
like "  and the agent tells what it is" "$(api GET $node)" "\"kmodsmith.io/agent.loaded\": \"[0-9a-f-]* $new "

policy "{\"driver\": \"$new\", \"flavour\": \"open\", \"parameters\": {\"NVreg_DeviceFileMode\": \"wrong\"}}"
t "a target that the kernel refuses is undone" becomes rolledback 300 || cat /tmp/agent.log
is "  the old driver runs" "$(kernel_has)" "$new"
t "  and everything is right" kmodsmith status
is "  the node is in service" "$(cordoned)" 0
t "  the rollout" kmodsmith rollout status --kubeconfig /beside/admin --namespace kmodsmith
like "  it has halted, and the reason is told" "$out" 'halted: '
like "the timeline is told as Events" "$(api GET /api/v1/namespaces/default/events)" '"reason": "RolloutRolledback"'
