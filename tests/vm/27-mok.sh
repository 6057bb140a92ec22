# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# R-C1, R-C4: a machine whose owner enrols keys with shim, as most do: Debian's shim asks for what `kmodsmith trust enroll` requested,
# somebody at the screen confirms it, and from then on modules load that this key, or a certificate of this authority, has signed.
# kernel: K61 K612
# secure-boot: mok
# boots: 2
# mok: 2
# gpus: 1
# stub: yes
# packages: open small stranger-small site-small site.tampered-small site.ripemd160-small oldsite-small
# packages: leaf-small leaf.tampered-small leaf.ripemd160-small oldleaf-small mute-small
# programs: openssl
# files: tests/vm/trust-table.sh
# shellcheck source=tests/vm/trust-table.sh
. /files/trust-table.sh
keys=/vm/secure-boot
key=$keys/leaf.key cert=$keys/leaf.pem
if [ "$boot" = 1 ]; then
  row "shim, nothing enrolled" "by a key that is to be enrolled" site-small
  row "shim, nothing enrolled" "by a leaf of such an authority" leaf-small
  table
  t_fails 1 "doctor fails before anything is compiled" kmodsmith doctor
  like "  what to type next enrols a key" "$out" 'next: .*kmodsmith trust enroll --new DIR'
  t_fails 1 "the certificate is not trusted yet" kmodsmith trust enroll --check --module-cert $keys/site.pem
  like "  and says so" "$out" 'E_KEY_UNKNOWN: .* it is not enrolled'
  t "it is asked for" kmodsmith trust enroll --module-cert $keys/site.der
  like "  a password is made up" "$out" '^password, shown only now: [a-z]+$'
  password=$(printf '%s\n' "$out" | sed -n 's/^password, shown only now: //p')
  like "  what the screen will ask is told" "$out" '"Enroll MOK"'
  printf '%s\n' "$password" >/tmp/password
  t "the authority is asked for with it, under the same password" kmodsmith trust enroll --module-cert $keys/ca.pem --password-file /tmp/password
  t_fails 1 "both wait for their confirmation" kmodsmith trust enroll --check --module-cert $keys/site.der
  like "  which is told" "$out" 'asked for, and not confirmed yet'
  echo "$password" >/dev/ttyS2
  exit
fi
t "after the confirmation the kernel has the key" kmodsmith trust enroll --check --module-cert $keys/site.der
like "  and that is told" "$out" 'the kernel has it, and loads what it signed'
t "it has the authority, too" kmodsmith trust enroll --check --module-cert $keys/ca.pem
t "to ask for it again changes nothing" kmodsmith trust enroll --module-cert $keys/site.der
unlike "  no password is made" "$out" password
t_fails 1 "a leaf of the authority is in no list itself" kmodsmith trust enroll --check --module-cert $cert
t "doctor passes with a leaf of the authority" kmodsmith doctor --module-key $key --module-cert $cert
like "  and names it" "$out" 'pass +signing .* is signed by CN=modules'
column site MOK
column leaf "CA in MOK"
row "CA in MOK" "leaf that names no authority" mute-small
table
cp -rL /packages/open /tmp/open
chmod -R u+w /tmp/open
t "NVIDIA's modules are signed in their package, as where packages are published" kmodsmith sign oci:/tmp/open --modules --module-key $key --module-cert $cert
t "  and installed" kmodsmith install --package /tmp/open
like "  it gets ready" "$out" '^ready$'
is "  and nothing says that they are unsigned" "$(cat /sys/module/nvidia/taint)" O
