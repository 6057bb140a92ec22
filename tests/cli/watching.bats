#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# `watch` and `init` while kernels come and go: what is noticed, when it is looked at, and that nothing stops it.
# shellcheck disable=SC2154,SC2016 # bats and helper.bash set stderr, top and ROOT
load helper
load package

running=6.1.0-56-cloud-amd64
next=6.1.0-57-cloud-amd64
record=run/kmodsmith/kernels.json
setup() {
  loadable
  package=$BATS_TEST_TMPDIR/next
  tiny_package "$package" $next
  mkdir -p "$ROOT/boot"
  log=$BATS_TEST_TMPDIR/log
}
teardown() { [ -z "${watcher-}" ] || ! kill -0 "$watcher" 2>/dev/null || kill -KILL "$watcher"; }

verdict() { jq -r --arg release "$1" '.kernels[] | select(.release == $release).verdict' "$ROOT/$record" 2>/dev/null; }
is_verdict() { [ "$(verdict "$1")" = "$2" ]; }
start() { # COMMAND OPTION...
  "$KMODSMITH" "$@" --root "$ROOT" --driver 535.261.03 --from "oci:$package" --insecure-skip-verify \
    >>"$log" 2>&1 3>&- &
  watcher=$!
}
watch() { start watch --quiet-time "${quiet:-1}" && soon is_watching; }
is_watching() { grep -q inotify "/proc/$watcher/fdinfo/"* 2>/dev/null; }
is_empty() { [ -z "$(ls "$1")" ]; }
looks() { grep -c "store: no matching package" "$log" || true; }
leave() { # it ends by itself, soon
  kill -TERM "$watcher"
  wait "$watcher"
}
image() { echo image >"$ROOT/boot/vmlinuz-$next"; }
modules() {
  mkdir -p "$ROOT/lib/modules/$next/kernel"
  cp "$ROOT/lib/modules/$running/config" "$ROOT/lib/modules/$next"
  touch "$ROOT/lib/modules/$next"/modules.{order,builtin}
}
index() { # as depmod: temporary names, then renames
  touch "$ROOT/lib/modules/$next/modules.dep.tmp"
  mv "$ROOT/lib/modules/$next/modules.dep.tmp" "$ROOT/lib/modules/$next/modules.dep"
}

@test "a kernel that is unpacked slowly is looked at once it is complete and quiet" {
  local i quiet=5
  watch
  modules
  for i in {1..70}; do # longer than the quiet time together, and each far within it
    touch "$ROOT/lib/modules/$next/kernel.$i"
    sleep 0.1
  done
  assert_file_not_exist "$ROOT/$record"
  image
  index
  soon is_verdict $next ready
  assert_equal "$(looks)" 1
  leave
  assert_file_contains "$log" "signal 15: exiting"
}

@test "half a kernel is reported; the rest arrives; the kernel is removed, and its package with it" {
  watch
  modules
  soon is_verdict $next incomplete
  image
  index
  soon is_verdict $next ready
  rm -rf "$ROOT/lib/modules/$next" "$ROOT/boot/vmlinuz-$next"
  soon grep -q "from the store: its kernel was removed" "$log"
  leave
}

@test "hooks: queued kernels are seen; invalid input is not queued, and never fails" {
  watch
  modules
  image
  index
  soon is_verdict $next ready
  local hook queue=$ROOT/var/lib/kmodsmith/kernels
  mkdir -p "$ROOT/etc/kernel/postinst.d" "$ROOT/usr/lib/kernel/install.d"
  run -0 "$top/scripts/hooks/install.sh" --gate "$ROOT"
  assert_line "$ROOT/etc/kernel/header_postinst.d/zz-kmodsmith"
  export KMODSMITH_STATE_DIR=$ROOT/var/lib/kmodsmith
  kill -STOP "$watcher" # so that what is queued stays
  hook=$ROOT/etc/kernel/postinst.d/zz-kmodsmith
  for word in "" ../../x "a b" '$(reboot)' .hidden -rf / "$(printf 'x%.0s' {1..65})" 'x;y' $'x\ny'; do
    run -0 "$hook" "$word"
    assert_output ""
  done
  run -0 "$hook"
  assert_equal "$(ls "$queue")" ""
  run -0 "$hook" 6.9.9 /boot/vmlinuz-6.9.9
  run -0 "$hook" 6.9.9 /boot/vmlinuz-6.9.9
  run -0 "$ROOT/etc/kernel/install.d/90-kmodsmith.install" add 6.9.10 /x /y
  run -0 "$ROOT/etc/kernel/install.d/90-kmodsmith.install" inspect 6.9.11
  assert_equal "$(cd "$queue" && printf '%s ' *)" "6.9.10 6.9.9 "
  kill -CONT "$watcher"
  soon is_empty "$queue"
  leave
  KMODSMITH_STATE_DIR=/nonexistent run -0 "$hook" 6.9.9
  run -0 "$top/scripts/hooks/install.sh" --remove "$ROOT"
  assert_equal "$(find "$ROOT/etc" -name '*kmodsmith*' ! -type d)" ""
}

@test "the gate answers before a reboot" {
  export KMODSMITH_RUN_DIR=$ROOT/run/kmodsmith
  run -0 "$top/scripts/hooks/reboot-gate"
  mkdir -p "$KMODSMITH_RUN_DIR"
  echo "6.1 may start next: impossible: E_X: why" >"$KMODSMITH_RUN_DIR/reboot-blocked"
  run -1 "$top/scripts/hooks/reboot-gate"
  assert_output "kmodsmith: no reboot: 6.1 may start next: impossible: E_X: why"
}

