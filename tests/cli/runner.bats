#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The runner of the tests (tests/check): nothing passes by not running, nothing is lost in silence, nothing is left running.
# shellcheck disable=SC2154,SC2016 # bats and helper.bash set stderr and top; scripts in strings
load helper

setup() { # a tree of its own: one tier, lint, whose tests are one script each
  tree=$BATS_TEST_TMPDIR/tree
  mkdir -p "$tree"/{scripts,tests/check,tests/vm,jobs}
  cp "$top"/tests/check/{run,*.py} "$tree/tests/check/"
  for script in scripts/{deps,inputs,matrix,other-root}.sh tests/vm/run; do script "$script" ''; done
  cp "$top/tests/servers-left" "$tree/tests/"
  script scripts/lint.sh 'case $1 in --list) ls jobs ;; *) exec jobs/"$1" ;; esac'
  printf 'all static:\n\tfalse\n' >"$tree/Makefile"
  lists 'check lint'
  export KMODSMITH_CACHE=$BATS_TEST_TMPDIR/cache
  unset CHECK_SINCE PYTHONDONTWRITEBYTECODE
}
script() { # FILE TEXT
  printf '#!/bin/bash\n%s\n' "$2" >"$tree/$1"
  chmod +x "$tree/$1"
}
lists() { # 'LIST PATTERN [FILE-PATTERN]'...
  local entry list pattern when
  for entry in "$@"; do
    read -r list pattern when <<<"$entry"
    printf '[[%s]]\ntests = ["%s"]\nwhy = "because"\n' "$list" "$pattern"
    [ -z "$when" ] || printf 'when = ["%s"]\n' "$when"
  done >"$tree/tests/check/lists.toml"
  grep -q '^\[\[check-all' "$tree/tests/check/lists.toml" || echo 'check-all = []' | cat - "$tree/tests/check/lists.toml" >"$tree/new"
  [ ! -e "$tree/new" ] || mv "$tree/new" "$tree/tests/check/lists.toml"
}
check() { run timeout 60 "$tree/tests/check/run" "$@"; }

@test "a test that crashes, fails, prints no counts or runs nothing fails the run" {
  while IFS='|' read -r text last; do
    script jobs/a "$text"
    check
    assert_equal "${lines[-1]}" "$last"
    case $last in [1-9]*" 0 failed"*) assert_success ;; *) assert_failure 1 ;; esac
  done <<'EOF'
echo "lint: 3 passed, 0 failed, 1 skipped"|3 passed, 0 failed, 1 skipped
echo "lint: 3 passed, 2 failed, 1 skipped"; exit 1|3 passed, 2 failed, 1 skipped
echo "lint: 3 passed, 0 failed, 0 skipped"; exit 1|3 passed, 1 failed, 0 skipped
echo "lint: 0 passed, 0 failed, 7 skipped"|0 passed, 0 failed, 7 skipped
echo "arm64: 2 passed, 0 failed, 1 skipped"|2 passed, 0 failed, 1 skipped
echo "all is well"|0 passed, 1 failed, 0 skipped
kill -9 $$|0 passed, 1 failed, 0 skipped
echo "ok 1 - a"; echo "ok 2 - b # SKIP why"|1 passed, 0 failed, 1 skipped
echo "ok 1 - a"; echo "not ok 2 - b"; exit 1|1 passed, 1 failed, 0 skipped
echo "ok 1 - a"; kill -SEGV $$|1 passed, 1 failed, 0 skipped
echo "1..2"; echo "ok 1 - a"|1 passed, 1 failed, 0 skipped
true|0 passed, 1 failed, 0 skipped
EOF
}

@test "a failing check is shown with the lines below it and the path of the whole log" {
  script jobs/a 'echo "ok 1 - fine"; echo "# noise"; echo "not ok 2 - broken"; echo "# got: 7"; exit 1'
  check
  assert_failure 1
  assert_output --partial "not ok 2 - broken"
  assert_output --partial "# got: 7"
  refute_output --partial "# noise"
  assert_output --partial "build/check/lint/a.log"
}

@test "a server that outlives its test fails it, and is ended" {
  script jobs/a 'echo "ok 1 - a"; (exec -a "outlives $TMPDIR" sleep 1000) & sleep 0.2'
  check
  assert_failure 1
  assert_output --partial "left a process running"
  run pgrep -f '^outlives ' # by this name, which none of the servers beside this test has
  assert_failure
}

