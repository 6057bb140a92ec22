# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154 # whoever sources this sets here
# Guests that boot through UEFI Secure Boot. The firmware and the keys are those of Debian's package ovmf: its "snakeoil"
# variable store has one certificate as PK, KEK and db, and the package has the private key of it, another one in Debian 12
# than in 13. For keys of our own a store would have to be written, and Debian 12 has no tool for that.
#
# QEMU's -kernel patches the kernel's header, which no signature survives. So kernel, initrd and command line become one
# signed EFI program (systemd's stub before them) on a disk that the firmware boots from. It is a virtio disk, because the
# firmware has a driver for it and the guest loads none: the guest's other disks keep their names.
ovmf=usr/share/OVMF ovmf_key=usr/share/ovmf/PkKek-1-snakeoil efi_stub=usr/lib/systemd/boot/efi/linuxx64.efi.stub shim=usr/lib/shim

firmware() { # -> directory with these: the packages are unpacked, because to install the stub is to upgrade systemd
  local debs
  debs=$("$top/scripts/inputs.sh" ovmf systemd-boot-efi shim-unsigned)
  # shellcheck disable=SC2086 # several paths
  cached firmware unpack $debs
}

is_secure() { # SCRIPT: does its header ask for Secure Boot?
  case $(header "$1" secure-boot no) in
  no) return 1 ;;
  db | mok) return 0 ;;
  *) echo "vm: secure-boot is '$(header "$1" secure-boot no)' in $1, and neither db nor mok" >&2 && exit 2 ;;
  esac
}

new_certificate() { # NAME SUBJECT [REQ-OPTION...]: one that signs itself
  openssl req -x509 -newkey rsa:2048 -nodes -sha256 -days 36500 -subj "/CN=$2" "${@:3}" -keyout "$1.key" -out "$1.pem"
}

issued_certificate() { # NAME ISSUER DAYS [AUTHORITY]: for code
  openssl req -new -newkey rsa:2048 -nodes -sha256 -subj "/CN=modules, issued by $(basename "$2")" -keyout "$1.key" -out "$1.csr" &&
    openssl x509 -req -in "$1.csr" -CA "$2.pem" -CAkey "$2.key" -days "$3" -out "$1.pem" \
      -extfile <(echo keyUsage=digitalSignature && echo extendedKeyUsage=codeSigning && echo subjectKeyIdentifier=hash && echo "authorityKeyIdentifier=${4-keyid}") && rm "$1.csr"
}

