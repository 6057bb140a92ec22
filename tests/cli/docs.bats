#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The pages in docs/: what is generated is current, what they list is complete, and the commands that they show work.
# shellcheck disable=SC2016,SC2030,SC2031,SC2154 # bats and helper.bash set stderr, top and ROOT; quotes around the marks of a page
load helper
load package

# The commands below the line `<!-- test: NAME -->` of a page, with this machine's names in place of those of the page.
block() { # PAGE NAME [SED-SCRIPT]
  awk -v mark="<!-- test: $2 -->" '$0 == mark { on = 1; next } on && !/^    / { exit } on { print substr($0, 5) }' "$top/docs/$1.md" >block
  [ -s block ] || fail "docs/$1.md has no commands '$2'"
  sed "${3-}" block
}
# Run them as a reader does, on the recorded machine. Programs that ask others than this machine only say what they were told.
follow() { # PAGE NAME [SED-SCRIPT]
  local program
  mkdir -p bin
  printf '#!/bin/bash\nverbs=1\n[[ " %s " != *" $1 "* ]] || verbs=2\nexec "%s" "${@:1:verbs}" ${ROOT:+--root "$ROOT"} "${@:verbs+1}"\n' \
    "$(groups | xargs)" "$(realpath "$KMODSMITH")" >bin/kmodsmith
  for program in bin/*; do chmod +x "$program"; done
  block "$@" >commands
  ROOT=$ROOT PATH=$PWD/bin:$PATH run --separate-stderr bash -euo pipefail commands
  [ "$status" -eq 0 ] || { cat commands && told; } | batslib_decorate "docs/$1.md: '$2'" | fail
}
setup() {
  cd "$BATS_TEST_TMPDIR" || return 1
}
with_packages() { # a machine, and a layout `packages` as somebody built it
  loadable
  mv package packages
}
signed() {
  with_packages
  follow packages sign 's#docker://[a-z./]*#oci:registry#'
}

@test "README: at most 150 lines" {
  [ "$(wc -l <"$top/README.md")" -le 150 ]
}

@test "docs: generated parts match the program's tables" {
  local build page
  build=$(basename "$(dirname "$(realpath "$KMODSMITH")")")
  [ "$(realpath "$KMODSMITH")" = "$(realpath "$top")/build/$build/kmodsmith" ] || build=release
  make_in "$build" "build/$build/mkman"
  [ "$(grep -hr '^<!-- mkman ' "$top/docs" | wc -l)" -ge 2 ]
  while read -r page; do
    cp "$page" page.md
    "$top/scripts/docs.sh" "$top/build/$build/mkman" page.md
    run diff -u "$page" page.md
    assert_success # else: make docs
  done < <(grep -lr '^<!-- mkman ' "$top/docs")
}

@test "docs: each JSON document has the members that the reference lists" {
  local ref
  documented() { # COMMAND ARGUMENT...
    local command=$1 list
    kmodsmith "$@" --json
    list=$(sed -n '/^<!-- json -->/,/^<!-- \/json -->/p' "$top/docs/reference.md" | sed -n "s/^| \`$command\` | //p")
    [ -n "$list" ] || fail "docs/reference.md has no row '$command'"
    run jq -r 'del(.apiVersion, .kind) | (if has("items") then .items[0] + del(.items) else . end) | keys[]' <<<"$output"
    assert_output "$(grep -o '`[a-z_]*`' <<<"${list//as \`store ls\`,/$(stored)}" | tr -d '`' | sort)"
  }
  stored() { sed -n 's/^| `store ls` | list: \(.*\);.*/\1/p' "$top/docs/reference.md"; }
  with_packages
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out site.key 2>/dev/null
  openssl pkey -in site.key -pubout -out site.pem
  documented sign packages --key site.key --catalog
  documented "trust add" site.pem
  documented "trust ls"
  documented push packages oci:registry
  documented fetch --from oci:packages --driver 535.261.03 --kernel 6.1.0-56-cloud-amd64 --output oci:got
  documented "bundle create" --output site.tar --from oci:packages --driver 535.261.03 --kernel 6.1.0-56-cloud-amd64 --key site.key
  documented "bundle ls" site.tar
  documented "bundle verify" site.tar
  documented plan --from oci:packages --driver 535.261.03
  documented install --from oci:packages --driver 535.261.03
  documented status
  documented doctor
  documented holders
  documented support --dry-run
  documented nodes --dry-run
  documented probe readiness
  documented check --package oci:packages
  documented "net check" oci:packages
  documented watch --once --no-compile
  documented explain E_ABI
  documented "store ls"
  kmodsmith "store ls" --json
  ref=$(jq -r '.items[0].digest' <<<"$output")
  documented "store show" "$ref"
  documented "store verify"
  documented "config show" --all
  documented "store pin" "$ref"
  documented "store gc" --dry-run
  documented unload
  ROOT=''
  echo '{"pools": [{"name": "all", "target": {"driver": "535.261.03"}}]}' >policy.json
  echo '{"items": []}' >nodes.json
  documented "rollout check-policy" policy.json
  documented "rollout plan" --policy policy.json --nodes nodes.json
}

