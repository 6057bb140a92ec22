#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One archive of the images of several architectures, which is pushed as one: an image index of OCI's image format. Each is made
# on a machine of its architecture. The same images give the same bytes.
#   images/index.sh OUTPUT ARCHIVE ARCHIVE...
# shellcheck source=images/common.bash
. "$(dirname "$0")/common.bash"
[ $# -ge 3 ] || fail "usage: scripts/images.sh index OUTPUT ARCHIVE ARCHIVE..."
output=$1
shift
[ ! -e "$output" ] || fail "'$output' is there already: name the archives after it"
mkdir -p "$out"
work=$(mktemp -d "$out/.index.XXXXXX")
trap 'rm -rf "$work"' EXIT
newest=0
for archive; do
  manifest=$(tar -xOf "$archive" index.json | jq -c '.manifests[0]') || fail "'$archive' is no image"
  digest=$(jq -r .digest <<<"$manifest")
  tar -C "$work" --transform 's,^\./,,' -xf "$archive" --wildcards '*blobs/sha256/*'
  config=$(jq -r .config.digest "$work/blobs/sha256/${digest#sha256:}")
  config=$work/blobs/sha256/${config#sha256:}
  created=$(date -d "$(jq -r .created "$config")" +%s)
  ((created <= newest)) || newest=$created
  jq -c --argjson manifest "$manifest" '$manifest + {platform: {architecture, os}}' "$config" >>"$work/manifests"
done
twice=$(jq -r '.platform | "\(.os)/\(.architecture)"' "$work/manifests" | sort | uniq -d)
[ -z "$twice" ] || fail "more than one of these images is for ${twice//$'\n'/, }"
type=application/vnd.oci.image.index.v1+json
jq -sc --arg type "$type" '{schemaVersion: 2, mediaType: $type, manifests: .}' "$work/manifests" >"$work/made.json"
rm "$work/manifests"
layout "$work" "$type" "$work/made.json"
pack "$work" "$newest" "$output" blobs index.json oci-layout
