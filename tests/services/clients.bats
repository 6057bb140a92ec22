#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Other programs and ours, in both directions: what skopeo moved is fetched, what we pushed skopeo moves and buildah
# mounts, and the digest never changes.
# shellcheck disable=SC2030,SC2031,SC2154 # bats runs each test in a subshell, sets status, output and stderr
load helper

setup_file() {
  layout=$BATS_FILE_TMPDIR/layout
  digest=$(make_layout "$layout" --pad 1000000)
  export layout digest
  registry_start plain
}
teardown_file() { servers_stop; }
setup() {
  fresh
  cd "$BATS_TEST_TMPDIR" || return
}
copy() { run -0 skopeo --insecure-policy copy -q --preserve-digests --src-tls-verify=false --dest-tls-verify=false "$@"; }

@test "pushed by us, moved by skopeo through registry, layout and archive, fetched by us from each" {
  kmodsmith push "oci:$layout" "docker+http://$HUB_PLAIN/ours"
  assert_status 0
  copy "docker://$HUB_PLAIN/ours:$TAG" "oci:copy:$TAG"
  assert_equal "$(jq -r '.manifests[0].digest' copy/index.json)" "$digest"
  copy "oci:copy:$TAG" "oci-archive:copy.tar:$TAG"
  copy "oci-archive:copy.tar:$TAG" "docker://$HUB_PLAIN/theirs:$TAG"
  local from
  for from in oci:copy oci-archive:copy.tar "docker+http://$HUB_PLAIN/theirs"; do
    fresh
    fetch "$from"
    assert_fetched "$digest"
  done
}
@test "pushed by skopeo, fetched by us" {
  copy "oci:$layout:$TAG" "docker://$HUB_PLAIN/skopeo:$TAG"
  fetch "docker+http://$HUB_PLAIN/skopeo"
  assert_fetched "$digest"
}
@test "buildah mounts it as an image and shows the modules" {
  [ "$(id -u)" -eq 0 ] || skip "only root can mount"
  kmodsmith push "oci:$layout" "docker+http://$HUB_PLAIN/image"
  assert_status 0
  storage=(--root "$PWD/containers" --runroot "$PWD/run" --storage-driver vfs)
  echo '{"default": [{"type": "insecureAcceptAnything"}]}' >policy.json
  run -0 buildah "${storage[@]}" from --signature-policy policy.json --tls-verify=false --name shown "docker://$HUB_PLAIN/image:$TAG"
  run -0 buildah "${storage[@]}" mount shown
  run -0 ls "$output/opt/lib/modules/$KERNEL"
  assert_line nvidia.ko
  assert_line nvidia-uvm.ko
  buildah "${storage[@]}" umount shown
}
@test "a made package is one that skopeo reads, and sees what kernel it is for" {
  run -0 skopeo --insecure-policy inspect "oci:$layout:$TAG"
  assert_equal "$(jq -r '.Labels["io.kmodsmith.kernel.release"]' <<<"$output")" "$KERNEL"
}
@test "layouts as crane and cosign save them: no tag, or the name of the image in place of one" {
  local rename from
  for rename in 'del(.annotations)' '.annotations["org.opencontainers.image.ref.name"] = "registry.example/drivers:v1"' \
    '.annotations = {kind: "dev.cosignproject.cosign/image"} | del(.artifactType)'; do
    cp -r "$layout" saved
    jq ".manifests[0] |= ($rename)" "$layout/index.json" >saved/index.json
    tar -cf saved.tar -C saved .
    for from in oci:saved oci-archive:saved.tar; do
      fresh
      fetch "$from"
      assert_fetched "$digest"
      fresh
      fetch "$from" --kernel 6.1.0-1-amd64
      assert_refused E_NO_PACKAGE "kernel release is $KERNEL, wanted 6.1.0-1-amd64"
    done
    kmodsmith check --package oci:saved --kernel "$KERNEL"
    assert_output --partial "compared with"
    rm -r saved
  done
}
