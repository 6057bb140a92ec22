#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A driver whose firmware the kernel would not find is never ready, whichever way it would get or got into the kernel
# (R-P6). What the real driver asks the real kernel for: tests/vm/31-preflight.sh.
# shellcheck disable=SC2154 # bats and helper.bash set output, stderr and ROOT
load helper
load package

setup() { package=$BATS_TEST_TMPDIR/package; }
loads() { calls | grep -E '^(un)?load ' | sed 's/ *$//' | paste -sd';'; }
installed() {
  loadable
  kmodsmith install --package "$package"
  assert_status 0
  rm "$ROOT/.sys-calls"
}
rebooted() { # no driver is loaded, and run/ is empty
  installed
  kmodsmith unload
  assert_status 0
  echo 7e57ab1e-0000-4000-8000-000000000002 >"$ROOT/proc/sys/kernel/random/boot_id"
  rm -r "$ROOT"/run "$ROOT"/dev/nvidia* "$ROOT/.sys-calls"
}
assert_not_ready() {
  kmodsmith status
  assert_status 1
  assert_line "NOT READY"
  for question in startup readiness; do
    kmodsmith probe "$question"
    assert_status 1
  done
  assert_equal "$(jq -r '[.state, .ready, .last_run.error.code] | join(" ")' "$ROOT/run/kmodsmith/status.json")" "FAILED false $1"
}

@test "the last good driver is never loaded without its firmware" {
  rebooted
  rm -r "$ROOT/lib/firmware"
  for _ in 1 2; do
    kmodsmith install --driver 535.261.03
    assert_error E_FIRMWARE "and the last good driver could not be brought back (driver 535.261.03: nvidia/535.261.03/gsp_ga10x.bin: "
    assert_equal "$(loads)" ""
    assert_not_ready E_FIRMWARE
  done
  kmodsmith install --driver 550.1 # another request that cannot be had
  assert_error E_NO_PACKAGE "could not be brought back (driver 535.261.03: nvidia/535.261.03/gsp_ga10x.bin: "
  [[ $stderr == *"error: E_NO_PACKAGE: no package of driver 550.1 for "* ]] # the cause first: the rest is long, and may be cut
  assert_equal "$(loads)" ""
  assert_not_ready E_FIRMWARE
  tiny_firmware 535.261.03
  kmodsmith install --driver 550.1
  assert_error E_NO_PACKAGE
  assert_equal "$(loads)" "load nvidia;load nvidia_modeset;load nvidia_uvm"
  kmodsmith status
  assert_status 0
}

@test "a plan foresees that the firmware is missing, and that the user space to be exported may bring it" {
  local V=535.261.03
  loadable
  rm -r "$ROOT/lib/firmware"
  kmodsmith plan --package "$package"
  assert_error E_FIRMWARE "preflight: nvidia/$V/gsp_ga10x.bin: the open modules need it for 0000:40:00.0 (Hopper)"
  assert_line --regexp '^ *[0-9]+ +prove '
  assert_equal "$(calls)" ""
  tiny_payload "$BATS_TEST_TMPDIR/payload.tar" "$V"
  kmodsmith "pack payload" "$BATS_TEST_TMPDIR/payload.tar" --driver "$V" --output "oci:$BATS_TEST_TMPDIR/layout"
  assert_status 0
  kmodsmith plan "$V" --from "oci:$package,oci:$BATS_TEST_TMPDIR/layout" --export /run/nvidia/driver --insecure-skip-verify
  assert_status 0
  assert_line --regexp '^ *[0-9]+ +export '
}

