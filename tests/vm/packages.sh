# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Driver modules for guests: `package NAME KEY` prints a directory of .ko files of NVIDIA's source NAME (open, proprietary,
# tesla535, tesla470) for the kernel KEY.

compile_package() { # DIR DEB HEADERS RELEASE
  local dir=$1 deb=$2 tree=$3 release=$4 source
  source=$(mktemp -d)
  dpkg-deb --extract "$deb" "$source"
  tar -xf "$source"/usr/src/*.tar.xz -C "$source" --strip-components=2
  at_home "$tree" make -C "$source" -j2 modules SYSSRC="/usr/src/linux-headers-${release%-cloud-amd64}-common" \
    SYSOUT="/usr/src/linux-headers-$release"
  strip -g "$source"/*.ko
  mv "$source"/*.ko "$dir"
  rm -rf "$source"
}

package() { # NAME KEY
  cached "package-$1-$2" compile_package "$(of "${1^^}" "")" "$(headers "$2")" "$(of "$2" "")"
}
