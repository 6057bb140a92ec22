#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What a build asks of kernel, compiler and probes before it compiles a driver. Source and kernel tree are made up, and small;
# make, compiler and sandbox are this machine's.
# shellcheck disable=SC2154,SC2016,SC2030,SC2031 # bats and helper.bash set output, stderr, top and ROOT; make's variables in
# strings; a test's changes are its own
load helper
load package

kernel=6.1.0-56-cloud-amd64
setup() {
  work=$BATS_TEST_TMPDIR driver=$BATS_TEST_TMPDIR/driver
  tiny_headers "$work/headers.tar" "$kernel"
  tree=$work/headers.tar.d/usr/src/kernels/$kernel
  compiling_tree "$tree"
  built_with "$(gcc -dumpversion | cut -d. -f1)" "$work/headers.tar" "$kernel"
  compiling_source "$driver" 535.261.03
  host h100x2-unloaded
}
pack_tree() { tar -cf "$work/headers.tar" -C "$work/headers.tar.d" lib usr; }
build() { # OPTION...
  kmodsmith build --source "$driver" --kernel "$kernel" --flavour open --modules nvidia --headers "$work/headers.tar" \
    --state-dir "$work/state" --output "oci:$work/layout" --json --jobs 1 "$@"
}
compiled() { grep -cE '^(asked:|  CC )' "$work/state/logs/535.261.03-open-$kernel.log" || true; } # probes, objects

@test "R-B3: probes with wrong answers stop the build before the driver's own run" {
  sed -i 's/bad[.]o) false/good.o) false/' "$tree/Makefile"
  pack_tree
  build
  assert_error E_CONFTEST_BROKEN "a test that must compile fails"
  sed -i 's/good[.]o) false/none) false/' "$tree/Makefile"
  pack_tree
  build
  assert_error E_CONFTEST_BROKEN "a test that must fail compiles"
  assert_equal "$(compiled)" 0
  assert_not_exist "$work/layout/index.json"
}

@test "R-B8: a PREEMPT_RT kernel is refused before the compile, unless --allow-rt is set" {
  echo CONFIG_PREEMPT_RT=y >>"$tree/.config"
  pack_tree
  sed -i '1i ifneq ($(IGNORE_PREEMPT_RT_PRESENCE),1)\n$(error Failed PREEMPT_RT sanity check)\nendif' "$driver/kernel-open/Makefile"
  build
  assert_error E_SOURCE_KERNEL "is PREEMPT_RT"
  assert_equal "$(compiled)" 0
  build --allow-rt
  assert_status 0
  assert_not_equal "$(compiled)" 0
}

@test "R-B6: modules for a kernel with BTF are built without pahole" {
  echo CONFIG_DEBUG_INFO_BTF_MODULES=y >>"$tree/.config"
  pack_tree
  sed -i '1i include $(SYSSRC)/.config\nifdef CONFIG_DEBUG_INFO_BTF_MODULES\n$(error pahole is run)\nendif' "$driver/kernel-open/Makefile"
  build
  assert_status 0
}

@test "a kernel whose CRCs come from debug information: the objects have it, the modules do not, and no path shows" {
  local n
  mkdir -p "$tree/scripts/gendwarfksyms"
  printf '#!/bin/sh\nreadelf -SW $1 | grep -q " [.]debug_info " || { echo "error: gendwarfksyms: no debugging information?" >&2; exit 1; }\n' \
    >"$tree/scripts/gendwarfksyms/gendwarfksyms"
  chmod +x "$tree/scripts/gendwarfksyms/gendwarfksyms"
  sed -i 's,[$](CC) ,&-g ,' "$tree/Makefile" "$driver/kernel-open/Makefile"
  sed -i 's,-c -o $@ $<$,& \&\& $(SYSSRC)/scripts/gendwarfksyms/gendwarfksyms $@,; s,objcopy .*,ld -r -o nvidia.ko nvidia/nvidia.ko $^,' \
    "$driver/kernel-open/Makefile"
  echo CONFIG_GENDWARFKSYMS=y >>"$tree/.config"
  pack_tree
  build
  assert_status 0
  [[ $stderr == *"without fork servers: the kernel's CRCs need debug information"* ]] || fail "$stderr"
  for n in 1 2; do
    mkdir -p "$work/$n" && cp -r "$driver" "$work/$n/at" && driver=$work/$n/at
    build --state-dir "$work/$n/state" --output "oci:$work/$n/layout" --no-cache
    assert_status 0
    mkdir "$work/$n/modules" && tar -xf "$(blob "$work/$n/layout" layer)" -C "$work/$n/modules"
  done
  run diff -r "$work/1/modules" "$work/2/modules"
  assert_status 0
  run readelf -SW "$(find "$work/1/modules" -name nvidia.ko)"
  assert_line --partial " .text "
  refute_output --partial .debug_
}

