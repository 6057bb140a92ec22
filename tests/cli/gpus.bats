#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Ready means that the GPUs start: what install, init and status say of those that do not, on recorded machines.
# shellcheck disable=SC2154 # bats and helper.bash set stderr and ROOT
load helper
load package

setup() { package=$BATS_TEST_TMPDIR/package; }
machine() { # with a kernel log
  loadable
  mkdir -p "$ROOT/dev"
  touch "$ROOT/dev/kmsg"
}
second=0000:50:00.0
failed='NVRM: GPU 0000:50:00.0: RmInitAdapter failed! (0x62:0x40:1679)'
broken() { printf 'EIO open nvidia1: %s\n' "$failed" >>"$ROOT/.sys-refused"; }
opened() { calls | grep -c '^open nvidia'; }

@test "each GPU is opened once per boot; again: nothing is opened; status --check-gpus opens them anew" {
  machine
  kmodsmith install --package "$package"
  assert_status 0
  [[ $stderr == *"gpus "*" s  2 of 2 start ("* ]]
  assert_equal "$(opened)" 2
  kmodsmith install --driver 535.261.03
  assert_status 0
  kmodsmith status
  assert_line --regexp '^pass +gpus +2 of 2 start \([0-9.]+ s\)$'
  assert_line --regexp '^GPUs measured at .* ago\)$'
  assert_equal "$(opened)" 2
  kmodsmith status --check-gpus --json
  assert_status 0
  assert_json '[.gpu_check.gpus[].outcome] | join(" ")' "works works"
  assert_json .gpu_check.driver 535.261.03
  assert_equal "$(opened)" 4
}

@test "a first install with a GPU that does not start: the driver stays, the node is not ready, and no target is bad" {
  machine
  broken
  kmodsmith install --package "$package"
  assert_error E_GPU_START "verify: gpus: 1 of 2 start"
  [[ $stderr == *"$second: GSP firmware did not boot (RmInitAdapter 0x62:0x40:1679)"* ]]
  assert [ -d "$ROOT/sys/module/nvidia" ]
  kmodsmith status
  assert_status 1
  assert_line --regexp "^FAIL +gpus +1 of 2 start \([0-9.]+ s\); $second: GSP firmware did not boot"
  kmodsmith doctor
  assert_line --regexp "^warn +gpu check +E_GPU_START: 1 of 2 start \([0-9.]+ s\); $second: .*, at 20"
  refute_line --partial "bad target"
  kmodsmith status --json
  assert_json .error.code E_GPU_START # an agent that is told to validate reports it
  kmodsmith probe readiness
  assert_status 1
}

@test "a GPU that failed is left alone for five minutes, then the next start tries it again" {
  machine
  broken
  kmodsmith install --package "$package"
  assert_status 1
  kmodsmith install --driver 535.261.03
  assert_error E_GPU_START "gpus, measured at"
  assert_equal "$(opened)" 2
  sed -i 's/"time": *"[^"]*"/"time": "2020-01-01T00:00:00Z"/' "$ROOT/run/kmodsmith/gpus.json"
  kmodsmith install --driver 535.261.03
  assert_status 0
  assert_equal "$(opened)" 4
}

@test "a GPU that failed is tried again at once where the clock was ahead when it was measured" {
  machine
  broken
  kmodsmith install --package "$package"
  assert_status 1
  sed -i 's/"time": *"[^"]*"/"time": "2199-01-01T00:00:00Z"/' "$ROOT/run/kmodsmith/gpus.json"
  kmodsmith install --driver 535.261.03
  assert_status 0
}

@test "a driver that was loaded once more by hand is not ready until its GPUs are measured again" {
  machine
  kmodsmith install --package "$package"
  assert_status 0
  mv "$ROOT/sys/module/nvidia" "$BATS_TEST_TMPDIR/first" # which keeps its inode
  cp -a "$BATS_TEST_TMPDIR/first" "$ROOT/sys/module/nvidia"
  kmodsmith status
  assert_status 1
  assert_line --regexp '^FAIL +gpus +2 of 2; not measured since the driver was loaded$'
  kmodsmith install --driver 535.261.03
  assert_status 0
  assert_equal "$(opened)" 4
  kmodsmith install --driver 535.261.03
  assert_equal "$(opened)" 4
}

