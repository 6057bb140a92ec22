#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A kernel image on a machine without headers: read once for each build of the kernel, and never taken for another one.
# shellcheck disable=SC2153,SC2154 # bats and helper.bash set stderr, top and ROOT
load helper
load package

kernel=6.1.0-56-cloud-amd64
proven="CRCs equal boot/vmlinuz-$kernel"

# Made by the linker, which gives it a build id; the running kernel says the same id in its notes.
image() { # CRC-OF-KFREE [and is not the kernel that runs]
  local dir=$BATS_TEST_TMPDIR/image
  mkdir -p "$dir" "$ROOT/boot" "$ROOT/sys/kernel"
  cat >"$dir/vmlinux.s" <<END
  .section .rodata, "a"
  .asciz "Linux version $kernel (me@there) (gcc) #1 SMP\\n"
layout: .asciz "module_layout"
kfree: .asciz "kfree"
other: .asciz "dma_buf_get"
  .section __ksymtab, "a"
  .long 0, layout - ., 0, 0, kfree - ., 0
  .section __kcrctab, "a"
  .long 1, $1
  .section __ksymtab_gpl, "a"
  .long 0, other - ., 0
  .section __kcrctab_gpl, "a"
  .long 4
END
  x86_64-linux-gnu-gcc -nostdlib -static -Wl,--build-id=sha1,-e0 -o "$dir/vmlinux" "$dir/vmlinux.s"
  x86_64-linux-gnu-objcopy --rename-section .note.gnu.build-id=.notes "$dir/vmlinux" "$ROOT/boot/vmlinuz-$kernel"
  [ -n "${2-}" ] || x86_64-linux-gnu-objcopy -O binary -j .notes "$ROOT/boot/vmlinuz-$kernel" "$ROOT/sys/kernel/notes"
}
setup() {
  package=$BATS_TEST_TMPDIR/package
  loadable
  entries=$ROOT/var/lib/kmodsmith/cache/kernels
  mkdir -p "$ROOT/lib/modules/$kernel" "$package.d"
  printf 'CONFIG_%s=y\n' MODULES X86_64 SMP PREEMPT_BUILD MODULE_UNLOAD MODVERSIONS >"$ROOT/lib/modules/$kernel/config"
  CRCS="module_layout=0x1 kfree=0x2" tiny_module "$package.d/nvidia.ko" "$kernel" nvidia_register_module ""
  CRCS="module_layout=0x1" tiny_module "$package.d/nvidia-uvm.ko" "$kernel" "" nvidia_register_module
  CRCS="module_layout=0x1" tiny_module "$package.d/nvidia-modeset.ko" "$kernel" "" nvidia_register_module
  layout "$package" "$kernel"
  image 2
}
again() { # as after a reboot into the same kernel
  rm -rf "${ROOT:?}/run" "$ROOT"/sys/module/nvidia*
  cat /proc/sys/kernel/random/uuid >"$ROOT/proc/sys/kernel/random/boot_id"
  kmodsmith install --package "$package"
}

@test "the image of the running kernel is read once; store gc --cache forgets it" {
  again
  assert_status 0
  [[ $stderr == *"$proven"* ]]
  assert_equal "$(find "$entries" -type f | wc -l)" 1
  # What it held is remembered: the file is not even looked into.
  echo junk >"$ROOT/boot/vmlinuz-$kernel"
  again
  assert_status 0
  [[ $stderr == *"$proven"* ]]
  kmodsmith "store gc" --cache --dry-run --json
  [ "$(jq .cache_bytes <<<"$output")" -gt 100 ]
  kmodsmith "store gc" --cache
  assert_status 0
  [ ! -e "$entries" ]
  again
  [[ $stderr != *"$proven"* ]]
}

@test "another build of the same release is read anew, and its CRCs decide" {
  again
  assert_status 0
  image 3
  again
  assert_error E_ABI "kfree"
  image 2
  again
  assert_status 0
}

@test "a damaged entry, one that cannot be written, and an image that the kernel was not started from: the image decides" {
  again
  assert_status 0
  for entry in "$entries"/*; do printf x | dd of="$entry" bs=1 seek=200 conv=notrunc 2>/dev/null; done
  image 3 "and another one runs"
  again
  assert_error E_ABI "kfree"
  rm -rf "$entries" && touch "$entries"
  image 2
  again
  assert_status 0
  [[ $stderr == *"$proven"* ]]
  [ -f "$entries" ]
}
