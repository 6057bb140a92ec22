#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# R-H4: a compile on top of a builder image's root: packed, offered, unpacked once, and taken only when no compiler of this
# machine fits. The root is a made-up one of a shell, busybox and a compiler that says what it is and copies modules that
# lie beside it; everything round it, the sandbox included, is real. A real
# compile of NVIDIA's source this way takes minutes, and gives the bytes of every other way.
# shellcheck disable=SC2154,SC2030,SC2031,SC2016 # bats and helper.bash set stderr, top and ROOT
load helper
load package

kernel=6.1.0-56-cloud-amd64
setup() {
  builder=$BATS_TEST_TMPDIR/builder state=$BATS_TEST_TMPDIR/state
  tiny_builder "$builder.tar" 99 "$kernel"
  tiny_source "$BATS_TEST_TMPDIR/driver"
  touch "$BATS_TEST_TMPDIR/driver/kernel-open/nvidia/nvidia.Kbuild"
  tiny_headers "$BATS_TEST_TMPDIR/headers.tar" "$kernel"
  built_with 99 "$BATS_TEST_TMPDIR/headers.tar" "$kernel"
}

# shellcheck disable=SC2120 # often without one
pack() { # OPTION...
  "$KMODSMITH" pack builder "$builder.tar" --output "oci:$builder" --state-dir "$BATS_TEST_TMPDIR/elsewhere" --arch x86_64 "$@"
}
build() { # OPTION...
  host h100x2-unloaded
  kmodsmith build --source "$BATS_TEST_TMPDIR/driver" --kernel "$kernel" --flavour open --modules nvidia \
    --headers "$BATS_TEST_TMPDIR/headers.tar" --state-dir "$state" --json "$@"
}
from() { build --from "oci:$builder" --insecure-skip-verify "$@"; }

@test "pack builder: contains what a compile sees, without device nodes; the same root gives the same bytes" {
  run -0 pack
  assert_output --regexp "^builder-x86_64 sha256:[0-9a-f]{64} in oci:$builder\$"
  tar --zstd -tf "$(blob "$builder" layer)" >"$BATS_TEST_TMPDIR/files"
  run cat "$BATS_TEST_TMPDIR/files"
  assert_line usr/bin/gcc-99
  assert_line bin
  refute_output --partial dev/
  refute_output --partial idle
  first=$(jq -r '.manifests[0].digest' "$builder/index.json")
  rm -r "$builder"
  find "$builder.tar.d" -exec touch -h -d 2001-01-01 {} +
  run -0 pack
  assert_equal "$(jq -r '.manifests[0].digest' "$builder/index.json")" "$first"
}

@test "pack builder: a file that is not the root of a builder image is refused" {
  while IFS='|' read -r code words; do
    case $code in
    E_TOOLCHAIN) rm "$builder.tar.d/usr/bin"/{make,awk} && tar -cf "$builder.tar" -C "$builder.tar.d" . ;;
    E_ARCHIVE) head -c 40000 "$builder.tar" >"$builder.cut" && mv "$builder.cut" "$builder.tar" ;;
    E_ARCHIVE_UNSAFE) hostile_tars <<<"$builder.tar usr/../../evil f" ;;
    ENOENT) rm "$builder.tar" ;;
    esac
    run pack
    assert_failure
    assert_output --partial "$words"
    [ ! -e "$builder/index.json" ]
  done <<EOF
E_TOOLCHAIN|error: E_TOOLCHAIN: '$builder.tar' is not the root of a builder image: it lacks make, awk, which compiles need
E_ARCHIVE|error: E_ARCHIVE
E_ARCHIVE_UNSAFE|error: E_ARCHIVE_UNSAFE
ENOENT|error:
EOF
}