@test "a GPU that is found broken is not ready, also where that cannot be written down" {
  machine
  kmodsmith install --package "$package"
  assert_status 0
  broken
  # shellcheck disable=SC2016 # the inner shell expands it
  run --separate-stderr unshare -m bash -c 'mv "$1/run/kmodsmith" "$3" && mkdir "$1/run/kmodsmith" || exit 99
    mount -t tmpfs -o size=64k none "$1/run/kmodsmith" && cp -a "$3/." "$1/run/kmodsmith/" || exit 99
    cat /dev/zero >"$1/run/kmodsmith/full" 2>&-
    "$2" status --check-gpus --root "$1"; "$2" status --root "$1"' sh "$ROOT" "$KMODSMITH" "$BATS_TEST_TMPDIR/run"
  assert_status 1
  assert_line --regexp '^FAIL +gpus +2 of 2; not measured since the driver was loaded$'
  [[ $stderr == *"warn: cannot record how the GPUs are: "*"No space left"* ]]
}

@test "a GPU whose start had not ended is asked again by the next start" {
  machine
  kmodsmith install --package "$package"
  assert_status 0
  jq '.gpus[1].outcome = "pending"' "$ROOT/run/kmodsmith/gpus.json" >"$BATS_TEST_TMPDIR/gpus.json"
  cp "$BATS_TEST_TMPDIR/gpus.json" "$ROOT/run/kmodsmith/"
  kmodsmith install --driver 535.261.03
  assert_status 0
  assert_equal "$(opened)" 4
}

@test "--allow-missing-gpus: ready with as many broken ones, which status names; fewer are too few" {
  machine
  broken
  kmodsmith install --package "$package" --allow-missing-gpus 1
  assert_status 0
  assert_line --regexp "^pass +gpus +1 of 2 start \([0-9.]+ s\); $second: GSP firmware"
  kmodsmith status
  assert_status 0
  rm -r "$ROOT/run" # the next boot
  broken
  kmodsmith status --check-gpus
  assert_status 0
  kmodsmith install --driver 535.261.03
  assert_error E_GPU_START "1 of 2 start"
}

@test "--gpu-check none: ready by the modules alone, and said; another word is refused" {
  machine
  broken
  kmodsmith install --package "$package" --gpu-check none
  assert_status 0
  assert_line --regexp '^pass +gpus +2 of 2; not measured \(--gpu-check none\)$'
  assert_equal "$(opened)" 0
  kmodsmith status
  assert_status 0
  kmodsmith install --driver 535.261.03 # asked for now
  assert_error E_GPU_START "1 of 2 start"
  kmodsmith install --driver 535.261.03 --gpu-check some
  assert_error E_USAGE "--gpu-check 'some' is not one of"
}

@test "a driver that nobody has measured in this boot is not ready, and status --check-gpus measures it" {
  machine
  kmodsmith install --package "$package"
  assert_status 0
  rm "$ROOT/run/kmodsmith/gpus.json"
  kmodsmith status
  assert_status 1
  assert_line --regexp '^FAIL +gpus +2 of 2; not measured since the driver was loaded$'
  assert_line --partial "next: \`kmodsmith status --check-gpus\`"
  kmodsmith doctor
  assert_line --regexp '^warn +gpu check +E_GPU_UNTESTED: not measured since the driver was loaded'
  kmodsmith status --check-gpus
  assert_status 0
  rm "$ROOT/var/lib/kmodsmith/gpus.json" && mkdir "$ROOT/var/lib/kmodsmith/gpus.json"
  kmodsmith status --check-gpus # this boot's record is enough to be ready
  assert_status 0
  [[ $stderr == *"warn: cannot record how the GPUs are: "* ]]
}

@test "a GPU that cannot be opened here is neither good nor bad" {
  machine
  echo 'EPERM open nvidia1' >"$ROOT/.sys-refused"
  kmodsmith install --package "$package"
  assert_error E_GPU_UNTESTED "$second: its node cannot be opened here (EPERM)"
  [[ $stderr == *"--gpu-check none"* ]]
}

