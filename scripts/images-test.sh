#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Make the three images below build/images-test and test them (bats). The driver image is of a few packages, for speed;
# `make images` makes it whole. It ends with one line of counts: "images: P passed, F failed, S skipped".
#   scripts/images-test.sh BINARY [FILE.bats...]
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
export IMAGES_OUT=$PWD/build/images-test DRIVER DRIVER_FILES
for tool in buildah skopeo docker-registry jq python3 gcc objdump; do
  command -v "$tool" >/dev/null || { echo "images: there is no '$tool'; run scripts/deps.sh images"; exit 1; }
done
die() { echo "images: $1"; echo "images: 0 passed, 1 failed, 0 skipped"; exit 1; }

version=$(dpkg-deb -f "$(scripts/inputs.sh nvidia-open-kernel-source)" Version) || die "NVIDIA's packages cannot be had"
DRIVER=${version%%-*}
DRIVER_FILES=$(scripts/inputs.sh {libcuda1,libnvidia-ml1,nvidia-smi,firmware-nvidia-gsp,nvidia-open-kernel-source}="$version" \
  nvidia-modprobe nvidia-persistenced libtirpc3 libgcc-s1 | paste -sd' ') || die "NVIDIA's packages cannot be had"
for name in runtime builder; do scripts/images.sh "$name" || die "the $name image could not be made"; done
# shellcheck disable=SC2086 # a list of files
scripts/images.sh driver --driver "$DRIVER" $DRIVER_FILES || die "the driver image could not be made"
TIER=images LIMIT=900 scripts/cli.sh "$@"
