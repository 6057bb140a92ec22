#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The state directory on a disk that cannot be written when the machine starts: a node without a driver gets the one that
# lies in its store, from memory, and says so; a driver that is loaded stays untouched. With a real kernel:
# tests/vm/46-state-disk.sh.
# shellcheck disable=SC2016,SC2154 # scripts for another shell; bats and helper.bash set status, output, stderr and ROOT
load helper
load package

setup() {
  package=$BATS_TEST_TMPDIR/package
  needs_mounts
}
loads() { calls | grep -E '^(un)?load ' | sed 's/ *$//' | paste -sd';'; }
installed() { # as a node is that was installed once
  loadable
  kmodsmith install --package "$package"
  assert_status 0
}
booted() { # and started again: no driver is loaded, and run/ is empty
  installed
  kmodsmith unload
  assert_status 0
  echo 7e57ab1e-0000-4000-8000-000000000002 >"$ROOT/proc/sys/kernel/random/boot_id"
  rm -r "$ROOT"/run "$ROOT"/dev/nvidia* "$ROOT/.sys-calls"
  touch "$ROOT/dev/kmsg"
}
# Run a script on the machine while its state directory cannot be written; `writable` mends the disk, and afterwards the
# machine has what is on it. The script calls `k COMMAND ARGUMENT...`.
on_disk() { # full|read-only SCRIPT
  run --separate-stderr unshare -m --propagation private bash -c 'kind=$1 program=$2 ROOT=$3 state=$3/var/lib/kmodsmith
    k() { "$program" "$@" --root "$ROOT"; }
    full() { mount -t tmpfs -o size=1m state "$state" && cp -a "$state.kept/." "$state" && ! cat /dev/zero >"$state/filler" 2>/dev/null; }
    read-only() { mount -t tmpfs state "$state" && cp -a "$state.kept/." "$state" && mount -o remount,ro "$state"; }
    writable() { mount -o remount,rw,size=2m "$state" && rm -f "$state/filler"; }
    cp -a "$state" "$state.kept" && "$kind" || exit 99
    eval "$4" && rc=0 || rc=$?
    cp -a "$state/." "$state.kept" && umount "$state" && rm -r "$state" && mv "$state.kept" "$state" && rm -f "$state/filler" || exit 98
    exit "$rc"' - "$1" "$KMODSMITH" "$ROOT" "$2"
}

@test "a full or read-only disk at boot: the stored driver is loaded from memory, the node is ready, with a warning" {
  local kind reason
  while read -r kind reason; do
    booted
    on_disk "$kind" 'k install --driver 535.261.03 && k status && k status --json >"$ROOT.status"; k doctor >"$ROOT.doctor"; true'
    assert_status 0
    assert_line ready
    assert_equal "$(loads)" "load nvidia;load nvidia_modeset;load nvidia_uvm"
    [[ $stderr == *"kmodsmith' cannot be written ("*"$reason"*"unpacked in memory"*"next: "*"df"*"remount,rw"* ]] || told | fail
    assert_line --regexp "^pass +journal +in memory only, '.*kmodsmith' cannot be written: .*$reason"
    output=$(cat "$ROOT.status")
    assert_json .state READY
    assert_json '.journal."last-good".version' 535.261.03
    assert_json .journal.unwritten
    grep -qE "^FAIL +space +E_(NO_SPACE|READ_ONLY): " "$ROOT.doctor"
    grep -qE "^warn +journal +E_(NO_SPACE|READ_ONLY): in memory only" "$ROOT.doctor"
    assert_equal "$(find "$ROOT"/{run/kmodsmith,var/lib/kmodsmith}/.tmp -mindepth 1)" ""
    assert_equal "$(find "$ROOT" -name '*.tmp' | sort)" "$(printf '%s\n' "$ROOT"/{run/kmodsmith,var/lib/kmodsmith}/.tmp)"
  done <<'END'
full No space left on device
read-only Read-only file system
END
}

@test "this boot's changes are kept in memory until the disk can be written, and then in the journal" {
  local kind
  for kind in full read-only; do
    booted
    on_disk "$kind" 'k install --driver 535.261.03 && writable &&
      k status >"$ROOT.before" && k install --driver 535.261.03 && k status >"$ROOT.after"'
    assert_status 0
    assert_equal "$(loads)" "load nvidia;load nvidia_modeset;load nvidia_uvm"
    grep -q '^pass *journal *in memory only' "$ROOT.before"
    run -1 grep journal "$ROOT.after"
    [ ! -e "$ROOT/run/kmodsmith/journal" ]
    assert_equal "$(jq -r '[.state, ."last-good-boot", .unwritten] | join(" ")' "$ROOT/var/lib/kmodsmith/journal")" \
      "idle 7e57ab1e-0000-4000-8000-000000000002 "
  done
}

@test "a restore works from memory too, and remembers a target that failed there" {
  local kind
  for kind in full read-only; do
    booted
    printf '%s\n' "EINVAL load nvidia NVreg_EnableMSI=0: nvidia: \`0' invalid for parameter \`NVreg_EnableMSI'" >"$ROOT/.sys-refused"
    on_disk "$kind" '! k install --driver 535.261.03 --param nvidia:NVreg_EnableMSI=0 && k status && k unload &&
      ! k install --driver 535.261.03 --param nvidia:NVreg_EnableMSI=0'
    assert_status 0
    assert_line ready
    assert_line --regexp "^bad target: 535.261.03 open failed at .* E_PARAM: "
    [[ $stderr == *"is loaded again"*"fell back to the last good driver"*E_TARGET_FAILED* ]] || told | fail
    assert_equal "$(loads)" "load nvidia NVreg_EnableMSI=0;load nvidia;load nvidia_modeset;load nvidia_uvm;$(
      )unload nvidia_modeset;unload nvidia_uvm;unload nvidia;load nvidia;load nvidia_modeset;load nvidia_uvm"
  done
}

