#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What goes wrong for people, and the next step that is printed: each test types what stands there, on the recorded machine, and the
# trouble is gone. A next step that cannot be typed, or does not help, fails here.
# shellcheck disable=SC2016,SC2154 # quotes around the commands of messages; bats and helper.bash set stderr and ROOT
load helper
load package

setup() {
  cd "$BATS_TEST_TMPDIR" || return
  kernel=6.1.0-56-cloud-amd64
}

does() { # COMMAND ARGUMENT...: what the reader had typed, which he may have to type again
  typed=("$@")
  kmodsmith "$@"
}
next_step() { printf '%s\n' "${stderr##*kmodsmith: next: }"; }
# Types the command between backquotes that begins with WORDS, with what SED makes of the words that are the reader's to fill in. A
# command of the host's own acts on the recorded machine.
types() { # WORDS [SED]
  local command words
  command=$(next_step | grep -oE '`[^`]+`' | tr -d '`' | grep -m 1 "^$1") ||
    told | batslib_decorate "nothing to type begins with '$1'" | fail
  command=$(sed -E "${2-}" <<<"$command")
  if [ "${command%% *}" = kmodsmith ]; then
    read -ra words <<<"${command#kmodsmith }"
    [ "${words[0]}" != trust ] || words=("trust ${words[1]}" "${words[@]:2}")
    [ "${words[0]}" != pack ] || words=("pack ${words[1]}" "${words[@]:2}")
    kmodsmith "${words[@]}"
  else
    command=$(sed -E "s, (/[a-z]), $ROOT\1,g; s,>/,>$ROOT/,g" <<<"$command")
    # shellcheck disable=SC2086 # as a shell takes it
    bash -c "$command" && status=0 || status=$?
  fi
  assert_status 0
}
# Types the command once more with an option that the next step names, and a value of the reader's.
again() { # OPTION [VALUE]
  [[ $(next_step) == *"$1"* ]] || told | batslib_decorate "the next step lacks '$1'" | fail
  does "${typed[@]}" "$@"
  assert_status 0
}
# Types it once more as it was.
repeats() {
  does "${typed[@]}"
  assert_status 0
}

@test "a driver in use: holders names each, and --holders stop ends them" {
  local dir
  host held
  for dir in "$ROOT"/proc/[0-9]*; do # processes that can be told from their successors
    echo "${dir##*/} (x) S 1 1 1 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 500 0" >"$dir/stat"
  done
  does unload
  assert_error E_IN_USE
  types "kmodsmith holders"
  assert_line --partial "pid 4242 python3"
  does unload
  again --holders stop
  assert_output --partial "unloaded "
}

@test "the console has the driver: it is taken off" {
  local module
  host h100x8
  module=$ROOT/sys/module/nvidia_drm
  mkdir -p "$module/holders" "$ROOT/sys/class/vtconsole/vtcon1"
  echo live >"$module/initstate"
  echo 1 >"$module/refcnt"
  echo "0 nvidia-drmdrmfb" >"$ROOT/proc/fb"
  echo "(M) frame buffer device" >"$ROOT/sys/class/vtconsole/vtcon1/name"
  echo 1 >"$ROOT/sys/class/vtconsole/vtcon1/bind"
  does unload
  assert_error E_IN_USE "the kernel's console"
  types "echo 0"
  [ "$(<"$ROOT/sys/class/vtconsole/vtcon1/bind")" = 0 ]
  echo 0 >"$module/refcnt" # as the kernel does
  repeats
}

@test "no package anywhere: a repository is named" {
  loadable
  does install 535.261.03 --insecure-skip-verify
  assert_error E_NO_PACKAGE
  again --from oci:package
  assert_line ready
}

@test "a package that is not signed: it is signed, its key is added" {
  loadable
  openssl genpkey -algorithm ed25519 -out release.key
  openssl pkey -in release.key -pubout -out release.pem
  does install 535.261.03 --from oci:package
  assert_error E_UNTRUSTED
  types "kmodsmith trust add" 's/$/ release.pem/'
  does "${typed[@]}"
  assert_error E_UNSIGNED
  types "kmodsmith sign" 's/$/ package --key release.key/'
  repeats
  assert_line ready
}

