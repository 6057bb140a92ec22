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
  assert_equal "$uploads" 4 # a layer and the configuration, the bill of materials and its empty one
}
bills() { # DIGEST: what refers to that image in site/NAME, and is a bill of materials
  skopeo inspect --raw --tls-verify=false "docker://$HUB_PLAIN/site/$1:${2/:/-}" | jq -r '.manifests[] | select(.artifactType == "application/spdx+json").digest'
}
@test "the bill of materials that is in an image refers to it, once, beside what others attached" {
  local digest bill layer
  for _ in 1 2; do
    run -0 --separate-stderr scripts/images.sh push "$images/runtime/oci.tar" "docker://$HUB_PLAIN/site/billed" --tags one --plain-http
    assert_equal "$stderr" ""
  done
  digest=$(tar -xOf "$images/runtime/oci.tar" index.json | jq -r '.manifests[0].digest')
  bill=$(bills billed "$digest")
  assert_equal "$(wc -w <<<"$bill")" 1
  run -0 curl -sS -H "Accept: application/vnd.oci.image.manifest.v1+json" "http://$HUB_PLAIN/v2/site/billed/manifests/$bill"
  assert_equal "$(jq -r .subject.digest <<<"$output")" "$digest"
  layer=$(jq -r '.layers[0].digest' <<<"$output")
  run -0 cmp <(curl -sS "http://$HUB_PLAIN/v2/site/billed/blobs/$layer") "$images/runtime/root/$SBOM"
}
@test "images of two architectures are one tag, of which each machine gets its own" {
  local arm=$BATS_TEST_TMPDIR/arm64.tar both=$BATS_TEST_TMPDIR/both.tar path=$BATS_TEST_TMPDIR/bin where=docker://$HUB_PLAIN/site/both arch
  mkdir "$path"
  printf '#!/bin/sh\necho arm64\n' >"$path/dpkg" # as a machine of that kind would call it
  chmod +x "$path/dpkg"
  PATH=$path:$PATH images/oci.sh runtime "$(<"$images/runtime/root.epoch")" "$arm" "$images/runtime/layer.tar" made=there
  run -0 scripts/images.sh index "$both" "$images/runtime/oci.tar" "$arm"
  run -0 scripts/images.sh index "$both.again" "$images/runtime/oci.tar" "$arm"
  run -0 cmp "$both" "$both.again"
  run -0 --separate-stderr scripts/images.sh push "$both" "$where" --tags one,two --plain-http
  assert_equal "${#lines[@]}" 2
  for arch in amd64 arm64; do
    run -0 skopeo --override-arch "$arch" inspect --config --tls-verify=false "$where:two"
    assert_equal "$(jq -r .architecture <<<"$output")" "$arch"
  done
  assert_equal "$(jq -r '.config.Env[0]' <<<"$output")" made=there
  run -0 skopeo inspect --raw --tls-verify=false "$where:one"
  assert_equal "$(jq -r '[.manifests[].platform | "\(.os)/\(.architecture)"] | join(" ")' <<<"$output")" "linux/amd64 linux/arm64"
  for arch in $(jq -r '.manifests[].digest' <<<"$output"); do assert [ -n "$(bills both "$arch")" ]; done
  run --separate-stderr scripts/images.sh index "$both.third" "$arm" "$images/runtime/oci.tar" "$arm"
  assert_failure
  assert_equal "$stderr" "images: more than one of these images is for linux/arm64"
  run --separate-stderr scripts/images.sh index "$arm" "$images/runtime/oci.tar" "$arm"
  assert_failure
  assert_regex "$stderr" 'is there already'
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

site() { # OPTION...: all that a cluster of one kernel and two systems needs; the driver of one file, compiled by this machine's gcc
  # shellcheck disable=SC2086 # a list of files
  run --separate-stderr env KMODSMITH_CACHE="$own_cache" IMAGES_OUT="$BATS_TEST_TMPDIR/out" deploy/publish.sh --driver "$DRIVER" --repository "docker+http://$HUB_PLAIN/whole" \
    --key "$BATS_TEST_TMPDIR/site.key" --nodes "$BATS_TEST_TMPDIR/nodes.json" --headers "$BATS_TEST_TMPDIR/headers" \
    --source tests/vm/driver --output "$BATS_TEST_TMPDIR/publish" "$@" $DRIVER_FILES
}
@test "deploy/publish.sh: all that a cluster needs, from one plan; a second run makes only what is new" {
  [ "$(id -u)" -eq 0 ] || skip "only root can make images"
  local file nodes=$BATS_TEST_TMPDIR/nodes.json os=feature.node.kubernetes.io/system-os_release
  eval "$(kept scripts/inputs.sh | grep -E '^K61(_HEADERS)?=')"
  mkdir -p "$BATS_TEST_TMPDIR/headers/$K61" "$BATS_TEST_TMPDIR/out"
  for file in $K61_HEADERS; do cp "$file" "$BATS_TEST_TMPDIR/headers/$K61"; done
  cp -al "$images"/{base,runtime,builder} "$BATS_TEST_TMPDIR/out"
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$BATS_TEST_TMPDIR/site.key" 2>/dev/null
  jq -n --arg kernel "$K61" --arg os "$os" '{items: [["a", "ubuntu", "24.04"], ["b", "sl-micro", "6.0"] | {metadata: {name: .[0],
    labels: {"nvidia.com/gpu.present": "true", ($os + ".ID"): .[1], ($os + ".VERSION_ID"): .[2]}},
    status: {nodeInfo: {kernelVersion: $kernel, architecture: "amd64"}}}]}' >"$nodes"

  site --dry-run
  assert_success
  assert_line "driver $DRIVER for 1 kernels and sl-micro6.0,ubuntu24.04, to docker+http://$HUB_PLAIN/whole"
  assert_line "  pack     headers of $K61"
  assert_line --regexp "^  compile  modules of [0-9.]+ proprietary for ${K61//+/\\+}\$"
  assert_line --regexp "^  pack     user space of $DRIVER"
  assert_line "             $DRIVER-sl-micro6.0"
  [ ! -e "$BATS_TEST_TMPDIR/publish/packages/index.json" ] || assert_equal "$(jq '.manifests | length' "$BATS_TEST_TMPDIR/publish/packages/index.json")" 0
  site </dev/null
  assert_failure
  assert_regex "$stderr" 'nothing was done'

  site --yes
  assert_success
  run -0 skopeo list-tags --tls-verify=false "docker://$HUB_PLAIN/whole"
  for file in "headers-${K61//+/_}-x86_64" "payload-$DRIVER-x86_64" builder-x86_64 kmodsmith-catalog; do
    assert_output --partial "\"$file"
  done
  run -0 skopeo inspect --tls-verify=false --config "docker://$HUB_PLAIN/whole/kmodsmith-driver:$DRIVER-sl-micro6.0"
  assert_output --partial "KMODSMITH_BUILDER=docker+http://$HUB_PLAIN/whole@sha256:"
  assert_equal "$(jq .built "$BATS_TEST_TMPDIR/publish/result.json")" 1
  mkdir "$BATS_TEST_TMPDIR/trust"
  python3 -c 'import sys, yaml; print(yaml.safe_load(open(sys.argv[1]))["data"]["site.pem"])' "$BATS_TEST_TMPDIR/publish/trust.yaml" \
    >"$BATS_TEST_TMPDIR/trust/site.pem"
  run -0 python3 -c 'import sys, yaml; d = yaml.safe_load(open(sys.argv[1]))["driver"]; print(d["repository"], d["version"],
    d["manager"]["version"], d["env"][0]["value"])' "$BATS_TEST_TMPDIR/publish/values.yaml"
  assert_output "$HUB_PLAIN/whole $DRIVER $DRIVER-sl-micro6.0 docker+http://$HUB_PLAIN/whole"
  run -0 "$KMODSMITH" fetch --from "docker+http://$HUB_PLAIN/whole" --trust-dir "$BATS_TEST_TMPDIR/trust" --kernel "$K61" \
    --output "oci:$BATS_TEST_TMPDIR/node" --state-dir "$BATS_TEST_TMPDIR/node-state"

  site --yes
  assert_success
  assert_line "  there    headers of $K61"
  assert_line --regexp "^  there    modules of [0-9.]+ proprietary for ${K61//+/\\+}\$"
  assert_line "  there    user space of $DRIVER"
  assert_equal "$(jq '"\(.built) \(.there)"' -r "$BATS_TEST_TMPDIR/publish/result.json")" "0 1"
  refute_regex "$stderr" 'images: making'
}
@test "deploy/publish.sh: what is missing or no driver, cluster or key is refused before anything is made" {
  local words
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$BATS_TEST_TMPDIR/site.key" 2>/dev/null
  echo '{"items": [{"metadata": {"name": "bare"}, "status": {"nodeInfo": {"kernelVersion": "6.1.0", "architecture": "amd64"}}}]}' \
    >"$BATS_TEST_TMPDIR/nodes.json"
  while IFS='|' read -r words text; do
    # shellcheck disable=SC2086 # several words
    run --separate-stderr deploy/publish.sh --output "$BATS_TEST_TMPDIR/publish" --key "$BATS_TEST_TMPDIR/site.key" $words </dev/null
    assert_failure
    assert_regex "$stderr" "$text"
    [ ! -e "$BATS_TEST_TMPDIR/publish/packages" ]
  done <<EOF
--driver 535 --repository docker://h/n LICENSE|'535' is not a version
--driver 535.1.1 --repository h/n LICENSE|'h/n' is not docker
--driver 535.1.1 --repository docker://h/n|no FILE
--driver 535.1.1 --repository docker://h/n none|no file 'none'
--driver 535.1.1 --repository docker://h/n LICENSE|no kernel or no system
--driver 535.1.1 --repository docker://h/n --nodes $BATS_TEST_TMPDIR/nodes.json LICENSE|node bare has no labels
--driver 535.1.1 --repository docker://h/n --nodes LICENSE LICENSE|is not the output of kubectl
--driver 535.1.1 --repository docker://h/n --kernels ../x --os rhel9 LICENSE|cannot be a tag
--driver 535.1.1 --repository docker://h/n --kernels 6.1.0 --os Rhel LICENSE|no operating system
--driver 535.1.1 --force|no option '--force'
EOF
}
