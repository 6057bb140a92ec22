# shellcheck shell=bash disable=SC2034,SC2154 # the tests use what is set here; ../cli/helper.bash sets top
# SPDX-License-Identifier: Apache-2.0
# What every file of this tier loads: the helpers of the command line tests, the servers, and packages made without us.
load ../cli/helper
load ../cli/package
load servers

DRIVER=535.261.03 KERNEL=6.1.0-56-cloud-amd64
TAG=$DRIVER-open-$KERNEL-x86_64

# A layout with one package; gives the digest of its manifest. --pad BYTES makes it large.
make_layout() { # LAYOUT [OPTION-OF-make_layout.py...]
  local dir=$1 ko=$BATS_FILE_TMPDIR/ko
  shift
  [ -d "$ko" ] || tiny_package "$ko" "$KERNEL"
  python3 "$here/make_layout.py" --kernel "$KERNEL" "$@" "$dir" "$ko"/*.ko
}
digest_of() { sha256sum | sed 's/^\([0-9a-f]*\).*/sha256:\1/'; }
layer_of() { # LAYOUT DIGEST: of its manifest -> the hexadecimal digest of its one layer
  jq -r '.layers[0].digest[7:]' "$1/blobs/sha256/${2#sha256:}"
}
