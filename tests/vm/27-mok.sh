# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# R-C1, R-C4: a machine whose owner enrols keys with shim, as most do: Debian's shim asks for what `kmodsmith trust enroll` requested,
# somebody at the screen confirms it, and from then on modules load that this key, or a certificate of this authority, has signed.
# kernel: K61 K612
# secure-boot: mok
# boots: 2
# mok: 2
# gpus: 1
# packages: small db-small stranger-small site-small site.tampered-small site.ripemd160-small oldsite-small leaf-small leaf.tampered-small
#   leaf.ripemd160-small oldleaf-small leaf-open
# programs: openssl
# files: tests/vm/trust-table.sh
# shellcheck source=tests/vm/trust-table.sh
. /files/trust-table.sh
keys=/vm/secure-boot
if [ "$boot" = 1 ]; then
  row "shim, nothing enrolled" "signed by the key in db" db-small
  row "shim, nothing enrolled" "by a key that is to be enrolled" site-small
  row "shim, nothing enrolled" "by a leaf of such an authority" leaf-small
  table
  exit
fi
column() { # NAME KEY
  row "$1" "unsigned" small
  row "$1" "unknown key" stranger-small
  row "$1" "tampered" "$2.tampered-small"
  row "$1" "wrong hash" "$2.ripemd160-small"
  row "$1" "expired leaf" "old$2-small"
  row "$1" "right key" "$2-small"
}
column MOK site
column "CA in MOK" leaf
table
