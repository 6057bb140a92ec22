#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# CDI specifications of recorded machines, and the hooks that they name. A real runtime reads one in tests/services.
# shellcheck disable=SC2154 # bats and helper.bash set output, stderr, top and ROOT
load helper
load package

V=535.261.03
lib=usr/lib/x86_64-linux-gnu
user_space() { # DIR: libraries and programs of the driver, and ours
  mkdir -p "$1"/{$lib,usr/bin,usr/libexec,lib/firmware/nvidia/$V}
  touch "$1/$lib"/lib{cuda,nvidia-ml}.so.$V "$1"/usr/bin/nvidia-{smi,debugdump} "$1/usr/libexec/kmodsmith"
  touch "$1/lib/firmware/nvidia/$V/gsp_ga10x.bin"
  ln -s libcuda.so.$V "$1/$lib/libcuda.so.1"
  ln -s libnvidia-ml.so.$V "$1/$lib/libnvidia-ml.so.1"
}
machine() { # with its nodes, and a user space exported
  host h100x8
  kmodsmith nodes
  assert_status 0
  user_space "$ROOT/run/nvidia/driver"
}
generate() { kmodsmith "cdi generate" --export /run/nvidia/driver "$@"; }

@test "cdi generate: eight GPUs, byte for byte, twice the same, and nothing changes" {
  machine
  snapshot
  generate
  assert_status 0
  run diff -u "$top/tests/cli/cdi-h100x8.json" - <<<"$output"
  assert_success
  assert_unchanged
}

@test "cdi generate: what graphics and OpenCL look for, wherever it is, at the place where a container's loaders look" {
  local root file spec
  machine
  root=$ROOT/run/nvidia/driver
  for file in etc/OpenCL/vendors/nvidia.icd usr/share/vulkan/icd.d/nvidia_icd.x86_64.json etc/glvnd/egl_vendor.d/10_nvidia.json \
    usr/share/egl/egl_external_platform.d/15_nvidia_gbm.json $lib/libnvidia-egl-gbm.so.1.1.0 $lib/libnvidia-nvvm70.so.4 \
    $lib/libnvidia-allocator.so.$V $lib/libGLX_nvidia.so.$V $lib/libnvidia-vulkan-producer.so.$V \
    $lib/libnvidia-egl-other.so.1.1.0 usr/lib/xorg/modules/extensions/libglxserver_nvidia.so.$V \
    $lib/nvidia/xorg/nvidia_drv.so usr/lib/xorg/modules/drivers/nvidia_drv.so lib/firmware/nvidia/$V/ucodes_gb10x.bin; do
    mkdir -p "$root/${file%/*}"
    touch "$root/$file"
  done
  ln -s libnvidia-egl-gbm.so.1.1.0 "$root/$lib/libnvidia-egl-gbm.so.1"
  ln -s libnvidia-allocator.so.$V "$root/$lib/libnvidia-allocator.so.1"
  generate
  assert_status 0
  spec=$output
  run diff -u - <(jq -r '.containerEdits.mounts[] | "\(.hostPath | ltrimstr("/run/nvidia/driver")) \(.containerPath)"' <<<"$spec" |
    awk '$1 ~ "egl|OpenCL|vulkan|GLX|xorg|nvvm|allocator|ucodes" { print ($1 == $2 ? $1 : $0) }' | sort) <<EOF
/etc/OpenCL/vendors/nvidia.icd
/etc/glvnd/egl_vendor.d/10_nvidia.json /usr/share/glvnd/egl_vendor.d/10_nvidia.json
/lib/firmware/nvidia/$V/ucodes_gb10x.bin
/usr/lib/x86_64-linux-gnu/libGLX_nvidia.so.$V
/usr/lib/x86_64-linux-gnu/libnvidia-allocator.so.$V
/usr/lib/x86_64-linux-gnu/libnvidia-egl-gbm.so.1.1.0
/usr/lib/x86_64-linux-gnu/libnvidia-nvvm70.so.4
/usr/lib/x86_64-linux-gnu/libnvidia-vulkan-producer.so.$V
/usr/lib/x86_64-linux-gnu/nvidia/xorg/nvidia_drv.so
/usr/lib/xorg/modules/extensions/libglxserver_nvidia.so.$V
/usr/share/egl/egl_external_platform.d/15_nvidia_gbm.json
/usr/share/vulkan/icd.d/nvidia_icd.x86_64.json /etc/vulkan/icd.d/nvidia_icd.x86_64.json
EOF
  assert_success
  run jq -r '.containerEdits.hooks[] | select(.args[2] == "links") | .args[3:][]' <<<"$spec"
  assert_line "../libnvidia-allocator.so.1::/$lib/gbm/nvidia-drm_gbm.so"
  assert_line "libglxserver_nvidia.so.$V::/usr/lib/xorg/modules/extensions/libglxserver_nvidia.so"
  assert_line "libnvidia-egl-gbm.so.1.1.0::/$lib/libnvidia-egl-gbm.so.1"
  assert_line "libGLX_nvidia.so.$V::/$lib/libGLX_indirect.so.0"
  assert_line "libnvidia-vulkan-producer.so.$V::/$lib/libnvidia-vulkan-producer.so"
}

