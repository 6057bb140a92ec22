# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154 # $out is lib.sh's
# For guests: what kmodsmith predicts of a module's signature, beside what the kernel then does with the module.
#   row COLUMN NAME PACKAGE   of /packages/PACKAGE, the driver of one file
#   column KEY [NAME]         a row for each way in which KEY can have signed a module; in /packages: small, stranger-small, KEY-small,
#                             KEY.tampered-small, KEY.ripemd160-small, oldKEY-small
#   table                     prints what the rows found
predicted() { # PACKAGE -> loads, or a code
  run_command kmodsmith check --package "/packages/$1" && echo loads && return
  printf '%s\n' "$out" | grep -oE 'E_[A-Z_]+' | head -n 1 | grep . || printf '%s\n' "$out"
}
found() { # PACKAGE -> loads, or the code for what the kernel says
  dmesg_since >/dev/null
  if run_command insmod "/packages/$1.d/nvidia.ko"; then rmmod nvidia && echo loads && return; fi
  matches "$out" 'Key was rejected by service' || { echo "insmod: $out" && return; }
  case $(dmesg_since) in
  *'unsigned module is rejected'*) echo E_SIGNING_REQUIRED ;;
  *'unavailable key is rejected'*) echo E_KEY_UNKNOWN ;;
  *'unsupported crypto is rejected'*) echo E_SIGNATURE_HASH ;;
  *) echo E_SIGNATURE_BAD ;; # it says nothing
  esac
}
row() {
  said=$(predicted "$3") did=$(found "$3")
  is "$1, $2: the prediction is what the kernel does" "$said" "$did"
  printf '# | %-18s | %-30s | %-18s | %-18s |\n' "$1" "$2" "$said" "$did" >>/tmp/table
}
column() {
  row "${2-$1}" "unsigned" small
  row "${2-$1}" "unknown key" stranger-small
  row "${2-$1}" "tampered" "$1.tampered-small"
  # An elliptic key signs with no hash that kernels of such keys lack.
  [ "$1" = curve ] || row "${2-$1}" "wrong hash" "$1.ripemd160-small"
  row "${2-$1}" "expired leaf" "old$1-small"
  row "${2-$1}" "right key" "$1-small"
}
table() { cat /tmp/table; }