@test "no local compiler: the builder root comes from a source once, then from the store, offline" {
  pack
  from
  assert_status 0
  assert_json .key.compiler "gcc-99 (made up) 99.1.0"
  [[ $stderr == *"those of the builder image at '$state/builders/"* ]]
  package=$(jq -r .digest <<<"$output")
  rm -r "$builder"
  build
  assert_status 0
  assert_json .digest "$package" # wherever the root came from and lies
  state=$BATS_TEST_TMPDIR/other
  mkdir -p "$state" && mv "$BATS_TEST_TMPDIR/state/store" "$state"
  build
  assert_status 0
  assert_json .digest "$package"
}

@test "local compilers that fit take precedence" {
  pack
  built_with "$(gcc -dumpversion | cut -d. -f1)" "$BATS_TEST_TMPDIR/headers.tar" "$kernel"
  from
  assert_error E_TOOLCHAIN "cannot compile an empty module" # the made-up headers are no headers
  [[ $stderr == *"; the builder image: kernel $kernel was built with"* ]]
}

@test "no compiler fits and no builder root is available: the error names both" {
  build
  assert_error E_TOOLCHAIN "expected gcc 99, found in "
  [[ $stderr == *"; a builder image: the store: it does not exist yet; no source was named (--from)"* ]]
  tiny_package "$BATS_TEST_TMPDIR/package" "$kernel"
  build --from "oci:$BATS_TEST_TMPDIR/package" --insecure-skip-verify
  assert_error E_TOOLCHAIN "; a builder image: "
}

@test "the builder root's compiler does not fit either" {
  tiny_builder "$builder.tar" 98 "$kernel"
  pack
  from
  assert_error E_TOOLCHAIN "expected gcc 99, found in "
  [[ $stderr == *"; the builder image: kernel $kernel was built with"* ]]
}

@test "an unsigned builder root is not trusted" {
  pack
  build --from "oci:$builder"
  assert_error E_UNTRUSTED "... of oci:$builder: '"
}

@test "a damaged builder root in the store is quarantined, and fetched again if a source has it" {
  pack
  from
  assert_status 0
  layer=$(basename "$(blob "$builder" layer)")
  rm -r "$state/builders"
  printf x | dd of="$state/store/blobs/sha256/$layer" conv=notrunc bs=1 seek=999 status=none
  from
  assert_status 0
  [[ $stderr == *"$layer has SHA-256 "*"; quarantined"* ]]
  rm -r "$state/builders"
  printf x | dd of="$state/store/blobs/sha256/$layer" conv=notrunc bs=1 seek=999 status=none
  build
  assert_error E_TOOLCHAIN "; a builder image: "
  [ ! -e "$state/store/blobs/sha256/$layer" ]
}

@test "killed while unpacking: nothing half-written is left, and the next run continues" {
  head -c 60000000 /dev/zero >"$builder.tar.d/usr/made/large" # the layer is small, so that the limit below is met by this file alone
  tar -cf "$builder.tar" -C "$builder.tar.d" .
  pack
  host h100x2-unloaded
  run bash -c 'ulimit -c 0 -f 30000; exec "$@"' - "$KMODSMITH" build --root "$ROOT" --source "$BATS_TEST_TMPDIR/driver" \
    --kernel "$kernel" --flavour open --modules nvidia --headers "$BATS_TEST_TMPDIR/headers.tar" --state-dir "$state" \
    --from "oci:$builder" --insecure-skip-verify
  assert_equal "$status" $((128 + $(kill -l XFSZ)))
  compgen -G "$state/builders/.tmp/*/usr/made/large"
  run bash -c "ls '$state/builders'"
  assert_output ""
  from
  assert_status 0
  run bash -c "ls -A '$state/builders/.tmp'"
  assert_output ""
}

@test "the sandbox exposes none of this machine's programs" {
  program_in=$builder.tar.d/usr/bin/make
  printf '#!/bin/sh\n[ ! -e /usr/bin/gcc ] && [ ! -e /usr/bin/perl ] || exit 3\n%s\n' "$(sed 1d "$program_in")" >"$program_in.new"
  chmod +x "$program_in.new" && mv "$program_in.new" "$program_in"
  tar -cf "$builder.tar" -C "$builder.tar.d" .
  pack
  from
  assert_status 0
}

