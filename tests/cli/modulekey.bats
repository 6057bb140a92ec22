#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Modules that are signed as they are compiled, for kernels that load no others (R-C1, R-C4). Source and kernel tree are made up,
# and small; make, compiler, openssl and token are this machine's.
# shellcheck disable=SC2154,SC2030,SC2031 # bats and helper.bash set output, stderr, top and ROOT
load helper
load package

kernel=6.1.0-56-cloud-amd64
setup() {
  work=$BATS_TEST_TMPDIR driver=$BATS_TEST_TMPDIR/driver
  tiny_headers "$work/headers.tar" "$kernel"
  compiling_tree "$work/headers.tar.d/usr/src/kernels/$kernel"
  built_with "$(gcc -dumpversion | cut -d. -f1)" "$work/headers.tar" "$kernel"
  compiling_source "$driver" 535.261.03
  host h100x2-unloaded
  certificate mok
}
certificate() { # NAME [OPTION-OF-openssl-req...]
  openssl req -new -x509 -newkey rsa:2048 -nodes -days 36500 -subj "/CN=Site $1/" -keyout "$work/$1.key" -out "$work/$1.pem" "${@:2}" 2>/dev/null
}
hash_is() { # NAME: of the kernel's configuration
  local config=$work/headers.tar.d/usr/src/kernels/$kernel/.config
  sed -i /MODULE_SIG/d "$config"
  printf 'CONFIG_MODULE_SIG=y\nCONFIG_MODULE_SIG_HASH="%s"\n' "$1" >>"$config"
  tar -cf "$work/headers.tar" -C "$work/headers.tar.d" lib usr
}
build() { # OPTION...
  kmodsmith build --source "$driver" --kernel "$kernel" --flavour open --modules nvidia --headers "$work/headers.tar" \
    --state-dir "$work/state" --output "oci:$work/layout" --json --jobs 1 "$@"
}
signed() { build --module-key "$work/mok.key" --module-cert "$work/mok.pem"; }
made() { # FILE: nvidia.ko of the package that was made last
  local manifest
  manifest=$work/layout/blobs/sha256/$(jq -r '.digest[7:]' <<<"$output")
  tar --zstd -xOf "$work/layout/blobs/sha256/$(jq -r '.layers[0].digest[7:]' "$manifest")" --wildcards '*nvidia.ko' >"$1"
}
labels() { # of that package
  jq -r '.config.digest[7:]' "$work/layout/blobs/sha256/$(jq -r '.digest[7:]' <<<"$output")" |
    xargs -I{} jq -r ".config.Labels[\"$1\"] // \"none\"" "$work/layout/blobs/sha256/{}"
}
sign_file() { # HASH MODULE: what the kernel's scripts/sign-file makes of it, by openssl
  openssl cms -sign -binary -noattr -nocerts -nosmimecap -outform DER -md "$1" -signer "$work/mok.pem" -inkey "$work/mok.key" -in "$2" \
    -out "$2.p7"
  cat "$2" "$2.p7"
  printf '\0\0\2\0\0\0\0\0%b~Module signature appended~\n' "$(printf '\\x%02x' 0 0 $(($(stat -c %s "$2.p7") / 256)) $(($(stat -c %s "$2.p7") % 256)))"
}

@test "R-C1: the module has the signature that sign-file would give it, by the hash of the kernel's configuration" {
  local hash plain
  build
  assert_status 0
  made "$work/plain.ko"
  plain=$(jq -r .digest <<<"$output")
  assert_equal "$(labels io.kmodsmith.signer)" none
  for hash in sha256 sha512; do
    hash_is $hash
    signed
    assert_status 0
    assert_equal "$(jq -r '.phases[] | select(.phase == "sign") | .note' <<<"$output")" "1 module by CN=Site mok, $hash"
    made "$work/signed.ko"
    cmp "$work/signed.ko" <(sign_file $hash "$work/plain.ko")
    assert_equal "$(labels io.kmodsmith.signer)" "$(openssl x509 -in "$work/mok.pem" -outform DER | sha256sum | cut -d' ' -f1)"
    assert_not_equal "$(jq -r .digest <<<"$output")" "$plain"
  done
  [ "$(modinfo -F signer "$work/signed.ko")" = "Site mok" ] || skip "this modinfo shows no signer"
}

