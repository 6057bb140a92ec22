#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The builder image: the runtime, and on it the compilers and what a compile of kernel modules calls (tools.sh).
#   images/builder.sh
# shellcheck source=images/common.bash
. "$(dirname "$0")/common.bash"
made=$(images/tools.sh)
[ -e "$out/runtime/layer.tar" ] || images/runtime.sh
root=$out/builder/root
epoch=$(cat "$made/epoch" "$out/runtime/root.epoch" | sort -n | tail -1)
skeleton "$root"
for lower in "$out/runtime/root.tar" "$made/root.tar"; do tar -C "$root" --keep-directory-symlink -xpf "$lower"; done
describe builder "$epoch" --base "$root" --base "$(images/base.sh)" --brief
pack "$root" "$epoch" "$root.tar"
pack "$root" "$epoch" "$root.about.tar" usr/share/{doc,kmodsmith}
images/layer.sh "$root.about.tar" "$out/builder/about.tar"
images/oci.sh builder "$epoch" "$out/builder/oci.tar" "$out/runtime/layer.tar" "$made/layer.tar" "$out/builder/about.tar" \
  "${environment[@]}"
rm "$root.about.tar"
