#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A change of the driver that fails at each of its steps on a recorded machine: the old driver is loaded again with its
# parameters, and node, record and exit status tell of it (R-E1, R-K1). What the machine refuses: base/process/sys.h. The same
# with a real kernel: tests/vm/16-replace.sh.
# shellcheck disable=SC2154 # bats and helper.bash set status, output, stderr and ROOT
load helper
load package

setup() { package=$BATS_TEST_TMPDIR/package; }
loads() { calls | grep -E '^(un)?load ' | sed 's/ *$//' | paste -sd';'; }
refuse() { printf '%s\n' "$@" >"$ROOT/.sys-refused"; } # CALL...: as base/process/sys.h has them
journal() { jq -r "$1" "$ROOT/var/lib/kmodsmith/journal"; }
machine() { # with a kernel log
  loadable
  mkdir -p "$ROOT/dev"
  touch "$ROOT/dev/kmsg"
}
with_old_driver() { # our own, with a parameter
  machine
  kmodsmith install --package "$package" --modules nvidia,nvidia-uvm --param nvidia:NVreg_DeviceFileMode=432
  assert_status 0
  rm "$ROOT/.sys-calls"
}
change() { kmodsmith install --package "$package" --modules nvidia,nvidia-uvm --param nvidia:NVreg_EnableMSI=0 "$@"; }
assert_old_driver() { # CODE: of the run that failed
  assert_equal "$(cat "$ROOT/.sys-refused")" "" # each refusal was met
  assert_equal "$(journal '[.state, .step, .target, .previous, (."last-good".params | join(","))] | map(tostring) | join(" ")')" \
    "idle null null null nvidia NVreg_DeviceFileMode=432"
  assert_equal "$(jq -r '[.last_run.outcome, .last_run.error.code, .driver.version] | join(" ")' "$ROOT/run/kmodsmith/status.json")" \
    "change $1 535.261.03"
  kmodsmith nodes --dry-run
  assert_status 0
  kmodsmith status
  assert_status 0
  assert_line ready
  assert_line --regexp "^last run: change failed at .*: $1 "
}

