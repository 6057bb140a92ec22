#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What a release publishes (scripts/artifacts.sh), made twice from this commit: the same bytes, signatures that openssl and kmodsmith
# verify by the commands of the pages, and a chart that helm pulls from a registry. Of the images the runtime, for speed.
# shellcheck disable=SC2030,SC2031,SC2153,SC2154 # bats runs each test in a subshell, sets status, output and stderr
load ../cli/helper
load ../services/servers

setup_file() {
  [ "$(id -u)" -eq 0 ] || return 0
  export release=$BATS_FILE_TMPDIR/release again=$BATS_FILE_TMPDIR/again compiler=gcc
  ! type -P ccache >/dev/null || compiler="ccache gcc"
  cd "$BATS_FILE_TMPDIR" || return
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out release.key 2>/dev/null
  openssl pkey -in release.key -pubout -out release.pem
  CC=$compiler CCACHE_NOHASHDIR=1 kept "$top/scripts/artifacts.sh" --key release.key "$release" runtime >&2
  mkdir -p some/where
  (umask 077 && git clone -q "$top" some/where/else && cd some/where/else && git checkout -q --detach "$(git -C "$top" rev-parse HEAD)" &&
    TZ=Asia/Tokyo LC_ALL=C CC=gcc kept scripts/artifacts.sh "$again" runtime >"$BATS_FILE_TMPDIR/unsigned" 2>&1)
  registry_start plain
}
teardown_file() { servers_stop; }
setup() {
  [ "$(id -u)" -eq 0 ] || skip "only root can make images"
  version=$(sed -n 's/^VERSION := //p' "$top/Makefile")
}
commands() { # PAGE NAME: run those below this mark of a page in a copy of the release, for this version and the test's registry
  [ -d here ] || cp -a "$release" here
  cd here || return
  cp "$BATS_FILE_TMPDIR/release.pem" .
  awk -v mark="<!-- test: $2 -->" '$0 == mark { on = 1; next } on && !/^    / { exit } on { print substr($0, 5) }' "$top/docs/$1.md" |
    sed "s/VERSION/$version/g; s/ARCH/$(uname -m)/g; s#docker://registry.example#docker+http://$HUB_PLAIN#
      s#kmodsmith \(push\|trust\|bundle\)#$KMODSMITH \1#; s#helm pull oci://registry.example#$HELM pull --plain-http oci://$HUB_PLAIN#" >commands
  [ -s commands ]
  run --separate-stderr bash -euo pipefail commands
  cd ..
}

