#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What becomes of the figures of `make bench` (tests/bench/report.py). They are made up here.
# shellcheck disable=SC2016,SC2154 # marks of a page in quotes; bats and helper.bash set output and top
load helper

setup() {
  cd "$BATS_TEST_TMPDIR" || return 1
  export BENCH_RESULTS=$PWD/rows.tsv BENCH_PAGE=$PWD/page.md
  printf '<!-- generated: %s -->\n<!-- /generated -->\n' budgets rows runs growth >page.md
}
add() { # PART DATE LINE...: fields with / between them
  local name=$1
  printf '%s\n' "${@:3}" | tr / '\t' >lines
  BENCH_RUN=$(printf '%s\t1.0\tmachine\ttools\tmake bench' "$2") run -0 "$top/tests/bench/report.py" add "$name" lines
}
table() { run -0 grep -F "| $1" page.md; }

@test "a verdict follows from figure and budget: by time, ratio and processor time" {
  add native "2030-01-01 10:00" 'row/P2/all nodes, first run/native/ms/4.9/4.8/5.2/4.7/few/8.2/8.1/8.3/8' \
    'row/P2/all nodes, second run/native/ms/4.9/4.8/5.2/4.7/fewest calls/8/7.9/8.3/8'
  table "P2 all nodes, first"
  assert_output "| P2 all nodes, first run | native | 4.90 ms (4.80 to 5.20, processor 4.70) | few: 8.20 ms (8.10 to 8.30, processor 8) | 0.60 (0.59) | 5 ms, 0.6 x: met | a |"
  table "P2 all nodes, second"
  assert_output --partial "| 0.61 (0.59) | 5 ms, 0.6 x: **not met** | a |"
  table "P2 | "
  assert_output --partial "| **not met** | all nodes, second run: 4.90 of 5 ms, 0.61 of 0.6 x; not measured: "
  add compile "2030-01-01 11:00" 'row/P5/cold compile/native/s/50/50/50/56/bare make/100/100/100/100'
  table "P5 cold"
  assert_output --partial "| 0.50 (0.56) | 0.6 x, processor 0.55 x: **not met** | b |"
}

@test "a count of zero meets a budget of zero, and a count of one does not" {
  add guest "2030-01-01 10:00" 'row/P1/unloads, loads/guest//0' 'row/P2/changing calls of a second run/guest//1'
  table "P1 unloads"
  assert_output --partial "| 0: met | a |"
  table "P2 changing"
  assert_output --partial "| 0: **not met** | a |"
  table "P3 | "
  assert_output --partial "| not measured | \`make bench\` |"
}

@test "a part that is not run again keeps its rows and their run; one that is run loses its old ones" {
  add native "2030-01-01 10:00" 'row/P1/start, few/native/ms/9' 'row/P1/start, old/native/ms/9'
  add size "2030-01-02 10:00" 'row/P10/program/native/MiB/1.5'
  add native "2030-01-03 10:00" 'row/P1/start, few/native/ms/51'
  table "P1 start"
  assert_output "| P1 start, few | native | 51 ms |  |  | 50 ms: **not met** | b |"
  table "P10 program"
  assert_output --partial "| 2 MiB: met | a |"
  table "P10 | "
  assert_output --partial "| met in part | program: 1.50 of 2 MiB; not measured: runtime image (\`make bench\`) |"
  run -0 grep -c '^- \*\*' page.md
  assert_output 2 # runs: the first has no rows any more
}

@test "text of a part appears as it is, with its run" {
  add growth "2030-01-01 10:00" 'text/|  8 GPUs | 1 ms |'
  run -0 sed -n '/generated: growth/,$p' page.md
  assert_line "Run a."
  assert_line "|  8 GPUs | 1 ms |"
}

@test "BENCHMARKS.md is what docs/benchmarks.tsv says" {
  unset BENCH_RESULTS BENCH_PAGE
  run -0 "$top/tests/bench/report.py" check
  sed 's/: met |/: **not met** |/' "$top/BENCHMARKS.md" >page.md
  BENCH_PAGE=$PWD/page.md run -1 "$top/tests/bench/report.py" check
}