@test "--modules: of a source with two modules, the requested one is packed, or both" {
  touch "$BATS_TEST_TMPDIR/driver/kernel-open/nvidia-uvm.Kbuild"
  mkdir -p "$BATS_TEST_TMPDIR/driver/kernel-open/nvidia-uvm"
  touch "$BATS_TEST_TMPDIR/driver/kernel-open/nvidia-uvm/nvidia-uvm.Kbuild"
  tiny_module "$builder.tar.d/usr/made/nvidia-uvm.ko" "$kernel" "" nvidia_register_module
  tar -cf "$builder.tar" -C "$builder.tar.d" .
  pack
  from
  assert_status 0
  assert_json '.key.modules | join(" ")' nvidia
  from --modules nvidia,nvidia-uvm # the last one counts
  assert_status 0
  assert_json '.key.modules | join(" ")' "nvidia nvidia-uvm"
}

@test "a compiler killed for lack of memory is reported as that, whoever says so, not as an error of the source" {
  local how code text
  while IFS='|' read -r how code text; do
    tiny_program "$builder.tar.d/usr/bin/make" <<MAKE
#!/bin/sh
case " \$* " in
*" probe.o "*) touch /build/probe/probe.o /build/probe/good.o ;;
*) $how ;;
esac
MAKE
    tar -cf "$builder.tar" -C "$builder.tar.d" .
    rm -rf "$builder" "$state"
    pack
    from
    assert_error "$code" "$text"
  done <<'ROWS'
echo 'gcc: fatal error: Killed signal terminated program cc1'; exit 2|E_BUILD_OOM|a compiler was killed with
echo 'make[1]: *** [nv.o] Error 137'; exit 2|E_BUILD_OOM|a compiler was killed with
echo 'nv.c:1:1: error: what'; exit 2|E_BUILD|driver 535.261.03 (open) for kernel 6.1.0-56-cloud-amd64: nv.c:1:1: error: what
ROWS
}

@test "a node's files seen through /proc/PID/root: compiled there, as a pod without mounts has to" {
  needs_mounts
  pack
  mkdir -p "$BATS_TEST_TMPDIR/node"
  unshare -m --propagation private bash -c 'mount -t tmpfs node "$1" && exec sleep 600' - "$BATS_TEST_TMPDIR/node" 3>&- &
  node=$!
  soon grep -q " $BATS_TEST_TMPDIR/node " "/proc/$node/mounts"
  from
  package=$(jq -r .digest <<<"$output")
  state=/proc/$node/root$BATS_TEST_TMPDIR/node/state
  from
  kill "$node"
  assert_status 0
  assert_json .digest "$package"
  run ls -A "$BATS_TEST_TMPDIR/node"
  assert_output ""
}

@test "a signed builder root in a bundle compiles at an offline site; a bundle without it says so" {
  local keys=$BATS_TEST_TMPDIR/keys
  mkdir -p "$keys/trust"
  openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$keys/key.pem"
  openssl pkey -in "$keys/key.pem" -pubout -out "$keys/trust/site.pem"
  tiny_package "$builder" "$kernel"
  create() { kmodsmith "bundle create" --driver 535.261.03 --kernel "$kernel" --arch x86_64 --builder-too --insecure-skip-verify \
    --from "oci:$builder" --key "$keys/key.pem" --output "$BATS_TEST_TMPDIR/site.tar" --state-dir "$state"; }
  create
  assert_error E_INCOMPLETE "builder x86_64: "
  pack
  create
  assert_status 0
  rm -r "$state" "$builder"
  kmodsmith "bundle verify" "$BATS_TEST_TMPDIR/site.tar" --trust-dir "$keys/trust" --json
  assert_status 0
  assert_json '[.promises[] | .kind + " " + .arch + " " + .tag] | join(",")' \
    "package x86_64 535.261.03-open-$kernel-x86_64,builder x86_64 builder-x86_64"
  build --bundle "$BATS_TEST_TMPDIR/site.tar" --trust-dir "$keys/trust"
  assert_status 0
  assert_json .key.compiler "gcc-99 (made up) 99.1.0"
}