@test "the same commit gives the same bytes, in another place, by another umask, locale and time zone" {
  run -0 diff "$release/SHA256SUMS" "$again/SHA256SUMS"
  run -0 grep -x 'artifacts: no --key, nothing is signed' "$BATS_FILE_TMPDIR/unsigned"
  run -0 ls "$again"
  assert_output "$(printf '%s\n' SHA256SUMS "kmodsmith-$version."{tgz,"$(uname -m)".{rpm,tar.gz}} "kmodsmith-chart-$version.oci.tar" \
    "kmodsmith-program-$version.$(uname -m).spdx.json" "kmodsmith-runtime-$version.$(uname -m)".{oci.tar,spdx.json} \
    "kmodsmith_${version}_$(dpkg --print-architecture).deb" provenance.json | LC_ALL=C sort)"
}
@test "a download is verified by the commands of the page, and a changed one is not" {
  cd "$BATS_TEST_TMPDIR" || return
  commands trust download
  assert_success
  assert_line "Signature Verified Successfully"
  commands trust image
  assert_success
  assert_output --partial "signed by kmodsmith"
  echo >>"here/kmodsmith-$version.tgz"
  commands trust download
  assert_failure
  assert_line "kmodsmith-$version.tgz: FAILED"
  sed -i s/0/1/ here/SHA256SUMS
  commands trust download
  assert_failure
  assert_output "Signature Verification Failure"
  cp "$release/kmodsmith-runtime-$version.$(uname -m).oci.tar" here/signed/
  rm -r here/release-keys
  commands trust image
  assert_failure
}
@test "pushed by the commands of the page, the image has its signature, and helm pulls the chart that is published" {
  HELM=$(kept "$top/scripts/go-program.sh" helm.sh/helm/v3/cmd/helm 2>"$BATS_TEST_TMPDIR/lacking") || skip "there is no helm: $(tail -n 1 "$BATS_TEST_TMPDIR/lacking")"
  local digest
  cd "$BATS_TEST_TMPDIR" || return
  commands releasing publish
  assert_success
  run -0 cmp "here/kmodsmith-$version.tgz" "$release/kmodsmith-$version.tgz"
  digest=$(tar -xOf "$release/kmodsmith-runtime-$version.$(uname -m).oci.tar" index.json | jq -r '.manifests[0].digest')
  run -0 skopeo inspect --tls-verify=false --format '{{.Digest}}' "docker://$HUB_PLAIN/kmodsmith-runtime:$version"
  assert_output "$digest"
  run -0 skopeo inspect --raw --tls-verify=false "docker://$HUB_PLAIN/kmodsmith-runtime:${digest/:/-}.sig"
  run -0 "$HELM" show chart "$release/kmodsmith-$version.tgz"
  assert_line "version: $version"
  run -0 skopeo copy -q --dest-tls-verify=false "oci-archive:$release/kmodsmith-chart-$version.oci.tar" "docker://$HUB_PLAIN/unsigned/kmodsmith:$version"
  run -0 "$HELM" pull --plain-http "oci://$HUB_PLAIN/unsigned/kmodsmith" --version "$version" --untar
}
@test "the provenance names the commit, every file and every image, and no path" {
  local statement=$release/provenance.json
  run -0 jq -r '.predicate.buildDefinition.resolvedDependencies[0].digest.gitCommit' "$statement"
  assert_output "$(git -C "$top" rev-parse HEAD)"
  run -0 jq -r '.subject[] | select(.name | test("[.]")) | .digest.sha256 + "  " + .name' "$statement"
  assert_output "$(grep -v ' provenance.json$' "$release/SHA256SUMS")"
  run -0 jq -r '.subject[] | select(.name == "kmodsmith-runtime").digest.sha256' "$statement"
  assert_output "$(tar -xOf "$release/kmodsmith-runtime-$version.$(uname -m).oci.tar" index.json | jq -r '.manifests[0].digest[7:]')"
  run -0 jq -r '.predicate.buildDefinition.resolvedDependencies[].uri' "$statement"
  assert_line --regexp '^pkg:deb/debian/gcc@[^?]+\?arch='
  run grep -F -e "$BATS_FILE_TMPDIR" -e "$top" "$statement"
  assert_output ""
}
@test "the bill of materials of the static program names the libraries that are in it" {
  run -0 jq -r '.packages[] | "\(.name) \(.primaryPackagePurpose)"' "$release/kmodsmith-program-$version.$(uname -m).spdx.json"
  assert_line "kmodsmith-program APPLICATION"
  assert_line "libssl-dev null"
}
@test "a folder that is there, an image that there is not and a key that cannot sign are refused at once" {
  run "$top/scripts/artifacts.sh" "$BATS_TEST_TMPDIR"
  assert_failure
  assert_output "artifacts: '$BATS_TEST_TMPDIR' is there already"
  run "$top/scripts/artifacts.sh" "$BATS_TEST_TMPDIR/x" none
  assert_failure
  assert_output --partial "there is no image 'none'"
  run "$top/scripts/artifacts.sh" --key "$BATS_FILE_TMPDIR/release.pem" "$BATS_TEST_TMPDIR/x"
  assert_failure
  assert_output --partial "'$BATS_FILE_TMPDIR/release.pem' is no private key"
  run "$top/scripts/artifacts.sh" --key
  assert_failure
}
