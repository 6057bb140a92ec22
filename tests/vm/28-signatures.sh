# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# What a kernel without Secure Boot makes of signatures, with and without module.sig_enforce: none of the keys is known to it.
# What it is told beforehand by kmodsmith must be the same, in each cell of the table.
# kernel: K61 K612
# packages: small stranger-small site-small site.tampered-small site.ripemd160-small oldsite-small leaf-small leaf.tampered-small
# files: tests/vm/trust-table.sh
# shellcheck source=tests/vm/trust-table.sh
. /files/trust-table.sh
leaf() { # COLUMN: what has the signer's certificate inside is verified first, by kernels that enforce nothing as well
  row "$1" "leaf of an unknown authority" leaf-small
  row "$1" "leaf, tampered" leaf.tampered-small
}
column site "no enforcement"
leaf "no enforcement"
echo 1 >/sys/module/module/parameters/sig_enforce
column site sig_enforce
leaf sig_enforce
table