another() { # what it is: another builder root in the same repository
  echo "$1" >"$builder.tar.d/usr/made/more"
  tar -cf "$builder.tar" -C "$builder.tar.d" .
  rm -rf "$builder"
  pack
}
kept() { basename "$(sed -n "s|.*those of the builder image at '\\([^']*\\)'.*|\\1|p" <<<"$stderr")"; } # digest of what served
offered() { jq -r '.manifests[0].digest[7:]' "$builder/index.json"; }

@test "a repaired builder root in the repository replaces the stored one; an unreachable repository leaves it" {
  pack
  from
  assert_status 0
  assert_equal "$(kept)" "$(offered)"
  another repaired
  from
  assert_status 0
  assert_equal "$(kept)" "$(offered)"
  mv "$builder" "$builder.away"
  from
  assert_status 0
  [[ $stderr == *"builder-x86_64: using the one in the store: oci:$builder: "* ]]
  assert_equal "$(builder=$builder.away offered)" "$(kept)"
  first=$(kept)
  mv "$builder.away" "$builder"
  another unsigned
  mkdir -p "$BATS_TEST_TMPDIR/trust"
  build --from "oci:$builder" --trust-dir "$BATS_TEST_TMPDIR/trust" # nobody vouches for that one
  assert_status 0
  assert_equal "$(kept)" "$first"
}

@test "a builder root packed into this machine's store takes precedence over the repository's" {
  pack
  from
  assert_status 0
  echo own >"$builder.tar.d/usr/made/more"
  tar -cf "$builder.tar" -C "$builder.tar.d" .
  "$KMODSMITH" pack builder "$builder.tar" --state-dir "$state" --arch x86_64 --json >"$BATS_TEST_TMPDIR/own"
  from
  assert_status 0
  assert_equal "$(kept)" "$(jq -r '.digest[7:]' "$BATS_TEST_TMPDIR/own")"
}

@test "a builder root named by its digest needs no signature and no --from, and no network the second time" {
  pack
  pin=oci:$builder@sha256:$(offered)
  build --builder "$pin"
  assert_status 0
  assert_json .key.compiler "gcc-99 (made up) 99.1.0"
  assert_equal "$(kept)" "${pin#*sha256:}"
  package=$(jq -r .digest <<<"$output")
  layer=$(basename "$(blob "$builder" layer)")
  mv "$builder" "$builder.away"
  KMODSMITH_BUILDER=$pin build --offline
  assert_status 0
  assert_json .digest "$package"
  damage() {
    rm -r "$state/builders"
    printf x | dd of="$state/store/blobs/sha256/$layer" conv=notrunc bs=1 seek=999 status=none
  }
  damage
  build --builder "$pin"
  assert_error E_NOT_FOUND "; a builder image: --builder: "
  [ ! -e "$state/store/blobs/sha256/$layer" ]
  mv "$builder.away" "$builder"
  build --builder "$pin"
  assert_status 0
  damage
  build --builder "$pin"
  assert_status 0
  [[ $stderr == *"$layer has SHA-256 "*"; quarantined"* ]]
}

@test "a digest alone is looked for in --from, whose signed builder root comes first, and whose unsigned one does not" {
  pack
  first=$(offered)
  mkdir -p "$BATS_TEST_TMPDIR/trust"
  build --from "oci:$builder" --trust-dir "$BATS_TEST_TMPDIR/trust"
  assert_error E_UNTRUSTED "... of oci:$builder: '"
  build --from "oci:$builder" --trust-dir "$BATS_TEST_TMPDIR/trust" --builder "sha256:$first"
  assert_status 0
  assert_equal "$(kept)" "$first"
  cp -r "$builder" "$builder.first"
  another newer
  from --builder "oci:$builder.first@sha256:$first"
  assert_status 0
  assert_equal "$(kept)" "$(offered)"
  build --builder "sha256:$first" # from the store
  assert_status 0
}

