#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Whether whoever vouched for a package of the store is still believed: each time it is to be loaded, whether it is what
# was asked for or the way back. A driver that runs is never touched because of that.
# shellcheck disable=SC2154,SC2030,SC2031 # bats and helper.bash set status, output, stderr and ROOT
load helper
load package

V=535.261.03
setup_file() {
  local name
  for name in ours theirs; do
    openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$BATS_FILE_TMPDIR/$name.key"
    openssl pkey -in "$BATS_FILE_TMPDIR/$name.key" -pubout -out "$BATS_FILE_TMPDIR/$name.pem"
  done
}
setup() {
  keys=$BATS_FILE_TMPDIR site=$BATS_TEST_TMPDIR/package
  loadable
  digest=$(jq -r '.manifests[0].digest' "$site/index.json")
}
trusts() { kmodsmith "trust add" "$keys/$1.pem" --name "$1" "${@:2}" && assert_status 0; }
signed_by() { "$KMODSMITH" sign "oci:$site" --key "$keys/$1.key" >/dev/null; }
policy() { printf '{"sources":[%s]}' "$1" >"$ROOT/etc/kmodsmith/trust/policy.json"; }
install() { kmodsmith install --driver "$V" --modules nvidia,nvidia-uvm "$@"; }
fetched() { # signed by us, installed from the site, and unloaded again; a driver that the site does not have any more
  trusts ours
  signed_by ours
  install --from "oci:$site"
  assert_status 0
  kmodsmith unload
  assert_status 0
  rm -rf "$site" "$ROOT/.sys-calls"
}
vouched() { # FILTER EXPECTED: of the only package in the store
  kmodsmith "store ls" --json
  assert_json '.items | length' 1
  assert_json ".items[0].vouched$1" "$2"
}

@test "a removed key no longer counts for what is in the store: refused with key, digest and next step" {
  fetched
  install
  assert_status 0
  kmodsmith unload
  rm "$ROOT/.sys-calls"
  kmodsmith "trust remove" ours
  assert_status 0
  assert_line "no longer trusted: $V-open-6.1.0-56-cloud-amd64-x86_64 $digest"
  assert_line --partial "1 package of the store will not be loaded again"
  id=$(openssl pkey -pubin -in "$keys/ours.pem" -outform DER | sha256sum | cut -c1-16)
  install
  assert_error E_UNTRUSTED "signed by ours (key $id)"
  assert_error E_UNTRUSTED "${digest:0:19}..."
  [[ $stderr == *'kmodsmith trust add'* ]]
  assert_equal "$(calls)" ""
  kmodsmith plan --driver "$V"
  assert_error E_UNTRUSTED "${digest:0:19}..."
  trusts ours
  install
  assert_status 0
}

@test "a running driver is adopted even if its signer lost trust; what needs the package is refused before any change" {
  fetched
  install
  kmodsmith "trust remove" ours
  rm "$ROOT/.sys-calls"
  install
  assert_status 0
  [[ $stderr == *"store: $V-open-6.1.0-56-cloud-amd64-x86_64 is not used: E_UNTRUSTED: "* ]]
  assert_equal "$(calls | grep -E '^(un)?load' || true)" ""
  kmodsmith status
  assert_status 0
  assert_line ready
  install --param nvidia:NVreg_EnableMSI=0
  assert_error E_UNTRUSTED "${digest:0:19}..."
  assert_equal "$(calls | grep -E '^(un)?load' || true)" ""
}

