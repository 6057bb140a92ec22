# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# What a kernel without Secure Boot makes of signatures, with and without module.sig_enforce: none of the keys is known to it.
# What it is told beforehand by kmodsmith must be the same, in each cell of the table.
# kernel: K61 K612
# packages: small stranger-small site-small site.tampered-small site.ripemd160-small leaf-small leaf.tampered-small oldleaf-small
# files: tests/vm/trust-table.sh
# shellcheck source=tests/vm/trust-table.sh
. /files/trust-table.sh
column() {
  row "$1" "unsigned" small
  row "$1" "signed by an unknown key" site-small
  row "$1" "changed since then" site.tampered-small
  row "$1" "a hash of no kernel" site.ripemd160-small
  row "$1" "by a leaf of an unknown authority" leaf-small
  row "$1" "  changed since then" leaf.tampered-small
  row "$1" "  whose dates are over" oldleaf-small
}
column "no enforcement"
echo 1 >/sys/module/module/parameters/sig_enforce
column sig_enforce
table