@test "a builder root that is named by digest and cannot be had is an error of its own, beside what else was asked" {
  local nothing=0000000000000000000000000000000000000000000000000000000000000000
  pack
  build --builder "oci:$builder@sha256:$nothing"
  assert_error E_TOOLCHAIN "; a builder image: --builder: oci:$builder: it has no sha256:0000"
  build --builder "sha256:$nothing"
  assert_error E_TOOLCHAIN "; a builder image: --builder: sha256:000000000000... is named without a repository, and there is no --from"
  layer=$(blob "$builder" layer)
  pin=oci:$builder@sha256:$(offered)
  printf x | dd of="$layer" conv=notrunc bs=1 seek=999 status=none
  build --builder "$pin"
  assert_error E_DIGEST "; a builder image: --builder: oci:$builder: "
  [ ! -e "$state/builders/${pin#*sha256:}" ]
  for pin in "oci:$builder" "oci:$builder@sha256:12" "@sha256:$nothing" "md5:$nothing"; do
    build --builder "$pin"
    assert_error E_USAGE "--builder '$pin' is not NAME@sha256:HEX or sha256:HEX"
  done
}

@test "of builder roots for one compiler each, that of the kernel's compiler is taken" {
  run -0 pack --compiler gcc-99
  assert_output --regexp "^builder-gcc-99-x86_64 sha256:[0-9a-f]{64} in oci:$builder\$"
  right=$(offered)
  tiny_builder "$BATS_TEST_TMPDIR/wrong.tar" 98 "$kernel"
  run -0 "$KMODSMITH" pack builder "$BATS_TEST_TMPDIR/wrong.tar" --compiler gcc-98 --output "oci:$builder" --arch x86_64 \
    --state-dir "$BATS_TEST_TMPDIR/elsewhere" --json
  wrong=$(jq -r '.digest[7:]' <<<"$output")
  from
  assert_status 0
  assert_equal "$(kept)" "$right"
  state=$BATS_TEST_TMPDIR/pinned
  build --builder "oci:$builder@sha256:$wrong,oci:$builder@sha256:$right"
  assert_status 0
  assert_equal "$(kept)" "$right"
  run ls "$state/builders"
  assert_output "$right" # what serves another compiler was not fetched
  state=$BATS_TEST_TMPDIR/none
  build --builder "oci:$builder@sha256:$wrong"
  assert_error E_TOOLCHAIN "; a builder image: --builder: oci:$builder: compiler is gcc-98, wanted gcc-99"
  jq --arg digest "sha256:$wrong" '.manifests |= map(select(.digest == $digest))' "$builder/index.json" >"$builder/new"
  mv "$builder/new" "$builder/index.json"
  from
  assert_error E_TOOLCHAIN "; a builder image: oci:"
  [[ $stderr == *"it has no builder-gcc-99-x86_64, it has no builder-x86_64"* ]]
}

@test "pack builder --compiler: a name that no kernel asks for, and a root without that program, are refused" {
  local name
  for name in gcc gcc- gcc-12.2 cc-12 clang-x ''; do
    run pack --compiler "$name"
    assert_failure
    assert_output --partial "error: E_USAGE: --compiler '$name' is not gcc-N or clang-N"
  done
  run pack --compiler clang-16
  assert_failure
  assert_output --partial "error: E_TOOLCHAIN: '$builder.tar' is not the root of a builder image with clang-16"
  [ ! -e "$builder/index.json" ]
}

