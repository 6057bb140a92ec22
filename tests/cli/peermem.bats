#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# R-P2: nvidia-peermem beside a driver that is ready, and a probe that does not flap.
# shellcheck disable=SC2154 # bats and helper.bash set stderr, top and ROOT
load helper
load package

kernel=6.1.0-56-cloud-amd64
setup() { package=$BATS_TEST_TMPDIR/package; }
teardown() { [ -z "${loader-}" ] || kill "$loader" 2>/dev/null || true; }
peermem_loads() { calls | grep -E '^(un)?load nvidia_peermem' | sed 's/ *$//' | paste -sd';'; }

# A machine with a Mellanox function, whose driver is loaded from a package that has nvidia-peermem; without ib_core.
with_driver() { # IMPORT of nvidia-peermem
  loadable
  tiny_module "$package.d/nvidia-peermem.ko" "$kernel" "" "$1"
  layout "$package" "$kernel"
  kmodsmith install --package "$package" --modules nvidia,uvm
  assert_status 0
  mkdir -p "$ROOT/sys/bus/pci/devices/0000:90:00.0"
  echo 0x15b3 >"$ROOT/sys/bus/pci/devices/0000:90:00.0/vendor"
  mkdir -p "$ROOT/proc/sys/kernel/random" "$ROOT/proc/$$"
  [ -e "$ROOT/proc/sys/kernel/random/boot_id" ] || echo boot-1 >"$ROOT/proc/sys/kernel/random/boot_id"
}
with_ib_core() {
  mkdir -p "$ROOT/sys/module/ib_core" "$ROOT/lib/modules/$kernel/updates"
  echo live >"$ROOT/sys/module/ib_core/initstate"
  echo ABCDEF0123456789ABCDEF0 >"$ROOT/sys/module/ib_core/srcversion"
  tiny_module "$ROOT/lib/modules/$kernel/updates/ib_core.ko" "$kernel" ib_register_peer_memory_client ""
  echo "updates/ib_core.ko:" >"$ROOT/lib/modules/$kernel/modules.dep"
}
network_ready() { mkdir -p "$ROOT/run/mellanox/drivers" && touch "$ROOT/run/mellanox/drivers/.driver-ready"; }
state() { jq -r "$1" "$ROOT/run/kmodsmith/peermem.json" 2>/dev/null; }
until_state() { # STATE
  is_state() { [ "$(state .state)" = "$1" ]; }
  soon is_state "$1"
}
start_load() { # OPTION...: in the background, as the main process of a container
  : >"$BATS_TEST_TMPDIR/log"
  "$KMODSMITH" peermem load --root "$ROOT" "$@" >"$BATS_TEST_TMPDIR/log" 2>&1 &
  loader=$!
  mkdir -p "$ROOT/proc/$loader"
}

@test "peermem: needs no environment, and is loaded with its parameters from the node's store" {
  with_driver ib_register_peer_memory_client
  with_ib_core
  network_ready
  mkdir -p "$ROOT/drivers"
  printf 'peerdirect_support=1' >"$ROOT/drivers/nvidia-peermem.conf"
  run --separate-stderr env -i "$KMODSMITH" peermem load --once --root "$ROOT"
  assert_status 0
  assert_output "loaded: the kernel has it"
  assert_equal "$(peermem_loads)" "load nvidia_peermem peerdirect_support=1"
  kmodsmith "peermem probe" --json
  assert_status 0
  assert_json .state loaded
  kmodsmith status --json
  assert_json .peermem.state loaded
  kmodsmith "peermem load" --once # what is right stays
  assert_status 0
  assert_equal "$(peermem_loads)" "load nvidia_peermem peerdirect_support=1"
}

@test "peermem: not tried in a boot whose kernel is stuck in a load or unload; the next boot tries" {
  with_driver ib_register_peer_memory_client
  with_ib_core
  network_ready
  local journal=$ROOT/var/lib/kmodsmith/journal
  jq '.state = "wedged" | .text = "load '\''nvidia'\'': it hangs"' "$journal" >"$BATS_TEST_TMPDIR/journal"
  cp "$BATS_TEST_TMPDIR/journal" "$journal"
  kmodsmith "peermem load" --once
  assert_status 1
  assert_error E_WEDGED "load 'nvidia': it hangs"
  assert_equal "$(peermem_loads)" ""
  jq '.boot = "another"' "$BATS_TEST_TMPDIR/journal" >"$journal"
  kmodsmith "peermem load" --once
  assert_status 0
  assert_equal "$(peermem_loads)" "load nvidia_peermem"
}

