#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The program as the GPU Operator's pods call it: the name nvidia-driver, the files below run/nvidia, the probes.
# shellcheck disable=SC2154 # bats and helper.bash set stderr and ROOT
load helper
load package

setup() {
  package=$BATS_TEST_TMPDIR/package
  mkdir "$BATS_TEST_TMPDIR/bin"
  driver=$BATS_TEST_TMPDIR/bin/nvidia-driver
  ln -s "$KMODSMITH" "$driver"
}
teardown() { [ -z "${pod-}" ] || end_pod KILL || true; }

# A driver container on the recorded machine; returns when its log has a line with TEXT, or when it ended.
start_pod() { # TEXT ARGUMENT...
  local text=$1
  shift
  : >"$BATS_TEST_TMPDIR/log"
  KMODSMITH_ROOT=$ROOT KMODSMITH_PACKAGE=$package "$driver" "$@" >"$BATS_TEST_TMPDIR/log" 2>&1 3>&- &
  pod=$!
  said_or_gone() { grep -q "$text" "$BATS_TEST_TMPDIR/log" || ! kill -0 "$pod"; }
  log=$BATS_TEST_TMPDIR/log soon said_or_gone
}
is_told() { # what the operator waits for has been said, as far as this program says it
  [ "$driver" = "$KMODSMITH" ] || { [ "$(content "$daemons")" = Ready ] &&
    { [ -z "${DRIVER_CONFIG_DIGEST-}" ] || [ "$(content nvidia-driver.state)" = "$DRIVER_CONFIG_DIGEST" ]; }; }
}
serving() { # ARGUMENT...: until it has nothing left to do
  start_pod 'ready: driver' "$@"
  until [ "$(jq -r '"\(.step) \(.pid)"' "$ROOT/run/kmodsmith/pulse.json")" = "serve $pod" ] && is_told; do
    kill -0 "$pod"
    sleep 0.1
  done
}
end_pod() { # SIGNAL: its exit status
  kill -s "$1" "$pod" && wait "$pod" 2>/dev/null
}
files() { (cd "$ROOT/run/nvidia" 2>/dev/null && find . -type f | sort | tr '\n' ' '); }
content() { cat "$ROOT/run/nvidia/$1"; }
daemons=validations/.driver-daemons-status
pulse() { # FIELD=VALUE...: as a start leaves it; the process is one of the recorded machine
  local boot
  boot=$(cat "$ROOT/proc/sys/kernel/random/boot_id")
  mkdir -p "$ROOT/run/kmodsmith"
  jq -n --arg boot "$boot" "{boot_id: \$boot, pid: 4711, step: \"compile\", done: 3, total: 9, uptime_ms: $(uptime_ms)} + {$*}" \
    >"$ROOT/run/kmodsmith/pulse.json"
}
uptime_ms() { sed 's/ .*//; s/\.//; s/$/0/' /proc/uptime; }
process() { # STATE [START]
  mkdir -p "$ROOT/proc/4711"
  echo "4711 (a) b) $1 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 ${2:-7} 0 0" >"$ROOT/proc/4711/stat"
}

@test "a pod's life: its files from start to end, and the driver stays" {
  loadable
  export DRIVER_CONFIG_DIGEST=abc123
  serving init -a -m 2
  assert_equal "$(files)" "./nvidia-driver.pid ./nvidia-driver.state ./$daemons "
  assert_equal "$(content nvidia-driver.pid)" "$pod"
  assert_equal "$(content "$daemons")" Ready
  assert_equal "$(od -c "$ROOT/run/nvidia/nvidia-driver.state")" "$(printf 'abc123\n' | od -c)"
  end_pod TERM
  assert_equal "$(files)" "./nvidia-driver.state "
  run cat "$BATS_TEST_TMPDIR/log"
  assert_output --partial "signal 15: exiting; the driver stays loaded"
  refute_output --partial "warn: no verb"
  [ -d "$ROOT/sys/module/nvidia" ]
}

@test "the arguments of a ClusterPolicy replace those of init; without a digest there is no state" {
  loadable
  serving -m 2
  run cat "$BATS_TEST_TMPDIR/log"
  assert_output --partial "warn: no verb is given, so it is init"
  refute_output --partial postinst.d
  assert_equal "$(files)" "./nvidia-driver.pid ./$daemons "
}

