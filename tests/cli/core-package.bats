#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The core of NVIDIA's open release as a package of its own (precompiled/package/asset.h): packed once, taken by every
# compile with the same release, compiler and architecture, and compiled where nobody has it or nobody is to be believed.
# shellcheck disable=SC2016,SC2030,SC2031,SC2154 # bats and helper.bash set output, stderr, top and ROOT; each test is a process
load helper
load package

kernel=6.1.0-56-cloud-amd64 version=595.45.04
setup() {
  work=$BATS_TEST_TMPDIR state=$BATS_TEST_TMPDIR/state driver=$BATS_TEST_TMPDIR/driver site=$BATS_TEST_TMPDIR/site
  trust=$BATS_TEST_TMPDIR/trust log=$state/logs/$version-open-$kernel.log
  tiny_headers "$work/headers.tar" "$kernel"
  compiling_tree "$work/headers.tar.d/usr/src/kernels/$kernel"
  built_with "$(gcc -dumpversion | cut -d. -f1)" "$work/headers.tar" "$kernel"
  release_source "$driver" "$version"
  host h100x2-unloaded
  mkdir "$trust" "$work/nobody"
  new_key site
  openssl pkey -in "$work/site.key" -pubout -out "$trust/site.pem"
}
new_key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$work/$1.key" 2>/dev/null; }
pack() { # OPTION...: on another machine, which forgets everything
  kmodsmith "pack core" --source "$driver" --kernel "$kernel" --headers "$work/headers.tar" --state-dir "$work/builder" \
    --output "oci:$site" --json "$@"
  rm -rf "$work/builder"
}
signed() { # OPTION...
  pack "$@"
  assert_status 0
  packed=$output
  run -0 "$KMODSMITH" sign "$site" --key "$work/site.key" --catalog
}
build() { # OPTION...
  kmodsmith build --source "$driver" --kernel "$kernel" --flavour open --modules nvidia --headers "$work/headers.tar" \
    --state-dir "$state" --output "oci:$work/layout" --trust-dir "$trust" --json "$@"
}
compiled() { grep -cE '^ \[ nvidia +\]  CC ' "$log" || true; } # objects of the core of nvidia
core_note() { jq -r '.phases[] | select(.phase == "core") | .note' <<<"$output"; }
tag_of() { jq -r --arg of "$1" '.cores[] | select(.module == $of).tag' <<<"$packed"; }
manifest_of() { # TAG: its file
  echo "$site/blobs/sha256/$(jq -r --arg tag "$1" '.manifests[] |
    select(.annotations["org.opencontainers.image.ref.name"] == $tag).digest[7:]' "$site/index.json")"
}
retag() { # TAG NEW-TAG: what the first names, under the second alone
  jq --arg from "$1" --arg to "$2" '.manifests |= (map(select(.annotations["org.opencontainers.image.ref.name"] != $to)) |
    map(if .annotations["org.opencontainers.image.ref.name"] == $from
        then .annotations["org.opencontainers.image.ref.name"] = $to else . end))' "$site/index.json" >"$work/index"
  mv "$work/index" "$site/index.json"
}

@test "R-B10, R-A9: packed once, a core is taken instead of compiled: the modules are the same bytes, and the store keeps it" {
  build
  local alone
  alone=$(jq -r .digest <<<"$output")
  assert_equal "$(compiled)" 2
  signed
  assert_equal "$(jq -r '[.cores[].module] | join(" ")' <<<"$packed")" "nvidia nvidia-modeset"
  [[ $(tag_of nvidia) =~ ^core-$version-nvidia-[0-9a-f]{16}-x86_64$ ]] || fail "$packed"
  rm -rf "$state" "$work/layout"
  build --from "oci:$site"
  assert_status 0
  assert_equal "$(core_note)" "nvidia: from oci:$site"
  assert_equal "$(compiled) $(jq -r .digest <<<"$output")" "0 $alone"
  build --offline
  assert_equal "$(core_note) $(jq -r .digest <<<"$output")" "nvidia: from the store $alone"
  assert_equal "$(find "$state/cache/cores" -type f | wc -l)" 0 # who is trusted is asked each time
  build --offline --trust-dir "$work/nobody"
  assert_status 0
  [[ $stderr == *"the core of nvidia is not fetched, and compiled here: E_UNTRUSTED: the store: E_UNTRUSTED: kept from oci:$site, signed by site"* ]] ||
    fail "$stderr"
  assert_equal "$(compiled) $(jq -r .digest <<<"$output")" "2 $alone"
}

