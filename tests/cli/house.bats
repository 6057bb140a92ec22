#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The rules checked: each finds what was planted for it. The runner of the tests: runner.bats.
# shellcheck disable=SC2154,SC2016 # bats and helper.bash set stderr and top
load helper

setup() { # a repository of its own, clean by every rule
  tree=$BATS_TEST_TMPDIR/tree
  export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
  mkdir -p "$tree"/{installer/base/core,kmod/load,precompiled,tests/unit,tests/check,.ci}
  touch "$tree/precompiled/SPEC.md" # the list of rooms names it
  cp -r "$top/scripts" "$tree/scripts"
  rm "$tree/scripts/matrix.sh" # cites a requirement
  sed -i "s/ (package-format [^)]*)//" "$tree/scripts/unused.py" # a document that the tree does not have
  cp "$top/tests/check/ids.py" "$tree/tests/check/"
  sed -n '/^## The rooms/,/^## One/p' "$top/ARCHITECTURE.md" >"$tree/ARCHITECTURE.md"
  printf 'all:\n\ttrue\n' >"$tree/Makefile"
  plant kmod/load/clean.c '#include "base/core/clean.h"'
}
plant() { # FILE LINE...: a file with an SPDX line and these
  printf '%s\n' "// SPDX-License-Identifier: Apache-2.0" "${@:2}" >"$tree/$1"
}
finds() { # COMMAND...: passes on the clean tree, and then fails on what PLANT put there
  run "$tree/scripts/$1" "${@:2}"
  assert_failure 1
}

@test "a tree without violations passes every rule" {
  for rule in $("$tree/scripts/rules.sh" --list); do
    run "$tree/scripts/rules.sh" "$rule"
    assert_success
    assert_output ""
  done
  run "$tree/scripts/includes.sh"
  assert_success
}