@test "a second pod is refused and changes nothing; a killed one is taken over" {
  loadable
  serving init
  local first=$pod
  echo of-the-validator >"$ROOT/run/nvidia/validations/driver-ready"
  snapshot
  KMODSMITH_ROOT=$ROOT KMODSMITH_PACKAGE=$package run --separate-stderr timeout "$hung" "$driver" init
  assert_status 75
  assert_error E_LOCKED "/run/nvidia/nvidia-driver.pid: process $first is this node's driver container"
  assert_unchanged
  kill -KILL "$first"
  wait "$first" 2>/dev/null || true
  assert_equal "$(content nvidia-driver.pid)" "$first"
  serving init
  assert_equal "$(content nvidia-driver.pid)" "$pod"
  assert_equal "$(content "$daemons")" Ready
  run cat "$BATS_TEST_TMPDIR/log"
  assert_output --partial adopt
  end_pod TERM
  assert_equal "$(files)" "./validations/driver-ready "
}

@test "the driver manager removed the pid file: the next pod does not disturb the one that ends" {
  loadable
  serving init
  local first=$pod
  rm "$ROOT/run/nvidia/nvidia-driver.pid"
  serving init
  kill -TERM "$first"
  wait "$first"
  assert_equal "$(content nvidia-driver.pid)" "$pod"
  assert_equal "$(content "$daemons")" Ready
}

# The host is another root here, as /proc/1/root is in a pod: $ROOT is the container's own.
@test "nvidia-smi of the startup probe has its nodes in the container's own /dev before the status is Ready" {
  loadable
  export KMODSMITH_HOST_ROOT=$BATS_TEST_TMPDIR/machine
  cp -a "$ROOT" "$KMODSMITH_HOST_ROOT"
  rm -rf "${ROOT:?}/dev"
  mkdir "$ROOT/dev"
  echo 'c 240:7 0600 0:0' >"$ROOT/dev/nvidia-uvm" # of the driver before, as the runtime copied it from the machine
  started() { # TEXT
    start_pod "$1" init
    log=$BATS_TEST_TMPDIR/log soon grep -qx Ready "$KMODSMITH_HOST_ROOT/run/nvidia/$daemons"
  }
  started 'ready: driver'
  for node in nvidia0 nvidiactl nvidia-uvm; do
    assert_equal "$(cat "$ROOT/dev/$node")" "$(cat "$KMODSMITH_HOST_ROOT/dev/$node")"
  done
  assert_equal "$(readlink "$ROOT/dev/char/195:255")" ../nvidiactl
  grep -E "nodes in this container's own /dev" "$BATS_TEST_TMPDIR/log"
  end_pod TERM

  local before
  before=$(find "$ROOT/dev" -printf '%P %T@ %l\n' | sort) # started again in the same container, which nothing does: no change
  started 'ready: driver'
  assert_equal "$(find "$ROOT/dev" -printf '%P %T@ %l\n' | sort)" "$before"
  end_pod TERM

  rm -rf "${ROOT:?}/dev"
  touch "$ROOT/dev"
  started 'ready: driver'
  grep -F "warn: nvidia-smi may fail in this container, whose own /dev lacks device nodes" "$BATS_TEST_TMPDIR/log"
}

@test "a node with a directory for kernel hooks gets a note that none is installed" {
  loadable
  mkdir -p "$ROOT/run/kernel/postinst.d"
  serving init
  run cat "$BATS_TEST_TMPDIR/log"
  assert_output --partial "/run/kernel/postinst.d exists, but no hook is installed there"
  assert_equal "$(ls "$ROOT/run/kernel/postinst.d")" ""
}

@test "a failed start writes NotReady, and leaves the state of the earlier start" {
  loadable
  mkdir -p "$ROOT/run/nvidia/validations"
  echo before >"$ROOT/run/nvidia/nvidia-driver.state"
  echo Ready >"$ROOT/run/nvidia/$daemons"
  DRIVER_CONFIG_DIGEST=new DRIVER_VERSION=999.1 KMODSMITH_ROOT=$ROOT run --separate-stderr timeout "$hung" "$driver" init
  assert_error E_NO_PACKAGE
  assert_equal "$(content "$daemons")" NotReady
  assert_equal "$(content nvidia-driver.state)" before
  serving init # nothing has to be put right first
}

# Who leaves a driver as it is has not measured it, and could not say Ready of it.
@test "a pod of the operator accepts no rollout orders, and says so first" {
  loadable
  jq -n '{pools: [{name: "all", target: {driver: "535.261.03"}}]}' >"$BATS_TEST_TMPDIR/policy.json"
  snapshot
  KMODSMITH_AGENT=true NODE_NAME=n KMODSMITH_POLICY=$BATS_TEST_TMPDIR/policy.json KMODSMITH_ROOT=$ROOT \
    run --separate-stderr timeout "$hung" "$driver" init
  assert_error E_CONFIG "KMODSMITH_AGENT: --agent and --operator exclude each other"
  assert_unchanged
}