@test "a core that was packed twice is the same package, and --no-cache compiles in spite of one" {
  signed
  local first=$packed
  pack
  assert_equal "$(jq -c .cores <<<"$output")" "$(jq -c .cores <<<"$first")"
  build --from "oci:$site" --no-cache
  assert_status 0
  assert_equal "$(compiled)" 2
}

@test "only the cores of the modules that are built; what one repository lacks, the next has, and what none has is compiled" {
  local first=$site
  signed --modules nvidia
  assert_equal "$(jq -r '[.cores[].module] | join(" ")' <<<"$packed")" nvidia
  site=$work/second
  signed --modules modeset
  build --modules nvidia,modeset --from "oci:$first,oci:$site"
  assert_equal "$(core_note)" "nvidia: from oci:$first; nvidia-modeset: from oci:$site"
  rm -rf "$state"
  build --modules nvidia,modeset --from "oci:$first"
  assert_status 0
  [[ $(core_note) == "nvidia-modeset: 3 objects, 0 of them from the cache, "*" job"*"; from oci:$first: nvidia" ]] || told | fail
  [[ $stderr == *"no source has the core of nvidia-modeset; compiling it here: oci:$first: it has no core-$version-nvidia-modeset-"* ]] ||
    fail "$stderr"
}

@test "unsigned, or signed by a stranger: refused with the next step, and the compile goes on" {
  pack
  build --from "oci:$site"
  assert_status 0
  [[ $stderr == *"the core of nvidia is not fetched, and compiled here: E_UNSIGNED: sha256:"*" of oci:$site is not signed"*"; next: sign it with"* ]] ||
    fail "$stderr"
  assert_equal "$(compiled)" 2
  new_key stranger
  run -0 "$KMODSMITH" sign "$site" --key "$work/stranger.key" --catalog
  rm -rf "$state"
  build --from "oci:$site"
  assert_status 0
  [[ $stderr == *"the core of nvidia is not fetched, and compiled here: E_UNTRUSTED: "* ]] || fail "$stderr"
  assert_equal "$(compiled)" 2
  run grep -rl core- "$state/store"
  assert_output ""
}

@test "the core of another version, compiler or format under the right tag is not taken" {
  signed
  local right other
  right=$(tag_of nvidia)
  sed -i "s/$version/596.10/" "$driver/version.mk" "$driver/kernel-open/Kbuild" "$driver/src/common/common.h"
  signed
  other=$(tag_of nvidia)
  sed -i "s/596.10/$version/" "$driver/version.mk" "$driver/kernel-open/Kbuild" "$driver/src/common/common.h"
  retag "$other" "$right"
  run -0 "$KMODSMITH" sign "$site" --key "$work/site.key" --catalog
  build --from "oci:$site"
  assert_status 0
  [[ $stderr == *"no source has the core of nvidia; compiling it here: oci:$site: driver version is 596.10, wanted $version"* ]] ||
    fail "$stderr"
  assert_equal "$(compiled)" 2
  # The same version with another source: only the key tells.
  rm -rf "$site" "$state"
  echo '// other' >>"$driver/src/nvidia/src/two.c"
  signed
  retag "$(tag_of nvidia)" "$right"
  run -0 "$KMODSMITH" sign "$site" --key "$work/site.key" --catalog
  sed -i '$d' "$driver/src/nvidia/src/two.c"
  build --from "oci:$site"
  [[ $stderr == *"oci:$site: key of the core is "*", wanted "* ]] || fail "$stderr"
  assert_equal "$(compiled)" 2
}

