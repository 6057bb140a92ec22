#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The hand-over to OpenShift's driver toolkit. The side that has the driver against a toolkit that is played by hand:
# flags in every order, left over, forged, too late; and the toolkit's side against requests that it cannot serve. The
# two together: toolkit.bats.
# shellcheck disable=SC2154 # bats and helper.bash set stderr, top and ROOT
load helper
load package

kernel=6.1.0-56-cloud-amd64
setup() {
  shared=$BATS_TEST_TMPDIR/shared source=$BATS_TEST_TMPDIR/driver log=$BATS_TEST_TMPDIR/log
  mkdir "$shared"
  tiny_source "$source"
  export KMODSMITH_DTK_SHARED=$shared KMODSMITH_STATIC=$KMODSMITH KMODSMITH_DTK_TIMEOUT=$hung
}
teardown() {
  local pid
  for pid in ${side-} ${server-}; do { kill -9 "$pid" && wait "$pid"; } 2>/dev/null || true; done
}

entry() { # VERB [ARGUMENT...]: in the background, as a pod calls it; no timeout(1) in between: signals are meant for it
  ln -sf "$KMODSMITH" "$BATS_TEST_TMPDIR/ocp_dtk_entrypoint"
  "$BATS_TEST_TMPDIR/ocp_dtk_entrypoint" "$@" >>"$log" 2>&1 3>&- &
  side=$!
}
driver_side() { entry nv-ctr-run-with-dtk --root "$ROOT" --source "$source"; }
toolkit_side() { KMODSMITH_ROOT=$ROOT entry dtk-build-driver; }
ends() { # STATUS
  local got=0
  wait "$side" || got=$?
  side=
  [ "$got" -eq "$1" ] || batslib_decorate "exit status is $got, not $1" <"$log" | fail
}
pauses() { sed -n 's/^voluntary_ctxt_switches:\t//p' "/proc/$side/status"; }
looks_again() { # the program pauses between two looks: after three more pauses there was a whole look
  local before
  before=$(pauses)
  paused() { [ "$(pauses)" -ge $((before + 3)) ]; }
  soon paused
}
says() { soon grep -qF -- "$1" "$log"; }
flag() { [ -f "$shared/$1" ] && [ -s "$shared/$1" ] && [ "$(cat "$shared/$1")" = "$(id_of_request)" ]; }
id_of_request() { sha256sum "$shared/kmodsmith/request.json" | cut -c1-64; }
request() { jq -r "$1" "$shared/kmodsmith/request.json"; }
asked_anew() { [ "$(id_of_request)" != "$1" ] && flag dir_prepared; } # ID
set_flag() { id_of_request >"$shared/$1"; }
source_digest() { request .source_sha256; }
deliver() { # [OPTION...]: the package that a toolkit would have made
  tiny_package "$BATS_TEST_TMPDIR/made" "$kernel"
  layout "$BATS_TEST_TMPDIR/made" "$kernel" --label "source=$(source_digest)" "$@"
  cp -r "$BATS_TEST_TMPDIR/made" "$shared/kmodsmith/package.$(id_of_request)"
  set_flag driver_built
}
loads() { calls | grep -E '^(un)?load ' | sed 's/ *$//' | paste -sd';'; }
loaded="load nvidia;load nvidia_modeset;load nvidia_uvm"