# What a host's vGPU manager writes into a virtual GPU's configuration space, and a catalogue in NVIDIA's form.
virtual_gpu() { # VERSION BRANCH
  python3 - "$ROOT/sys/bus/pci/devices/0000:40:00.0/config" "$@" <<'PYTHON'
import sys
config = bytearray(256)
config[0x06], config[0x34] = 0x10, 0x60
text = b"".join(field.encode().ljust(10, b"\0") for field in sys.argv[2:])
config[0x60:0x60 + 27] = bytes([9, 0, 27]) + b"VF" + bytes([0, 22]) + text
open(sys.argv[1], "wb").write(config)
PYTHON
  mkdir -p "$ROOT/drivers"
  cat >"$ROOT/drivers/vgpuDriverCatalog.yaml" <<'YAML'
version: 1
branch:
- {name: R535_U4, type: host, allow: {branch: [R535_U4]}}
- {name: R550_U1, type: host, allow: {branch: [R550_U1]}}
- {name: R535_U4, type: guest, allow: {branch: [R535_U4]}}
driver:
- {version: 535.261.03, branch: R535_U4, type: guest, os: [Linux]}
YAML
}
@test "a vGPU guest takes the driver that goes with its host by NVIDIA's catalogue, or says why none does; unasked it takes its own" {
  loadable
  virtual_gpu 535.250.01 R535_U4
  export DRIVER_TYPE=vgpu DISABLE_VGPU_VERSION_CHECK=False DRIVER_VERSION=550.90.07 KMODSMITH_VGPU_DRIVERS=535.261.03
  serving init
  run cat "$BATS_TEST_TMPDIR/log"
  assert_output --partial "the host's vGPU manager is 535.250.01 (R535_U4): guest driver 535.261.03"
  assert_output --partial "ready: driver 535.261.03"
  end_pod TERM
  virtual_gpu 550.54.01 R550_U1
  KMODSMITH_ROOT=$ROOT run --separate-stderr timeout "$hung" "$driver" init
  assert_status 1
  assert_error E_NOT_FOUND "550.90.07 is no guest driver of the catalogue for this GPU; 535.261.03 is of branch R535_U4, which does not go with the host's R550_U1"
  DISABLE_VGPU_VERSION_CHECK=true DRIVER_VERSION=535.261.03 serving init
  run cat "$BATS_TEST_TMPDIR/log"
  refute_output --partial "vGPU manager"
}

@test "the label by which GPUs come back from vfio-pci, as the driver manager leaves it, counts for the driver's container" {
  host vfio
  tiny_firmware 535.261.03
  tiny_package "$package" 6.1.0-56-cloud-amd64
  ln -s ../../../../kernel/iommu_groups/12 "$ROOT/sys/bus/pci/devices/0000:3b:00.0/iommu_group"
  mkdir -p "$ROOT/proc/42/fd" "$ROOT/run/kmodsmith"
  echo qemu >"$ROOT/proc/42/comm"
  ln -s /dev/vfio/12 "$ROOT/proc/42/fd/9"
  echo nvidia.com/gpu.workload.config >"$ROOT/run/kmodsmith/from-vfio"
  start_pod E_BOUND init
  run cat "$BATS_TEST_TMPDIR/log"
  assert_output --partial "vfio-pci of 0000:3b:00.0 is held by pid 42 qemu fd /dev/vfio/12: end the virtual machine first"
}

@test "no GPU: it keeps running, and reports no driver as ready" {
  host no-gpu
  DRIVER_CONFIG_DIGEST=abc start_pod NO_GPU init
  assert_equal "$(content "$daemons")" NotReady
  end_pod TERM
  assert_equal "$(files)" ""
}

@test "init under its own name keeps nothing below run/nvidia" {
  loadable
  driver=$KMODSMITH serving init
  end_pod TERM
  [ ! -e "$ROOT/run/nvidia" ]
}

@test "verbs and flags of no image: usage on stderr, exit 1; the environment is never fatal" {
  loadable
  for words in start "init extra" "init --foo" "init -m" uninstall_driver ""; do
    # shellcheck disable=SC2086 # several words
    run --separate-stderr "$driver" ${words:-''}
    assert_status 1
    assert_equal "$output" ""
    [[ $stderr == "Usage: nvidia-driver "* ]]
  done
  run --separate-stderr "$driver" --help
  assert_status 0
  assert_line --regexp '^  update +'
  KERNEL_MODULE_TYPE=closed MAX_THREADS=many OPEN_KERNEL_MODULES_ENABLED=maybe UNKNOWN=1 KMODSMITH_ROOT=$ROOT KMODSMITH_PACKAGE=$package \
    run --separate-stderr timeout "$hung" "$driver" load
  assert_status 0
  assert_equal "$(grep -c "warn: the environment's .* is ignored" <<<"$stderr")" 3
  assert_equal "$(calls | grep -c ^load)" 3
}