@test "another builder root replaces the first, unless a compile uses that one" {
  pack
  from
  assert_status 0
  first=$(ls "$state/builders")
  echo more >"$builder.tar.d/usr/made/more"
  tar -cf "$builder.tar" -C "$builder.tar.d" .
  rm -r "$builder" "$state/store"
  pack
  flock -s "$state/locks/builder-$first" sleep 600 3>&- &
  holder=$!
  soon not flock -n -x "$state/locks/builder-$first" true
  from
  assert_status 0
  [ "$(find "$state/builders" -mindepth 1 -maxdepth 1 -name '[0-9a-f]*' | wc -l)" = 2 ]
  pkill -P "$holder" || true
  kill "$holder" || true
  wait "$holder" || true
  from
  assert_status 0
  run ls "$state/builders"
  refute_output --partial "$first"
  assert_output --regexp '^[0-9a-f]{64}$'
}

@test "only our own lock keeps a builder root from garbage collection, not another user's" {
  pack
  from
  assert_status 0
  first=$(kept)
  assert_equal "$(stat -c %a "$state/locks/builder-$first")" 600
  exec 5<"$state/builders/$first" 6<"$state/builders" # which every local user can do
  flock -x 5 && flock -x 6
  from
  assert_status 0
  another one
  from
  assert_status 0
  run ls "$state/builders"
  assert_output "$(offered)"
}

@test "doctor, check: a builder root in the store counts if no local compiler fits" {
  host h100x2-unloaded
  look() { kmodsmith doctor --headers "$BATS_TEST_TMPDIR/headers.tar" --state-dir "$state"; }
  look
  assert_line --regexp "^warn +compiler .*expected gcc 99"
  "$KMODSMITH" pack builder "$builder.tar" --state-dir "$state" --arch x86_64
  look
  assert_line --regexp "^pass +compiler +that of the builder image in the store"
  rm -r "$state/store"
  pack
  build --builder "oci:$builder@sha256:$(offered)"
  assert_status 0
  look
  assert_line --regexp "^pass +compiler +that of the builder image in the store"
  kmodsmith check --kernel "$kernel" --source "$BATS_TEST_TMPDIR/driver" --flavour open --headers "$BATS_TEST_TMPDIR/headers.tar" \
    --state-dir "$state"
  assert_status 20
  rm -r "$state/store"
  kmodsmith check --kernel "$kernel" --source "$BATS_TEST_TMPDIR/driver" --flavour open --headers "$BATS_TEST_TMPDIR/headers.tar" \
    --state-dir "$state"
  assert_status 30
}

@test "check and doctor see what kbuild's programs lack in a builder root that was unpacked" {
  local tree=$BATS_TEST_TMPDIR/headers.tar.d/usr/src/kernels/$kernel said
  said="the builder image in the store: the headers' scripts/mod/modpost needs libgone[.]so[.]1, which $state/builders/[0-9a-f]{64} does"
  pack
  from
  assert_status 0
  mkdir -p "$tree/scripts/basic" "$tree/scripts/mod"
  gcc -x c -nostdlib -static -o "$tree/scripts/basic/fixdep" -Wl,-e,0 - <<<''
  gcc -x c -shared -Wl,-soname,libgone.so.1 -o "$BATS_TEST_TMPDIR/libgone.so" /dev/null
  gcc -x c -nostdlib -shared - -x none -Wl,--no-as-needed "$BATS_TEST_TMPDIR/libgone.so" -o "$tree/scripts/mod/modpost" <<<''
  built_with 99 "$BATS_TEST_TMPDIR/headers.tar" "$kernel"
  kmodsmith check --kernel "$kernel" --source "$BATS_TEST_TMPDIR/driver" --flavour open --headers "$BATS_TEST_TMPDIR/headers.tar" \
    --state-dir "$state"
  assert_status 30
  assert_output --regexp "E_TOOLCHAIN.*expected gcc 99.*$said"
  kmodsmith doctor --headers "$BATS_TEST_TMPDIR/headers.tar" --state-dir "$state"
  assert_line --regexp "^warn +compiler .*$said"
  from
  assert_error E_TOOLCHAIN "needs libgone.so.1"
}
