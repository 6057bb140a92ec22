# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# What `make demo-registry` shows inside the guest.
# kernel: K61
# gpus: 2
# stub: yes
# net: yes
# beside: registry
set -eu
# shellcheck source=/dev/null
. /vm/inputs
run() { printf '\n# %s\n' "$*"; "$@"; }

from=$(cat /beside/from)
printf '\n# no compiler, no headers, no package\n'
run kmodsmith net check "$from"
run kmodsmith install --driver "$OPEN_VERSION" --flavour open --from "$from" --trust-dir /beside/trust
run kmodsmith store ls
run kmodsmith unload

printf '\n# from now on nobody is needed\n'
run ip link set eth0 down
run kmodsmith install --driver "$OPEN_VERSION" --flavour open
printf '\ndone\n'
