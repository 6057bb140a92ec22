#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The option tables: help, manual page and parser agree, for every command.
# shellcheck disable=SC2154 # bats and helper.bash set stderr and top
load helper

@test "config show: each value, and the line or the variable that it is from" {
  cd "$BATS_TEST_TMPDIR"
  printf '# ours\ndriver = 535.261.03\nsource = /driver.run\nfrom = oci:a, oci:b\nproxy = http://me:word@proxy:3128\n' >conf
  export KMODSMITH_CONFIG=conf KMODSMITH_HOLDERS=wait KMODSMITH_SOURCE=/other.run
  kmodsmith "config show"
  assert_status 0
  assert_line --regexp '^KEY +VALUE +FROM'
  assert_line --regexp "^from +oci:a,oci:b +'conf', line 4$"
  assert_line --regexp '^holders +wait +the environment variable KMODSMITH_HOLDERS$'
  assert_line --regexp '^source +/other.run +the environment variable KMODSMITH_SOURCE$'
  assert_line --regexp "^proxy +\(not shown\) +'conf', line 5$"
  refute_output --partial word
  [ "$(grep -c '^from ' <<<"$output")" -eq 1 ]
  refute_line --regexp '^flavour '
  kmodsmith "config show" --all
  assert_line --regexp '^flavour +- +default$'
  kmodsmith "config show" --json
  refute_output --partial word
  assert_json '.items[] | select(.key == "from") | [.value, .by, .file, .line] | join(" ")' "oci:a,oci:b file conf 4"
  assert_json '.items[] | select(.key == "holders") | [.by, .variable] | join(" ")' "environment KMODSMITH_HOLDERS"
  assert_json '.items[] | select(.key == "proxy") | "\(.value) \(.hidden)"' "null true"
  echo 'package = oci:old' >conf
  kmodsmith "config show"
  assert_line --regexp "^package +- +'conf', line 1, gives way to source$"
  echo 'holders = perhaps' >conf
  unset KMODSMITH_HOLDERS
  kmodsmith "config show"
  assert_error E_CONFIG "'conf', line 1"
  echo '# nothing' >conf
  unset KMODSMITH_SOURCE
  kmodsmith "config show"
  assert_output "neither 'conf' nor the environment sets anything"
}

setup_file() {
  local build # the pages of this very program, where it lies where make put it
  build=$(basename "$(dirname "$(realpath "$KMODSMITH")")")
  [ "$(realpath "$KMODSMITH")" = "$(realpath "$top")/build/$build/kmodsmith" ] || build=release
  make_in "$build" man
  export MAN=$top/build/$build/man
}
of_help() { # lines "-x --name ARG", or "--name ARG"
  # shellcheck disable=SC2086 # a command may have two words
  "$KMODSMITH" $1 --help-all | sed -n '/^Options:/,$p' |
    sed -nE 's/^ {2,6}(-[a-z], )?(--[a-z0-9-]+)( [^ ]+)?( .*)?$/\1\2\3/p' | tr -d , | sort
}
of_page() {
  sed -n '/^\.SH OPTIONS/,/^\.SH SEE/p' "$MAN/kmodsmith-${1// /-}.8" | sed -E 's/\\f[BIR]//g; s/\\&//g; s/\\-/-/g' |
    grep -E '^-' | tr -d , | sort
}

@test "help and manual page of every command name the same options with the same arguments" {
  local name
  [ "$(commands | wc -l)" -ge 10 ]
  while read -r name; do
    of_help "$name" >"$BATS_TEST_TMPDIR/help"
    of_page "$name" >"$BATS_TEST_TMPDIR/page"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/help")" -ge 6 ]
    run diff "$BATS_TEST_TMPDIR/help" "$BATS_TEST_TMPDIR/page"
    assert_success
  done < <(commands)
}

@test "the manual has a page for every command, every code and every reason, and the overview lists each page" {
  local name page
  while read -r name; do
    run grep -F "kmodsmith-${name// /-}\\fR(8)" "$MAN/kmodsmith.8"
    assert_success
  done < <(commands)
  for page in "$top"/docs/man/*.scd kmodsmith-{errors,reasons}.7.scd; do
    run grep -F "$(basename "${page%.7.scd}")\\fR(7)" "$MAN/kmodsmith.8"
    assert_success
  done
  run grep -cE '^\\fBE_' "$MAN/kmodsmith-errors.7"
  assert_output "$(grep -c '^X(E_' "$top/installer/base/core/errors.def")"
  while read -r name; do
    run grep -cxF "\\fB$name\\fR" "$MAN/kmodsmith-reasons.7"
    assert_output 1
  done < <(sed -nE 's/^X\([A-Z_]+, "([a-z-]+)".*/\1/p' "$top/installer/cluster/node_state/reasons.def")
  [ "$(grep -c '^X(' "$top/installer/cluster/node_state/reasons.def")" -gt 60 ]
}