@test "the toolkit's package goes into the store and is loaded; the next start needs no toolkit" {
  loadable
  driver_side
  soon flag dir_prepared
  assert_equal "$(request '[.driver, .flavour, .kernel, .source, .attempt] | join(" ")')" "535.261.03 open $kernel driver 1"
  cmp "$KMODSMITH" "$shared/ocp_dtk_entrypoint"
  [ -x "$shared/ocp_dtk_entrypoint" ]
  diff -r "$source" "$shared/kmodsmith/source/driver"
  set_flag driver_build_started
  says "the driver toolkit has started"
  echo "$(id_of_request) 50 100 1" >"$shared/kmodsmith/progress"
  says "toolkit 50% (50 of 100)"
  deliver
  says "ready: driver 535.261.03, open"
  assert_equal "$(cat "$ROOT/run/nvidia/nvidia-driver.pid")" "$side" # it is the operator's pod
  kill "$side"
  ends 0
  assert_equal "$(loads)" "$loaded"
  rm -r "$shared" "$ROOT/.sys-calls"
  kmodsmith unload
  rm "$log"
  driver_side
  says "ready: driver 535.261.03, open"
  run ! grep -q toolkit "$log"
  kill "$side"
  ends 0
}

@test "the shared directory contains nothing of the environment" {
  loadable
  SECRET_TOKEN=hidden-word driver_side
  soon flag dir_prepared
  run ! grep -r hidden-word "$shared"/kmodsmith
}

@test "a loaded driver, no GPU, a missing image: nothing is requested" {
  host no-gpu
  driver_side
  says NO_GPU
  kill "$side"
  ends 0
  loadable
  RHCOS_IMAGE_MISSING=true driver_side
  says "no driver toolkit for this node"
  ends 1
  run ls -A "$shared"
  assert_output ""
}

@test "without a source of the driver nothing is offered for GPUDirect Storage, and that is said; where it is off nothing is done" {
  loadable
  start_with_package() { source='' KMODSMITH_PACKAGE=$BATS_TEST_TMPDIR/package entry nv-ctr-run-with-dtk --root "$ROOT"; }
  GDS_ENABLED=true start_with_package
  says "nothing is compiled in the toolkit for GPUDirect Storage and GDRCopy, whose containers wait: E_NOT_FOUND: driver 535.261.03 has no source here"
  says "ready: driver 535.261.03, open"
  kill "$side"
  ends 0
  : >"$log"
  GDS_ENABLED=false start_with_package
  says "ready: driver 535.261.03, open"
  kill "$side"
  ends 0
  run ! grep -q "GPUDirect Storage" "$log"
  run ls -A "$shared"
  assert_output ""
}

@test "a failed build: the reason is reported, and init continues on its own" {
  loadable
  driver_side
  soon flag dir_prepared
  printf 'E_TOOLCHAIN\nno compiler\033[2J here\n' >"$shared/driver_toolkit_broken.reason"
  set_flag driver_toolkit_broken
  says "continuing without the driver toolkit: E_TOOLCHAIN: no compiler [2J here"
  ends 1
  says "error: E_HEADERS_NOT_FOUND"
  : >"$log" # the same broken toolkit is not waited for again
  driver_side
  says "continuing without the driver toolkit: E_TOOLCHAIN"
  ends 1
}

@test "a failure that may be temporary: the next start asks again" {
  loadable
  driver_side
  soon flag dir_prepared
  first=$(id_of_request)
  printf 'E_NO_SPACE\nfull\n' >"$shared/driver_toolkit_broken.reason"
  set_flag driver_toolkit_broken
  ends 1
  driver_side
  soon asked_anew "$first"
  assert_equal "$(request .attempt)" 2
  assert_not_exist "$shared/driver_toolkit_broken"
  assert_not_exist "$shared/driver_toolkit_broken.reason"
  deliver
  says "ready: driver"
}

