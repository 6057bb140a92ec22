#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# plan, install, nodes and init on recorded machines: what the kernel would be asked for, and that a refusal
# asks for nothing (R-D1, R-G2).
# shellcheck disable=SC2154 # bats and helper.bash set stderr, top and ROOT
load helper
load package

setup() { package=$BATS_TEST_TMPDIR/package; }
loads() { calls | grep -E '^(un)?load ' | sed 's/ *$//' | paste -sd';'; }
same() { # the machine is as it was, but for the lock and the state directory
  rm -rf "$ROOT/run/kmodsmith" "$ROOT/var/lib/kmodsmith"
  rmdir "$ROOT/run" "$ROOT/var/lib" "$ROOT/var" 2>/dev/null || true
  assert_unchanged
}

@test "install: loads in order, creates the nodes, is ready; again: adopts the driver and fetches nothing" {
  loadable
  kmodsmith install --package "$package"
  assert_status 0
  assert_line ready
  assert_equal "$(loads)" "load nvidia;load nvidia_modeset;load nvidia_uvm"
  rm "$ROOT/.sys-calls"
  snapshot
  kmodsmith install --driver 535.261.03 --json
  assert_status 0
  assert_json .plan.outcome adopt
  assert_json .status.state READY
  assert_json '.status.checks | all(.pass)'
  assert_json '[.plan.steps[].step] | join(",")' adopt,nodes,verify
  assert_json '[.phases[].phase] | join(",")' detect,adopt,nodes,verify
  assert_equal "$(calls)" ""
  assert_unchanged
  kmodsmith status
  assert_status 0
}

@test "install: a kept package serves if it is no longer given" {
  loadable
  kmodsmith install --package "$package" --modules nvidia,uvm
  assert_status 0
  assert_equal "$(loads)" "load nvidia;load nvidia_uvm"
  rm -r "$package"
  kmodsmith unload
  assert_output "unloaded nvidia_uvm, nvidia"
  kmodsmith install --driver 535.261.03
  assert_status 0
  assert_equal "$(loads)" \
    "load nvidia;load nvidia_uvm;unload nvidia_uvm;unload nvidia;load nvidia;load nvidia_modeset;load nvidia_uvm"
}

@test "install: parameters from the option, modprobe.d and the kernel command line reach the module" {
  loadable
  mkdir -p "$ROOT/etc/modprobe.d"
  echo 'options nvidia NVreg_EnableMSI=1' >"$ROOT/etc/modprobe.d/a.conf"
  kmodsmith install --package "$package" --param nvidia:NVreg_EnableMSI=1,nvidia-uvm:uvm_disable_hmm=1
  assert_status 0
  assert_equal "$(loads)" "load nvidia NVreg_EnableMSI=1;load nvidia_modeset;load nvidia_uvm uvm_disable_hmm=1"
}

@test "install: a masked file of modprobe.d is empty, and what is no file there is skipped with a warning" {
  loadable
  mkdir -p "$ROOT"/{etc,usr/lib}/modprobe.d "$ROOT/drivers/nvidia-uvm.conf"
  echo 'options nvidia NVreg_EnableMSI=0' >"$ROOT/usr/lib/modprobe.d/nvidia.conf"
  ln -s /dev/null "$ROOT/etc/modprobe.d/nvidia.conf"
  mkfifo "$ROOT/etc/modprobe.d/fifo.conf"
  ln -s loop.conf "$ROOT/etc/modprobe.d/loop.conf"
  kmodsmith install --package "$package"
  assert_status 0
  assert_line ready
  assert_equal "$(loads)" "load nvidia;load nvidia_modeset;load nvidia_uvm"
  assert_equal "$(grep -c 'is skipped: it is' <<<"$stderr")" 3
  [[ $stderr == *"/etc/modprobe.d/fifo.conf' is skipped: it is a FIFO"* ]]
  [[ $stderr == *"/etc/modprobe.d/loop.conf' is skipped: it is a link that leads back to itself"* ]]
  [[ $stderr == *"/drivers/nvidia-uvm.conf' is skipped: it is a directory"* ]]
}

@test "R-D1: a parameter that the kernel shows in another spelling is no reason to unload the driver" {
  loadable
  mkdir -p "$ROOT/etc/modprobe.d" "$ROOT"/sys/module/nvidia_{uvm,modeset}/parameters
  printf 'options %s\n' 'nvidia NVreg_ResmanDebugLevel=-1 NVreg_DeviceFileMode=0660' \
    'nvidia-modeset vblank_sem_control=on' 'nvidia-uvm uvm_perf_prefetch_threshold=+51' >"$ROOT/etc/modprobe.d/x.conf"
  kmodsmith install --package "$package"
  assert_status 0
  sed -i 's/^ResmanDebugLevel:.*/ResmanDebugLevel: 4294967295/; s/^DeviceFileMode:.*/DeviceFileMode: 432/' \
    "$ROOT/proc/driver/nvidia/params"
  echo Y >"$ROOT/sys/module/nvidia_modeset/parameters/vblank_sem_control"
  echo 51 >"$ROOT/sys/module/nvidia_uvm/parameters/uvm_perf_prefetch_threshold"
  kmodsmith plan --driver 535.261.03 --json
  assert_json .outcome adopt
  echo N >"$ROOT/sys/module/nvidia_modeset/parameters/vblank_sem_control"
  kmodsmith plan --driver 535.261.03
  assert_line --partial "nvidia_modeset vblank_sem_control: N, requested on"
}

