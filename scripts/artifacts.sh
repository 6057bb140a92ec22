#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All that a release publishes, in one folder, made from a fresh clone of the commit that is checked out: the tarball of the static
# program, packages, images, the chart as a file and as an image, what each is made of (SPDX), how all was made (provenance.json)
# and SHA256SUMS. The same commit gives the same bytes on each machine with the same packages.
#   scripts/artifacts.sh [--key FILE] DIR [IMAGE...]    default: runtime builder. --key: scripts/artifacts-sign.sh
# The third image, driver, has NVIDIA's user space: for a registry of one's own; its licence says what else is allowed.
# docs/releasing.md says what each file is for, docs/trust.md how somebody who downloads it verifies it.
set -euo pipefail
umask 022
fail() { echo "artifacts: $*" >&2; exit 1; }
usage="usage: scripts/artifacts.sh [--key FILE] DIR [IMAGE...]" key=
[ "${1-}" != --key ] || { key=$(realpath -e "${2?$usage}") && shift 2; }
[[ ${1--} != -* ]] || fail "$usage"
dir=$(realpath -m "$1")
shift
[ $# -gt 0 ] || set -- runtime builder
for name; do [[ $name =~ ^(runtime|builder|driver)$ ]] || fail "there is no image '$name'; $usage"; done
[ ! -e "$dir" ] || fail "'$dir' is there already"
[ -z "$key" ] || openssl pkey -in "$key" ${KMODSMITH_KEY_PASSWORD:+-passin env:KMODSMITH_KEY_PASSWORD} -noout ||
  fail "'$key' is no private key, or KMODSMITH_KEY_PASSWORD is not its password"
cd "$(dirname "$0")/.."
[ -z "$(git status --porcelain)" ] || echo "artifacts: what is not committed is not in them" >&2

commit=$(git rev-parse HEAD) work=$dir.work
trap 'rm -rf "$work"' EXIT
rm -rf "$work" && mkdir -p "$work/made"
git clone -q "$PWD" "$work/source"
cd "$work/source"
git checkout -q --detach "$commit"
export SOURCE_DATE_EPOCH LC_ALL=C.UTF-8 TZ=UTC
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
unset IMAGES_OUT KMODSMITH_BASE ROOT_ONLY MAKEFLAGS MAKELEVEL MFLAGS B MODE
version=$(sed -n 's/^VERSION := //p' Makefile) machine=$(uname -m) images=build/images

image() { # NAME
  local options=() file=$work/made/kmodsmith-$1-$version.$machine
  [ "$1" != driver ] || options=(--builder -)
  scripts/images.sh "$1" "${options[@]}"
  cp "$images/$1/oci.tar" "$file.oci.tar"
  cp "$images/$1/root/usr/share/kmodsmith/sbom.spdx.json" "$file.spdx.json"
}
make -s -j"$(nproc)" all static man >/dev/null
make -s deb rpm tarball >/dev/null
cp build/packages/* "$work/made/"
images/program.sh "build/packages/kmodsmith-$version.$machine.tar.gz" "$work/made/kmodsmith-program-$version.$machine.spdx.json"
images/chart.sh
cp "$images"/chart/*.tgz "$work/made/"
cp "$images/chart/oci.tar" "$work/made/kmodsmith-chart-$version.oci.tar"
for name; do image "$name"; done
# Nodes without a compiler fetch it by the digest that the driver image names.
[ ! -e "$images/builder/asset" ] || tar -C "$images/builder/asset" --sort=name --format=gnu --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
  --mode=u=rw,go=r,a+X -cf "$work/made/kmodsmith-compilers-$version.$machine.oci.tar" blobs index.json oci-layout
scripts/provenance.sh "$work/made" "$@" >"$work/provenance.json"
mv "$work/provenance.json" "$work/made/"
(cd "$work/made" && sha256sum -- *) >"$work/SHA256SUMS"
mv "$work/SHA256SUMS" "$work/made/"
if [ -n "$key" ]; then scripts/artifacts-sign.sh "$work/made" "$key"; else echo "artifacts: no --key, nothing is signed" >&2; fi
mv "$work/made" "$dir"
ls -l "$dir"
