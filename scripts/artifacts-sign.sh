#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sign what scripts/artifacts.sh made: SHA256SUMS.sig, for openssl, and below signed/ each image, the chart and the compilers as a
# bundle with the signatures that `kmodsmith bundle verify` and cosign know, for `kmodsmith push`. FILE is a private key as PEM, of
# a kind that kmodsmith signs with; its password is KMODSMITH_KEY_PASSWORD. What is signed differs each time, and so SHA256SUMS does not list it.
#   scripts/artifacts-sign.sh DIR FILE
set -euo pipefail
dir=$(realpath -e "$1") key=$(realpath -e "$2")
# shellcheck source=images/common.bash
. "$(dirname "$0")/../images/common.bash"
version=$(sed -n 's/^VERSION := //p' Makefile) epoch=$(git log -1 --format=%ct)
type=application/vnd.oci.image bundle=application/vnd.kmodsmith.bundle.v1+json
created=$(date -u -d "@$epoch" +%FT%TZ) expires=$(date -u -d "@$((epoch + 10 * 365 * 24 * 60 * 60))" +%FT%TZ)
work=$(mktemp -d "$dir/.signed.XXXXXX")
trap 'rm -rf "$work"' EXIT

list() { # LAYOUT NAME: give the image its tag, and add the bundle's manifest, which says that the bundle is whole
  local layout=$1 entry=$work/entry
  jq --arg tag "$version" '.manifests[0].annotations["org.opencontainers.image.ref.name"] //= $tag' "$layout/index.json" >"$work/index"
  jq -c --arg kind "$2" --arg arch "$(uname -m)" --arg created "$created" --arg expires "$expires" '
    .manifests[0] | {promises: [{kind: $kind, arch: $arch, digest, tag: .annotations["org.opencontainers.image.ref.name"]}],
      images: [], created: $created, expires: $expires}' "$work/index" >"$entry"
  printf '{}' >"$work/empty"
  jq -nc --argjson config "{$(blob "$layout" "$work/empty")}" --argjson entry "{$(blob "$layout" "$entry")}" --arg type "$type" --arg bundle "$bundle" \
    '{schemaVersion: 2, mediaType: "\($type).manifest.v1+json", artifactType: $bundle,
      config: ({mediaType: "application/vnd.oci.empty.v1+json"} + $config), layers: [{mediaType: $bundle} + $entry]}' >"$work/manifest"
  jq -c --argjson manifest "{$(blob "$layout" "$work/manifest")}" --arg type "$type" --arg bundle "$bundle" \
    '.manifests += [{mediaType: "\($type).manifest.v1+json", artifactType: $bundle,
      annotations: {"org.opencontainers.image.ref.name": "kmodsmith-bundle"}} + $manifest]' "$work/index" >"$layout/index.json"
}
mkdir "$dir/signed"
for archive in "$dir"/*.oci.tar; do
  file=${archive##*/} layout=$work/layout
  mkdir "$layout" && tar -xf "$archive" -C "$layout"
  list "$layout" "$(sed -E 's/^kmodsmith-([a-z]+)-.*/\1/' <<<"$file")"
  tags=$(jq -r '[.manifests[].annotations["org.opencontainers.image.ref.name"] // empty] | join(",")' "$layout/index.json")
  build/release/kmodsmith sign "oci:$layout" --key "$key" --package "$tags" >/dev/null
  pack "$layout" "$epoch" "$dir/signed/$file"
  rm -rf "$layout"
done
openssl pkeyutl -sign -rawin -inkey "$key" ${KMODSMITH_KEY_PASSWORD:+-passin env:KMODSMITH_KEY_PASSWORD} -in "$dir/SHA256SUMS" -out "$dir/SHA256SUMS.sig"