@test "killed at work, it restarts, and leaves a store that verifies" {
  local i
  for i in {1..3}; do
    watch
    modules
    image
    index
    sleep "1.$i"
    kill -KILL "$watcher"
    wait "$watcher" || true
  done
  watch
  soon is_verdict $next ready
  leave
  kmodsmith "store verify"
  assert_status 0
}

# A driver source whose compile takes so many seconds, by a builder image, and the next kernel with its headers.
slow_driver() { # SECONDS
  builder=$BATS_TEST_TMPDIR/builder
  tiny_builder "$builder.tar" 99 $next
  echo "$1" >"$builder.tar.d/usr/made/slow"
  tar -cf "$builder.tar" -C "$builder.tar.d" --exclude=./dev .
  "$KMODSMITH" pack builder "$builder.tar" --output "oci:$builder" --state-dir "$BATS_TEST_TMPDIR/elsewhere" --arch x86_64
  tiny_source "$BATS_TEST_TMPDIR/driver"
  touch "$BATS_TEST_TMPDIR/driver/kernel-open/nvidia/nvidia.Kbuild"
  modules
  image
  index
  tiny_headers "$BATS_TEST_TMPDIR/headers.tar" $next
  built_with 99 "$BATS_TEST_TMPDIR/headers.tar" $next
  tar -xf "$BATS_TEST_TMPDIR/headers.tar" -C "$ROOT" --keep-directory-symlink
}

@test "a kernel removed during its build is forgotten, with the package made for it" {
  slow_driver 4
  "$KMODSMITH" watch --root "$ROOT" --source "$BATS_TEST_TMPDIR/driver" --flavour open --modules nvidia --quiet-time 1 \
    --from "oci:$builder" --insecure-skip-verify >>"$log" 2>&1 3>&- &
  watcher=$!
  soon is_verdict $next building
  rm -rf "$ROOT/lib/modules/$next" "$ROOT/boot/vmlinuz-$next"
  forgotten() { [ "$(jq '.kernels | length' "$ROOT/$record")" = 0 ]; }
  soon forgotten
  leave
  kmodsmith "store ls" --json
  assert_json '[.. | .tag? // empty | select(startswith("535"))] | length' 0
  kmodsmith "store verify"
  assert_status 0
}

@test "a compile has the lowest priority; killed, it blocks nobody and is started again" {
  local child
  slow_driver 60
  tiny_package "$BATS_TEST_TMPDIR/now" $running
  "$KMODSMITH" init --root "$ROOT" --driver 535.261.03 --flavour open --source "$BATS_TEST_TMPDIR/driver" --insecure-skip-verify \
    --from "oci:$BATS_TEST_TMPDIR/now,oci:$builder" --no-daemons --export none --cdi none >>"$log" 2>&1 3>&- &
  watcher=$!
  soon is_verdict $next building
  kmodsmith status
  assert_line --regexp "^kernel $next may start next: building: compiling driver 535.261.03 for it now"
  child=$(pgrep -P "$watcher" -f 'watch --once')
  run -0 ps -o ni=,cls= -p "$child"
  assert_output --regexp '^ *19 +B$'
  run -0 ionice -p "$child"
  assert_output idle
  soon pgrep -P "$child"
  kill -KILL "$child"
  soon grep -q "killed by signal 9" "$log"
  kill -0 "$watcher"
  leave
  assert_file_contains "$log" "the driver stays loaded"
}

@test "init: watches kernels while it serves" {
  tiny_package "$BATS_TEST_TMPDIR/now" $running
  modules
  image
  index
  "$KMODSMITH" init --root "$ROOT" --driver 535.261.03 --from "oci:$BATS_TEST_TMPDIR/now,oci:$package" \
    --insecure-skip-verify --no-daemons --export none --cdi none >>"$log" 2>&1 3>&- &
  watcher=$!
  soon is_verdict $next ready
  leave
  assert_file_contains "$log" "the driver stays loaded"
}

@test "another driver is configured: the watcher looks for it at once; the command line still outranks it" {
  driver() { jq -r .driver "$ROOT/$record" 2>/dev/null; }
  is_driver() { [ "$(driver)" = "$1" ]; }
  local configured=$ROOT/etc/kmodsmith/kmodsmith.conf
  mkdir -p "${configured%/*}"
  printf '%s\n' 'driver = 535.261.03' "from = oci:$package" 'insecure-skip-verify = yes' >"$configured"
  modules
  image
  index
  KMODSMITH_CONFIG=$configured "$KMODSMITH" watch --root "$ROOT" --quiet-time 1 --flavour open >>"$log" 2>&1 3>&- &
  watcher=$!
  soon is_verdict $next ready
  assert_equal "$(looks)" 1
  printf 'driver = 550.163.01\n' >>"$configured"
  soon is_driver 550.163.01
  assert_equal "$(verdict $next)" impossible # its --from has none
  sed -i 's/^driver = 550/version = 550/' "$configured"
  soon grep -q "line 4: unknown key 'version'" "$log"
  sed -i '/^version/d' "$configured"
  soon is_driver 535.261.03
  soon is_verdict $next ready
  leave
  rm "$ROOT/$record"
  KMODSMITH_CONFIG=$configured watch
  soon is_verdict $next ready
  printf 'driver = 550.163.01\n' >>"$configured"
  rm "$ROOT/$record"
  soon is_verdict $next ready # looked at again
  is_driver 535.261.03
  leave
}
