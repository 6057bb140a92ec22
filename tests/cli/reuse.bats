#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A package of another kernel on a recorded machine: it serves when every CRC is equal and the policy lets it, is known
# again, and is refused with the symbols otherwise, before anything is asked of the kernel.
# shellcheck disable=SC2153,SC2154 # bats and helper.bash set stderr, top and ROOT
load helper
load package

here=6.1.0-56-cloud-amd64 before=6.1.0-55-cloud-amd64 later=6.1.0-57-cloud-amd64
same="module_layout=0x1 kfree=0x2"

table() { # KERNEL SYMBOL=0xCRC...: what a kernel with modversions exports
  local kernel=$1 tree=$ROOT/lib/modules/$1 entry
  mkdir -p "$tree/build"
  printf 'CONFIG_%s=y\n' MODULES X86_64 SMP PREEMPT_BUILD MODULE_UNLOAD MODVERSIONS >"$tree/config"
  touch "$tree/modules.dep"
  for entry in "${@:2}"; do printf '0x%08x\t%s\tvmlinux\tEXPORT_SYMBOL\t\n' "${entry#*=}" "${entry%=*}"; done >"$tree/build/Module.symvers"
}
offer() { # KERNEL CRCS [OPTION...]: the package of a kernel, in $package; its modules are in $package.d
  rm -rf "$package" "$package.d" && mkdir -p "$package.d"
  CRCS=$2 tiny_module "$package.d/nvidia.ko" "$1" nvidia_register_module ""
  CRCS=module_layout=${2#*=} && CRCS=${CRCS%% *}
  export CRCS
  tiny_module "$package.d/nvidia-uvm.ko" "$1" "" nvidia_register_module
  tiny_module "$package.d/nvidia-modeset.ko" "$1" "" nvidia_register_module
  unset CRCS
  layout "$package" "$1" "${@:3}"
}
boot() { # KERNEL: into it, with nothing loaded
  echo "$1" >"$ROOT/proc/sys/kernel/osrelease"
  sed -i -E "s/^Linux version [^ ]+/Linux version $1/" "$ROOT/proc/version"
  cat /proc/sys/kernel/random/uuid >"$ROOT/proc/sys/kernel/random/boot_id"
  rm -rf "${ROOT:?}/run" "$ROOT"/sys/module/nvidia*
}
setup() {
  package=$BATS_TEST_TMPDIR/package
  loadable
  # shellcheck disable=SC2086 # words
  table "$here" $same
  offer "$before" "$same"
  snapshot
}
untouched() {
  assert_equal "$(calls)" ""
  rm -rf "${ROOT:?}/run" "${ROOT:?}/var"
  assert_unchanged
}

@test "a package of the previous kernel serves: planned, loaded, reported, kept, and found again" {
  kmodsmith plan --package "$package" --json
  assert_status 0
  assert_json .compatible.made_for "$before"
  assert_json '.steps[] | select(.step == "package").why | startswith("compatible: made for kernel 6.1.0-55-cloud-amd64, nvidia")'
  assert_json '.steps[] | select(.step == "package").why | endswith("equal lib/modules/6.1.0-56-cloud-amd64/build/Module.symvers of 6.1.0-56-cloud-amd64")'
  kmodsmith install --package "$package"
  assert_status 0
  assert_line --regexp "^pass +package +compatible \(made for $before\)"
  kmodsmith status --json
  assert_status 0
  assert_json .compatible.made_for "$before"
  assert_equal "$(jq -r .compatible.made_for "$ROOT/run/kmodsmith/status.json")" "$before"
  kmodsmith "store ls"
  assert_line --regexp " $before .* target,last-good,compatible with $here"
  kmodsmith "store ls" --json
  assert_json '.items[0].compatible_with[0]' "$here"
  rm -r "$package" "$ROOT/.sys-calls"
  snapshot
  kmodsmith install --driver 535.261.03 --json
  assert_json .plan.outcome adopt
  assert_json .plan.compatible.made_for "$before"
  assert_unchanged
  rm "$ROOT/run/kmodsmith/loaded.json" # whose driver it is is known to the store, too
  kmodsmith install --driver 535.261.03 --flavour open --json
  assert_status 0
  assert_json .plan.outcome adopt
  assert_equal "$(calls)" ""
}

@test "a reboot into the next kernel loads from the store; going back finds the package of that kernel" {
  boot "$before"
  # shellcheck disable=SC2086
  table "$before" $same
  kmodsmith install --package "$package"
  assert_status 0
  rm -r "$package"
  boot "$here"
  kmodsmith install --driver 535.261.03 --json
  assert_status 0
  assert_json .plan.compatible.made_for "$before"
  assert_json '[.phases[].phase] | join(",")' detect,reuse,preflight,package,prove,load,nodes,gpus,verify
  boot "$here" # taken once, it is not looked for again
  kmodsmith install --driver 535.261.03 --json
  assert_status 0
  assert_json .plan.compatible.made_for "$before"
  assert_json '[.phases[].phase] | join(",")' detect,preflight,package,prove,load,nodes,gpus,verify
  boot "$before"
  kmodsmith install --driver 535.261.03 --json
  assert_status 0
  assert_json .plan.compatible null
  assert_json .status.compatible null
}

@test "garbage collection keeps what serves an installed kernel, and no longer" {
  kmodsmith install --package "$package"
  assert_status 0
  mkdir -p "$ROOT/lib/modules/$later"
  offer "$later" "module_layout=0x9"
  # shellcheck disable=SC2086
  table "$later" module_layout=0x9
  boot "$later"
  kmodsmith install --package "$package"
  assert_status 0
  kmodsmith "store gc" --json
  assert_json '.packages | length' 0
  rm -r "$ROOT/lib/modules/$here"
  kmodsmith "store gc" --json
  assert_json '.packages | length' 1
  assert_json '.packages[0] | contains("6.1.0-55")'
}

@test "a mismatch is refused with the first six symbols, and nothing is touched" {
  local many=module_layout=0x9 i
  for i in {10..23}; do many+=" symbol_$i=0x$i"; done
  # shellcheck disable=SC2046,SC2086
  table "$here" ${many//=0x/=0x7}
  offer "$before" "$many"
  snapshot
  kmodsmith install --package "$package"
  assert_error E_ABI "nvidia made for $before: 15 CRCs differ: module_layout, symbol_10, symbol_11"
  assert_error E_ABI "symbol_14 and 9 more"
  kmodsmith plan --package "$package" --json
  assert_json .error.code E_ABI
  assert_json '.error.text | contains("symbol_14 and 9 more")'
  kmodsmith check --package "$package" --json
  assert_status 20
  assert_json .code E_ABI
  assert_json '.reason | contains("symbol_18 00000018/00000718 and 5 more")'
  untouched
}

@test "unknown is not compatible" {
  while IFS='|' read -r code crcs damage text; do
    # shellcheck disable=SC2086
    table "$here" $same
    offer "$before" "$crcs"
    (cd "$ROOT/lib/modules/$here" && eval "$damage")
    kmodsmith install --package "$package"
    assert_error "$code" "$text"
    assert_equal "$(calls)" ""
  done <<'EOF'
E_ABI|module_layout=0x1 kfree=0x2|rm build/Module.symvers|no CRCs of 6.1.0-56-cloud-amd64 are known to compare with
E_ABI|module_layout=0x1 kfree=0x2|sed -i /module_layout/d build/Module.symvers|the CRC of module_layout of 6.1.0-56-cloud-amd64 is not known
E_ABI|module_layout=0x1 kfree=0x2|sed -i s/0x00000002/0x00000000/ build/Module.symvers|the CRC of kfree (vmlinux) of 6.1.0-56-cloud-amd64 is not known
E_ABI|module_layout=0x1 kfree=0x2|sed -i /PREEMPT/d config|should be '6.1.0-56-cloud-amd64 SMP mod_unload modversions '
E_SYMBOL|module_layout=0x1 gone=0x2|:|nothing exports gone
EOF
}

@test "the policy: off, the same series, any; another compiler is never accepted" {
  while IFS='|' read -r kernel policy label code text; do
    # shellcheck disable=SC2086
    offer "$kernel" "$same" ${label:+--label "$label"}
    kmodsmith plan --package "$package" ${policy:+--reuse "$policy"} --json
    if [ "$code" = 0 ]; then
      assert_status 0
      assert_json .compatible.made_for "$kernel"
    else
      assert_error "$code" "$text"
    fi
    [ -n "$policy" ] || continue
    kmodsmith check --package "$package" --reuse "$policy"
    assert_status "$([ "$code" = 0 ] && echo 10 || echo 20)"
  done <<'EOF'
6.1.0-55-cloud-amd64|off||E_NO_PACKAGE|kernel release is 6.1.0-55-cloud-amd64
6.1.0-55-cloud-amd64|||0|
6.1.0-55-amd64|series||E_NO_PACKAGE|not of the series of 6.1.0-56-cloud-amd64
6.12.0-55-cloud-amd64|series||E_NO_PACKAGE|not of the series of 6.1.0-56-cloud-amd64
6.12.0-55-cloud-amd64|on||0|
6.1.0-55-cloud-amd64|series|distro=ubuntu|E_NO_PACKAGE|(ubuntu), not of the series
6.1.0-55-cloud-amd64|on|compiler=gcc (made up) 11.1.0|E_NO_PACKAGE|with 'gcc (made up) 11.1.0', the kernel with 'gcc-12
6.1.0-55-cloud-amd64|on|compiler=|E_NO_PACKAGE|an unknown compiler
EOF
  kmodsmith plan --package "$package" --reuse yes
  assert_status 2
  assert_error E_USAGE "--reuse 'yes' is not one of off, series, on"
}

@test "a package with a false kernel or compiler" {
  offer 6.1.0-54-cloud-amd64 "$same"
  layout "$package" "$before"
  kmodsmith install --package "$package"
  assert_error E_ABI "labelled as made for $before, but its nvidia"
  COMPILER="GCC: (made up) 11.3.0" offer "$before" "$same"
  kmodsmith install --package "$package"
  assert_error E_ABI "compiled with 'gcc (made up) 12.2.0', but its nvidia"
  kmodsmith check --package "$package"
  assert_status 20
  untouched
}

@test "the best of many: same series, newest kernel; a package made for this kernel comes first" {
  local kernel
  kmodsmith install --package "$package" --modules nvidia
  assert_status 0
  rm -rf "${ROOT:?}/var" "$ROOT/.sys-calls"
  boot "$here"
  mkdir "$BATS_TEST_TMPDIR/all"
  for kernel in 6.2.0-99-cloud-amd64 6.1.0-9-cloud-amd64 6.1.0-54-cloud-amd64; do
    offer "$kernel" "$same"
    cp -r "$package"/* "$BATS_TEST_TMPDIR/all" 2>/dev/null || true
    python3 "$top/tests/services/make_layout.py" --kernel "$kernel" --label kernel.build-id= "$BATS_TEST_TMPDIR/many" "$package.d"/*.ko
  done
  kmodsmith plan --package "$BATS_TEST_TMPDIR/many" --reuse on --json
  assert_json .compatible.made_for 6.1.0-54-cloud-amd64
  offer "$here" "$same"
  python3 "$top/tests/services/make_layout.py" --kernel "$here" --label kernel.build-id= "$BATS_TEST_TMPDIR/many" "$package.d"/*.ko
  kmodsmith plan --package "$BATS_TEST_TMPDIR/many" --reuse on --json
  assert_json .compatible null
}

@test "a request for the other module type searches the store; a loaded driver that matches needs no proof" {
  kmodsmith install --package "$package"
  assert_status 0
  offer "$before" "$same" --flavour proprietary
  kmodsmith fetch --driver 535.261.03 --flavour proprietary --kernel "$before" --from "oci:$package" --insecure-skip-verify
  assert_status 0
  kmodsmith plan --driver 535.261.03 --flavour proprietary --json
  assert_json .compatible.made_for "$before"
  assert_json '[.steps[].step] | join(",")' preflight,package,prove,unload,load,nodes,verify
  rm "$ROOT/var/lib/kmodsmith/roots.json"
  kmodsmith plan --driver 535.261.03 --flavour open --json
  assert_json .outcome adopt
  [[ $stderr != *" reuse "* ]]
}

@test "a package that serves another kernel needs its signature like every package, and that is recorded" {
  local key=$BATS_TEST_TMPDIR/key.pem
  openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$key"
  openssl pkey -in "$key" -pubout -out "$key.pub"
  "$KMODSMITH" sign "oci:$package" --key "$key"
  kmodsmith "trust add" "$key.pub" --name ours
  kmodsmith install --driver 535.261.03 --from "oci:$package"
  assert_status 0
  boot "$here"
  kmodsmith install --driver 535.261.03
  assert_status 0
  boot "$here"
  kmodsmith "trust remove" ours
  rm "$ROOT/.sys-calls"
  kmodsmith install --driver 535.261.03
  assert_error E_UNTRUSTED "signed by ours (key "
  assert_equal "$(calls)" ""
  rm -r "$ROOT/var/lib/kmodsmith"
  kmodsmith install --driver 535.261.03 --from "oci:$package" --insecure-skip-verify
  assert_status 0
  kmodsmith "store ls" --json
  assert_json '.items[0].vouched.origin' unverified
}

@test "with a source: no compile if the proof holds, a compile if not, the symbols if compiling is forbidden" {
  tiny_source "$BATS_TEST_TMPDIR/source"
  kmodsmith plan --package "$package" --source "$BATS_TEST_TMPDIR/source" --json
  assert_json '[.steps[].step] | join(",")' preflight,package,prove,load,nodes,verify
  table "$here" module_layout=0x1 kfree=0x3
  kmodsmith plan --package "$package" --source "$BATS_TEST_TMPDIR/source" --json
  assert_json '[.steps[].step] | join(",")' preflight,compile,prove,load,nodes,verify
  kmodsmith plan --package "$package" --source "$BATS_TEST_TMPDIR/source" --no-compile
  assert_error E_ABI "nvidia made for $before: 1 CRCs differ: kfree"
}

@test "R-F1: this kernel's package serves the next kernel if every CRC is equal; the report tells them apart" {
  kmodsmith install --package "$package"
  assert_status 0
  # shellcheck disable=SC2086 # words
  table "$later" $same
  touch "$ROOT/lib/modules/$later"/{modules.builtin,vmlinuz}
  built() { echo 'CONFIG_CC_VERSION_TEXT="gcc (made up) 12.2.0"' >>"$ROOT/lib/modules/$later/config"; }
  kmodsmith watch --once
  assert_line --regexp "^$later may start next: impossible: E_NO_PACKAGE: .*the kernel with 'an unknown one'"
  built
  kmodsmith watch --once --reuse on
  assert_status 0
  assert_output --regexp "$later may start next: ready: 535.261.03-open-$before-x86_64: nvidia.* made for|$later may start next: ready: .*$before"
  kmodsmith watch --once --reuse off
  assert_status 1
  assert_line --regexp "^$later may start next: impossible: E_NO_PACKAGE"
  table "$later" module_layout=0x1 kfree=0x3
  built
  kmodsmith watch --once --reuse on
  assert_status 1
  assert_line --regexp "^$later may start next: impossible: E_ABI: .*kfree"
}