@test "peermem: not loaded from a package under a removed key; a loaded one stays" {
  with_driver ib_register_peer_memory_client
  with_ib_core
  network_ready
  openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$BATS_TEST_TMPDIR/key"
  openssl pkey -in "$BATS_TEST_TMPDIR/key" -pubout -out "$BATS_TEST_TMPDIR/key.pem"
  "$KMODSMITH" sign "oci:$package" --key "$BATS_TEST_TMPDIR/key"
  kmodsmith "trust add" "$BATS_TEST_TMPDIR/key.pem" --name ours
  kmodsmith fetch --driver 535.261.03 --from "oci:$package"
  assert_status 0
  kmodsmith "trust remove" ours
  kmodsmith "peermem load" --once
  assert_error E_UNTRUSTED "signed by ours (key "
  assert_equal "$(peermem_loads)" ""
  mkdir "$BATS_TEST_TMPDIR/trust" && cp "$BATS_TEST_TMPDIR/key.pem" "$BATS_TEST_TMPDIR/trust"
  kmodsmith "peermem load" --once --trust-dir "$BATS_TEST_TMPDIR/trust"
  assert_status 0
  kmodsmith "peermem load" --once
  assert_status 0
  [[ $stderr == *"cannot compare the loaded module, leaving it: kept from oci:$package, signed by ours"* ]]
  assert_equal "$(peermem_loads)" "load nvidia_peermem"
}

@test "peermem: every wait has a deadline, and names what it waited for" {
  with_driver ib_register_peer_memory_client
  kmodsmith "peermem load" --timeout 1
  assert_status 75
  assert_error E_PEERMEM "waited 1 s for the network driver's container (/run/mellanox/drivers/.driver-ready)"
  kmodsmith "peermem load" --timeout 1 --host-mofed
  assert_error E_PEERMEM "the host's network driver (mlx5_core)"
  kmodsmith unload
  kmodsmith "peermem load" --timeout 1
  assert_error E_PEERMEM "waited 1 s for the NVIDIA driver"
  assert_equal "$(peermem_loads)" ""
  kmodsmith "peermem probe"
  assert_status 1
  assert_error E_NOT_READY "waited 1 s for"
}

@test "peermem: a module without the interface is not tried, and the GPUs stay ready" {
  with_driver ""
  with_ib_core
  network_ready
  kmodsmith "peermem load"
  assert_status 1
  assert_error E_SYMBOL "was compiled without ib_register_peer_memory_client"
  assert_equal "$(peermem_loads)" ""
  assert_equal "$(state .error.code)" E_SYMBOL
  kmodsmith status
  assert_status 0
  assert_line --regexp '^nvidia-peermem: failed: .*was compiled without'
}

@test "peermem: a machine without a Mellanox function needs none" {
  with_driver ib_register_peer_memory_client
  rm -r "$ROOT/sys/bus/pci/devices/0000:90:00.0"
  kmodsmith "peermem load" --once --json
  assert_status 0
  assert_json .state none
  kmodsmith "peermem probe"
  assert_status 0
}

@test "peermem: the probe does not flap while it waits, is lost, and is loaded again" {
  with_driver ib_register_peer_memory_client
  with_ib_core
  kmodsmith "peermem probe"
  assert_error E_NOT_READY "nothing is loading it"
  start_load --timeout 60
  until_state waiting
  kmodsmith "peermem probe"
  assert_status 0
  network_ready
  until_state loaded
  rm -r "$ROOT/sys/module/nvidia_peermem" # somebody took it out
  kmodsmith "peermem probe"
  assert_status 0
  soon test -d "$ROOT/sys/module/nvidia_peermem"
  assert_equal "$(peermem_loads)" "load nvidia_peermem;load nvidia_peermem"
  rm -r "$ROOT/sys/module/nvidia_peermem" "$ROOT/proc/$loader"
  kill -9 "$loader"
  kmodsmith "peermem probe" # and now nobody would bring it back
  assert_status 1
  assert_error E_NOT_READY
}

@test "peermem: a signal ends it, and leaves the module loaded" {
  with_driver ib_register_peer_memory_client
  with_ib_core
  network_ready
  start_load
  until_state loaded
  kill "$loader"
  wait "$loader"
  assert_exists "$ROOT/sys/module/nvidia_peermem"
}

@test "peermem: a file of another boot, or a damaged one, does not count" {
  with_driver ib_register_peer_memory_client
  echo '{"boot_id": "other", "state": "none", "why": ""}' >"$ROOT/run/kmodsmith/peermem.json"
  kmodsmith "peermem probe"
  assert_status 1
  echo '{"boot_id"' >"$ROOT/run/kmodsmith/peermem.json"
  kmodsmith "peermem probe"
  assert_error E_NOT_READY
}

