#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Boot Debian's arm64 kernel in QEMU, without KVM, with two simulated GPUs: kmodsmith compiled for arm64 installs NVIDIA's open modules
# that kmodsmith of this machine cross-compiled, and unloads them again. Prints what tests/vm/arm64.guest.sh does, with the kernel's log.
# Needs root, scripts/arm64.sh and `make`; the first time it compiles for some minutes, then it takes one. Ends with one line of TAP.
set -euo pipefail
# shellcheck source=tests/vm/cache.sh
. "$(dirname "$0")/../tests/vm/cache.sh"
# shellcheck source=tests/vm/packages.sh
. "$here/packages.sh"
cd "$top"
scripts/arm64.sh -- true || { [ $? -eq 3 ] && exit; }
release=$(of K61)
release=${release%amd64}arm64
debs=$(KMODSMITH_INPUTS_ARCH=arm64 scripts/inputs.sh "linux-image-$release" "linux-headers-$release" nvidia-open-kernel-source)
deb() { grep "/$1_" <<<"$debs"; }
# Of this machine's headers only what the kernels of both architectures share.
headers="$(deb "linux-headers-$release") $(of K61 _HEADERS | tr ' ' '\n' | grep -e -common_ -e linux-kbuild | paste -sd' ')"
source=$(deb nvidia-open-kernel-source)
root=$cache/roots/arm64 libraries=usr/lib/aarch64-linux-gnu

compile_arm64_modules() { # DIR HEADERS RELEASE SOURCE...
  local make=(make -C "/usr/src/linux-headers-$3" M="$1" ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu- CONFIG_DEBUG_INFO_BTF_MODULES= modules)
  cp "${@:4}" "$1" && at_home "$2" "${make[@]}" && aarch64-linux-gnu-strip -g "$1"/*.ko
}
add_libraries() { # ROOT FILE: and those that they need
  local name
  readelf -d "$2" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | while read -r name; do
    [ ! -e "$1/$libraries/$name" ] || continue
    cp -L "$root/$libraries/$name" "$1/$libraries/"
    add_libraries "$1" "$root/$libraries/$name"
  done
}

# shellcheck disable=SC2086 # several paths
tree=$(cached headers-arm64 unpack $headers)
image=$(cached kernel-arm64 unpack_kernel "$release" "$(deb "linux-image-$release")")
modules=$(cached modules-arm64 compile_arm64_modules "$tree" "$release" tests/vm/modules/{Kbuild,*.c})
package=$(cached package-arm64 compile_package "$source" "$headers" "$release" open "$(builder)")
version=$(sed -E 's/.*_([0-9.]+)-[^_]*_[^_]*\.deb$/\1/' <<<"$source")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/root/{bin,dev,proc,sys,run,tmp,var,root,boot,vm,usr/bin,"$libraries","usr/lib/firmware/nvidia/$version","usr/lib/modules/$release"}
cd "$work/root"
cp "$root/usr/bin/busybox" "$top/build/arm64/kmodsmith" usr/bin
ln -s usr/lib lib && ln -s ../usr/bin/busybox bin/busybox
cp -L "$root/usr/lib/ld-linux-aarch64.so.1" usr/lib
add_libraries . usr/bin/kmodsmith
cp -r "$package/layout" package
cp "$modules"/fake{gpu,open}.ko vm
cp "$image/boot"/{vmlinuz,config}-"$release" boot
cp "$image/lib/modules/$release"/modules.* "usr/lib/modules/$release"
for file in gsp_tu10x gsp_ga10x; do echo placeholder >"usr/lib/firmware/nvidia/$version/$file.bin"; done
install "$here/arm64.guest.sh" init
find . -print0 | cpio --null --create --format=newc --quiet >../initrd
timeout 600 qemu-system-aarch64 -machine virt -cpu cortex-a72 -smp 2 -m 2G -nodefaults -display none -no-reboot -serial stdio \
  -kernel "boot/vmlinuz-$release" -initrd ../initrd -append "console=ttyAMA0 mem=1536M panic=-1 oops=panic cryptomgr.notests" \
  </dev/null | tee ../log
grep -q "^guest: exit 0" ../log || { echo "not ok 1 - arm64's kernel" && exit 1; }
echo "ok 1 - arm64's kernel loads, opens and unloads cross-compiled modules"
