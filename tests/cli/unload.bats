#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# unload and holders on recorded machines: who is in the way, and what becomes of them (R-D2, R-D3, R-E3).
# shellcheck disable=SC2016,SC2154 # quotes around the commands of messages; bats and helper.bash set stderr, top and ROOT
load helper
load package

loads() { calls | grep -E '^(un)?load ' | sed 's/ *$//' | paste -sd';'; }

@test "unload: in dependency order; refused while in use, naming each holder" {
  host h100x8
  kmodsmith unload --json
  assert_status 0
  assert_json '.unloaded | join(" ")' "nvidia_drm nvidia_modeset nvidia_uvm nvidia"
  assert_equal "$(loads)" "unload nvidia_drm;unload nvidia_modeset;unload nvidia_uvm;unload nvidia"
  kmodsmith unload
  assert_status 0
  assert_output "no NVIDIA module is loaded"
  host held
  kmodsmith unload
  assert_status 75
  assert_error E_IN_USE
  assert_line --partial \
    "pid 4242 python3 (uid 1000, pod 0f3a9c1e-57d2-4a6b-9c0e-1b2d3e4f5a6b, containerd container ab12cd34ab12)"
  assert_line "module nvidia_fs"
  kmodsmith unload --json
  assert_status 75
  assert_json .error.code E_IN_USE
  assert_json '[.holders.processes[].pid] | unique | join(",")' 611,4242,5150,6001
  assert_equal "$(calls)" ""
}

# What tells a process from its successor, and from a thread of the kernel.
stats() {
  local dir
  for dir in "$ROOT"/proc/[0-9]*; do
    echo "${dir##*/} (x) S 1 1 1 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 500 0" >"$dir/stat"
  done
}

@test "unload: --holders stop asks each process once, then removes other modules too (R-D3)" {
  host held
  stats
  kmodsmith unload --holders stop --json
  assert_status 0
  assert_equal "$(calls | grep ^signal)" "$(printf 'signal 15 %s\n' 611 4242 5150 6001)"
  assert_json '.unloaded | join(" ")' "nvidia_fs nvidia_modeset nvidia_uvm nvidia"
  [[ $stderr == *"sent SIGTERM to pid 4242 python3"* ]]
  [[ $stderr == *"module nvidia_fs, which used the driver, was unloaded and will not be reloaded"* ]]
}

@test "unload: --holders wait has a deadline, and signals no process (R-E3)" {
  host held
  stats
  KMODSMITH_HOLDERS="wait" kmodsmith unload --holders-timeout 1
  assert_status 75
  assert_error E_IN_USE "5 holder(s), first: pid 611 "
  assert_line "module nvidia_fs"
  [[ $stderr == *"waiting for users of the driver: "* ]]
  assert_equal "$(calls)" ""
  kmodsmith unload --holders kill
  assert_status 2
  assert_error E_USAGE "--holders 'kill' is not one of refuse, wait, stop"
}

@test "unload: waits for a module that is being removed, with a deadline (R-D5)" {
  host h100x8
  echo going >"$ROOT/sys/module/nvidia_uvm/initstate"
  kmodsmith unload --unload-timeout 1
  assert_status 75
  assert_error E_MODULE_BUSY "module nvidia_uvm is still going after 1 s"
  assert_equal "$(calls)" ""
}

@test "unload: unexplained references leave everything unchanged" {
  host h100x8
  echo 2 >"$ROOT/sys/module/nvidia_uvm/refcnt"
  kmodsmith unload
  assert_status 75
  assert_error E_IN_USE "something that is not visible from here uses module nvidia_uvm (2 references, 0 dependents)"
  assert_equal "$(calls)" ""
}

@test "the kernel's console on nvidia-drm's frame buffer: who it is, and what takes it off" {
  local module policy
  host h100x8
  module=$ROOT/sys/module/nvidia_drm
  mkdir -p "$module/holders" "$ROOT/sys/class/vtconsole/vtcon1"
  echo live >"$module/initstate"
  echo 1 >"$module/refcnt"
  echo "0 nvidia-drmdrmfb" >"$ROOT/proc/fb"
  echo "(M) frame buffer device" >"$ROOT/sys/class/vtconsole/vtcon1/name"
  echo 1 >"$ROOT/sys/class/vtconsole/vtcon1/bind"
  kmodsmith holders
  assert_output "the kernel's console: fb0 (nvidia-drmdrmfb), vtcon1"
  kmodsmith holders --json
  assert_json .in_use true
  assert_json .console "fb0 (nvidia-drmdrmfb), vtcon1"
  for policy in refuse stop; do
    kmodsmith unload --holders $policy --holders-timeout 1
    assert_status 75
    assert_error E_IN_USE "the kernel's console uses module nvidia_drm: fb0 (nvidia-drmdrmfb), vtcon1"
    [[ $stderr == *'next: `echo 0 >/sys/class/vtconsole/vtcon1/bind` takes the console off it'* ]] || told | fail
  done
  tiny_package "$BATS_TEST_TMPDIR/package" "$(<"$ROOT/proc/sys/kernel/osrelease")"
  sed -i s/535.261.03/530.41.03/ "$ROOT/proc/driver/nvidia/version"
  kmodsmith plan --package "$BATS_TEST_TMPDIR/package" --host-driver replace --holders wait
  assert_error E_IN_USE "but the kernel's console uses nvidia_drm: fb0"
  kmodsmith doctor
  assert_line --regexp "^warn +holders +E_IN_USE: the kernel's console: fb0"
  assert_equal "$(calls)" ""
}

@test "who is seen by reference counts alone is said by holders, too" {
  host h100x8
  echo 2 >"$ROOT/sys/module/nvidia_uvm/refcnt"
  kmodsmith holders
  assert_output "something that is not visible from here uses module nvidia_uvm (2 references, 0 dependents)"
  kmodsmith holders --json
  assert_json .in_use true
  kmodsmith unload
  assert_error E_IN_USE
  [[ $stderr == *"next: look as root from the host's own pid namespace"* ]] || told | fail
}

@test "holders: every kind, with container, pod and module" {
  host held
  kmodsmith holders --json
  assert_status 0
  assert_json .in_use true
  assert_json .looked_at 6
  assert_json '.modules | join(",")' nvidia_fs
  assert_json '[.processes[] | "\(.pid) \(.kind) \(.path) \(.count)"] | join(";")' "611 fd /dev/nvidia0 1;\
611 fd /dev/nvidiactl 1;4242 fd /dev/nvidia-uvm 1;4242 fd /dev/nvidia0 2;4242 map /dev/nvidia0 1;\
4242 mount /dev/nvidia0 1;4242 mount /usr/lib/x86_64-linux-gnu/libcuda.so.1 1;\
5150 fd /dev/nvidia-caps/nvidia-cap2 1;6001 map /dev/nvidia0 1"
  assert_json '.processes[] | select(.pid == 5150) | "\(.runtime) \(.container[0:4])"' "docker ef12"
  assert_json 'first(.processes[] | select(.pid == 4242)) | "\(.uid) \(.cmdline) \(.runtime) \(.pod)"' \
    "1000 python3 train.py --epochs 3 containerd 0f3a9c1e-57d2-4a6b-9c0e-1b2d3e4f5a6b"
  host h100x8
  kmodsmith holders
  assert_output "the driver is not in use (0 processes checked)"
}