@test "firmware is missing: a payload has it" {
  loadable
  rm -r "$ROOT/lib/firmware/nvidia"
  mkdir -p "$ROOT/sys/module/firmware_class/parameters"
  echo >"$ROOT/sys/module/firmware_class/parameters/path"
  tiny_payload payload.tar 535.261.03
  does install --package package
  assert_error E_FIRMWARE
  types "kmodsmith pack payload" 's/NVIDIA-Linux[^ ]*/payload.tar/'
  does install --package package
  [[ $(next_step) == *"--export /run/nvidia/driver" ]] || told | fail
  does install --package package --export /run/nvidia/driver
  assert_error E_SYSTEM "a recorded machine has no mounts" # after the preflight
  [[ $stderr == *"firmware comes with the user space"* ]] || told | fail
}

@test "firmware is missing, and the kernel can be told no directory: it is copied to where the kernel looks" {
  loadable
  rm -r "$ROOT/lib/firmware/nvidia"
  mkdir -p NVIDIA-Linux-x86_64-535.261.03/firmware
  echo gsp >NVIDIA-Linux-x86_64-535.261.03/firmware/gsp_ga10x.bin
  does install --package package
  assert_error E_FIRMWARE "the kernel has no path parameter"
  types "mkdir"
  repeats
  assert_line ready
}

@test "a firmware file is there and empty" {
  loadable
  : >"$ROOT/lib/firmware/nvidia/535.261.03/gsp_ga10x.bin"
  mkdir -p NVIDIA-Linux-x86_64-535.261.03/firmware
  echo gsp >NVIDIA-Linux-x86_64-535.261.03/firmware/gsp_ga10x.bin
  does install --package package
  assert_error E_FIRMWARE "'/lib/firmware/nvidia/535.261.03/gsp_ga10x.bin' is empty"
  types "mkdir"
  cp -r NVIDIA-Linux-x86_64-535.261.03/firmware/. "$ROOT/lib/firmware/nvidia/535.261.03"
  repeats
}

@test "only open modules are at hand, and the GPU needs the others: a source that has both" {
  host pascal
  tiny_package package "$(<"$ROOT/proc/sys/kernel/osrelease")"
  tiny_source tree
  cp -r tree/kernel-open tree/kernel
  sed -i 's,Dual MIT/GPL,NVIDIA,' tree/kernel/nvidia/nv.c
  does plan --package package
  assert_error E_FLAVOUR "only the open modules of driver 535.261.03 are at hand, and the proprietary ones are needed for 0000:3b:00.0"
  does plan
  [[ $(next_step) == *"--source NVIDIA-Linux-"* ]] || told | fail
  does plan --source tree
  assert_status 0
}

@test "a requested module type that the GPU does not have: the other one" {
  host pascal
  tiny_source tree
  cp -r tree/kernel-open tree/kernel
  sed -i 's,Dual MIT/GPL,NVIDIA,' tree/kernel/nvidia/nv.c
  does plan --source tree --flavour open
  assert_error E_FLAVOUR
  again --flavour auto
}

@test "GPUs that no driver serves together: one is given to a virtual machine" {
  host mixed
  tiny_source tree
  sed -i 's/535.261.03/570.1.1/' tree/kernel-open/Kbuild # of both, each with other modules
  cp -r tree/kernel-open tree/kernel
  sed -i 's,Dual MIT/GPL,NVIDIA,' tree/kernel/nvidia/nv.c
  does plan --source tree
  assert_error E_MIXED_GPUS
  [[ $(next_step) == *"bind them to vfio-pci"* ]] || told | fail
  ln -sfn ../../../bus/pci/drivers/vfio-pci "$ROOT/sys/bus/pci/devices/0000:5e:00.0/driver"
  repeats
}

@test "the host has a driver of its own: it is replaced" {
  local tree
  loadable
  tree=$ROOT/lib/modules/$kernel
  mkdir -p "$tree/updates"
  tiny_module "$tree/updates/nvidia.ko" "$kernel" "" ""
  sed -i s/535.261.03/550.154.14/ "$tree/updates/nvidia.ko"
  echo updates/nvidia.ko: >"$tree/modules.dep"
  does install --package package
  assert_error E_HOST_DRIVER "will be loaded at the next boot"
  again --host-driver replace
  assert_line ready
}

@test "the kernel command line forbids the driver: the name is taken out" {
  loadable
  echo "quiet module_blacklist=nvidia_uvm,nouveau" >"$ROOT/proc/cmdline"
  does install --package package
  assert_error E_LOAD "the kernel command line forbids nvidia_uvm"
  [[ $(next_step) == *"out of module_blacklist="*"and reboot" ]] || told | fail
  sed -i s/nvidia_uvm,// "$ROOT/proc/cmdline"
  repeats
  assert_line ready
}

