#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Make an image, build/images/NAME/oci.tar (an oci-archive), of build/images/NAME/root.tar. No registry is asked.
#   images/oci.sh NAME EPOCH [--on NAME] [KEY=VALUE...]    a layer on that image, or alone; KEY=VALUE into its environment
. "$(dirname "$0")/common.bash"
name=$1 epoch=$2 on=scratch
shift 2
[ "${1-}" != --on ] || { on=oci-archive:$out/$2/oci.tar; shift 2; }
work=$(mktemp -d "$out/.storage.XXXXXX")
trap 'rm -rf "$work"' EXIT
echo '{"default": [{"type": "insecureAcceptAnything"}]}' >"$work/policy.json" # what is read was made here

with_buildah() {
  local storage=(--root "$work/root" --runroot "$work/run" --storage-driver vfs) settings=() box
  for value; do settings+=(--env "$value"); done
  box=$(buildah "${storage[@]}" from -q --signature-policy "$work/policy.json" "$on")
  buildah "${storage[@]}" add -q "$box" "$out/$name/root.tar" / >/dev/null
  buildah "${storage[@]}" config --entrypoint '["nvidia-driver"]' --cmd init --workingdir /drivers --user 0:0 \
    --created-by "kmodsmith images/$name" --label org.opencontainers.image.title="kmodsmith-$name" "${settings[@]}" "$box"
  buildah "${storage[@]}" commit -q --signature-policy "$work/policy.json" --format oci --timestamp "$epoch" "$box" \
    "oci-archive:$out/$name/oci.tar.new" >/dev/null
}
