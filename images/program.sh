#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The bill of materials of the tarball: its files, and the libraries of which the static program has a part.
#   images/program.sh TARBALL OUTPUT
# shellcheck source=images/common.bash
. "$(dirname "$0")/common.bash"
root=$out/program
rm -rf "$root"
mkdir -p "$root"
tar -xzf "$1" -C "$root"
PYTHONDONTWRITEBYTECODE=1 python3 images/sbom.py "$root" --name program --version "$(sed -n 's/^VERSION := //p' Makefile)" \
  --epoch "${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}" --purpose APPLICATION --linked "${linked[@]}"
cp "$root/usr/share/kmodsmith/sbom.spdx.json" "$2"
