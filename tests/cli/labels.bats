#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Labels of GPUs for Node Feature Discovery, by the names of NVIDIA's GPU feature discovery.
# shellcheck disable=SC2154 # bats and helper.bash set output and ROOT
load helper
load package

features() { echo "$ROOT/etc/kubernetes/node-feature-discovery/features.d"; }
labels() { kmodsmith report --once --nfd-labels && cat "$(features)/kmodsmith"; }
teardown() { [ -z "${watcher-}" ] || kill -KILL "$watcher" 2>/dev/null || true; }

@test "labels: what is known without CUDA, of a driver that is ready" {
  host h100x8
  kmodsmith report --once --nfd-labels
  assert_status 0
  assert_output "" # no Node is told
  assert_file_not_exist "$(features)/kmodsmith" # nothing was measured yet
  kmodsmith report --once --nfd-labels --json
  assert_json '.conditions | length' 0
  kmodsmith install
  run labels
  assert_output --partial "$(cat <<'EOF'
nvidia.com/gpu.present=true
nvidia.com/gpu.count=8
nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3
nvidia.com/gpu.family=hopper
nvidia.com/cuda.driver-version.full=535.261.03
nvidia.com/cuda.driver-version.major=535
nvidia.com/cuda.driver-version.minor=261
nvidia.com/cuda.driver-version.revision=03
EOF
)"
  [ "$(wc -l <"$(features)/kmodsmith")" -eq 8 ]
  # GPUs that differ have no product in common; one of a strange name makes no wrong label.
  sed -i 's/^Model:.*/Model: \t odd "name" = <b>/' "$ROOT"/proc/driver/nvidia/gpus/*/information
  run labels
  assert_output --partial "nvidia.com/gpu.product=odd--name-----b"
  sed -i 's/^Model:.*/Model: \t another/' "$ROOT/proc/driver/nvidia/gpus/0000:40:00.0/information"
  run labels
  refute_output --partial product
  assert_output --partial "nvidia.com/gpu.count=8"
}

@test "labels: beside NVIDIA's own program there are none, and none of a driver that is gone" {
  host h100x8
  kmodsmith install
  run labels
  assert_success
  echo nvidia.com/gpu.count=8 >"$(features)/gfd"
  kmodsmith report --once --nfd-labels
  assert_status 0
  assert_file_not_exist "$(features)/kmodsmith"
  rm "$(features)/gfd"
  run labels
  assert_success
  jq '.state = "CHANGING"' "$ROOT/run/kmodsmith/status.json" >"$BATS_TEST_TMPDIR/s" && mv "$BATS_TEST_TMPDIR/s" "$ROOT/run/kmodsmith/status.json"
  kmodsmith report --once --nfd-labels
  assert_file_not_exist "$(features)/kmodsmith"
}

@test "labels: watch keeps them, without a Kubernetes API, and only where it was asked to" {
  loadable
  start() {
    KMODSMITH_ROOT=$ROOT "$KMODSMITH" watch --driver 535.261.03 "$@" >"$BATS_TEST_TMPDIR/log" 2>&1 3>&- &
    watcher=$!
  }
  start --nfd-labels
  kmodsmith install --package "$BATS_TEST_TMPDIR/package"
  assert_status 0
  log=$BATS_TEST_TMPDIR/log soon test -e "$(features)/kmodsmith"
  kmodsmith unload
  log=$BATS_TEST_TMPDIR/log soon test ! -e "$(features)/kmodsmith"
  kill "$watcher" && wait "$watcher"
  start
  kmodsmith install --package "$BATS_TEST_TMPDIR/package"
  sleep 3 # as long as it takes with it
  assert_file_not_exist "$(features)/kmodsmith"
}