@test "tests whose setup fails are not run, and the run fails" {
  mkdir "$tree/tests/cli"
  printf '@test "one" { true; }\n' >"$tree/tests/cli/a.bats"
  script jobs/a 'echo "ok 1 - a"'
  lists 'check lint' 'check cli' 'check-all cli-asan'
  check
  assert_failure 1
  assert_output --partial "not run cli/a"
  assert_output --partial "build/release failed"
  assert_equal "${lines[-1]}" "1 passed, 2 failed, 0 skipped"
}

@test "guests whose inputs cannot be fetched are not run, and the run fails" {
  printf '# mem: 1G\n' >"$tree/tests/vm/10-guest.sh"
  script tests/vm/run '[ "$1" = --list ] || echo "ok 1 - never"; echo 10-guest@K61'
  script scripts/inputs.sh 'echo "inputs: the mirror does not answer" >&2; exit 3'
  printf 'all static:\n\ttrue\n' >"$tree/Makefile"
  script jobs/a 'echo "ok 1 - a"'
  lists 'check lint' 'check vm'
  check
  assert_failure 1
  assert_output --partial "the mirror does not answer"
  assert_output --regexp 'not run +vm/10-guest@K61 .*prepare/inputs failed'
}

@test "guests and compiles whose inputs this Debian does not have are skipped with the reason, others are not" {
  printf '# mem: 1M\n# packages: open tesla470:K61\n' >"$tree/tests/vm/10-old.sh"
  printf '# mem: 1M\n' >"$tree/tests/vm/11-new.sh"
  script tests/vm/run 'if [ "$1" = --list ]; then printf "%s\n" 10-old@K61 11-new@K61 11-new@K612; else echo "ok 1 - $1"; fi'
  script scripts/matrix.sh '[ "$1" = --list ] && printf "%s\n" open@K61 open@K612 tesla470@K61 || echo "matrix: 1 passed, 0 failed, 0 skipped"'
  script scripts/inputs.sh 'echo "LACKING=\"K612 TESLA470\""'
  script jobs/a 'echo "ok 1 - a"'
  printf 'all static:\n\ttrue\n' >"$tree/Makefile"
  lists 'check lint' 'check vm' 'check matrix'
  check
  assert_success
  assert_output --regexp 'skipped +vm/10-old@K61 .*apt offers no TESLA470 here'
  assert_output --regexp 'skipped +vm/11-new@K612 .*apt offers no K612 here'
  assert_output --regexp 'skipped +matrix/open@K612 .*apt offers no K612 here'
  assert_output --regexp 'ok +vm/11-new@K61 '
  assert_equal "${lines[-1]}" "3 passed, 0 failed, 4 skipped"
}

@test "a guest that needs more memory than available is skipped with the reason" {
  printf '# mem: 9000G\n' >"$tree/tests/vm/10-large.sh"
  script tests/vm/run 'echo 10-large@K61'
  script jobs/a 'echo "ok 1 - a"'
  printf 'all static:\n\ttrue\n' >"$tree/Makefile"
  lists 'check lint' 'check vm'
  check
  assert_success
  assert_output --regexp 'skipped +vm/10-large@K61 .*needs [0-9]+ MiB of memory, and [0-9]+ are free here'
  assert_equal "${lines[-1]}" "1 passed, 0 failed, 1 skipped"
}

@test "two runs in one checkout do not disturb each other: the second one says so and ends" {
  mkdir -p "$tree/build/check"
  script jobs/a 'echo "ok 1 - a"'
  exec 7>"$tree/build/check/lock"
  flock 7
  echo 4711 >&7
  check
  assert_failure
  assert_output --partial "another run, process 4711, tests this checkout"
}

@test "an interrupted run says so, fails, and leaves nothing running" {
  script jobs/a 'touch started; exec -a "hanging $TMPDIR" sleep 1000'
  "$tree/tests/check/run" >"$tree/out" 2>&1 3>&- &
  until [ -e "$tree/started" ]; do kill -0 $! && sleep 0.1; done
  kill -TERM $!
  local status=0
  wait $! || status=$?
  assert_equal "$status" 1
  run cat "$tree/out"
  assert_output --partial "interrupted"
  assert_equal "${lines[-1]}" "0 passed, 1 failed, 0 skipped"
  run pgrep -f "hanging .*check\."
  assert_failure
}

@test "skipped tests are listed with their reason, and --all runs them" {
  script jobs/a 'echo "ok 1 - a"'
  script jobs/b 'echo "ok 1 - $CHECK"'
  lists 'check lint/a' 'check-all lint/b'
  check
  assert_success
  assert_output --partial "left out here, and run by"
  assert_output --partial "lint/b"
  assert_output --partial "because"
  assert_equal "${lines[-1]}" "1 passed, 0 failed, 0 skipped"
  check --all
  assert_equal "${lines[-1]}" "2 passed, 0 failed, 0 skipped"
  run cat "$tree/build/check/lint/b.log"
  assert_output "ok 1 - all"
}