@test "no sign of life: a deadline from the start and from the last progress" {
  loadable
  KMODSMITH_DTK_TIMEOUT=2 driver_side
  says "E_TIMEOUT: the toolkit's container did not start within 2 s"
  ends 1
  rm -rf "${shared:?}"/*
  KMODSMITH_DTK_TIMEOUT=8 driver_side
  soon flag dir_prepared
  set_flag driver_build_started
  for beat in {1..10}; do # longer than the deadline together, and each far within it
    echo "$(id_of_request) 1 9 $beat" >"$shared/kmodsmith/progress"
    sleep 1
  done
  kill -0 "$side"
  says "E_TIMEOUT: the toolkit's container showed no sign of life within 8 s"
  ends 1
}

@test "flags of an earlier start, driver or kernel do not count" {
  loadable
  local flags=(dir_prepared driver_build_started driver_toolkit_broken driver_built)
  for flag in "${flags[@]}"; do touch "$shared/$flag"; done # as NVIDIA's own leave them
  driver_side
  soon flag dir_prepared
  for flag in "${flags[@]:1}"; do [ ! -e "$shared/$flag" ]; done
  deliver
  says "ready: driver"
  kill "$side"
  ends 0
  kmodsmith unload
  rm -r "$ROOT/var/lib/kmodsmith"
  first=$(id_of_request)
  echo "more" >>"$source/kernel-open/nvidia/nv.c" # another source
  driver_side
  soon asked_anew "$first"
  assert_not_exist "$shared/driver_built"
  assert_not_exist "$shared/kmodsmith/package.$first"
  : >"$log"
  deliver # it waits for this one
  says "ready: driver"
}

@test "killed at each step and restarted: the same request continues" {
  loadable
  driver_side
  soon flag dir_prepared
  kill -9 "$side"
  ends 137
  id=$(id_of_request)
  set_flag driver_build_started
  driver_side
  says "has started"
  assert_equal "$(id_of_request)" "$id"
  kill -9 "$side"
  ends 137
  deliver
  driver_side
  says "ready: driver"
  kill "$side"
  ends 0
  rm "$ROOT/.sys-calls"
  rm -r "$ROOT/var/lib/kmodsmith"
  rm "$shared/dir_prepared" # as a kill while preparing leaves it: everything is written anew
  kmodsmith unload
  driver_side
  soon flag dir_prepared
  [ ! -e "$shared/driver_built" ]
}

@test "a signal ends the wait" {
  loadable
  driver_side
  soon flag dir_prepared
  kill -TERM "$side"
  ends 1
  says "signal 15: exiting before the driver is loaded"
}

@test "a signal also ends what init does after the wait" {
  loadable
  cat >"$BATS_TEST_TMPDIR/server.py" <<'PYTHON'
import os, socket, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
kept = []
while True:
    asked = server.accept()[0]
    if os.path.exists(sys.argv[1]):
        kept.append(asked)
        print("kept waiting", flush=True)
        continue
    asked.recv(4096)
    asked.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    asked.close()
PYTHON
  python3 "$BATS_TEST_TMPDIR/server.py" "$BATS_TEST_TMPDIR/silent" >"$BATS_TEST_TMPDIR/asked" 3>&- &
  server=$!
  soon test -s "$BATS_TEST_TMPDIR/asked"
  KMODSMITH_FROM="http://127.0.0.1:$(head -n 1 "$BATS_TEST_TMPDIR/asked")/x" driver_side
  soon flag dir_prepared
  touch "$BATS_TEST_TMPDIR/silent"
  printf 'E_TOOLCHAIN\nno compiler\n' >"$shared/driver_toolkit_broken.reason"
  set_flag driver_toolkit_broken
  soon grep -q "kept waiting" "$BATS_TEST_TMPDIR/asked"
  kill -TERM "$side"
  gone() { ! kill -0 "$side"; }
  soon gone
  ends 143
}

@test "a package that was not requested, or is damaged, is not taken; the next start asks again" {
  loadable
  while IFS='|' read -r how words; do
    rm -rf "${shared:?}"/* "${ROOT:?}/var"
    : >"$log"
    driver_side
    soon flag dir_prepared
    package=$shared/kmodsmith/package.$(id_of_request)
    case $how in
    source) deliver --label source="$(printf 'f%.0s' {1..64})" ;;
    driver) deliver --label driver=535.1.1 ;;
    kernel) # modules of another kernel under the right name
      tiny_module "$BATS_TEST_TMPDIR/nvidia.ko" 6.1.0-1-amd64 nvidia_register_module ""
      mkdir -p "$BATS_TEST_TMPDIR/other.d"
      cp "$BATS_TEST_TMPDIR/nvidia.ko" "$BATS_TEST_TMPDIR/other.d"
      cp "$BATS_TEST_TMPDIR"/package.d/nvidia-*.ko "$BATS_TEST_TMPDIR/other.d"
      layout "$BATS_TEST_TMPDIR/other" "$kernel" --label "source=$(source_digest)"
      cp -r "$BATS_TEST_TMPDIR/other" "$package"
      set_flag driver_built ;;
    absent) set_flag driver_built ;;
    pipe) mkdir -p "$package" && mkfifo "$package/oci-layout" && set_flag driver_built ;;
    link) ln -s / "$package" && set_flag driver_built ;;
    digest)
      tiny_package "$BATS_TEST_TMPDIR/made" "$kernel"
      layout "$BATS_TEST_TMPDIR/made" "$kernel" --label "source=$(source_digest)"
      printf x >>"$(blob "$BATS_TEST_TMPDIR/made" layer)"
      cp -r "$BATS_TEST_TMPDIR/made" "$package"
      set_flag driver_built ;;
    esac
    says "continuing without the driver toolkit: $words"
    ends 1
    assert_equal "$(loads)" ""
    [ ! -e "$shared/dir_prepared" ] || fail "$how: it would be taken again"
    KMODSMITH_ROOT=$ROOT run -0 "$KMODSMITH" store ls
    refute_output --partial 535
  done <<EOF
source|E_NO_PACKAGE: the toolkit's package: it was not made from the requested source
driver|E_NO_PACKAGE: the toolkit's package:
kernel|E_ABI: the toolkit's package: nvidia: version magic '6.1.0-1-amd64
absent|E_
pipe|E_MANIFEST: the toolkit's package:
link|E_
digest|E_
EOF
}

@test "obstacles in place of flags and directories are replaced, and nothing outside is touched" {
  loadable
  mkdir -p "$shared/dir_prepared/full" "$shared/kmodsmith/source" "$BATS_TEST_TMPDIR/outside"
  echo precious >"$BATS_TEST_TMPDIR/outside/file"
  ln -s "$BATS_TEST_TMPDIR/outside" "$shared/kmodsmith/source/driver"
  ln -s "$BATS_TEST_TMPDIR/outside/file" "$shared/driver_built"
  ln -s "$BATS_TEST_TMPDIR/outside/file" "$shared/ocp_dtk_entrypoint"
  mkfifo "$shared/driver_toolkit_broken" "$shared/kmodsmith/program.new" "$shared/driver_toolkit_broken.reason"
  mkdir "$shared/kmodsmith/request.json"
  driver_side
  soon flag dir_prepared
  assert_equal "$(cat "$BATS_TEST_TMPDIR/outside/file")" precious
  head -c 200000 /dev/zero >"$shared/kmodsmith/progress"
  mkfifo "$shared/driver_build_started"
  deliver
  says "ready: driver"
}

@test "no shared directory, no program: reported, and init continues on its own" {
  loadable
  KMODSMITH_DTK_SHARED=/nowhere driver_side
  says "continuing without the driver toolkit"
  ends 1
  : >"$log"
  KMODSMITH_STATIC=/nowhere driver_side
  says "continuing without the driver toolkit"
  ends 1
  run ls -A "$shared"
  assert_output ""
}

asks_again() { # ATTEMPT, and sees it refused
  jq ".attempt = $1" "$shared/kmodsmith/request.json" >"$shared/new"
  mv "$shared/new" "$shared/kmodsmith/request.json"
  looks_again # not prepared: nothing is done
  run ! flag driver_build_started
  set_flag dir_prepared
  soon flag driver_toolkit_broken
}

@test "the toolkit's side: an unknown kernel or missing headers are a reason, and it waits for the next request" {
  loadable
  driver_side
  soon flag dir_prepared
  kill -9 "$side"
  ends 137
  toolkit_side
  soon flag driver_toolkit_broken
  run cat "$shared/driver_toolkit_broken.reason"
  assert_line --index 0 E_HEADERS_NOT_FOUND
  assert_output --partial "the toolkit image is not for this kernel: no lib/modules/$kernel/vmlinuz, it has $kernel"
  mv "$ROOT/lib/modules" "$ROOT/lib/kept"
  asks_again 2
  run cat "$shared/driver_toolkit_broken.reason"
  assert_output --partial "no lib/modules/$kernel/vmlinuz, it has none"
  ln -s modules "$ROOT/lib/modules"
  asks_again 3
  run cat "$shared/driver_toolkit_broken.reason"
  assert_output --partial "Too many levels of symbolic links"
  rm "$ROOT/lib/modules"
  mv "$ROOT/lib/kept" "$ROOT/lib/modules"
  touch "$ROOT/lib/modules/$kernel/vmlinuz"
  asks_again 4
  run cat "$shared/driver_toolkit_broken.reason"
  assert_output --partial "headers of $kernel: host:"
  kill -TERM "$side"
  ends 0
}

@test "the toolkit's side: requests that escape the directory, or are not requests, are ignored" {
  loadable
  driver_side
  soon flag dir_prepared
  kill -9 "$side"
  ends 137
  cp "$shared/kmodsmith/request.json" "$BATS_TEST_TMPDIR/good"
  toolkit_side
  soon flag driver_toolkit_broken
  while read -r change; do
    jq "$change" "$BATS_TEST_TMPDIR/good" >"$shared/kmodsmith/request.json"
    set_flag dir_prepared
    looks_again
    ! flag driver_build_started || fail "$change was begun"
  done <<'ROWS'
.source = "../../etc"
.kernel = "a/b"
.format = 2
.attempt = 0
ROWS
  kill -0 "$side"
}

@test "the name ocp_dtk_entrypoint has two verbs; those of other images are refused with a message" {
  ln -sf "$KMODSMITH" "$BATS_TEST_TMPDIR/ocp_dtk_entrypoint"
  for verb in nv-fs-ctr-run-with-dtk gdrcopy-ctr-run-with-dtk; do
    run "$BATS_TEST_TMPDIR/ocp_dtk_entrypoint" "$verb"
    assert_failure 2
    assert_output --partial "which has its own program of this name"
  done
  run "$BATS_TEST_TMPDIR/ocp_dtk_entrypoint"
  assert_failure 2
  assert_output --partial "nv-ctr-run-with-dtk"
  RHCOS_IMAGE_MISSING=true entry dtk-build-driver
  says "nothing to do here"
  kill -TERM "$side"
  ends 0
}

@test "the image's own source is passed on if none was named" {
  loadable
  tiny_payload "$BATS_TEST_TMPDIR/payload.tar" 535.261.03
  tar -cf "$BATS_TEST_TMPDIR/source.tar" -C "$source" --transform 's|^\.|usr/src/nvidia-535.261.03|' .
  "$KMODSMITH" pack payload "$BATS_TEST_TMPDIR/payload.tar" "$BATS_TEST_TMPDIR/source.tar" --driver 535.261.03 --arch x86_64 \
    --output "dir:$BATS_TEST_TMPDIR/carried" --state-dir "$BATS_TEST_TMPDIR/packing" >/dev/null
  KMODSMITH_ROOT=$ROOT KMODSMITH_PAYLOAD=$BATS_TEST_TMPDIR/carried entry nv-ctr-run-with-dtk # as the operator calls it
  soon flag dir_prepared
  assert_equal "$(request .source)" nvidia-535.261.03
  diff -r "$BATS_TEST_TMPDIR/carried/root/usr/src/nvidia-535.261.03" "$shared/kmodsmith/source/nvidia-535.261.03"
  deliver
  says "proven, is in the store"
  run cat "$log"
  refute_output --partial "no verb is given"
}
