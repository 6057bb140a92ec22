#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packages of what was built, in build/packages: for this distribution and newer ones, whose libraries they name; the tarball is static.
#   scripts/package.sh deb|rpm|tarball BUILD [PREFIX of the tarball]
set -euo pipefail
cd "$(dirname "$0")/.." && umask 022
kind=${1?usage: scripts/package.sh deb|rpm|tarball BUILD} build=$2 out=$PWD/build/packages machine=$(uname -m) prefix=/usr static=
[ "$kind" != tarball ] || prefix=${3:-/usr/local} static=-static
version=$(sed -n 's/^VERSION := //p' Makefile)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}
export SOURCE_DATE_EPOCH LC_ALL=C.UTF-8 TZ=UTC
work=$(mktemp -d) && tree=$work/tree && trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
summary="NVIDIA kernel driver: proven, then loaded, and ready for the next kernel"
description="It fetches or compiles nvidia.ko and its siblings, proves that they fit the kernel, and only then touches the running driver."

fill_tree() {
  scripts/install.sh "$build" "$prefix" "$tree"
  strip -R .note.gnu.build-id -o "$tree$prefix/bin/kmodsmith" "$build/kmodsmith$static"
  find "$tree$prefix/share/man" "$tree$prefix/share/doc/kmodsmith/CHANGELOG.md" -type f -exec gzip -9n {} +
}
same_time() { find "$tree" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +; }

# libcurl, libyaml and libmicrohttpd are loaded when they are needed, so that none is among the libraries that the program names.
deb() {
  local arch size && arch=$(dpkg --print-architecture) && size=$(find "$tree" -type f -printf '%s\n' | awk '{ n += int(($1 + 1023) / 1024) } END { print n }')
  mkdir -p "$tree/DEBIAN" "$work/debian" && echo "Source: kmodsmith" >"$work/debian/control"
  {
    printf '%s: %s\n' Package kmodsmith Version "$version" Architecture "$arch" Section admin Priority optional Installed-Size "$size" Maintainer "kmodsmith <root@localhost>"
    (cd "$work" && dpkg-shlibdeps -O -etree/usr/bin/kmodsmith) | sed 's/^shlibs:Depends=/Depends: kmod, libcurl4 | libcurl4t64, libyaml-0-2, /'
    printf '%s: %s\n' Recommends "gcc, make, libmicrohttpd12 | libmicrohttpd12t64" Description "$summary"
    echo " $description"
  } >"$tree/DEBIAN/control"
  (cd "$tree" && find etc -type f -printf '/%p\n' | sort) >"$tree/DEBIAN/conffiles"
  install -m 755 packaging/deb/* "$tree/DEBIAN/"
  same_time
  dpkg-deb --root-owner-group -Zxz --build "$tree" "$out/kmodsmith_${version}_$arch.deb" >/dev/null
  echo "$out/kmodsmith_${version}_$arch.deb"
}
rpm() {
  same_time
  rpmbuild -bb --quiet --target "$machine" --define "_topdir $work/rpm" --define "_version $version" --define "_tree $tree" \
    --define "_summary $summary" --define "_words $description" --define "_rpmdir $out" --define "_buildhost localhost" \
    --define "_rpmfilename %%{NAME}-%%{VERSION}.%%{ARCH}.rpm" packaging/kmodsmith.spec >&2
  echo "$out/kmodsmith-$version.$machine.rpm"
}
# Unpacked over a system it changes nothing there: of directories it has our own alone, and its configuration is a sample.
tarball() {
  rm "$tree$prefix"/bin/kubectl*-kmodsmith # the static program reaches no cluster
  mv "$tree/etc/kmodsmith/kmodsmith.conf" "$tree$prefix/share/doc/kmodsmith/"
  same_time
  (cd "$tree" && find . \( ! -type d -o -path '*/kmodsmith*' \) -printf '%P\n' | sort | tar -cf - --no-recursion --owner=0 --group=0 --numeric-owner -T -) |
    gzip -9n >"$out/kmodsmith-$version.$machine.tar.gz"
  echo "$out/kmodsmith-$version.$machine.tar.gz"
}
for program in strip dpkg-deb dpkg-shlibdeps rpmbuild; do
  [[ $kind.$program = rpm.dpkg-* || $kind.$program = deb.rpmbuild || $kind.$program = tarball.[dr]* ]] || type -P "$program" >/dev/null ||
    { echo "package: there is no '$program'; run scripts/deps.sh package" >&2 && exit 1; }
done
case $kind in deb | rpm | tarball) fill_tree && "$kind" ;; *) echo "package: '$kind' is neither deb nor rpm nor tarball" >&2 && exit 2 ;; esac
