#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# build --matrix: bad files are named before anything is made; pairs are skipped, found, refused or failed in words, and
# one that fails keeps no other from its turn. (Real compiles are the matter of scripts/matrix.sh.)
# shellcheck disable=SC2154 # bats and helper.bash set stderr, top and ROOT
load helper
load package

driver=535.261.03 compiler=$(gcc --version | head -n 1)

setup() {
  cd "$BATS_TEST_TMPDIR" || return
  host no-gpu
  mkdir ci
  tiny_source tree
  mkdir tree/kernel-open/nvidia-uvm
  touch tree/kernel-open/{nvidia/nvidia,nvidia-uvm/nvidia-uvm}.Kbuild
  tar -cJf ci/open.tar.xz tree
}
headers() { # RELEASE [CONFIG-LINE]: a made-up tree of this machine, enough to be looked at
  local build=$ROOT/usr/src/linux-headers-$1
  mkdir -p "$build"/{scripts,include/{config,generated,linux}} "$ROOT/lib/modules/$1"
  printf 'CONFIG_%s\n' X86_64=y CC_IS_GCC=y "CC_VERSION_TEXT=\"$compiler\"" ${2:+"$2"} >"$build/.config"
  printf '0x1\tprintk\tvmlinux\tEXPORT_SYMBOL\t\n' >"$build/Module.symvers"
  printf '#define UTS_RELEASE "%s"\n' "$1" >"$build/include/generated/utsrelease.h"
  touch "$build"/{Makefile,include/generated/autoconf.h,include/linux/mm.h}
  ln -s "/usr/src/linux-headers-$1" "$ROOT/lib/modules/$1/build"
}
made() { # RELEASE [OPTION-OF-make_layout.py...]: out/ has the package that the pair would make
  mkdir -p ko
  tiny_module ko/nvidia.ko "$1" nvidia_register_module ""
  tiny_module ko/nvidia-uvm.ko "$1" "" nvidia_register_module
  python3 "$top/tests/services/make_layout.py" --driver "$driver" --kernel "$1" --label kernel.build-id= --label distro= \
    --label "compiler=$compiler" --label "source=$(sha256sum <ci/open.tar.xz | cut -c1-64)" "${@:2}" out ko/*.ko >/dev/null
}
matrix() { # JSON [OPTION...]
  printf '%s\n' "$1" >ci/m.json
  kmodsmith build --matrix ci/m.json --output oci:out --state-dir state "${@:2}"
}
of_pair() { jq -r --arg k "$1" '.pairs[] | select(.kernel == $k) | '"$2" <<<"$output"; } # KERNEL FILTER

@test "an invalid file, or one beside conflicting options, is named before anything is built" {
  while IFS='|' read -r text code says; do
    matrix "$text"
    assert_status 2
    assert_error "$code" "$says"
  done <<'EOF'
{|E_CONFIG|'ci/m.json': not valid JSON at line
{"drivers":[{"source":"open.tar.xz"}],"kernels":[]}|E_CONFIG|kernels is not a list with at least one entry
{"drivers":[{"source":"open.tar.xz"}],"kernels":[{"release":"6.1"}],"patch":"x"}|E_CONFIG|patch is unknown
EOF
  local whole='{"drivers":[{"source":"open.tar.xz"}],"kernels":[{"release":"6.1"}]}' option
  for option in --source=x --source-sha256=x --flavour=open --headers=x --modules=uvm --patches=x --kernel=6.1; do
    matrix "$whole" "$option"
    assert_error E_USAGE "${option%=*} cannot be combined with --matrix"
  done
  kmodsmith build --matrix none.json --state-dir state
  assert_status 1
  assert_regex "$stderr" 'error: E_[A-Z_]+: --matrix: .*none.json'
  matrix "$whole" --output=nowhere:x
  assert_error E_USAGE nowhere:x
  [ ! -e out ]
}

@test "each pair has one of five results, and a failure does not stop the others" {
  headers 6.1.0-1-amd64
  headers 6.1.0-1-rt-amd64 PREEMPT_RT=y
  made 6.1.0-1-amd64
  cp -r out was
  matrix '{"drivers":[{"source":"none.deb"},{"source":"open.tar.xz"}],"skip":[{"driver":"535.*","kernel":"5.*","why":"old"}],
    "kernels":[{"release":"5.10"},{"release":"6.1.0-1-rt-amd64"},{"release":"6.1.0-1-amd64"},{"release":"6.6"}]}' --json
  assert_status 1
  assert_json '[.built, .there, .skipped, .refused, .failed] | join(" ")' "0 1 1 1 5"
  assert_json '[.pairs[] | select(.source == "ci/none.deb") | .result + " " + .error.code] | unique[]' "failed E_NOT_FOUND"
  output=$(jq '.pairs |= map(select(.driver))' <<<"$output")
  assert_equal "$(of_pair 5.10 '.result + " " + .why')" "skipped old"
  assert_equal "$(of_pair 6.1.0-1-rt-amd64 '.result + " " + .error.code')" "refused E_SOURCE_KERNEL"
  assert_equal "$(of_pair 6.1.0-1-amd64 .result)" there
  assert_equal "$(of_pair 6.1.0-1-amd64 .digest)" "$(jq -r '.manifests[0].digest' out/index.json)"
  assert_equal "$(of_pair 6.6 '.result + " " + .error.code')" "failed E_HEADERS_NOT_FOUND"
  run diff -r --exclude .lock was out
  assert_success

  matrix '{"drivers":[{"source":"open.tar.xz"}],"kernels":[{"release":"6.1.0-1-rt-amd64"},{"release":"6.1.0-1-amd64"}]}'
  assert_status 0
  assert_line --regexp "^$driver +open +6.1.0-1-rt-amd64 +refused E_SOURCE_KERNEL .* PREEMPT_RT"
  assert_line --regexp "^$driver +open +6.1.0-1-amd64 +there .* sha256:[0-9a-f]{64}$"
  assert_line "0 built, 1 there, 0 fetched, 0 skipped, 1 refused, 0 failed"
}

@test "a package of other inputs is not taken for the pair's own" {
  headers 6.1.0-1-amd64
  local one='{"drivers":[{"source":"open.tar.xz","flavours":["open"]}],"kernels":[{"release":"6.1.0-1-amd64"}]}' label
  while read -r label; do
    rm -rf out
    made 6.1.0-1-amd64 --label "$label"
    matrix "$one" --json
    assert_json '.pairs[0].result' failed # what is to be compiled here is no driver
  done <<'EOF'
source=0000000000000000000000000000000000000000000000000000000000000000
compiler=gcc-12 of somebody else
patches=mine.patch 0000000000000000000000000000000000000000000000000000000000000000
kernel.build-id=0000000000000000000000000000000000000000000000000000000000000000
EOF
  rm -rf out
  made 6.1.0-1-amd64
  matrix "$one" --json
  assert_json '.pairs[0].result' there
  matrix "${one%\}},\"modules\":[\"nvidia\"]}" --json
  assert_json '.pairs[0].result' failed
  rm "$(blob out layer)"
  matrix "$one" --json
  assert_json '.pairs[0].result' failed
}

@test "a trusted package of a --from source is fetched instead of built, with its signatures" {
  headers 6.1.0-1-amd64
  local one='{"drivers":[{"source":"open.tar.xz"}],"kernels":[{"release":"6.1.0-1-amd64"}]}'
  made 6.1.0-1-amd64
  mv out site
  mkdir trust
  matrix "$one" --from oci:site --trust-dir trust --json
  assert_json '.pairs[0].result' failed # nobody vouches for it, and what is to be compiled here is no driver
  assert_regex "$stderr" 'site: .*(signed|trust)'
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key.pem 2>/dev/null
  openssl pkey -in key.pem -pubout -out site.pem
  "$KMODSMITH" trust add site.pem --trust-dir trust >/dev/null
  "$KMODSMITH" sign oci:site --key key.pem >/dev/null
  rm -rf out
  matrix "$one" --from oci:none,oci:site --trust-dir trust --json
  assert_status 0
  assert_json '[.built, .there, .fetched, .failed] | join(" ")' "0 0 1 0"
  assert_json '.pairs[0].digest' "$(jq -r '.manifests[] | select(.annotations["org.opencontainers.image.ref.name"] | startswith("535")).digest' site/index.json)"
  run --separate-stderr "$KMODSMITH" sign oci:out --key key.pem --json
  assert_json '[.packages[].changed] | join(" ")' false
  matrix "$one" --from oci:site --trust-dir trust --json
  assert_json '.pairs[0].result' there # the output is asked first
}

@test "a source's package with other inputs, or a damaged one, is not taken" {
  headers 6.1.0-1-amd64
  local one='{"drivers":[{"source":"open.tar.xz"}],"kernels":[{"release":"6.1.0-1-amd64"}]}'
  made 6.1.0-1-amd64 --label "compiler=gcc-12 of somebody else"
  mv out other
  matrix "$one" --from oci:other --insecure-skip-verify --json
  assert_json '.pairs[0].result' failed
  assert_regex "$stderr" 'other: its package was built with another compiler or other patches'
  made 6.1.0-1-amd64
  cp -r out good
  mv out bad
  printf x >>"$(blob bad layer)"
  matrix "$one" --from oci:bad --insecure-skip-verify --json
  assert_json '.pairs[0].result' failed
  matrix "$one" --from oci:other,oci:bad,oci:good --insecure-skip-verify --json
  assert_json '.pairs[0].result' fetched # each has its turn
}

@test "a source with another digest than in the file fails for every kernel" {
  headers 6.1.0-1-amd64
  matrix '{"drivers":[{"source":"open.tar.xz","sha256":"'"$(printf '0%.0s' {1..64})"'"}],
    "kernels":[{"release":"6.1.0-1-amd64"},{"release":"6.6"}]}' --json
  assert_status 1
  assert_json '[.pairs[].error.code] | join(" ")' "E_DIGEST E_DIGEST"
}

nodes() { # RELEASE...: what a cluster says of one node each, with more than is looked at
  jq -n '{apiVersion: "v1", kind: "List", items: [$ARGS.positional | to_entries[] | {kind: "Node",
    metadata: {name: "gpu-\(.key)", annotations: {"x": "y"}}, status: {images: [{sizeBytes: 1}],
    nodeInfo: {kernelVersion: .value, architecture: "amd64", osImage: "Debian"}}}]}' --args "$@"
}
@test "kernels come from nodes, each once, in addition to the file's; from a file or standard input" {
  headers 6.1.0-1-amd64
  made 6.1.0-1-amd64
  local drivers='{"drivers":[{"source":"open.tar.xz"}]'
  nodes 6.1.0-1-amd64 6.6.1 6.1.0-1-amd64 >nodes.json
  matrix "$drivers}" --nodes nodes.json --json
  assert_status 1
  assert_json '[.pairs[] | .kernel + " " + .result] | join(", ")' "6.1.0-1-amd64 there, 6.6.1 failed"
  matrix "$drivers}" --nodes nodes.json --json --partial
  assert_status 0
  assert_json '.failed' 1
  matrix "$drivers,\"kernels\":[{\"release\":\"6.1.0-1-amd64\"}]}" --nodes - --json < <(nodes 6.1.0-1-amd64)
  assert_status 0
  assert_json '[.pairs[].kernel] | join(" ")' 6.1.0-1-amd64
  matrix "$drivers}" --nodes - --json --partial < <(nodes 6.6.1)
  assert_status 1 # nothing is there that could be used
}

@test "--arch: nodes of that architecture, headers for it, its cross compiler, and a driver's compiled part for it" { # R-O1
  local drivers='{"drivers":[{"source":"open.tar.xz"}]' amd=6.1.0-1-amd64 arm=6.1.0-1-arm64
  compiler="gcc-99 (made up) 99.1.0" headers "$arm" GCC_VERSION=990100
  headers "$amd" MODULES=y
  sed -i 's/CONFIG_X86_64/CONFIG_ARM64/' "$ROOT/usr/src/linux-headers-$arm/.config"
  nodes "$amd" "$arm" | jq '.items[1].status.nodeInfo.architecture = "arm64"' >nodes.json
  matrix "$drivers}" --nodes nodes.json --arch arm64 --json
  assert_status 1
  assert_json '[.pairs[] | .kernel + " " + .error.code] | join(", ")' "$arm E_TOOLCHAIN"
  assert_json '.pairs[0].error.text | test("expected aarch64-linux-gnu-gcc 99, found in")'
  matrix "$drivers,\"kernels\":[{\"release\":\"$amd\"}]}" --arch aarch64 --json
  assert_json '.pairs[0].error.code' E_ARCH
  assert_json '.pairs[0].error.text | test("the headers of 6.1.0-1-amd64 are for x86_64, expected aarch64")'
  kmodsmith check --kernel "$amd" --arch arm64 --state-dir state
  assert_error E_ARCH "are for x86_64, expected aarch64"
  matrix "$drivers,\"kernels\":[{\"release\":\"$amd\"}]}" --arch mips
  assert_error E_USAGE "--arch 'mips' is not one of x86_64 (amd64), aarch64 (arm64)"
  { printf '\177ELF\2\1\1'; printf '\0%.0s' {1..9}; printf '\1\0\076'; printf '\0%.0s' {1..45}; } >tree/kernel-open/nvidia/nv-kernel.o_binary
  tar -cJf ci/open.tar.xz tree
  matrix "$drivers,\"kernels\":[{\"release\":\"$arm\"}]}" --json
  assert_json '.pairs[0].error.code' E_ARCH
  assert_json '.pairs[0].error.text | test("nv-kernel.o_binary. of driver 535.261.03 is for x86_64, kernel 6.1.0-1-arm64 is for aarch64")'
}

@test "input that is not a list of nodes is refused; a node with invalid values is skipped" {
  headers 6.1.0-1-amd64
  made 6.1.0-1-amd64
  local drivers='{"drivers":[{"source":"open.tar.xz"}]}' text
  matrix "$drivers" --nodes none.json
  assert_error E_NOT_FOUND "--nodes: "
  while read -r text; do
    matrix "$drivers" --nodes - <<<"$text"
    assert_error E_CONFIG "'-'"
  done <<'EOF'
no json
{"kind":"Node"}
{"items":[]}
{"items":[{"status":{"nodeInfo":{"kernelVersion":"$(reboot)"}}}]}
EOF
  truncate -s 1G huge
  matrix "$drivers" --nodes huge
  assert_error E_TOO_LARGE "'huge'"
  matrix "$drivers" --nodes - --json < <(nodes 6.1.0-1-amd64 '../../etc')
  assert_status 0
  assert_regex "$stderr" "items\[1\] \(node 'gpu-1'\) reports something that is not a kernel release; 1 such nodes"
  assert_json '[.pairs[] | .kernel + " " + .result] | join(", ")' "6.1.0-1-amd64 there"
}

@test "--no-compile only says whether everything is there" {
  headers 6.1.0-1-amd64
  local one='{"drivers":[{"source":"open.tar.xz"}],"kernels":[{"release":"6.1.0-1-amd64"}]}' option
  matrix "$one" --no-compile --json
  assert_status 1
  assert_json '.pairs[0].error.code' E_NO_PACKAGE
  made 6.1.0-1-amd64
  matrix "$one" --no-compile --json
  assert_status 0
  assert_json '.pairs[0].result' there
  for option in --no-compile --partial --nodes=x; do
    kmodsmith build --source ci/open.tar.xz "$option"
    assert_error E_USAGE "${option%=*} requires --matrix"
  done
}
