#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What the images say that they are made of: the document is SPDX 2.3, and it is complete.
# shellcheck disable=SC2016,SC2030,SC2031,SC2154 # the variables of jq; bats runs each test in a subshell, sets status, output
load helper

sbom() { jq -r "${@:2}" "$images/$1/root/$SBOM"; } # NAME FILTER

@test "each document has the fields that SPDX 2.3 demands, and no reference into the void" {
  local name
  for name in runtime builder driver; do
    run sbom "$name" '.spdxVersion, .dataLicense, .SPDXID'
    assert_output $'SPDX-2.3\nCC0-1.0\nSPDXRef-DOCUMENT'
    run sbom "$name" -e '(.documentNamespace | startswith("urn:uuid:"))
      and (.creationInfo.created | test("^[0-9-]{10}T[0-9:]{8}Z$")) and (.creationInfo.creators | length > 0)
      and all(.packages[]; .name and .versionInfo and .downloadLocation and .licenseConcluded and .licenseDeclared and .copyrightText)
      and all(.packages[]; .filesAnalyzed == has("packageVerificationCode"))
      and all(.files[]; .fileName[:2] == "./" and ([.checksums[].algorithm] == ["SHA1", "SHA256"]))'
    assert_success
    run sbom "$name" -e '[.SPDXID, (.packages[], .files[]).SPDXID] as $ids | ($ids | length) == ($ids | unique | length)
      and all($ids[]; test("^SPDXRef-[A-Za-z0-9.-]+$"))
      and ([.relationships[] | .spdxElementId, .relatedSpdxElement] - $ids == [])
      and ([.packages[].licenseDeclared | scan("LicenseRef-[A-Za-z0-9.-]+")] - [.hasExtractedLicensingInfos[].licenseId] == [])'
    assert_success
  done
}
@test "every file of the runtime and of the driver is in the document, with its digest, and in one package" {
  local name
  for name in runtime driver; do
    (cd "$images/$name/root" && find . -type f ! -path "./$SBOM" -print0 | xargs -0 sha256sum) | awk '{ print $2, $1 }' | sort >"$BATS_TEST_TMPDIR/there"
    sbom "$name" '.files[] | .fileName + " " + (.checksums[] | select(.algorithm == "SHA256").checksumValue)' | sort >"$BATS_TEST_TMPDIR/told"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/there")" -gt 50 ]
    run diff "$BATS_TEST_TMPDIR/there" "$BATS_TEST_TMPDIR/told"
    assert_success
    run sbom "$name" -e '[.relationships[] | select(.relationshipType == "CONTAINS").relatedSpdxElement | select(startswith("SPDXRef-file-"))]
      | length == (unique | length) and length > 0'
    assert_success
    assert_equal "$(sbom "$name" '[.relationships[].relatedSpdxElement] - [.packages[].SPDXID] | length')" "$(sbom "$name" '.files | length')"
  done
}
@test "what is of no package is ours, and nothing else" {
  run sbom runtime '[.relationships[] | select(.spdxElementId == "SPDXRef-image").relatedSpdxElement] as $ours
    | .files[] | select(.SPDXID as $id | $ours | any(. == $id)).fileName'
  assert_success
  assert_line ./usr/bin/kmodsmith
  assert_line ./usr/libexec/kmodsmith
  # the rest: accounts, and the stand-ins for libraries that are not there
  local ours='usr/(bin|libexec)/kmodsmith|etc/(passwd|group|nsswitch.conf)|usr/share/(kmodsmith/licences.txt|doc/kmodsmith/copyright)'
  run grep -vxE "./($ours|usr/lib/[a-z0-9_-]+/lib(rtmp|ldap(-2.5)?|lber(-2.5)?|gssapi_krb5|psl|ssh2|idn2|gnutls)\\.so\\.[0-9]+)" <<<"$output"
  assert_output ""
}
@test "every Debian package has its version, the digest of its .deb where it was unpacked here, and its copyright text" {
  local name package
  run sbom runtime -e '[.packages[] | select(.SPDXID | startswith("SPDXRef-deb-"))] | length > 15
    and all(.[]; .externalRefs[0].referenceLocator | startswith("pkg:deb/debian/"))'
  assert_success
  run sbom runtime '.packages[] | select(.SPDXID | startswith("SPDXRef-deb-")) | select(.checksums == null).name'
  assert_output ""
  for name in runtime builder driver; do
    for package in $(sbom "$name" '.packages[] | select(.SPDXID | startswith("SPDXRef-deb-")).name'); do
      [ -s "$images/$name/root/usr/share/doc/$package/copyright" ] || fail "$name: no copyright text of $package"
      grep -q "^$package " "$images/$name/root/usr/share/kmodsmith/licences.txt" || fail "$name: no licence line of $package"
    done
  done
}
@test "what is linked into our programs is told, of this machine's versions" {
  run sbom runtime '[.relationships[] | select(.relationshipType == "STATIC_LINK").relatedSpdxElement] as $linked
    | .packages[] | select(.SPDXID as $id | $linked | any(. == $id)) | .name + " " + .versionInfo'
  assert_success
  assert_line "libarchive-dev $(dpkg-query -W -f '${Version}' libarchive-dev)"
  assert_line "libssl-dev $(dpkg-query -W -f '${Version}' libssl-dev)"
}
@test "a digest in the document is that of the .deb" {
  local deb
  deb=$(tr ' ' '\n' <"$images/base/root.key" | grep '/bash_')
  assert_equal "$(sbom runtime '.packages[] | select(.name == "bash").checksums[0].checksumValue')" "$(sha256sum "$deb" | cut -d' ' -f1)"
}
@test "the builder's document has every package that was unpacked, and every file is of one" {
  local list
  list=$images/builder/root/var/lib/dpkg/info
  run diff <(basename -s .list -a "$list"/*.list | sort) \
    <(sbom builder '.packages[] | select(.SPDXID | startswith("SPDXRef-deb-")).name' | sort)
  refute_output --partial '<'
  { cat "$list"/*.list; files_of runtime; sbom builder '.files[].fileName[2:]'; } | sort -u >"$BATS_TEST_TMPDIR/known"
  files_of builder | grep -vE "^var/lib/dpkg/|^usr/share/doc/[^/]+/copyright\$|^$SBOM\$" >"$BATS_TEST_TMPDIR/there"
  run comm -23 "$BATS_TEST_TMPDIR/there" "$BATS_TEST_TMPDIR/known"
  assert_output ""
}
@test "the driver's document tells of which packages the payload was made" {
  local file
  for file in $DRIVER_FILES; do
    assert_equal "$(sbom driver --arg n "$(dpkg-deb -f "$file" Package)" '[.packages[] | select(.name == $n).checksums[0].checksumValue] | last')" \
      "$(sha256sum "$file" | cut -d' ' -f1)"
  done
  run sbom driver '.relationships[] | select(.spdxElementId == "SPDXRef-input-nvidia-smi" and .relationshipType == "CONTAINS").relatedSpdxElement'
  assert_success
  refute_output ""
}
@test "the licence of a .run stays with what was laid out from it, in words and in the document" {
  local root=$BATS_TEST_TMPDIR/root
  local payload=$root/usr/share/kmodsmith/payload/root
  mkdir -p "$payload/usr/share/doc/NVIDIA_GLX-1.0" "$payload/usr/bin"
  echo "License For Customer Use" >"$payload/usr/share/doc/NVIDIA_GLX-1.0/LICENSE"
  echo program | tee "$payload/usr/bin/nvidia-smi" >"$BATS_TEST_TMPDIR/driver.run"
  python3 "$top/images/sbom.py" "$root" --name driver --version 1 --epoch 1 --driver 1.2 --input "$BATS_TEST_TMPDIR/driver.run"
  run cat "$root/usr/share/doc/nvidia-driver-payload/copyright"
  assert_output "License For Customer Use"
  run cat "$root/usr/share/kmodsmith/licences.txt"
  assert_line "nvidia-driver-payload 1.2: NVIDIA's licence"
  run jq -r '(.packages[] | select(.name == "nvidia-driver-payload").licenseDeclared) as $l
    | .hasExtractedLicensingInfos[] | select(.licenseId == $l).extractedText' "$root/$SBOM"
  assert_output --partial "License For Customer Use"
}