# What plan promises install reaches, and status says.
@test "R-P7: a display card that no driver serves beside a compute GPU is named and does not count" {
  loadable
  echo 0x1287 >"$ROOT/sys/bus/pci/devices/0000:50:00.0/device"
  rm -r "$ROOT/proc/driver/nvidia/gpus/0000:50:00.0"
  mkdir -p "$ROOT/sys/bus/pci/drivers/nouveau"
  ln -sfn ../../../bus/pci/drivers/nouveau "$ROOT/sys/bus/pci/devices/0000:50:00.0/driver"
  kmodsmith plan --package "$package"
  assert_status 0
  assert_line --partial "GPUs left without a driver: 0000:50:00.0 (Kepler)"
  assert_line --regexp "verify +1 GPU, 0 switches"
  refute_line --partial unbind
  kmodsmith install --package "$package"
  assert_status 0
  assert_line ready
  assert_line --regexp "^pass +gpus +1 of 1 start \([0-9.]+ s\); left without a driver: 0000:50:00.0 \(Kepler\)"
  kmodsmith status
  assert_status 0
  assert_line --partial ", 1 GPU, "
  kmodsmith install --driver 535.261.03 --json
  assert_json .plan.outcome adopt
  kmodsmith doctor
  assert_line --regexp "^warn +driver choice +E_MIXED_GPUS: the open modules of driver 535.261.03 leave GPUs without a driver: 0000:50:00.0 \(Kepler\)"
}

@test "status names a GPU without a driver, and what the kernel said of it" {
  loadable
  kmodsmith install --package "$package"
  assert_status 0
  rm -r "$ROOT/proc/driver/nvidia/gpus/0000:50:00.0"
  printf '3,1,5,-;NVRM: The NVIDIA GPU %s\\x0aNVRM: (PCI ID: 10de:2330) %s\\x0aNVRM: %s\n' 0000:50:00.0 \
    'installed in this system has' 'fallen off the bus and is not responding to commands.' >"$ROOT/dev/kmsg"
  kmodsmith status
  assert_line --partial "gpus: 1 of 2; 0000:50:00.0 has no driver (kernel: NVRM: The NVIDIA GPU 0000:50:00.0 (PCI ID: 10de:2330) installed in this system has fallen off the bus"
}

@test "a package without nvidia-uvm serves only who asks for its modules; then compute is said to be out of reach" {
  loadable
  rm -r "$package" "$package.d/nvidia-uvm.ko"
  layout "$package" 6.1.0-56-cloud-amd64
  kmodsmith plan --package "$package"
  assert_error E_NO_PACKAGE "it has no nvidia-uvm"
  kmodsmith install --package "$package" --modules nvidia
  assert_status 0
  assert_equal "$(loads)" "load nvidia"
  assert_line --regexp "^pass +compute +not reachable: nvidia_uvm is not loaded"
  kmodsmith status
  assert_line --partial "without compute (nvidia_uvm is not loaded)"
  kmodsmith plan --driver 535.261.03 --modules nvidia
  assert_line --partial "CUDA will not work: nvidia-uvm is not among the requested modules"
}

@test "R-Q1: --host-driver use: a foreign driver stays, whatever is requested, and gets its nodes" { # R-C4, R-R2
  host h100x8
  KMODSMITH_HOST_DRIVER=use kmodsmith install --driver 570.1 --flavour proprietary --source /nowhere --json
  assert_error E_NOT_FOUND "--source"
  KMODSMITH_HOST_DRIVER=use kmodsmith install --driver 570.1 --flavour proprietary --from http://192.0.2.1/x --json
  assert_status 0
  assert_json .plan.outcome adopt
  assert_json .plan.driver 535.261.03
  assert_json .plan.flavour open
  assert_json .status.state READY
  [[ $stderr == *"the host's own driver 535.261.03 (open, no file on the host) is loaded already"* ]]
  assert_equal "$(loads)" ""
}

@test "R-Q1: what the host would load at its next boot counts, unless it is blacklisted" {
  loadable
  local tree=$ROOT/lib/modules/6.1.0-56-cloud-amd64
  mkdir -p "$tree/updates" "$ROOT/etc/modprobe.d"
  tiny_module "$tree/updates/nvidia-current.ko" 6.1.0-56-cloud-amd64 "" ""
  sed -i 's/535.261.03/550.154.14/' "$tree/updates/nvidia-current.ko"
  echo updates/nvidia-current.ko: >"$tree/modules.dep"
  kmodsmith install --package "$package"
  assert_error E_HOST_DRIVER "driver 550.154.14 (proprietary, from lib/modules/6.1.0-56-cloud-amd64/updates/nvidia-current.ko) is installed"
  assert_equal "$(calls)" ""
  kmodsmith plan --package "$package" --host-driver use
  assert_error E_HOST_DRIVER "is not loaded"
  kmodsmith plan --package "$package" --host-driver replace
  assert_status 0
  echo blacklist nvidia >"$ROOT/etc/modprobe.d/nvidia.conf"
  kmodsmith install --package "$package"
  assert_status 0
}

