#!/usr/bin/env bats
# shellcheck disable=SC2154,SC2016 # bats sets output; quotes around the marks of a code block
# SPDX-License-Identifier: Apache-2.0
# precompiled/SPEC.md: its example checks a signed package with other people's tools, and finds what is wrong with one.
load helper
load package

setup() {
  cd "$BATS_TEST_TMPDIR" || return 1
  sed -n '/^```sh$/,/^```$/{//!p}' "$top/precompiled/SPEC.md" >example
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out release.key 2>/dev/null
  openssl pkey -in release.key -pubout -out release.pem
  tiny_package drivers 6.1.0-56-cloud-amd64
}

@test "the specification's example verifies a package signed in both encodings" {
  kmodsmith sign drivers --key release.key --catalog
  assert_status 0
  run -0 bash example
  assert_equal "$(grep -c ': OK$' <<<"$output")" 6 # three blobs, three modules
  assert_equal "$(grep -c '^Verified OK$' <<<"$output")" 2
}

@test "and rejects one without signatures, with another key, or with another layer" {
  run ! bash example
  openssl genpkey -algorithm ED25519 -out other.key
  kmodsmith sign drivers --key other.key
  run ! bash example
  kmodsmith sign drivers --key release.key
  assert_status 0
  printf x >>"$(blob drivers layer)"
  run ! bash example
  assert_output --partial FAILED
}