@test "init: with NVSwitches the GPUs are asked once more, when the fabric manager may be up; --gpu-check start: they are not" {
  machine
  cp -a "$top/tests/hosts/h100x8/sys/devices/pci0000:c0" "$ROOT/sys/devices/"
  rm "$ROOT/sys/devices/pci0000:c0/0000:c0:00.0/driver"
  ln -s ../../../devices/pci0000:c0/0000:c0:00.0 "$ROOT/sys/bus/pci/devices/0000:c0:00.0"
  kmodsmith install --package "$package" --gpu-check none
  assert_error E_NOT_READY "nvswitches: 0 of 1"
  rm -r "$ROOT/var/lib/kmodsmith" "$ROOT/run" "$ROOT"/sys/module/nvidia* "$ROOT/.sys-calls"
  mkdir -p "$ROOT/proc/driver/nvidia-nvswitch/devices/0000:c0:00.0"
  begin() {
    : >"$BATS_TEST_TMPDIR/log" # in the child it might come after the first look
    "$KMODSMITH" init --root "$ROOT" --no-daemons --export none --package "$package" "$@" >"$BATS_TEST_TMPDIR/log" 2>&1 3>&- 4>&- &
    pid=$!
  }
  end() {
    kill -TERM $pid
    wait $pid
  }
  twice() { [ "$(opened)" = 4 ]; }
  begin
  soon twice
  end
  rm -r "$ROOT/run" "$ROOT"/sys/module/nvidia* "$ROOT/.sys-calls"
  begin --gpu-check start
  soon grep -q 'ready: driver' "$BATS_TEST_TMPDIR/log"
  end
  assert_equal "$(opened)" 2
}

@test "a replacement that a GPU does not survive is undone, and not tried again" {
  machine
  kmodsmith install --package "$package"
  assert_status 0
  printf 'OK open nvidia1\nEIO open nvidia1: %s\n' "$failed" >"$ROOT/.sys-refused"
  kmodsmith install --package "$package" --param nvidia:NVreg_EnableMSI=0
  assert_error E_GPU_START "verify: gpus: 1 of 2 start"
  [[ $stderr == *"before the change: 2 of 2 start"*"back "*"is loaded again"*"gpus "*" s  2 of 2 start"* ]]
  assert_equal "$(calls | grep '^load nvidia ' | tail -n 1 | sed 's/ *$//')" "load nvidia"
  kmodsmith status
  assert_status 0
  assert_line --regexp '^pass +gpus +2 of 2 start '
  assert_line --partial "bad target: 535.261.03 open failed"
  kmodsmith install --package "$package" --param nvidia:NVreg_EnableMSI=0
  assert_error E_TARGET_FAILED
  printf 'OK open nvidia1\nEIO open nvidia1: %s\n' "$failed" >"$ROOT/.sys-refused"
  kmodsmith install --package "$package" --param nvidia:NVreg_EnablePCIeGen3=1 --allow-missing-gpus 1 # of those that were before
  assert_error E_GPU_START "verify: gpus: 1 of 2 start"
}

@test "a GPU that was broken before a replacement speaks against nobody: the new driver stays" {
  machine
  broken
  kmodsmith install --package "$package" --allow-missing-gpus 1
  assert_status 0
  broken && broken
  kmodsmith install --package "$package" --param nvidia:NVreg_EnableMSI=0
  assert_error E_GPU_START "verify: gpus: 1 of 2 start"
  refute [ "$(calls | grep -c '^load nvidia ')" -gt 2 ]
  kmodsmith status
  assert_status 1
  refute_line --partial "bad target"
}

@test "after a boot with the same driver a GPU that fails is at fault itself" {
  machine
  kmodsmith install --package "$package"
  assert_status 0
  rm -r "$ROOT/run" "$ROOT"/sys/module/nvidia*
  echo 11111111-2222-3333-4444-555555555555 >"$ROOT/proc/sys/kernel/random/boot_id"
  broken
  kmodsmith install --driver 535.261.03
  assert_error E_GPU_START "verify: gpus: 1 of 2 start"
  assert [ -d "$ROOT/sys/module/nvidia" ]
  kmodsmith status
  refute_line --partial "bad target"
  assert_line --partial "last good: 535.261.03 open"
}

@test "a GPU that only a reset mends is no reason to go back" {
  machine
  kmodsmith install --package "$package"
  assert_status 0
  printf 'OK open nvidia1\nEIO open nvidia1: NVRM: _kgspBootGspRm: unexpected WPR2 already up, cannot proceed\n' >"$ROOT/.sys-refused"
  kmodsmith install --package "$package" --param nvidia:NVreg_EnableMSI=0
  assert_error E_GPU_START "it needs a reset"
  assert_equal "$(calls | grep '^load nvidia ' | tail -n 1 | sed 's/ *$//')" "load nvidia NVreg_EnableMSI=0"
}
