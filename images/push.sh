#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Publish one image, or an index of several, under many tags: its blobs are sent once, and every tag has to answer with the image's own digest.
#   images/push.sh ARCHIVE docker://REPOSITORY --tags TAG,... [--plain-http]     --tags - reads them, one a line
# shellcheck source=images/common.bash
. "$(dirname "$0")/common.bash"
usage="usage: scripts/images.sh push ARCHIVE docker://REPOSITORY --tags TAG,... [--plain-http]"
archive=${1-} repository=${2-} tags='' tls=true
[ $# -ge 2 ] || fail "$usage"
shift 2
while [ $# -gt 0 ]; do
  case $1 in
  --tags) tags=${2-} && shift ;;
  --plain-http) tls=false ;;
  *) fail "$usage" ;;
  esac
  shift
done
[[ $repository = docker://*/* ]] || fail "'$repository' is no docker://REPOSITORY; $usage"
[ "$tags" != - ] || tags=$(paste -sd,)
[ -n "$tags" ] || fail "$usage"
type -P skopeo >/dev/null || fail "publishing needs skopeo; run scripts/deps.sh publish"
digest=$(digest_of "$archive") || fail "'$archive' is no image"

for tag in ${tags//,/ }; do
  skopeo --insecure-policy copy -q --all --preserve-digests --dest-tls-verify=$tls "oci-archive:$archive" "$repository:$tag"
  there=sha256:$(skopeo inspect --raw --tls-verify=$tls "$repository:$tag" | sha256sum | cut -d' ' -f1)
  [ "$there" = "$digest" ] || fail "$repository:$tag is $there, not $digest"
  echo "$repository:$tag $digest"
done
[ $tls = true ] || repository=docker+http://${repository#docker://}
images/attach.sh "$archive" "$repository" || echo "images: the bill of materials of '$archive' is not attached to it in the registry" >&2
