# shellcheck shell=bash disable=SC2034,SC2154,SC2016 # bats sets status and output; quotes around values in messages
# SPDX-License-Identifier: Apache-2.0
# What every test file loads: the binary under test ($KMODSMITH), recorded machines, and assertions on status and JSON.
#
#   load helper
#   @test "..." { host h100x8; kmodsmith status --json; assert_status 0; assert_json .ready false; }
bats_require_minimum_version 1.5.0
# The parts that the tests use, each by its name: the libraries' own loaders start dirname for each part, in each test.
for part in output error lang; do bats_load_library "bats-support/src/$part.bash"; done
for part in {assert,refute}{,_output,_line,_regex} assert_{equal,not_equal,success,failure}; do
  bats_load_library "bats-assert/src/$part.bash"
done
bats_load_library bats-file/src/file.bash

top=${BATS_TEST_DIRNAME%/*/*}
: "${KMODSMITH:=$top/build/release/kmodsmith}"
static_program=${STATIC_PROGRAM-} # the runner's; see toolkit.bats
export own_home=${own_home-$HOME} own_cache=${own_cache-${KMODSMITH_CACHE:-$HOME/.cache/kmodsmith}} # for kept(), however often HOME is set to another
unset "${!KMODSMITH_@}" # the environment of whoever runs the tests decides nothing
hung=$((60 * ${TIMEOUT_SCALE:-1})) # seconds after which something hangs, however busy the machine is
export ASAN_OPTIONS=${ASAN_OPTIONS-exitcode=99} # of a binary that is built so: none of our own exit statuses

# A private copy of a recorded machine; commands run by kmodsmith() then see only that.
host() { # NAME
  [ -d "$top/tests/hosts/$1" ] || fail "tests/hosts has no machine '$1'"
  ROOT=$BATS_TEST_TMPDIR/host
  rm -rf "$ROOT"
  cp -a "$top/tests/hosts/$1" "$ROOT"
  unchanged=$BATS_FILE_TMPDIR/$1.state # every copy's: looked at once in a file of tests
  [ -e "$unchanged" ] || snapshot "$unchanged"
}

# Run the program as `run --separate-stderr` does, with fewer processes of its own: $status, $output (standard output
# alone), $lines and $stderr. One that hangs is ended.
kmodsmith() { # COMMAND ARGUMENT...: a command of two words is one argument here: "store gc"
  local command
  read -ra command <<<"$1"
  shift
  output=$(exec timeout "$hung" "$KMODSMITH" "${command[@]}" ${ROOT:+--root "$ROOT"} "$@" 2>"$BATS_TEST_TMPDIR/stderr") &&
    status=0 || status=$?
  IFS=$'\n' read -d '' -ra lines <<<"$output" || true
  read -d '' -r stderr <"$BATS_TEST_TMPDIR/stderr" || true
  [[ ${stderr-} != *"filter 'system calls': "* ]] || needs_seccomp
  [[ ${stderr-} != *Sanitizer:* ]] || told | batslib_decorate "a sanitizer's finding" | fail
}
soon() { # COMMAND...: becomes true; what never does fails when anything would have hung. $log is shown then
  local end=$((SECONDS + hung))
  until "$@" >/dev/null 2>&1; do
    if ((SECONDS > end)); then
      batslib_decorate "not within $hung s: $*" <"${log:-/dev/null}" | fail
      return 1
    fi
    sleep 0.1
  done
}
not() { ! "$@"; } # COMMAND...: for soon
kept() { HOME=$own_home KMODSMITH_CACHE=$own_cache "$@"; } # SCRIPT...: with the caches of whoever runs the tests
kubectl_found() { # in reach by that name: the machine's, or one that is built of its Go modules
  local path
  ! hash kubectl 2>/dev/null || return 0
  path=$(kept "$top/scripts/go-program.sh" --main "$top/tests/cluster/kubectl.go" k8s.io/kubectl 2>"$BATS_TEST_TMPDIR/lacking") || return
  mkdir -p "$BATS_FILE_TMPDIR/kubectl"
  ln -sf "$path" "$BATS_FILE_TMPDIR/kubectl/kubectl"
  PATH=$BATS_FILE_TMPDIR/kubectl:$PATH
}
kubectl_needed() { kubectl_found || skip "there is no kubectl: $(tail -n 1 "$BATS_TEST_TMPDIR/lacking")"; }
# In a plain chroot nobody can keep mounts to himself, and the kernel makes no user namespaces.
needs_mounts() {
  [ "$EUID" -eq 0 ] || skip "mounts need root"
  unshare -m --propagation private true 2>/dev/null || skip "no mounts of one's own here: a chroot, or a container without the right"
}
needs_users() { unshare -U true 2>/dev/null || skip "no user namespaces here: a chroot, or a container without the right"; }
# qemu-user, which runs programs of another architecture, traces nothing and has no seccomp: nothing is compiled there.
needs_strace() { strace -qq -o /dev/null true 2>/dev/null || skip "strace cannot trace here: qemu-user, or a container without the right"; }
needs_seccomp() {
  python3 -c 'import ctypes, sys; sys.exit(ctypes.CDLL(None).prctl(21, 0, 0, 0, 0) < 0)' || # PR_GET_SECCOMP
    skip "no seccomp here, without which nothing is compiled: qemu-user"
}
# For a setup_file: one make in a build directory at a time, or each would spoil the other's objects.
make_in() { # DIR TARGET: below build/
  mkdir -p "$top/build/$1"
  flock "$top/build/$1/make.lock" make -s -C "$top" MODE="${1%-clang}" B="build/$1" "$2" >&2
}
# End a process as a crash does, and wait until it is gone: until then it holds its locks, which takes as long as the
# disk needs. timeout --signal KILL kills itself as well and waits for nobody.
killed_after() { # SECONDS COMMAND...
  local pid
  "${@:2}" 3>&- &
  pid=$!
  sleep "$1"
  { kill -KILL "$pid" && wait "$pid"; } 2>/dev/null || true
  wait "$pid" 2>/dev/null || true
}

# Every command, one a line; of a group each verb: "store gc".
commands() {
  local kept=$BATS_FILE_TMPDIR/commands # of this program: asked once in a file of tests
  [ -e "$kept" ] || { listed_commands >"$kept.new" && mv "$kept.new" "$kept"; }
  cat "$kept"
}
listed_commands() {
  local name verbs
  "$KMODSMITH" --help | sed -nE 's/^  ([a-z-]+) +[^ ].*/\1/p' | while read -r name; do
    verbs=$("$KMODSMITH" "$name" --help | sed -nE "s/^  ($name [a-z-]+) +[^ ].*/\1/p")
    printf '%s\n' "${verbs:-$name}"
  done
}
groups() { commands | sed -n 's/ .*//p' | uniq; }