@test "a format that this program does not know: not taken" {
  signed
  local tag manifest config new
  tag=$(tag_of nvidia)
  manifest=$(manifest_of "$tag")
  config=$site/blobs/sha256/$(jq -r '.config.digest[7:]' "$manifest")
  jq -c '.config.Labels["io.kmodsmith.format"] = "2"' "$config" | tr -d '\n' >"$work/config"
  new=$(sha256sum <"$work/config" | cut -d' ' -f1)
  cp "$work/config" "$site/blobs/sha256/$new"
  jq -c --arg new "sha256:$new" --argjson size "$(stat -c %s "$work/config")" '.config.digest = $new | .config.size = $size' \
    "$manifest" | tr -d '\n' >"$work/manifest"
  new=$(sha256sum <"$work/manifest" | cut -d' ' -f1)
  cp "$work/manifest" "$site/blobs/sha256/$new"
  jq --arg old "sha256:${manifest##*/}" --arg new "sha256:$new" --argjson size "$(stat -c %s "$work/manifest")" '.manifests |=
    map(if .digest == $old then .digest = $new | .size = $size else . end)' "$site/index.json" >"$work/index"
  mv "$work/index" "$site/index.json"
  run -0 "$KMODSMITH" sign "$site" --key "$work/site.key" --catalog
  build --from "oci:$site"
  assert_status 0
  [[ $stderr == *"oci:$site: its configuration does not have format 1"* ]] || fail "$stderr"
  assert_equal "$(compiled)" 2
}

@test "R-H2: a damaged core: in a repository it is refused, in the store quarantined and fetched again" {
  local layer kept
  signed
  layer=$site/blobs/sha256/$(jq -r '.layers[0].digest[7:]' "$(manifest_of "$(tag_of nvidia)")")
  cp "$layer" "$work/good"
  truncate -s -7 "$layer"
  build --from "oci:$site"
  assert_status 0
  [[ $stderr == *"the core of nvidia is not fetched, and compiled here: E_DIGEST: "*" in oci:$site instead of "* ]] || fail "$stderr"
  assert_equal "$(compiled)" 2
  cp "$work/good" "$layer"
  rm -rf "$state"
  build --from "oci:$site"
  kept=$state/store/blobs/sha256/${layer##*/}
  printf x | dd of="$kept" bs=1 seek=20 conv=notrunc status=none
  build --from "oci:$site"
  assert_status 0
  assert_equal "$(core_note)" "nvidia: from oci:$site"
  [[ $stderr == *"layer sha256:${layer##*/} has SHA-256 "*"; quarantined"* ]] || fail "$stderr"
  assert_equal "$(sha256sum <"$kept" | cut -d' ' -f1)" "${layer##*/}"
}

@test "two compiles at once take one core; gc removes one that was fetched, and not one that was packed here" {
  local pid
  signed
  "$KMODSMITH" build --root "$ROOT" --source "$driver" --kernel "$kernel" --flavour open --modules nvidia --headers \
    "$work/headers.tar" --state-dir "$state" --output "oci:$work/other" --trust-dir "$trust" --from "oci:$site" --json \
    >"$work/out" 3>&- &
  pid=$!
  build --from "oci:$site"
  assert_status 0
  wait "$pid"
  assert_equal "$(jq -r .digest "$work/out")" "$(jq -r .digest <<<"$output")"
  run -0 "$KMODSMITH" push "oci:$work/layout" "oci:$state/store" --state-dir "$work/s"
  kmodsmith "store gc" --state-dir "$state"
  build --offline
  assert_equal "$(core_note)" "nvidia: from the store" # a package of the driver stays
  grep -rl "$kernel" "$ROOT/proc" | xargs sed -i 's/6.1.0-56/6.1.0-57/'
  kmodsmith "store gc" --state-dir "$state"
  assert_output --partial "$(tag_of nvidia)"
  build --offline
  assert_equal "$(compiled)" 2
  run -0 "$KMODSMITH" pack core --source "$driver" --kernel "$kernel" --headers "$work/headers.tar" --state-dir "$state"
  kmodsmith "store gc" --cache --state-dir "$state"
  build --offline
  assert_equal "$(core_note)" "nvidia: from the store"
}

@test "what another process is fetching is waited for: a core, and headers" {
  local tag part
  signed
  run -0 "$KMODSMITH" pack headers "$work/headers.tar" --kernel "$kernel" --output "oci:$site" --state-dir "$work/s"
  run -0 "$KMODSMITH" sign "$site" --key "$work/site.key" --catalog
  for tag in "$(tag_of nvidia)" "headers-$kernel-x86_64"; do
    part=$state/store/blobs/sha256/.$(jq -r '.layers[0].digest[7:]' "$(manifest_of "$tag")").part
    mkdir -p "${part%/*}" && touch "$part"
    flock "$part" sleep 2 3>&- &
  done
  kmodsmith build --source "$driver" --kernel "$kernel" --flavour open --modules nvidia --state-dir "$state" --output "oci:$work/layout" \
    --trust-dir "$trust" --from "oci:$site" --json
  assert_status 0
  assert_equal "$(core_note)" "nvidia: from oci:$site"
  assert_json .headers "packed headers: $state/headers/$(jq -r '.manifests[] | select(.annotations["org.opencontainers.image.ref.name"] ==
    "'"headers-$kernel-x86_64"'").digest[7:]' "$site/index.json")"
}