@test "docs: the reference names every metric, every key that a coordinator writes on a Node, and all our variables" {
  local name found=0
  while read -r name; do
    grep -qF "\`$name\`" "$top/docs/reference.md" || fail "docs/reference.md lacks $name"
    found=$((found + 1))
  done < <(cd "$top" && {
    grep -rhoE 'kmodsmith_[a-z_]+(\{| %)' installer --include='*.c' | grep -oE 'kmodsmith_[a-z_]+' | sed 's/_\(bucket\|sum\|count\)$//'
    grep -rhoE '"KMODSMITH_[A-Z0-9_]+"' installer kmod precompiled | tr -d '"' | grep -v '_$'
    grep -rhE -A40 '^const struct node_key node_keys' installer | sed -nE '/};/q; s/^\tKEY\("([a-z-]+)".*/\1/p'
  } | sort -u)
  [ "$found" -gt 90 ]
}

@test "docs: packages.md: sign and push, also a payload; host.md: trust, install, status, reinstall from the store, unload" {
  signed
  assert_file_exist registry/index.json
  tiny_payload payload.tar 535.261.03
  follow packages payload 's#docker://[^ ]*#oci:registry#; s#libcuda1.*gsp.deb#payload.tar#'
  run grep -c payload-535.261.03 registry/index.json
  assert_success
  follow host install 's#docker://[^ ]*#oci:registry#'
  assert_output --partial "READY since"
  assert_line "ready"
  follow host remove
  assert_output --partial "unloaded nvidia_modeset, nvidia_uvm, nvidia"
}

