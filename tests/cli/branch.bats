#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# `install 535` and `install latest`: the newest driver that there is a package of, and never a step back.
# shellcheck disable=SC2154 # bats and helper.bash set stderr and ROOT
load helper
load package

kernel=6.1.0-56-cloud-amd64
setup() {
  loadable
  there=oci:$BATS_TEST_TMPDIR/package
}
offer() { # LAYOUT DRIVER [OPTION...]: one more package, of made-up content
  python3 "$top/tests/services/make_layout.py" --kernel "$kernel" --label "kernel.build-id=$(build_id_of "$kernel")" --driver "$2" "${@:3}" \
    "$BATS_TEST_TMPDIR/$1" "$BATS_TEST_TMPDIR"/package.d/*.ko >/dev/null
}
plans() { # DRIVER WORD...: what is chosen, and where from
  kmodsmith plan "$1" --insecure-skip-verify "${@:3}"
  assert_status 0
  assert_line --partial "driver $2, "
}

@test "the newest of the branch that is there, and from then on as if it had been typed" {
  offer package 535.54.03
  offer package 535.9.1
  offer package 550.1.02
  offer package 5350.1
  plans 535 535.261.03 --from "$there"
  [[ $stderr == *"driver 535.261.03: the newest of branch 535, in $there"* ]]
  plans latest 5350.1 --from "$there"
  offer more 535.300.01
  plans 535 535.300.01 --from "$there,oci:$BATS_TEST_TMPDIR/more" # of all sources, whatever their order
  plans 535 535.300.01 --from "oci:$BATS_TEST_TMPDIR/more,$there"
  kmodsmith install 535 --from "$there" --insecure-skip-verify --json
  assert_status 0
  assert_json .plan.driver 535.261.03
  kmodsmith status --json
  assert_json '.journal["last-good"].version' 535.261.03
}

@test "a loaded driver gives way to a newer one of its branch alone; without sources it stays, and so does what is in the store" {
  offer old 535.54.03
  kmodsmith install 535 --from "oci:$BATS_TEST_TMPDIR/old,$there" --insecure-skip-verify
  assert_status 0
  snapshot
  plans 535 535.261.03 --from "oci:$BATS_TEST_TMPDIR/old"
  assert_line --partial "zero unloads"
  plans 535 535.261.03 --from oci:/nowhere
  assert_line --partial "zero unloads"
  [[ $stderr == *"oci:/nowhere: "* ]]
  plans latest 535.261.03
  assert_line --partial "zero unloads"
  assert_unchanged
  offer new 535.300.01
  plans 535 535.300.01 --from "oci:$BATS_TEST_TMPDIR/new"
  assert_line --partial "unload"
  kmodsmith unload
  plans 535 535.261.03 # from the store
  [[ $stderr == *"the newest of branch 535, in the store"* ]]
}

@test "where there is none, what there is is named; what is not trusted, or does not serve the GPUs, is not chosen" {
  kmodsmith install 550 --from "$there" --insecure-skip-verify
  assert_error E_NO_PACKAGE "no package of branch 550 for kernel $kernel: $there: "
  assert_error E_NO_PACKAGE "driver is 535.261.03, wanted one of branch 550"
  kmodsmith install 550
  assert_error E_NO_PACKAGE "the store has none, and no --from was given"
  kmodsmith install 535 --from "$there"
  assert_error E_NO_PACKAGE "has no key for this source"
  # Blackwell is served by open modules alone, and not by 535.
  sed -i 's/^0x2330$/0x2901/' "$ROOT"/sys/bus/pci/devices/*/device
  offer newer 575.9.1
  offer newer 580.1.02 --flavour proprietary
  plans latest 575.9.1 --from "oci:$BATS_TEST_TMPDIR/newer,$there"
}

@test "only who installs may leave the version open, and not beside a package or a source" {
  kmodsmith install 535 --package "$there"
  assert_error E_USAGE "branch 535 was requested, and --source, --package or --digest say which driver"
  kmodsmith install latest --source /nowhere
  assert_error E_NOT_FOUND /nowhere
  DRIVER_VERSION=535 kmodsmith install --from "$there" --insecure-skip-verify
  assert_error E_CONFIG "DRIVER_VERSION: '535' is not a driver version"
  DRIVER_VERSION=535 kmodsmith plan 535 --from "$there" --insecure-skip-verify
  assert_status 0
  kmodsmith init --driver 535 --from "$there" --insecure-skip-verify
  assert_error E_USAGE "'535' is not a driver version"
  [[ $stderr == *"next: name one exactly"* ]]
}
