#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The driver's daemons on recorded machines: what status tells of them, and when an unload ends them (R-P1, contract 1.10).
# shellcheck disable=SC2154 # bats and helper.bash set stderr, top and ROOT
load helper
load package

process() { # PID START PROGRAM
  mkdir -p "$ROOT/proc/$1/fd" "$ROOT/proc/$1/ns"
  echo "$1 (x) S 1 1 1 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 $2 0" >"$ROOT/proc/$1/stat"
  echo "${3##*/}" >"$ROOT/proc/$1/comm"
  : >"$ROOT/proc/$1/cmdline"
  ln -sfn "$3" "$ROOT/proc/$1/exe"
  ln -sfn 'mnt:[1]' "$ROOT/proc/$1/ns/mnt"
}

# As init leaves it on a machine with NVSwitches: two daemons that keep a GPU open.
daemons() {
  local boot
  boot=$(cat "$ROOT/proc/sys/kernel/random/boot_id")
  mkdir -p "$ROOT/run/kmodsmith"
  jq -n --arg boot "$boot" '
    def daemon(name; program; pid; needed): {name: name, state: "up", why: "4 NVSwitches", pid: pid, start: 500,
      since: "2026-01-01T00:00:00Z", restarts: 0, last_exit: null, why_not: null, needed: needed, argv: [program],
      dir: name, pid_file: null, socket: null};
    {boot_id: $boot, owner: {pid: 9999, start: 1}, driver_root: "run/nvidia/driver", daemons: [
      daemon("nvidia-fabricmanager"; "/usr/bin/nv-fabricmanager"; 7001; true),
      daemon("nvidia-persistenced"; "/usr/bin/nvidia-persistenced"; 7002; false)]}' >"$ROOT/run/kmodsmith/daemons.json"
  process 7001 500 /run/nvidia/.driver.3/usr/bin/nv-fabricmanager
  process 7002 500 /usr/bin/nvidia-persistenced
  ln -s /dev/nvidia0 "$ROOT/proc/7001/fd/5"
  ln -s /dev/nvidia0 "$ROOT/proc/7002/fd/3"
}

@test "status: measures each daemon, and is ready only while the needed ones run" {
  host h100x8
  kmodsmith status --json
  assert_json '.daemons | length' 0
  local ready
  ready=$(jq -r .ready <<<"$output")
  daemons
  kmodsmith status --json
  assert_json '[.daemons[] | "\(.name) \(.running)"] | join(",")' "nvidia-fabricmanager true,nvidia-persistenced true"
  assert_json '.checks[] | select(.name == "daemons") | .pass' true
  assert_json .ready "$ready"
  rm -r "$ROOT/proc/7002"
  kmodsmith status --json
  assert_json '.checks[] | select(.name == "daemons") | "\(.pass) \(.evidence)"' \
    "true nvidia-fabricmanager up (pid 7001); nvidia-persistenced not running"
  process 7001 900 /usr/bin/nv-fabricmanager # the number is another process's now
  kmodsmith status
  assert_status 1
  assert_line --regexp '^FAIL +daemons +nvidia-fabricmanager not running; nvidia-persistenced not running$'
  sed -i 's/"boot_id": "[^"]*"/"boot_id": "another"/' "$ROOT/run/kmodsmith/daemons.json"
  kmodsmith status
  refute_line --partial daemons
}

@test "unload: our daemons are not holders, and are stopped before the modules, last started first" {
  host h100x8
  daemons
  echo 6 >"$ROOT/sys/module/nvidia/refcnt" # of their open devices
  kmodsmith holders
  assert_line --partial "pid 7001 nv-fabricmanager"
  kmodsmith unload
  assert_status 0
  [[ $stderr == *"stopped nvidia-persistenced (pid 7002) to unload the driver"* ]]
  assert_equal "$(calls | sed 's/ *$//' | paste -sd';')" "signal 15 7002;signal 15 7001;unload nvidia_drm;\
unload nvidia_modeset;unload nvidia_uvm;unload nvidia"
}