@test "probe startup and readiness: report, measure, check the daemons" {
  loadable
  kmodsmith probe startup
  assert_status 1
  assert_output "startup: no, the last run reported nothing in this boot"
  serving init
  kmodsmith probe startup
  assert_status 1 # the process is none of the recorded machine, so the container is a new one
  assert_output "startup: no, process $pod is gone, and the next start has not begun yet"
  kmodsmith probe readiness
  assert_status 0 # the driver works meanwhile
  mkdir -p "$ROOT/proc/$pod"
  echo "$pod (x) S 1" >"$ROOT/proc/$pod/stat"
  started() { kmodsmith probe startup && [ "$output" = "startup: yes, driver 535.261.03" ]; }
  soon started
  snapshot
  kmodsmith probe readiness --json
  assert_status 0
  assert_json .ok true
  assert_json .probe readiness
  assert_unchanged
  echo NotReady >"$ROOT/run/nvidia/$daemons"
  kmodsmith probe readiness
  assert_status 1
  assert_output "readiness: no, the daemons' status is not Ready"
  rm "$ROOT/run/nvidia/$daemons" # as a preStop hook does
  kmodsmith probe readiness
  assert_status 0
  rm "$ROOT/dev/nvidia0"
  kmodsmith probe readiness --json
  assert_status 1
  assert_json '.why | contains("nvidia0")'
  kmodsmith nodes
  sed -i 's/"READY"/"CHANGING"/' "$ROOT/run/kmodsmith/status.json"
  kmodsmith probe readiness
  assert_status 1
  assert_output "readiness: no, the last run reported CHANGING"
  host no-gpu
  kmodsmith probe readiness
  assert_status 0
}

@test "probe startup: files of the previous container do not count as started" {
  loadable
  kmodsmith install --package "$package"
  assert_status 0
  kmodsmith probe startup
  assert_status 0 # no init was begun in this boot
  process S 99
  pulse 'step: "adopt"'
  kmodsmith probe startup
  assert_status 1
  assert_output --regexp "^startup: no, process 4711 is in adopt"
  pulse 'step: "serve", start: 98' # by the process that had this number before, as each container has its process 1
  kmodsmith probe startup
  assert_status 1
  assert_output "startup: no, process 4711 is gone, and the next start has not begun yet"
  pulse 'step: "serve", start: 99'
  kmodsmith probe startup
  assert_status 0
  assert_output "startup: yes, driver 535.261.03"
}

@test "R-H2: probe liveness: progress and waits are alive; a stall and a stop are not" {
  host h100x8
  kmodsmith probe liveness
  assert_status 0
  assert_output "liveness: yes, nothing was started in this boot"
  process S
  pulse
  kmodsmith probe liveness
  assert_status 0
  assert_output --regexp "^liveness: yes, process 4711 is in compile, 3 of 9, [0-9]+ s ago$"
  pulse "uptime_ms: $(($(uptime_ms) - 700000))"
  kmodsmith probe liveness
  assert_status 1
  assert_output --regexp "^liveness: no, compile has made no progress for 7[0-9]{2} s: 3 of 9$"
  kmodsmith probe liveness --stall 3600
  assert_status 0
  pulse "uptime_ms: -3600000, done: 9" # linked and proved after the last object
  kmodsmith probe liveness
  assert_status 0
  pulse 'uptime_ms: -3600000, step: "holders", done: 0, total: 0' # it has a deadline of its own
  kmodsmith probe liveness
  assert_status 0
  process T
  kmodsmith probe liveness
  assert_status 1
  assert_output "liveness: no, process 4711 is stopped in holders"
  rm -r "$ROOT/proc/4711"
  kmodsmith probe liveness --json
  assert_status 0 # the container whose process that was is gone, too: this is the next one
  assert_json .why "process 4711 is gone, and the next start has not begun yet"
  pulse 'boot_id: "another"'
  kmodsmith probe liveness
  assert_status 0
  echo '{' >"$ROOT/run/kmodsmith/pulse.json"
  kmodsmith probe liveness
  assert_status 0
  kmodsmith probe health
  assert_error E_USAGE "unknown probe 'health' (expected startup, readiness or liveness)"
  kmodsmith probe
  assert_error E_USAGE
}

@test "R-H2: once init serves, the heartbeat says so and is not written again" {
  loadable
  serving init
  mkdir -p "$ROOT/proc/$pod"
  echo "$pod (x) S 1" >"$ROOT/proc/$pod/stat"
  serves() { kmodsmith probe liveness && [ "$output" = "liveness: yes, process $pod serves" ]; }
  soon serves
  local inode
  inode=$(stat -c %i "$ROOT/run/kmodsmith/pulse.json")
  kill -CHLD "$pod"
  kmodsmith probe readiness
  assert_equal "$(stat -c %i "$ROOT/run/kmodsmith/pulse.json")" "$inode"
}
