# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Driver modules for guests: `package NAME KEY` prints a directory of .ko files of NVIDIA's source NAME (open, proprietary,
# tesla535, tesla470) for the kernel KEY.

compile_package() { # DIR DEB HEADERS RELEASE
  local dir=$1 deb=$2 tree=$3 release=$4 source=$1/source
  mkdir "$source" && dpkg-deb --extract "$deb" "$dir/deb" &&
    tar -xf "$dir"/deb/usr/src/*.tar.xz -C "$source" --strip-components=2 &&
    at_home "$tree" make -C "$source" -j2 modules SYSSRC="/usr/src/linux-headers-${release%-cloud-amd64}-common" \
      SYSOUT="/usr/src/linux-headers-$release" CONFIG_DEBUG_INFO_BTF_MODULES= &&
    strip -g "$source"/*.ko && mv "$source"/*.ko "$dir" && rm -rf "$source" "$dir/deb"
}

package() { # NAME KEY
  local deb tree release
  deb=$(of "${1^^}")
  tree=$(headers "$2")
  release=$(of "$2")
  cached "package-$1-$2" compile_package "$deb" "$tree" "$release"
}
