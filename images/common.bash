# shellcheck shell=bash disable=SC2034,SC2317 # what is set and defined here is used by those that read this file
# SPDX-License-Identifier: Apache-2.0
# What the scripts of the images share. They stand in the repository's root and write below $out: NAME/root (the files),
# NAME/root.tar (the same, reproducible) and NAME/oci.tar (the image).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
umask 022
export LC_ALL=C.UTF-8 TZ=UTC
out=${IMAGES_OUT:-build/images}
triplet=$(gcc -dumpmachine)
# Whose archives (.a) are in kmodsmith and kmodsmith-static: see ARCHIVE and STATIC in the Makefile.
linked=(libacl1-dev libarchive-dev libc6-dev libjansson-dev liblz4-dev liblzma-dev libseccomp-dev libssl-dev
  libzstd-dev nettle-dev zlib1g-dev)

environment=(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "TARGETARCH=$(dpkg --print-architecture)"
  DRIVER_TYPE=passthrough VGPU_LICENSE_SERVER_TYPE=NLS DISABLE_VGPU_VERSION_CHECK=true NVIDIA_VISIBLE_DEVICES=void)

fail() {
  echo "images: $*" >&2
  exit 1
}
skeleton() { # ROOT: an empty one with merged /usr; the links are relative, so that they hold when seen from outside
  local d
  rm -rf "$1"
  for d in bin sbin lib lib64; do
    mkdir -p "$1/usr/$d"
    ln -s "usr/$d" "$1/$d"
  done
}
unpack() { # ROOT DEB...: the files of the packages, and what is known of each below var/lib/dpkg; no script of them runs
  local root=$1 db=$1/var/lib/dpkg deb name
  shift
  mkdir -p "$db/status.d" "$db/info"
  for deb in "$@"; do
    name=$(dpkg-deb -f "$deb" Package)
    dpkg-deb --fsys-tarfile "$deb" | tar -C "$root" --keep-directory-symlink --no-same-owner -xpv |
      sed -E 's#^\./##; s#/$##; s#^(bin|sbin|lib|lib64)(/|$)#usr/\1\2#; /^$/d' >"$db/info/$name.list"
    { dpkg-deb -f "$deb"; echo "SHA256: $(sha256sum "$deb" | cut -d' ' -f1)"; } >"$db/status.d/$name"
  done
}
epoch_of() { # ROOT: when the newest file of its packages was made; the time of everything that is made from them
  [ -z "${SOURCE_DATE_EPOCH-}" ] || { echo "$SOURCE_DATE_EPOCH"; return; }
  find "$1/usr" -type f -printf '%T@\n' | sort -n | sed -n '$s/\..*//p'
}
size_of() { # ROOT: MiB of its files
  find "$1" -type f -printf '%s\n' | awk '{ s += $1 } END { printf "%.1f", s / 1048576 }'
}
digest_of() { # OCI-ARCHIVE: of the image's manifest
  tar -xOf "$1" index.json | jq -r '.manifests[0].digest'
}
describe() { # NAME EPOCH OPTION-OF-sbom.py...: what NAME/root is made of, and under which licences
  local name=$1 epoch=$2
  shift 2
  mkdir -p "$out/$name/root/usr/share/doc/kmodsmith"
  cp LICENSE "$out/$name/root/usr/share/doc/kmodsmith/copyright"
  PYTHONDONTWRITEBYTECODE=1 python3 images/sbom.py "$out/$name/root" --name "$name" --epoch "$epoch" \
    --version "$(sed -n 's/^VERSION := //p' Makefile)" --made etc/ssl/certs/ca-certificates.crt=ca-certificates --linked "${linked[@]}" "$@"
}
pack() { # ROOT EPOCH OUTPUT [NAME...]: a tar file of it, or of these; the same bytes for the same files
  [ $# -gt 3 ] || set -- "$@" .
  local above # the directories over a name, too: whoever unpacks it would make them with the time of that moment
  mapfile -t above < <(printf '%s\n' "${@:4}" | awk -F/ '{ p = $1; for (i = 2; i <= NF; i++) { print p; p = p "/" $i } }' | sort -u)
  find "$1" -newermt "@$2" -exec touch -h -d "@$2" {} +
  tar -C "$1" --sort=name --format=gnu --owner=0 --group=0 --numeric-owner -cf "$3.new" --no-recursion "${above[@]}" --recursion "${@:4}"
  mv "$3.new" "$3"
}
blob() { # LAYOUT FILE -> its digest and size, as fields of a descriptor; the file becomes a blob
  local sum
  sum=$(sha256sum <"$2" | cut -d' ' -f1)
  mv "$2" "$1/blobs/sha256/$sum"
  printf '"digest": "sha256:%s", "size": %s' "$sum" "$(stat -c %s "$1/blobs/sha256/$sum")"
}
layout() { # DIR TYPE FILE: of its blobs, with this file as the only entry
  local fields
  fields=$(blob "$1" "$3")
  echo '{"imageLayoutVersion":"1.0.0"}' >"$1/oci-layout"
  jq -nc --argjson m "{\"mediaType\": \"$2\", $fields}" '{schemaVersion: 2, manifests: [$m]}' >"$1/index.json"
}
