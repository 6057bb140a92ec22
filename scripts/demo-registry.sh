#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Build, sign, push to a real registry on this machine's loopback, then boot a machine without compiler, headers or
# packages that fetches, verifies, proves and loads from there.
#   make demo-registry
set -euo pipefail
cd "$(dirname "$0")/.."
unset MAKEFLAGS MAKELEVEL MFLAGS
echo "== 1. what is needed on this machine (apt), and kmodsmith itself"
scripts/deps.sh build vm
make -s -j"$(nproc)"
echo "== 2. build, sign and push (tests/vm/beside), boot, install from the registry; then again without the network"
exec tests/vm/machine tests/vm/demo-registry.guest.sh