@test "cdi generate: only members of the specification, and all required ones" {
  machine
  generate
  # Readers refuse a file with a member that they do not know (SPEC.md, "spec loading fails on unknown fields").
  assert_json '[keys[]] | join(",")' cdiVersion,containerEdits,devices,kind
  assert_json '[.. | objects | select(has("path") and has("type")) | keys | join(",")] | unique[]' \
    fileMode,major,minor,path,permissions,type
  assert_json '[.. | objects | select(has("hookName")) | keys | join(",")] | unique[]' args,env,hookName,path,timeout
  assert_json '[.. | objects | select(has("hostPath")) | keys | join(",")] | unique[]' containerPath,hostPath,options
  assert_json '[.devices[].containerEdits | keys[]] | unique[]' deviceNodes
  assert_json '.containerEdits | keys | join(",")' deviceNodes,env,hooks,mounts
  assert_json '[.devices[] | .name | test("^[A-Za-z0-9][A-Za-z0-9_.-]*[A-Za-z0-9]$|^[A-Za-z0-9]$")] | all'
  assert_json '[.devices[].name] | length == (unique | length)'
}

@test "cdi generate: a file appears whole; a full disk or a missing directory leaves none" {
  machine
  generate --output "$BATS_TEST_TMPDIR/spec.json"
  assert_status 0
  assert_equal "$output" ""
  run diff <(jq -S . "$top/tests/cli/cdi-h100x8.json") "$BATS_TEST_TMPDIR/spec.json"
  assert_success
  generate --output "$BATS_TEST_TMPDIR/none/spec.json"
  assert_error E_NOT_FOUND none
  run bash -c "ulimit -f 0; trap '' XFSZ; '$KMODSMITH' cdi generate --root '$ROOT' --export /run/nvidia/driver \
    --output '$BATS_TEST_TMPDIR/small.json' 2>&1"
  assert_failure
  assert_equal "$(find "$BATS_TEST_TMPDIR" -maxdepth 1 -name '*small*')" ""
}

@test "cdi generate: missing parts are reported, and nothing is printed" {
  host h100x8
  generate
  assert_error E_NODES "is missing"
  machine
  rm -r "$ROOT/run/nvidia/driver/usr/libexec"
  generate
  assert_error E_NOT_FOUND usr/libexec/kmodsmith
  kmodsmith "cdi generate" # without an export: the machine's own user space, and it has none
  assert_error E_NOT_FOUND libcuda.so
  local word
  for word in auto none; do # in a pod whose agent exports by this default, or not at all
    KMODSMITH_EXPORT=$word kmodsmith "cdi generate"
    assert_error E_NOT_FOUND libcuda.so
  done
  kmodsmith "cdi generate" --export run/nvidia/driver
  assert_status 2
  assert_error E_USAGE
  assert_equal "$output" ""
  host no-gpu
  generate
  assert_error E_NOT_READY "no driver is loaded"
}

@test "cdi generate: warns about another specification of the same kind" {
  machine
  mkdir -p "$ROOT/etc/cdi"
  echo 'kind: nvidia.com/gpu' >"$ROOT/etc/cdi/nvidia.yaml"
  generate --output "$BATS_TEST_TMPDIR/spec.json"
  assert_status 0
  [[ $stderr == *"'/etc/cdi/nvidia.yaml' has devices of the same names"* ]]
}