# Laid out as weak-modules of the Red Hat family leaves it: a KMP of one kernel, linked for another that has its kABI.
@test "R-Q1: a driver that weak-modules linked from another kernel is the host's, and stays as it is" {
  loadable
  local kernel=6.1.0-56-cloud-amd64 other=6.1.0-55-cloud-amd64 modules=$ROOT/lib/modules
  tree_of_modules() { (cd "$modules" && find . -printf '%p %m %T@ %l\n' | sort && find . -type f -exec sha256sum {} + | sort); }
  mkdir -p "$modules/$other/extra/nvidia" "$modules/$kernel/weak-updates/nvidia"
  tiny_module "$modules/$other/extra/nvidia/nvidia.ko" "$other" "" ""
  sed -i 's/535.261.03/550.154.14/' "$modules/$other/extra/nvidia/nvidia.ko"
  ln -s "/lib/modules/$other/extra/nvidia/nvidia.ko" "$modules/$kernel/weak-updates/nvidia/nvidia.ko"
  echo weak-updates/nvidia/nvidia.ko: >"$modules/$kernel/modules.dep"
  tree_of_modules >"$BATS_TEST_TMPDIR/before"
  kmodsmith install --package "$package"
  assert_error E_HOST_DRIVER "driver 550.154.14 (proprietary, from lib/modules/$kernel/weak-updates/nvidia/nvidia.ko) is installed"
  assert_equal "$(calls)" ""
  kmodsmith doctor
  assert_output --partial "weak-updates/nvidia/nvidia.ko"
  kmodsmith install --package "$package" --host-driver replace
  assert_status 0
  assert_equal "$(loads)" "load nvidia;load nvidia_modeset;load nvidia_uvm"
  tree_of_modules | cmp - "$BATS_TEST_TMPDIR/before"
}

@test "R-Q1: a link of weak-modules whose module went with its kernel is no driver" {
  loadable
  local weak=$ROOT/lib/modules/6.1.0-56-cloud-amd64/weak-updates/nvidia
  mkdir -p "$weak"
  ln -s /lib/modules/6.1.0-55-cloud-amd64/extra/nvidia/nvidia.ko "$weak/nvidia.ko"
  echo weak-updates/nvidia/nvidia.ko: >"$weak/../../modules.dep"
  kmodsmith install --package "$package"
  assert_status 0
}

@test "dry run: the plan as text and JSON, and nothing is touched" {
  loadable
  local command
  for command in plan "install --dry-run"; do
    # shellcheck disable=SC2086 # two words
    kmodsmith ${command} --package "$package" --json
    assert_status 0
    assert_json .outcome change
    assert_json .driver 535.261.03
    assert_json .kernel 6.1.0-56-cloud-amd64
    assert_json '[.steps[].step] | join(",")' preflight,package,prove,load,nodes,verify
    assert_json '.steps | all(.why and .subject)'
    # shellcheck disable=SC2086 # two words
    kmodsmith ${command} --package "$package"
    assert_line --regexp '^4 +load +nvidia, nvidia-uvm, nvidia-modeset'
  done
  assert_equal "$(calls)" ""
  same
}

