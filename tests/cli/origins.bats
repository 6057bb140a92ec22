#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Which driver, where file, environment and command line each say something: the higher one counts, also in other words (a
# package or a source in place of a version), and two that contradict on the command line are refused.
# shellcheck disable=SC2154 # bats and helper.bash set stderr and ROOT
load helper
load package

kernel=6.1.0-56-cloud-amd64 old=535.261.03 new=550.163.01
setup() { # the old driver is loaded; packages and sources of both are there
  local version
  loadable
  cd "$BATS_TEST_TMPDIR" || return 1
  mv package "package-$old"
  offer "package-$new" "$new"
  tiny_firmware "$new"
  for version in "$old" "$new"; do
    tiny_source "source-$version"
    sed -i "s/$old/$version/" "source-$version/kernel-open/Kbuild"
  done
  kmodsmith install --package "oci:package-$old"
  assert_status 0
}
offer() { # LAYOUT DRIVER
  mkdir "$1.d"
  for module in package.d/*.ko; do sed "s/$old/$2/g" "$module" >"$1.d/${module#*/}"; done
  python3 "$top/tests/services/make_layout.py" --kernel "$kernel" --label "kernel.build-id=$(build_id_of "$kernel")" --driver "$2" "$1" "$1.d"/*.ko >/dev/null
}
will_be() { sed -i "s/$old\|$new/$1/g" "$ROOT/proc/driver/nvidia/version"; } # DRIVER: as the next load makes the recorded machine say
variable() { # OPTION
  case $1 in
  driver) echo DRIVER_VERSION ;;
  flavour) echo KERNEL_MODULE_TYPE ;;
  *) echo "KMODSMITH_$(tr a-z- A-Z_ <<<"$1")" ;;
  esac
}
said() { # FILE ENVIRONMENT ARGUMENTS COMMAND [ARGUMENT...]: each as "OPTION=VALUE ..."
  local word words=() env=()
  : >conf
  for word in $1; do echo "${word%%=*} = ${word#*=}" >>conf; done
  for word in $2; do env+=("$(variable "${word%%=*}")=${word#*=}"); done
  for word in $3; do words+=("--$word"); done
  export KMODSMITH_CONFIG=$PWD/conf "${env[@]}"
  kmodsmith "$4" "${words[@]}" "${@:5}"
  for word in "${env[@]}"; do unset "${word%%=*}"; done
}
P=package=oci:package S=source=source F=from=oci:package
H=source-sha256=$(printf %064d 0) U=source=https://away.invalid/NVIDIA-Linux-x86_64 # a URL, and the digest that it needs
digest() { echo "sha256:$(jq -r '.manifests[0].digest[7:]' "package-$1/index.json")"; }

@test "which driver: every option that says it, from file, environment and command line" {
  local file env args want
  while IFS='|' read -r file env args want; do
    said "$file" "$env" "$args" plan --insecure-skip-verify
    case $want in
    E_*) assert_error "${want%% *}" "${want#* }" ;;
    keep) [ "$status" -eq 0 ] && [[ $output == *"driver $old, "*"zero unloads"* ]] ;;
    *) [ "$status" -eq 0 ] && [[ $output == *"driver $want, "*unload* ]] ;;
    esac || { echo "row: $file | $env | $args | $want" && told; } | fail
  done <<END
driver=$old|||keep
driver=$old||driver=$old|keep
driver=$new|driver=$old||keep
driver=$new||driver=$old|keep
|driver=$new|driver=$old|keep
driver=$new|driver=$new|driver=$old|keep
driver=$old||$P-$new|$new
|driver=$old|$P-$new|$new
driver=$old|$P-$new||$new
driver=$new||$P-$old|keep
driver=$old $P-$old||$P-$new|$new
$P-$old|driver=$new $P-$new||$new
$S-$old||$P-$new|$new
$S-$new|$S-$new|$P-$old|keep
driver=$old||$S-$new|$new
|driver=$old|$S-$new|$new
driver=$old|$S-$new||$new
driver=$old $S-$old||$S-$new|$new
driver=$old|$P-$old|$S-$new|$new
driver=$old $H||$S-$new|$new
driver=$new $S-$new||driver=$old|keep
$S-$new||driver=$old|keep
$P-$new||driver=$old|keep
driver=$old||digest=$(digest "$new") $F-$new|$new
driver=$old $S-$old||digest=$(digest "$new") $F-$new|$new
driver=$old digest=$(digest "$old")||$P-$new|$new
driver=$old digest=$(digest "$old")||driver=$new $F-$new|$new
driver=$old digest=$(digest "$old")||$S-$new|$new
$P-$old||driver=$new $F-$new|$new
$S-$old||driver=$new $F-$new|$new
driver=$old||$F-$new|keep
driver=$old||bundle=oci:package-$new|keep
driver=$old flavour=proprietary||flavour=open|keep
|driver=$old flavour=proprietary|flavour=auto|keep
$P-$new||driver=$old $P-$new|E_USAGE driver $old was requested, but --package 'oci:package-$new' is of driver $new
||driver=$old $P-$new|E_USAGE driver $old was requested, but --package 'oci:package-$new' is of driver $new
||driver=$new $P-$old|E_USAGE driver $new was requested, but --package 'oci:package-$old' is of driver $old
|driver=$old $P-$new||keep
driver=$old $P-$new|||keep
driver=$old package=oci:away|||keep
||driver=$old package=oci:away|keep
|driver=$new $P-$old||E_CONFIG environment variable DRIVER_VERSION: driver $new was requested, but --package
driver=$new $P-$old|||E_CONFIG line 2, key 'package': driver $new was requested, but --package
||driver=$old $S-$new|E_USAGE --source 'source-$new': driver $old was requested, but the source is of driver $new
|driver=$old $S-$new||keep
driver=$old $S-$new|||keep
||driver=$old $U-$new.run $H|E_USAGE --source 'https://away.invalid/NVIDIA-Linux-x86_64-$new.run': driver $old was requested, but the source is of driver $new
||driver=$old $U-$new-grid.run?token=secret $H|E_USAGE --source 'https://away.invalid/NVIDIA-Linux-x86_64-$new-grid.run': driver $old
||driver=$old $U-$old.run $H|keep
|driver=$old $U-$new.run $H||keep
driver=$new $U-$old.run $H||$F-$new|$new
driver=$new $S-$old||$F-$new|$new
|driver=$new $S-$old|$F-$new|$new
driver=$old|||keep
END
}

@test "a version that was typed: the configured source of another one is left, and serves where it is of it" {
  kmodsmith unload
  will_be "$new"
  said "source=source-$old" "" "driver=$new from=oci:package-$new" install --insecure-skip-verify
  assert_status 0
  [[ $stderr == *"source 'source-$old' is of driver $old and does not count: $new was requested"* ]]
  kmodsmith unload
  said "source=source-$old" "" "" install "$new" --insecure-skip-verify # from the store, where a package of this source is not asked for
  assert_status 0
  said "source=source-$new" "" "" plan latest
  assert_status 0
  assert_output --partial "driver $new, "
  kmodsmith unload
  rm -r "$ROOT/var/lib/kmodsmith"
  said "source=source-$old" "" "driver=$new" plan
  assert_error E_NO_PACKAGE "no package of driver $new"
  said "$U-$old.run $H" "" "driver=$new" plan
  assert_error E_NO_PACKAGE "no package of driver $new"
  said "source=source-$old" "" "driver=$old" plan
  assert_status 0
  assert_output --partial "compile "
}

@test "what gives way is said, with its line or variable" {
  said "driver=$old" "" "package=oci:package-$new" plan
  [[ $stderr == *"--driver, set by '$PWD/conf', line 1, gives way to --package"* ]]
  said "" "driver=$old" "source=source-$new" plan
  [[ $stderr == *"--driver, set by the environment variable DRIVER_VERSION, gives way to --source"* ]]
  said "driver=$old" "" "package=oci:package-$old driver=$old" plan
  [[ $stderr != *"gives way"* ]]
}

@test "install, init, watch and bundle install hold to it" {
  kmodsmith unload
  will_be "$new"
  said "driver=$old" "" "package=oci:package-$new" install --json
  assert_status 0
  assert_json .plan.driver "$new"
  kmodsmith unload
  will_be "$old"
  said "driver=$new" "" "package=oci:package-$old" install
  assert_status 0
  kmodsmith unload
  will_be "$new"
  echo "driver = $old" >conf
  KMODSMITH_CONFIG=$PWD/conf timeout --preserve-status "$hung" "$KMODSMITH" init --root "$ROOT" --no-daemons --package "oci:package-$new" >log 2>&1 3>&- &
  log=log soon grep "ready: driver $new, open" log
  kill $! && wait $!
  said "driver=$old" "" "source=source-$new" watch --once --json
  assert_json .driver "$new"
  kmodsmith unload
  will_be "$old"
  said "package=oci:nowhere" "" "" "bundle install" "oci:package-$old" --insecure-skip-verify
  assert_status 0
  assert_output --partial "request   $old open"
}

@test "a package that was replaced since does not unload the driver that is named with it" {
  echo 0123456789ABCDEF0123456 >"$ROOT/sys/module/nvidia/srcversion"
  said "driver=$old" "" "$P-$old" plan --insecure-skip-verify
  assert_output --partial "srcversion"
  said "" "" "driver=$old $P-$old" plan --insecure-skip-verify
  assert_status 0
  assert_output --partial "zero unloads"
}

@test "what was typed wrong is not kept in the node's status, what is configured wrong is" {
  kmodsmith unload
  rm -r "$ROOT/run/kmodsmith" "$ROOT/var/lib/kmodsmith" # a last good driver would come back
  said "" "" "driver=$new package=oci:package-$old" install
  assert_error E_USAGE "driver $new was requested, but --package"
  assert_file_not_exist "$ROOT/run/kmodsmith/status.json"
  said "driver=$new package=oci:package-$old" "" "" install
  assert_error E_CONFIG "line 2, key 'package': driver $new was requested, but --package"
  assert_equal "$(jq -r '.. | .error? | .code? // empty' "$ROOT/run/kmodsmith/status.json")" E_CONFIG
}

@test "an agent's order outranks the source that the node is configured with" {
  said "" "driver=$new source=source-$old" "from=oci:package-$new" plan --insecure-skip-verify
  assert_status 0
  [[ $stderr == *"source 'source-$old' is of driver $old and does not count: $new was requested"* ]]
  said "" "source=source-$old" "driver=$new from=oci:package-$new" plan --insecure-skip-verify # as the agent's child is started
  assert_status 0
}

@test "a version in a file is one word: a comment has a line of its own" {
  local value
  for value in "$old # the fleet" "535.261.03 or newer" ""; do
    printf '# x\ndriver = %s\n' "$value" >conf
    for command in plan install "watch --once" init; do
      # shellcheck disable=SC2086 # a command and its option
      KMODSMITH_CONFIG=$PWD/conf kmodsmith $command
      assert_error E_CONFIG "'$PWD/conf', line 2, key 'driver': --driver '$value' is not a driver version"
      [[ $value != *\#* || $stderr == *"a comment has a line of its own"* ]]
    done
  done
  DRIVER_VERSION='' kmodsmith plan # an empty variable is none
  assert_status 0
}