ready() { # init, in the background, until it is ready; then it is told to end
  : >"$BATS_TEST_TMPDIR/log"
  timeout --preserve-status $((2 * hung)) "$KMODSMITH" init --root "$ROOT" --package "$BATS_TEST_TMPDIR/package" "$@" >"$BATS_TEST_TMPDIR/log" 2>&1 3>&- &
  local pid=$!
  log=$BATS_TEST_TMPDIR/log soon grep -q "ready: driver" "$BATS_TEST_TMPDIR/log"
  kill -TERM "$pid"
  wait "$pid" || { cat "$BATS_TEST_TMPDIR/log"; false; }
}

@test "init: writes it once all is ready and never touches it again; an unload removes it first" {
  local spec
  loadable
  user_space "$ROOT"
  spec=$ROOT/run/cdi/kmodsmith.json
  mkdir -p "$ROOT/run" "$ROOT/var"
  ln -sfn /run "$ROOT/var/run"
  ready
  run jq -r '[.devices[].name] | join(" ")' "$spec"
  assert_output "0 1 all"
  run jq -r '.containerEdits.mounts[0].hostPath' "$spec"
  assert_output "/$lib/libcuda.so.$V"
  local before
  before=$(stat -c '%i %y' "$spec")
  ready
  assert_equal "$(stat -c '%i %y' "$spec")" "$before" # R-G6
  kmodsmith install --package "$BATS_TEST_TMPDIR/package" # who keeps the driver keeps its specification
  assert_status 0
  assert_equal "$(stat -c '%i %y' "$spec")" "$before"
  kmodsmith unload
  assert_status 0
  assert_file_not_exist "$spec"
}

@test "unload: if refused, the specification stays; otherwise it is removed before the first module" {
  needs_strace
  local spec gone unload
  loadable
  user_space "$ROOT"
  spec=$ROOT/etc/cdi/gpus.json
  ready --cdi /etc/cdi/gpus.json
  echo 1 >"$ROOT/sys/module/nvidia_uvm/refcnt"
  kmodsmith unload
  assert_error E_IN_USE
  assert_file_exist "$spec"
  echo 0 >"$ROOT/sys/module/nvidia_uvm/refcnt"
  run strace -E ASAN_OPTIONS=detect_leaks=0 -f -e trace=unlinkat,openat -o "$BATS_TEST_TMPDIR/trace" "$KMODSMITH" unload --root "$ROOT"
  assert_success
  gone=$(grep -nm1 'unlinkat(.*"gpus.json"' "$BATS_TEST_TMPDIR/trace" | cut -d: -f1)
  unload=$(grep -nm1 '"\.sys-calls"' "$BATS_TEST_TMPDIR/trace" | cut -d: -f1)
  [ "$gone" -lt "$unload" ]
  assert_file_not_exist "$spec"
}

@test "nodes: a new partition is added to the specification; with a broken device node containers get no GPU" {
  local spec mig
  loadable
  user_space "$ROOT"
  spec=$ROOT/etc/cdi/gpus.json
  mig=$ROOT/proc/driver/nvidia/capabilities/gpu0/mig/gi1
  ready --cdi /etc/cdi/gpus.json
  mkdir -p "$mig/ci0"
  printf 'DeviceFileMinor: 21\nDeviceFileMode: 292\nDeviceFileModify: 1\n' >"$mig/access"
  printf 'DeviceFileMinor: 22\nDeviceFileMode: 292\nDeviceFileModify: 1\n' >"$mig/ci0/access"
  kmodsmith nodes --dry-run
  assert_status 1
  run jq -r '[.devices[].name] | join(" ")' "$spec"
  assert_output "0 1 all"
  kmodsmith nodes
  assert_status 0
  run jq -r '[.devices[].name] | join(" ")' "$spec"
  assert_output "0 0-gi1-ci0 1 all"
  sed -i 's/^ModifyDeviceFiles: 1/ModifyDeviceFiles: 0/' "$ROOT/proc/driver/nvidia/params"
  rm "$ROOT/dev/nvidia1"
  kmodsmith nodes
  assert_status 1
  [[ $stderr == *"containers get no GPU: /dev/nvidia1 is missing"* ]]
  assert_file_not_exist "$spec"
}

