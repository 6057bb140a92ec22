#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Helm chart below build/images/chart: kmodsmith-VERSION.tgz, as `helm package` names it, and oci.tar, the same as `helm push`
# puts it into a registry. The same files give the same bytes.
#   images/chart.sh
# shellcheck source=images/common.bash
. "$(dirname "$0")/common.bash"
version=$(sed -n 's/^VERSION := //p' Makefile) here=$out/chart
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
rm -rf "$here" && mkdir -p "$here/layout/blobs/sha256"
cp -rL deploy/helm/kmodsmith "$here/kmodsmith" # the files that are links into deploy/ as files
chart=$here/kmodsmith-$version.tgz
{ echo kmodsmith/Chart.yaml && find "$here/kmodsmith" -type f -printf 'kmodsmith/%P\n' | grep -vx kmodsmith/Chart.yaml | sort; } |
  tar -C "$here" --format=gnu --owner=0 --group=0 --numeric-owner --mode=644 --mtime="@$epoch" -cf - -T - | gzip -9n >"$chart"
python3 -c 'import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout, sort_keys=True)' \
  <"$here/kmodsmith/Chart.yaml" >"$here/config.json"
cp "$chart" "$here/content"
type=application/vnd.oci.image helm=application/vnd.cncf.helm
jq -nc --argjson about "$(<"$here/config.json")" --arg when "$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)" --arg type $type --arg helm $helm \
  --argjson config "{$(blob "$here/layout" "$here/config.json")}" --argjson content "{$(blob "$here/layout" "$here/content")}" \
  '{schemaVersion: 2, mediaType: "\($type).manifest.v1+json", config: ({mediaType: "\($helm).config.v1+json"} + $config),
    layers: [{mediaType: "\($helm).chart.content.v1.tar+gzip"} + $content],
    annotations: ({title: $about.name, version: $about.version, description: $about.description, created: $when} |
      with_entries(.key |= "org.opencontainers.image." + .))}' >"$here/made.json"
layout "$here/layout" $type.manifest.v1+json "$here/made.json"
pack "$here/layout" "$epoch" "$here/oci.tar" blobs index.json oci-layout
rm -rf "$here"/{layout,kmodsmith}