@test "check and build say the same of what kbuild's own programs lack: a library, a program, the linker script" {
  local row code words
  mkdir -p "$tree/scripts/basic" "$tree/scripts/mod"
  cp "$(readlink -f /bin/true)" "$tree/scripts/basic/fixdep"
  cp "$tree/scripts/basic/fixdep" "$tree/scripts/mod/modpost"
  cp -r "$tree" "$work/whole"
  pack_tree
  build
  assert_status 0
  rm -r "$work/state/logs"
  for row in "gcc -x c -shared -Wl,-soname,libgone.so.1 -o $work/libgone.so /dev/null && echo 'int main(void) { return 0; }' |
      gcc -x c - -x none -Wl,--no-as-needed $work/libgone.so -o scripts/mod/modpost@E_TOOLCHAIN@scripts/mod/modpost needs libgone.so.1, which this machine" \
    "rm scripts/mod/modpost@E_HEADERS_NOT_FOUND@scripts/mod/modpost' is missing" \
    "echo '-T scripts/module.lds' >scripts/Makefile.modfinal@E_HEADERS_NOT_FOUND@scripts/module.lds' is missing"; do
    IFS=@ read -rd '' row code words <<<"$row" || true
    rm -r "$tree" && cp -r "$work/whole" "$tree"
    (cd "$tree" && eval "$row")
    pack_tree
    kmodsmith check --source "$driver" --kernel "$kernel" --flavour open --headers "$work/headers.tar" --state-dir "$work/state"
    assert_status "$([ "$code" = E_TOOLCHAIN ] && echo 30 || echo 1)" # files that were named must be whole
    [[ "$output$stderr" == *"$code"*"${words%$'\n'}"* ]] || fail "$output$stderr"
    build
    assert_error "$code" "${words%$'\n'}"
    assert_equal "$(compiled)" 0
  done
}

@test "a kernel newer than any that the driver was compiled for: check, plan and doctor say so, and a prebuild that fails" {
  local newer="newer than any kernel this driver was compiled for here: 7[.]3" next=99.1.0-1-cloud-amd64 running=$kernel dir
  check() {
    kmodsmith check --source "$driver" --kernel "$kernel" --flavour open --modules nvidia --headers "$work/headers.tar" \
      --state-dir "$work/state" "$@"
  }
  check --json
  assert_json .untried false
  kernel=$next
  tiny_headers "$work/headers.tar" "$kernel"
  tree=$work/headers.tar.d/usr/src/kernels/$kernel
  compiling_tree "$tree"
  built_with "$(gcc -dumpversion | cut -d. -f1)" "$work/headers.tar" "$kernel"
  check
  assert_status 20
  assert_line --regexp "^needs-build: .*; the kernel is $newer; it may fail"
  check --json
  assert_json .untried true
  host h100x2-unloaded
  mkdir -p "$ROOT/boot" && echo image >"$ROOT/boot/vmlinuz-$next"
  dir=$ROOT/lib/modules/$next
  mkdir -p "$dir/kernel" && echo CONFIG_MODULES=y >"$dir/config"
  touch "$dir"/modules.{builtin,order,dep,dep.bin}
  tar -xf "$work/headers.tar" -C "$ROOT" --keep-directory-symlink
  sed -i '1i $(error it does not compile)' "$driver/kernel-open/Makefile"
  kmodsmith watch --once --driver 535.261.03 --source "$driver" --modules nvidia --flavour open
  assert_line --regexp "^$next may start next: impossible: E_BUILD: the kernel is $newer: .*it does not compile"
  sed -i "s/$running/$next/" "$ROOT/proc/sys/kernel/osrelease" "$ROOT/proc/version"
  kmodsmith plan --source "$driver" --modules nvidia --flavour open --headers "$work/headers.tar"
  assert_line --regexp " compile .*; the kernel is $newer; it may fail"
  kmodsmith doctor --driver 535.261.03 --headers "$work/headers.tar"
  assert_line --regexp "^warn +kernel +it is $newer; a compile may fail"
}
