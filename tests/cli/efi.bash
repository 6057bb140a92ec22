# shellcheck shell=bash disable=SC2154 # the tests set work, helper.bash ROOT
# SPDX-License-Identifier: Apache-2.0
# Certificates, and where a machine that is recorded below ROOT has them: EFI variables and the kernel's keyrings.

certificate() { # NAME [OPTION-OF-openssl-req...]
  openssl req -new -x509 -newkey rsa:2048 -nodes -days 36500 -subj "/CN=Site $1/" -keyout "$work/$1.key" -out "$work/$1.pem" "${@:2}" 2>/dev/null
}
issued() { # NAME ISSUER
  openssl req -new -newkey rsa:2048 -nodes -subj "/CN=Site $1/" -keyout "$work/$1.key" -out "$work/$1.csr" 2>/dev/null
  printf 'authorityKeyIdentifier=keyid:always\n' >"$work/$1.ext"
  openssl x509 -req -in "$work/$1.csr" -CA "$work/$2.pem" -CAkey "$work/$2.key" -CAcreateserial -days 30 -extfile "$work/$1.ext" \
    -out "$work/$1.pem" 2>/dev/null
}
# EFI_SIGNATURE_LIST (UEFI 2.10, 32.4.1): type, sizes of the list, its header and an entry; the entry: its owner, the certificate
signature_list() { # NAME [shim]: of one certificate, which shim or nobody owns
  openssl x509 -in "$work/$1.pem" -outform DER | python3 -c '
import struct, sys, uuid
der = sys.stdin.buffer.read()
x509, shim = uuid.UUID("a5c059a1-94e4-4aa7-87b5-ab155c2bf072"), uuid.UUID("605dab50-e046-4300-abb6-3dd810dd8b23")
owner = shim.bytes_le if sys.argv[1:] else bytes(16)
sys.stdout.buffer.write(x509.bytes_le + struct.pack("<III", 44 + len(der), 0, 16 + len(der)) + owner + der)' "${@:2}"
}
in_variable() { # VARIABLE-GUID NAME: adds to it
  local file=$ROOT/sys/firmware/efi/efivars/$1
  mkdir -p "${file%/*}"
  [ -e "$file" ] || printf '\7\0\0\0' >"$file"
  signature_list "$2" >>"$file"
}
enrolled() { # VARIABLE NAME: in shim's list, and so in the kernel's keyring
  in_variable "$1-605dab50-e046-4300-abb6-3dd810dd8b23" "$2"
  known_as "$2"
}
keyring() { # NAME NUMBER
  printf '%s I------     1 perm 1f0b0000     0     0 keyring   %s: 1\n' "$2" "$1" >>"$ROOT/proc/keys"
  touch "$ROOT/.sys-keys"
}
cert_id() { # NAME: serial number and issuer, as the kernel knows it
  openssl x509 -in "$work/$1.pem" -outform DER | python3 -c '
import sys
der = sys.stdin.buffer.read()
def field(at): # content and end of what begins there
    size, head = der[at + 1], 2
    if size & 0x80:
        head += size & 0x7f
        size = int.from_bytes(der[at + 2:at + head], "big")
    return at + head, at + head + size
at = field(field(0)[0])[0] # the certificate, what is signed of it
at = field(at)[1] if der[at] == 0xa0 else at # its version
serial = field(at)
issuer = field(field(serial[1])[1])
print((der[slice(*serial)] + der[slice(*issuer)]).hex())'
}
known_as() { # NAME: the keyring has it, by serial number and by its key id
  cert_id "$1" >>"$ROOT/.sys-keys"
  openssl x509 -in "$work/$1.pem" -noout -ext subjectKeyIdentifier | sed -n '2s/[ :]//gp' | tr A-F a-f >>"$ROOT/.sys-keys"
}
