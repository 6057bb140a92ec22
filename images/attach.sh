#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Attach the bill of materials that is in each image of an archive to that image in a registry, as a manifest that refers to it:
# where programs look that read such (`oras discover`, `regctl artifact list`). A second time changes nothing.
#   images/attach.sh ARCHIVE docker://REPOSITORY    docker+http:// for one without TLS
# shellcheck source=images/common.bash
. "$(dirname "$0")/common.bash"
archive=$1 repository=$2
mkdir -p "$out"
work=$(mktemp -d "$out/.attach.XXXXXX")
trap 'rm -rf "$work"' EXIT
type=application/vnd.oci.image spdx=application/spdx+json

member() { tar -xOf "$archive" --wildcards "*blobs/sha256/${1#sha256:}"; } # DIGEST
images_in() { # -> their descriptors, a line each
  local one
  one=$(tar -xOf "$archive" index.json | jq -c '.manifests[0]')
  if [ "$(jq -r .mediaType <<<"$one")" = $type.index.v1+json ]; then member "$(jq -r .digest <<<"$one")" | jq -c '.manifests[]'; else echo "$one"; fi
}
bill_in() { # DIGEST FILE: of the highest layer that has one
  local layer
  for layer in $(member "$1" | jq -r '.layers | reverse[].digest'); do
    ! member "$layer" | gzip -cdf | tar -xO --wildcards '*usr/share/kmodsmith/sbom.spdx.json' >"$2" 2>/dev/null || return 0
  done
  fail "the image $1 has no usr/share/kmodsmith/sbom.spdx.json"
}
images_in >"$work/images"
while read -r image; do
  dir=$work/$(jq -r .digest <<<"$image")
  mkdir -p "$dir/blobs/sha256"
  bill_in "$(jq -r .digest <<<"$image")" "$work/bill"
  printf '{}' >"$work/empty"
  jq -nc --argjson image "$image" --argjson empty "{$(blob "$dir" "$work/empty")}" --argjson bill "{$(blob "$dir" "$work/bill")}" \
    --arg type $type --arg spdx $spdx '{schemaVersion: 2, mediaType: "\($type).manifest.v1+json", artifactType: $spdx,
      config: ({mediaType: "application/vnd.oci.empty.v1+json"} + $empty), layers: [{mediaType: $spdx} + $bill],
      subject: ($image | {mediaType, digest, size})}' >"$work/made"
  layout "$dir" $type.manifest.v1+json "$work/made"
  build/release/kmodsmith push -q --tag "$(jq -r '.manifests[0].digest' "$dir/index.json")" "oci:$dir" "$repository" >/dev/null
done <"$work/images"