@test "R-H2: killed while a core was fetched: the next run goes on from what is there, and takes damage away" {
  local layer part size
  signed
  layer=$site/blobs/sha256/$(jq -r '.layers[0].digest[7:]' "$(manifest_of "$(tag_of nvidia)")")
  part=$state/store/blobs/sha256/.${layer##*/}.part size=$(stat -c %s "$layer")
  mkdir -p "${part%/*}"
  head -c $((size / 2)) "$layer" >"$part"
  build --from "oci:$site"
  assert_status 0
  assert_equal "$(core_note)" "nvidia: from oci:$site"
  rm -rf "$state" && mkdir -p "${part%/*}"
  head -c $((size / 2)) /dev/zero >"$part"
  build --from "oci:$site"
  assert_status 0
  assert_equal "$(core_note)" "nvidia: from oci:$site"
}

@test "plan says where the core would come from, and fetches nothing" {
  signed
  cp -a "$work/headers.tar.d/." "$ROOT"
  tiny_firmware "$version"
  kmodsmith plan --source "$driver" --flavour open --modules nvidia --state-dir "$state" --trust-dir "$trust" --from "oci:$site"
  assert_status 0
  assert_output --partial "core: nvidia from oci:$site"
  assert_not_exist "$state/store/index.json"
  kmodsmith plan --source "$driver" --flavour open --modules nvidia --state-dir "$state" --trust-dir "$work/nobody" --from "oci:$site"
  assert_output --partial "core: nvidia is to be compiled"
}

@test "R-A11: a bundle brings the cores, and without one says so" {
  local package=$work/package
  tiny_package "$package" "$kernel"
  run -0 "$KMODSMITH" push "oci:$package" "oci:$site" --state-dir "$work/s"
  create() {
    kmodsmith "bundle create" --output "$work/bundle.tar" --from "oci:$site" --driver "$1" --kernel "$kernel" --arch x86_64 \
      --core-too --trust-dir "$trust" --key "$work/site.key" --state-dir "$work/s"
  }
  run -0 "$KMODSMITH" sign "$site" --key "$work/site.key" --catalog
  create 535.261.03
  assert_error E_INCOMPLETE "core 535.261.03 x86_64: no source has one"
  sed -i "s/$version/535.261.03/" "$driver/version.mk" "$driver/kernel-open/Kbuild" "$driver/src/common/common.h"
  signed
  create 535.261.03
  assert_status 0
  kmodsmith "bundle verify" "$work/bundle.tar" --trust-dir "$trust" --json
  assert_status 0
  assert_json '[.promises[] | select(.kind == "core").tag] | sort | join(" ")' "$(printf '%s\n' "$(tag_of nvidia)" "$(tag_of nvidia-modeset)" | sort | paste -sd' ')"
  log=$state/logs/535.261.03-open-$kernel.log
  build --bundle "$work/bundle.tar"
  assert_equal "$(core_note) $(compiled)" "nvidia: from oci-archive:$work/bundle.tar 0"
}

@test "pack core refuses what has no core, and leaves a repository that it cannot write as it was" {
  tiny_source "$work/plain"
  kmodsmith "pack core" --source "$work/plain" --kernel "$kernel" --headers "$work/headers.tar" --state-dir "$work/s" \
    --output "oci:$site"
  assert_error E_SOURCE "is no open source release as published"
  kmodsmith "pack core" --kernel "$kernel" --output "oci:$site"
  assert_error E_USAGE "pack core needs --source PATH"
  kmodsmith "pack core" --source "$driver" --flavour proprietary --output "oci:$site"
  assert_error E_USAGE "only the open modules have a core"
  assert_not_exist "$site"
  needs_mounts
  signed
  cp "$site/index.json" "$work/before"
  echo 'const int n;' >>"$driver/src/nvidia/src/two.c"
  run --separate-stderr unshare -m --propagation private bash -c 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && "$@"' \
    "$site" "$KMODSMITH" pack core --root "$ROOT" --source "$driver" --kernel "$kernel" --headers "$work/headers.tar" \
    --state-dir "$work/s" --output "oci:$site"
  assert_error E_READ_ONLY "pack core-$version-nvidia-"
  cmp "$site/index.json" "$work/before"
}

@test "a full disk while a core is fetched: no half of one is used, and with room it is" {
  needs_mounts
  {
    printf 'static const unsigned char big[] = { '
    head -c 3000000 /dev/urandom | od -An -v -tu1 | sed 's/ \+/,/g; s/^,//; s/$/,/'
    printf '};\nconst void *use(void) { return big; }\n'
  } >>"$driver/src/nvidia/src/one.c"
  signed
  mkdir "$state"
  run --separate-stderr unshare -m --propagation private bash -c 'mount -t tmpfs -o size=2m state "$0" && "$@"; r=$?
    grep -rq core- --include=index.json "$0" && exit 99; exit $r' "$state" "$KMODSMITH" build --root "$ROOT" \
    --source "$driver" --kernel "$kernel" --flavour open --modules nvidia --headers "$work/headers.tar" --state-dir "$state" \
    --output "oci:$work/layout" --trust-dir "$trust" --from "oci:$site"
  [ "$status" -ne 99 ] || told | fail
  [ "$status" -ne 0 ] || told | fail
  [[ $stderr == *"No space left on device"* ]] || told | fail
  build --from "oci:$site"
  assert_equal "$(core_note)" "nvidia: from oci:$site"
}

@test "deploy/publish.sh packs the core of an open release, and plans it; any other source has none" {
  local place=$work/top line="  pack     core of $version, for each compiler of these kernels"
  publish() { # OPTION...
    run --separate-stderr "$place/deploy/publish.sh" --driver "$version" --repository docker://registry.example/drivers --key "$work/site.key" \
      --kernels "$kernel" --os rhel9.4 --headers "$work/headers" --source "$source" --output "$work/out" "$@" "$work/driver.run"
  }
  mkdir -p "$place"/{deploy,images} "$place/build/release" "$work/headers/$kernel"
  cp "$top/deploy/publish.sh" "$place/deploy"
  ln -s "$top/scripts" "$place/scripts"
  ln -s "$top/images/tags.sh" "$place/images"
  ln -s "$(realpath "$KMODSMITH")" "$place/build/release/kmodsmith"
  printf '#!/bin/sh\nexit 7\n' >"$place/images/kept.sh" # as far as that
  chmod +x "$place/images/kept.sh"
  cp "$work/headers.tar" "$work/headers/$kernel"
  echo '# no driver' >"$work/driver.run"
  for source in "$driver" "$work/release.tar.gz"; do
    tar -czf "$work/release.tar.gz" -C "$work" driver
    publish --dry-run
    [ "$status" -eq 0 ] || told | fail
    assert_line "$line"
  done
  publish --yes
  [ "$status" -eq 7 ] || told | fail
  run jq -r '.manifests[].annotations["org.opencontainers.image.ref.name"] | select(startswith("core-"))' "$work/out/packages/index.json"
  assert_equal "${#lines[@]}" 2
  tiny_source "$work/plain"
  source=$work/plain publish --dry-run
  assert_success
  refute_line "$line"
}

loaded_version() { # the driver that loadable() looks like after the load
  version=535.261.03 log=$state/logs/535.261.03-open-$kernel.log
  rm -rf "$driver"
  release_source "$driver" "$version"
}
@test "R-A9: with --share a builder pushes the core that it compiled after the package, a node nothing" {
  install() { # STATE OPTION...
    kmodsmith install --source "$driver" --flavour open --modules nvidia --headers "$work/headers.tar" --state-dir "$work/$1" \
      --trust-dir "$trust" --from "oci:$site" --share "oci:$site" --json "${@:2}"
  }
  local builder=(--share-role builder --share-key "$work/site.key")
  tags() { jq -r '.manifests[].annotations["org.opencontainers.image.ref.name"] // empty | select(startswith("sha256-") | not)' "$site/index.json" | sort; }
  tiny_package "$site" 6.1.0-99-made-up
  loaded_version
  loadable
  install one
  assert_status 0
  run tags
  refute_output --partial "core-"
  loadable
  install two "${builder[@]}"
  assert_status 0
  [[ $stderr == *"pushed core-$version-nvidia-"*"-x86_64 to oci:$site, too"* ]] || fail "$stderr"
  run tags
  assert_line --regexp "^core-$version-nvidia-[0-9a-f]{16}-x86_64$"
  assert_line "$version-open-$kernel-x86_64"
  assert_equal "$(find "$work/two/.tmp" "$work/two" -maxdepth 1 -name 'share*' | wc -l)" 0
  # For another kernel nobody compiles it again.
  kernel=6.1.0-57-cloud-amd64
  tiny_headers "$work/next.tar" "$kernel"
  compiling_tree "$work/next.tar.d/usr/src/kernels/$kernel"
  built_with "$(gcc -dumpversion | cut -d. -f1)" "$work/next.tar" "$kernel"
  mv "$work/next.tar" "$work/headers.tar"
  tiny_module "$driver/kernel-open/nvidia/nvidia.ko" "$kernel" nvidia_register_module ""
  sed -i 's/6.1.0-56/6.1.0-57/' "$driver"/src/*/Makefile
  host h100x2-unloaded
  build --from "oci:$site"
  assert_status 0
  [[ $stderr == *"no source has the core of nvidia"* ]] || fail "$stderr" # its Makefile names the kernel
  sed -i 's/6.1.0-57/6.1.0-56/' "$driver"/src/*/Makefile
  build --from "oci:$site" --state-dir "$work/third"
  assert_equal "$(core_note)" "nvidia: from oci:$site"
}

@test "R-A9: what cannot be pushed is noted, and the driver is there all the same" {
  needs_mounts
  tiny_package "$site" 6.1.0-99-made-up
  loaded_version
  loadable
  run --separate-stderr unshare -m --propagation private bash -c 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && "$@"' \
    "$site" "$KMODSMITH" install --root "$ROOT" --source "$driver" --flavour open --modules nvidia --headers "$work/headers.tar" \
    --state-dir "$state" --trust-dir "$trust" --from "oci:$site" --share "oci:$site" --share-role builder --share-key "$work/site.key"
  assert_success
  [[ $stderr == *"the package is not shared, and serves this node alone: E_READ_ONLY: "* ]] || fail "$stderr"
  [[ $stderr != *", too"* ]]
}
