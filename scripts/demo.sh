#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The main job, end to end and for real: compile NVIDIA's open kernel modules against a Debian kernel's headers, boot
# that kernel in QEMU (software emulation) with two simulated H100s, install, hold, unload, and show the status.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { printf '\n== %s\n' "$*"; }
unset MAKEFLAGS MAKELEVEL MFLAGS

say "1. what is needed on this machine (apt)"
scripts/deps.sh build vm
say "2. kmodsmith itself"
make -s -j"$(nproc)"
say "3. real inputs from this machine's Debian mirror: kernel, headers, NVIDIA's source"
inputs=$(scripts/inputs.sh)
eval "$inputs"
printf '   kernel  %s\n   source  %s\n' "$K61" "$(basename "$OPEN")"

say "4. compile, as any CI could: no root, GPU or network needed"
rm -rf build/demo/layout && mkdir -p build/demo
# shellcheck disable=SC2086 # lists of files
headers=$(printf '%s,' $K61_HEADERS)
# shellcheck disable=SC2086
names=$(basename -a $K61_HEADERS | paste -sd,)
printf '# kmodsmith build --source %s --kernel %s \\\n    --headers %s \\\n    --modules nvidia,uvm,modeset --output oci:build/demo/layout\n' \
  "$(basename "$OPEN")" "$K61" "$names"
build/release/kmodsmith build --source "$OPEN" --kernel "$K61" --headers "${headers%,}" --state-dir build/demo/state \
  --modules nvidia,uvm,modeset --output oci:build/demo/layout

say "5. boot $K61 with two simulated H100s; what follows is the guest's own output"
exec tests/vm/machine tests/vm/demo.guest.sh