@test "a loaded driver that lost its firmware stays loaded, and is not ready until it is back" {
  installed
  rm -r "$ROOT/lib/firmware"
  for _ in 1 2; do
    kmodsmith install --driver 535.261.03
    assert_error E_FIRMWARE "verify: firmware: nvidia/535.261.03/gsp_ga10x.bin: the open modules need it for 0000:40:00.0 (Hopper)"
    [[ $stderr == *"next: install the firmware of the exact version in the host's /lib/firmware"* ]] || told | fail
    assert_equal "$(loads)" ""
    assert_not_ready E_FIRMWARE
  done
  kmodsmith status
  assert_line --regexp "^FAIL +firmware +nvidia/535.261.03/gsp_ga10x.bin: "
  assert_line --regexp "^last run: adopt failed at .*: E_FIRMWARE \(FirmwareMissing\): "
  kmodsmith status --json
  assert_json .state NOT_READY
  assert_json '[.checks[] | select(.pass | not).name] | join(",")' firmware
  kmodsmith doctor
  assert_status 1
  assert_line --regexp "^FAIL +firmware +E_FIRMWARE: "
  tiny_firmware 535.261.03
  kmodsmith install --driver 535.261.03 # it was never a bad target
  assert_status 0
  assert_line --regexp "^pass +firmware +/lib/firmware/nvidia/535.261.03/gsp_ga10x.bin"
  assert_equal "$(loads)" ""
  kmodsmith probe readiness
  assert_status 0
}

@test "likewise a driver that others loaded" {
  host h100x8
  rm -r "$ROOT/lib/firmware"
  kmodsmith install --host-driver use --driver 570.1
  assert_error E_FIRMWARE "verify: firmware: nvidia/535.261.03/gsp_ga10x.bin"
  assert_equal "$(loads)" ""
  assert_not_ready E_FIRMWARE
}

@test "compressed firmware counts if it is unknown whether the kernel reads it" {
  host h100x8
  mv "$ROOT"/lib/firmware/nvidia/535.261.03/gsp_ga10x.bin{,.zst}
  kmodsmith status --json
  assert_json '.checks[] | select(.name == "firmware").evidence' /lib/firmware/nvidia/535.261.03/gsp_ga10x.bin.zst
  mkdir -p "$ROOT/boot"
  echo CONFIG_FW_LOADER_COMPRESS_XZ=y >"$ROOT/boot/config-$(<"$ROOT/proc/sys/kernel/osrelease")"
  kmodsmith status
  assert_line --regexp "^FAIL +firmware "
}

@test "a package that failed its proof is not restored as the last good driver; another one is" {
  rebooted
  echo Y >"$ROOT/sys/module/module/parameters/sig_enforce"
  echo CONFIG_MODULE_SIG=y >>"$ROOT/lib/modules/6.1.0-56-cloud-amd64/config"
  kmodsmith install --driver 535.261.03
  assert_error E_SIGNING_REQUIRED "could not be brought back (driver 535.261.03 is in the package that was refused)"
  assert_equal "$(loads)" ""
  assert_not_ready E_SIGNING_REQUIRED
  kmodsmith install --driver 550.1 # nothing was said of the last good driver itself
  assert_error E_NO_PACKAGE
  assert_equal "$(loads)" "load nvidia;load nvidia_modeset;load nvidia_uvm"
}

@test "a failed module that the last good driver did without does not count against that one" {
  local kernel=6.1.0-56-cloud-amd64
  loadable
  mkdir -p "$ROOT/lib/modules/$kernel/build"
  printf 'CONFIG_%s=y\n' MODULES X86_64 SMP PREEMPT_BUILD MODULE_UNLOAD MODVERSIONS >"$ROOT/lib/modules/$kernel/config"
  printf '0x00000001\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n' >"$ROOT/lib/modules/$kernel/build/Module.symvers"
  touch "$ROOT/lib/modules/$kernel/modules.dep"
  rm -rf "$package"
  CRCS=module_layout=0x1 tiny_module "$package.d/nvidia.ko" $kernel nvidia_register_module ""
  CRCS=module_layout=0x1 tiny_module "$package.d/nvidia-uvm.ko" $kernel "" nvidia_register_module
  CRCS="module_layout=0x1 gone=0x2" tiny_module "$package.d/nvidia-drm.ko" $kernel "" nvidia_register_module
  rm "$package.d/nvidia-modeset.ko"
  layout "$package" $kernel
  kmodsmith install --package "$package" --modules nvidia,uvm
  assert_status 0
  kmodsmith unload
  kmodsmith install --driver 535.261.03 --modules nvidia,uvm,drm
  assert_error E_SYMBOL "nothing exports gone"
  kmodsmith status
  assert_status 0
  assert_equal "$(loads)" "load nvidia;load nvidia_uvm;unload nvidia_uvm;unload nvidia;load nvidia;load nvidia_uvm"
}