@test "each rule finds its violation, but not in a comment" {
  local long note=TO"DO" host=deb".debian.org"
  long=$(printf 'x%.0s' {1..119})
  while IFS='|' read -r rule line; do
    plant kmod/load/bad.c "$line"
    finds rules.sh "$rule"
    assert_output --partial "kmod/load/bad.c:"
    if [[ $rule == calls || $rule == paths || $rule == prints ]]; then
      plant kmod/load/bad.c "// $line"
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

@test "a line of a bats test that looks like a check but cannot fail is found, wherever it is" {
  local line
  while IFS= read -r line; do
    plant tests/bad.bats '@test "bad" {' "  $line" "  true" "}"
    finds rules.sh vacuous
    assert_output "tests/bad.bats:3:  $line"
    rm "$tree/tests/bad.bats"
    plant tests/bad.bash 'of_the_tests() {' "  $line" "  true" "}" # and in what they load
    finds rules.sh vacuous
    assert_output "tests/bad.bash:3:  $line"
    rm "$tree/tests/bad.bash"
  done <<'EOF'
[ -e a ] && [ -e b ]
[[ $a == *"x && y"* ]] && [ -e b ]
grep -q a b && assert_equal c d
assert_equal "$(a "b" | c)" d && cmp e f
! grep -q a b
! [ -e a ] # gone
[ -e a ] || true
assert_file_exist a || :
run ls
A=1 run --separate-stderr ls
EOF
}

@test "a check that can fail, a condition, an action and a text are not reported" {
  local line
  while IFS= read -r line; do
    plant tests/good.bats '@test "good" {' "  $line" "  true" "}"
    run "$tree/scripts/rules.sh" vacuous
    assert_success
    assert_output ""
  done <<'EOF'
[ -e a ]
[ -e a ] || fail "it is gone"
! grep -q a b || fail "it is there"
[ -e a ] && [ -e b ] || fail "one is gone"
if [ -e a ] && [ -e b ]; then c; fi
until ! [ -e a ] && ! [ -e b ]; do sleep 1; done
[ ! -e a ] || rm a || true
mkdir a && mv b a
[ -e a ] && return
rm a || true
say "[ -e a ] && [ -e b ]"
say '! grep -q a b' # ! grep -q a b
they_are() { [ -e a ] && [ -e b ]; }
run -0 ls
run ! ls
run --separate-stderr -1 ls
EOF
  plant tests/good.bats '@test "good" {' '  run ls' '  assert_output a' '  run ls' '  [ "$status" = 1 ]' '  run ls' '  n=${#lines[@]}' \
    "  cat <<'X'" '! a' X '  [ -e a ] && [ -e b ]' "}" # the last line is what the test says
  run "$tree/scripts/rules.sh" vacuous
  assert_success
}

@test "a file that was left at the top, and committed with the rest, is found" {
  git -C "$tree" init -q
  git -C "$tree" add -A
  run "$tree/scripts/rules.sh" strays
  assert_output ""
  mkdir "$tree/layout"
  touch "$tree/site.key" "$tree/layout/index.json"
  git -C "$tree" add -A
  finds rules.sh strays
  assert_output "layout/index.json:1
site.key:1"
}

@test "a missing SPDX line, a long file and a long function are found" {
  echo 'int a;' >"$tree/kmod/load/bad.c"
  finds rules.sh spdx
  plant kmod/load/bad.c "int f(void)" "{" "$(printf 'x();\n%.0s' {1..101})" "}"
  finds rules.sh sizes
  assert_output --partial "function has more than 100 lines"
  plant kmod/load/bad.c "$(printf 'int x;\n%.0s' {1..901})"
  finds rules.sh sizes
  assert_output --partial "more than 900 lines"
}

@test "the version of a download is found only next to a download" {
  local ask=scripts/in"puts.sh" # so that this file does not ask
  while IFS='|' read -r file text line; do
    mkdir -p "$tree/${file%/*}"
    printf '%b\n' "# SPDX-License-Identifier: Apache-2.0" "${text//ASK/$ask}" >"$tree/$file"
    run "$tree/scripts/rules.sh" versions
    if [ -n "$line" ]; then
      assert_failure 1
      assert_output --regexp "^$file:$line:"
    else
      assert_success
    fi
    rm "$tree/$file"
  done <<'EOF'
tests/vm/99-bad.sh|t "a" install --driver 535.261.03|2
tests/vm/99-bad.sh|like "a" "$out" 'of 535\\.261\\.03 '|2
tests/vm/99-bad.sh|is "a" "$(uname -r)" 6.1.0-56-cloud-amd64|2
tests/vm/99-bad.sh|is "a" "$(uname -r)" 6.12.117+deb12-cloud-amd64|2
tests/vm/99-bad.sh|# from 6.1.192-1 to the next one|2
tests/vm/beside/bad|driver=535.216.03|2
tests/images/bad.bats|x\nDRIVER=580.95.05|3
tests/bench/bad.sh|install --driver 470.256.02|2
tests/cli/bad.bats|@test "a" {\n  x "$(ASK)"\n  y 535.261.03\n}|4
tests/cli/bad.bats|setup() {\n  ASK >x\n}\n@test "a" {\n  y 535.261.03\n}|6
tests/vm/99-good.sh|t "a" install --driver 535.261.03 # made up|
tests/vm/99-good.sh|# made up: the versions of a driver that nobody has\nt "a" install --driver 535.261.03|
tests/vm/99-good.sh|t "a" ping 192.168.100.10; t "b" ls 6.1.0 6.99.0-none 1.535.26|
tests/vm/driver/kernel/Kbuild|ccflags-y += 535.261.03|
tests/cli/good.bats|@test "a" {\n  x "$(ASK)"\n}\n@test "b" {\n  y 535.261.03\n}|
tests/cli/good.bats|@test "b" {\n  y 535.261.03 6.1.0-56-cloud-amd64\n}|
tests/hosts/h100/proc/version|535.261.03|
EOF
}

@test "a citation of a section or an id that its document does not have is found" {
  local up=upgrade"-design" file text line # so that this file cites nothing
  mkdir -p "$tree"/{docs/design,tests/cluster,installer/cluster/kube,docs/man}
  local paper=docs/design/$up.md scenes=tests/cluster/scenarios.md
  printf '%s\n' '## 5 A' '### 5.1 B' '#### 5.1.2 C' "| T""97 | x |" '| I1 | y |' 'as in 5.1.2' >"$tree/$paper"
  printf '%s\n' '## 2 A' '### 2.3 B' >"$tree/docs/design/contract.md"
  printf '%s\n' '## C A' '### C.1 B' >"$tree/docs/design/package-format.md"
  printf '%s\n' '**R''-P1** A sentence.' '*Met*.' >"$tree/docs/design/requirements.md"
  printf '| T%s | test |\n' 97 96 >"$tree/$scenes"
  finds rules.sh papers
  assert_output "$scenes:2:T""96 is not in $paper"
  printf '| T%s | test |\n' 97 >"$tree/$scenes"
  while IFS='|' read -r file text line; do
    text=${text//UP/$up} text=${text//CO/contract} text=${text//PF/package format}
    text=${text//^/R-} line=${line//^/R-}
    plant "$file" "$(printf '%b' "${text//@/T}")"
    run "$tree/scripts/rules.sh" papers
    if [ -n "$line" ]; then
      assert_failure 1
      assert_line --partial "$file:${line//@/T} is not in "
    else
      assert_success
      assert_output ""
    fi
    rm "$tree/$file"
  done <<'EOF'
kmod/load/bad.c|// As UP 5 has it (UP 5.1, 5.1.2; ^P1), UP 5.1.|
kmod/load/bad.c|// UP 5.9|2:5.9
kmod/load/bad.c|// UP\n// 5.9|3:5.9
kmod/load/bad.c|// (UP 5.1,\n// 5.1.3; ^P1)|2:5.1.3
kmod/load/bad.c|// UP 5.1 to 5.9.|2:5.9
kmod/load/bad.c|// UP 5.1 and 6.1|2:6.1
docs/man/bad.scd|UP 7|2:7
kmod/load/bad.c|// (CO 2.3, ^P1), CO 2.3 K and CO 2.|
kmod/load/bad.c|// CO 2.3, 2.4|2:2.4
kmod/load/bad.c|// PF C.1, and as C.1 of the PF|
kmod/load/bad.c|// PF C.2|2:C.2
kmod/load/bad.c|// C.1 and C.3 of the\n// PF|2:C.3
kmod/load/bad.c|// (5.9): not of the rollout, and I2 neither|
installer/cluster/kube/bad.c|// (5.1.2), (@97, 5.1), I1|
installer/cluster/kube/bad.c|// (5.9)|2:5.9
tests/cluster/bad.bats|# (@97, 5.9)|2:5.9
installer/cluster/kube/bad.c|// I2|2:I2
tests/unit/bad.c|// "D1: x"|2:D1
kmod/load/bad.c|// @97, ^P1, X@98, Y-@98, X-^P9, an L40|
kmod/load/bad.c|// ^P2|2:^P2
kmod/load/bad.c|// (^P1 to ^P3)|2:^P3
installer/cluster/kube/bad.c|// ^P1,\n// ^P10|3:^P10
docs/man/bad.scd|(^D2, @97)|2:^D2
README.md|a ^P11|2:^P11
kmod/load/bad.c|// @98|2:@98
EOF
  printf '%s\n' 'as in 5.8' "| T""95 | x |" >>"$tree/$paper"
  finds rules.sh papers
  assert_line "$paper:7:5.8 is not in $paper"
  assert_line "$paper:8:T""95 is not in $scenes"
  rm "$tree/$paper"
  finds rules.sh papers
  assert_output "$scenes:1:T""97 is not in $paper"
}

@test "a requirement or scenario without a test, and without a reason for that, is found" {
  local papers=docs/design/requirements.md scenes=tests/cluster/scenarios.md r=R t=T # so that this file cites nothing
  mkdir -p "$tree"/{docs/design,tests/cluster,tests/cli}
  printf '**R''-X%s** A sentence.\n*%s\n\n' 1 'Met*.' 2 'Partly*. A word.' 3 'Declined*: no. no test: for a reason. Reported: it.' >"$tree/$papers"
  printf '| T%s | %s |\n' '91' 'a_test: one |' '92' '| not ours' >"$tree/$scenes"
  finds rules.sh ids
  assert_output "$papers:1:$r-X1 is cited by no test, and does not say why (no test: ...)
$papers:4:$r-X2 is cited by no test, and does not say why (no test: ...)
$scenes:1:${t}91 is cited by no test, and does not say why (no test: ...)"

  plant tests/unit/a_test.c 'static void t''91_one(void **state) // R''-X1' # by name, and as a comment
  plant kmod/load/other.c '// R''-X2' # no test
  finds rules.sh ids
  assert_output "$papers:4:$r-X2 is cited by no test, and does not say why (no test: ...)"
  plant tests/cli/b.bats '@test "R''-X1 to R''-X3: a range" {' '  true' '}'
  finds rules.sh ids
  assert_output "$papers:7:$r-X3 gives a reason for having no test, and cli/b cites it"
  plant tests/cli/b.bats '@test "R''-X1, R''-X2: two" {' '  true' '}'
  run "$tree/scripts/rules.sh" ids
  assert_success
  sed -i 's/Met/Perhaps/' "$tree/$papers"
  finds rules.sh ids
  assert_output "$papers:1:$r-X1 does not have one state of Met, Partly, Declined"
  echo 'exit 1' >"$tree/tests/check/ids.py" # a rule that cannot judge does not pass
  finds rules.sh ids
  assert_output --partial "tests/check/ids.py:1: ended with 1"
}

@test "requirements and their tests are listed with the last results" {
  local r=R
  mkdir -p "$tree"/{docs/design,tests/cluster,tests/cli,tests/vm,build/check/{unit,cli},build/vm/11-a.K61}
  printf '**R''-X%s** A sentence.\n*Met*.\n\n' 1 2 3 >"$tree/docs/design/requirements.md"
  plant tests/unit/a_test.c 'static const struct row rows[] = {' '  { "R''-X1: a row" },' '};' '// R''-X2: why' \
    'static void second(void **state)' '{' '}' 'static void third(void **state) // R''-X2' '{' '  one(); // R''-X1' '}'
  plant tests/cli/b.bats '# R''-X3' '@test "one | two" {' '  # R''-X2' '}'
  plant tests/vm/11-a.sh 't "R''-X2: title" true'
  printf 'ok 1 - rows\nok 2 - second\nnot ok 3 - third\n' >"$tree/build/check/unit/a_test.log"
  printf 'ok 1 one | two # skip there is no kernel\n' >"$tree/build/check/cli/b.log"
  printf 'ok 7 - R''-X2: title\n' >"$tree/build/vm/11-a.K61/tap"
  echo '{"unit/a_test": {"state": "failed"}, "cli/b": {"state": "passed"}, "vm/11-a@K61": {"state": "passed"}}' >"$tree/build/check/results.json"
  cd "$tree" && run -0 python3 -c 'import sys; sys.path.insert(0, "tests/check"); import ids; ids.show()'
  assert_output "| id | test | last run here |
|---|---|---|
| $r-X1 | unit/a_test: $r-X1: a row | FAILED |
| $r-X1 | unit/a_test: third | FAILED |
| $r-X2 | unit/a_test: second | passed |
| $r-X2 | unit/a_test: third | FAILED |
| $r-X2 | cli/b: one \\| two | skipped |
| $r-X2 | vm/11-a: $r-X2: title | passed |
| $r-X3 | cli/b | passed |"
  rm build/check/results.json
  run -0 python3 -c 'import sys; sys.path.insert(0, "tests/check"); import ids; ids.show()'
  assert_line "| $r-X3 | cli/b | not run |"
}

@test "a link to a missing page, heading or file is found" {
  local file text line
  mkdir -p "$tree"/docs/{man,design}
  printf '%s\n' '# A title' '## What it *is*: `a b`, c-d' '## Twice' '## Twice' '```' '# no heading' '```' >"$tree/docs/there.md"
  while IFS='|' read -r file text line; do
    printf '%b\n' "one" "$text" >"$tree/$file"
    run "$tree/scripts/rules.sh" links
    if [ -n "$line" ]; then
      assert_failure 1
      assert_output "$file:2:$line"
    else
      assert_success
      assert_output ""
    fi
    rm "$tree/$file"
  done <<'EOF'
bad.md|see [it](docs/there.md) and [it](https://example.com/none)|
bad.md|see [it](docs/none.md)|docs/none.md is not there
docs/bad.md|see [it](there.md#twice-1), [up](../Makefile)|
docs/bad.md|see [it](there.md#what-it-is-a-b-c-d) and [me](#none)|docs/bad.md has no heading #none
docs/bad.md|see [it](there.md#no-heading)|docs/there.md has no heading #no-heading
docs/bad.md|see [it](docs/there.md)|docs/there.md is not there
docs/bad.md|`kmod/load/clean.c`, kmod/lo{ad/,ad/clean.c} and kmod/*/*.c|
docs/bad.md|`kmod/load/clean.{c,h}`|kmod/load/clean.h is not there
docs/bad.md|`kmod/*.c`|kmod/*.c is not there
docs/bad.md|`kmod/none.c`|kmod/none.c is not there
docs/bad.md|    cat scripts/none.sh|scripts/none.sh is not there
docs/bad.md|build/images/none.tar, kmod/NAME.c, kmod/none|
docs/bad.md|the room kmod/none/|kmod/none/ is not there
CHANGELOG.md|kmod/none.c is gone|
EOF
}

@test "an include of an upper layer, of a neighbour's internals, or of a library in the wrong place is found" {
  while IFS='|' read -r file line text; do
    mkdir -p "$tree/${file%/*}"
    plant "$file" "$line"
    finds includes.sh
    assert_output --partial "$text"
    rm "$tree/$file"
  done <<'EOF'
kmod/load/bad.c|#include "host/pci.h"|points up
kmod/load/bad.c|#include "precompiled/package/package.h"|points up
precompiled/oci/bad.c|#include "kmod/load/load.h"|points up
kmod/load/bad.c|#include "kmod/source/source_internal.h"|for kmod/source alone
installer/base/core/bad.c|#include "kmod/build/build.h"|points up
kmod/load/bad.c|#include <jansson.h>|belongs in
kmod/load/bad.c|#include "plain.h"|not written from a room
kmod/load/bad.c|#include "garage/car.h"|no room "garage"
EOF
}

@test "the subject of a commit is component: imperative, starting with the commit that requires it" {
  local subject
  run "$tree/scripts/subjects.sh"
  assert_success
  assert_output "there is no git history here, so no subjects are looked at"
  cd "$tree"
  commit() { git commit -q --allow-empty -m "$1"; }
  git init -q . && mv scripts/subjects.sh later && git add -A && commit "Anything at all."
  mv later scripts/subjects.sh && git add -A && commit "Looked at from the next one on."
  commit "kmod, tests/vm: read E_WEDGED in one place"
  git checkout -q --detach
  run scripts/subjects.sh
  assert_success
  assert_output ""
  while IFS= read -r subject; do
    commit "$subject"
    run scripts/subjects.sh
    assert_failure 1
    assert_output --regexp "^[0-9a-f]+:[^:]+.*: ${subject//\\/}$"
    printf '\n# a comment\n%s\n\nwhy\n' "$subject" >message
    run scripts/subjects.sh message
    assert_failure 1
    git reset -q --hard HEAD~
  done <<'END'
read it in one place
kmod: Read it in one place
kmod: read it in one place.
kmod: reads it in one place
kmod: added a place
kmod: the place where it is read
kmod:read it in one place
kmod: read it in one place, and say to whoever asks for it that this is the place
END
}

@test "the check before a commit looks at what will be committed, and only at that" {
  cd "$tree"
  # It finds fault with every file but clean.c.
  printf '#!/bin/sh\n{ echo "$@"; echo "$LINT_FILES"; ls kmod; } >%s\n[ "$LINT_FILES" = kmod/clean.c ] || { echo "not ok - a"; exit 1; }\n' \
    "$BATS_TEST_TMPDIR/lint" >scripts/lint.sh
  git init -q . && git add -A && git commit -qm "tree: begin"
  ln -s ../../scripts/pre-commit.sh .git/hooks/pre-commit
  ln -s ../../scripts/pre-commit.sh .git/hooks/commit-msg
  plant kmod/other.c 'int g(void);'
  plant kmod/staged.c 'int f(void);'
  git add kmod/staged.c
  run git commit -qm "kmod: add f()"
  assert_failure
  assert_output --partial "not ok - a"
  assert_equal "$(head -n 2 "$BATS_TEST_TMPDIR/lint")" "format codespell includes lists rule-* shellcheck
kmod/staged.c"
  assert_equal "$(grep -c other.c "$BATS_TEST_TMPDIR/lint")" 0
  git reset -q && plant kmod/clean.c 'int h(void);' && git add kmod/clean.c
  run git commit -qm "kmod: adds h()"
  assert_failure
  assert_output --partial "is not an imperative"
  git commit -qm "kmod: add h()"
}

@test "what nothing in the product uses is found, but not what a table, a macro or a pointer uses" {
  local line
  plant tests/unit/bad_test.c '// for_tests();'
  plant installer/base/used.h 'struct used {' $'\tint read;' $'\tint unread;' $'\tint unwritten;' '};' \
    'enum word { WORD_NONE, WORD_PASTED, WORD_UNUSED };' '#define UNUSED_MACRO 1' '#define IS(word) WORD_##word' \
    'int used(struct used *u);' 'int tabled(struct used *u);' 'int for_tests(void);' 'int below_it(void);'
  plant installer/base/used.c '#include "base/used.h"' 'int used(struct used *u)' '{' $'\tu->read = u->unread = IS(PASTED);' \
    $'\tu->unread++;' $'\treturn u->read + u->unwritten;' '}' 'int tabled(struct used *u)' '{' $'\treturn used(u);' '}' \
    'int below_it(void)' '{' $'\treturn 1;' '}' 'int for_tests(void)' '{' $'\treturn below_it() + for_tests();' '}'
  plant installer/main.c '#include "base/used.h"' 'static int (*const table[])(struct used *) = { tabled };' 'int main(void)' '{' \
    $'\treturn table[0](0);' '}'
  finds unused.py
  for line in "used.h:4:member unread of struct used is never read" "used.h:5:member unwritten of struct used is never written" \
    "used.h:7:constant WORD_UNUSED is not used" "used.h:8:macro UNUSED_MACRO is not used" \
    "used.c:13:function below_it() is not called" "used.c:17:function for_tests() is not called"; do
    assert_line "installer/base/$line"
  done
  assert_equal "$(grep -c ^installer/ <<<"$output")" 6
}

@test "the version is in one place; a release writes it everywhere, after everything passed" {
  cd "$tree"
  mkdir -p deploy tests/check
  printf 'VERSION := 0.2.0\n' >Makefile
  printf 'image: a/kmodsmith-runtime:0.1.0 # why\n' >deploy/a.yaml
  printf 'version: 0.1.0\nappVersion: 0.1.0\n' >deploy/Chart.yaml
  run scripts/release.sh --check
  assert_failure
  assert_line "deploy/a.yaml:1:kmodsmith-runtime:0.1.0 is not 0.2.0, which the Makefile says"
  assert_line "deploy/Chart.yaml:1:version: 0.1.0 is not 0.2.0, which the Makefile says"
  assert_line "deploy/Chart.yaml:2:appVersion: 0.1.0 is not 0.2.0, which the Makefile says"
  sed -i s/0.1.0/0.2.0/ deploy/*.yaml
  printf '# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-01-01\n\n- all of it\n' >CHANGELOG.md
  git init -q . && git add -A && git commit -qm "tree: begin"
  run scripts/release.sh --check
  assert_success
  echo "$(git rev-parse HEAD) 2026-01-02" >tests/check/passed
  git add -A && git commit -qm "tests: pass"

  run scripts/release.sh 0.3.0
  assert_failure
  assert_output "release: CHANGELOG.md has nothing below '## Unreleased'"
  sed -i 's/^## Unreleased$/&\n\n- more/' CHANGELOG.md
  run scripts/release.sh 0.3.0
  assert_output "release: the work tree has changes that are not committed"
  git commit -qam "changelog: say more"
  run scripts/release.sh 0.1.9
  assert_output "release: 0.1.9 is older than 0.2.0"
  plant kmod/load/clean.c 'int h(void);' && git commit -qam "kmod: add h()"
  run scripts/release.sh 0.3.0
  assert_output "release: kmod/load/clean.c has changed since make check-all passed: run it again and commit tests/check/passed"
  echo "$(git rev-parse HEAD) 2026-01-03" >tests/check/passed && git commit -qam "tests: pass"
  run scripts/release.sh 0.3.0
  assert_success
  assert_equal "$(git describe --tags)" v0.3.0
  assert_equal "$(<Makefile) $(<deploy/a.yaml)" "VERSION := 0.3.0 image: a/kmodsmith-runtime:0.3.0 # why"
  assert_equal "$(paste -sd, deploy/Chart.yaml)" "version: 0.3.0,appVersion: 0.3.0"
  assert_equal "$(sed -n '3,7p' CHANGELOG.md)" "## Unreleased

## 0.3.0 - $(date -u +%F)

- more"
  run scripts/release.sh --check
  assert_success
  sed -i s/0.3.0/0.3.1/ Makefile deploy/*.yaml
  run scripts/release.sh --check
  assert_failure
  assert_line "Makefile:1: VERSION is 0.3.1, and this commit has the tag v0.3.0"
}

@test "the file that CONTRIBUTING.md names answers a stranger's ten questions" {
  local file word found=0
  while IFS='|' read -r file word; do
    grep -qF "| \`$file\` |" "$top/CONTRIBUTING.md" || fail "CONTRIBUTING.md does not name $file"
    grep -q "^[a-z].*$word.*(" "$top/$file" || fail "$file has no function about $word"
    found=$((found + 1))
  done <<'TABLE'
installer/plan/preflight.c|firmware
installer/transaction/rollback.c|rollback
installer/cluster/agent/agent_annotations.c|annotations
kmod/kernel_tree/headers.c|headers
kmod/module/proof.c|proof
precompiled/repository/registry.c|auth
precompiled/store/store_gc.c|gc
installer/holders/unbind.c|unbind
installer/cluster/coordinator/drain.c|evict
installer/next_kernel/boot_candidates.c|candidates
TABLE
  assert_equal "$(sed -n '/^| where is it/,/^$/p' "$top/CONTRIBUTING.md" | grep -c '^| [a-z]')" $((found + 1)) # with the head
}

@test "a name that does not say its file, a structure in two headers, a full room and a retired word are found" {
  local line
  run "$tree/scripts/names.py"
  assert_success
  mkdir -p "$tree/kmod/full"
  plant kmod/load/bad.c '// as wish''ed' 'int stray(void)' '{' $'\treturn 0;' '}' 'int bad_one(void)' '{' $'\treturn 0;' '}'
  plant kmod/load/one.h 'struct both {' $'\tint a;' '};'
  plant kmod/load/two.h 'struct both {' $'\tint b;' '};'
  for line in {1..26}; do plant "kmod/full/f$line.c" 'struct x;'; done
  finds names.py
  assert_line --partial "kmod/load/bad.c:1:stray() does not start with the name of its file or folder"
  assert_line --partial "struct both is in two headers"
  assert_line --partial "kmod/full:1:26 files in one room"
  assert_line --partial "kmod/load/bad.c:2:'wish""ed' is not a word of docs/glossary.md"
  refute_output --partial "bad_one"
}
