#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# How this tier is prepared: Kubernetes is built once, whatever comes between, and where it cannot be had no test passes. The
# Go here is made up; what it builds is a script that says how it was called.
# shellcheck disable=SC2030,SC2031,SC2154 # bats runs each test in a subshell, sets status, output and stderr
load ../cli/helper

setup() {
  export XDG_CACHE_HOME=$BATS_TEST_TMPDIR/cache PATH=$BATS_TEST_TMPDIR/bin:$PATH
  unset KUBERNETES KUBE_LACKS
  cache=$XDG_CACHE_HOME/kmodsmith/cluster calls=$BATS_TEST_TMPDIR/calls
  mkdir "$BATS_TEST_TMPDIR/bin"
  cat >"$BATS_TEST_TMPDIR/bin/go" <<EOD
#!/bin/bash
[ "\$1" != env ] || { echo go1.99; exit; }
echo "\$1" >>"$calls"
[ ! -e "$BATS_TEST_TMPDIR/fails-\$1" ] || { cat "$BATS_TEST_TMPDIR/fails-\$1" >&2; exit 1; }
[ "\$1" = build ] || exit 0
while [ "\$1" != -o ]; do shift; done
head -c 100000 /dev/zero >"\$2"
[ ! -e "$BATS_TEST_TMPDIR/slow" ] || { touch "$BATS_TEST_TMPDIR/builds"; sleep "\$(<"$BATS_TEST_TMPDIR/slow")"; }
printf '#!/bin/sh\necho "called \${0##*/}"\n' >"\$2"
chmod +x "\$2"
EOD
  chmod +x "$BATS_TEST_TMPDIR/bin/go"
}
prepare() { run --separate-stderr "$top/tests/cluster/prepare" "$@"; }
builds() { grep -c '^build' "$calls" || true; }
assert_prepared() { # and the programs are three names of one
  local line
  assert_success
  assert_equal "$(cut -d= -f1 <<<"$output" | paste -sd' ')" "KUBE_APISERVER KUBE_CONTROLLER_MANAGER KUBE_SCHEDULER"
  for line in "${lines[@]}"; do assert_equal "$("${line#*=}")" "called $(basename "${line#*=}")"; done
  assert_equal "$(readlink -f "${lines[@]#*=}" | sort -u | wc -l)" 1
}

@test "Kubernetes is built once, as one program with three names; --cached builds nothing" {
  prepare --cached
  assert_failure 3
  assert_output --regexp '^KUBE_LACKS=the cluster tier needs Kubernetes built .*, about [0-9]+ minutes here: make check-all builds it$'
  assert [ ! -e "$calls" ]
  assert [ ! -e "$cache" ]
  prepare
  assert_prepared
  prepare
  assert_prepared
  prepare --cached
  assert_prepared
  assert_equal "$(builds)" 1
}
@test "another version of Kubernetes is another program" {
  prepare
  local newest=$output
  KUBERNETES=1.30 prepare
  assert_prepared
  refute [ "$output" = "$newest" ]
  assert_equal "$(builds)" 2
  KUBERNETES=1.29 prepare
  assert_failure 1
  assert_regex "$stderr" 'there is no go.mod for Kubernetes 1.29'
}
@test "a damaged program, or one without its digest, is built again and never used" {
  local file damage
  prepare
  file=$(readlink -f "${lines[0]#*=}")
  for damage in 'truncate -s -5 FILE' 'truncate -s 0 FILE' 'chmod -x FILE' 'rm FILE.sha256' 'rm FILE'; do
    prepare
    assert_prepared
    ${damage/FILE/$file}
    prepare --cached
    assert_failure 3
  done
  prepare
  assert_prepared
  assert_equal "$(builds)" 6
}
@test "a run killed during the build leaves nothing usable, and the next one builds" {
  local pid i
  echo 60 >"$BATS_TEST_TMPDIR/slow"
  setsid "$top/tests/cluster/prepare" >/dev/null 2>&1 3>&- 4>&- &
  pid=$!
  for ((i = 0; i < 300; i++)); do [ ! -e "$BATS_TEST_TMPDIR/builds" ] || break; sleep 0.1; done
  kill -KILL -- "-$pid"
  prepare --cached
  assert_failure 3
  rm "$BATS_TEST_TMPDIR/slow"
  prepare
  assert_prepared
}
@test "two runs at once build once, and the one that waits says so" {
  local pid i
  echo 2 >"$BATS_TEST_TMPDIR/slow"
  "$top/tests/cluster/prepare" >"$BATS_TEST_TMPDIR/first" 2>&1 3>&- 4>&- &
  pid=$!
  for ((i = 0; i < 300; i++)); do [ ! -e "$BATS_TEST_TMPDIR/builds" ] || break; sleep 0.1; done
  prepare
  assert_prepared
  assert_regex "$stderr" 'another run builds Kubernetes; waiting for it'
  wait "$pid"
  assert_equal "$(<"$BATS_TEST_TMPDIR/first")" "$output"
  assert_equal "$(builds)" 1
}
@test "offline: what is missing is named, and that is no failure; a full disk and a failed compile are" {
  local words='dial tcp: lookup modules.example: no such host'
  echo "go: $words" >"$BATS_TEST_TMPDIR/fails-list"
  prepare
  assert_failure 3
  assert_output "KUBE_LACKS=Go modules: go: $words"
  echo 'mkdir /x: no space left on device' >"$BATS_TEST_TMPDIR/fails-list"
  prepare
  assert_failure 1
  assert_output ""
  assert_regex "$stderr" 'no space left on the disk of '
  rm "$BATS_TEST_TMPDIR/fails-list"
  echo './main.go:9: undefined: x' >"$BATS_TEST_TMPDIR/fails-build"
  prepare
  assert_failure 1
  assert_output ""
  assert_regex "$stderr" 'undefined: x'
  rm "$BATS_TEST_TMPDIR/fails-build"
  prepare
  assert_prepared
}
@test "without an API server every test that needs one is skipped with the reason; none passes or fails" {
  local file
  cd "$top/tests/cluster"
  for file in ./*.bats; do
    grep -qE '^ *(setup_file\(\) \{ )?kube_start' "$file" || continue
    KUBE_LACKS="nothing to be had" run env -u BATS_RUN_TMPDIR TMPDIR="$BATS_TEST_TMPDIR" bats --tap "$file"
    assert_success
    refute_output --regexp '(^|'$'\n'')ok [^#]*('$'\n''|$)'
    assert_output --partial '# skip nothing to be had'
  done
}
@test "a server that outlives its file is found by its folder, in its arguments or environment, and is ended" {
  local dir=$BATS_TEST_TMPDIR/of-the-file pids=() pid status
  mkdir "$dir"
  run -0 env TMPDIR="$dir" "$top/tests/servers-left" "$dir"
  assert_output ""
  TMPDIR=$dir sleep 1 3>&- 4>&- & # it ends by itself
  run -0 "$top/tests/servers-left" "$dir"
  TMPDIR=$dir sleep 61 3>&- 4>&- &
  pids+=($!)
  (exec -a "$dir/servers/x" sleep 62) 3>&- 4>&- &
  pids+=($!)
  SECONDS_TO_END=1 run -1 "$top/tests/servers-left" "$dir"
  assert_line --partial "${pids[0]} sleep 61"
  assert_line --partial "${pids[1]} $dir/servers/x 62"
  for pid in "${pids[@]}"; do
    status=0
    wait "$pid" || status=$?
    assert_equal "$status" 137 # a signal is sent before its process is gone
  done
}
