#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The life of keys that sign packages: a new one takes the place of an old one while nodes work on, and one that is stolen does
# neither bring code into a site nor bring back what the site has replaced.
# shellcheck disable=SC2154,SC2030,SC2031 # bats and helper.bash set status, output, stderr and ROOT
load helper
load package

V=535.261.03
setup_file() {
  local name
  for name in old new online offline; do
    openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$BATS_FILE_TMPDIR/$name.key"
    openssl pkey -in "$BATS_FILE_TMPDIR/$name.key" -pubout -out "$BATS_FILE_TMPDIR/$name.pem"
  done
}
setup() {
  keys=$BATS_FILE_TMPDIR site=$BATS_TEST_TMPDIR/package
  loadable
}
trusts() { kmodsmith "trust add" "$keys/$1.pem" --name "$1" && assert_status 0; }
publish() { # KEY...: the site's packages and the next catalogue, signed with each
  local names=("${@/#/$keys/}")
  names=("${names[@]/%/.key}")
  run -0 "$KMODSMITH" sign "oci:$site" --catalog --key "$(IFS=, && echo "${names[*]}")"
}
fetch() { kmodsmith fetch --driver "$V" --flavour open --kernel 6.1.0-56-cloud-amd64 --from "oci:$site" --output "oci:$BATS_TEST_TMPDIR/got"; }
refused() { # CODE TEXT
  fetch
  assert_error "$1" "$2"
}
replace_package() { # the site has another package of that driver and kernel
  sed -i s/ABCDEF0123456789ABCDEF0/FEDCBA9876543210FEDCBA9/ "$site.d"/*.ko
  rm -r "$site"
  layout "$site" 6.1.0-56-cloud-amd64
}

@test "rotation: while both keys sign, nodes that know either of them are served; then the old key goes" {
  trusts old
  publish old
  kmodsmith install --driver "$V" --modules nvidia,nvidia-uvm --from "oci:$site"
  assert_status 0
  kmodsmith unload
  publish old new # what the old key signed before is signed by the new one, too
  fetch
  assert_status 0
  trusts new
  kmodsmith "trust remove" old
  assert_status 0
  rm -r "$BATS_TEST_TMPDIR/got"
  fetch
  assert_status 0
  # The package in the store has the old signature alone, and is fetched anew.
  kmodsmith install --driver "$V" --modules nvidia,nvidia-uvm
  assert_error E_UNTRUSTED "signed by old (key "
  kmodsmith install --driver "$V" --modules nvidia,nvidia-uvm --from "oci:$site"
  assert_status 0
  kmodsmith "store ls" --json
  assert_json '.items[0].vouched.signers[0].name' new
  publish old # a publisher that still has the old key alone
  rm -r "$BATS_TEST_TMPDIR/got"
  refused E_UNTRUSTED "catalogue: sha256:"
}

@test "a key that is stolen is not enough where two have to sign: neither for a package nor to bring an old one back" {
  local former=$BATS_TEST_TMPDIR/former
  trusts online
  trusts offline
  printf '{"sources":[{"prefix":"oci:%s","keys":["online","offline"],"threshold":2}]}' "$site" >"$ROOT/etc/kmodsmith/trust/policy.json"
  publish online offline
  cp -r "$site" "$former"
  fetch
  assert_status 0
  replace_package
  publish online offline
  rm -r "$BATS_TEST_TMPDIR/got"
  publish online offline
  fetch
  assert_status 0

  rm -r "$site" "$BATS_TEST_TMPDIR/got"
  cp -r "$former" "$site" # the thief's mirror serves the former state, whose signatures hold
  refused E_ROLLBACK "catalogue 1"
  for _ in 1 2 3; do publish online; done # with a catalogue of higher number
  refused E_UNTRUSTED "1 of 2 required signatures (by online)"
  replace_package
  publish online # and a package of his own
  refused E_UNTRUSTED "1 of 2 required signatures (by online)"
}
