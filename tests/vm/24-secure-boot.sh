# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# R-C1: a machine started by UEFI Secure Boot. Its kernel enforces signatures without being told, and trusts the key in db,
# as Debian's kernels do: what that key signed loads, anything else is refused. Here is what the kernel says to each way in
# which a module is signed, and what kmodsmith says.
# kernel: K61 K612
# secure-boot: db
# gpus: 1
# stub: yes
# packages: open db-open small db-small stranger-small db.tampered-small db.ripemd160-small db.sha512-small olddb-small
# modules: sha512_generic
# programs: openssl
# files: tests/vm/trust-table.sh
# shellcheck source=tests/vm/trust-table.sh
. /files/trust-table.sh
variable() { tail -c 1 "/sys/firmware/efi/efivars/$1-8be4df61-93ca-11d2-aa0d-00e098032b8c" | od -An -tu1 | tr -d ' '; }
loaded() { grep -c '^nvidia' /proc/modules; }
kernel_refuses() { # NAME REGEXP MODULE
  dmesg_since >/dev/null
  t_fails 1 "$1" insmod "$3"
  like "  with EKEYREJECTED" "$out" 'Key was rejected by service'
  like "  and its log says why" "$(dmesg_since)" "$2"
}
refuses() { # CODE NAME PACKAGE [OPTION...]
  code=$1 name=$2 package=$3 && shift 3
  dmesg_since >/dev/null
  t_fails 1 "$name" kmodsmith install --package "/packages/$package" "$@"
  like "  its code is $code" "$out" "error: $code: "
  is "  no module is loaded" "$(loaded)" 0
}

is "the firmware enforces Secure Boot" "$(variable SecureBoot)$(variable SetupMode)" 10
is "lockdown is integrity" "$(grep -o '\[.*\]' /sys/kernel/security/lockdown)" "[integrity]"
is "the kernel enforces module signatures" "$(cat /sys/module/module/parameters/sig_enforce)" Y
t_fails 1 "enforcement cannot be turned off" sh -c 'echo N >/sys/module/module/parameters/sig_enforce'

kernel_refuses "the kernel refuses NVIDIA's unsigned module" 'unsigned module is rejected' /packages/open.d/nvidia.ko
t_fails 1 "doctor knows that nothing unsigned can be loaded" kmodsmith doctor
like "  its code is E_SIGNING_REQUIRED" "$out" 'FAIL  signing +E_SIGNING_REQUIRED: module.sig_enforce is on'
key() { kmodsmith doctor --module-key "/vm/secure-boot/$1.key" --module-cert "/vm/secure-boot/$1.pem" 2>&1; }
like "with the key in db what is compiled could be loaded" "$(key db)" 'pass +signing +module.sig_enforce is on: .* is signed by .*SnakeOil'
like "with an unknown key it could not" "$(key stranger)" 'FAIL +signing +E_KEY_UNKNOWN: .*CN=unknown to this machine .*not among the keys of this kernel: .*SnakeOil'
refuses E_SIGNING_REQUIRED "a package of unsigned modules" open
like "  it is refused by the proof" "$out" 'error: E_SIGNING_REQUIRED: prove: nvidia: the module is unsigned'
unlike "  and the kernel was not asked" "$(dmesg_since)" 'rejected'

kernel_refuses "the kernel refuses what an unknown key signed" 'unavailable key is rejected' /packages/stranger-small.d/nvidia.ko
refuses E_KEY_UNKNOWN "a package signed by an unknown key" stranger-small --flavour proprietary --modules nvidia
like "  it is refused by the proof, which names the key" "$out" 'error: E_KEY_UNKNOWN: prove: .*CN=unknown to this machine \(serial '
unlike "  and the kernel was not asked" "$(dmesg_since)" 'rejected'
refuses E_SIGNATURE_BAD "a package that was changed after it was signed" db.tampered-small --flavour proprietary --modules nvidia
like "  it is refused by the proof" "$out" 'error: E_SIGNATURE_BAD: prove: nvidia: the signature by .*SnakeOil.* does not match this content'
refuses E_SIGNATURE_HASH "a package signed with a hash that no kernel knows" db.ripemd160-small --flavour proprietary --modules nvidia
like "  it is refused by the proof" "$out" 'error: E_SIGNATURE_HASH: prove: '
column db
table

# A kernel takes the hash from a module of its own if it has to, and can.
if grep -qx CONFIG_CRYPTO_SHA512=m "/boot/config-$(uname -r)"; then
  echo /none >/proc/sys/kernel/modprobe
  kernel_refuses "the kernel refuses a hash that it does not have" 'unsupported crypto is rejected' /packages/db.sha512-small.d/nvidia.ko
  refuses E_SIGNATURE_HASH "a package signed with that hash" db.sha512-small --flavour proprietary --modules nvidia
  like "  it is refused by the proof" "$out" "prove: .*signed with sha512, .* cannot load its module sha512_generic, as there is no modprobe at '/none'"
  echo /sbin/modprobe >/proc/sys/kernel/modprobe
else
  skip "the kernel refuses a hash that it does not have" "sha512 is built in"
fi
t "a signature with sha512 is accepted where the kernel has it or finds its module" insmod /packages/db.sha512-small.d/nvidia.ko
rmmod nvidia

cp /packages/small.d/nvidia.ko /tmp/nvidia.ko
t "a module is signed on this machine" /vm/secure-boot/sign-module.sh /vm/secure-boot/db /tmp/nvidia.ko
t "  with the bytes that another machine made" cmp /tmp/nvidia.ko /packages/db-small.d/nvidia.ko
t "  and the kernel loads it" insmod /tmp/nvidia.ko
rmmod nvidia

t "a package of NVIDIA's modules that the key in db signed is installed" kmodsmith install --package /packages/db-open
like "  it gets ready" "$out" '^ready$'
is "  all of its modules are loaded" "$(loaded)" 3
is "  and nothing says that they are unsigned" "$(cat /sys/module/nvidia/taint)" O
t "status is ready" kmodsmith status
# Without nvidia-drm, which needs modules that this guest does not have.
t "the driver is unloaded" kmodsmith unload
t "the stored package is loaded without being named" kmodsmith install --driver "$OPEN_VERSION" --flavour open
