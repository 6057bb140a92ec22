#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A key for modules becomes one that the kernel trusts: the request to shim's MokManager, and what became of it (R-C1). The machine
# is recorded; what MokManager makes of the request is seen on a real one.
# shellcheck disable=SC2154,SC2030,SC2031 # bats and helper.bash set output, stderr, top and ROOT
load helper
load efi

shim=605dab50-e046-4300-abb6-3dd810dd8b23
setup() {
  work=$BATS_TEST_TMPDIR
  host secure-boot
  vars=$ROOT/sys/firmware/efi/efivars
  certificate vendor
  in_variable "MokListRT-$shim" vendor
  keyring .machine 0a0b0c0d
  certificate mok
}
enroll() { kmodsmith "trust enroll" "$@"; }
mok() { enroll --module-cert "$work/mok.pem" "$@"; }
pending() { # NAME...: MokNew is the lists of these
  local name
  { printf '\7\0\0\0' && for name; do signature_list "$name" shim; done; } | cmp - "$vars/MokNew-$shim"
}
opens() { # PASSWORD: as MokManager reads it (compute_pw_hash of shim's MokManager.c)
  python3 - "$vars/MokNew-$shim" "$vars/MokAuth-$shim" "$1" <<'END'
import hashlib, sys
new, auth = (open(f, "rb").read() for f in sys.argv[1:3])
assert auth == b"\7\0\0\0" + hashlib.sha256(new[4:] + sys.argv[3].encode("utf-16-le")).digest()
END
}
confirmed() { # NAME...: somebody did, and the machine was started again
  local name
  rm "$vars"/Mok{New,Auth}-$shim
  for name; do enrolled MokListRT "$name"; done
}

@test "a new key: made once, asked for, confirmed, trusted" {
  local password
  echo node7 >"$ROOT/proc/sys/kernel/hostname"
  enroll --new "$work/keys" --json
  assert_status 0
  assert_json .state pending
  assert_json .subject "CN=node7 kernel modules"
  password=$(jq -r .password <<<"$output")
  assert_regex "$password" '^[a-z]{14}$'
  cp "$work/keys/modules.pem" "$work/modules.pem"
  pending modules
  opens "$password"
  assert_equal "$(stat -c %a "$work/keys/modules.key")" 600
  openssl x509 -in "$work/modules.pem" -noout -text >"$work/text"
  assert_regex "$(cat "$work/text")" 'Public-Key: \(3072 bit\).*CA:FALSE.*Digital Signature.*Code Signing'
  run ! openssl x509 -in "$work/modules.pem" -noout -checkend $((3653 * 86400))
  openssl x509 -in "$work/modules.pem" -noout -checkend $((3648 * 86400))
  openssl cms -sign -binary -noattr -nocerts -outform DER -md sha256 -signer "$work/modules.pem" -inkey "$work/keys/modules.key" \
    -in "$work/text" -out "$work/p7"
  cp -a "$work/keys" "$work/first"
  enroll --new "$work/keys"
  assert_error E_USAGE "modules.key' exists, and no key is overwritten"
  diff -r "$work/first" "$work/keys"
  enroll --check --module-cert "$work/keys/modules.pem"
  assert_error E_KEY_UNKNOWN "CN=node7 kernel modules: asked for, and not confirmed yet"
  confirmed modules
  enroll --check --module-cert "$work/keys/modules.pem" --json
  assert_status 0
  assert_json .state trusted
  snapshot
  enroll --module-cert "$work/keys/modules.pem"
  assert_status 0
  assert_output --partial "the kernel has it"
  assert_unchanged
}

@test "the screen that comes is told, and the same command says how it stands" {
  printf 'some Password 7\nmore\n' >"$work/password"
  mok --password-file "$work/password"
  assert_status 0
  assert_output --partial '2. "Press any key to perform MOK management": press one'
  refute_output --partial "some Password"
  opens "some Password 7"
  pending mok
  snapshot
  mok
  assert_status 0
  assert_output --partial "asked for, and not confirmed yet"
  assert_output --partial "the password is the one of the first time"
  assert_unchanged
  echo another >"$work/password"
  mok --password-file "$work/password"
  pending mok
  opens another
  rm "$vars/MokAuth-$shim" # killed before it was there: nobody knows a password
  mok --json
  assert_json .changed true
  opens "$(jq -r .password <<<"$output")"
  rm "$vars"/Mok{New,Auth}-$shim # somebody refused
  mok --check
  assert_error E_KEY_UNKNOWN "it is not enrolled; if it was asked for, nobody confirmed it"
  assert_regex "$stderr" 'next: .*kmodsmith trust enroll --module-cert'
}