@test "signing changes nothing else: the compile is the same, and the same key gives the same package" {
  local first
  signed
  first=$(jq -r .digest <<<"$output")
  rm -rf "$work/state"
  openssl x509 -in "$work/mok.pem" -outform DER -out "$work/mok.pem.der"
  build --module-key "$work/mok.key" --module-cert "$work/mok.pem.der"
  assert_equal "$(jq -r .digest <<<"$output")" "$first"
}

@test "a matrix: an unsigned package, or another key's, is not what is wanted" {
  jq -n --arg source "$driver" --arg kernel "$kernel" --arg headers "$work/headers.tar" \
    '{drivers: [{source: $source, flavours: ["open"]}], kernels: [{release: $kernel, headers: [$headers]}], modules: ["nvidia"]}' >"$work/matrix.json"
  matrix() { kmodsmith build --matrix "$work/matrix.json" --state-dir "$work/state" --output "oci:$work/layout" --json "$@"; }
  certificate other
  matrix
  assert_json '.pairs[].result' built
  matrix --module-key "$work/mok.key" --module-cert "$work/mok.pem"
  assert_json '.pairs[].result' built
  matrix --module-key "$work/mok.key" --module-cert "$work/mok.pem"
  assert_json '.pairs[].result' there
  matrix --module-key "$work/other.key" --module-cert "$work/other.pem"
  assert_json '.pairs[].result' built
  matrix --module-key "$work/other.key"
  assert_error E_USAGE "--module-key and --module-cert need each other"
}

@test "a leaf that a CA issued goes into the signature, so that the CA alone has to be enrolled" {
  certificate ca
  openssl req -new -newkey rsa:2048 -nodes -subj "/CN=Leaf/" -keyout "$work/leaf.key" -out "$work/leaf.csr" 2>/dev/null
  openssl x509 -req -in "$work/leaf.csr" -CA "$work/ca.pem" -CAkey "$work/ca.key" -CAcreateserial -days 30 -out "$work/leaf.pem" 2>/dev/null
  build --module-key "$work/leaf.key" --module-cert "$work/leaf.pem"
  assert_status 0
  made "$work/signed.ko"
  build
  made "$work/plain.ko"
  tail -c "+$(($(stat -c %s "$work/plain.ko") + 1))" "$work/signed.ko" | head -c -40 >"$work/p7"
  openssl cms -verify -binary -inform DER -in "$work/p7" -content "$work/plain.ko" -CAfile "$work/ca.pem" -purpose any -out /dev/null
}

referrers() { # of the package that was made last: statement and bill of materials, by their digests
  local index
  index=$(jq -r --arg tag "sha256-$1" '.manifests[] | select(.annotations["org.opencontainers.image.ref.name"] == $tag) | .digest[7:]' "$2/index.json")
  jq -r '.manifests[].digest' "$2/blobs/sha256/$index" | sort
}