@test "a change since the last complete pass selects the tests that it can break" {
  script jobs/a 'echo "ok 1 - a"'
  script jobs/b 'echo "ok 1 - b"'
  lists 'check lint/a' 'check-all lint/b engine/*'
  mkdir "$tree/engine"
  cd "$tree"
  { cat "$top/.gitignore" && echo jobs; } >.gitignore
  git init -q . && git add -A && git -c user.name=a -c user.email=a@b commit -qm one
  git rev-parse HEAD >tests/check/passed
  check
  assert_equal "${lines[-1]}" "1 passed, 0 failed, 0 skipped"
  touch engine/part.c
  check
  assert_output --partial "engine/part.c changed since commit"
  assert_equal "${lines[-1]}" "2 passed, 0 failed, 0 skipped"
  CHECK_MINUTES=soon check
  assert_output "check: CHECK_MINUTES is a number of minutes, and not 'soon'"
  CHECK_MINUTES=9 check
  assert_equal "${lines[-1]}" "2 passed, 0 failed, 0 skipped"
  CHECK_MINUTES=0 check
  assert_output --partial "0 minutes have no room for them, although engine/part.c changed since commit"
  assert_equal "${lines[-1]}" "1 passed, 0 failed, 0 skipped"
  echo 0123456789012345678901234567890123456789 >tests/check/passed
  check
  assert_output --partial "is not in this clone"
  assert_equal "${lines[-1]}" "1 passed, 0 failed, 0 skipped"
}

@test "in a clone what its own branch changed selects tests, and the last complete pass where that is asked for" {
  script jobs/a 'echo "ok 1 - a"'
  script jobs/b 'echo "ok 1 - b"'
  lists 'check lint/a' 'check-all lint/b engine/*'
  mkdir "$tree/engine"
  cd "$tree"
  cp "$top/.gitignore" .
  git init -q . && git config user.name a && git config user.email a@b && git add -A && git commit -qm one
  git rev-parse HEAD >tests/check/passed
  touch engine/part.c
  git add -A && git commit -qm two
  git clone -q "$tree" "$BATS_TEST_TMPDIR/clone"
  cd "$BATS_TEST_TMPDIR" && rm -rf "$tree" && mv clone "$tree" && cd "$tree"
  check
  assert_equal "${lines[-1]}" "1 passed, 0 failed, 0 skipped"
  CHECK_SINCE=passed check
  assert_equal "${lines[-1]}" "2 passed, 0 failed, 0 skipped"
  touch engine/mine.c
  check
  assert_output --partial "engine/mine.c changed since commit"
  assert_equal "${lines[-1]}" "2 passed, 0 failed, 0 skipped"
  rm engine/mine.c
  mkdir tests/cli
  printf '@test "one" { true; }\n' >tests/cli/mine.bats
  printf 'all static:\n' >Makefile
  lists 'check lint/a' 'check-all lint/b' 'check-all cli cli-asan'
  check
  assert_output --partial "widened: 1 more, since their own files changed since commit"
  assert_equal "${lines[-1]}" "2 passed, 0 failed, 0 skipped"
}

@test "the quick tiers come first" {
  mkdir "$tree/tests/cli"
  export ORDER=$BATS_TEST_TMPDIR/order
  printf '@test "one" { echo cli >>"$ORDER"; }\n' >"$tree/tests/cli/a.bats"
  printf 'all static:\n' >"$tree/Makefile"
  for job in a b c d; do script "jobs/$job" 'echo "ok 1 - a"; echo lint >>"$ORDER"; sleep 0.2'; done
  lists 'check lint' 'check cli' 'check-all cli-asan'
  check --jobs 1
  assert_equal "${lines[-1]}" "5 passed, 0 failed, 0 skipped"
  assert_equal "$(head -n 3 "$ORDER" | uniq)" lint
}

@test "a test in no list, in two, or in no tier, and a pattern that matches nothing are found" {
  mkdir "$tree/tests/cli" "$tree/tests/attic"
  script jobs/a ''
  check --lint
  assert_success
  script jobs/b ''
  lists 'check lint/a'
  check --lint
  assert_failure 1
  assert_output --partial "lint/b is in no list"
  lists 'check lint' 'check lint/a'
  check --lint
  assert_output --partial "lint/a is in more than one entry"
  lists 'check lint' 'check lint/z'
  check --lint
  assert_output --partial "'lint/z' in [[check]] means no test"
  lists 'check lint'
  echo 'except = ["lint/b", "lint/z"]' >>"$tree/tests/check/lists.toml"
  check --lint
  assert_output --partial "'lint/z' in [[check]] means no test"
  assert_output --partial "lint/b is in no list"
  lists 'check lint'
  touch "$tree/tests/attic/old.bats"
  check --lint
  assert_failure 1
  assert_output --partial "tests/attic/old.bats: is in no tier"
}