@test "another certificate that waits stays in the request" {
  certificate other
  mok
  enroll --module-cert "$work/other.pem" --json
  pending other mok
  opens "$(jq -r .password <<<"$output")"
  confirmed mok other
  mok --check
  assert_status 0
}

@test "enrolled, and the kernel does not take it; or nobody can ask the kernel" {
  in_variable "MokListRT-$shim" mok
  mok --check
  assert_error E_KEY_UNKNOWN "no keyring of this kernel that counts for modules has it"
  rm "$ROOT/proc/keys"
  mok --check
  assert_status 0
  assert_output --partial "the kernel's keyrings cannot be asked here"
}

@test "what firmware or shim have revoked is refused" {
  in_variable dbx-d719b2cb-3d3a-4596-a3bc-dad00e67656f mok
  mok
  assert_error E_KEY_REVOKED "the firmware's dbx has it"
  rm "$vars"/dbx-*
  in_variable "MokListXRT-$shim" mok
  mok
  assert_error E_KEY_REVOKED "shim's MokListX has it"
  assert_not_exist "$vars/MokNew-$shim"
}

@test "no shim, no UEFI, no efivarfs" {
  rm "$vars/MokListRT-$shim"
  mok
  assert_error E_NO_SHIM "shim has left no variable"
  assert_regex "$stderr" "next: .*firmware's own db.*--host-driver use"
  rm -r "${vars:?}"/*
  mok
  assert_error E_RIGHTS "mount efivarfs there"
  rm -r "$ROOT/sys/firmware/efi"
  enroll --new "$work/keys"
  assert_error E_NO_SHIM "$work/keys/modules.pem was made, and is not enrolled: this machine was not started by UEFI"
}

@test "a firmware without room, and one that refuses: what was asked before stays asked" {
  certificate other
  mok --password-file <(echo first)
  snapshot
  refused() { # ERRNO CODE VARIABLE
    echo "$1 variable $3-$shim" >"$ROOT/.sys-refused"
    enroll --module-cert "$work/other.pem"
    assert_error "$2" "$3-$shim"
    rm -f "$ROOT/.sys-refused"
    assert_unchanged
  }
  refused ENOSPC E_EFI_FULL MokNew
  refused ENOSPC E_EFI_FULL MokAuth
  refused EROFS E_READ_ONLY MokNew
  refused EPERM E_RIGHTS MokAuth
  opens first
}

@test "Secure Boot is off, and confidentiality: said, and done all the same" {
  printf '\6\0\0\0\0' >"$vars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
  echo "none integrity [confidentiality]" >"$ROOT/sys/kernel/security/lockdown"
  mok
  assert_status 0
  assert_output --partial "note: lockdown is confidentiality: signed modules load, and tools that read"
  echo "[none] integrity confidentiality" >"$ROOT/sys/kernel/security/lockdown"
  echo N >"$ROOT/sys/module/module/parameters/sig_enforce"
  mok
  assert_output --partial "note: nothing demands signatures of this kernel now"
}

@test "bad input changes nothing" {
  certificate tls -addext extendedKeyUsage=serverAuth
  certificate ca -addext keyUsage=critical,keyCertSign
  snapshot
  enroll
  assert_error E_USAGE "--module-cert FILE, or make a key with --new DIR"
  enroll --new "$work/keys" --check
  assert_error E_USAGE "exclude each other"
  enroll --module-cert "$work/tls.pem"
  assert_error E_KEY "extendedKeyUsage lacks codeSigning"
  enroll --module-cert "$work/mok.key"
  assert_error E_KEY "is not a certificate"
  mok --password-file <(printf 'p\303\244ss\n')
  assert_error E_USAGE "ASCII"
  mok --password-file /dev/null
  assert_error E_USAGE "1 to 255 characters"
  assert_unchanged
  enroll --module-cert "$work/ca.pem" # an authority may only issue
  assert_status 0
}
