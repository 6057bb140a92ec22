#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Make an image, an oci-archive, of layers that layer.sh made, the lowest first. The same layers give the same bytes.
#   images/oci.sh NAME EPOCH OUTPUT LAYER... [KEY=VALUE...]    KEY=VALUE goes into the environment
# shellcheck source=images/common.bash
. "$(dirname "$0")/common.bash"
name=$1 epoch=$2 output=$3
shift 3
work=$(mktemp -d "$out/.oci.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/layout/blobs/sha256"
blobs=$work/layout/blobs/sha256

member() { # ARCHIVE DIGEST
  tar -xOf "$1" "blobs/sha256/${2#sha256:}"
}
layers=() environment=()
for argument; do
  case $argument in
  *=*) environment+=("$argument") ;;
  *) layers+=("$argument") ;;
  esac
done
for layer in "${layers[@]}"; do
  member "$layer" "$(tar -xOf "$layer" index.json | jq -r '.manifests[0].digest')" >"$work/manifest"
  jq -c '.layers[]' "$work/manifest" >>"$work/layers"
  member "$layer" "$(jq -r .config.digest "$work/manifest")" | jq -c '.rootfs.diff_ids[]' >>"$work/diff_ids"
  for digest in $(jq -r '.layers[].digest' "$work/manifest"); do member "$layer" "$digest" >"$blobs/${digest#sha256:}"; done
done
printf '%s\n' "${environment[@]}" | jq -nRc --arg name "$name" --arg arch "$(dpkg --print-architecture)" \
  --arg when "$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)" --slurpfile ids "$work/diff_ids" '{
    created: $when, architecture: $arch, os: "linux",
    config: {User: "0:0", Env: [inputs], Entrypoint: ["nvidia-driver"], Cmd: ["init"], WorkingDir: "/drivers",
      Labels: {"org.opencontainers.image.title": "kmodsmith-\($name)"}},
    rootfs: {type: "layers", diff_ids: $ids},
    history: [$ids[] | {created: $when, created_by: "kmodsmith images"}]}' >"$work/config.json"
config=$(blob "$work/layout" "$work/config.json")
type=application/vnd.oci.image
jq -nc --argjson config "{\"mediaType\": \"$type.config.v1+json\", $config}" --slurpfile layers "$work/layers" \
  --arg type "$type.manifest.v1+json" '{schemaVersion: 2, mediaType: $type, config: $config, layers: $layers}' >"$work/made.json"
layout "$work/layout" "$type.manifest.v1+json" "$work/made.json"
pack "$work/layout" "$epoch" "$output" blobs index.json oci-layout