@test "docs: host.md: back to the driver that ran before, from the store" {
  loadable
  another() { # VERSION: nothing is loaded, and what is loaded next says that it is this one
    kmodsmith unload
    sed -i -E "s/535.261.03|550.100.01/$1/" "$ROOT/proc/driver/nvidia/version"
  }
  cp -r package.d newer.d
  sed -i "s|535.261.03|550.100.01|; s|ABCDEF0123|BBCDEF0123|" newer.d/*.ko
  layout newer 6.1.0-56-cloud-amd64 --driver 550.100.01
  tiny_firmware 550.100.01
  kmodsmith install --package package
  assert_status 0
  another 550.100.01
  kmodsmith install --package newer
  assert_status 0
  kmodsmith status
  assert_line 'last good: 550.100.01 open'
  rm -r package newer
  kmodsmith plan 545.1
  assert_error E_NO_PACKAGE
  another 535.261.03
  follow host back
  assert_line --regexp '^535.261.03-open-'
  assert_line --regexp '^550.100.01-open-'
  assert_line --regexp '^[0-9] +load '
  assert_line ready
  kmodsmith status
  assert_line 'last good: 535.261.03 open'
}

@test "docs: packages.md: the core of an open release is packed, signed and pushed" {
  local kernel=6.1.0-56-cloud-amd64
  host h100x2-unloaded
  tiny_headers headers.tar "$kernel"
  built_with "$(gcc -dumpversion | cut -d. -f1)" headers.tar "$kernel"
  cp -a headers.tar.d/. "$ROOT"
  release_source driver 595.45.04
  tar -czf open-gpu-kernel-modules-595.45.04.tar.gz driver
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out site.key 2>/dev/null
  follow packages core 's#docker://[a-z./]*#oci:registry#'
  run grep -o 'core-595.45.04-[a-z-]*' registry/index.json
  assert_output --partial core-595.45.04-nvidia-modeset-
  kmodsmith "pack core" --source driver --kernel "$kernel" --output oci:again --json
  run jq -r '.cores[0] | keys_unsorted + [""] | join(" ")' <<<"$output"
  assert_output "$(sed -n 's/^| `pack core` | .*(a list of \(.*\)) |$/\1/p' "$top/docs/reference.md" | tr -d '`') "
}

@test "README: the cluster's quick start is that of kubernetes.md" {
  local name
  commands() { awk -v mark="<!-- test: $2 -->" '$0 == mark { on = 1; next } on && !/^    / { exit } on' "$top/$1.md" | sed -E 's/[0-9]{3}\.[0-9]+\.[0-9]{2}/V/g'; }
  for name in images chart; do
    assert_equal "$(commands README $name)" "$(commands docs/kubernetes $name)"
    [ -n "$(commands README $name)" ]
  done
}

@test "docs: trust.md: create a key, trust it, revoke it" {
  with_packages
  follow trust keys
  follow trust trust 's# *\#.*##'
  assert_line --regexp '^site +ecdsa-p256'
  kmodsmith install --driver 535.261.03 --from oci:packages
  assert_status 0
  follow trust revoke
  kmodsmith "trust ls"
  refute_line --regexp '^site +ecdsa-p256'
}

@test "docs: trust.md: a key for modules signs what is compiled" {
  local kernel=6.1.0-56-cloud-amd64
  host h100x2-unloaded
  mkdir -p "$ROOT/sys/firmware/efi/efivars"
  printf '\6\0\0\0' >"$ROOT/sys/firmware/efi/efivars/MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23"
  follow trust module-key
  assert_output --partial "password, shown only now: "
  mv keys/modules.* .
  tiny_headers headers.tar "$kernel"
  compiling_tree "headers.tar.d/usr/src/kernels/$kernel"
  built_with "$(gcc -dumpversion | cut -d. -f1)" headers.tar "$kernel"
  compiling_source driver 535.261.03
  kmodsmith build --source driver --kernel "$kernel" --flavour open --modules nvidia --headers headers.tar --state-dir state \
    --output oci:packages --module-key modules.key --module-cert modules.pem --json
  assert_status 0
  assert_json '.phases[] | select(.phase == "sign") | .note | startswith("1 module by CN=")' true
  unsigned() {
    rm -r packages
    kmodsmith build --source driver --kernel "$kernel" --flavour open --modules nvidia --headers headers.tar --state-dir state --output oci:packages
  }
  unsigned
  follow trust elsewhere
  assert_line --regexp '^modules signed +535.261.03-open-'
  unsigned
  openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out site.key
  follow trust ci
  assert_line --regexp '^modules signed +535.261.03-open-'
  assert_line "catalogue 1 lists 1 package"
}

@test "docs: air-gap.md: create, verify and install a bundle" {
  signed
  follow air-gap create 's#docker://[^ ]*#oci:registry#; s#,6[^ ]*##'
  assert_output --partial 535.261.03
  follow air-gap use
  assert_line "ready"
}

@test "docs: host.md: the look before an install of NVIDIA's .run" {
  host h100x2-unloaded
  tiny_firmware 535.261.03
  tiny_source tree
  makeself --nox11 --quiet tree NVIDIA-Linux-x86_64-535.261.03.run label true >/dev/null
  follow host look
  assert_line --regexp '^[0-9]  compile +535.261.03 open for 6.1.0-56-cloud-amd64 '
  assert_equal "$(calls)" ""
}

# NVIDIA's .run as far as kmodsmith looks at it: sources of modules that compile for any kernel, and a manifest of those,
# of the firmware and of a library.
run_file() { # DRIVER
  local kernel=6.1.0-56-cloud-amd64 release name tree=run-$1 source
  compiling_source "$tree" "$1"
  source=$tree/kernel-open
  for release in "$kernel" 6.1.0-57-cloud-amd64; do
    mkdir -p "$source/made/$release"
    tiny_module "$source/made/$release/nvidia.ko" "$release" nvidia_register_module ""
    for name in uvm modeset; do tiny_module "$source/made/$release/nvidia-$name.ko" "$release" "" nvidia_register_module; done
    sed -i "s/535.261.03/$1/g" "$source/made/$release"/*.ko
  done
  cat >>"$source/Makefile" <<'MAKE'
modules: copied
copied: $(NAMES:%=nvidia/%.o)
	cp made/$$(sed -n 's/.*UTS_RELEASE "\(.*\)"/\1/p' $(SYSOUT)/include/generated/utsrelease.h)/*.ko .
MAKE
  sed -i '/objcopy/d' "$source/Makefile"
  rm "$source/nvidia/nvidia.ko"
  mkdir -p "$source"/nvidia-{uvm,modeset}
  touch "$source/nvidia-uvm/nvidia-uvm.Kbuild" "$source/nvidia-modeset/nvidia-modeset.Kbuild"
  mkdir -p "$tree/firmware"
  echo gsp >"$tree/firmware/gsp_ga10x.bin"
  echo cuda >"$tree/libcuda.so.$1"
  {
    printf 'NVIDIA Accelerated Graphics Driver\n%s\n1\nnvidia\n0\n0\n0\n0\n' "$1"
    echo "libcuda.so.$1 0755 CUDA_LIB NATIVE / MODULE:compute"
    echo "firmware/gsp_ga10x.bin 0644 FIRMWARE INHERIT_PATH_DEPTH:1"
    (cd "$tree" && find kernel-open -type f -printf '%p 0644 KERNEL_MODULE_SRC INHERIT_PATH_DEPTH:1\n')
  } >"$tree/.manifest"
  makeself --nox11 --quiet "$tree" "NVIDIA-Linux-x86_64-$1.run" label true >/dev/null
}
# The commands of README's host quick start, without the build and the package manager's, on the recorded machine. It has no
# mounts for an export, and no services; a host of tests/vm/26-service has both, but no compiler.
host_start() { # [SED-SCRIPT]
  sed -n '/^## Quick start: a host/,/^## /{/scripts\/deps/d; s/^    //p}' "$top/README.md" |
    sed "s# *--export [^ ]*##; s#export = [^ ]*\\\\n##; s#/etc/kmodsmith#$ROOT/etc/kmodsmith#; ${1-}" >start
}
walk() { # SCRIPT: as the reader's shell
  ROOT=$ROOT PATH=$PWD/bin:$PATH run --separate-stderr bash -euo pipefail "$1"
  [ "$status" -eq 0 ] || { cat "$1" && told; } | batslib_decorate "README: the host" | fail
}

@test "README: the host's quick start to its last line, then another kernel and another driver" {
  local kernel=6.1.0-56-cloud-amd64 next=6.1.0-57-cloud-amd64 old=535.261.03 new=550.163.01 release
  needs_seccomp
  loadable
  rm -r package{,.d}
  for release in "$kernel" "$next"; do
    tiny_headers headers.tar "$release"
    compiling_tree "headers.tar.d/usr/src/kernels/$release"
    built_with "$(gcc -dumpversion | cut -d. -f1)" headers.tar "$release"
    tar -xf headers.tar -C "$ROOT" --keep-directory-symlink
    rm -r headers.tar.d
  done
  rm -r "$ROOT/lib/modules/$next"
  mkdir -p bin "$ROOT/etc/kmodsmith" "$ROOT/boot"
  tiny_firmware "$new"
  run_file "$old"
  run_file "$new"
  printf '#!/bin/bash\nverbs=1\n[[ " %s " != *" $1 "* ]] || verbs=2\nexec "%s" "${@:1:verbs}" --root "$ROOT" "${@:verbs+1}"\n' \
    "$(groups | xargs)" "$(realpath "$KMODSMITH")" >bin/kmodsmith
  printf '#!/bin/sh\necho "$*" >>%s/enabled\n' "$PWD" >bin/systemctl
  chmod +x bin/*
  host_start
  assert_equal "$(wc -l <start)" 7
  walk start
  assert_output --partial "READY since"
  assert_equal "$(cat enabled)" "enable --now kmodsmith kmodsmith-watch"
  export KMODSMITH_CONFIG=$ROOT/etc/kmodsmith/kmodsmith.conf
  assert_equal "$(cat "$KMODSMITH_CONFIG")" "driver = $old"
  [[ $stderr == *"to have it at each boot, and for the next kernel: printf '%s\n' 'driver = $old' 'source = $PWD/NVIDIA-Linux-x86_64-$old.run' >>/etc/kmodsmith/kmodsmith.conf"* ]]
  rm "NVIDIA-Linux-x86_64-$old.run" # the reader tidies up
  # apt upgrades the kernel.
  mkdir "$ROOT/lib/modules/$next"
  cp -a "$ROOT/lib/modules/$kernel/config" "$ROOT/lib/modules/$next"
  ln -s "/usr/src/kernels/$next" "$ROOT/lib/modules/$next/build"
  touch "$ROOT/lib/modules/$next/modules."{builtin,order,dep,dep.bin}
  echo image >"$ROOT/boot/vmlinuz-$next"
  kmodsmith watch --once --json
  assert_status 0
  assert_json '.kernels[] | .verdict' ready
  [[ $stderr == *"no source was named: the one of the stored payload is asked"* ]]
  boot "$next"
  kmodsmith install --no-compile
  assert_status 0
  assert_output --partial "pass  driver    $old open"
  # The other driver, as host.md says: it is installed, and configured.
  kmodsmith unload
  sed -i "s/$old/$new/" "$ROOT/proc/driver/nvidia/version"
  host_start "s/$old/$new/g"
  walk start
  assert_output --partial "pass  driver    $new open"
  [[ $stderr == *"--driver, set by "*" gives way to --source"* ]]
  [[ $stderr == *"to have it at each boot"*"'driver = $new' 'source = $PWD/NVIDIA-Linux-x86_64-$new.run'"* ]] # configured is the other
  KMODSMITH_SOURCE=NVIDIA-Linux-x86_64-$new.run kmodsmith install
  [[ $stderr != *"to have it at each boot"* ]]
  # Without the watcher, the boot compiles.
  boot "$kernel"
  kmodsmith install
  assert_status 0
  [[ $stderr == *"$new of the stored payload, sha256 "* ]]
  assert_output --partial "pass  driver    $new open"
}
boot() { # KERNEL: the recorded machine, into it
  sed -i "s/6\.1\.0-5[67]-cloud-amd64/$1/" "$ROOT/proc/sys/kernel/osrelease" "$ROOT/proc/version"
  head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n' | sed -E 's/(.{8})(.{4})(.{4})(.{4})(.*)/\1-\2-\3-\4-\5\n/' >"$ROOT/proc/sys/kernel/random/boot_id"
  rm -rf "$ROOT"/sys/module/nvidia* "$ROOT/run/kmodsmith"
}

@test "docs: migrating.md: a driver of DKMS is staged over, replaced and purged; the driver of a cloud image is taken as it is" {
  local tree
  signed
  kmodsmith "trust add" site.pem
  tree=$ROOT/lib/modules/6.1.0-56-cloud-amd64
  mkdir -p "$tree/updates"
  tiny_module "$tree/updates/nvidia-current.ko" 6.1.0-56-cloud-amd64 "" ""
  sed -i 's/535.261.03/550.154.14/' "$tree/updates/nvidia-current.ko"
  echo updates/nvidia-current.ko: >"$tree/modules.dep"
  kmodsmith install 535.261.03 --from oci:registry
  assert_error E_HOST_DRIVER "nvidia-current.ko"
  follow migrating first 's#docker://[^ ]*#oci:registry#'
  assert_equal "$(calls)" ""
  mkdir -p bin
  printf '#!/bin/sh\nrm -r "$ROOT/lib/modules/6.1.0-56-cloud-amd64/updates" "$ROOT/lib/modules/6.1.0-56-cloud-amd64/modules.dep"\n' >bin/apt
  printf '#!/bin/sh\necho "$*"\n' | tee bin/update-initramfs >bin/systemctl
  follow migrating dkms
  assert_line "ready"
  assert_line "enable --now kmodsmith kmodsmith-watch"
  host h100x8
  follow migrating image
  assert_line "ready"
  run grep -c '^load ' "$ROOT/.sys-calls"
  assert_output 0
}

@test "docs: debugging.md, packages.md: a look at a node, where an install spent its time, and what its store has" {
  signed
  kmodsmith "trust add" site.pem
  kmodsmith install 535.261.03 --from oci:registry
  follow debugging look
  assert_output --partial '"state": "READY"'
  follow debugging times
  assert_line --regexp '^[0-9.e-]+.detect.kernel 6.1.0-56-cloud-amd64, 2 GPUs'
  follow packages store
  assert_line --regexp '^535.261.03-open-.* signed by [0-9a-f]{16}$'
}

@test "docs: stack.md and trust.md: the policies that they show are valid" {
  block stack pool >policy.yaml
  kmodsmith "rollout check-policy" policy.yaml
  assert_status 0
  with_packages
  openssl genpkey -algorithm ED25519 -out site.key
  openssl pkey -in site.key -pubout -out site.pem
  kmodsmith "trust add" site.pem --name site
  block trust provenance "s/HEX/$(sha256sum <site.key | cut -d' ' -f1)/" >"$ROOT/etc/kmodsmith/trust/policy.json"
  kmodsmith "trust ls"
  assert_status 0
  assert_line --partial docker://registry.example/drivers
}

@test "docs: rollouts.md: its policy is valid, and the plan is made from it" {
  block rollouts policy >policy.yaml
  mkdir bin
  printf '#!/bin/sh\necho "{\\"items\\": []}"\n' >bin/kubectl
  follow rollouts plan
  assert_output --partial "pool gpus: driver 535.261.03, 2 waves, 1 window"
}

@test "docs: packages.md: a builder beside the packages, found by its digest" {
  signed
  tiny_builder root.tar 99 6.1.0-56-cloud-amd64
  mkdir -p build/images/builder
  kmodsmith "pack builder" root.tar --arch x86_64 --output oci:build/images/builder/asset --json
  digest=$(jq -r .digest <<<"$output")
  follow packages builder 's#docker://[a-z./]*#oci:registry#'
  assert_equal "$(jq -r '.manifests[] | select(.annotations["org.opencontainers.image.ref.name"] == "builder-x86_64") | .digest' \
    registry/index.json)" "$digest"
  tiny_source driver
  touch driver/kernel-open/nvidia/nvidia.Kbuild
  tiny_headers headers.tar 6.1.0-56-cloud-amd64
  built_with 99 headers.tar 6.1.0-56-cloud-amd64
  KMODSMITH_BUILDER=$digest kmodsmith build --source driver --kernel 6.1.0-56-cloud-amd64 --flavour open --modules nvidia \
    --headers headers.tar --from oci:registry --trust-dir nobody --json
  assert_error E_NOT_FOUND "'nobody'"
  mkdir nobody
  KMODSMITH_BUILDER=$digest kmodsmith build --source driver --kernel 6.1.0-56-cloud-amd64 --flavour open --modules nvidia \
    --headers headers.tar --from oci:registry --trust-dir nobody
  assert_status 0
}

@test "docs: packages.md: the plan of what a cluster needs" {
  with_packages
  mkdir -p bin deploy headers/6.1.0-57-made-up
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out site.key 2>/dev/null
  printf '#!/bin/sh\necho '"'%s'\n" '{"items": [{"metadata": {"name": "a", "labels": {"feature.node.kubernetes.io/system-os_release.ID": "rhel",
    "feature.node.kubernetes.io/system-os_release.VERSION_ID": "9.4"}},
    "status": {"nodeInfo": {"kernelVersion": "6.1.0-57-made-up", "architecture": "amd64"}}}]}' >bin/kubectl
  printf '#!/bin/sh\nexec %s/deploy/publish.sh --dry-run --output "$PWD/out" "$@"\n' "$top" >deploy/publish.sh
  chmod +x deploy/publish.sh
  tiny_headers headers/6.1.0-57-made-up/headers.tar 6.1.0-57-made-up
  echo '# no driver' >NVIDIA-Linux-x86_64-580.95.05.run
  follow packages publish
  assert_line "driver 580.95.05 for 1 kernels and rhel9.4, to docker://registry.example/drivers"
  assert_line "  pack     headers of 6.1.0-57-made-up"
  assert_line --regexp "^  cannot   modules.*: .*NVIDIA-Linux-x86_64-580.95.05.run"
  assert_line "             580-6.1.0-57-made-up-rhel9"
  [ ! -e out/packages/index.json ] || assert_equal "$(jq -c .manifests out/packages/index.json)" "[]" # a plan makes nothing
}

@test "docs: host.md: the configuration of a boot has values alone, and each of them arrives" {
  with_packages
  block host conf 's#docker://[a-z./]*#oci:packages#' >kmodsmith.conf
  run grep -vE '^[a-z-]+ = [^ #]+$' kmodsmith.conf
  assert_output ""
  KMODSMITH_CONFIG=$PWD/kmodsmith.conf kmodsmith plan --insecure-skip-verify # user space is not packed here
  assert_error E_NO_PAYLOAD "driver 535.261.03, for /run/nvidia/driver: oci:packages: it has no payload"
  block host example 's#docker://[a-z./]*#oci:packages#' >kmodsmith.conf
  KMODSMITH_CONFIG=$PWD/kmodsmith.conf kmodsmith plan --insecure-skip-verify
  assert_status 0
  assert_line --partial "driver 535.261.03, open"
}

@test "docs: kernel-upgrades.md: watch, and the hooks" {
  signed
  kmodsmith "trust add" site.pem
  kmodsmith install --driver 535.261.03 --from oci:registry
  follow kernel-upgrades watch 's#docker://[^ ]*#oci:registry#'
  follow kernel-upgrades status "s#/run/#$ROOT&#"
  assert_output --partial '"kernels"'
  mkdir -p etc/kernel/postinst.d
  follow kernel-upgrades hooks "s#scripts/hooks/install.sh#$top/scripts/hooks/install.sh $PWD#"
  assert_file_exist etc/kernel/postinst.d/zz-kmodsmith
}

@test "docs: gpu-operator.md: the tags that are pushed" {
  mkdir -p bin scripts
  printf '#!/bin/sh\n[ "$1" = tags ] && exec %s/scripts/images.sh "$@"\ncat\n' "$top" >scripts/images.sh
  chmod +x scripts/images.sh
  follow gpu-operator tags
  assert_output "535.261.03-ubuntu24.04
535.261.03-rhel9"
}

@test "docs: rollouts.md: a kustomization with deploy/ as its base has all that a rollout needs, from the site's registry" {
  local file
  for file in namespace crd rbac agent-policy coordinator-policy coordinator daemonset-agent; do
    grep -qx "  - $file.yaml" "$top/deploy/kustomization.yaml"
  done
  block rollouts kustomize >kustomization.yaml
  block rollouts policy >policy.yaml
  echo key >site.pem
  mkdir kmodsmith && cp -r "$top/deploy" kmodsmith/deploy
  kubectl_needed
  kubectl kustomize . >made
  python3 - <<'END'
import glob, yaml
made = [d for d in yaml.safe_load_all(open("made")) if d]
def names(objects): return {(d["kind"], d["metadata"]["name"]) for d in objects}
base = [d for f in yaml.safe_load(open("kmodsmith/deploy/kustomization.yaml"))["resources"] for d in yaml.safe_load_all(open("kmodsmith/deploy/" + f)) if d]
assert names(made) == names(base) | {("ConfigMap", "kmodsmith-policy"), ("ConfigMap", "kmodsmith-parameters")}
pods = [d["spec"]["template"]["spec"]["containers"][0] for d in made if d["kind"] in ("DaemonSet", "Deployment")]
assert {c["image"] for c in pods} == {"registry.site.example/gpu/kmodsmith-runtime:0.1.0"}, pods
agent, = [{e["name"]: e.get("value") for e in c["env"]} for c in pods if c["name"] == "driver"]
assert agent["KMODSMITH_FROM"] == "docker://registry.site.example/gpu" and agent["KMODSMITH_TRUST_DIR"] == "/drivers" and "KMODSMITH_LISTEN" in agent, agent
assert "registry.example" not in open("made").read()
END
}

@test "docs: troubleshooting.md: the two messages, on a terminal and in a journal" {
  host h100x8
  kmodsmith status
  assert_shown "kmodsmith status" <<<"$output"
  host h100x2-unloaded
  kmodsmith install 535.261.03
  assert_shown "kmodsmith install 535.261.03" <<<"$stderr"
  : >journal
  run env JOURNAL_STREAM="$(stat -c %d:%i journal)" bash -c '"$0" install 535.261.03 --root "$1" 2>journal' "$KMODSMITH" "$ROOT"
  assert_failure
  grep '^<[0-3]>' journal | assert_shown "journalctl -t kmodsmith -p err" 's/^.* kmodsmith\[[0-9]+\]: /<3>/'
}

@test "docs: kubernetes.md: the image that is made of a .run is pushed and deployed, beside the compilers that it names" {
  local program
  mkdir -p bin scripts build/images/builder
  for program in scripts/{deps,images}.sh bin/{make,helm,kubectl}; do printf '#!/bin/sh\necho "${0##*/} $*"\n' >"$program" && chmod +x "$program"; done
  tiny_builder root.tar 99 6.1.0-56-cloud-amd64
  kmodsmith "pack builder" root.tar --arch x86_64 --output oci:build/images/builder/asset
  follow kubernetes images 's#docker://registry.example/drivers  *\##oci:registry \##'
  assert_line "images.sh driver --builder - --driver 580.95.05 NVIDIA-Linux-x86_64-580.95.05.run"
  assert_line "images.sh push build/images/driver/oci.tar docker://registry.example/drivers/kmodsmith-driver --tags 580.95.05"
  run grep -c '"builder-x86_64"' registry/index.json
  assert_output 1
  follow kubernetes chart
  assert_line --regexp '^helm install .* --set registry=registry.example/drivers --set-string driver.version=580.95.05$'
}

