#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Run tests: tests/check/run says how. This only sees to it that there is a Python to run it with.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v python3 >/dev/null || scripts/deps.sh check
exec tests/check/run "$@"