@test "unload: they stay while another process uses the driver" {
  host h100x8
  daemons
  process 7100 500 /usr/bin/python3
  ln -s /dev/nvidia0 "$ROOT/proc/7100/fd/3"
  echo 9 >"$ROOT/sys/module/nvidia/refcnt"
  kmodsmith unload
  assert_status 75
  assert_error E_IN_USE "1 holder(s), first: pid 7100 python3"
  refute_output --partial nv-fabricmanager
  assert_equal "$(calls)" ""
}

@test "unload: a holder hidden behind them is seen once they stopped, and they are started again" {
  host h100x8
  daemons
  mkdir -p "$ROOT/dev" && : >"$ROOT/dev/null"
  echo 2 >"$ROOT/sys/module/nvidia_uvm/refcnt"
  kmodsmith unload
  assert_status 75
  assert_error E_IN_USE "something that is not visible from here uses module nvidia_uvm"
  assert_equal "$(calls | sed 's/ *$//' | paste -sd';')" "signal 15 7002;signal 15 7001;start /usr/bin/nv-fabricmanager;\
start /usr/bin/nvidia-persistenced"
}

@test "init: an unknown field of the fabric manager's configuration is refused before anything is done" {
  host h100x8
  NVFM_CONFIG_log_level=3 kmodsmith init
  assert_status 2
  assert_error E_CONFIG "'NVFM_CONFIG_log_level=3' is not a setting of the fabric manager"
  assert_unchanged
}

# A machine with NVSwitches and no driver, a package for it, and a payload with what `fabric` put into $payload.
switches() {
  local device
  loadable
  package=$BATS_TEST_TMPDIR/package payload=$BATS_TEST_TMPDIR/payload.tar
  for device in c0 d0 e0 f0; do
    cp -a "$top/tests/hosts/h100x8/sys/devices/pci0000:$device" "$ROOT/sys/devices/"
    rm "$ROOT/sys/devices/pci0000:$device/0000:$device:00.0/driver"
    ln -s "../../../devices/pci0000:$device/0000:$device:00.0" "$ROOT/sys/bus/pci/devices/0000:$device:00.0"
  done
  tiny_payload "$payload" 535.261.03
}
pack() { # [VERSION]: of the fabric manager in the payload; none without
  if [ $# -gt 0 ]; then
    mkdir -p "$payload.d/usr/bin"
    printf 'Fabric Manager version is : %s\0' "$1" >"$payload.d/usr/bin/nv-fabricmanager"
    tar -cf "$payload" -C "$payload.d" lib usr
  fi
  tiny_package "$package" 6.1.0-56-cloud-amd64
  "$KMODSMITH" pack payload "$payload" --driver 535.261.03 --arch x86_64 --output "oci:$package" \
    --state-dir "$BATS_TEST_TMPDIR/state" >/dev/null 2>&1
}

@test "init: NVSwitches need the driver's own fabric manager, checked before the driver is touched (R-P1)" {
  switches
  pack
  kmodsmith init --package "$package"
  assert_status 1
  assert_error E_DAEMON "4 NVSwitches needs nvidia-fabricmanager: the driver's user space has no /usr/bin/nv-fabricmanager"
  assert_equal "$(calls)" ""
  # What passes comes as far as the mounts, which a recorded machine does not have.
  kmodsmith init --package "$package" --no-daemons
  assert_error E_SYSTEM "a recorded machine has no mounts"
  kmodsmith install --package "$package" --export /run/nvidia/driver
  assert_error E_SYSTEM "a recorded machine has no mounts"
  rm -rf "$ROOT/var/lib/kmodsmith"
  pack 535.261.03
  kmodsmith init --package "$package"
  assert_error E_SYSTEM "a recorded machine has no mounts"
  # Of a payload that another program has made.
  printf 535.216.03 >"$(echo "$ROOT"/var/lib/kmodsmith/payloads/*/usr/bin/nv-fabricmanager)"
  kmodsmith init --package "$package"
  assert_status 1
  assert_error E_DAEMON "'usr/bin/nv-fabricmanager' is for driver 535.216.03, 535.261.03 was requested"
}
