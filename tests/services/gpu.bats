#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The GPU check's own program (installer/gpu_check/helper.h) on the real NVML and CUDA of Debian's packages, on a machine
# without an NVIDIA GPU, where both have an answer of their own; with this machine's C library and with an older one.
# shellcheck disable=SC2154 # bats and helper.bash set output, lines and top
load helper

helper=${KMODSMITH%/*}/gpu-helper lib=usr/lib/x86_64-linux-gnu/nvidia/current gpu=0000:3b:00.0

setup_file() {
  export work=$BATS_FILE_TMPDIR
  local deb
  kept "$top/scripts/inputs.sh" libnvidia-ml1 libcuda1 >"$work/debs"
  while read -r deb; do dpkg-deb -x "$deb" "$work/root"; done <"$work/debs"
  V=$(basename "$work/root/$lib"/libcuda.so.*.*)
  export V=${V#libcuda.so.}
}
setup() { [ ! -e /proc/driver/nvidia ] || skip "this machine has an NVIDIA driver"; }
# Without rights, as it is run: as root NVML would make /dev/nvidiactl.
ask() { # PROGRAM QUESTION DIR ARGUMENT...
  run setpriv --bounding-set=-all --inh-caps=-all --no-new-privs \
    /usr/bin/env -i LD_LIBRARY_PATH="$3" "$1" "$2" "$3" "$V" "${@:4}"
}

@test "it is small, and needs nothing but a C library of 2012" {
  [ "$(stat -c %s "$helper")" -lt 40960 ]
  run objdump -p "$helper"
  assert_equal "$(awk '$1 == "NEEDED" { print $2 }' <<<"$output" | sort | paste -sd' ')" "libc.so.6 libdl.so.2"
  assert_equal "$(grep -oE 'GLIBC_.*' <<<"$output" | sort -V | tail -n 1 | sed -E 's/GLIBC_2\.(2\.5|17)/old/')" old
}

@test "NVML without a driver says so, and nothing is known of the GPUs" {
  ask "$helper" answer "$work/root/$lib" "$gpu"
  assert_success
  assert_line "gpu	*	untested	reason=NVML cannot be initialized: Driver Not Loaded"
  assert_not_exist /dev/nvidiactl
}

@test "CUDA without a driver finds no GPU, and the node that it would need is not there" {
  ask "$helper" compute "$work/root/$lib" GPU-0 "$gpu" 0
  assert_success
  assert_line --partial "gpu	$gpu	untested	uuid=GPU-0	mig=0	reason=cuInit: CUDA_ERROR_NO_DEVICE (100), and /dev/nvidia-uvm cannot be opened: "
  ask "$helper" compute "$work/root/$lib" GPU-0 "$gpu" 1
  assert_line --partial "MIG mode is on, and CUDA finds no instance (100)"
}

@test "both are loaded with a C library that has dlopen() in a library of its own" {
  local deb linker
  kept "$top/scripts/inputs.sh" --suite bullseye --closure libc6 >"$work/old" || skip "Debian 11's C library could not be had"
  while read -r deb; do dpkg-deb -x "$deb" "$work/old-root"; done <"$work/old"
  linker=$work/old-root/lib/x86_64-linux-gnu
  old() { # QUESTION ARGUMENT...
    run setpriv --bounding-set=-all --inh-caps=-all --no-new-privs /usr/bin/env -i LD_LIBRARY_PATH="$linker:$work/root/$lib" \
      "$linker/ld-linux-x86-64.so.2" "$helper" "$1" "$work/root/$lib" "$V" "${@:2}"
  }
  old answer "$gpu"
  assert_line --partial "Driver Not Loaded"
  old compute GPU-0 "$gpu" 0
  assert_line --partial "CUDA_ERROR_NO_DEVICE (100)"
}
