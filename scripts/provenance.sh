#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How the files of a release were made: an in-toto statement with SLSA's provenance predicate about each file of DIR, and about the
# image in each archive, of this checkout's commit. Nothing of the time, the host or a path is in it.
#   scripts/provenance.sh DIR IMAGE...
# shellcheck disable=SC2016 # dpkg-query expands them
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
dir=$1 && shift
subjects() { # DIGEST NAME
  local archive digest
  (cd "$dir" && sha256sum -- * | sed 's/  / /')
  for archive in "$dir"/*.oci.tar; do
    digest=$(tar -xOf "$archive" index.json | jq -er '.manifests[0].digest[7:]')
    basename "$archive" | sed -E "s/-[0-9]+\.[0-9]+\.[0-9]+.*//; s/^/$digest /"
  done
}
packages() { # NAME VERSION ARCHITECTURE, of this machine; those in the images are in their bills of materials
  { scripts/deps.sh --list build package man image | xargs dpkg-query -W -f '${db:Status-Abbrev}${Package} ${Version} ${Architecture}\n' 2>/dev/null || true; } |
    sed -n 's/^ii //p' | sort
}
subjects=$(subjects)
packages=$(packages)
jq -n --arg subjects "$subjects" --arg packages "$packages" --arg version "$(sed -n 's/^VERSION := //p' Makefile)" --arg arch "$(uname -m)" \
  --arg commit "$(git rev-parse HEAD)" --arg epoch "$(git log -1 --format=%ct)" --arg images "$*" --arg compiler "$(gcc --version | sed -n 1p)" \
  --arg system "$(sed -n 's/^PRETTY_NAME="\(.*\)"$/\1/p' /etc/os-release)" '
  def rows($text): $text | split("\n") | map(select(. != "") | split(" "));
  {_type: "https://in-toto.io/Statement/v1", subject: [rows($subjects)[] | {name: .[1], digest: {sha256: .[0]}}],
    predicateType: "https://slsa.dev/provenance/v1",
    predicate: {
      buildDefinition: {buildType: "https://kmodsmith.io/release/v1",
        externalParameters: {version: $version, images: ($images | split(" "))},
        internalParameters: {arch: $arch, system: $system, compiler: $compiler, sourceDateEpoch: $epoch},
        resolvedDependencies: ([{name: "source", digest: {gitCommit: $commit}}] +
          [rows($packages)[] | {uri: "pkg:deb/debian/\(.[0] | @uri)@\(.[1] | @uri)?arch=\(.[2])"}])},
      runDetails: {builder: {id: "https://kmodsmith.io/scripts/artifacts.sh"}}}}'
