#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The files that the runtime image chooses from: Debian's packages, unpacked. Prints the directory. KMODSMITH_BASE names
# another root to choose from: a directory, or a tar file of one.
#   images/base.sh
# shellcheck source=images/common.bash
. "$(dirname "$0")/common.bash"
base=$out/base/root
packages=(base-files bash busybox ca-certificates dash kmod libacl1 libcurl4 libjansson4 libkmod2 liblz4-1 liblzma5 libmicrohttpd12
  libseccomp2 libssl3 libyaml-0-2 libzstd1 zlib1g)
given=${KMODSMITH_BASE-}

if [ -d "$given" ]; then
  echo "$given"
  exit
fi
if [ -n "$given" ]; then
  key="$given $(sha256sum <"$given")"
else
  mapfile -t debs < <(scripts/inputs.sh --closure "${packages[@]}")
  [ ${#debs[@]} -gt 0 ] || fail "apt offers none of: ${packages[*]}"
  key=${debs[*]}
fi
if [ "$(cat "$base.key" 2>/dev/null)" != "$key" ]; then
  rm -f "$base.key"
  skeleton "$base"
  if [ -n "$given" ]; then tar -C "$base" --keep-directory-symlink -xpf "$given"; else unpack "$base" "${debs[@]}"; fi
  echo "$key" >"$base.key"
fi
echo "$base"