start_init() { # OPTION...
  : >"$BATS_TEST_TMPDIR/log"
  env GPU_DIRECT_RDMA_ENABLED=true "$KMODSMITH" init --root "$ROOT" --package "$package" --no-daemons "$@" >"$BATS_TEST_TMPDIR/log" 2>&1 &
  loader=$!
  mkdir -p "$ROOT/proc/$loader"
}
until_logged() { log=$BATS_TEST_TMPDIR/log soon grep -qF "$1" "$BATS_TEST_TMPDIR/log"; } # TEXT

@test "init: the GPUs are ready before the network driver, and nvidia-peermem follows it" {
  with_driver ib_register_peer_memory_client
  with_ib_core
  kmodsmith unload
  start_init
  until_logged "ready: driver"
  until_logged "nvidia-peermem: waiting: the network driver's container"
  assert_equal "$(peermem_loads)" ""
  network_ready
  until_state loaded
  assert_equal "$(peermem_loads)" "load nvidia_peermem"
  kill "$loader"
  wait "$loader"
}

@test "init: whatever blocks nvidia-peermem blocks nothing else" {
  with_driver ""
  network_ready
  start_init
  until_logged "the GPUs are ready without nvidia-peermem: E_SYMBOL: "
  kmodsmith status
  assert_status 0
  kill "$loader"
  wait "$loader"
}

@test "init: waits for the network driver until a deadline" {
  with_driver ib_register_peer_memory_client
  start_init --mofed-timeout 1 --host-mofed
  until_logged "the GPUs are ready without nvidia-peermem: E_PEERMEM: waited 1 s for the host's network driver (mlx5_core)"
  kill "$loader"
  wait "$loader"
}

@test "init: no nvidia-peermem without the request or without a Mellanox function" {
  with_driver ib_register_peer_memory_client
  rm -r "$ROOT/sys/bus/pci/devices/0000:90:00.0"
  start_init
  until_logged "nvidia-peermem: none: "
  kill "$loader"
  wait "$loader"
  assert_equal "$(peermem_loads)" ""
}

exported() { # SRCVERSION of the driver in the exported root
  local dir=$ROOT/run/nvidia/driver/lib/modules/$kernel
  mkdir -p "$dir/kernel"
  cp "$package.d/nvidia.ko" "$package.d/nvidia-peermem.ko" "$dir/kernel"
  sed -i "s/ABCDEF0123456789ABCDEF0/$1/" "$dir/kernel/nvidia.ko"
  printf 'kernel/nvidia.ko:\nkernel/nvidia-peermem.ko: kernel/nvidia.ko\n' >"$dir/modules.dep"
}

@test "peermem: comes from the exported root if that is of the loaded driver" {
  with_driver ib_register_peer_memory_client
  with_ib_core
  network_ready
  echo ABCDEF0123456789ABCDEF0 >"$ROOT/sys/module/nvidia/srcversion"
  exported 0123456789ABCDEF0123456
  kmodsmith "peermem load" --once
  assert_status 0
  [[ $stderr == *"nvidia-peermem: loaded from "* && $stderr != *"run/nvidia/driver"* ]]
  rm -r "$ROOT/sys/module/nvidia_peermem" "$ROOT/var/lib/kmodsmith/store"
  kmodsmith "peermem load" --once
  assert_status 1
  assert_error E_NOT_FOUND "no nvidia-peermem of the loaded driver 535.261.03 in /run/nvidia/driver"
  exported ABCDEF0123456789ABCDEF0
  kmodsmith "peermem load" --once
  assert_status 0
  [[ $stderr == *"nvidia-peermem: loaded from "*"run/nvidia/driver/lib/modules/$kernel/kernel/nvidia-peermem.ko"* ]]
}

@test "peermem: one of another build is replaced" {
  with_driver ib_register_peer_memory_client
  with_ib_core
  network_ready
  kmodsmith "peermem load" --once
  echo 0123456789ABCDEF0123456 >"$ROOT/sys/module/nvidia_peermem/srcversion"
  kmodsmith "peermem load" --once
  assert_status 0
  [[ $stderr == *"0123456789ABCDEF0123456 is loaded, the driver's is ABCDEF0123456789ABCDEF0: replacing it"* ]]
  assert_equal "$(peermem_loads)" "load nvidia_peermem;unload nvidia_peermem;load nvidia_peermem"
}
