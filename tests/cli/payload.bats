#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# pack payload: how a driver's user space is laid out (R-I3), and --payload, which brings it with an image. Debian's real
# packages and what runs after a chroot: tests/vm/37-export.
# shellcheck disable=SC2154 # bats and helper.bash set stderr, top and ROOT
load helper
load package

V=535.261.03
setup() {
  dir=$BATS_TEST_TMPDIR/carried
  state=$BATS_TEST_TMPDIR/state
  tiny_payload "$BATS_TEST_TMPDIR/payload.tar" "$V"
}
pack() { kmodsmith "pack payload" "$@" --driver "$V" --arch x86_64 --state-dir "$state"; }
base() { # a root file system of one program, as a tar
  local work=$BATS_TEST_TMPDIR/base
  mkdir -p "$work/usr/bin" "$work/etc" "$work/tmp"
  echo shell >"$work/usr/bin/sh"
  ln -sfn /usr/bin "$work/bin"
  tar -cf "$BATS_TEST_TMPDIR/base.tar" -C "$work" .
}
digest() { jq -r .digest "$dir/payload.json"; }

@test "pack payload: on a base, as a directory with a manifest" {
  base
  pack "$BATS_TEST_TMPDIR/payload.tar" --base "$BATS_TEST_TMPDIR/base.tar" --output "dir:$dir" --json
  assert_status 0
  assert_json '.digest' "sha256:$(digest)"
  assert_equal "$(jq -r '.driver + " " + .arch' "$dir/payload.json")" "$V x86_64"
  assert_equal "$(cat "$dir/root/bin/sh")" shell
  assert_equal "$(readlink "$dir/root/bin" "$dir/root/lib" "$dir/root/lib64" | tr '\n' ' ')" "usr/bin usr/lib usr/lib64 "
  assert_equal "$(cat "$dir/root/lib/firmware/nvidia/$V/gsp_ga10x.bin")" gsp
  assert_equal "$(head -c 20 "$dir/root/etc/ld.so.cache")" glibc-ld.so.cache1.1
  assert_dir_exist "$dir/root/tmp"
}

@test "pack payload: the same files give the same digest; the directory is created once, or not at all" {
  pack "$BATS_TEST_TMPDIR/payload.tar" --output "dir:$dir"
  local first
  first=$(digest)
  umask 077 # as another machine may have it
  pack "$BATS_TEST_TMPDIR/payload.tar" --output "dir:$dir.again/"
  assert_status 0
  assert_equal "$(jq -r .digest "$dir.again/payload.json")" "$first"
  pack "$BATS_TEST_TMPDIR/payload.tar" --output "dir:$dir"
  assert_status 0
  base
  pack "$BATS_TEST_TMPDIR/payload.tar" --base "$BATS_TEST_TMPDIR/base.tar" --output "dir:$dir"
  assert_error E_PAYLOAD "holds something else"
  assert_equal "$(digest)" "$first"
  tiny_payload "$BATS_TEST_TMPDIR/new.tar" 550.54.14
  pack "$BATS_TEST_TMPDIR/payload.tar" "$BATS_TEST_TMPDIR/new.tar" --output "dir:$dir.new"
  assert_error E_USAGE "new.tar': "
  assert_not_exist "$dir.new"
  pack "$BATS_TEST_TMPDIR/payload.tar" --output dir:
  assert_error E_USAGE "does not name a directory"
}

@test "pack payload: a file that the base also has, with other content" {
  base
  mkdir -p "$BATS_TEST_TMPDIR/clash/usr/bin"
  echo another >"$BATS_TEST_TMPDIR/clash/usr/bin/sh"
  tar -cf "$BATS_TEST_TMPDIR/clash.tar" -C "$BATS_TEST_TMPDIR/clash" usr
  pack "$BATS_TEST_TMPDIR/clash.tar" --base "$BATS_TEST_TMPDIR/base.tar" --output "dir:$dir"
  assert_error E_PAYLOAD "'usr/bin/sh' is in '$BATS_TEST_TMPDIR/base.tar' and, with different content, in '$BATS_TEST_TMPDIR/clash.tar'"
  assert_not_exist "$dir"
  pack "$BATS_TEST_TMPDIR/payload.tar" --base "$BATS_TEST_TMPDIR/none.tar" --output "dir:$dir"
  assert_error E_NOT_FOUND "--base"
}

