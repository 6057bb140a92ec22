#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Make an image of one layer, an oci-archive, of a tar file; no registry is asked. buildah is taken, else podman or docker.
#   images/layer.sh TAR OUTPUT
# shellcheck source=images/common.bash
. "$(dirname "$0")/common.bash"
tar=$1 output=$2 name=localhost/kmodsmith-layer:made
work=$(mktemp -d "$out/.storage.XXXXXX")
trap 'rm -rf "$work"' EXIT

with_buildah() {
  local storage=(--root "$work/root" --runroot "$work/run" --storage-driver vfs) box
  box=$(buildah "${storage[@]}" from -q scratch)
  buildah "${storage[@]}" add -q "$box" "$tar" / >/dev/null
  echo '{"default": [{"type": "insecureAcceptAnything"}]}' >"$work/policy.json" # what is read was made here
  # The time is that of the description of the image, which oci.sh replaces; --timestamp would also be that of the files.
  buildah "${storage[@]}" commit -q --signature-policy "$work/policy.json" --disable-compression=false --format oci \
    "$box" "oci-archive:$work/made.tar" >/dev/null
}
with_engine() { # PROGRAM SAVE-OPTION...
  local engine=$1
  shift
  "$engine" import -q "$tar" "$name" >/dev/null
  "$engine" save "$@" -o "$work/made.tar" "$name"
  "$engine" rmi "$name" >/dev/null
}
if type -P buildah >/dev/null; then
  with_buildah
elif type -P podman >/dev/null; then
  with_engine podman --format oci-archive
elif type -P docker >/dev/null; then
  with_engine docker
else
  fail "an image needs buildah, podman or docker, and none is installed; '$tar' has the files of the layer"
fi
mv "$work/made.tar" "$output"
