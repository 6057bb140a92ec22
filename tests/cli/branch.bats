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
  tiny_firmware "$2"
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
  assert_error E_UNTRUSTED "has no key for this source"
  # Blackwell is served by open modules alone, and not by 535.
  sed -i 's/^0x2330$/0x2901/' "$ROOT"/sys/bus/pci/devices/*/device
  offer newer 575.9.1
  offer newer 580.1.02 --flavour proprietary
  plans latest 575.9.1 --from "oci:$BATS_TEST_TMPDIR/newer,$there"
}

signs() { # WHO LAYOUT DRIVER [FLAVOUR]: signs the package of that driver
  local keys=$BATS_TEST_TMPDIR
  [ -e "$keys/$1.key" ] || openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$keys/$1.key"
  openssl pkey -in "$keys/$1.key" -pubout -out "$keys/$1.pem"
  "$KMODSMITH" sign "oci:$BATS_TEST_TMPDIR/$2" --key "$keys/$1.key" --package "$3-${4:-open}-$kernel-x86_64" >/dev/null
}

@test "one that a stranger signed, or nobody, is passed over for an older one of the same repository, and is never used" {
  local new=oci:$BATS_TEST_TMPDIR/new driver
  for driver in 535.54.03 535.261.03 535.300.01 535.310.02; do offer new "$driver"; done
  signs ours new 535.261.03
  signs ours new 535.54.03
  signs stranger new 535.300.01
  id=$(openssl pkey -in "$BATS_TEST_TMPDIR/stranger.key" -pubout -outform DER | sha256sum | cut -d' ' -f1)
  kmodsmith "trust add" "$BATS_TEST_TMPDIR/ours.pem" --name ours
  kmodsmith plan 535 --from "$new"
  assert_status 0
  assert_line --partial "driver 535.261.03, "
  assert_equal "$(grep -c 'is not used' <<<"$stderr")" 2
  [[ $stderr == *"$new: 535.310.02-open-$kernel-x86_64 is not used: E_UNSIGNED: "* ]] || fail "$stderr"
  [[ $stderr == *"$new: 535.300.01-open-$kernel-x86_64 is not used: E_UNTRUSTED: sha256:"*"signed by "*"$id; trusted here: ours"* ]] || fail "$stderr"
  kmodsmith install 535 --from "$new" --modules nvidia,nvidia-uvm
  assert_status 0
  kmodsmith status --json
  assert_json '.journal["last-good"].version' 535.261.03
  kmodsmith "store ls" --json
  assert_json '[.items[].key.driver]|join(" ")' 535.261.03

  # What is loaded is not replaced by an older one, although all that is newer is passed over.
  rm -r "$BATS_TEST_TMPDIR/new/"
  for driver in 535.54.03 535.300.01; do offer new "$driver"; done
  signs ours new 535.54.03
  signs stranger new 535.300.01
  kmodsmith plan 535 --from "$new" --modules nvidia,nvidia-uvm
  assert_status 0
  assert_line --partial "driver 535.261.03, "
  assert_line --partial "zero unloads"
}

@test "where one flavour alone is trusted, that one is taken, although the GPUs want the other first" {
  local new=oci:$BATS_TEST_TMPDIR/new
  offer new 570.1.01
  offer new 570.1.01 --flavour proprietary
  signs ours new 570.1.01 proprietary
  kmodsmith "trust add" "$BATS_TEST_TMPDIR/ours.pem" --name ours
  kmodsmith plan 570 --from "$new"
  assert_status 0
  assert_line --partial "driver 570.1.01, proprietary"
}

@test "where none is trusted, the error is about the newest, and the search has an end" {
  local new=oci:$BATS_TEST_TMPDIR/new driver n
  for n in {01..20}; do
    offer new "535.300.$n"
    signs stranger new "535.300.$n"
  done
  signs ours package 535.261.03
  newest=$(jq -r '.manifests[] | select(.annotations["org.opencontainers.image.ref.name"] // "" | startswith("535.300.20-")).digest' "$BATS_TEST_TMPDIR/new/index.json")
  kmodsmith "trust add" "$BATS_TEST_TMPDIR/ours.pem" --name ours
  kmodsmith plan 535 --from "$new"
  assert_error E_UNTRUSTED "no package of branch 535 for kernel $kernel: sha256:"
  [[ $stderr == *"${newest:0:19}... of $new: signed by "* ]] || fail "$stderr"
  [[ $stderr == *"next: "*"kmodsmith trust add"* ]]
  assert_equal "$(grep -c 'is not used' <<<"$stderr")" 8 # of 20
  [[ $stderr == *"535.300.13-open-$kernel-x86_64 is not used"*"older ones are not looked at"* ]] || fail "$stderr"
  # The next repository has a trusted one.
  kmodsmith plan 535 --from "$new,$there"
  assert_status 0
  assert_line --partial "driver 535.261.03, "
}

@test "one that does not serve the GPUs is passed over for an older one that does" {
  sed -i 's/^0x2330$/0x1db1/' "$ROOT"/sys/bus/pci/devices/*/device # Volta: proprietary modules alone
  offer new 535.100.01
  offer new 535.99.01 --flavour proprietary
  offer new 590.1.01 --flavour proprietary # Volta is served up to 580
  offer new 590.1.01
  plans latest 535.99.01 --from "oci:$BATS_TEST_TMPDIR/new"
  kmodsmith plan 590 --from "oci:$BATS_TEST_TMPDIR/new" --insecure-skip-verify
  assert_error E_NO_PACKAGE "does not fit: its proprietary modules of 590.1.01 do not support the GPUs here"
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
