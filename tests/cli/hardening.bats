#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What compiler and linker were told to do against exploits, read from the programs themselves: the one that is linked
# dynamically and the one that is linked statically. Each test fails when its flag is taken out of the Makefile.
# shellcheck disable=SC2154 # bats and helper.bash set stderr and top
load helper

setup_file() {
  export PROGRAMS=$BATS_FILE_TMPDIR/programs static=${static_program:-$top/build/release/kmodsmith-static} file
  if nm "$KMODSMITH" | grep -q __asan_init; then return; fi # its own checks are others
  [ -n "$static_program" ] || make_in release static
  for file in "$KMODSMITH" "$static"; do
    objdump -d "$file" >"$BATS_FILE_TMPDIR/${file##*/}.text"
    echo "$file"
  done >"$PROGRAMS"
}
setup() {
  [ -e "$PROGRAMS" ] || skip "a program with sanitizers"
  machine=$(uname -m)
}
each() { # FUNCTION: is true of each program
  local program
  while read -r program; do
    "$@" "$program" || fail "$program: not: $*"
  done <"$PROGRAMS"
}
body_of() { # FUNCTION PROGRAM: its instructions
  awk -v f="<$1>:" '$2 == f { p = 1; next } p && NF == 0 { exit } p' "$BATS_FILE_TMPDIR/${2##*/}.text"
}
follow() { # PATTERN PATTERN PROGRAM: two instructions, one after the other
  awk -v a="$1" -v b="$2" 'last && $0 ~ b { found = 1; exit } { last = $0 ~ a } END { exit !found }' \
    "$BATS_FILE_TMPDIR/${3##*/}.text"
}

@test "position-independent, no memory both writable and executable, relocations read-only after the start" {
  is_pie() { readelf -hW "$1" | grep -q 'Type: *DYN ' && readelf -dW "$1" | grep -q 'FLAGS_1.*PIE'; }
  has_no_writable_code() { ! readelf -lW "$1" | grep -qE '^ +(LOAD|GNU_STACK) .* (RWE|RW *E)'; }
  has_full_relro() { readelf -lW "$1" | grep -q GNU_RELRO && readelf -dW "$1" | grep -qE 'BIND_NOW|FLAGS_1.*NOW'; }
  each is_pie
  each has_no_writable_code
  each has_full_relro
}

@test "stack frames have a canary, and large ones touch every page (stack clash)" {
  has_canary() { nm "$1" | grep -qE '__stack_chk_(fail|guard)' && body_of proc_run "$1" | grep -q stack_chk_fail; }
  has_probes() {
    case $machine in
    x86_64) follow 'sub +[$]0x1000,%rsp' '(or|mov)q +[$]0x0,[(]%rsp[)]' "$1" ;;
    aarch64) follow 'sub\tsp, sp, #0x' 'str\txzr, [[]sp' "$1" ;;
    *) skip "nobody has looked at $machine" ;;
    esac
  }
  each has_canary
  each has_probes
}

@test "calls of the C library are checked, even if the size is known only at run time (_FORTIFY_SOURCE=3)" {
  local level
  has_checked_calls() { nm "$1" | grep -qE '__snprintf_chk' && nm "$1" | grep -qE '__memcpy_chk'; }
  each has_checked_calls
  level=$(sed -n 's/^HARDENING := .*_FORTIFY_SOURCE=\([0-9]\).*/\1/p' "$(dirname "$(realpath "$KMODSMITH")")/hardening.mk")
  [ "$level" = 3 ] || skip "this C library or compiler has level $level"
  knows_grown_room() { body_of str_ndup "$1" | grep -q __memcpy_chk; }
  each knows_grown_room
}

@test "indirect jumps have valid targets only (IBT, BTI)" {
  local landing crt
  case $machine in
  x86_64) landing=endbr64 ;;
  aarch64) landing='bti|paciasp' ;;
  *) skip "nobody has looked at $machine" ;;
  esac
  lands() { body_of main "$1" | head -n 1 | grep -qE "$landing"; }
  each lands
  # The program as a whole says so only when the C library's own files do.
  crt=$(${CC:-gcc} -print-file-name=Scrt1.o)
  says_so() { readelf -nW "$1" | grep -q 'IBT, SHSTK'; }
  ! says_so "$crt" || each says_so
}
