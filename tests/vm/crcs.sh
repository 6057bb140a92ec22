# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# Whether a module fits a kernel, by the tools of the kernel's world and none of ours: modprobe reads the CRCs that the module
# was compiled with, Module.symvers of the kernel's headers has those of the kernel. For guests and for this machine.

# crcs_of SYMVERS MODULE.ko [OTHER.ko...]: a line "equal|differs|missing SYMBOL" for each symbol that MODULE imports, sorted. What
# one of OTHER exports is no matter of the kernel.
crcs_of() {
  symvers_=$1 module_=$2 && shift 2
  {
    for other_; do modprobe --show-exports "$other_" 2>/dev/null | awk '{ print "export", $2 }'; done
    modprobe --dump-modversions "$module_" | awk '{ print "import", $2, $1 }'
  } | awk 'FILENAME != "-" { crc[$2] = $1; next }
    $1 == "export" { own[$2] = 1; next }
    !($2 in own) { print !($2 in crc) ? "missing" : crc[$2] == $3 ? "equal" : "differs", $2 }' "$symvers_" - | sort
}
crcs_fit() { # SYMVERS DIR: the modules that are loaded from DIR when no others are requested
  for name_ in nvidia nvidia-uvm nvidia-modeset; do
    crcs_of "$1" "$2/$name_.ko" "$2/nvidia.ko" | grep -v '^equal' && return 1
  done >/dev/null
  return 0
}
