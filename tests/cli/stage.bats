#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# install --stage: all that it takes is on the disk and proven, and nothing was touched. T02, T42, T44.
# shellcheck disable=SC2154 # helper.bash sets what is used here
load helper
load package

kernel=6.1.0-56-cloud-amd64
setup() {
  loadable
  package=$BATS_TEST_TMPDIR/package
}
stage() { kmodsmith install --stage --driver 535.261.03 --insecure-skip-verify "$@"; }

@test "stage: into the store, not into the kernel; a later install needs no source" {
  stage --from "oci:$package" --json
  assert_status 0
  assert_json .plan.outcome change
  assert_json '[.phases[].phase] | join(",")' detect,preflight,package,prove
  assert_equal "$(calls)" ""
  assert_file_not_exist "$ROOT/run/kmodsmith/status.json"
  assert_file_not_exist "$ROOT/var/lib/kmodsmith/journal"
  rm -r "$package"
  kmodsmith install --driver 535.261.03 --flavour open --no-compile --offline
  assert_status 0
  assert_equal "$(calls | grep -c '^load')" 3
  stage
  assert_status 0
  assert_output "535.261.03 open is in the store; nothing was touched"
  assert_equal "$(calls | grep -c '^load')" 3
}

@test "stage: users of the driver are not disturbed, and other changes to the node are not blocked" {
  kmodsmith install --package "$package" --modules nvidia,uvm
  mkdir -p "$ROOT/proc/77/fd"
  ln -s /dev/nvidia0 "$ROOT/proc/77/fd/3"
  printf '77 (job) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1000 0\n' >"$ROOT/proc/77/stat"
  layout "$package" "$kernel" --driver 535.216.03
  tiny_firmware 535.216.03
  mkdir -p "$ROOT/sys/module/nvidia_drm/holders" "$ROOT/sys/class/vtconsole/vtcon1" # the console has it, too
  echo live >"$ROOT/sys/module/nvidia_drm/initstate"
  echo 1 >"$ROOT/sys/module/nvidia_drm/refcnt"
  echo "0 nvidia-drmdrmfb" >"$ROOT/proc/fb"
  echo "(M) frame buffer device" >"$ROOT/sys/class/vtconsole/vtcon1/name"
  echo 1 >"$ROOT/sys/class/vtconsole/vtcon1/bind"
  exec 9>"$ROOT/run/kmodsmith/lock"
  flock 9
  kmodsmith install --stage --driver 535.216.03 --insecure-skip-verify --from "oci:$package"
  assert_status 0
  assert_output "535.216.03 open is in the store; nothing was touched"
  exec 9>&-
  kmodsmith install --driver 535.216.03 --flavour open --no-compile --offline
  assert_error E_IN_USE "pid 77"
  assert_equal "$(calls | grep -c '^unload')" 0
}

@test "stage: a mismatch, a missing signature and a missing package are reported now" {
  stage
  assert_error E_NO_PACKAGE
  kmodsmith install --stage --driver 535.261.03 --from "oci:$package"
  assert_error E_UNTRUSTED
  rm -r "$ROOT/lib/firmware"
  stage --from "oci:$package"
  assert_error E_FIRMWARE
  assert_equal "$(calls)" ""
}

@test "digest: exactly this package" {
  local digest
  digest=$(jq -r '.manifests[0].digest' "$package/index.json")
  stage --from "oci:$package" --digest "sha256:$(printf '%064d' 0)"
  assert_error E_NO_PACKAGE "digest"
  stage --from "oci:$package" --digest "${digest#sha256:}"
  assert_error E_USAGE "--digest"
  stage --from "oci:$package" --digest "$digest"
  assert_status 0
  kmodsmith install --driver 535.261.03 --digest "$digest" --offline --no-compile
  assert_status 0
}