@test "a change that fails at any step: the old driver is loaded again, with its parameters and device nodes" {
  local out="unload nvidia_uvm;unload nvidia" new="load nvidia NVreg_EnableMSI=0" uvm="load nvidia_uvm"
  local old="load nvidia NVreg_DeviceFileMode=432;load nvidia_uvm" refused code blamed text expected
  while IFS='|' read -r refused code blamed text expected; do
    with_old_driver
    rm "$ROOT/dev/nvidia1"
    refuse "$refused"
    change
    assert_status "$([ "$code" = E_IN_USE ] && echo 75 || echo 1)"
    assert_error "$code" "$text"
    assert_equal "$(loads)" "$expected"
    assert_equal "$(journal '[.failures[].code] | join(" ")')" "$blamed"
    [[ $expected == "unload nvidia_uvm;load "* ]] || [[ $stderr == *"back "*"driver 535.261.03 open is loaded again"* ]]
    assert_old_driver "$code"
  done <<EOF
EBUSY unload nvidia_uvm|E_IN_USE||unload: unload 'nvidia_uvm': it is in use|unload nvidia_uvm;$old
EBUSY unload nvidia|E_IN_USE||after nvidia_uvm was unloaded: unload 'nvidia': it is in use|$out;$old
EACCES unload nvidia|E_RIGHTS||after nvidia_uvm was unloaded: unload 'nvidia'|$out;$old
EINVAL load nvidia: nvidia: \`often' invalid for parameter \`NVreg_EnableMSI'|E_PARAM|E_PARAM|invalid for parameter|$out;$new;$old
ENODEV load nvidia: NVRM: GPU 0000:40:00.0 is already bound to vfio-pci|E_BOUND||another driver owns the GPU|$out;$new;$old
ENOMEM load nvidia|E_SYSTEM||load: load 'nvidia'|$out;$new;$old
ENOENT load nvidia_uvm: nvidia_uvm: Unknown symbol nv_x (err -2)|E_SYMBOL|E_SYMBOL|Unknown symbol nv_x|$out;$new;$uvm;unload nvidia;$old
EROFS mknod nvidia1|E_NODES|E_NODES|nodes: make|$out;$new;$uvm;$out;$old
EOF
}

@test "a failure of the driver itself is shown by status, and not retried until forced" {
  with_old_driver
  refuse "EINVAL load nvidia: nvidia: \`0' invalid for parameter \`NVreg_EnableMSI'"
  change
  assert_error E_PARAM
  kmodsmith status
  assert_line --regexp "^bad target: 535.261.03 open failed at .* E_PARAM: .*invalid for parameter"
  rm "$ROOT/.sys-calls"
  change
  assert_error E_TARGET_FAILED "with E_PARAM: "
  assert_equal "$(calls)" ""
  change --retry
  assert_status 0
  assert_equal "$(journal '."last-good".params | join(",")')" "nvidia NVreg_EnableMSI=0"
}

@test "the host's own driver is restored from the host's tree, with the parameters that the kernel showed" {
  machine
  local kernel=6.1.0-56-cloud-amd64 module dir
  mkdir -p "$ROOT/lib/modules/$kernel/updates" "$ROOT/sys/module/nvidia/holders" "$ROOT/sys/module/nvidia_uvm/parameters"
  ln -s ../../nvidia_uvm "$ROOT/sys/module/nvidia/holders/nvidia_uvm"
  for module in nvidia nvidia-uvm; do
    dir=$ROOT/sys/module/${module/-/_}
    tiny_module "$ROOT/lib/modules/$kernel/updates/$module.ko" "$kernel" "" ""
    echo "updates/$module.ko:" >>"$ROOT/lib/modules/$kernel/modules.dep"
    echo live >"$dir/initstate"
    echo ABCDEF0123456789ABCDEF0 >"$dir/srcversion"
  done
  echo Y >"$ROOT/sys/module/nvidia_uvm/parameters/uvm_disable_hmm"
  echo '(null)' >"$ROOT/sys/module/nvidia_uvm/parameters/uvm_unset"
  printf 'ResmanDebugLevel: 4294967295\nDeviceFileMode: 438\nEnableMSI: 1\nRegistryDwords: "a=1 b=2"\nRmMsg: ""\n' >"$ROOT/proc/driver/nvidia/params"
  refuse "EINVAL load nvidia NVreg_EnableMSI=0"
  change --host-driver replace
  assert_error E_LOAD
  assert_equal "$(loads)" "unload nvidia_uvm;unload nvidia;load nvidia NVreg_EnableMSI=0;$(
    )load nvidia NVreg_DeviceFileMode=438 NVreg_EnableMSI=1 NVreg_RegistryDwords=\"a=1 b=2\";load nvidia_uvm uvm_disable_hmm=Y"
  assert_equal "$(journal '[.state, ."last-good", (.failures[0].code)] | map(tostring) | join(" ")')" "idle null E_LOAD"
  kmodsmith status
  assert_status 0
  assert_line ready
}

@test "nouveau gets the GPU back if the driver that was to replace it cannot be loaded" {
  machine
  local device=$ROOT/sys/bus/pci/devices/0000:40:00.0
  echo nouveau.ko: >"$ROOT/lib/modules/6.1.0-56-cloud-amd64/modules.dep"
  touch "$ROOT/lib/modules/6.1.0-56-cloud-amd64/nouveau.ko"
  mkdir -p "$ROOT/sys/bus/pci/drivers/nouveau" "$ROOT/sys/module/nouveau"
  ln -s ../../../module/nouveau "$ROOT/sys/bus/pci/drivers/nouveau/module"
  ln -s ../../../bus/pci/drivers/nouveau "$device/driver"
  refuse "EBUSY unload nouveau" "ENODEV load nvidia_uvm"
  change
  assert_status 1
  assert_equal "$(cat "$ROOT/.sys-refused")" ""
  assert_equal "$(loads)" "unload nouveau;load nvidia NVreg_EnableMSI=0;load nvidia_uvm;unload nvidia"
  assert_equal "$(readlink "$device/driver")" ../../../bus/pci/drivers/nouveau
  assert_equal "$(cat "$device/driver_override")" ""
  assert_equal "$(journal '[.state, ."last-good"] | map(tostring) | join(" ")')" "idle null"
}

@test "the old driver is refused too: it is tried once more, and the result is reported" {
  with_old_driver
  refuse "ENOMEM load nvidia NVreg_EnableMSI=0" "EINVAL load nvidia NVreg_DeviceFileMode=432: nvidia: not now"
  change
  assert_error E_SYSTEM "could not be undone, load 'nvidia': the kernel refused it: kernel: nvidia: not now (EINVAL); cause: load: load 'nvidia'"
  [[ $stderr == *"fell back to the last good driver; the requested one is not loaded"* ]]
  kmodsmith status
  assert_status 0
  assert_equal "$(journal '[.state, (."last-good".params | join(","))] | join(" ")')" "idle nvidia NVreg_DeviceFileMode=432"
  refuse "ENOMEM load nvidia NVreg_EnableMSI=0" "EINVAL load nvidia" "EINVAL load nvidia NVreg_DeviceFileMode=432: nvidia: never"
  change
  assert_error E_SYSTEM "could not be undone, load 'nvidia': "
  [[ $stderr == *"; and the last good driver could not be brought back (load 'nvidia': the kernel refused it: kernel: nvidia: never (EINVAL))"* ]]
  assert_equal "$(jq -r '.last_run.outcome' "$ROOT/run/kmodsmith/status.json")" back
  kmodsmith status
  assert_status 1
  assert_line "NOT READY"
  kmodsmith install --driver 550.1 # the next start brings it, whatever it was to do
  assert_error E_NO_PACKAGE
  [[ $stderr == *"fell back to the last good driver; the requested one is not loaded"* ]]
  kmodsmith status
  assert_status 0
}

@test "an unavailable driver: what worked last is restored, and one line says that its user space is missing" {
  with_old_driver
  kmodsmith unload
  kmodsmith install --driver 550.1 --export /run/nvidia/driver
  assert_error E_NO_PACKAGE
  [[ $stderr == *"no user space of driver 535.261.03 is exported: the store: it has no payload-535.261.03-x86_64"* ]]
  [[ $stderr == *"back "*"driver 535.261.03 open is loaded again"*"the last good driver, every post-condition holds"* ]]
  assert_equal "$(loads)" "unload nvidia_uvm;unload nvidia;load nvidia NVreg_DeviceFileMode=432;load nvidia_uvm"
  kmodsmith status
  assert_status 0
}

@test "two boots end during the restore: the third leaves it alone, the fourth tries again" {
  with_old_driver
  kmodsmith unload
  boot() { # NAME, with the way back under way in the boots before
    rm -rf "$ROOT/run/kmodsmith"
    echo "$1" >"$ROOT/proc/sys/kernel/random/boot_id"
    kmodsmith install --driver 550.1
    assert_error E_NO_PACKAGE
  }
  jq '.state = "changing" | .step = "back" | .target = ."last-good" | .boot = "two" | .boots = ["one", "two"]' \
    "$ROOT/var/lib/kmodsmith/journal" >"$BATS_TEST_TMPDIR/journal"
  cp "$BATS_TEST_TMPDIR/journal" "$ROOT/var/lib/kmodsmith/journal"
  rm "$ROOT/.sys-calls"
  boot three
  [[ $stderr == *"is not restored: 2 boots ended while it was being loaded (back); the next boot tries again"* ]]
  boot three
  assert_equal "$(calls)" ""
  boot four
  [[ $stderr == *"driver 535.261.03 open is loaded again"* ]]
  assert_equal "$(loads)" "load nvidia NVreg_DeviceFileMode=432;load nvidia_uvm"
}

@test "the kernel is stuck in a load: no further attempt in this boot, doctor and status say so; the next boot tries again" {
  local words="load 'nvidia': the kernel oopsed in it and killed process 7; kernel: Oops: 0002"
  machine
  jq -n --rawfile boot "$ROOT/proc/sys/kernel/random/boot_id" --arg words "$words" \
    '{state: "wedged", boot: ($boot | rtrimstr("\n")), since: "2026-01-02T03:04:05Z", text: $words}' >"$BATS_TEST_TMPDIR/journal"
  mkdir -p "$ROOT/var/lib/kmodsmith"
  cp "$BATS_TEST_TMPDIR/journal" "$ROOT/var/lib/kmodsmith/journal"
  for command in "install --package $package" "install --package $package --retry" unload "init --package $package"; do
    # shellcheck disable=SC2086 # words
    kmodsmith $command
    assert_status 1
    assert_error E_WEDGED "since 2026-01-02T03:04:05Z: $words"
  done
  assert_equal "$(calls)" ""
  kmodsmith doctor
  assert_status 1
  assert_line --regexp "^FAIL +modules +E_WEDGED: since .*$words"
  assert_line --regexp "next: drain and reboot the node"
  kmodsmith status
  assert_line "wedged since 2026-01-02T03:04:05Z: $words"
  kmodsmith status --json
  assert_json .journal.state wedged
  echo 5eb63bbb-e01e-4eed-9376-bb2d1c3a1a2b >"$ROOT/proc/sys/kernel/random/boot_id"
  kmodsmith install --package "$package"
  assert_status 0
  kmodsmith doctor
  assert_line --regexp "^pass +modules +no load or unload of this boot is stuck"
}

@test "the host lacks a file that the driver needs: the proof says so, nothing is touched, and the driver is not blamed" {
  local kernel=6.1.0-56-cloud-amd64 needy=$BATS_TEST_TMPDIR/needy
  with_old_driver
  local tree=$ROOT/lib/modules/$kernel
  mkdir -p "$tree/build" "$tree/kernel/drm" "$needy.d"
  printf '0x00000000\tdrm_open\tdrm/drm\tEXPORT_SYMBOL\t\n' >"$tree/build/Module.symvers"
  printf 'kernel/drm/drm.ko: kernel/drm/quirks.ko\nkernel/drm/quirks.ko:\n' >"$tree/modules.dep"
  tiny_module "$tree/kernel/drm/drm.ko" "$kernel" drm_open ""
  cp "$package.d"/*.ko "$needy.d"
  tiny_module "$needy.d/nvidia.ko" "$kernel" nvidia_register_module drm_open
  layout "$needy" "$kernel"
  for _ in 1 2; do
    kmodsmith install --package "$needy" --modules nvidia,nvidia-uvm
    assert_status 1
    assert_error E_HOST_MODULES "prove: nvidia: the kernel's module 'drm/drm' is needed, modules.dep lists it, and its file"
    assert_error E_HOST_MODULES "/lib/modules/$kernel/kernel/drm/quirks.ko' is not there"
    [[ $stderr == *"reinstall the kernel's modules package"*"depmod -a"* ]]
    assert_equal "$(calls)" ""
  done
  rm "$tree/modules.dep"
  kmodsmith install --package "$needy" --modules nvidia,nvidia-uvm
  assert_error E_HOST_MODULES "/lib/modules/$kernel/modules.dep' is not there"
  printf 'kernel/drm/drm.ko: kernel/drm/quirks.ko\nkernel/drm/quirks.ko:\n' >"$tree/modules.dep"
  tiny_module "$tree/kernel/drm/quirks.ko" "$kernel" "" ""
  # What the kernel refuses of the host's is found out when the old driver is gone; it comes back, and the target stays good.
  refuse "EINVAL load quirks"
  kmodsmith install --package "$needy" --modules nvidia,nvidia-uvm
  assert_error E_HOST_MODULES "load: the kernel's module 'drm/drm' is needed: load 'quirks'"
  assert_equal "$(journal '.failures | length')" 0
  kmodsmith install --package "$needy" --modules nvidia,nvidia-uvm
  assert_status 0
  assert_line ready
  [[ "$(loads)" == *"unload nvidia_uvm;unload nvidia;load quirks;load drm;load nvidia;load nvidia_uvm" ]]
}

@test "a last good driver of another build of the kernel is not loaded: nothing proves that it fits" {
  local build loaded
  while IFS='|' read -r build loaded; do
    with_old_driver
    kmodsmith unload
    rm "$ROOT/.sys-calls"
    echo 7e57ab1e-0000-4000-8000-000000000002 >"$ROOT/proc/sys/kernel/random/boot_id"
    sed -i "s/#1 /#$build /" "$ROOT/proc/version"
    kmodsmith install --driver 550.1 --offline
    assert_error E_NO_PACKAGE 550.1
    assert_equal "$(loads)" "$loaded"
    [[ $stderr != *"no user space is exported"* ]] || told | fail
  done <<END
1|load nvidia NVreg_DeviceFileMode=432;load nvidia_uvm
2|
END
}

@test "a load that ends badly and a retry that finds all well: the driver is the last good one, with its parameters" {
  start() { kmodsmith install --package "$package" --modules nvidia,nvidia-uvm --param nvidia:NVreg_DeviceFileMode=432; }
  machine
  sed -i 's/^DeviceFileMode: .*/DeviceFileMode: 432/' "$ROOT/proc/driver/nvidia/params"
  refuse "EROFS mknod nvidia1"
  start
  assert_error E_NODES
  assert_equal "$(journal '[.state, .target.version, ."last-good"] | map(tostring) | join(" ")')" "idle 535.261.03 null"
  rm "$ROOT/var/lib/kmodsmith/roots.json" # as on a disk that was full
  start
  assert_status 0
  assert_equal "$(loads)" "load nvidia NVreg_DeviceFileMode=432;load nvidia_uvm" # once
  assert_equal "$(journal '[.state, .target, ."last-good".version, (."last-good".params | join(",")), ."last-good-boot" == .boot] | map(tostring) | join(" ")')" \
    "idle null 535.261.03 nvidia NVreg_DeviceFileMode=432 true"
  assert_equal "$(jq -r '.target != null and .target == ."last-good"' "$ROOT/var/lib/kmodsmith/roots.json")" true
  kmodsmith unload
  rm "$ROOT/.sys-calls"
  echo 7e57ab1e-0000-4000-8000-000000000002 >"$ROOT/proc/sys/kernel/random/boot_id"
  kmodsmith install --driver 550.1 --offline
  assert_error E_NO_PACKAGE 550.1
  assert_equal "$(loads)" "load nvidia NVreg_DeviceFileMode=432;load nvidia_uvm"
}
