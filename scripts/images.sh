#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Make the container images, below build/images: NAME/root (the files), NAME/root.tar and NAME/oci.tar.
#   scripts/images.sh [runtime|builder|driver]...     without a name: all three
# shellcheck source=images/common.bash
. "$(dirname "$0")/../images/common.bash"

shown() { # NAME: sizes and digest
  printf '%-8s %6s MiB unpacked, %6s MiB as an image  %s\n' "$1" "$(size_of "$out/$1/root")" \
    "$(awk -v b="$(stat -c %s "$out/$1/oci.tar")" 'BEGIN { printf "%.1f", b / 1048576 }')" "$(digest_of "$out/$1/oci.tar")"
}
[ $# -gt 0 ] || set -- runtime builder driver
for name; do
  "images/$name.sh"
  shown "$name"
done
