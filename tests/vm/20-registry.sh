# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# R-I1: a node without compiler, headers and packages gets its driver from a registry: fetched, verified, proven, loaded.
# gpus: 2
# stub: yes
# net: yes
# beside: registry
# programs: strace
from=$(cat /beside/from)
install="kmodsmith install --driver $OPEN_VERSION --trust-dir /beside/trust"
t_fails 1 "a registry whose key is not known" kmodsmith install --driver "$OPEN_VERSION" --flavour open --from "$from"
like "  the package is not believed" "$out" 'error: E_UNTRUSTED'
is "  no module is loaded" "$(grep -c ^nvidia /proc/modules)" 0
is "  nothing is in the store" "$(find /var/lib/kmodsmith/store/blobs -type f 2>/dev/null | wc -l)" 0
t "net check" kmodsmith net check "$from"
# shellcheck disable=SC2086 # several words
t "install from the registry" $install --flavour open --from "$from"
like "  the store has none" "$out" 'store: no matching package'
like "  proven" "$out" ' prove '
t "the driver from the registry is ready" kmodsmith status
like "  it is the open one" "$(cat /proc/driver/nvidia/version)" "Open Kernel Module.* $OPEN_VERSION"
t "the store is sound" kmodsmith store verify
like "store ls says what is in use" "$(kmodsmith store ls)" "$OPEN_VERSION-open.*last-good"
t "unload" kmodsmith unload

# R-A2: from now on nobody is needed.
ip link set eth0 down
# shellcheck disable=SC2086 # several words
strace -f --seccomp-bpf -e trace=connect -o /tmp/calls $install --from "$from" >/tmp/again 2>&1
is "install again without a network" $? 0
is "  nobody was asked" "$(grep -c 'connect(' /tmp/calls)" 0
t "  and the driver is ready" kmodsmith status
