#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# NVIDIA's open source release as it is published: its core is compiled first (kmod/build/core.h). Release and kernel tree
# are made up, and small; make, compiler, ccache and sandbox are this machine's.
# shellcheck disable=SC2154,SC2016,SC2030,SC2031 # bats and helper.bash set output, stderr, top and ROOT; make's variables
load helper
load package

kernel=6.1.0-56-cloud-amd64 version=595.45.04
setup() {
  work=$BATS_TEST_TMPDIR state=$BATS_TEST_TMPDIR/state driver=$BATS_TEST_TMPDIR/driver
  log=$state/logs/$version-open-$kernel.log
  tiny_headers "$work/headers.tar" "$kernel"
  compiling_tree "$work/headers.tar.d/usr/src/kernels/$kernel"
  built_with "$(gcc -dumpversion | cut -d. -f1)" "$work/headers.tar" "$kernel"
  release_source "$driver" "$version"
  host h100x2-unloaded
  tiny_firmware "$version"
}
build() { # MODULES OPTION...
  kmodsmith build --source "$driver" --kernel "$kernel" --flavour open --modules "$1" --headers "$work/headers.tar" \
    --state-dir "$state" --output "oci:$work/layout" --json "${@:2}"
}
compiled() { grep -cE '^ \[ '"$1"' +\]  CC ' "$log" || true; } # objects of a core
core_note() { jq -r '.phases[] | select(.phase == "core") | .note' <<<"$output"; }
core_of() { # MODULE: the core in the module of the package that was made last
  local manifest
  manifest=$work/layout/blobs/sha256/$(jq -r '.digest[7:]' <<<"$output")
  tar --zstd -xOf "$work/layout/blobs/sha256/$(jq -r '.layers[0].digest[7:]' "$manifest")" --wildcards "*$1.ko" >"$work/$1.ko"
  objcopy -O binary --only-section .core --set-section-flags .core=alloc "$work/$1.ko" "$work/core"
  strings -n 4 "$work/core"
}

