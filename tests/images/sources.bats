#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# R-J2: the sources that a driver image carries are what the images of GPUDirect Storage and GDRCopy look for in the exported root:
# usr/src/nvidia-VERSION, in which `make` gives the Module.symvers that nvidia-fs is compiled with. With CHECK=check the driver of
# one file (tests/vm/driver) is made in their place, which takes seconds; else NVIDIA's, minutes.
# shellcheck disable=SC2016,SC2030,SC2031,SC2154 # bats runs each test in a subshell, sets status, output and stderr
load helper

setup() {
  [ "$(id -u)" -eq 0 ] || skip "only root can chroot"
  cd "$top" || return
  sources=$images/driver/root/usr/share/kmodsmith/payload/root/usr/src/nvidia-$DRIVER work=$BATS_TEST_TMPDIR
}
# With the compilers of the builder image, whose root gets the headers as if they were installed there, and nothing else:
# other tests look at it meanwhile.
make_sources() { # RELEASE DIRECTORY
  unshare -m --propagation private bash -euc '
    mount --bind "$1" "$2/root"
    mount -o remount,bind,ro "$2/root"
    mount -t tmpfs tmp "$2/root/tmp"
    mount -t overlay -o "lowerdir=$2/headers/usr:$1/usr" headers "$2/root/usr"
    mount --bind "$2/sources" "$2/root/mnt"
    mount --rbind /dev "$2/root/dev"
    mount -t proc proc "$2/root/proc"
    exec chroot "$2/root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin make -C "/mnt/$4" -j"$(nproc)" modules NV_KERNEL_MODULES=nvidia \
      SYSSRC="/usr/src/linux-headers-${3%-cloud-amd64}-common" SYSOUT="/usr/src/linux-headers-$3"
  ' - "$images/builder/root" "$work" "$@"
}

one_file() { # the driver of one file has what nvidia-fs calls, too
  local symbol
  cp -r "$top/tests/vm/driver" "$work/sources"
  for symbol in "${symbols[@]}"; do
    grep -qF "EXPORT_SYMBOL($symbol);" "$work/sources/kernel/nvidia/nv.c" ||
      printf 'int %s(void);\nint %s(void)\n{\n\treturn 0;\n}\nEXPORT_SYMBOL(%s);\n' "$symbol" "$symbol" "$symbol"
  done >"$work/more.c"
  cat "$work/more.c" >>"$work/sources/kernel/nvidia/nv.c"
}

@test "the sources in the driver image are where nvidia-fs and gdrcopy look for them" {
  run find "$sources" -name nv-p2p.h
  assert_line --regexp "^$sources/kernel(-open)?/nvidia/nv-p2p.h\$"
  run find "$sources" -name nv-p2p.c
  assert_line --regexp "^$sources/kernel(-open)?/nvidia/nv-p2p.c\$"
}
@test "make in a copy of the driver's sources gives Module.symvers with what nvidia-fs calls" {
  local K61R K61R_HEADERS deb symbol directory symbols=(nvidia_p2p_{get_pages,put_pages,dma_map_pages,dma_unmap_pages,free_page_table})
  eval "$(scripts/inputs.sh | grep ^K61R)"
  mkdir "$work"/{root,headers}
  if [ "${CHECK-}" = check ]; then one_file; else cp -r "$sources" "$work/sources"; fi
  for deb in $K61R_HEADERS; do dpkg-deb --extract "$deb" "$work/headers"; done
  directory=$(cd "$work/sources" && echo kernel*)
  run make_sources "$K61R" "$directory"
  assert_success
  for symbol in "${symbols[@]}"; do
    run grep -cE "^0x[0-9a-f]{8}"$'\t'"$symbol"$'\t' "$work/sources/$directory/Module.symvers"
    assert_output 1
  done
}