@test "docs: kubernetes.md and rollouts.md: the DaemonSets get the directory of the key and the repository" {
  kubectl_needed
  mkdir -p bin
  cat >bin/kubectl <<EOF
#!/bin/sh
case " \$* " in
*" --local "*) HOME=$PWD exec $(command -v kubectl) "\$@" ;;
*" -f - "*) cat >applied ;;
" apply "*) shift && ls \$(printf '%s\n' "\$@" | grep -vx -e -f) ;; # each manifest is there
esac
EOF
  ln -s "$top/deploy" deploy
  applied() {
    python3 -c 'import yaml
pod = yaml.safe_load(open("applied"))["spec"]["template"]["spec"]["containers"][0]
print(*[e["name"][10:] + "=" + e["value"] for e in pod["env"] if e["name"].startswith("KMODSMITH_")], *[m["mountPath"] for m in pod["volumeMounts"]])'
  }
  follow kubernetes daemonset
  assert_equal "$(applied)" "LISTEN=:9477 FROM=docker://registry.example/drivers TRUST_DIR=/drivers /drivers"
  follow kubernetes private
  assert_equal "$(applied)" "LISTEN=:9477 FROM=docker://registry.example/drivers TRUST_DIR=/drivers AUTH_FILE=/auth/.dockerconfigjson /auth /drivers"
  grep -q imagePullSecrets applied
  follow rollouts deploy
  assert_equal "$(applied)" "FROM=docker://registry.example/drivers LISTEN=:9477 TRUST_DIR=/drivers /drivers /policy"
}