# db: the key in db. site: one for MOK, and ca: an authority for MOK, which issued leaf. stranger: one that no machine knows.
# olddb, oldsite and oldleaf: certificates of yesterday that db, site and ca issued. mute: one of ca that does not name its authority.
# curve: an elliptic one, as small as a certificate that a kernel has of its own key; oldcurve.
make_secure_keys() { # DIR KEY CERTIFICATE
  local name
  openssl pkey -in "$2" -passin pass:snakeoil -out "$1/db.key" && cp "$3" "$1/db.pem" &&
    new_certificate "$1/stranger" "unknown to this machine" && new_certificate "$1/site" "the site's modules" &&
    new_certificate "$1/ca" "the site's authority" -addext keyUsage=keyCertSign &&
    new_certificate "$1/curve" "a curve" -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 && issued_certificate "$1/leaf" "$1/ca" 36500 &&
    issued_certificate "$1/olddb" "$1/db" -1 && issued_certificate "$1/oldsite" "$1/site" -1 && issued_certificate "$1/oldleaf" "$1/ca" -1 &&
    issued_certificate "$1/mute" "$1/ca" 36500 none && issued_certificate "$1/oldcurve" "$1/curve" -1 || return
  for name in "$1"/*.pem; do openssl x509 -in "$name" -outform DER -out "${name%.pem}.der" || return; done
}

secure_keys() { # -> directory with NAME.key, NAME.pem and NAME.der of each
  local firmware
  firmware=$(firmware)
  cached secure-keys make_secure_keys "$firmware/$ovmf_key.key" "$firmware/$ovmf_key.pem"
}

sign_modules() { # DIR KEYS MODULES SIGNER
  local file
  cp "$3"/*.ko "$1" && chmod u+w "$1"/*.ko || return
  for file in "$1"/*.ko; do "$4" "$2/db" "$file" || return; done
}

signed_test_modules() { # KEY of a kernel -> directory with the test modules, signed by the key in db
  local modules keys
  modules=$(test_modules "$1")
  keys=$(secure_keys)
  cached "signed-modules-$1" sign_modules "$keys" "$modules" "$here/sign-module.sh"
}

add_secure_boot() { # ROOT KEY
  local keys
  keys=$(secure_keys)
  mkdir -p "$1/vm/secure-boot"
  cp "$keys"/* "$here/sign-module.sh" "$1/vm/secure-boot/"
  add_drivers "$1" "$2" efivarfs
}

# Each section begins behind the one before it. Where the stub itself ends differs from version to version.
add_sections() { # STUB OUT NAME=FILE...
  local stub=$1 out=$2 section end options=()
  shift 2
  end=$(objdump -h "$stub" | awk '/^ +[0-9]+ / { print "0x" $4, "0x" $3 }' | while read -r at size; do echo $((at + size)); done |
    sort -n | tail -n 1)
  for section in "$@"; do
    end=$(((end + 4095) / 4096 * 4096))
    options+=(--add-section "$section" --change-section-vma "${section%%=*}=$end")
    end=$((end + $(stat -Lc %s "${section#*=}")))
  done
  objcopy "${options[@]}" "$stub" "$out"
}

make_uefi_disk() { # DISK DIR: its files are those of EFI/BOOT
  truncate -s "$(($(du -sm "$2" | cut -f1) + 8))M" "$1" && PATH=$PATH:/sbin:/usr/sbin mkfs.fat "$1" >/dev/null &&
    mmd -i "$1" ::EFI ::EFI/BOOT && mcopy -i "$1" "$2"/* ::EFI/BOOT/
}

sign_program() { # KEYS PROGRAM OUT; what it says of gaps between sections is true and does no harm
  local said
  said=$(sbsign --key "$1/db.key" --cert "$1/db.pem" --output "$3" "$2" 2>&1) || { echo "$said" >&2 && return 1; }
}

# uefi_prepare SCRIPT DIR START COMMAND-LINE: make DIR/uefi.disk, which boots START/vmlinuz with START/initrd. The kernel's address is
# not random, because the EFI stub of some kernels chooses one without a look at memmap. With MOK the firmware starts Debian's shim, and
# shim what it takes for GRUB; without Microsoft's signature, which this firmware would not know, all of it is signed by the key in db.
uefi_prepare() {
  local keys firmware made=$2/uefi.new program=BOOTX64.EFI
  keys=$(secure_keys) && firmware=$(firmware) && rm -rf "$made" "$2/uefi.disk" && mkdir -p "$made/files" || return
  [ -e "$2/uefi.vars" ] || cp "$firmware/$ovmf/OVMF_VARS_4M.snakeoil.fd" "$2/uefi.vars" || return
  if [ "$(header "$1" secure-boot no)" = mok ]; then
    program=grubx64.efi
    sign_program "$keys" "$firmware/$shim/shimx64.efi" "$made/files/BOOTX64.EFI" &&
      sign_program "$keys" "$firmware/$shim/mmx64.efi" "$made/files/mmx64.efi" || return
  fi
  printf '%s\0' "$4 nokaslr" >"$made/cmdline" &&
    add_sections "$firmware/$efi_stub" "$made/unsigned" .cmdline="$made/cmdline" .linux="$3/vmlinuz" .initrd="$3/initrd" &&
    sign_program "$keys" "$made/unsigned" "$made/files/$program" && make_uefi_disk "$2/uefi.disk" "$made/files" && rm -rf "$made"
}

uefi_options() { # DIR -> QEMU's, after those of accel_options. In this firmware the variables are safe from the guest in SMM.
  local firmware
  firmware=$(firmware)
  printf '%s\n' -machine smm=on -global driver=cfi.pflash01,property=secure,value=on \
    -drive "if=pflash,unit=0,format=raw,readonly=on,file=$firmware/$ovmf/OVMF_CODE_4M.secboot.fd" \
    -drive "if=pflash,unit=1,format=raw,file=$1/uefi.vars" \
    -drive "file=$1/uefi.disk,format=raw,if=none,id=uefi,readonly=on" -device virtio-blk-pci,drive=uefi,bootindex=0
}

# The start at which MokManager asks for what the boot before it requested, with the password that it wrote to DIR/artifact. What
# MokManager does last is a reboot, and that ends QEMU.
confirm_mok() { # SCRIPT DIR QEMU-OPTION...
  local screen status=0
  setpriv --pdeathsig KILL python3 "$here/mok_screen.py" "$2/console.log" "$2/monitor" "$(<"$2/artifact")" &
  screen=$!
  boot_once "$@" -monitor "unix:$2/monitor,server=on,wait=off" || status=$?
  for _ in {1..50}; do kill -0 "$screen" 2>/dev/null && sleep 0.1; done # it sees the end of the machine by itself
  kill "$screen" 2>/dev/null || true
  wait "$screen" || { echo "vm: MokManager did not ask as expected" >&2 && status=1; }
  rm -f "$2/monitor"
  return "$status"
}