@test "a misspelt option: the help that has it" {
  host h100x2-unloaded
  does install --dr
  assert_error E_USAGE
  types "kmodsmith install --help"
  assert_line --partial "--driver"
}

@test "a directory for a repository: its prefix" {
  loadable
  does plan 535.261.03 --insecure-skip-verify --from ./package
  assert_error E_USAGE "did you mean 'oci:./package'?"
  [[ $(next_step) == "correct --from"* ]] || told | fail
  does plan 535.261.03 --insecure-skip-verify --from oci:./package
  assert_status 0
}

@test "a misspelt key of the configuration, a misspelt variable: the line, and the name that was meant" {
  host h100x8
  echo 'drivr = 1' >conf
  KMODSMITH_CONFIG=$PWD/conf does holders
  assert_error E_CONFIG "line 1: unknown key 'drivr'; did you mean 'driver'?"
  [[ $(next_step) == "correct the line"* ]] || told | fail
  echo 'driver = 1' >conf
  KMODSMITH_CONFIG=$PWD/conf repeats
  KMODSMITH_FROMM=oci:x does holders
  assert_error E_CONFIG "did you mean 'KMODSMITH_FROM'?"
  KMODSMITH_FROM=oci:x repeats
}

@test "another kmodsmith is at work: its process is named, and afterwards it goes on" {
  local pid
  loadable
  mkdir -p "$ROOT/run/kmodsmith"
  does install --package package
  assert_status 0
  flock "$ROOT/run/kmodsmith/lock" sleep 60 3>&- &
  pid=$!
  echo "$pid" >"$ROOT/run/kmodsmith/lock"
  soon not flock -n "$ROOT/run/kmodsmith/lock" true
  does unload
  assert_error E_LOCKED "process $pid"
  kill "$pid"
  soon flock -n "$ROOT/run/kmodsmith/lock" true
  repeats
}

@test "a damaged package: it is fetched again" {
  loadable
  cp -r package good
  printf x | dd of="$(blob package layer)" bs=1 seek=100 conv=notrunc status=none
  does install --package package
  assert_error E_DIGEST
  [[ $(next_step) == "fetch it again"* ]] || told | fail
  rm -r package
  cp -r good package
  repeats
  assert_line ready
}

@test "what failed here before: what happened, and the same again" {
  loadable
  mkdir -p "$ROOT/dev"
  touch "$ROOT/dev/kmsg" # where the kernel says why
  kmodsmith install --package package --param nvidia:NVreg_EnableMSI=0
  assert_status 0
  echo "EINVAL load nvidia: nvidia: \`1' invalid for parameter \`NVreg_EnableMSI'" >"$ROOT/.sys-refused"
  does install --package package
  assert_error E_PARAM
  does install --package package
  assert_error E_TARGET_FAILED
  types "kmodsmith status"
  assert_line --partial "bad target: 535.261.03 open failed"
  does install --package package
  again --retry
  assert_line ready
}

@test "headers are missing: a file that has them" {
  host h100x2-unloaded
  tiny_headers headers.tar "$kernel"
  does check --kernel "$kernel"
  assert_output --partial "E_HEADERS_NOT_FOUND"
  does check --kernel "$kernel" --headers headers.tar
  assert_line --partial "needs-build: headers and compiler are available"
}

@test "nothing says what to install: one of the two commands" {
  loadable
  does install --insecure-skip-verify
  assert_error E_USAGE
  types "kmodsmith install VERSION" 's/VERSION/535.261.03/; s,docker:[^ ]*,oci:package --insecure-skip-verify,'
  assert_line ready
}

@test "no user space to export: it is packed" {
  loadable
  tiny_payload payload.tar 535.261.03
  does plan --package package --export /run/nvidia/driver
  assert_error E_NO_PAYLOAD
  types "kmodsmith pack payload" 's/NVIDIA-Linux[^ ]*/payload.tar/'
  repeats
}

@test "another driver has a GPU: it is gone after the next boot" {
  loadable
  ln -sfn ../../../bus/pci/drivers/uio_pci_generic "$ROOT/sys/bus/pci/devices/0000:40:00.0/driver"
  does install --package package
  assert_error E_BOUND "put 'blacklist uio_pci_generic' into a file in /etc/modprobe.d, rebuild the initramfs and reboot"
  rm "$ROOT/sys/bus/pci/devices/0000:40:00.0/driver"
  repeats
  assert_line ready
}