@test "a damaged package, one for another kernel, and no package at all: named, and the machine stays unchanged" {
  loadable
  while IFS='|' read -r damage code text; do
    rm -rf "$package"
    tiny_package "$package" 6.1.0-56-cloud-amd64
    (cd "$BATS_TEST_TMPDIR" && eval "$damage")
    kmodsmith install --package "$package"
    assert_status 1
    assert_error "$code" "$text"
    kmodsmith install --package "$package" --json
    assert_json .error.code "$code"
    assert_equal "$(calls)" ""
    same
  done <<'EOF'
rm package/index.json|E_MANIFEST|index.json
rm package/oci-layout|E_NOT_FOUND|is not an OCI layout: it has no oci-layout
rm -r "$package"|E_NOT_FOUND|No such file
: >package/index.json|E_MANIFEST|index.json
echo '[1,2]' >package/index.json|E_MANIFEST|index.json
head -c 200 /dev/urandom >package/index.json|E_MANIFEST|index.json
: >"$(blob package manifest)"|E_DIGEST|bytes
sed -i s/open/oben/ "$(blob package config)"|E_DIGEST|sha256
rm "$(blob package config)"|E_MANIFEST|is missing
rm "$(blob package layer)"|E_NOT_FOUND|sha256
printf x >>"$(blob package layer)"|E_TOO_LARGE|received more
truncate -s -1 "$(blob package layer)"|E_DIGEST|sha256
layout "$package" 6.1.0-56-cloud-amd64 --label format=2|E_MANIFEST|does not have format 1
layout "$package" 6.1.0-56-cloud-amd64 --label driver=|E_MANIFEST|labels of its configuration are missing or invalid
layout "$package" 6.1.0-56-cloud-amd64 --label 'files=[{"name":"../nvidia.ko"}]'|E_MANIFEST|labels of its configuration are missing or invalid
rm package.d/nvidia-uvm.ko; layout "$package" 6.1.0-56-cloud-amd64 --label modules=nvidia,nvidia-uvm|E_MANIFEST|labels of its configuration are missing or invalid
truncate -s 700 package.d/nvidia.ko; layout "$package" 6.1.0-56-cloud-amd64|E_ELF|nvidia.ko
head -c 3000 /dev/urandom >package.d/nvidia.ko; layout "$package" 6.1.0-56-cloud-amd64|E_ELF|nvidia.ko
: >package.d/nvidia.ko; layout "$package" 6.1.0-56-cloud-amd64|E_ELF|nvidia.ko
tiny_module package.d/nvidia.ko 6.1.0-99-cloud-amd64 nvidia_register_module ""; layout "$package" 6.1.0-56-cloud-amd64|E_ABI|6.1.0-99
layout "$package" 6.1.0-99-cloud-amd64|E_ABI|labelled as made for 6.1.0-99-cloud-amd64, but its nvidia
layout "$package" 6.2.0-99-cloud-amd64|E_NO_PACKAGE|kernel release is 6.2.0-99-cloud-amd64, wanted 6.1.0-56-cloud-amd64
layout "$package" 6.1.0-56-cloud-amd64 --arch aarch64|E_NO_PACKAGE|architecture is aarch64
EOF
}