@test "R-B10, R-C2: a published release: the core is compiled once, without what tells of machine and time, and is in the module" {
  build nvidia --jobs 3
  assert_status 0
  assert_equal "$(core_note)" "nvidia: 3 objects, 0 of them from the cache, 3 jobs"
  assert_equal "$(jq -c '[.phases[].phase]' <<<"$output")" '["headers","source","core","compile","prove","package"]'
  assert_equal "$(compiled nvidia) $(compiled nvidia-modeset)" "2 0"
  run grep -c "made with: .*-j3" "$log"
  assert_output 1
  build nvidia
  local first made
  first=$(jq -r .digest <<<"$output") made=$(core_of nvidia)
  assert_status 0
  assert_equal "$(core_note)" "nvidia: from the cache"
  assert_equal "$(compiled nvidia)" 0
  grep -Fqx "nvidia id: $version  (kmodsmith@kmodsmith)  Thu Jan 1 00:00:00 UTC 1970" <<<"$made"
  grep -Fqx src/two.c <<<"$made"
  build nvidia --no-cache
  assert_equal "$(compiled nvidia) $(jq -r .digest <<<"$output")" "2 $first"
  mv "$driver" "$work/elsewhere" && driver=$work/elsewhere state=$work/other && log=$state/logs/${log##*/}
  mkdir "$driver/.git" "$driver/src/nvidia/_out" && date >"$driver/.git/index"
  kmodsmith build --source "$driver" --kernel "$kernel" --flavour open --modules nvidia --headers "$work/headers.tar" \
    --state-dir "$state" --output "oci:$work/layout" --json
  assert_status 0
  assert_equal "$(compiled nvidia) $(jq -r .digest <<<"$output")" "2 $first"
}

@test "a tarball of it, with what an earlier make left: the same modules" {
  build nvidia,modeset
  assert_status 0
  assert_equal "$(compiled nvidia) $(compiled nvidia-modeset)" "2 2"
  local cores
  cores="$(core_of nvidia) $(core_of nvidia-modeset)"
  mkdir -p "$driver/src/nvidia/_out/Linux_x86_64" && echo old >"$driver/src/nvidia/_out/Linux_x86_64/nv-kernel.o"
  ln -s ../../src/nvidia-modeset/_out/Linux_x86_64/nv-modeset-kernel.o "$driver/kernel-open/nvidia-modeset/nv-modeset-kernel.o_binary"
  tar -czf "$work/release.tar.gz" -C "$work" --transform 's,^driver,open-gpu-kernel-modules,' driver
  driver=$work/release.tar.gz
  build nvidia,modeset --source-sha256 "$(sha256sum <"$driver" | cut -d' ' -f1)"
  assert_status 0
  assert_equal "$(core_note)" "nvidia, nvidia-modeset: from the cache"
  assert_equal "$(core_of nvidia) $(core_of nvidia-modeset)" "$cores"
}

@test "only the cores of the modules that are built, and none again for more modules" {
  build nvidia
  assert_equal "$(compiled nvidia) $(compiled nvidia-modeset)" "2 0"
  build modeset
  assert_status 0
  assert_equal "$(compiled nvidia) $(compiled nvidia-modeset)" "0 2"
  [[ $(core_note) == "nvidia-modeset: 3 objects, "*" job"*"; from the cache: nvidia" ]]
}

@test "a cached core that was changed or cut short is compiled again, and eight are kept" {
  build nvidia
  local first cores=$state/cache/cores file
  first=$(jq -r .digest <<<"$output")
  file=$(echo "$cores"/*)
  printf x >>"$file"
  build nvidia
  assert_equal "$(jq -r .digest <<<"$output")" "$first"
  [[ $(core_note) == "nvidia: 3 objects, "* ]]
  assert_equal "$(echo "$cores"/*)" "$file"
  for n in 1 2 3 4 5 6 7 8; do cp -p "$file" "$cores/$n" && touch -d "2020-01-0$n" "$cores/$n"; done
  echo 'const int n;' >>"$driver/src/nvidia/src/two.c"
  build nvidia
  assert_equal "$(find "$cores" -mindepth 1 | wc -l)" 9 # one is removed for each that is added
  refute [ -e "$cores/1" ]
}

@test "an error in src/: E_BUILD with the compiler's first line, the log stays, and the next compile goes on" {
  cp "$driver/src/nvidia/src/two.c" "$work/good.c"
  echo 'int broken(void) { return missing; }' >>"$driver/src/nvidia/src/two.c"
  build nvidia
  assert_error E_BUILD "the core of driver $version, below src/: src/two.c:2:27: error: 'missing' undeclared"
  [[ $stderr == *"the compiler's full output is in $log"* ]]
  grep -q "missing" "$log"
  assert_not_exist "$work/layout/index.json"
  assert_equal "$(find "$state/cache/cores" -type f | wc -l)" 0
  cp "$work/good.c" "$driver/src/nvidia/src/two.c"
  build nvidia
  assert_status 0
}

@test "R-H2: killed half-way, the next compile of the core uses what was compiled" {
  needs_seccomp
  echo 2 >"$driver/slow"
  "$KMODSMITH" build --root "$ROOT" --source "$driver" --kernel "$kernel" --flavour open --modules nvidia \
    --headers "$work/headers.tar" --state-dir "$state" --output "oci:$work/layout" --jobs 1 >/dev/null 2>&1 3>&- &
  soon grep -q "CC           src/two.c" "$log" # so the first object is there
  kill -KILL $! && { wait $! || true; }
  assert_not_exist "$work/layout/index.json"
  build nvidia --jobs 1
  assert_status 0
  [[ $(core_note) == "nvidia: 3 objects, "[123]" of them from the cache, 1 job" ]] || told | fail
  assert_equal "$(find "$state" -mindepth 1 -maxdepth 2 -name 'build*' | wc -l)" 0
}

@test "a full disk while the core is compiled: an error, nothing is left, and with room it succeeds" {
  needs_seccomp
  echo 'char big[16 << 20] = { 1 };' >>"$driver/src/nvidia/src/one.c"
  mkdir "$state"
  run --separate-stderr unshare -m --propagation private bash -c 'mount -t tmpfs -o size=8m state "$0" && "$@" ||
    { find "$0" ! -path "$0/headers/*" -size +64k; exit 1; }' "$state" "$KMODSMITH" build --root "$ROOT" --source "$driver" \
    --kernel "$kernel" --flavour open --modules nvidia --headers "$work/headers.tar" --state-dir "$state" --output "oci:$work/layout"
  assert_error E_BUILD "the core of driver $version, below src/: "
  [[ $stderr == *"No space left on device"* ]] || told | fail
  assert_output ""
  assert_not_exist "$work/layout/index.json"
  build nvidia
  assert_status 0
}

@test "check and plan: a build is needed and possible, nothing is compiled" {
  cp -a "$work/headers.tar.d/." "$ROOT"
  kmodsmith check --source "$driver" --kernel "$kernel" --flavour open --headers "$work/headers.tar" --state-dir "$state"
  assert_status 20
  kmodsmith plan --source "$driver" --flavour open --state-dir "$state" --json
  assert_status 0
  assert_json .driver $version
  assert_not_exist "$log"
}

@test "a toolchain without what the core alone needs: E_TOOLCHAIN names it, for check as well" {
  tiny_builder "$work/builder.tar" 99 "$kernel"
  built_with 99 "$work/headers.tar" "$kernel"
  "$KMODSMITH" pack builder "$work/builder.tar" --state-dir "$state" --arch "$(uname -m)"
  build nvidia
  assert_error E_TOOLCHAIN "no objcopy in "
  echo 'SRCS_CXX += src/three.cpp' >>"$driver/src/nvidia/srcs.mk"
  build nvidia
  assert_error E_TOOLCHAIN "no g++-99 in "
  [[ $stderr == *"the core of nvidia in NVIDIA's source release (src/nvidia)"* ]]
}

@test "kernel-open/ of a release alone: refused, and the directory to pass is named" {
  kmodsmith build --source "$driver/kernel-open" --kernel "$kernel" --headers "$work/headers.tar" --state-dir "$state"
  assert_error E_SOURCE "pass the directory that has its Makefile, kernel-open/ and src/"
}