@test "pack payload: killed halfway, nothing is there, and the next run cleans up" {
  local n share=$BATS_TEST_TMPDIR/big/usr/share
  local whole=("$KMODSMITH" pack payload "$BATS_TEST_TMPDIR/big.tar" --driver "$V" --arch x86_64 --state-dir "$state" --output "dir:$dir")
  mkdir -p "$share"
  for n in 1 5 10 20; do head -c "${n}000000" /dev/zero >"$share/$n"; done
  (cd "$share/../.." && tar -cf ../big.tar usr/share/{1,5,10,20})
  for n in 500 3000 8000 15000; do # KiB that a file may have: ended by a signal in the first, second, third and last one
    run bash -c 'ulimit -c 0 -f "$1"; shift; exec "$@"' - "$n" "${whole[@]}"
    assert_equal "$status" $((128 + $(kill -l XFSZ)))
    assert_not_exist "$dir"
    run ls "$BATS_TEST_TMPDIR/.tmp" # of this one, and of none before it
    assert_output payload.0
  done
  for n in 0.02 0.05 0.1 0.2; do
    killed_after "$n" "${whole[@]}"
    [ ! -e "$dir" ] || assert_exist "$dir/payload.json"
  done
  rm -rf "$dir" # one that came to its end
  pack "$BATS_TEST_TMPDIR/big.tar" --output "dir:$dir"
  assert_status 0
  assert_equal "$(ls -A "$BATS_TEST_TMPDIR/.tmp")" ""
}

@test "--payload: its driver is the default request, and it is used before any source" {
  loadable
  pack_carried
  kmodsmith plan --payload "$dir" --from "oci:$package" --export /run/nvidia/driver --json --insecure-skip-verify
  assert_status 0
  assert_json .driver "$V"
  assert_json '[.steps[].step] | join(",")' payload,preflight,package,prove,load,nodes,export,verify
  assert_json '.steps[0].subject' "user space $V, $(digest | cut -c1-12)"
  KMODSMITH_PAYLOAD=$dir kmodsmith plan --driver 550.54.14 --no-compile
  assert_error E_NO_PACKAGE
  [[ $stderr == *"the image carries driver $V"* ]] || fail "$stderr"
}
pack_carried() {
  package=$BATS_TEST_TMPDIR/package
  ROOT='' pack "$BATS_TEST_TMPDIR/payload.tar" --output "dir:$dir"
  assert_status 0
}
copied() { echo "$ROOT/var/lib/kmodsmith/payloads/$(digest)"; }

@test "--payload: copied once, with hard links; then only its manifest is opened" {
  loadable
  mkdir -p "$BATS_TEST_TMPDIR/twins/usr/bin"
  echo box >"$BATS_TEST_TMPDIR/twins/usr/bin/box"
  ln "$BATS_TEST_TMPDIR/twins/usr/bin/box" "$BATS_TEST_TMPDIR/twins/usr/bin/ls"
  tar -cf "$BATS_TEST_TMPDIR/payload.tar" -C "$BATS_TEST_TMPDIR/twins" usr
  pack_carried
  kmodsmith install --payload "$dir" --package "$package" --export /run/nvidia/driver
  assert_error E_SYSTEM "a recorded machine has no mounts"
  [[ $stderr == *"payload "*"user space $V"*"MiB of the image copied"* ]] || fail "$stderr"
  assert_equal "$(stat -c %h "$(copied)/usr/bin/ls")" 2
  assert_equal "$(readlink "$(copied)/bin")" usr/bin
  rm -r "$dir/root/usr" # whoever looks there fails
  kmodsmith install --payload "$dir" --package "$package" --export /run/nvidia/driver
  assert_error E_SYSTEM "a recorded machine has no mounts"
  [[ $stderr != *copied* ]] || fail "$stderr"
  rm -r "$dir" # another image has come: what this one brought is still at hand
  kmodsmith plan --driver "$V" --package "$package" --export /run/nvidia/driver --json
  assert_json '.steps[0].subject' "user space $V, $(basename "$ROOT"/var/lib/kmodsmith/payloads/?* | cut -c1-12)"
}

@test "--payload: a copy without room, or interrupted, leaves nothing behind" {
  loadable
  pack_carried
  jq '.bytes = 1000000000000000' "$dir/payload.json" >"$dir/new" && mv "$dir/new" "$dir/payload.json"
  kmodsmith install --payload "$dir" --package "$package" --export /run/nvidia/driver
  assert_error E_NO_SPACE "copy the payload of driver $V"
  assert_equal "$(calls)" ""
  assert_not_exist "$(copied)"
  rm "$dir/root/lib"
  mkfifo "$dir/root/lib" # no file, directory or link
  jq '.bytes = 1' "$dir/payload.json" >"$dir/new" && mv "$dir/new" "$dir/payload.json"
  kmodsmith install --payload "$dir" --package "$package" --export /run/nvidia/driver
  assert_status 1
  assert_not_exist "$(copied)"
  assert_equal "$(ls -A "$ROOT/var/lib/kmodsmith/payloads/.tmp")" ""
}

