#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bundle create, verify, ls and install: one file with all that a site without a network needs (R-A3, R-A11).
# shellcheck disable=SC2016,SC2154 # programs for other shells stand in quotes; bats and helper.bash set stderr, top and ROOT
load helper
load package

K1=6.1.0-56-cloud-amd64 K2=6.1.0-57-cloud-amd64 V=535.261.03

setup_file() { # keys, and a source with packages for two kernels, signed by one of them
  local name dir=$BATS_FILE_TMPDIR
  for name in release other; do
    openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$dir/$name.key" 2>/dev/null
    openssl pkey -in "$dir/$name.key" -pubout -out "$dir/$name.pem"
    mkdir "$dir/$name.trust"
    cp "$dir/$name.pem" "$dir/$name.trust"
  done
  tiny_package "$dir/source" "$K1"
  rm -r "$dir/source.d"
  modules "$dir/second" "$K2"
  python3 "$top/tests/services/make_layout.py" --kernel "$K2" --label kernel.build-id= "$dir/source" "$dir"/second.d/*.ko
  run -0 "$KMODSMITH" sign "$dir/source" --key "$dir/release.key"
}
modules() { # DIR KERNEL-RELEASE: three tiny modules in DIR.d
  local name
  mkdir -p "$1.d"
  tiny_module "$1.d/nvidia.ko" "$2" nvidia_register_module ""
  for name in nvidia-uvm nvidia-modeset; do tiny_module "$1.d/$name.ko" "$2" "" nvidia_register_module; done
}
setup() {
  dir=$BATS_FILE_TMPDIR file=$BATS_TEST_TMPDIR/site.tar state=$BATS_TEST_TMPDIR/state
}
create() { # OPTION...
  kmodsmith "bundle create" --output "$file" --from "oci:$dir/source" --driver "$V" --kernel "${kernels:-$K1,$K2}" --arch x86_64 \
    --state-dir "$state" --trust-dir "$dir/release.trust" "$@"
}
verify() { kmodsmith "bundle verify" "$file" --trust-dir "$dir/release.trust" "$@"; }
signed() { # a bundle that is right
  create --key "$dir/release.key" "$@"
  assert_status 0
}
repack() { # COMMAND...: run it where the bundle is unpacked, then pack it again
  local work=$BATS_TEST_TMPDIR/work
  rm -rf "$work" && mkdir "$work"
  tar -xf "$file" -C "$work"
  (cd "$work" && "$@")
  tar -cf "$file" -C "$work" oci-layout index.json blobs
}
manifest_of() { jq -r --arg k "$1" '.promises[] | select(.kernel == $k).digest[7:]' "$BATS_TEST_TMPDIR/list"; } # KERNEL
list() { "$KMODSMITH" bundle ls "$file" --json >"$BATS_TEST_TMPDIR/list"; }
nothing() { assert_equal "$(find "$BATS_TEST_TMPDIR" -maxdepth 1 -name '*site.tar*')" ""; }

@test "create, verify, ls: every driver for every kernel, and the same bytes come out" {
  signed --image "registry.example/gcc@sha256:$(printf 'a%.0s' {1..64})"
  assert_line --partial "2 entries, expires"
  [[ $stderr == *"1: $V-open-$K1-x86_64"* && $stderr == *"2: $V-open-$K2-x86_64"* ]]
  verify --json
  assert_status 0
  assert_json .complete true
  assert_json .signed_by release
  assert_json '[.promises[] | .kind + " " + .driver + " " + .flavour + " " + .kernel + " " + .arch] | join(";")' \
    "package $V open $K1 x86_64;package $V open $K2 x86_64"
  assert_json '.images[0] | startswith("registry.example/gcc@sha256:aaaa")'
  kmodsmith "bundle ls" "$file"
  assert_line --regexp "^package +$V +open +$K2 +x86_64 +sha256:"
  assert_line --partial "image registry.example/gcc@sha256:"
  mkdir "$BATS_TEST_TMPDIR/x"
  tar -xf "$file" -C "$BATS_TEST_TMPDIR/x"
  (cd "$BATS_TEST_TMPDIR/x/blobs/sha256" && for blob in *; do echo "$blob  $blob"; done | sha256sum --quiet -c)
  assert_equal "$(ls -A "$state/.tmp")" ""
}

@test "create: what a source lacks is listed for each kernel, and nothing is written" {
  kmodsmith "bundle create" --output "$file" --from "oci:$dir/source" --driver "$V,550.1" --kernel "$K1,6.99" \
    --arch x86_64,aarch64 --state-dir "$state" --trust-dir "$dir/release.trust" --key "$dir/release.key"
  assert_error E_INCOMPLETE "7 missing, nothing was written"
  local row
  for row in "$V $K1 aarch64" "550.1 $K1 x86_64" "$V 6.99 x86_64" "550.1 6.99 aarch64"; do
    [[ $stderr == *"missing     $row: "* ]] || fail "'$row' is not named: $stderr"
  done
  nothing
  create --flavour both
  assert_error E_INCOMPLETE "2 missing"
  [[ $stderr == *"missing     $V proprietary $K2 x86_64: "* ]]
  nothing
}

@test "create: a package without a trusted signature counts as missing, with the reason" {
  create --trust-dir "$dir/other.trust" --key "$dir/release.key"
  assert_error E_INCOMPLETE "2 missing"
  [[ $stderr == *"missing     $V $K1 x86_64: "*"trust"* ]]
  nothing
}

@test "create: invalid values are refused before any request" {
  create --image registry.example/gcc:12
  assert_error E_USAGE "'registry.example/gcc:12' is not pinned"
  create --image registry.example/gcc@sha256:abc
  assert_error E_USAGE "is not pinned"
  create --flavour fast
  assert_error E_USAGE "is not one of open, proprietary, both"
  create --expires 4000
  assert_error E_USAGE "at most 3650 days"
  create --output /dev/null
  assert_error E_USAGE "not a regular file"
  kmodsmith "bundle create" --driver "$V" --kernel "$K1"
  assert_error E_USAGE "needs --output"
  create --key "$dir/absent.key"
  assert_failure
  nothing
}

@test "verify: another site's key, no signature, an expired bundle" {
  signed
  verify --trust-dir "$dir/other.trust"
  assert_error E_UNTRUSTED
  create
  assert_status 0
  [[ $stderr == *"no --key"* ]]
  verify
  assert_error E_UNSIGNED
  signed --expires 1
  kmodsmith "bundle ls" "$file" --json
  assert_json '(.expires | fromdate) - (.created | fromdate)' 86400
}

@test "verify: what is missing is listed with kernel, driver and architecture" {
  local blob
  signed
  list
  blob=$(manifest_of "$K2")
  repack rm "blobs/sha256/$blob"
  verify
  assert_error E_INCOMPLETE "1 of 2 are missing: package $V open $K2 x86_64: manifest sha256:$blob is missing"
  assert_line "missing: package $V open $K2 x86_64: manifest sha256:$blob is missing"
  refute_output --partial "$K1"
  signed
  blob=$(manifest_of "$K1")
  repack eval 'rm "blobs/sha256/$(jq -r ".layers[0].digest[7:]" "blobs/sha256/'"$blob"'")"'
  verify --json
  assert_status 1
  assert_json .complete false
  assert_json '.missing | length' 1
  assert_json ".missing[0] | startswith(\"package $V open $K1 x86_64: blob sha256:\")"
  signed # the tag leads elsewhere
  repack eval 'jq --arg d "sha256:'"$blob"'" "(.manifests[] | select(.annotations[\"org.opencontainers.image.ref.name\"] |
    tostring | contains(\"-57-\"))).digest = \$d" index.json >new && mv new index.json'
  verify
  assert_error E_INCOMPLETE "package $V open $K2 x86_64"
}

@test "verify: a flipped byte in any member is found, a truncated file is refused" {
  local layer at size
  signed
  list
  layer=$(tar -xOf "$file" "blobs/sha256/$(manifest_of "$K1")" | jq -r '.layers[0].digest[7:]')
  at=$(python3 -c 'import sys, tarfile; print(tarfile.open(sys.argv[1]).getmember(sys.argv[2]).offset_data)' "$file" "blobs/sha256/$layer")
  cp "$file" "$file.good"
  printf '\xff' | dd of="$file" bs=1 seek=$((at + 100)) conv=notrunc status=none
  verify
  assert_error E_DIGEST "blobs/sha256/$layer has the SHA-256"
  assert_line --partial "damaged: blobs/sha256/$layer"
  for size in 0 600 2000 $(($(stat -c %s "$file.good") / 2 / 512 * 512)) $((at + 100)); do
    head -c "$size" "$file.good" >"$file"
    verify
    assert_failure
    [[ $stderr == *"error: E_"* && $stderr == *"next: "* ]]
  done
  assert_error E_ARCHIVE "cut short"
  python3 - "$file.good" "$KMODSMITH" "$dir/release.trust" <<'PYTHON'
import subprocess, sys, tarfile
good, program, trust = sys.argv[1:]
data = open(good, "rb").read()
for member in tarfile.open(good).getmembers():
    if not member.isfile() or not member.name.startswith("blobs/"):
        continue
    bad = bytearray(data)
    bad[member.offset_data + member.size // 2] ^= 1
    open(good + ".bad", "wb").write(bad)
    done = subprocess.run([program, "bundle", "verify", good + ".bad", "--trust-dir", trust], capture_output=True)
    assert done.returncode == 1, (member.name, done)
PYTHON
}

@test "verify: a manifest replaced by another signed document, and a tar that is not a bundle" {
  signed
  repack eval 'jq "(.manifests[] | select(.annotations[\"org.opencontainers.image.ref.name\"] == \"kmodsmith-bundle\")) |=
    empty" index.json >new && mv new index.json'
  verify
  assert_error E_NOT_FOUND "has no kmodsmith-bundle"
  signed
  repack eval 'jq "(.manifests[] | select(.annotations[\"org.opencontainers.image.ref.name\"] == \"kmodsmith-catalog\")) as \$c |
    (.manifests[] | select(.annotations[\"org.opencontainers.image.ref.name\"] == \"kmodsmith-bundle\")) |=
    (\$c | .annotations[\"org.opencontainers.image.ref.name\"] = \"kmodsmith-bundle\")" index.json >new && mv new index.json'
  verify
  assert_error E_MANIFEST "instead of application/vnd.kmodsmith.bundle"
  tar -cf "$file" -C "$dir" release.pem
  verify
  assert_error E_NOT_FOUND "it has no oci-layout"
}

@test "create: a full disk or a kill leaves no bundle, and an existing one undamaged" {
  needs_mounts
  run --separate-stderr unshare -m bash -c 'mount -t tmpfs -o size=64k none "$1" || exit 99
    "$2" bundle create --output "$1/site.tar" --from "oci:$3/source" --driver "$4" --kernel "$5" --arch x86_64 \
      --state-dir "$6" --trust-dir "$3/release.trust" --image "$(printf "x%.0s" {1..70000})@sha256:$(printf "a%.0s" {1..64})"
    status=$?; ls -A "$1" >&2; exit $status' \
    _ "$(mktemp -d "$BATS_TEST_TMPDIR/small.XXXXXX")" "$KMODSMITH" "$dir" "$V" "$K1" "$state"
  [ "$status" -ne 99 ] || skip "no mount namespace here"
  assert_error E_NO_SPACE
  [[ $stderr != *site.tar ]]
  nothing
  echo old >"$file"
  local i
  for i in 0.005 0.01 0.02 0.04 0.08; do
    killed_after "$i" "$KMODSMITH" bundle create --output "$file" --from "oci:$dir/source" --driver "$V" \
      --kernel "$K1,$K2" --arch x86_64 --state-dir "$state" --trust-dir "$dir/release.trust" --key "$dir/release.key" \
      2>/dev/null
    [ "$(head -c 3 "$file")" = old ] || verify
    [ "$(head -c 3 "$file")" = old ] || assert_status 0
  done
  rm -f "$file"
  signed # whatever was left behind is in nobody's way
  verify
  assert_status 0
}

@test "install: from a bundle alone, without resolving or contacting any address" {
  local trace=$BATS_TEST_TMPDIR/trace
  needs_strace
  signed
  loadable
  cp -r "$dir/release.trust" "$ROOT/trust"
  run --separate-stderr strace -E ASAN_OPTIONS=detect_leaks=0 -f -qq -e trace=network -o "$trace" "$KMODSMITH" install --root "$ROOT" --bundle "$file" \
    --from docker://registry.example.invalid/drivers --driver "$V" --trust-dir "$ROOT/trust"
  assert_status 0
  assert_line ready
  run grep -E 'connect|sendto|AF_INET' "$trace"
  assert_output ""
  assert_equal "$(calls | grep -c '^load ')" 3
}

@test "bundle install: the same under its own name; another site's bundle is refused" {
  signed
  loadable
  kmodsmith "bundle install" "$file" --driver "$V" --trust-dir "$dir/other.trust"
  assert_error E_UNTRUSTED
  assert_equal "$(calls)" ""
  kmodsmith "bundle install" "$file" --driver "$V" --trust-dir "$dir/release.trust"
  assert_status 0
  assert_line ready
}

headers_site() { # $site: the source, and headers of K1 packed and signed with it
  site=$BATS_TEST_TMPDIR/site
  cp -r "$dir/source" "$site"
  tiny_headers "$BATS_TEST_TMPDIR/headers.tar" "$K1"
  kmodsmith "pack headers" "$BATS_TEST_TMPDIR/headers.tar" --kernel "$K1" --output "oci:$site" --state-dir "$state" --json
  assert_status 0
  run -0 --separate-stderr "$KMODSMITH" sign "$site" --key "$dir/release.key"
}
build() { # OPTION...: on a machine without headers; the source does not compile
  tiny_source "$BATS_TEST_TMPDIR/driver"
  host no-gpu
  kmodsmith build --source "$BATS_TEST_TMPDIR/driver" --kernel "$K1" --state-dir "$BATS_TEST_TMPDIR/node" \
    --trust-dir "$dir/release.trust" "$@"
}

@test "pack headers: the same files give the same artifact, and files of another kernel are named" {
  # R-A4, R-R4
  local first
  headers_site
  kmodsmith "pack headers" "$BATS_TEST_TMPDIR/headers.tar" --kernel "$K1" --output "oci:$BATS_TEST_TMPDIR/a" \
    --state-dir "$state" --json
  assert_json .tag "headers-$K1-x86_64"
  first=$(jq -r .digest <<<"$output")
  assert_regex "$first" '^sha256:[0-9a-f]{64}$'
  assert_file_exist "$BATS_TEST_TMPDIR/a/blobs/sha256/${first#sha256:}"
  kmodsmith "pack headers" "$BATS_TEST_TMPDIR/headers.tar" --kernel "$K1" --output "oci:$BATS_TEST_TMPDIR/b" \
    --state-dir "$BATS_TEST_TMPDIR/other" --json
  assert_json .digest "$first"
  diff -r "$BATS_TEST_TMPDIR/a/blobs" "$BATS_TEST_TMPDIR/b/blobs"
  kmodsmith "pack headers" "$BATS_TEST_TMPDIR/headers.tar" --kernel "$K2" --output "oci:$BATS_TEST_TMPDIR/c" \
    --state-dir "$state"
  assert_error E_HEADERS_MISMATCH "the files are for kernel $K1, expected $K2"
  assert_not_exist "$BATS_TEST_TMPDIR/c"
  kmodsmith "pack headers" "$BATS_TEST_TMPDIR/headers.tar"
  assert_error E_USAGE "needs --kernel"
  kmodsmith "pack headers" "$BATS_TEST_TMPDIR/headers.tar" --kernel "$K1" --output "dir:$BATS_TEST_TMPDIR/d" --state-dir "$state"
  assert_error E_USAGE "--output 'dir:$BATS_TEST_TMPDIR/d': a directory is made of a payload only"
  hostile_tars <<<"$BATS_TEST_TMPDIR/evil.tar ../../evil f"
  kmodsmith "pack headers" "$BATS_TEST_TMPDIR/evil.tar" --kernel "$K1" --state-dir "$state"
  assert_error E_ARCHIVE_UNSAFE
}

@test "headers of a bundle serve a compile on a node without headers; later the node's store does" {
  headers_site
  kernels=$K1 create --from "oci:$site" --headers-too --key "$dir/release.key"
  assert_status 0
  assert_line --partial "2 entries,"
  verify --json
  assert_json '.promises[1] | .kind + " " + .kernel + " " + .arch + " " + (.driver | tostring)' "headers $K1 x86_64 null"
  build --bundle "$file"
  assert_failure
  [[ $stderr == *"packed headers: $BATS_TEST_TMPDIR/node/headers/"* ]] || fail "$stderr"
  rm -r "$BATS_TEST_TMPDIR/node/headers"
  build
  [[ $stderr == *"packed headers: $BATS_TEST_TMPDIR/node/headers/"* ]] || fail "$stderr"
  repack eval 'rm "blobs/sha256/$(jq -r ".manifests[] | select(.annotations[\"org.opencontainers.image.ref.name\"] ==
    \"headers-'"$K1"'-x86_64\").digest[7:]" index.json)"'
  verify
  assert_error E_INCOMPLETE "1 of 2 are missing: headers $K1 x86_64: manifest"
}

@test "headers: untrusted, for another kernel, or in no source: each reason is reported" {
  headers_site
  build --from "oci:$site" --trust-dir "$dir/other.trust"
  assert_error E_HEADERS_NOT_FOUND "... of oci:$site: signed by an unnamed key"
  assert_not_exist "$BATS_TEST_TMPDIR"/node/headers/*
  build
  assert_error E_HEADERS_NOT_FOUND "no source was named"
  cd "$BATS_TEST_TMPDIR" # a message has an end: a short name, wherever temporary files are
  build --from oci:site --kernel "$K2"
  assert_error E_HEADERS_NOT_FOUND "it has no headers-$K2-x86_64"
  create --from "oci:$site" --headers-too --key "$dir/release.key"
  assert_error E_INCOMPLETE "1 missing"
  [[ $stderr == *"missing     headers $K2 x86_64: "* ]]
  nothing
}

@test "install: a bundle without a package but with headers is enough to compile" {
  headers_site
  kernels=$K1 create --from "oci:$site" --headers-too --key "$dir/release.key"
  assert_status 0
  loadable
  tiny_firmware 535.999.01
  tiny_source "$BATS_TEST_TMPDIR/driver"
  sed -i s/535.261.03/535.999.01/ "$BATS_TEST_TMPDIR/driver/kernel-open/Kbuild"
  kmodsmith install --source "$BATS_TEST_TMPDIR/driver" --bundle "$file" --driver 535.999.01 --flavour open \
    --trust-dir "$dir/release.trust"
  assert_failure # this source does not compile
  [[ $stderr == *"packed headers: "*"/headers/"* ]] || fail "$stderr"
  assert_equal "$(calls)" ""
}

payload_site() { # $site: the source, and a payload of V packed and signed with it
  site=$BATS_TEST_TMPDIR/site
  cp -r "$dir/source" "$site"
  tiny_payload "$BATS_TEST_TMPDIR/payload.tar" "$V"
  kmodsmith "pack payload" "$BATS_TEST_TMPDIR/payload.tar" --driver "$V" --arch x86_64 --output "oci:$site" --state-dir "$state" \
    --json
  assert_status 0
  assert_json '.tag + " " + .driver + " " + .arch + " " + (.kernel | tostring)' "payload-$V-x86_64 $V x86_64 null"
  payload=$(jq -r '.manifests[] | select(.annotations["org.opencontainers.image.ref.name"] | tostring |
    startswith("payload-")).digest' "$site/index.json")
  run -0 --separate-stderr "$KMODSMITH" sign "$site" --key "$dir/release.key"
}
fetch() { # OPTION...: the payload of V
  kmodsmith fetch --payload --driver "$V" --arch x86_64 --from "oci:$site" --state-dir "$state" \
    --trust-dir "$dir/release.trust" "$@"
}

@test "pack payload: the same files give the same artifact, and files of another driver are named" {
  payload_site
  kmodsmith "pack payload" "$BATS_TEST_TMPDIR/payload.tar" --driver "$V" --arch x86_64 --state-dir "$BATS_TEST_TMPDIR/other" \
    --output "oci:$BATS_TEST_TMPDIR/b" --json
  assert_json .digest "$payload"
  assert_regex "$payload" '^sha256:[0-9a-f]{64}$'
  assert_file_exist "$BATS_TEST_TMPDIR/b/blobs/sha256/${payload#sha256:}"
  assert_equal "$(blob=$(jq -r '.layers[0].digest[7:]' "$BATS_TEST_TMPDIR/b/blobs/sha256/${payload#sha256:}") &&
    zstd -dcq "$BATS_TEST_TMPDIR/b/blobs/sha256/$blob" | tar -tv | awk '/usr.lib64.libcuda.so.1 /{print $6, $7, $8}')" \
    "usr/lib64/libcuda.so.1 -> libcuda.so.$V"
  tiny_payload "$BATS_TEST_TMPDIR/new.tar" 550.54.14
  kmodsmith "pack payload" "$BATS_TEST_TMPDIR/payload.tar" "$BATS_TEST_TMPDIR/new.tar" --driver "$V" --state-dir "$state" \
    --output "oci:$BATS_TEST_TMPDIR/c"
  assert_error E_USAGE "for driver 550.54.14, $V was requested"
  assert_not_exist "$BATS_TEST_TMPDIR/c"
  assert_equal "$(ls -A "$state/.tmp")" ""
  kmodsmith "pack payload" "$BATS_TEST_TMPDIR/payload.tar"
  assert_error E_USAGE "needs --driver"
  kmodsmith "pack payload" "$BATS_TEST_TMPDIR/none.tar" --driver "$V" --state-dir "$state"
  assert_error E_NOT_FOUND "FILE: open '$BATS_TEST_TMPDIR/none.tar'"
  hostile_tars <<<"$BATS_TEST_TMPDIR/evil.tar ../../evil f"
  kmodsmith "pack payload" "$BATS_TEST_TMPDIR/evil.tar" --driver "$V" --state-dir "$state"
  assert_error E_ARCHIVE_UNSAFE
}

@test "payload: bundled for every driver, verified there, and listed where it is missing" {
  payload_site
  create --from "oci:$site" --payload-too --key "$dir/release.key"
  assert_status 0
  assert_line --partial "3 entries,"
  verify --json
  assert_status 0
  assert_json '.promises[2] | .kind + " " + .driver + " " + .arch + " " + .tag + " " + .digest + " " + (.kernel | tostring)' \
    "payload $V x86_64 payload-$V-x86_64 $payload null"
  repack eval 'rm "blobs/sha256/$(jq -r ".layers[0].digest[7:]" "blobs/sha256/'"${payload#sha256:}"'")"'
  verify
  assert_error E_INCOMPLETE "1 of 3 are missing: payload $V x86_64: blob sha256:"
  rm "$file"
  create --payload-too --key "$dir/release.key"
  assert_error E_INCOMPLETE "1 missing"
  [[ $stderr == *"missing     payload $V x86_64: "*"it has no payload-$V-x86_64"* ]] || fail "$stderr"
  nothing
}

@test "fetch --payload: from a site or a bundle into the store, which keeps it; the signer must be trusted" {
  payload_site
  fetch --trust-dir "$dir/other.trust"
  assert_error E_UNTRUSTED
  fetch --driver 550.54.14
  assert_error E_NO_PACKAGE "it has no payload-550.54.14-x86_64"
  kmodsmith fetch --payload --from "oci:$site" --state-dir "$state"
  assert_error E_USAGE "needs --driver"
  fetch --output "oci:$BATS_TEST_TMPDIR/out" --json
  assert_json '.tag + " " + .digest + " " + .driver + " " + .arch' "payload-$V-x86_64 $payload $V x86_64"
  signed --from "oci:$site" --payload-too
  rm -r "$site"
  fetch --from "oci-archive:$file"
  assert_status 0
  assert_line "into the store"
  kmodsmith "store gc" --state-dir "$state"
  assert_status 0
  kmodsmith "store verify" --state-dir "$state"
  assert_status 0
  assert_exist "$state/store/blobs/sha256/${payload#sha256:}"
}
