#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Run the tests against real servers on loopback (bats); they start and end with each file. It ends with one line of
# counts: "services: P passed, F failed, S skipped". A server that outlives its test file is a failure.
#   scripts/services.sh BINARY [FILE.bats...]
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
for tool in docker-registry nginx skopeo htpasswd openssl python3 jq curl zstd as podman runc busybox gcc; do
  PATH=$PATH:/usr/sbin command -v "$tool" >/dev/null ||
    { echo "services: there is no '$tool'; run scripts/deps.sh services"; exit 1; }
done
mark=$(mktemp -d) # every server has its files below: its command line names this folder
trap 'rm -rf "$mark"' EXIT
TMPDIR=$mark TIER=services scripts/cli.sh "$@"
status=$?
left=$(pgrep -af "$mark/bats-run") && { echo "services: still running: $left"; exit 1; }
exit "$status"
