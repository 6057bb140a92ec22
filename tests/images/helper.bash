# shellcheck shell=bash disable=SC2034,SC2154 # the tests use what is set here; bats sets status and output
# SPDX-License-Identifier: Apache-2.0
# What every file of this tier loads: the images as tests/images/prepare left them below $IMAGES_OUT.
load ../cli/helper

images=${IMAGES_OUT:-$top/build/images}
SBOM=usr/share/kmodsmith/sbom.spdx.json

in_root() { # NAME COMMAND...: as `run`, in the root of that image, with the environment of the image and nothing else
  local name=$1 environment
  shift
  mapfile -t environment < <(config_of "$name" '.config.Env[]')
  run --separate-stderr timeout 60 env -i "${environment[@]}" chroot "$images/$name/root" "$@"
}
member() { tar -xOf "$images/$1/oci.tar" "blobs/sha256/${2#sha256:}"; } # NAME DIGEST
manifest_of() { member "$1" "$(tar -xOf "$images/$1/oci.tar" index.json | jq -r '.manifests[0].digest')"; } # NAME
config_of() { member "$1" "$(manifest_of "$1" | jq -r .config.digest)" | jq -r "$2"; }                    # NAME FILTER
files_of() { (cd "$images/$1/root" && find . -type f -printf '%P\n' | sort); }                              # NAME

assert_no_file() { # NAME FIND-TEST...: nothing in the image's root is like that
  local name=$1
  shift
  run find "$images/$name/root" "$@"
  assert_output ""
}
