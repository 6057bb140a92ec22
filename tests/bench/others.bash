# shellcheck shell=bash disable=SC2154 # compile.sh sets jobs and work
# SPDX-License-Identifier: Apache-2.0
# What others do to compile the driver, for compile.sh: `dkms build`, and the steps of NVIDIA's driver container.

# at_installed ROOT COMMAND...: where the packages that are unpacked in ROOT seem to be installed. Only a private mount
# namespace sees it.
at_installed() {
  # shellcheck disable=SC2016 # expanded by the inner shell
  unshare --mount bash -euc '
    mount --bind "$0/usr/src" /usr/src
    mount -t overlay -o lowerdir="$0/lib:$0/usr/lib:/usr/lib" overlay /usr/lib
    exec "$@"' "$@"
}

# Debian's dkms with NVIDIA's source and dkms.conf as Debian packages them, both unpacked already, and a key to sign with, as
# dkms makes one once per machine.
dkms_prepare() { # DRIVER-VERSION
  local debs deb
  debs=$("$top/scripts/inputs.sh" dkms "nvidia-kernel-dkms=$1")
  for deb in $debs; do dpkg-deb --extract "$deb" "$work/dkms"; done
  openssl req -new -x509 -nodes -days 2 -subj "/CN=dkms" -newkey rsa:2048 -keyout "$work/dkms/mok.key" -outform DER \
    -out "$work/dkms/mok.pub" 2>/dev/null
}
dkms_build() { # HEADERS RELEASE: with what dkms_prepare has made
  local source
  source=$(basename "$work"/dkms/usr/src/nvidia-*)
  rm -rf "$work/dkms/tree"
  mkdir "$work/dkms/tree"
  mok_signing_key=$work/dkms/mok.key mok_certificate=$work/dkms/mok.pub \
    at_installed "$1" bash "$work/dkms/usr/sbin/dkms" build "${source%-*}/${source##*-}" -k "$2" -j "$jobs" \
    --sourcetree "$work/dkms/usr/src" --dkmstree "$work/dkms/tree"
}

# What the script `nvidia-driver init` of NVIDIA's container does up to the load (_install_prerequisites and
# _create_driver_package), step by step. Debian's source package stands for the .run. Left out: user space, apt's downloads, and
# mkprecompiled and nvidia-installer, which Debian has not; the second half of the linking is theirs. SYSOUT is here because
# Debian's headers are in two directories, where Ubuntu's are in one.
container_unpack() { # DEB
  dpkg-deb --extract "$1" "$work/container/deb" && mkdir "$work/container/kernel" &&
    tar -xf "$work"/container/deb/usr/src/*.tar.xz -C "$work/container/kernel" --strip-components=2
}
container_headers() { # DEB...
  local deb
  for deb; do dpkg-deb --extract "$deb" "$work/container/root"; done
}
container_kernel() { # DEB RELEASE
  dpkg-deb --extract "$1" "$work/container/image" && mv "$work/container/image/lib/modules/$2"/{modules.*,kernel} \
    "$work/container/root/lib/modules/$2" && depmod -b "$work/container/root" "$2"
}
container_make() { # RELEASE
  IGNORE_CC_MISMATCH=1 at_installed "$work/container/root" make -C "$work/container/kernel" -s -j "$jobs" \
    SYSSRC="/lib/modules/$1/source" SYSOUT="/lib/modules/$1/build" nv-linux.o nv-modeset-linux.o
}
container_link() {
  (cd "$work/container/kernel" && rm -f nvidia.ko nvidia-modeset.ko &&
    ld -d -r -o nvidia.ko ./nv-linux.o ./nvidia/nv-kernel.o_binary &&
    ld -d -r -o nvidia-modeset.ko ./nv-modeset-linux.o ./nvidia-modeset/nv-modeset-kernel.o_binary)
}
