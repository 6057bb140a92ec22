#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What the proof knows of a signature before anything is touched: by the certificates of firmware and shim, the kernel's keyrings,
# and the hashes that it has (R-C3). Modules are small, machines recorded; tests/vm/24-secure-boot asks real kernels.
# shellcheck disable=SC2154,SC2030,SC2031 # bats and helper.bash set output, stderr, top and ROOT
load helper
load package
load efi

kernel=6.1.0-56-cloud-amd64
setup() {
  work=$BATS_TEST_TMPDIR
  loadable
  printf 'CONFIG_%s=y\n' MODULE_SIG >>"$ROOT/lib/modules/$kernel/config"
  mkdir -p "$ROOT/sys/module/module/parameters"
  echo Y >"$ROOT/sys/module/module/parameters/sig_enforce"
  certificate mok
  keyring .machine 0a0b0c0d
  tiny_package "$work/package" "$kernel"
}
signed() { # HASH NAME [OPTION-OF-openssl-cms...]: the modules of the package, by the key NAME
  local file hash=$1 name=$2
  shift 2
  for file in "$work"/package.d/*.ko; do
    openssl cms -sign -binary -noattr -nosmimecap -outform DER -md "$hash" -signer "$work/$name.pem" -inkey "$work/$name.key" \
      -in "$file" -out "$file.p7" "$@"
    cat "$file.p7" >>"$file"
    printf '\0\0\2\0\0\0\0\0%b~Module signature appended~\n' \
      "$(printf '\\x%02x' 0 0 $(($(stat -c %s "$file.p7") / 256)) $(($(stat -c %s "$file.p7") % 256)))" >>"$file"
    rm "$file.p7"
  done
  layout "$work/package" "$kernel"
}
changed() { # the modules, after they were signed
  local file
  for file in "$work"/package.d/*.ko; do printf X | dd of="$file" bs=1 seek=9 conv=notrunc status=none; done
  layout "$work/package" "$kernel"
}
both_refuse() { # CODE TEXT: a check and an install, which touches nothing
  kmodsmith check --package "oci:$work/package" --json
  assert_status 30
  assert_json .code "$1"
  assert_regex "$(jq -r .reason <<<"$output")" "$2"
  kmodsmith install --package "oci:$work/package" --modules nvidia
  assert_error "$1" "prove: nvidia: "
  assert_regex "$stderr" "$2"
  assert_equal "$(calls)" ""
}
both_accept() { # as far as signatures go: nothing tells more of a kernel without CRCs
  kmodsmith check --package "oci:$work/package" --json
  assert_status 0
  assert_json .verdict ok
}

@test "a module that a key in MOK signed fits; once it is changed, it is refused before anything is touched" {
  enrolled MokListRT mok
  signed sha256 mok -nocerts
  both_accept
  changed
  both_refuse E_SIGNATURE_BAD "the signature by CN=Site mok does not match this content"
}

@test "a plan foresees what the kernel will say to modules on this machine, in a layout and in the store" {
  kmodsmith plan --package "oci:$work/package" --json
  assert_error E_SIGNING_REQUIRED "prove: nvidia_uvm: the module is unsigned"
  assert_json '.error.code + " " + (.steps | map(.step) | join(" "))' "E_SIGNING_REQUIRED preflight package prove load nodes verify"
  assert_not_exist "$ROOT/var/lib/kmodsmith/store"
  rm "$ROOT/sys/module/module/parameters/sig_enforce"
  kmodsmith install --package "oci:$work/package" --stage
  assert_status 0
  echo Y >"$ROOT/sys/module/module/parameters/sig_enforce"
  kmodsmith plan 535.261.03
  assert_error E_SIGNING_REQUIRED "prove: nvidia_uvm: the module is unsigned"
  kmodsmith install --dry-run --package "oci:$work/package"
  assert_error E_SIGNING_REQUIRED "prove: nvidia_uvm: the module is unsigned"
  [[ $stderr != *"works without it"* ]] || told | fail # one line for one refusal
  enrolled MokListRT mok
  signed sha256 mok -nocerts
  kmodsmith plan --package "oci:$work/package"
  assert_status 0
  assert_equal "$(calls)" ""
}

@test "a check of another kernel does not ask this one" {
  local other=6.1.0-55-cloud-amd64
  signed sha256 mok -nocerts
  both_refuse E_KEY_UNKNOWN "signed by a key of CN=Site mok"
  mkdir "$ROOT/lib/modules/$other"
  cp "$ROOT/lib/modules/$kernel/config" "$ROOT/lib/modules/$other"
  tiny_package "$work/package" "$other"
  kernel=$other signed sha256 mok -nocerts
  kmodsmith check --kernel "$other" --package "oci:$work/package" --json
  assert_status 0
}

@test "a leaf inside the signature is as good as its issuer" {
  issued leaf mok
  signed sha256 leaf
  both_refuse E_KEY_UNKNOWN "signed by a key of CN=Site mok"
  enrolled MokListRT mok
  both_accept
}

@test "a certificate that no keyring has counts for nothing, even in db; one that is revoked never" {
  certificate vendor
  in_variable db-d719b2cb-3d3a-4596-a3bc-dad00e67656f vendor
  signed sha256 vendor -nocerts
  both_refuse E_KEY_UNKNOWN "signed by a key of CN=Site vendor"
  known_as vendor
  both_accept
  keyring .blacklist 0000000b
  { sed 's/^/0a0b0c0d:/' "$ROOT/.sys-keys" && printf '0000000b:%s\n' "$(cert_id vendor)"; } >"$work/keys"
  mv "$work/keys" "$ROOT/.sys-keys"
  both_refuse E_KEY_REVOKED "signed by a key of CN=Site vendor .*that is revoked"
}

@test "doctor: who counts, whose packages do, and what else stands in the way" {
  local check='.checks[] | select(.name == "'
  finding() { # NAME PATTERN: as "STATE CODE EVIDENCE"
    assert_regex "$(jq -r "$check$1\") | .state + \" \" + (.code // \"-\") + \" \" + .evidence" <<<"$output")" "$2"
  }
  enrolled MokListRT mok
  certificate other
  signed sha256 other -nocerts
  mkdir -p "$ROOT/var/lib/kmodsmith"
  cp -r "$work/package" "$ROOT/var/lib/kmodsmith/store"
  kmodsmith doctor --json
  assert_status 1
  finding "secure-boot" "^pass - secure boot off, lockdown .*sig_enforce on; of db and MOK the kernel trusts: CN=Site mok$"
  finding signing "^FAIL E_SIGNING_REQUIRED .*no package for this kernel that it would take"
  assert_regex "$(jq -r "$check"'signing") | .next' <<<"$output")" '^make and enrol a key with .kmodsmith trust enroll --new DIR., name a key'
  rm -r "$ROOT/var/lib/kmodsmith"
  mkdir -p "$ROOT/var/lib/kmodsmith"
  tiny_package "$work/package" "$kernel"
  signed sha256 mok -nocerts
  cp -r "$work/package" "$ROOT/var/lib/kmodsmith/store"
  mkdir -p "$ROOT/proc/sys/kernel/loadpin" "$ROOT/sys/kernel/security/ima"
  echo 1 >"$ROOT/proc/sys/kernel/loadpin/enforce"
  printf 'measure func=MODULE_CHECK\nappraise func=MODULE_CHECK appraise_type=imasig\n' >"$ROOT/sys/kernel/security/ima/policy"
  echo "none integrity [confidentiality]" >"$ROOT/sys/kernel/security/lockdown"
  kmodsmith doctor --json
  finding signing "^warn E_SIGNING_REQUIRED .*the store has a package with signed modules"
  finding "secure-boot" "^warn E_LOCKDOWN .*lockdown confidentiality.*perf"
  finding loadpin "^warn E_SELINUX LoadPin takes modules from one file system only"
  finding ima "^warn E_SELINUX .*: appraise func=MODULE_CHECK"
}

@test "a hash that the kernel neither has nor can load" {
  enrolled MokListRT mok
  signed sha512 mok -nocerts
  both_accept # it does not say which it has
  printf 'name         : %s\ndriver       : %s-generic\n\n' sha256 sha256 sha1 sha1 >"$ROOT/proc/crypto"
  both_refuse E_SIGNATURE_HASH "signed with sha512, which this kernel does not have"
  mkdir -p "$ROOT/lib/modules/$kernel/kernel/crypto" "$ROOT/sbin"
  echo "alias crypto-sha512 sha512_generic" >"$ROOT/lib/modules/$kernel/modules.alias"
  echo "kernel/crypto/sha512_generic.ko:" >"$ROOT/lib/modules/$kernel/modules.dep"
  : >"$ROOT/lib/modules/$kernel/kernel/crypto/sha512_generic.ko"
  echo /sbin/modprobe >"$ROOT/proc/sys/kernel/modprobe"
  both_refuse E_SIGNATURE_HASH "there is no modprobe at '/sbin/modprobe'"
  : >"$ROOT/sbin/modprobe"
  both_accept
}
