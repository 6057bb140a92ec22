#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Each verb of `nvidia-driver` in the driver image, with the environment that the image has. The machine is a recorded one;
# headers and a compiler, which the image has not, come from a layout. The compiler is made up, the sources are NVIDIA's; in
# the last test it is the other way round.
# shellcheck disable=SC2016,SC2030,SC2031,SC2154 # bats runs each test in a subshell, sets status, output and stderr
load helper
load ../cli/package

setup() {
  [ "$(id -u)" -eq 0 ] || skip "only root can chroot"
  kernel=$(<"$top/tests/hosts/h100x2-unloaded/proc/sys/kernel/osrelease")
  eval "$(declare -f tiny_module | sed "s/version=[0-9.]\+ /version=$DRIVER /")"
  place=$BATS_TEST_TMPDIR/place
  mkdir "$place"
  loadable
  # What the image carries: its flavour and its version.
  sed -Ei "s/Open Kernel Module for x86_64( +)[0-9.]+/x86_64 Kernel Module\1$DRIVER/" "$ROOT/proc/driver/nvidia/version"
  [ -d "$ROOT/lib/firmware/nvidia/$DRIVER" ] || mv "$ROOT"/lib/firmware/nvidia/* "$ROOT/lib/firmware/nvidia/$DRIVER"
  mv "$ROOT" "$place/machine"
  unset ROOT
  tiny_builder "$BATS_TEST_TMPDIR/builder.tar" 99 "$kernel"
  "$KMODSMITH" pack builder "$BATS_TEST_TMPDIR/builder.tar" --output "oci:$place/layout" --arch x86_64 \
    --state-dir "$BATS_TEST_TMPDIR/state" >/dev/null
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$BATS_TEST_TMPDIR/key.pem" 2>/dev/null
  openssl pkey -in "$BATS_TEST_TMPDIR/key.pem" -pubout -out "$BATS_TEST_TMPDIR/site.pem"
  "$KMODSMITH" sign "oci:$place/layout" --key "$BATS_TEST_TMPDIR/key.pem" >/dev/null
  "$KMODSMITH" trust add "$BATS_TEST_TMPDIR/site.pem" --root "$place/machine" >/dev/null
  tiny_headers "$place/headers.tar" "$kernel"
  built_with 99 "$place/headers.tar" "$kernel"
}
teardown() { [ -z "${init-}" ] || kill "$init" 2>/dev/null || true; }

in_container() { # NAME=VALUE... COMMAND WORD...: of the image, as far as the program sees it; takes the place of a shell of its own
  local environment given=()
  mapfile -t environment < <(config_of driver '.config.Env[]')
  while [[ $1 = *=* ]]; do given+=("$1") && shift; done
  exec unshare -m --propagation private bash -c '
    mount --rbind "$1" "$1" && mount --bind "$2" "$1/mnt" && mount --rbind /dev "$1/dev" && mount -t proc proc "$1/proc" || exit 99
    exec env -i "${@:3}"' - "$images/driver/root" "$place" "${environment[@]}" "${given[@]}" chroot "$images/driver/root" "$@"
}
verb() { # WORD...
  in_container KMODSMITH_ROOT=/mnt/machine KMODSMITH_MODULES=nvidia KMODSMITH_HEADERS=/mnt/headers.tar \
    KMODSMITH_FROM=oci:/mnt/layout KMODSMITH_NO_DAEMONS=yes KMODSMITH_EXPORT=none nvidia-driver "$@"
}
calls_of() { cat "$place/machine/.sys-calls" 2>/dev/null; }

@test "build and update compile the sources that the image carries, for the running kernel and for another" {
  run --separate-stderr verb build
  assert_success
  assert_output --partial "$DRIVER-proprietary-$kernel-x86_64 sha256:"
  assert_regex "$stderr" "source .* $DRIVER, sha256"
  run --separate-stderr verb update --max-threads 1 -k "$kernel"
  assert_success
  assert_output --partial "$DRIVER-proprietary-$kernel-x86_64 sha256:"
  assert_equal "$(calls_of)" ""
}

@test "load takes what build left, and compiles nothing by itself" {
  run --separate-stderr verb load
  assert_error E_NO_PACKAGE "$DRIVER"
  run verb build
  assert_success
  run --separate-stderr verb load
  assert_success
  assert_regex "$(calls_of)" 'load nvidia'
}

@test "init compiles what the image carries, loads it, and stays until it is told to end" {
  verb init >"$BATS_TEST_TMPDIR/log" 2>&1 3>&- &
  init=$!
  log=$BATS_TEST_TMPDIR/log soon grep -q 'ready: driver' "$BATS_TEST_TMPDIR/log"
  kill -TERM "$init"
  wait "$init"
  assert_regex "$(calls_of)" 'load nvidia'
}

@test "reload_nvidia_peermem looks and stays, probe_nvidia_peermem tells what it found" {
  verb reload_nvidia_peermem >"$BATS_TEST_TMPDIR/log" 2>&1 3>&- &
  init=$!
  log=$BATS_TEST_TMPDIR/log soon test -e "$place/machine/run/kmodsmith/peermem.json"
  run --separate-stderr verb probe_nvidia_peermem
  assert_success
  assert_output --partial "no PCI device of vendor 15b3"
  kill -TERM "$init"
  wait "$init"
  grep -F "exiting; nvidia-peermem stays as it is" "$BATS_TEST_TMPDIR/log"
}

@test "without a compiler: the builder that the image names, found by its digest in a repository that nobody signed" {
  local file headers=()
  eval "$(cd "$top" && kept scripts/inputs.sh | grep -E '^K61(_HEADERS)?=')"
  # shellcheck disable=SC2086 # a list of files
  for file in $K61_HEADERS; do cp "$file" "$place" && headers+=("/mnt/${file##*/}"); done
  cp -r "$top/tests/vm/driver" "$place/source"
  cp -r "$images/builder/asset" "$place/repository"
  compile() { # OPTION...
    run --separate-stderr in_container kmodsmith build --source /mnt/source --kernel "$K61" --headers "$(IFS=, && echo "${headers[*]}")" \
      --flavour proprietary --modules nvidia --state-dir /mnt/state --trust-dir /mnt/nobody --json "$@"
  }
  mkdir "$place/nobody"
  compile
  assert_error E_TOOLCHAIN "is named without a repository, and there is no --from"
  compile --from oci:/mnt/repository
  assert_success
  assert_regex "$(jq -r .key.compiler <<<"$output")" 'gcc-[0-9]+ '
  assert_regex "$stderr" "those of the builder image at '/mnt/state/builders/$(jq -r '.manifests[0].digest[7:]' "$place/repository/index.json")'"
  compile # the second time from the store
  assert_success
}
