#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Files in which a node keeps what it knows, as a power cut, a repair of the disk or a stranger leaves them: no start goes
# without a driver that it could load, nothing is dropped in silence, and nothing waits for ever.
# shellcheck disable=SC2154 # helper.bash sets what is used here
load helper
load package

driver=535.261.03
# FILE, and whether a start that needs no repository reads it, and so has to say that it was damaged.
files() {
  cat <<'END'
var/lib/kmodsmith/journal|said
var/lib/kmodsmith/roots.json|said
var/lib/kmodsmith/catalogs.json|
var/lib/kmodsmith/unverified.json|
var/lib/kmodsmith/store/index.json|said
var/lib/kmodsmith/store/oci-layout|said
var/lib/kmodsmith/store/.lock|
var/lib/kmodsmith/store/.use|
run/kmodsmith/journal|said
run/kmodsmith/loaded.json|
run/kmodsmith/status.json|
run/kmodsmith/optional.json|said
run/kmodsmith/export.json|said
run/kmodsmith/cdi.json|
run/kmodsmith/lock|
END
}
damage() { # FILE KIND
  local size=0
  mkdir -p "${1%/*}"
  [ ! -s "$1" ] || size=$(stat -c %s "$1")
  ((size)) || { echo '{"boot_id": "748698d1-a6e1-4a39-810d-4cbe5541c323", "dir": "x"}' >"$1" && size=64; }
  [ "$2" = half ] || rm -f "$1"
  case $2 in
  empty) : >"$1" ;;
  zeros) head -c "$size" /dev/zero >"$1" ;;
  half) truncate -s $((size / 2)) "$1" ;;
  directory) mkdir "$1" ;;
  link) ln -s nowhere "$1" ;;
  pipe) mkfifo "$1" ;;
  version) echo '{"schema": 99, "state": "later", "manifests": 7, "imageLayoutVersion": "2.0.0"}' >"$1" ;;
  esac
}
kinds=(empty zeros half directory link pipe version)

setup_file() {
  export files=$BATS_FILE_TMPDIR/machines
  mkdir "$files"
  BATS_TEST_TMPDIR=$files loadable
  kmodsmith install --package "$files/package"
  assert_status 0
  cp -a "$ROOT" "$files/loaded"
  kmodsmith unload
  assert_status 0
  boot
  cp -a "$ROOT" "$files/booted"
}
boot() { # the machine was started again
  echo 7e57ab1e-0000-4000-8000-000000000002 >"$ROOT/proc/sys/kernel/random/boot_id"
  rm -rf "$ROOT"/run/kmodsmith/* "$ROOT"/dev/nvidia* "$ROOT/.sys-calls"
}
machine() { # loaded|booted
  ROOT=$BATS_TEST_TMPDIR/host
  rm -rf "$ROOT"
  cp -a "$files/$1" "$ROOT"
}
warnings() { grep -c '^kmodsmith: warn' <<<"$stderr" || true; }
# After each damage to each file the command succeeds, and a start after it has nothing to complain of.
each_damage() { # loaded|booted COMMAND...
  local file said kind from=$1
  shift
  while IFS='|' read -r file said; do
    for kind in "${kinds[@]}"; do
      machine "$from"
      damage "$ROOT/$file" "$kind"
      kmodsmith "$@"
      [ "$status" = 0 ] || { echo "$file $kind" && told; } | fail
      [ -z "$said" ] || [ "$kind" = version ] || [ "$(warnings)" = 1 ] || { echo "$file $kind: not said once" && told; } | fail
      (($(warnings) <= 1)) || { echo "$file $kind: said more than once" && told; } | fail
      check "$file $kind"
    done
  done < <(files)
}
check() {
  assert_equal "$1: $(calls | grep '^load' | sed 's/ *$//' | paste -sd';')" "$1: load nvidia;load nvidia_modeset;load nvidia_uvm"
  assert_equal "$1: $(jq -r '."last-good".version' "$ROOT/var/lib/kmodsmith/journal")" "$1: $driver"
  assert_equal "$1: $(jq -r '.target != null and .target == ."last-good"' "$ROOT/var/lib/kmodsmith/roots.json")" "$1: true"
  kmodsmith install --driver "$driver"
  assert_equal "$1: $status $(warnings)" "$1: 0 0"
}

@test "damage x boot: the stored driver is loaded" {
  each_damage booted install --driver "$driver"
}

@test "damage x a named package: it is loaded" {
  each_damage booted install --package "$files/package"
}

@test "damage x a start with the driver loaded: adopted, and the way back is known again" {
  each_damage loaded install --driver "$driver"
}

@test "damage x stage: what is staged is loaded by the next install" {
  check() { # a stage does not have the lock under which most are set aside
    assert_equal "$1: $(calls)" "$1: "
    kmodsmith install --driver "$driver" --offline
    assert_equal "$1: $status" "$1: 0"
    (($(warnings) <= 1)) || { echo "$1: said more than once" && told; } | fail
  }
  each_damage booted install --stage --driver "$driver"
}

@test "damage x what only reads: said, and left to an install, which sets it aside" {
  local file kind command
  for file in var/lib/kmodsmith/journal run/kmodsmith/{journal,loaded.json,optional.json,export.json,status.json}; do
    for kind in half directory; do
      machine loaded
      damage "$ROOT/$file" "$kind"
      snapshot
      for command in status doctor plan holders; do
        kmodsmith "$command"
        (($(warnings) <= 1)) || { echo "$command, $file $kind: said more than once" && told; } | fail
        assert_unchanged
      done
      kmodsmith install --driver "$driver"
      assert_equal "$file $kind: $status $(warnings)" "$file $kind: 0 1"
      assert_exists "$ROOT/$file.damaged"
    done
  done
}