@test "refusals of the machine: each has its code and evidence, and nothing is asked of the kernel" {
  tiny_package "$package" 6.1.0-56-cloud-amd64
  tiny_package "$BATS_TEST_TMPDIR/other" 6.1.0-50-cloud-amd64
  local machine args code text
  while IFS='|' read -r machine args code text; do
    host "$machine"
    # shellcheck disable=SC2086 # several words
    kmodsmith install ${args//OTHER/$BATS_TEST_TMPDIR/other}
    assert_error "$code" "$text"
    assert_equal "$(calls)" ""
    same
  done <<EOF
h100x2-unloaded||E_USAGE|give --driver, --package, --bundle or --source
h100x2-unloaded|--driver x|E_USAGE|'x' is not a driver version
h100x2-unloaded|--driver 535.261.03|E_NO_PACKAGE|no --source to compile
h100x2-unloaded|--driver 470.1 --flavour open|E_UNSUPPORTED_GPU|Hopper
h100x2-unloaded|--package $package --flavour proprietary|E_NO_PACKAGE|flavour is open, wanted proprietary
h100x2-unloaded|--package $package --modules peermem|E_NO_PACKAGE|it has no nvidia-peermem
h100x2-unloaded|--package $package --param nvidia|E_USAGE|--param 'nvidia' is not MODULE:NAME=VALUE
h100x2-unloaded|--package $package --flavour shut|E_USAGE|--flavour 'shut' is not one of auto, open, proprietary
pascal|--package $package|E_FLAVOUR|the proprietary ones are needed for 0000:3b:00.0 10de:1bb3 Pascal
pascal|--package $package --flavour open|E_FLAVOUR|proprietary does
mixed|--driver 575.57|E_MIXED_GPUS|0000:5e:00.0 10de:2901 Blackwell (open only
nouveau|--package $package|E_FIRMWARE|nvidia/535.261.03/gsp_tu10x.bin: the open modules need it for 0000:3b:00.0 (Turing)
h100x2-unloaded|--host-driver keep|E_USAGE|--host-driver 'keep' is not one of use, replace, fail
held|--package $BATS_TEST_TMPDIR/other --param nvidia:NVreg_EnableMSI=0|E_HOST_DRIVER|the host's own driver 535.261.03 (open, no file on the host) is loaded
held|--package $BATS_TEST_TMPDIR/other --param nvidia:NVreg_EnableMSI=0 --host-driver replace|E_IN_USE|pid 611 nvidia-persiste (uid 107)
EOF
}

bound_to() { # DRIVER: who has the first GPU
  mkdir -p "$ROOT/sys/bus/pci/drivers/$1" "$ROOT/sys/module/$1"
  ln -sfn "../../../module/$1" "$ROOT/sys/bus/pci/drivers/$1/module"
  ln -sfn "../../../bus/pci/drivers/$1" "$ROOT/sys/bus/pci/devices/0000:40:00.0/driver"
  snapshot
}

@test "R-P8: nouveau is unbound from the GPU before the load, another driver is refused; both are reported" {
  loadable
  echo nouveau.ko: >"$ROOT/lib/modules/6.1.0-56-cloud-amd64/modules.dep"
  touch "$ROOT/lib/modules/6.1.0-56-cloud-amd64/nouveau.ko"
  bound_to my_driver
  kmodsmith install --package "$package"
  assert_error E_BOUND "0000:40:00.0 10de:2330 is bound to my_driver; put 'blacklist my_driver'"
  assert_equal "$(calls)" ""
  same
  kmodsmith doctor --json
  assert_json '.checks[] | select(.name == "owner") | .state + " " + .code' "FAIL E_BOUND"
  bound_to nouveau
  kmodsmith plan --package "$package" --json
  assert_json '[.steps[].step] | join(",")' preflight,package,prove,unbind,load,nodes,verify
  assert_json '.steps[] | select(.step == "unbind") | .subject' "0000:40:00.0 from nouveau"
  kmodsmith doctor
  assert_line --regexp '^warn +owner +E_BOUND: install unbinds 0000:40:00.0 from nouveau'
  kmodsmith install --package "$package"
  assert_status 0
  assert_line ready
  run grep -vE 'mknod|^set ' "$ROOT/.sys-calls"
  assert_line --index 0 "write sys/bus/pci/devices/0000:40:00.0/driver_override nvidia"
  assert_line --index 1 "write sys/bus/pci/drivers/nouveau/unbind 0000:40:00.0"
  assert_line --index 2 "unload nouveau"
  assert_line --index 3 "load nvidia "
  assert_line --index 6 "write sys/bus/pci/drivers_probe 0000:40:00.0"
  assert_line --index 7 "write sys/bus/pci/devices/0000:40:00.0/driver_override "
}

@test "a pod's own sysfs is read-only: the machine's is written; where that is read-only, too, nothing is touched" {
  needs_mounts
  # shellcheck disable=SC2016 # a script for another shell
  in_pod() { # rw|ro COMMAND...: sysfs as a pod sees it is read-only, and so is the machine's, or not
    run --separate-stderr unshare -m --propagation private bash -c 'program=$1 root=$2 kind=$3 && shift 3
      read_only() { mount --bind "$1" "$1" && mount -o "remount,bind,ro" "$1"; }
      mkdir "$root.host" && mount --bind "$root" "$root.host" && read_only "$root/sys/bus" && read_only "$root/sys/devices" || exit 99
      [ "$kind" = rw ] || { read_only "$root.host/sys/bus" && read_only "$root.host/sys/devices"; } || exit 99
      "$program" "$@" --root "$root" --host-root "$root.host"' - "$KMODSMITH" "$ROOT" "$@"
    rmdir "$ROOT.host"
  }
  loadable
  bound_to nouveau
  echo "(null)" >"$ROOT/sys/bus/pci/devices/0000:40:00.0/driver_override"
  touch "$ROOT"/sys/bus/pci/{drivers_probe,drivers/nouveau/unbind}
  snapshot
  in_pod ro install --package "$package"
  assert_status 1
  assert_error E_READ_ONLY "preflight: write to '$ROOT/sys/bus/pci/devices/0000:40:00.0/driver_override': Read-only file system"
  [[ $stderr == *"next: in a container: "*"hostPID: true"* ]] || told | fail
  assert_equal "$(calls)" ""
  same
  in_pod rw install --package "$package"
  assert_status 0
  assert_line ready
  run grep -c "^write sys/bus/" "$ROOT/.sys-calls"
  assert_output 4
  [[ $stderr != *"could not"* ]] || told | fail
}

@test "R-P6: firmware of the exact version is looked for where the kernel looks, before anything is touched" {
  loadable
  local dir=$ROOT/lib/firmware/nvidia
  rm -r "$dir" && tiny_firmware 535.1 && snapshot
  kmodsmith install --package "$package"
  assert_error E_FIRMWARE "nvidia/535.261.03/gsp_ga10x.bin: the open modules need it for 0000:40:00.0 (Hopper)"
  assert_equal "$(calls)" ""
  kmodsmith install --package "$package" --param nvidia:NVreg_EnableGpuFirmware=0
  assert_error E_FIRMWARE "the kernel would look in /lib/firmware/updates/6.1.0-56-cloud-amd64, "
  same
  kmodsmith doctor
  assert_line --regexp '^pass +firmware +for 535.1 in /lib/firmware/updates/6.1.0-56-cloud-amd64, .*/lib/firmware;'
  mkdir -p "$ROOT/sys/module/firmware_class/parameters" "$ROOT/opt/theirs/nvidia"
  echo /opt/theirs >"$ROOT/sys/module/firmware_class/parameters/path"
  kmodsmith install --package "$package"
  assert_error E_FIRMWARE "look in /opt/theirs, /lib/firmware/updates/"
  cp -a "$dir/535.1" "$ROOT/opt/theirs/nvidia/535.261.03"
  kmodsmith install --package "$package"
  assert_status 0
  assert_regex "$stderr" "preflight .*firmware [^;]*/opt/theirs/nvidia/535.261.03"
  assert_equal "$(cat "$ROOT/sys/module/firmware_class/parameters/path")" /opt/theirs
}

@test "Secure Boot: a compile is refused before it starts, and doctor fails" {
  host secure-boot
  tiny_source "$BATS_TEST_TMPDIR/source"
  kmodsmith install --source "$BATS_TEST_TMPDIR/source"
  assert_error E_SIGNING_REQUIRED "lockdown is integrity"
  assert_equal "$(calls)" ""
  same
  kmodsmith doctor --json
  assert_json '.checks[] | select(.name == "signing") | .state + " " + .code' "FAIL E_SIGNING_REQUIRED"
}

@test "no GPU: nothing to do, exit 0, nothing changed, whatever was requested" {
  host no-gpu
  kmodsmith install --source /nowhere --driver nonsense
  assert_status 0
  assert_output --partial NO_GPU
  kmodsmith install --json
  assert_status 0
  assert_json .plan.outcome no-gpu
  assert_json .status.state NO_GPU
  kmodsmith plan
  assert_output --partial NO_GPU
  kmodsmith status --json
  assert_status 0
  assert_json .state NO_GPU
  assert_json .ready false
  assert_unchanged
}

@test "vfio: the passed-through GPU is left alone, the other one counts" {
  host vfio
  tiny_firmware 535.261.03
  tiny_package "$package" 6.1.0-56-cloud-amd64
  kmodsmith plan --package "$package" --json
  assert_status 0
  assert_json '.steps[] | select(.step == "verify") | .subject' "1 GPU, 0 switches"
  kmodsmith doctor
  assert_line --regexp '^pass +gpu +1 GPU, 0 switches, first 0000:5e:00.0'
}

@test "--from-vfio: a GPU of vfio-pci is taken for the driver, and never one that a virtual machine has open" {
  host vfio
  tiny_firmware 535.261.03
  tiny_package "$package" 6.1.0-56-cloud-amd64
  kmodsmith plan --package "$package" --from-vfio --json
  assert_status 0
  assert_json '.steps[] | select(.step == "unbind") | .subject' "0000:3b:00.0 from vfio-pci"
  assert_json '.steps[] | select(.step == "verify") | .subject' "2 GPUs, 0 switches"
  mkdir -p "$ROOT/run/kmodsmith"
  echo asked >"$ROOT/run/kmodsmith/from-vfio" # what the driver manager says to the operator's pods counts for nobody else
  kmodsmith plan --package "$package" --json
  refute_output --partial '"unbind"'
  ln -s ../../../../kernel/iommu_groups/12 "$ROOT/sys/bus/pci/devices/0000:3b:00.0/iommu_group"
  mkdir -p "$ROOT/proc/42/fd"
  echo qemu >"$ROOT/proc/42/comm"
  printf 'Name:\tqemu\nUid:\t0\t0\t0\t0\n' >"$ROOT/proc/42/status"
  ln -s /dev/vfio/12 "$ROOT/proc/42/fd/9"
  KMODSMITH_FROM_VFIO=true kmodsmith install --package "$package"
  assert_error E_BOUND "vfio-pci of 0000:3b:00.0 is held by pid 42 qemu fd /dev/vfio/12: end the virtual machine first"
  assert_equal "$(calls)" ""
}

@test "the lock: the process that changes the node is named, readers are not blocked" {
  loadable
  mkdir -p "$ROOT/run/kmodsmith"
  echo 4711 >"$ROOT/run/kmodsmith/lock"
  chmod 600 "$ROOT/run/kmodsmith/lock" # as it is made: who could open it could take it
  exec 9>>"$ROOT/run/kmodsmith/lock"
  flock 9
  snapshot
  local command
  for command in "install --package $package" "init --package $package" unload nodes; do
    # shellcheck disable=SC2086 # several words
    kmodsmith $command 9>&-
    assert_status 75
    assert_error E_LOCKED "process 4711"
  done
  assert_unchanged
  kmodsmith plan --package "$package" 9>&-
  assert_status 0
  kmodsmith nodes --dry-run 9>&-
  assert_status 1
  exec 9>&-
  kmodsmith install --package "$package"
  assert_status 0
}

@test "two installs at once: each succeeds or is refused, and modules are loaded once" {
  loadable
  local i r=0
  for i in 1 2 3 4; do
    timeout "$hung" "$KMODSMITH" install --root "$ROOT" --package "$package" >/dev/null 2>"$BATS_TEST_TMPDIR/err.$i" &
    pids[i]=$!
  done
  for i in 1 2 3 4; do
    wait "${pids[i]}" || { r=$?; grep -q 'error: E_LOCKED: process .* is changing' "$BATS_TEST_TMPDIR/err.$i"; }
  done
  echo "last failure: $r"
  assert_equal "$(loads)" "load nvidia;load nvidia_modeset;load nvidia_uvm"
  kmodsmith status
  assert_status 0
}

@test "status and doctor measure and change nothing" {
  local machine next
  for machine in h100x8 held nouveau; do
    host "$machine"
    kmodsmith status --json
    assert_status 1
    assert_json .state NOT_READY
    assert_json '.kernel.build_id | length' 64
    assert_json '.gpus[0].id | startswith("10de:")'
    assert_json '.modules | all(has("params") and has("file") and (.holders | type) == "array")' true
    assert_unchanged
    kmodsmith status
    assert_line "NOT READY"
    kmodsmith doctor --json
    assert_json '.checks | all(.state == "pass" or .code != null)'
    assert_json "$status" "$(jq 'if .failed > 0 then 1 else 0 end' <<<"$output")"
    next=$(jq -r '.checks[] | select(.code) | "\(.name): \(.next)"' <<<"$output")
    [ -n "$next" ]
    kmodsmith doctor # below each of them, its next step
    assert_equal "$(sed -nE 's/^(pass|warn|FAIL) +(.*[^ ]) +E_[A-Z_]+: .*/\2/p; s/^ +next: //p' <<<"$output" | sed 'N; s/\n/: /')" "$next"
    assert_equal "$(calls)" ""
  done
}

@test "check --package: verdict, exit status and what was compared" {
  loadable
  local config=$ROOT/lib/modules/6.1.0-56-cloud-amd64/config
  kmodsmith check --package "$package"
  assert_status 0
  assert_line --partial "ok: "
  assert_line "compared with: no headers; the kernel's configuration, no symbols"
  echo CONFIG_MODVERSIONS=y >>"$config"
  kmodsmith check --package "$package" --json
  assert_status 20
  assert_json .verdict needs-build
  assert_json .code E_ABI
  assert_json '.reason | contains("should be \u00276.1.0-56-cloud-amd64 SMP preempt mod_unload modversions ")'
  kmodsmith check --package "$package" --kernel 6.1.0-57-cloud-amd64
  assert_status 20
  assert_line --partial "the kernel is 6.1.0-57-cloud-amd64"
  rm "$config"
  kmodsmith check --package "$package"
  assert_line "compared with: no headers; only the release"
  printf x >>"$(blob "$package" layer)"
  kmodsmith check --package "$package"
  assert_status 1
  assert_error E_TOO_LARGE "received more"
}

@test "user ids above 2^31 are positive in JSON" {
  host held
  sed -i 's/^Uid:.*/Uid:\t4294967294\t4294967294\t4294967294\t4294967294/' "$ROOT/proc/6001/status"
  sed -i 's/^DeviceFileUID: .*/DeviceFileUID: 4294967293/' "$ROOT/proc/driver/nvidia/params"
  kmodsmith holders --json
  assert_json '.processes[] | select(.pid == 6001) | .uid' 4294967294
  kmodsmith nodes --dry-run --json
  assert_json '.nodes[] | select(.path == "nvidia0") | .uid' 4294967293
}

@test "a log reader that goes away does not end an install between unload and load" {
  loadable
  kmodsmith install --package "$package"
  assert_status 0
  rm "$ROOT/.sys-calls"
  for _ in 1 2 3; do # the driver's own record of its parameters does not change here: every run reloads
    bash -c '"$0" install --root "$1" --package "$2" --param nvidia:NVreg_EnableMSI=0 2>&1 >/dev/null | head -n 5' \
      "$KMODSMITH" "$ROOT" "$package"
  done
  run bash -c 'sort <<<"$1" | uniq -c' - "$(calls | grep load | sed 's/ NVreg.*//; s/ *$//')"
  local kind name
  for kind in load unload; do
    for name in nvidia nvidia_modeset nvidia_uvm; do
      assert_line --regexp "^ +3 $kind $name\$"
    done
  done
}

@test "doctor checks the given headers" {
  host h100x2-unloaded
  : >"$BATS_TEST_TMPDIR/empty"
  kmodsmith doctor --headers "$BATS_TEST_TMPDIR/empty"
  assert_error E_ARCHIVE "is empty"
  head -c 5000 /dev/urandom >"$BATS_TEST_TMPDIR/bad.deb"
  kmodsmith doctor --headers "$BATS_TEST_TMPDIR/bad.deb" --json
  assert_json '.checks[] | select(.name == "headers") | .state + " " + .code' "warn E_ARCHIVE"
}

@test "the modules of the other kind are fetched for the same driver" {
  loadable
  kmodsmith install --package "$package"
  assert_status 0
  cp -r "$package.d" "$BATS_TEST_TMPDIR/other.d"
  layout "$BATS_TEST_TMPDIR/other" 6.1.0-56-cloud-amd64 --flavour proprietary
  kmodsmith plan --driver 535.261.03 --flavour proprietary --from "oci:$BATS_TEST_TMPDIR/other"
  assert_error E_UNTRUSTED "has no key for this source"
  kmodsmith plan --driver 535.261.03 --flavour proprietary --from "oci:$BATS_TEST_TMPDIR/other" --insecure-skip-verify
  assert_status 0
  assert_line --regexp "^[0-9]+ +package +oci:$BATS_TEST_TMPDIR/other "
}

@test "nodes: created once, unchanged the second time, repaired if damaged; --dry-run only reports" {
  host h100x8
  kmodsmith nodes --dry-run --json
  assert_status 1
  assert_json .wrong 21
  assert_unchanged
  kmodsmith nodes --json
  assert_status 0
  assert_json '.nodes | length' 21
  assert_json '.nodes | all(.verdict == "created")'
  rm "$ROOT/.sys-calls"
  snapshot
  kmodsmith nodes --json
  assert_json .changes 0
  assert_unchanged
  rm "$ROOT/dev/nvidia3"
  echo 'c 1:1 0666 0:0' >"$ROOT/dev/nvidia4"
  echo 'c 195:5 0600 0:0' >"$ROOT/dev/nvidia5"
  rm "$ROOT/dev/char/195:6"
  kmodsmith nodes --json
  assert_json '[.nodes[] | select(.verdict != "ok") | .path + " " + .verdict] | join(",")' \
    "nvidia3 created,nvidia4 corrected,nvidia5 corrected,nvidia6 corrected"
  kmodsmith status --json
  assert_json '.checks[] | select(.name == "nodes").pass' true
  kmodsmith nodes --imex-channels 4294967295
  assert_error E_USAGE "4294967295 IMEX channels"
  kmodsmith nodes --dev-root /nowhere
  assert_error E_NOT_FOUND "'/nowhere'"
}

@test "init: invalid arguments end at once; a signal ends the wait and the driver stays" {
  loadable
  kmodsmith init
  assert_status 2
  assert_error E_USAGE "give --driver, --package, --bundle or --source"
  kmodsmith init --package /nowhere
  assert_error E_NOT_FOUND "'/nowhere'"
  kmodsmith init surplus
  assert_error E_USAGE "'surplus'"
  local signal
  for signal in TERM INT; do
    : >"$BATS_TEST_TMPDIR/log"
    "$KMODSMITH" init --root "$ROOT" --package "$package" 2>"$BATS_TEST_TMPDIR/log" &
    log=$BATS_TEST_TMPDIR/log soon grep -q ready: "$BATS_TEST_TMPDIR/log"
    kill -s "$signal" $!
    wait $!
    run cat "$BATS_TEST_TMPDIR/log"
    assert_output --partial "exiting; the driver stays loaded"
  done
  assert_equal "$(loads)" "load nvidia;load nvidia_modeset;load nvidia_uvm"
}

@test "--insecure-skip-verify: loud, counted and shown by doctor; without it an unsigned package is refused" {
  loadable
  kmodsmith install --driver 535.261.03 --flavour open --from "oci:$package"
  assert_error E_UNTRUSTED "no key for this source"
  assert_equal "$(calls)" ""
  kmodsmith doctor --json
  assert_json '.checks[] | select(.name == "packages") | .state' pass
  kmodsmith install --driver 535.261.03 --flavour open --from "oci:$package" --insecure-skip-verify
  assert_status 0
  assert_equal "$(grep -c 'warn: --insecure-skip-verify' <<<"$stderr")" 1
  kmodsmith doctor --json
  assert_json '.checks[] | select(.name == "packages") | .state + " " + .code' "warn E_UNTRUSTED"
  assert_json '.checks[] | select(.name == "packages") | .evidence | startswith("1 were stored")'
}

@test "a remote source's time is a phase of its own; a local source has none" {
  loadable
  python3 -c 'import functools, http.server as h
handler = functools.partial(h.SimpleHTTPRequestHandler, directory="'"$package"'")
s = h.ThreadingHTTPServer(("127.0.0.1", 0), handler)
print(s.server_port, flush=True)
s.serve_forever()' >"$BATS_TEST_TMPDIR/port" 2>/dev/null 3>&- &
  local server=$!
  soon test -s "$BATS_TEST_TMPDIR/port"
  kmodsmith plan --driver 535.261.03 --flavour open --from "oci:$package" --insecure-skip-verify
  assert_status 0
  run ! grep -E ' find ' <<<"$stderr"
  kmodsmith plan --driver 535.261.03 --flavour open --from "http://127.0.0.1:$(<"$BATS_TEST_TMPDIR/port")" --insecure-skip-verify
  kill "$server"
  assert_status 0
  assert_regex "$stderr" "find +[0-9.]+ s +535.261.03-open-[^ ]+ in http://127.0.0.1:"
}

@test "R-A10: an unreachable source is asked once per start, whatever is looked for" {
  loadable
  cat >"$BATS_TEST_TMPDIR/server.py" <<'PYTHON'
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    client = server.accept()[0]
    print("asked", flush=True)  # before whoever asked knows that it is over
    client.close()
PYTHON
  python3 "$BATS_TEST_TMPDIR/server.py" >"$BATS_TEST_TMPDIR/asked" &
  local server=$! port once
  soon test -s "$BATS_TEST_TMPDIR/asked"
  port=$(head -n 1 "$BATS_TEST_TMPDIR/asked")
  kmodsmith install --driver 535.261.03 --flavour open --from "http://127.0.0.1:$port/x"
  assert_error E_NETWORK
  once=$(grep -c asked "$BATS_TEST_TMPDIR/asked")
  kmodsmith install --driver 535.261.03 --from "http://127.0.0.1:$port/x"
  assert_error E_NETWORK
  kill "$server"
  [ "$once" -gt 0 ]
  assert_equal "$(grep -c asked "$BATS_TEST_TMPDIR/asked")" $((2 * once))
}
