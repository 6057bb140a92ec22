# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# R-C1, R-C4: a machine whose owner enrols keys with shim, as most do: Debian's shim asks for what `kmodsmith trust enroll` requested,
# somebody at the screen confirms it, and from then on modules load that this key, or a certificate of this authority, has signed.
# kernel: K61 K612
# secure-boot: mok
# boots: 2
# mok: 2
# gpus: 1
# packages: open small stranger-small site-small site.tampered-small site.ripemd160-small oldsite-small
# packages: leaf-small leaf.tampered-small leaf.ripemd160-small oldleaf-small mute-small leaf-open
# programs: openssl mokutil
# files: tests/vm/trust-table.sh
# shellcheck source=tests/vm/trust-table.sh
. /files/trust-table.sh
keys=/vm/secure-boot
if [ "$boot" = 1 ]; then
  mokutil --generate-hash=password1 >/tmp/hash
  mokutil --import $keys/site.der --hash-file /tmp/hash
  mokutil --import $keys/ca.der --hash-file /tmp/hash
  echo password1 >/dev/ttyS2
  row "shim, nothing enrolled" "by a key that is to be enrolled" site-small
  row "shim, nothing enrolled" "by a leaf of such an authority" leaf-small
  table
  exit
fi
column site MOK
column leaf "CA in MOK"
row "CA in MOK" "leaf that names no authority" mute-small
table
