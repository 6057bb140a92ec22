#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The builder image: the runtime, and on it the compilers and what a compile of kernel modules calls (tools.sh). Beside it
# "asset", a layout with what `pack builder` makes of the compilers alone, for nodes that have none: its digest changes with
# the compilers and not with each commit.
#   images/builder.sh
# shellcheck source=images/common.bash
. "$(dirname "$0")/common.bash"
made=$(images/tools.sh)
[ -e "$out/runtime/layer.tar" ] || images/runtime.sh
root=$out/builder/root asset=$out/builder/asset
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
if [ ! -d "$made/asset" ]; then
  work=$(mktemp -d "$made.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  env -u SOURCE_DATE_EPOCH build/release/kmodsmith pack builder -q "$made/root.tar" --output "oci:$work/asset" --state-dir "$work/state" >&2
  mv -T "$work/asset" "$made/asset" 2>/dev/null || [ -d "$made/asset" ] # another run was faster
fi
rm -rf "$asset"
cp -r "$made/asset" "$asset"