@test "R-C2: signed where it is published, a package is the one that was signed where it was compiled" {
  local hash inline plain
  for hash in sha256 sha512; do
    rm -rf "$work/layout"
    hash_is $hash
    signed
    inline=$(jq -r .digest <<<"$output")
    mv "$work/layout" "$work/inline.$hash"
    build
    plain=$(jq -r .digest <<<"$output")
    assert_not_equal "$plain" "$inline"
    kmodsmith sign "oci:$work/layout" --modules --module-key "$work/mok.key" --module-cert "$work/mok.pem" --module-hash $hash --json
    assert_status 0
    assert_json '.packages[0] | [.digest, .changed, .modules_signed] | join(" ")' "$inline false true"
    # what is stated of it, too
    assert_equal "$(referrers "${inline#sha256:}" "$work/layout")" "$(referrers "${inline#sha256:}" "$work/inline.$hash")"
    kmodsmith sign "oci:$work/layout" --modules --module-key "$work/mok.key" --module-cert "$work/mok.pem" --module-hash $hash --json
    assert_json '.packages[0] | [.digest, .modules_signed] | join(" ")' "$inline false"
  done
  certificate next # another key takes over, and the package is signed with the site's key in the same run
  openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$work/site.key"
  kmodsmith sign "oci:$work/layout" --modules --module-key "$work/next.key" --module-cert "$work/next.pem" --key "$work/site.key" --json
  assert_status 0
  assert_json '.packages[0] | [.changed, .modules_signed] | join(" ")' "true true"
  output=$(jq '.packages[0]' <<<"$output")
  made "$work/signed.ko"
  [ "$(modinfo -F signer "$work/signed.ko")" = "Site next" ] || skip "this modinfo shows no signer"
}

@test "R-C2: the time that a package states is kept, whatever time it is where it is signed" {
  local inline
  export SOURCE_DATE_EPOCH=1700000000
  signed
  inline=$(jq -r .digest <<<"$output")
  rm -rf "$work/layout"
  build
  SOURCE_DATE_EPOCH=1800000000 kmodsmith sign "oci:$work/layout" --modules --module-key "$work/mok.key" --module-cert "$work/mok.pem" --json
  assert_json '.packages[0].digest' "$inline"
}

@test "R-C2: a node without the key takes what was signed elsewhere, and a wrong key signs nothing" {
  local before
  build
  before=$(cat "$work/layout/index.json")
  certificate other
  refused() { # TEXT OPTION...
    kmodsmith sign "oci:$work/layout" "${@:2}"
    assert_error "${code:-E_KEY}" "$1"
    assert_equal "$(cat "$work/layout/index.json")" "$before"
  }
  refused "is the certificate of another key" --modules --module-key "$work/other.key" --module-cert "$work/mok.pem"
  refused "No such file" --modules --module-key "$work/none" --module-cert "$work/mok.pem"
  code=E_SIGNATURE_BAD refused "has no hash 'sha9'" --modules --module-key "$work/mok.key" --module-cert "$work/mok.pem" --module-hash sha9
  code=E_USAGE refused "--modules requires --module-cert, and --module-key or --module-signatures" --modules --module-key "$work/mok.key"
  code=E_USAGE refused "--module-hash requires --modules" --module-hash sha256 --key "$work/mok.key"
  code=E_USAGE refused "--catalog requires --key" --modules --module-key "$work/mok.key" --module-cert "$work/mok.pem" --catalog
  # What a machine is configured with for its own compiles signs nobody's packages unasked.
  openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$work/site.key"
  KMODSMITH_MODULE_KEY=$work/mok.key KMODSMITH_MODULE_CERT=$work/mok.pem kmodsmith sign "oci:$work/layout" --key "$work/site.key" --json
  assert_status 0
  assert_json '.packages[0].modules_signed' false
  assert_json '.packages[0].digest' "$(jq -r '.manifests[0].digest' <<<"$before")"
  kmodsmith sign "oci:$work/layout" --modules --module-key "$work/mok.key" --module-cert "$work/mok.pem"
  assert_status 0
  assert_line --regexp '^modules signed +535.261.03-open-.* sha256:'
  assert_equal "$(find "$work/layout/.tmp" -mindepth 1 2>/dev/null)" ""
}

@test "bad keys and certificates end the build before anything is compiled" {
  certificate other
  certificate tls -addext extendedKeyUsage=serverAuth
  openssl genpkey -algorithm ed25519 -out "$work/ed.key"
  openssl rsa -aes256 -passout pass:secret -in "$work/mok.key" -out "$work/locked.key" 2>/dev/null
  refused() { # KEY CERT TEXT
    build --module-key "$work/$1" --module-cert "$work/$2"
    assert_error E_KEY "$3"
    assert_not_exist "$work/layout/index.json"
    assert_not_exist "$work/state/logs"
  }
  refused other.key mok.pem "mok.pem' (CN=Site mok) is the certificate of another key"
  refused tls.key tls.pem "extendedKeyUsage lacks codeSigning"
  refused ed.key mok.pem "kernels verify RSA and ECDSA"
  refused mok.key mok.key "is not a certificate"
  refused none mok.pem "No such file"
  refused locked.key mok.pem "it is encrypted, and KMODSMITH_KEY_PASSWORD is not set"
  KMODSMITH_KEY_PASSWORD=wrong build --module-key "$work/locked.key" --module-cert "$work/mok.pem"
  assert_error E_KEY "the passphrase does not open it"
  KMODSMITH_KEY_PASSWORD=secret build --module-key "$work/locked.key" --module-cert "$work/mok.pem"
  assert_status 0
  build --module-cert "$work/mok.pem"
  assert_error E_USAGE "--module-key and --module-cert need each other"
}

@test "R-C2: signatures that another program made are attached, and the package is the one that was signed with the key" {
  local inline plain tag
  signed
  inline=$(jq -r .digest <<<"$output")
  rm -rf "$work/layout"
  build
  plain=$(jq -r .digest <<<"$output")
  made "$work/plain.ko"
  tiny_payload "$work/payload.tar" 535.261.03 # user space beside it has no modules
  kmodsmith "pack payload" "$work/payload.tar" --driver 535.261.03 --arch x86_64 --output "oci:$work/layout" --state-dir "$work/state"
  kmodsmith sign "oci:$work/layout" --export-modules "$work/signing"
  assert_status 0
  assert_line --regexp '^exported +535.261.03-open-'
  assert_line --regexp '^no modules +'
  assert_equal "$(find "$work/signing" -mindepth 1 -maxdepth 1 | wc -l)" 1
  tag=$(echo "$work"/signing/*)
  cmp "$tag/nvidia.ko" "$work/plain.ko"
  attach() { kmodsmith sign "oci:$work/layout" --modules --module-cert "$work/mok.pem" --module-signatures "$work/signing" --json; }
  elsewhere() { # CERTIFICATE MODULE: by the program that has the key
    openssl cms -sign -binary -noattr -nocerts -nosmimecap -outform DER -md sha256 -signer "$work/$1.pem" -inkey "$work/$1.key" -in "$2" \
      -out "$tag/nvidia.ko.p7s"
  }
  certificate other
  attach
  assert_error E_NOT_FOUND "has no nvidia.ko.p7s; --export-modules writes"
  head -c 300 "$work/plain.ko" >"$tag/nvidia.ko.p7s"
  attach
  assert_error E_SIGNATURE_BAD "nvidia.ko.p7s': the signature is of no use to a kernel: the CMS is damaged"
  : >"$tag/nvidia.ko.p7s"
  attach
  assert_error E_SIGNATURE_BAD "nvidia.ko.p7s'"
  echo another >"$work/another"
  elsewhere mok "$work/another"
  attach
  assert_error E_SIGNATURE_BAD "nvidia.ko.p7s'"
  elsewhere other "$work/plain.ko"
  attach
  assert_error E_KEY "nvidia.ko.p7s': not signed by the key of CN=Site mok"
  assert_equal "$(jq -r '.manifests[] | select(.artifactType | test("package")).digest' "$work/layout/index.json")" "$plain"
  elsewhere mok "$work/plain.ko"
  attach
  assert_status 0
  assert_json '.packages[] | select(.tag | test("-open-")) | [.digest, .modules_signed] | join(" ")' "$inline true"
  kmodsmith sign "oci:$work/layout" --export-modules "$work/again" # of signed ones: without the signature
  cmp "$work/again/${tag##*/}/nvidia.ko" "$work/plain.ko"
  rm -r "$work/signing" # signed already: nothing is read
  attach
  assert_json '.packages[] | select(.tag | test("-open-")) | [.digest, .modules_signed] | join(" ")' "$inline false"
}

@test "what does not go together is said" {
  refused() { # TEXT OPTION...
    kmodsmith sign "oci:$work/layout" "${@:2}"
    assert_error E_USAGE "$1"
  }
  refused "--modules requires --module-cert, and --module-key or --module-signatures" --modules --module-cert "$work/mok.pem"
  refused "--module-signatures requires --modules" --module-signatures "$work" --key "$work/mok.key"
  refused "--module-hash: a signature of --module-signatures has its own" --modules --module-cert "$work/mok.pem" --module-signatures "$work" --module-hash sha512
  refused "--export-modules signs nothing: leave out --key" --export-modules "$work/x" --key "$work/mok.key"
}

@test "a certificate that has run out signs, and that is said" {
  openssl req -new -newkey rsa:2048 -nodes -subj "/CN=Late/" -keyout "$work/late.key" -out "$work/late.csr" 2>/dev/null
  openssl ca -help >/dev/null 2>&1 || skip "this openssl sets no dates"
  mkdir "$work/ca" && : >"$work/ca/index" && echo 01 >"$work/ca/serial"
  printf '[ca]\ndefault_ca=x\n[x]\ndatabase=%s/ca/index\nserial=%s/ca/serial\nnew_certs_dir=%s/ca\npolicy=p\ndefault_md=sha256\n[p]\ncommonName=supplied\n' \
    "$work" "$work" "$work" >"$work/ca/config"
  openssl ca -batch -config "$work/ca/config" -selfsign -keyfile "$work/late.key" -in "$work/late.csr" -startdate 20200101000000Z \
    -enddate 20200201000000Z -notext -out "$work/late.pem" 2>/dev/null
  build --module-key "$work/late.key" --module-cert "$work/late.pem"
  assert_status 0
  assert_regex "$stderr" "CN=Late is valid until Feb +1 00:00:00 2020 GMT; kernels do not look at dates"
}

@test "a key in a token signs what the same key in a file signs" {
  command -v softhsm2-util >/dev/null || skip "softhsm2 is not installed"
  export SOFTHSM2_CONF=$work/softhsm2.conf PKCS11_MODULE_PATH=/usr/lib/softhsm/libsofthsm2.so first
  [ -e "$PKCS11_MODULE_PATH" ] || skip "softhsm2 has its library elsewhere"
  mkdir "$work/tokens"
  echo "directories.tokendir = $work/tokens" >"$SOFTHSM2_CONF"
  softhsm2-util --init-token --free --label site --pin 4321 --so-pin 87654321 >/dev/null
  softhsm2-util --import "$work/mok.key" --token site --label mok --id 01 --pin 4321 >/dev/null
  signed
  first=$(jq -r .digest <<<"$output")
  KMODSMITH_KEY_PASSWORD=4321 build --module-key "pkcs11:token=site;object=mok;type=private" --module-cert "$work/mok.pem"
  assert_status 0
  assert_equal "$(jq -r .digest <<<"$output")" "$first"
  ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 # the engine's own: it leaves its memory when it finds no key
  KMODSMITH_KEY_PASSWORD=4321 build --module-key "pkcs11:token=away;object=mok;type=private" --module-cert "$work/mok.pem"
  assert_error E_KEY "the token has no such private key"
}

@test "Secure Boot: with a key the plan compiles and signs; a key that the kernel does not have is refused first" {
  local id
  host secure-boot
  tiny_firmware 535.261.03
  plan() { kmodsmith plan --source "$driver" --flavour open --headers "$work/headers.tar" "$@"; }
  plan
  assert_error E_SIGNING_REQUIRED "lockdown is integrity"
  assert_regex "$stderr" 'next: .*--module-key'
  plan --module-key "$work/mok.key" --module-cert "$work/mok.pem"
  assert_status 0 # this kernel shows no keys
  assert_output --partial "signed by CN=Site mok"
  key_line() { printf '1d2c3b4a I------     1 perm 1f030000     0     0 asymmetri %s: %s: X509.rsa %s []\n' "$1" "$2" "${2: -8}"; }
  { echo '0a0b0c0d I------     1 perm 1f0b0000     0     0 keyring   .machine: 1'
    key_line "Debian Secure Boot CA" 6ccece7e4c6c0d1f6149f3dd27dfcc5cbb419ea1; } >"$ROOT/proc/keys"
  plan --module-key "$work/mok.key" --module-cert "$work/mok.pem"
  assert_error E_KEY_UNKNOWN "lockdown is integrity, and the certificate of --module-key, CN=Site mok ($work/mok.pem), is not among the keys of this kernel: Debian Secure Boot CA"
  assert_regex "$stderr" 'next: .*kmodsmith trust enroll --module-cert FILE'
  mkdir "$work/keys" && mv "$ROOT/proc/keys" "$work/keys" && ln -s /dev/null "$ROOT/proc/keys" # as container runtimes mask it
  plan --module-key "$work/mok.key" --module-cert "$work/mok.pem"
  assert_status 0
  rm "$ROOT/proc/keys" && mv "$work/keys/keys" "$ROOT/proc/keys"
  id=$(openssl x509 -in "$work/mok.pem" -noout -ext subjectKeyIdentifier | sed -n '2s/[ :]//gp' | tr A-F a-f)
  key_line "Site: mok" "$id" >>"$ROOT/proc/keys"
  plan --module-key "$work/mok.key" --module-cert "$work/mok.pem"
  assert_status 0
  kmodsmith doctor --module-key "$work/mok.key" --module-cert "$work/mok.pem" --json
  assert_json '.checks[] | select(.name == "signing") | .state + " " + .evidence' \
    "pass lockdown is integrity: what is compiled here is signed by CN=Site mok"
  kmodsmith doctor --module-key "$work/none" --module-cert "$work/mok.pem" --json
  assert_json '.checks[] | select(.name == "signing") | .state + " " + .code' "FAIL E_KEY"
  certificate weak
  plan --module-key "$work/weak.key" --module-cert "$work/weak.pem"
  assert_error E_KEY_UNKNOWN "keys of this kernel: Debian Secure Boot CA; Site: mok"
}

enforcing() { # from now on the recorded kernel demands signatures
  find "$ROOT" -name 'config*' -type f -exec sed -i '1iCONFIG_MODULE_SIG=y' {} +
  mkdir -p "$ROOT/sys/module/module/parameters"
  echo Y >"$ROOT/sys/module/module/parameters/sig_enforce"
}

@test "Secure Boot was turned on: what the store has unsigned is compiled again, and signed" {
  loadable
  install() { kmodsmith install --source "$driver" --flavour open --modules nvidia --headers "$work/headers.tar" --json "$@"; }
  phases() { jq -r '[.phases[].phase] | join(" ")' <<<"$output"; }
  install
  assert_status 0
  kmodsmith unload
  enforcing
  install
  assert_error E_SIGNING_REQUIRED "the module is unsigned"
  install --module-key "$work/mok.key" --module-cert "$work/mok.pem"
  assert_status 0
  assert_regex "$(phases)" "compile sign prove"
  kmodsmith unload
  install --module-key "$work/mok.key" --module-cert "$work/mok.pem"
  assert_status 0
  [[ $(phases) != *compile* ]] || fail "$(phases)" # the store has it
}

@test "R-C3: what an unknown key signed is refused before the driver that works is touched" {
  loadable
  kmodsmith install --source "$driver" --flavour open --modules nvidia --headers "$work/headers.tar"
  assert_status 0
  compiling_source "$driver" 535.274.02
  tiny_firmware 535.274.02
  enforcing
  printf '0a0b0c0d I------     1 perm 1f0b0000     0     0 keyring   .machine: 1\n' >"$ROOT/proc/keys"
  echo 0102 >"$ROOT/.sys-keys"
  ROOT='' signed
  rm -f "$ROOT/.sys-calls"
  kmodsmith install --package "oci:$work/layout" --flavour open --modules nvidia
  assert_error E_KEY_UNKNOWN "prove: nvidia: signed by a key of CN=Site mok (serial "
  assert_equal "$(calls)" ""
  openssl x509 -in "$work/mok.pem" -noout -serial | sed 's/.*=//' | tr A-F a-f | tr -d '\n' >"$ROOT/.sys-keys"
  printf '3111300f06035504030c08%s\n' "$(printf 'Site mok' | od -An -tx1 | tr -d ' \n')" >>"$ROOT/.sys-keys"
  kmodsmith install --package "oci:$work/layout" --flavour open --modules nvidia
  assert_error E_UNPROVEN "proved nothing" # what comes after signatures
}
