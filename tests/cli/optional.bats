#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# R-P3: modules that the driver works without. One that does not fit is left out and reported, and the node is ready.
# shellcheck disable=SC2154 # bats and helper.bash set stderr, top and ROOT
load helper
load package

setup() { package=$BATS_TEST_TMPDIR/package; }
loads() { calls | grep -E '^(un)?load ' | sed 's/ *$//' | paste -sd';'; }

# A package whose nvidia-modeset was made for another kernel.
misfit() {
  loadable
  tiny_module "$package.d/nvidia-modeset.ko" 6.1.0-50-cloud-amd64 "" nvidia_register_module
  layout "$package" 6.1.0-56-cloud-amd64
  snapshot
}

@test "optional: the core is ready without a module that does not fit, with the reason" {
  misfit
  kmodsmith install --package "$package"
  assert_status 0
  assert_line ready
  [[ $stderr == *"nvidia-modeset is not loaded, and the driver works without it: E_ABI: "* ]]
  assert_equal "$(loads)" "load nvidia;load nvidia_uvm"
  kmodsmith status
  assert_status 0
  assert_line --regexp '^note +optional +nvidia-modeset: not loaded, E_ABI: .*6\.1\.0-50-cloud-amd64'
  kmodsmith status --json
  assert_json .state READY
  assert_json '.optional | map(.module + " " + .code) | join(",")' "nvidia-modeset E_ABI"
  assert_equal "$(jq -r '.optional[0].module' "$ROOT/run/kmodsmith/status.json")" nvidia-modeset
  assert_equal "$(jq -c '.["last-good"].modules' "$ROOT/var/lib/kmodsmith/journal")" '["nvidia","nvidia-uvm"]'
}

@test "optional: a module that needs what the host lacks is left out before anything is loaded" {
  local kernel=6.1.0-56-cloud-amd64
  loadable
  mkdir -p "$ROOT/lib/modules/$kernel/build"
  printf '0x00000000\tdrm_open\tdrm/drm\tEXPORT_SYMBOL\t\n' >"$ROOT/lib/modules/$kernel/build/Module.symvers"
  echo kernel/drm/drm.ko: >"$ROOT/lib/modules/$kernel/modules.dep"
  tiny_module "$package.d/nvidia-modeset.ko" "$kernel" "" drm_open
  layout "$package" "$kernel"
  kmodsmith install --package "$package"
  assert_status 0
  assert_line ready
  [[ $stderr == *"nvidia-modeset is not loaded, and the driver works without it: E_HOST_MODULES: the kernel's module 'drm/drm' is needed"* ]]
  assert_equal "$(loads)" "load nvidia;load nvidia_uvm"
}

@test "optional: the next start adopts, and unloads nothing" {
  misfit
  kmodsmith install --package "$package"
  assert_status 0
  rm "$ROOT/.sys-calls"
  snapshot
  loaded=$(jq -c '[.["last-good", "last-good-boot"]]' "$ROOT/var/lib/kmodsmith/journal")
  kmodsmith install --driver 535.261.03 --json
  assert_status 0
  assert_json .plan.outcome adopt
  assert_equal "$(calls)" ""
  assert_equal "$(jq -c '[.["last-good", "last-good-boot"]]' "$ROOT/var/lib/kmodsmith/journal")" "$loaded" # as it was loaded
  assert_unchanged
}

@test "optional: what was loaded of a package without the core is adopted, and not loaded anew" {
  local kernel=6.1.0-56-cloud-amd64
  loadable
  rm "$package.d/nvidia-uvm.ko" "$package.d/nvidia-modeset.ko"
  layout "$package" "$kernel"
  kmodsmith install --package "$package" --modules nvidia
  assert_status 0
  rm "$ROOT/.sys-calls"
  kmodsmith install --driver 535.261.03 --from oci:away --json
  assert_json .plan.outcome adopt
  assert_equal "$(calls)" ""
  [[ $output == *"nothing computes without nvidia-uvm, which its package lacks"* && $stderr != *oci:away* ]]
  kmodsmith unload
  kmodsmith install --driver 535.261.03
  assert_error E_NO_PACKAGE
}

@test "optional: another package is tried, and a module that works now is no longer listed" {
  misfit
  kmodsmith install --package "$package"
  tiny_package "$package" 6.1.0-56-cloud-amd64
  kmodsmith install --package "$package"
  assert_status 0
  assert_equal "$(loads)" "load nvidia;load nvidia_uvm;load nvidia_modeset"
  kmodsmith status --json
  assert_json '.optional | length' 0
  assert_not_exists "$ROOT/run/kmodsmith/optional.json"
}

@test "optional: a module that was named must load" {
  misfit
  kmodsmith install --package "$package" --modules nvidia,uvm,modeset
  assert_status 1
  assert_error E_ABI "nvidia_modeset"
  assert_equal "$(loads)" ""
}

@test "optional: the core is not optional" {
  loadable
  tiny_module "$package.d/nvidia-uvm.ko" 6.1.0-50-cloud-amd64 "" nvidia_register_module
  layout "$package" 6.1.0-56-cloud-amd64
  kmodsmith install --package "$package"
  assert_status 1
  assert_error E_ABI "nvidia_uvm"
  assert_equal "$(loads)" ""
}

@test "parameters: the driver pod's files, the option overrides them, and a superchip's default reaches its module" {
  loadable
  mkdir -p "$ROOT/drivers"
  printf '# of the ConfigMap\nNVreg_A=1 NVreg_B="x y"\n\n  NVreg_C=3' >"$ROOT/drivers/nvidia.conf"
  printf 'uvm_a=1' >"$ROOT/drivers/nvidia-uvm.conf"
  for id in "$ROOT"/sys/bus/pci/devices/*/device; do [ "$(cat "$id")" != 0x2330 ] || echo 0x2342 >"$id"; done
  kmodsmith install --package "$package" --param nvidia:NVreg_C=4
  assert_status 0
  assert_equal "$(loads)" 'load nvidia NVreg_A=1 NVreg_B="x y" NVreg_C=4;load nvidia_modeset;load nvidia_uvm uvm_a=1'
  kmodsmith unload
  rm "$ROOT/.sys-calls"
  EXTRA=parmtype=NVreg_CoherentGPUMemoryMode:charp \
    tiny_module "$package.d/nvidia.ko" 6.1.0-56-cloud-amd64 nvidia_register_module ""
  layout "$package" 6.1.0-56-cloud-amd64
  kmodsmith install --package "$package"
  assert_status 0
  assert_equal "$(loads | cut -d';' -f1)" \
    'load nvidia NVreg_A=1 NVreg_B="x y" NVreg_C=3 NVreg_CoherentGPUMemoryMode=driver'
  rm "$ROOT/.sys-calls"
  kmodsmith install --package "$package"
  assert_status 0
  assert_equal "$(loads)" ""
}