tree_state() { # every file, link and mode below ROOT, without the record of calls and the last holders of locks
  (cd "$ROOT" && find . ! -name .sys-calls -printf '%p %y %m %l\n' | sort
    find . -type f ! -name .sys-calls ! -path ./run/kmodsmith/lock ! -path ./run/kmodsmith/ahead.lock -print0 | sort -z | xargs -0r sha256sum)
}
snapshot() { # [FILE]: what assert_unchanged compares with from here on
  unchanged=${1-$BATS_TEST_TMPDIR/before}
  tree_state >"$unchanged.new"
  mv "$unchanged.new" "$unchanged"
}
assert_unchanged() { # nothing below ROOT differs from the last snapshot
  tree_state >"$BATS_TEST_TMPDIR/after"
  run diff -u "$unchanged" "$BATS_TEST_TMPDIR/after"
  assert_success
}
calls() { cat "$ROOT/.sys-calls" 2>/dev/null || true; } # what would have been asked of the kernel

told() { printf 'status: %s\nstdout: %s\nstderr: %s\n' "$status" "$output" "${stderr-}"; }
assert_status() { # NUMBER
  [ "$status" -eq "$1" ] || told | batslib_decorate "exit status is $status, not $1" | fail
}
assert_error() { # CODE [TEXT]: a failure with this code, evidence that contains TEXT, and a next step
  [ "$status" -ne 0 ] || told | batslib_decorate "succeeded, but should have failed with $1" | fail
  [[ ${stderr-} == *"error: $1: "*"${2-}"* ]] || told | batslib_decorate "no error $1 ${2:+with '$2'}" | fail
  [[ ${stderr-} == *"kmodsmith: next: "* ]] || told | batslib_decorate "no next step" | fail
}
assert_shown() { # COMMAND [SED-SCRIPT]: what troubleshooting.md shows below it is what standard input has; "..." stands for some lines
  alike() { sed -E 's/ [0-9]+\.[0-9]{3} s / N s /; s/[A-Z][a-z]{2}, [0-9]+ [A-Z][a-z]{2} [0-9]{4} [0-9:]{8} [-+][0-9]{4}/DATE/g; s/ +/ /g; s/ $//'; }
  awk -v command="    # $1" '$0 == command { on = 1; next } on && !/^    / || /^    # / { on = 0 } on { print substr($0, 5) }' \
    "$top/docs/troubleshooting.md" | sed -E "${2-}" | alike >"$BATS_TEST_TMPDIR/shown"
  alike >"$BATS_TEST_TMPDIR/said"
  run awk 'BEGIN { n = at = 0 } NR == FNR { if (/^ *\.\.\.$/) gap[n] = 1; else shown[n++] = $0; next }
    at < n && $0 == shown[at] { at++; next }
    at && at < n && !gap[at] { exit } END { if (!n || at < n) { print shown[at]; exit 1 } }' "$BATS_TEST_TMPDIR/shown" "$BATS_TEST_TMPDIR/said"
  [ "$status" -eq 0 ] || { echo "$output" && cat "$BATS_TEST_TMPDIR/said"; } | batslib_decorate "troubleshooting.md, '$1': the first line is not said after those before it" | fail
}
assert_json() { # FILTER [EXPECTED]: jq's filter gives exactly the text EXPECTED; without it, gives something true
  local got
  got=$(jq -r "$1" <<<"$output") || told | batslib_decorate "the output is no JSON with '$1'" | fail
  if [ $# -eq 1 ]; then
    [[ $got != false && $got != null && -n $got ]] || told | batslib_decorate "'$1' is '$got'" | fail
  else
    [ "$got" = "$2" ] || told | batslib_decorate "'$1' is '$got', not '$2'" | fail
  fi
}