@test "--payload: killed during the copy, the next start completes it" {
  loadable
  local n
  mkdir -p "$BATS_TEST_TMPDIR/many/usr/share"
  seq 3000 | split -l 1 -a 4 -d - "$BATS_TEST_TMPDIR/many/usr/share/"
  tar -cf "$BATS_TEST_TMPDIR/payload.tar" -C "$BATS_TEST_TMPDIR/many" usr
  pack_carried
  for n in 0.02 0.04 0.08 0.16; do
    killed_after "$n" "$KMODSMITH" install --root "$ROOT" --payload "$dir" --package "$package" --export /run/nvidia/driver
    [ ! -e "$(copied)" ] || assert_equal "$(find "$(copied)/usr/share" -name '[0-9]*' | wc -l)" 3000
  done
  kmodsmith install --payload "$dir" --package "$package" --export /run/nvidia/driver
  assert_error E_SYSTEM "a recorded machine has no mounts"
  assert_equal "$(find "$(copied)/usr/share" -name '[0-9]*' | wc -l)" 3000
  kmodsmith install --payload "$dir" --package "$package" --export /run/nvidia/driver
  rm -r "$(copied)"
  kmodsmith install --payload "$dir" --package "$package" --export /run/nvidia/driver
  assert_equal "$(ls -A "$ROOT/var/lib/kmodsmith/payloads/.tmp")" ""
}

@test "--payload: a directory that is not a payload" {
  loadable
  mkdir "$dir"
  kmodsmith plan --payload "$dir"
  assert_error E_PAYLOAD "lacks payload.json"
  kmodsmith plan --payload "$dir/none"
  assert_status 1
  echo '{"driver": "535.261.03"}' >"$dir/payload.json"
  kmodsmith plan --payload "$dir"
  assert_error E_PAYLOAD "needs driver, arch and digest"
  assert_equal "$(calls)" ""
}

@test "--payload: its sources are compiled if no source has a package" {
  loadable
  mkdir -p "$BATS_TEST_TMPDIR/tree/usr/src/nvidia-$V"
  tiny_source "$BATS_TEST_TMPDIR/tree/usr/src/nvidia-$V"
  tar -cf "$BATS_TEST_TMPDIR/payload.tar" -C "$BATS_TEST_TMPDIR/tree" usr
  pack_carried
  kmodsmith plan --payload "$dir" --json
  assert_status 0
  assert_json '[.steps[].step] | index("compile") > 0' true
  assert_json .driver "$V"
}

@test "a damaged payload in the store is quarantined and fetched again" {
  loadable
  package=$BATS_TEST_TMPDIR/package
  ROOT='' kmodsmith "pack payload" "$BATS_TEST_TMPDIR/payload.tar" --driver "$V" --arch x86_64 --state-dir "$state" \
    --output "oci:$package"
  kmodsmith install --package "$package" --export /run/nvidia/driver
  local store=$ROOT/var/lib/kmodsmith/store layer
  layer=$(for m in "$store"/blobs/sha256/*; do
    jq -r 'select(.artifactType? == "application/vnd.kmodsmith.payload.v1") | .layers[0].digest[7:]' "$m" 2>/dev/null || true
  done)
  assert_file_exist "$store/blobs/sha256/$layer"
  rm -r "$ROOT/var/lib/kmodsmith/payloads"
  chmod u+w "$store/blobs/sha256/$layer"
  printf x | dd of="$store/blobs/sha256/$layer" bs=1 seek=100 conv=notrunc status=none
  kmodsmith install --package "$package" --export /run/nvidia/driver
  assert_error E_SYSTEM "a recorded machine has no mounts"
  [[ $stderr == *"quarantined"* ]] || fail "$stderr"
  assert_equal "$(sha256sum "$store/blobs/sha256/$layer" | cut -d' ' -f1)" "$layer"
  assert_equal "$(cat "$ROOT"/var/lib/kmodsmith/payloads/*/usr/lib64/libcuda.so."$V")" cuda
}

@test "the sources in a stored payload: planned where none was named, unless nobody could load what they make" {
  local sources=$BATS_TEST_TMPDIR/payload.tar.d/usr/src/nvidia-$V
  host h100x2-unloaded
  tiny_firmware "$V"
  kmodsmith "pack payload" "$BATS_TEST_TMPDIR/payload.tar" --driver "$V" --arch x86_64 # without sources
  assert_status 0
  kmodsmith plan --driver "$V"
  assert_error E_NO_PACKAGE "no --source to compile"
  rm -r "$ROOT/var/lib/kmodsmith"
  mkdir -p "$sources"
  tiny_source "$sources"
  tar -cf "$BATS_TEST_TMPDIR/payload.tar" -C "$BATS_TEST_TMPDIR/payload.tar.d" lib usr
  kmodsmith "pack payload" "$BATS_TEST_TMPDIR/payload.tar" --driver "$V" --arch x86_64
  assert_status 0
  kmodsmith plan --driver "$V"
  assert_status 0
  assert_line --regexp "^[0-9] +compile +$V open for "
  [[ $stderr == *"source "*"$V of the stored payload, sha256 "* ]]
  kmodsmith plan --driver "$V" --no-compile
  assert_error E_NO_PACKAGE
  kmodsmith plan --driver 550.54.14 # it is of one driver
  assert_error E_NO_PACKAGE "no --source to compile"
  echo Y >"$ROOT/sys/module/module/parameters/sig_enforce"
  kmodsmith plan --driver "$V"
  assert_error E_NO_PACKAGE "no --source to compile"
}
