#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The facts of a recorded machine, as `status --json` shows them.
load helper

@test "kernel, host, driver, GPUs and modules of the recorded machine" {
  host h100x8
  kmodsmith status --json
  assert_json .kernel.release "$(cat "$ROOT/proc/sys/kernel/osrelease")"
  assert_json .kernel.build_id "$(printf %s "$(cat "$ROOT/proc/version")" | sha256sum | cut -d' ' -f1)"
  assert_json .kernel.arch x86_64
  assert_json .kernel.sig_enforced false
  assert_json .driver.version 535.261.03
  assert_json .driver.flavour open
  assert_json '.driver.params | index("ModifyDeviceFiles=1") != null'
  assert_json '.gpus | map(select(.kind == "gpu")) | length' 8
  assert_json '.gpus | map(select(.kind == "nvswitch")) | length' 4
  assert_json '.gpus | map(select(.kind == "gpu"))[0] | [.id, .architecture, .bound] | join(" ")' "10de:2330 Hopper nvidia"
  assert_json '.modules[] | select(.name == "nvidia") | .srcversion' "$(cat "$ROOT/sys/module/nvidia/srcversion")"
  assert_json '.modules[] | select(.name == "nvidia") | .holders | join(" ")' "nvidia_modeset nvidia_uvm"
}

@test "facts about the configuration, the headers and the available compilers" {
  host h100x2-unloaded
  local release
  release=$(cat "$ROOT/proc/sys/kernel/osrelease")
  mkdir -p "$ROOT/boot" "$ROOT/usr/bin" "$ROOT/usr/src/linux-headers-$release/include/generated"
  printf 'CONFIG_MODVERSIONS=y\nCONFIG_MODULE_SIG_HASH="sha256"\n# CONFIG_PREEMPT_RT is not set\n' >"$ROOT/boot/config-$release"
  touch "$ROOT/usr/bin/gcc-12" "$ROOT/usr/bin/clang-14"
  touch "$ROOT/usr/src/linux-headers-$release/"{Makefile,include/generated/autoconf.h}
  kmodsmith status --json
  assert_json .driver.version null
  assert_json .kernel.config.CONFIG_MODVERSIONS y
  assert_json .kernel.config.CONFIG_MODULE_SIG_HASH sha256
  assert_json .kernel.config.CONFIG_PREEMPT_RT null
  assert_json .kernel.config_source "boot/config-$release"
  assert_json .kernel.headers "usr/src/linux-headers-$release"
  assert_json '.host.compilers | join(" ")' "clang-14 gcc-12"
}

@test "R-P11: a machine without an NVIDIA function is left alone, with a message" {
  host no-gpu
  kmodsmith status
  assert_status 0
  assert_output --partial NO_GPU
  kmodsmith install --driver 535.261.03
  assert_status 0
  assert_output --partial NO_GPU
  assert_unchanged
}
