#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The container images, below build/images: NAME/root (the files), NAME/root.tar and NAME/oci.tar. Needs `make all static`.
# build/images/builder/asset is a layout with the builder as nodes fetch it: `kmodsmith push oci:build/images/builder/asset ...`.
#   scripts/images.sh                                      runtime, builder and driver
#   scripts/images.sh runtime|builder                      one of them
#   scripts/images.sh driver [--driver VERSION] [--builder REPOSITORY|-] [FILE...]
#                                                          of NVIDIA's .run or of packages, default: Debian's; --builder: where
#                                                          nodes without a compiler find this builder (images/driver.sh)
#   scripts/images.sh index OUTPUT ARCHIVE ARCHIVE...        one archive of images of several architectures, for push
#   scripts/images.sh tags --driver VERSION --os TAG,... [--kernel RELEASE,...]
#   scripts/images.sh push ARCHIVE docker://REPOSITORY --tags TAG,... [--plain-http]
# KMODSMITH_BASE=DIR|TAR is a root to take programs and libraries from, in place of Debian's packages.
# shellcheck source=images/common.bash
. "$(dirname "$0")/../images/common.bash"

make_image() { # NAME [ARGUMENT...]: and say how large it is
  local name=$1
  "images/$name.sh" "${@:2}"
  printf '%-8s %6s MiB unpacked, %6s MiB as an image  %s\n' "$name" "$(size_of "$out/$name/root")" \
    "$(awk -v b="$(stat -c %s "$out/$name/oci.tar")" 'BEGIN { printf "%.1f", b / 1048576 }')" "$(digest_of "$out/$name/oci.tar")"
}
case ${1-} in
'')
  for name in runtime builder; do make_image "$name"; done
  make_image driver --builder -
  ;;
runtime | builder | driver) make_image "$@" ;;
index | tags | push) "images/$1.sh" "${@:2}" ;;
*) fail "there is no '$1'; one of: runtime builder driver index tags push" ;;
esac