@test "a start refused before it knows its package restores the last good driver from memory" {
  booted
  on_disk read-only '! k install --driver 535.261.03 --param nonsense && k status'
  assert_status 0
  assert_line ready
  [[ $stderr == *"unpacked in memory"*"fell back to the last good driver"* ]] || told | fail
}

@test "what ended a boot is not repeated while the disk cannot record it: the last good driver is loaded" {
  local kind code
  while read -r kind code; do
    booted
    jq '.state = "changing" | .step = "load" | .boots = ["7e57ab1e-0000-4000-8000-000000000001"] | .target = ."last-good" |
      .target.params = ["nvidia NVreg_EnableMSI=0"]' "$ROOT/var/lib/kmodsmith/journal" >"$ROOT.journal"
    mv "$ROOT.journal" "$ROOT/var/lib/kmodsmith/journal"
    on_disk "$kind" '! k install --driver 535.261.03 --param nvidia:NVreg_EnableMSI=0 && k status'
    assert_status 0
    assert_line ready
    [[ $stderr == *"fell back to the last good driver"*"error: $code: load: this change ended a boot before"* ]] || told | fail
    assert_equal "$(loads)" "load nvidia;load nvidia_modeset;load nvidia_uvm"
  done <<'END'
full E_NO_SPACE
read-only E_READ_ONLY
END
}

@test "a loaded driver is not replaced while the disk cannot be written, and stays ready" {
  local kind code
  while read -r kind code; do
    installed
    rm "$ROOT/.sys-calls"
    on_disk "$kind" 'k install --driver 535.261.03 --param nvidia:NVreg_EnableMSI=0; echo "status $?"; k status'
    assert_status 0
    assert_line "status 1"
    assert_line ready
    [[ $stderr == *"error: $code: "* ]] || told | fail
    assert_equal "$(loads)" ""
    [ ! -e "$ROOT/run/kmodsmith/journal" ]
  done <<'END'
full E_NO_SPACE
read-only E_READ_ONLY
END
}

@test "init --agent on a full disk at boot: loads from memory, the agent reports the trouble, and continues with room" {
  booted
  printf '%s\n' 'apiVersion: v1' 'kind: Config' 'current-context: t' 'clusters: [{name: h, cluster: {server: "https://127.0.0.1:1"}}]' \
    'contexts: [{name: t, context: {cluster: h, user: u}}]' 'users: [{name: u, user: {token: x}}]' >"$ROOT.config"
  jq -n '{pools: [{name: "all", target: {driver: "535.261.03"}}]}' >"$ROOT.policy"
  on_disk full 'until_that() { for i in {1..600}; do eval "$1" && return; sleep 0.1; done; return 1; }
    "$program" init --root "$ROOT" --agent --no-daemons --export none --driver 535.261.03 --node gpu1 --kubeconfig "$ROOT.config" --policy "$ROOT.policy" >"$ROOT.log" 2>&1 &
    until_that "grep -q \"journal cannot be written.*No space left\" \"\$ROOT.log\"" && k status && writable &&
      until_that "[ -s \"\$state/agent/journal.json\" ]"; rc=$?; kill %1; wait %1; (exit "$rc")'
  assert_status 0
  assert_line ready
  assert_equal "$(loads)" "load nvidia;load nvidia_modeset;load nvidia_uvm"
  assert_equal "$(jq -r '.known[].driver' "$ROOT/var/lib/kmodsmith/agent/journal.json")" 535.261.03
}

@test "no room in memory either: refused, with both reasons" {
  booted
  printf 'MemAvailable: 4 kB\n' >"$ROOT/proc/meminfo"
  on_disk read-only 'k install --driver 535.261.03'
  assert_status 1
  assert_error E_NO_SPACE "is on a read-only file system, and in memory: 4096 bytes of memory are free, "
  assert_equal "$(loads)" ""
}

@test "another state directory has its own journal" {
  booted
  on_disk full 'k install --driver 535.261.03'
  assert_status 0
  mkdir "$BATS_TEST_TMPDIR/other"
  kmodsmith status --json --state-dir "$BATS_TEST_TMPDIR/other"
  assert_json .journal null
}

@test "a state directory that cannot be created, or is a dangling link: what is wrong and what to do" {
  loadable
  run --separate-stderr unshare -m --propagation private bash -c 'mkdir -p "$2/var" && mount -t tmpfs -o ro var "$2/var" || exit 99
    "$1" install --root "$2" --package "$3"' - "$KMODSMITH" "$ROOT" "$package"
  assert_status 1
  assert_error E_READ_ONLY "var/lib': Read-only file system"
  [[ $stderr == *"next: "*"remount,rw"*"--state-dir"* ]] || told | fail
  mkdir -p "$ROOT/var/lib"
  ln -s /data/kmodsmith "$ROOT/var/lib/kmodsmith"
  kmodsmith install --package "$package"
  assert_error E_NOT_FOUND "'var/lib/kmodsmith' in '$ROOT' is a symbolic link to '/data/kmodsmith', which is not a directory in there"
  mkdir -p "$ROOT/data/kmodsmith"
  ln -s /data/store "$ROOT/data/kmodsmith/store"
  kmodsmith install --package "$package"
  assert_error E_NOT_FOUND "'store' in '"
  assert_error E_NOT_FOUND "'/data/store', which is not a directory in there: a link does not lead out of it, a mount in its place does"
  assert_equal "$(loads)" ""
  rm "$ROOT/data/kmodsmith/store"
  kmodsmith install --package "$package" # a link to a directory of the machine will do
  assert_status 0
  [ -e "$ROOT/data/kmodsmith/journal" ]
}