@test "nodes --imex-channels: channels are named in a file of their own kind, which goes with that of the GPUs" {
  local spec
  loadable
  user_space "$ROOT"
  spec=$ROOT/etc/cdi/gpus.json
  ready --cdi /etc/cdi/gpus.json
  kmodsmith "cdi generate" --imex
  assert_error E_NO_DEVICE "no node of an IMEX channel"
  assert_file_not_exist "${spec%.json}-imex.json"
  sed -i '0,/^$/s/^$/234 nvidia-caps-imex-channels\n/' "$ROOT/proc/devices" # in the part of character devices
  kmodsmith nodes --imex-channels 2
  assert_status 0
  run jq -c '[.kind, (.devices[] | [.name, (.containerEdits.deviceNodes | length)])]' "${spec%.json}-imex.json"
  assert_output '["nvidia.com/imex-channel",["0",1],["1",1],["all",2]]'
  kmodsmith "cdi generate" --imex
  assert_status 0
  assert_equal "$(jq -S . <<<"$output")" "$(jq -S . "${spec%.json}-imex.json")"
  kmodsmith unload
  assert_status 0
  assert_file_not_exist "${spec%.json}-imex.json"
}

@test "init --cdi: another directory, none, and an invalid one" {
  loadable
  user_space "$ROOT"
  ready --cdi /etc/cdi/gpus.json
  assert_file_exist "$ROOT/etc/cdi/gpus.json"
  assert_file_not_exist "$ROOT/var/run/cdi/kmodsmith.json"
  ready --cdi none
  assert_file_not_exist "$ROOT/etc/cdi/gpus.json"
  kmodsmith install --package "$BATS_TEST_TMPDIR/package" --cdi gpus.json
  assert_status 2
  assert_error E_USAGE
}

@test "init: another specification of the same kind keeps ours out, and the node becomes ready" {
  loadable
  user_space "$ROOT"
  mkdir -p "$ROOT/etc/cdi"
  echo 'kind: nvidia.com/gpu' >"$ROOT/etc/cdi/nvidia.yaml"
  ready
  assert_file_not_exist "$ROOT/var/run/cdi/kmodsmith.json"
  run grep -F "'/etc/cdi/nvidia.yaml' is also of kind nvidia.com/gpu" "$BATS_TEST_TMPDIR/log"
  assert_success
}

@test "cdi-hook: links and ld.so.cache in the bundle's root, and nothing outside it" {
  ROOT=$BATS_TEST_TMPDIR/host
  mkdir -p "$ROOT"/{bundle/rootfs/{lib64,victim},victim}
  echo '{"root": {"path": "rootfs"}}' >"$ROOT/bundle/config.json"
  touch "$ROOT/bundle/rootfs/lib64/ld-linux-x86-64.so.2"
  cp "$(ldconfig -p | sed -n 's/.*libz.so.1 .*=> //p' | head -1)" "$ROOT/bundle/rootfs/lib64/libz.so.1.2"
  ln -s ../../victim "$ROOT/bundle/rootfs/opt"
  kmodsmith "cdi-hook links" libz.so.1.2::/lib64/libz.so.1 libx.so::/opt/lib/libx.so.1 <<<'{"bundle": "/bundle"}'
  assert_status 0
  assert_equal "$(readlink "$ROOT/bundle/rootfs/lib64/libz.so.1")" libz.so.1.2
  assert_equal "$(ls "$ROOT/victim")" ""
  assert_equal "$(readlink "$ROOT/bundle/rootfs/victim/lib/libx.so.1")" libx.so
  kmodsmith "cdi-hook ldcache" /lib64 <<<'{"bundle": "/bundle"}'
  assert_status 0
  run ldconfig -p -C "$ROOT/bundle/rootfs/etc/ld.so.cache"
  assert_line --partial "libz.so.1 (libc6,x86-64) => /lib64/libz.so.1"
  kmodsmith "cdi-hook ldcache" /lib64 </dev/null
  assert_error E_CONFIG "not valid JSON"
  kmodsmith "cdi-hook ldcache" lib64 <<<'{"bundle": "/bundle"}'
  assert_status 2
  assert_error E_USAGE
}

@test "cdi-hook: a file of the image itself stays, with a note" {
  ROOT=$BATS_TEST_TMPDIR/host
  mkdir -p "$ROOT/bundle/rootfs/usr/lib"
  echo '{"root": {"path": "rootfs"}}' >"$ROOT/bundle/config.json"
  echo own >"$ROOT/bundle/rootfs/usr/lib/libcuda.so.1"
  kmodsmith "cdi-hook links" libcuda.so.9::/usr/lib/libcuda.so.1 <<<'{"bundle": "/bundle"}'
  assert_status 0
  [[ $stderr == *"keeping /usr/lib/libcuda.so.1"* ]]
  assert_equal "$(<"$ROOT/bundle/rootfs/usr/lib/libcuda.so.1")" own
}