# Every command line of ours in a page goes to the program itself, which reads all of it before it finds that this --log-format is
# none. In the text an option or a command may stand for itself, without what it needs.
@test "docs: every kmodsmith command in README, the pages, the manual and the helps has options and arguments that exist" {
  local name at kind words seen=0
  mkdir bin help
  for name in kmodsmith kubectl-kmodsmith; do ln -s "$(realpath "$KMODSMITH")" "bin/$name"; done
  while read -r name; do
    # shellcheck disable=SC2086 # a command may have two words
    "$KMODSMITH" $name --help | sed -n '/^Examples:/,/^$/{s/^  *//; s/   .*//; s/^/    /p}' >"help/${name// /-}.md"
  done < <(commands)
  "$KMODSMITH" explain --json | jq -r '.items[] | .next, (.causes[] | "`\(.command)`")' >help/codes.md
  [ "$(grep -c '`kmodsmith ' help/codes.md)" -gt 60 ]
  cp "$top/installer/cluster/node_state/reasons.def" help/reasons.md
  PATH=$PWD/bin:$PATH
  refused_for_the_format() { # FILE...
    while IFS=$'\t' read -r at kind words; do
      case $kind:$words in text:*COMMAND* | text:*GROUP* | text:*VERB* | text:"kmodsmith --version" | text:"kmodsmith rollout") continue ;; esac
      eval "run env $words --log-format none-such"
      [ "$kind" = block ] || [[ $output != *" needs "* && $output != *"does not take 'none-such'"* ]] || continue
      [[ $output == *"error: E_USAGE: --log-format 'none-such' is not one of text, json"* ]] || fail "$at: $words: $output"
      seen=$((seen + 1))
    done < <(python3 "$top/tests/cli/pages.py" list "$@")
  }
  refused_for_the_format "$top"/{README,CONTRIBUTING,docs/*}.md "$top"/docs/man/*.scd help/*.md
  [ "$seen" -gt 220 ]
  printf '    kmodsmith install %s\n' '--offline \
      --form docker://x' >wrong.md
  run refused_for_the_format wrong.md
  assert_output --partial "unknown option '--form'"
}

@test "docs: what pages tell kubectl, helm, podman and make is there: files, objects, values of the chart, targets" {
  cd "$top"
  run python3 tests/cli/pages.py wrong . README.md CONTRIBUTING.md tests/README.md docs/*.md docs/man/*.scd
  assert_output ""
  cat >"$BATS_TEST_TMPDIR/wrong.md" <<'END'
    kubectl apply -f deploy/none.yaml
    kubectl -n x exec daemonset/kmodsmith-none -- kmodsmith status
    helm install x deploy/helm/none
    helm upgrade x deploy/helm/kmodsmith --set mode=rollout,driver.number=1 --set-string driver.version=1 \
        --set-file 'trust.keys.site\.pem=site.pem' --set registry=x -f deploy/helm/none.yaml
    make none && make -j2 deps
    podman build -f images/None --build-arg NONE=1 --target none .
END
  run python3 tests/cli/pages.py wrong . "$BATS_TEST_TMPDIR/wrong.md"
  assert_equal "${output//"$BATS_TEST_TMPDIR/wrong.md:"[0-9]: /}" "kubectl: no file 'deploy/none.yaml'
kubectl: no object 'kmodsmith-none'
helm: no chart 'deploy/helm/none'
helm: no file 'deploy/helm/none.yaml'
helm: no value 'driver.number'
make: no target 'none'
podman: no file 'images/None'
podman: no argument 'NONE=1'
podman: no target 'none'"
}