@test "an unknown test name is refused with the nearest one, and how to list all" {
  script jobs/format ''
  check lint/formas
  assert_failure
  assert_output --partial "no test 'lint/formas'; did you mean 'lint/format'? tests/check/run --list prints them all"
  check nothing
  assert_output --partial "no test 'nothing'; tests/check/run --list prints them all"
}

@test "check-mine runs the lint of the changed files, and says so where nothing changed" {
  script jobs/shellcheck 'echo "ok 1 - $LINT_FILES"'
  script jobs/format 'echo "ok 1 - a"'
  cd "$tree"
  cp "$top/.gitignore" .
  git init -q . && git config user.name a && git config user.email a@b && git add -A && git commit -qm one
  check --mine
  assert_failure
  assert_output "check: nothing changed since commit HEAD"
  touch mine.sh
  check --mine
  assert_equal "${lines[-1]}" "1 passed, 0 failed, 0 skipped"
  assert_equal "$(<build/check/lint/shellcheck.log)" "ok 1 - mine.sh"
}

@test "a run that was cut off goes on: what passed is not run again, until something changes that can break it" {
  export READY=$BATS_TEST_TMPDIR/ready
  script jobs/a 'echo "ok 1 - a"'
  script jobs/b '[ ! -e "$READY" ] || echo "ok 1 - b"'
  cd "$tree"
  cp "$top/.gitignore" .
  lists 'check lint/a' 'check-all lint/b part/*'
  mkdir part
  git init -q . && git config user.name a && git config user.email a@b && git add -A && git commit -qm one
  check --all
  assert_equal "${lines[-1]}" "1 passed, 1 failed, 0 skipped"
  touch "$READY"
  check --all --resume
  assert_output --partial "1 test passed before"
  assert_output --partial "Recorded in tests/check/passed"
  assert_equal "${lines[-1]}" "1 passed, 0 failed, 0 skipped"
  echo >>jobs/a
  git add -A && git commit -qm two
  check --all --resume # the list of every change, and of the rest what the change cannot break
  assert_output --partial "1 test passed before"
  assert_equal "${lines[-1]}" "1 passed, 0 failed, 0 skipped"
  touch part/file && git add -A && git commit -qm three
  check --all --resume
  assert_equal "${lines[-1]}" "2 passed, 0 failed, 0 skipped"
  echo >>jobs/a
  check --all --resume # not a commit
  assert_equal "${lines[-1]}" "2 passed, 0 failed, 0 skipped"
}

@test "a complete run goes on in another clone with what tests/check/passed says of its parts" {
  script jobs/a 'echo "ok 1 - a"'
  script jobs/b '[ -e ../ready ] && echo "ok 1 - b"'
  cd "$tree"
  cp "$top/.gitignore" .
  lists 'check lint/a' 'check-all lint/b part/*'
  echo 0123456789012345678901234567890123456789 2026-01-02 >tests/check/passed
  git init -q . && git config user.name a && git config user.email a@b && git add -A && git commit -qm one
  check --all
  assert_output --partial "Recorded in tests/check/passed as a part"
  check --all --resume # before that is committed
  assert_equal "${lines[-1]}" "0 passed, 1 failed, 0 skipped"
  assert_equal "$(cat tests/check/passed)" "0123456789012345678901234567890123456789 2026-01-02
$(git rev-parse HEAD) $(date +%F) lint/a"
  git commit -qam part
  git clone -q . ../other/clone
  cd ../other/clone
  touch ../ready
  run timeout 60 tests/check/run --all --resume
  assert_output --partial "1 test passed before"
  assert_equal "${lines[-1]}" "1 passed, 0 failed, 0 skipped"
  assert_equal "$(cat tests/check/passed)" "$(git rev-parse HEAD) $(date +%F)"
}

@test "a test that computes beyond its limit is ended; one that waits has twice as long" {
  script jobs/a 'while :; do :; done'
  script jobs/b 'sleep 1.5; echo "ok 1 - b"'
  sed -i 's/^    limit: int = 1200/    limit: int = 1/' "$tree/tests/check/pool.py"
  check
  assert_output --regexp 'ended after [1-9] s, [1-9] of processor: it hangs'
  assert_output --regexp 'ok +lint/b '
  assert_equal "${lines[-1]}" "1 passed, 1 failed, 0 skipped"
}
