#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# R-N3, R-K1: what a process may do is asked before anything is touched, and given up once the driver is ready.
# shellcheck disable=SC2154 # bats and helper.bash set stderr, top and ROOT
load helper
load package

setup() { package=$BATS_TEST_TMPDIR/package; }
teardown() { [ -z "${init-}" ] || kill "$init" 2>/dev/null || true; }

caps() { # NAME...: the mask of all capabilities but these, as the kernel writes it
  python3 -c '
import sys
bits = {"CHOWN": 0, "DAC_READ_SEARCH": 2, "KILL": 5, "SETGID": 6, "SETUID": 7, "SETPCAP": 8, "SYS_MODULE": 16,
        "SYS_CHROOT": 18, "SYS_PTRACE": 19, "SYS_ADMIN": 21, "MKNOD": 27}
print("%016x" % (0x1ffffffffff & ~sum(1 << bits[n] for n in sys.argv[1:])))' "$@"
}
with_caps() { # MASK: of the process on the recorded machine
  mkdir -p "$ROOT/proc/self"
  printf 'Name:\tx\nCapEff:\t%s\n' "$1" >"$ROOT/proc/self/status"
}

@test "rights: a missing capability is reported before the step that needs it" {
  local cap
  loadable
  for cap in SYS_MODULE MKNOD; do
    with_caps "$(caps "$cap")"
    kmodsmith install --package "$package"
    assert_status 1
    assert_error E_RIGHTS "preflight: this process lacks CAP_$cap (to "
    assert_equal "$(calls)" ""
    kmodsmith plan --package "$package"
    assert_error E_RIGHTS "preflight: this process lacks CAP_$cap (to "
  done
}

@test "rights: those of a user namespace are none" {
  loadable
  with_caps "$(caps)"
  mkdir "$ROOT/proc/self/ns"
  ln -s 'user:[4026532000]' "$ROOT/proc/self/ns/user"
  kmodsmith install --package "$package"
  assert_status 1
  assert_error E_RIGHTS "preflight: this process is in a user namespace, whose rights do not reach the kernel's modules"
  [[ $stderr == *"next: "*"hostUsers: false"* ]] || told | fail
  assert_equal "$(calls)" ""
  ln -sf 'user:[4026531837]' "$ROOT/proc/self/ns/user"
  kmodsmith install --package "$package"
  assert_status 0
}

@test "rights: a capability that no step needs may be missing" {
  loadable
  with_caps "$(caps SYS_ADMIN SYS_CHROOT SYS_PTRACE SETUID SETGID CHOWN SETPCAP KILL DAC_READ_SEARCH)"
  kmodsmith install --package "$package"
  assert_status 0
}

@test "rights: a replacement looks for holders" {
  loadable
  with_caps "$(caps)"
  kmodsmith install --package "$package" --param nvidia-uvm:uvm_x=1
  assert_status 0
  with_caps "$(caps SYS_PTRACE)"
  kmodsmith install --package "$package"
  assert_status 1
  assert_error E_RIGHTS "lacks CAP_SYS_PTRACE (to see which processes hold the driver"
}

@test "doctor: fails for what every install needs, warns about the rest" {
  host h100x2-unloaded
  with_caps "$(caps)"
  kmodsmith doctor
  assert_line --regexp '^pass +rights '
  with_caps "$(caps SETUID KILL)"
  kmodsmith doctor
  assert_line --regexp '^warn +rights +E_RIGHTS: enough to install an available package; this process lacks CAP_KILL .*CAP_SETUID'
  with_caps "$(caps MKNOD SETUID)"
  kmodsmith doctor
  assert_status 1
  assert_line --regexp '^FAIL +rights +E_RIGHTS: this process lacks CAP_MKNOD \(to make device nodes\)$'
}

start_init() { # NO_NEW_PRIVS OPTION...: until it is ready, and that has this value
  local privs=$1
  shift
  : >"$BATS_TEST_TMPDIR/log"
  "$KMODSMITH" init --root "$ROOT" --package "$package" "$@" >"$BATS_TEST_TMPDIR/log" 2>&1 &
  init=$!
  is_ready() { grep -q 'ready: driver' "$BATS_TEST_TMPDIR/log" && [ "$(of_init NoNewPrivs)" = "$privs" ]; }
  log=$BATS_TEST_TMPDIR/log soon is_ready
}
of_init() { sed -n "s/^$1:\t//p" "/proc/$init/status"; }
at_most() { # FIELD MASK: nothing else is set
  (((0x$(of_init "$1") & ~0x$2) == 0)) || fail "$1 is $(of_init "$1")"
}

@test "init: drops for good what it does not need while it serves" {
  loadable
  start_init 1
  for field in CapPrm CapEff; do at_most "$field" 2d00e5; done # with daemons
  for field in CapInh CapAmb; do at_most "$field" 0; done
  [ "$EUID" -ne 0 ] || at_most CapBnd 2d00e5
  kill "$init"
  wait "$init"
}

@test "init: keeps what a compile for the next kernel needs, if there is something to compile" {
  loadable
  tiny_source "$BATS_TEST_TMPDIR/driver"
  start_init 1 --no-daemons --source "$BATS_TEST_TMPDIR/driver"
  at_most CapPrm 2d01e5
  [ "$EUID" -ne 0 ] || (((0x$(of_init CapPrm) & 0x100) != 0))
  kill "$init"
  wait "$init"
  start_init 1 --no-daemons --source "$BATS_TEST_TMPDIR/driver" --no-watch
  at_most CapPrm 2d0024
  kill "$init"
  wait "$init"
}

@test "init: keeps less without daemons, and everything on request" {
  loadable
  start_init 1 --no-daemons
  at_most CapPrm 2d0024
  kill "$init"
  wait "$init"
  start_init 0 --keep-privileges
  assert_equal "$(of_init CapPrm)" "$(sed -n 's/^CapPrm:\t//p' /proc/self/status)"
  kill "$init"
  wait "$init"
}
