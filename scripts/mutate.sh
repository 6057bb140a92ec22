#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Can the tests see a fault? Random small faults in a copy of the product, and those that no test notices; see
# tests/mutate/mutate.py. A report: the exit status is 0, except with MIN_KILLED. Takes from minutes to hours and goes on
# where it was interrupted. Needs: scripts/deps.sh build test cli mutate
#   make mutate [MUTANTS=120] [SEED=1] [ROOM="installer/cluster kmod/module/elf.c ..."] [JOBS=2] [MIN_KILLED=PERCENT]
#               [UNIT="root_test ..."|none] [CLI="usage ..."|none] [SERVICES=...] [CLUSTER=...]    only these tests
set -euo pipefail
cd "$(dirname "$0")/.."
for python in python3 /usr/bin/python3; do # Debian's libclang is found by Debian's Python alone
  if "$python" -c 'import clang.cindex' 2>/dev/null; then
    export PYTHONDONTWRITEBYTECODE=1
    exec "$python" tests/mutate/mutate.py
  fi
done
echo "mutate: Python's clang.cindex is missing; run scripts/deps.sh build test cli mutate" >&2
exit 1
