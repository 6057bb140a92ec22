#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# cosign itself: it verifies what kmodsmith signed, and kmodsmith takes what it signed. Built from its Go module.
# shellcheck disable=SC2154 # bats sets status, output and stderr
load helper

setup_file() {
  local lacks=$BATS_FILE_TMPDIR/lacks
  COSIGN=$(kept "$top/scripts/go-program.sh" github.com/sigstore/cosign/v2/cmd/cosign 2>"$lacks") || COSIGN='' LACKS=$(tail -n 1 "$lacks")
  export COSIGN LACKS COSIGN_PASSWORD=
  signed=$BATS_FILE_TMPDIR/signed
  digest=$(make_layout "$signed")
  export signed digest
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$BATS_FILE_TMPDIR/site.key" 2>/dev/null
  openssl pkey -in "$BATS_FILE_TMPDIR/site.key" -pubout -out "$BATS_FILE_TMPDIR/site.pem"
  registry_start plain
}
teardown_file() { servers_stop; }
setup() {
  [ -n "$COSIGN" ] || skip "no cosign: $LACKS"
  fresh
  cd "$BATS_TEST_TMPDIR" || return
}
verify() { # NAME KEY
  "$COSIGN" trusted-root create --out root.json # of no transparency log
  run --separate-stderr "$COSIGN" verify --key "$2" --insecure-ignore-tlog --private-infrastructure --allow-http-registry \
    --new-bundle-format --trusted-root root.json "$HUB_PLAIN/$1@$digest"
}
push() { # FROM NAME
  kmodsmith push "oci:$1" "docker+http://$HUB_PLAIN/$2"
  assert_status 0
}
taken() { # NAME KEY: by a node that trusts the key
  kmodsmith trust add "$2" --trust-dir "$PWD/trust"
  kmodsmith fetch --driver "$DRIVER" --flavour open --kernel "$KERNEL" --from "docker+http://$HUB_PLAIN/$1" --state-dir "$state" \
    --trust-dir "$PWD/trust" --connect-timeout 10 --stall-timeout 10
}

@test "cosign verifies what kmodsmith signed, and nothing by another key" {
  cp -r "$signed" ours
  kmodsmith sign oci:ours --key "$BATS_FILE_TMPDIR/site.key"
  push ours ours
  verify ours "$BATS_FILE_TMPDIR/site.pem"
  assert_status 0
  assert_equal "$(jq -r '.[0].critical.image["docker-manifest-digest"]' <<<"$output")" "$digest"
  "$COSIGN" generate-key-pair
  verify ours cosign.pub
  assert_not_equal "$status" 0
}

@test "kmodsmith takes what cosign signed, in each of its encodings, and refuses it unsigned" {
  local name options
  "$COSIGN" generate-key-pair
  for name in older newer; do
    options=(--new-bundle-format=false)
    [ $name = older ] || options=(--new-bundle-format --use-signing-config=false)
    push "$signed" $name
    fresh
    taken $name cosign.pub
    assert_refused E_UNSIGNED
    run -0 "$COSIGN" sign --key cosign.key --tlog-upload=false --allow-http-registry -y "${options[@]}" "$HUB_PLAIN/$name@$digest"
    taken $name cosign.pub
    assert_fetched "$digest"
  done
}