@test "the last good driver is not restored under a removed key, and the request is tried" {
  fetched
  kmodsmith "trust remove" ours
  kmodsmith install --driver 550.1
  assert_error E_NO_PACKAGE
  [[ $stderr == *"no way back to driver $V: E_UNTRUSTED: kept from oci:"*"signed by ours (key "*"${digest:0:19}..."* ]]
  assert_equal "$(calls)" ""
  kmodsmith install --driver "$V" --from "oci:$BATS_TEST_TMPDIR/package2"
  assert_error E_NOT_FOUND "${digest:0:19}..."
  tiny_package "$site" 6.1.0-56-cloud-amd64
  "$KMODSMITH" sign "oci:$site" --key "$keys/theirs.key" >/dev/null
  trusts theirs
  install --from "oci:$site" # the same package, and somebody else vouches for it now
  assert_status 0
  vouched .signers[0].name theirs
  kmodsmith unload
  install
  assert_status 0
}

@test "replacing a driver under a removed key: the missing way back is reported before the change" {
  fetched
  install
  kmodsmith "trust remove" ours
  local other=$BATS_TEST_TMPDIR/other
  cp -r "$site.d" "$other.d"
  sed -i s/ABCDEF0123456789ABCDEF0/FEDCBA9876543210FEDCBA9/ "$other.d"/*.ko
  layout "$other" 6.1.0-56-cloud-amd64
  rm "$ROOT/.sys-calls"
  echo "ENOMEM load nvidia" >"$ROOT/.sys-refused"
  change() { kmodsmith install --package "$other" --modules nvidia,nvidia-uvm --param nvidia:NVreg_EnableMSI=0; }
  change
  assert_error E_SYSTEM "load 'nvidia'"
  [[ $stderr == *"no way back to driver $V: E_UNTRUSTED: "*" unload "* ]]
  assert_equal "$(calls | grep -E '^(un)?load' | sed 's/ *$//' | paste -sd';')" "unload nvidia_uvm;unload nvidia;load nvidia NVreg_EnableMSI=0"
  change
  assert_status 0
}

@test "unreadable trust directory: the last good driver stays trusted and the request waits; a missing one means no keys" {
  fetched
  policy '{"prefix": "oci:", "limit": 2}'
  install
  assert_error E_CONFIG "policy.json"
  assert_error E_CONFIG "${digest:0:19}..."
  [[ $stderr == *"sha256:${digest:7:12}, which worked last, although its signatures cannot be checked: "* ]]
  [[ $stderr == *"fell back to the last good driver"* ]]
  kmodsmith status
  assert_status 0
  kmodsmith unload
  mv "$ROOT/etc/kmodsmith/trust" "$BATS_TEST_TMPDIR/trust" # as when it was named at the fetch only
  install
  assert_status 0
  [[ $stderr == *"sha256:${digest:7:12} is trusted as when it was stored (signed by ours): there is no trust directory"* ]]
  kmodsmith unload
  rm "$BATS_TEST_TMPDIR/trust/policy.json"
  install --trust-dir "$BATS_TEST_TMPDIR/trust"
  assert_status 0
}

@test "packages given by hand or accepted unverified are recorded as such and never checked" {
  kmodsmith install --package "$site" --modules nvidia,nvidia-uvm
  assert_status 0
  vouched .origin by-hand
  kmodsmith unload
  rm -r "$site"
  install
  assert_status 0
  kmodsmith "store ls"
  assert_line --regexp 'last-good +by hand$'
  kmodsmith unload
  rm -rf "$ROOT/var/lib/kmodsmith"
  tiny_package "$site" 6.1.0-56-cloud-amd64
  install --from "oci:$site" --insecure-skip-verify
  assert_status 0
  vouched .origin unverified
  kmodsmith unload
  install
  assert_status 0
  kmodsmith "store ls"
  assert_line --regexp ' not verified$'
}

@test "given by hand after the key was removed: root decides" {
  fetched
  kmodsmith "trust remove" ours
  tiny_package "$site" 6.1.0-56-cloud-amd64
  kmodsmith install --package "$site" --modules nvidia,nvidia-uvm
  assert_status 0
  vouched .origin by-hand
  kmodsmith unload
  install
  assert_status 0
}

@test "today's policy for the repository of that time: threshold, unsigned, catalogue, its own keys" {
  fetched
  while IFS='|' read -r entry code text; do
    policy "$entry"
    install
    if [ "$code" = 0 ]; then
      assert_status 0
      kmodsmith unload
    else
      assert_error "$code" "$text"
    fi
    kmodsmith "store ls" --json
    assert_json '.items[0].vouched.code' "${code/#0/null}"
  done <<EOF
{"prefix": "oci:$site", "threshold": 2}|E_UNTRUSTED|1 of 2 required signatures
{"prefix": "oci:$site", "keys": []}|E_UNTRUSTED|has no key for
{"prefix": "oci:$site", "catalog": "required"}|E_UNSIGNED|was in no catalogue, but the policy for 'oci:$site' requires one
{"prefix": "oci:/elsewhere", "keys": ["ours"]}|E_UNTRUSTED|has no key for
{"prefix": "oci:$site", "keys": ["ours"]}|0|
EOF
}

@test "accepted unsigned, until the policy for that repository requires a signature" {
  mkdir -p "$ROOT/etc/kmodsmith/trust"
  policy "{\"prefix\": \"oci:$site\", \"unsigned\": \"accept\"}"
  install --from "oci:$site"
  assert_status 0
  kmodsmith "store ls"
  assert_line --regexp ' accepted unsigned$'
  kmodsmith unload
  install
  assert_status 0
  kmodsmith unload
  policy "{\"prefix\": \"oci:$site\"}"
  trusts theirs
  install
  assert_error E_UNSIGNED "${digest:0:19}..."
}

@test "a store of an older version: signatures are checked whatever the source was, and none means by hand, once" {
  fetched
  local store=$ROOT/var/lib/kmodsmith/store
  forget() { # the records, which an older version did not write
    jq -c '.manifests |= map(select(.artifactType != "application/vnd.kmodsmith.provenance.v1+json"))' \
      "$store/index.json" >"$store/index.new" && mv "$store/index.new" "$store/index.json"
  }
  forget
  vouched .origin unknown
  policy "{\"prefix\": \"docker://registry.example/drivers\", \"keys\": [\"ours\"]}"
  vouched .trusted true
  install
  assert_status 0
  kmodsmith unload
  kmodsmith "trust remove" ours
  assert_line "no longer trusted: $V-open-6.1.0-56-cloud-amd64-x86_64 $digest"
  install
  assert_error E_UNTRUSTED "${digest:0:19}..."
  policy '{"prefix": "oci:", "unsigned": "accept"}' # of a known source only
  install
  assert_error E_UNTRUSTED "${digest:0:19}..."
  rm -r "$ROOT/var/lib/kmodsmith" "$ROOT/etc/kmodsmith/trust"
  tiny_package "$site" 6.1.0-56-cloud-amd64
  kmodsmith install --package "$site" --modules nvidia,nvidia-uvm
  kmodsmith unload
  forget
  kmodsmith plan --driver "$V"
  assert_status 0
  run grep -c provenance "$store/index.json"
  assert_output 0
  install
  assert_status 0
  "$KMODSMITH" sign "oci:$store" --key "$keys/ours.key" # later, by whomever: it was handed over all the same
  vouched .origin by-hand
  vouched .trusted true
}

@test "the record follows its package: collected with it, kept with it, found again by verify" {
  fetched
  local store=$ROOT/var/lib/kmodsmith/store
  kmodsmith "store gc"
  vouched .origin fetched
  echo '<html>' >"$store/index.json"
  kmodsmith "store verify"
  assert_status 1
  vouched .origin fetched
  vouched .source "oci:$site"
  rm "$ROOT/var/lib/kmodsmith/roots.json" && rm -r "$ROOT"/lib/modules/*
  echo 6.9-other >"$ROOT/proc/sys/kernel/osrelease"
  kmodsmith "store gc"
  assert_status 0
  assert_equal "$(ls -A "$store/blobs/sha256")" ""
}
