#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Make an image, build/images/NAME/oci.tar, of a tar file; no registry is asked. buildah is taken, or else podman, docker.
#   images/oci.sh NAME EPOCH LAYER.tar ON [KEY=VALUE...]    ON: "scratch", or the oci.tar below the layer; KEY=VALUE
#                                                           goes into the environment
. "$(dirname "$0")/common.bash"
name=$1 epoch=$2 layer=$3 on=$4 archive=$out/$1/oci.tar
shift 4
work=$(mktemp -d "$out/.storage.XXXXXX")
trap 'rm -rf "$work"' EXIT
echo '{"default": [{"type": "insecureAcceptAnything"}]}' >"$work/policy.json" # what is read was made here
title=org.opencontainers.image.title=kmodsmith-$name

with_buildah() {
  local storage=(--root "$work/root" --runroot "$work/run" --storage-driver vfs) settings=() box value
  for value; do settings+=(--env "$value"); done
  [ "$on" = scratch ] || on=oci-archive:$on
  box=$(buildah "${storage[@]}" from -q --signature-policy "$work/policy.json" "$on")
  buildah "${storage[@]}" add -q "$box" "$layer" / >/dev/null
  buildah "${storage[@]}" config --entrypoint '["nvidia-driver"]' --cmd init --workingdir /drivers --user 0:0 \
    --created-by "kmodsmith images/$name" --label "$title" "${settings[@]}" "$box"
  buildah "${storage[@]}" commit -q --signature-policy "$work/policy.json" --disable-compression=false --format oci --timestamp "$epoch" "$box" \
    "oci-archive:$archive.new" >/dev/null
}
with_engine() { # PROGRAM SAVE-OPTION...: one layer, of the whole root
  local settings=() value engine=$1
  shift
  for value in 'ENTRYPOINT ["nvidia-driver"]' 'CMD ["init"]' 'WORKDIR /drivers' 'USER 0:0' "LABEL $title"; do
    settings+=(--change "$value")
  done
  for value in "${environment[@]}"; do settings+=(--change "ENV $value"); done
  "$engine" import "${settings[@]}" "$out/$name/root.tar" "localhost/kmodsmith-$name:made" >/dev/null
  "$engine" save "$@" -o "$archive.new" "localhost/kmodsmith-$name:made"
}
environment=("$@")
rm -f "$archive.new"
if type -P buildah >/dev/null; then
  with_buildah "$@"
elif type -P podman >/dev/null; then
  with_engine podman --format oci-archive
elif type -P docker >/dev/null; then
  with_engine docker
else
  fail "an image needs buildah, podman or docker, and none is installed; $out/$name/root.tar is the root of it"
fi
mv "$archive.new" "$archive"
