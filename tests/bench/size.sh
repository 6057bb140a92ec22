#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# P10: the program without debug information, and the files of the runtime image, unpacked and without a driver.
#   tests/bench/size.sh KMODSMITH
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
row() { awk -v name="$1" -v n="$2" 'BEGIN { printf "row\tP10\t%s\tnative\tMiB\t%.2f\n", name, n / 1048576 }'; }

strip -o "$work/program" "$1"
row "program, stripped" "$(stat -c %s "$work/program")"
"$top/scripts/deps.sh" images >&2
made=$("$top/tests/images/prepare" runtime)
images=$(sed -n 's/^IMAGES_OUT=//p' <<<"$made")
row "runtime image without a driver, unpacked" \
  "$(find "$images/runtime/root" -type f -printf '%s\n' | awk '{ n += $1 } END { print n }')"