@test "an example of two lines is one command in the manual too" {
  local name lines found=0
  while read -r name; do
    # shellcheck disable=SC2086 # a command may have two words
    lines=$("$KMODSMITH" $name --help-all | sed '/^Options:/,$d' | grep -c '\\$') || true
    assert_equal "$(grep -c '\\\\$' "$MAN/kmodsmith-${name// /-}.8")" "$lines"
    found=$((found + lines))
  done < <(commands)
  [ "$found" -ge 3 ]
}

@test "the parser accepts every option in the help, and requires its argument" {
  local name option argument
  while read -r name; do
    while read -r option argument; do
      [[ $option != -? ]] || read -r option argument <<<"$argument"
      [ "$option" != --help ] || continue
      if [ -n "$argument" ]; then
        kmodsmith "$name" "$option"
        assert_error E_USAGE "option '$option' needs a value"
      else
        kmodsmith "$name" "$option=yes"
        assert_error E_USAGE "option '$option' takes no value"
      fi
      assert_status 2
    done < <(of_help "$name")
  done < <(commands)
}

@test "unknown letters and surplus arguments are named" {
  while IFS='|' read -r args text; do
    # shellcheck disable=SC2086 # several words
    run --separate-stderr "$KMODSMITH" $args
    assert_status 2
    assert_error E_USAGE "$text"
  done <<'EOF'
status -X|unknown option '-X'
status -Xq|unknown option '-X'
status -qX|unknown option '-X'
status surplus|'status' does not take 'surplus'
explain E_ABI E_ELF|'E_ABI E_ELF' is neither a code nor an Xid
status --help=x|option '--help' takes no value
status -- --json|'status' does not take '--json'
EOF
}

@test "install and plan take the version by itself: more than the environment's, and no other than --driver" {
  host h100x2-unloaded
  for verb in install plan; do
    kmodsmith $verb 535.261.03 --driver 550.54.14
    assert_error E_USAGE "'$verb 535.261.03' contradicts --driver 550.54.14"
    kmodsmith $verb ./NVIDIA.run
    assert_error E_USAGE "'./NVIDIA.run' is not a driver version; to compile from source use --source ./NVIDIA.run"
    kmodsmith $verb newest
    assert_error E_USAGE "'newest' is not a driver version"
    kmodsmith $verb 535.261.03 550.54.14
    assert_error E_USAGE "'$verb' does not take '550.54.14'"
    DRIVER_VERSION=550.54.14 kmodsmith $verb 535.261.03
    assert_error E_NO_PACKAGE "no package of driver 535.261.03"
    kmodsmith $verb 535.261.03 --driver 535.261.03
    assert_error E_NO_PACKAGE "no package of driver 535.261.03"
  done
}

@test "numbers: too large, negative and empty ones are refused, long deadlines are not" {
  local value
  host h100x8
  for value in 99999999999999999999 4294967296 -1 '' 1e3 0x10 ' 1'; do
    kmodsmith unload --unload-timeout "$value"
    assert_status 2
    assert_error E_USAGE "unload-timeout: '$value' is not a whole number"
  done
  assert_equal "$(calls)" ""
  for value in 3000000 4294967295; do # more milliseconds than an int holds
    host h100x8
    kmodsmith unload --unload-timeout "$value"
    assert_status 0
    assert_output "unloaded nvidia_drm, nvidia_modeset, nvidia_uvm, nvidia"
  done
}

@test "very long arguments and names with blanks, quotes and newlines are reported in one line" {
  local long name
  long=$(printf 'x%.0s' {1..100000})
  while IFS= read -r -d '' name; do
    run --separate-stderr "$KMODSMITH" status --root "/nowhere/$name"
    assert_status 1
    [ "$(wc -l <<<"$stderr")" -eq 2 ]
    [ "${#stderr}" -lt 2000 ]
    run --separate-stderr "$KMODSMITH" "$name"
    assert_status 2
    [ "$(wc -l <<<"$stderr")" -eq 2 ]
    run --separate-stderr "$KMODSMITH" explain "$name" --json
    assert_json .error.code E_NOT_FOUND
  done < <(printf '%s\0' "$long" $'a b\n"c"\'d\'\t' '%s%n%d' "\$(id)" $'\xff\xfe')
}

@test "libcurl and its dependencies are loaded for remote sources only, and reported by name if missing" {
  host h100x2-unloaded
  LD_DEBUG=files run "$KMODSMITH" status --root "$ROOT"
  assert_output --partial 'libjansson'
  refute_output --partial 'libcurl'
  LD_DEBUG=files run "$KMODSMITH" plan --root "$ROOT" --driver 535.1 --from http://127.0.0.1:9/x
  assert_output --partial 'libcurl'
  : >"$BATS_TEST_TMPDIR/libcurl.so.4"
  LD_LIBRARY_PATH=$BATS_TEST_TMPDIR kmodsmith plan --driver 535.1 --from http://127.0.0.1:9/x
  assert_status 1
  [[ $stderr == *'a remote source needs libcurl: '* ]]
}
