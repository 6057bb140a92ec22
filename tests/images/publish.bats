#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# made up: the versions and kernels that tags are made of.
# The tags under which the operator asks for an image, and one image under all of them in a real registry.
# shellcheck disable=SC2030,SC2031,SC2154 # bats runs each test in a subshell, sets status, output and stderr
load helper
load ../services/servers

setup_file() { registry_start plain; }
teardown_file() { servers_stop; }
setup() { cd "$top" || return; }
tags() { run --separate-stderr scripts/images.sh tags "$@"; }
push() { run --separate-stderr scripts/images.sh push "$images/runtime/oci.tar" "$@"; }

@test "a tag for each operating system, the major number alone for rhel, rocky and ol" {
  tags --driver 535.261.03 --os ubuntu22.04,ubuntu24.04,rhel9.4,rhel9,rocky8.10,ol9.1,rhcos4.18,sles15.6
  assert_success
  assert_output "$(printf '535.261.03-%s\n' ubuntu22.04 ubuntu24.04 rhel9 rocky8 ol9 rhcos4.18 sles15.6)"
  tags --driver 535.261.03 --os sl-micro6.0,opensuse-leap15.6,debian12,amzn2023,flatcar4081.2.0,almalinux9.4,olympus1.2
  assert_success
  assert_output "$(printf '535.261.03-%s\n' sl-micro6.0 opensuse-leap15.6 debian12 amzn2023 flatcar4081.2.0 almalinux9.4 olympus1.2)"
}
@test "with kernels: branch and version, kernel, operating system; a plus sign becomes an underscore" {
  tags --driver 580.95.05 --os ubuntu24.04,rhcos4.18 --kernel 6.8.0-31-generic,5.14.0-570.el9.x86_64+rt
  assert_success
  assert_output "580.95.05-ubuntu24.04
580-6.8.0-31-generic-ubuntu24.04
580.95.05-6.8.0-31-generic-ubuntu24.04
580-5.14.0-570.el9.x86_64_rt-ubuntu24.04
580.95.05-5.14.0-570.el9.x86_64_rt-ubuntu24.04
580.95.05-rhcos4.18
580-6.8.0-31-generic-rhcos4.18
580.95.05-6.8.0-31-generic-rhcos4.18
580-5.14.0-570.el9.x86_64_rt-rhcos4.18
580.95.05-5.14.0-570.el9.x86_64_rt-rhcos4.18"
}
@test "what is no version, no operating system or no tag is refused" {
  tags --driver 535 --os ubuntu24.04
  assert_failure
  tags --driver 535.261.03 --os "Ubuntu 24.04"
  assert_failure
  tags --driver 535.261.03 --os ubuntu
  assert_failure
  tags --driver 535.261.03 --os -micro6.0
  assert_failure
  tags --driver 535.261.03 --os rhel9 --kernel 'a b/c'
  assert_failure
  tags --driver 535.261.03
  assert_failure
  tags --os
  assert_failure
  assert_regex "$stderr" usage
}
@test "pushed under every tag: each has the digest of the archive, and every blob was sent once" {
  local digest tag uploads
  digest=$(tar -xOf "$images/runtime/oci.tar" index.json | jq -r '.manifests[0].digest')
  tags --driver "$DRIVER" --os ubuntu24.04,rhel9 --kernel 6.8.0-31-generic
  run --separate-stderr scripts/images.sh push "$images/runtime/oci.tar" "docker://$HUB_PLAIN/site/driver" --tags - --plain-http <<<"$output"
  assert_success
  assert_equal "${#lines[@]}" 6
  for tag in "$DRIVER-ubuntu24.04" "$DRIVER-rhel9" "${DRIVER%%.*}-6.8.0-31-generic-rhel9"; do
    run -0 skopeo inspect --tls-verify=false --format '{{.Digest}}' "docker://$HUB_PLAIN/site/driver:$tag"
    assert_output "$digest"
  done
  uploads=$(log_of registry-plain | grep -c 'http.request.method=PUT.*/blobs/uploads/.*http.response.status=201' || true)
  assert_equal "$uploads" 2 # a layer and the configuration
}
@test "no image, no repository, no registry: refused, and the reason told" {
  push "docker://$HUB_PLAIN/site/x" --plain-http
  assert_failure
  push "$HUB_PLAIN/site/x" --tags a
  assert_failure
  assert_regex "$stderr" 'no docker://REPOSITORY'
  push docker://127.0.0.1:1/x --tags a --plain-http
  assert_failure
  assert_regex "$stderr" '127.0.0.1:1'
  run --separate-stderr scripts/images.sh push "$BATS_TEST_FILENAME" "docker://$HUB_PLAIN/site/x" --tags a
  assert_failure
  assert_regex "$stderr" 'is no image'
}
