#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The checks checked: every house rule finds what was planted for it, and no tier can pass by not running.
# shellcheck disable=SC2154 # bats and helper.bash set stderr and top
load helper

setup() { # a repository of its own, clean by every rule
  tree=$BATS_TEST_TMPDIR/tree
  mkdir -p "$tree"/{installer/base,kmod,tests/unit,.ci}
  cp -r "$top/scripts" "$tree/scripts"
  printf 'all:\n\ttrue\n' >"$tree/Makefile"
  plant kmod/clean.c '#include "base/clean.h"'
}
plant() { # FILE LINE...: a file with an SPDX line and these
  printf '%s\n' "// SPDX-License-Identifier: Apache-2.0" "${@:2}" >"$tree/$1"
}
finds() { # COMMAND...: passes on the clean tree, and then fails on what PLANT put there
  run "$tree/scripts/$1" "${@:2}"
  assert_failure 1
}

@test "a tree without violations passes every rule" {
  for rule in calls paths prints hosts columns sizes spdx notes; do
    run "$tree/scripts/rules.sh" "$rule"
    assert_success
    assert_output ""
  done
  run "$tree/scripts/includes.sh"
  assert_success
}

@test "each rule finds its violation, and not in a comment" {
  local long note=TO"DO" host=deb".debian.org"
  long=$(printf 'x%.0s' {1..119})
  while IFS='|' read -r rule line; do
    plant kmod/bad.c "$line"
    finds rules.sh "$rule"
    assert_output --partial "kmod/bad.c:"
    if [[ $rule == calls || $rule == paths || $rule == prints ]]; then
      plant kmod/bad.c "// $line"
      run "$tree/scripts/rules.sh" "$rule"
      assert_success
    fi
  done <<EOF
calls|	system("ls");
calls|	strcpy(a, b);
calls|	int fd = open(path, O_RDONLY);
calls|	pid_t child = fork();
calls|	fd = openat(AT_FDCWD, path, O_RDONLY);
paths|	read_it("/etc/os-release");
paths|	read_it("/proc");
prints|	printf("hello");
prints|	fprintf(stderr, "hello");
columns|//$long
notes|// $note: later
hosts|// http://$host/debian
EOF
}

@test "a missing SPDX line, a long file and a long function are found" {
  echo 'int a;' >"$tree/kmod/bad.c"
  finds rules.sh spdx
  plant kmod/bad.c "int f(void)" "{" "$(printf 'x();\n%.0s' {1..70})" "}"
  finds rules.sh sizes
  assert_output --partial "function has more than 60 lines"
  plant kmod/bad.c "$(printf 'int x;\n%.0s' {1..501})"
  finds rules.sh sizes
  assert_output --partial "more than 500 lines"
}

@test "an include that points up, a neighbour's and a library in the wrong place are found" {
  while IFS='|' read -r file line text; do
    plant "$file" "$line"
    finds includes.sh
    assert_output --partial "$text"
    rm "$tree/$file"
  done <<'EOF'
kmod/bad.c|#include "node/gpu.h"|points up
kmod/bad.c|#include "precompiled/package.h"|points up
installer/base/bad.c|#include "kmod/build.h"|points up
kmod/bad.c|#include <jansson.h>|belongs in
kmod/bad.c|#include "plain.h"|not written from a room
kmod/bad.c|#include "garage/car.h"|no room "garage"
EOF
}

@test "a tier that prints no counts, runs nothing or ends badly fails the check" {
  printf '#!/bin/sh\n' >"$tree/scripts/deps.sh"
  while IFS='|' read -r script last; do
    printf '#!/bin/sh\n%s\n' "$script" >"$tree/scripts/lint.sh"
    TIERS=lint run "$tree/scripts/check.sh"
    assert_equal "${lines[-1]}" "$last"
    case $last in *" 0 failed"*) assert_success ;; *) assert_failure 1 ;; esac
  done <<'EOF'
echo "lint: 3 passed, 0 failed, 1 skipped"|3 passed, 0 failed, 1 skipped
echo "lint: 3 passed, 2 failed, 1 skipped"; exit 1|3 passed, 2 failed, 1 skipped
echo "lint: 3 passed, 0 failed, 0 skipped"; exit 1|3 passed, 1 failed, 0 skipped
echo "lint: 0 passed, 0 failed, 7 skipped"|0 passed, 1 failed, 7 skipped
echo "all is well"|0 passed, 1 failed, 0 skipped
kill -9 $$|0 passed, 1 failed, 0 skipped
EOF
}

@test "a unit test program that crashes or runs nothing is a failure" {
  while IFS='|' read -r script counts; do
    printf '#!/bin/sh\n%s\n' "$script" >"$tree/program"
    chmod +x "$tree/program"
    run "$tree/scripts/unit.sh" "$tree/program"
    assert_equal "${lines[-1]}" "unit: $counts"
  done <<'EOF'
echo "ok 1 - a"; echo "ok 2 - b # SKIP why"|1 passed, 0 failed, 1 skipped
echo "ok 1 - a"; echo "not ok 2 - b"; exit 1|1 passed, 1 failed, 0 skipped
echo "ok 1 - a"; kill -SEGV $$|1 passed, 1 failed, 0 skipped
true|0 passed, 1 failed, 0 skipped
EOF
  run "$tree/scripts/unit.sh"
  assert_failure
}
