#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# For Containerfile: the driver's root, of what was given beside LICENSE: NVIDIA's .run, or packages.
#   images/given.sh DIR VERSION [SHA256 of the one file]
# shellcheck source=images/common.bash
. "$(dirname "$0")/common.bash"
version=${2-} sha256=${3-}
mapfile -t files < <(find "$1" -type f ! -name LICENSE | sort)
[ ${#files[@]} -gt 0 ] || fail "name NVIDIA's .run with --build-arg DRIVER_RUN=FILE|URL"
[ -n "$version" ] || fail "say the version of $(basename "${files[0]}") with --build-arg DRIVER_VERSION=VERSION"
if [ -n "$sha256" ]; then
  sum=$(cat "${files[@]}" | sha256sum | cut -d' ' -f1)
  [ "$sum" = "$sha256" ] || fail "$(basename "${files[0]}") is sha256 $sum, not DRIVER_SHA256, $sha256"
fi
ROOT_ONLY=1 images/driver.sh --driver "$version" "${files[@]}"
