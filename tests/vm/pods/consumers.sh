# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# Who looks into the exported driver root, and how: each row of driver-container contract 1.8 as a check. Every function is
# given the root, prints what is wrong or what it found, and says by its status whether that consumer could work.
libraries="usr/lib64 usr/lib/x86_64-linux-gnu lib64 lib/x86_64-linux-gnu"
programs="usr/bin usr/sbin bin sbin"

first_of() { # ROOT NAME DIRECTORY...: the first place that has it
  root=$1 wanted=$2
  shift 2
  for place; do
    [ ! -e "$root/$place/$wanted" ] || { echo "$root/$place/$wanted"; return 0; }
  done
  echo "no $wanted below $root in any of: $*"
  return 1
}
# The validator (OP cmd/nvidia-validator/driver.go) runs the program of the root with the library of the root, in no chroot.
validator_driver() {
  # shellcheck disable=SC2086 # several words
  library=$(first_of "$1" libnvidia-ml.so.1 $libraries) || { echo "$library"; return 1; }
  # shellcheck disable=SC2086 # several words
  smi=$(first_of "$1" nvidia-smi $programs) || { echo "$smi"; return 1; }
  LD_PRELOAD=$library "$smi" --help
}
validator_bus() { # it makes /dev/char links for the GPUs that it sees on the bus of the root
  cat "$1"/sys/bus/pci/devices/*/vendor | grep 0x10de
}
validator_modules() { # loads what is missing
  for wanted in nvidia nvidia-uvm nvidia-modeset; do chroot "$1" /sbin/modprobe "$wanted" || return; done
}
validator_nodes() {
  for wanted in nvidiactl nvidia0 nvidia-uvm nvidia-uvm-tools nvidia-modeset; do
    [ -c "$1/dev/$wanted" ] || { echo "$1/dev/$wanted is no device"; return 1; }
  done
}
toolkit_version() { # it takes the suffix of the library for the driver's version
  for found in "$1"/usr/lib/x86_64-linux-gnu/"$2".so.*.*; do
    echo "${found##*.so.}"
  done
}
toolkit_firmware() { ls "$1/lib/firmware/nvidia/$2"/gsp*.bin; }
# What modprobe would load for GPUDirect RDMA, each file being there. nvidia-peermem itself names nothing that it needs when it
# was compiled without a network driver.
peermem_modules() { # ROOT
  for wanted in nvidia-peermem nvidia ib_core; do
    chroot "$1" modprobe --show-depends "$wanted" | tee /tmp/depends
    sed -n 's/^insmod \([^ ]*\).*/\1/p' /tmp/depends | grep . | while read -r file; do
      [ -f "$1$file" ] || { echo "$file is not in $1"; return 1; }
    done || return
    grep -q "$wanted\.ko" /tmp/depends || return
  done
}
gds_sources() { # ROOT VERSION: where nvidia-fs and gdrcopy are compiled
  find "$1/usr/src/nvidia-$2/" -name nv-p2p.h | grep . && find "$1/usr/src/nvidia-$2/" -name nv-p2p.c | grep .
}
