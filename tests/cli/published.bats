#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What a run leaves for others to read: run/kmodsmith/status.json, its phases, its log lines, the termination log.
# shellcheck disable=SC2154 # bats and helper.bash set stderr, top and ROOT
load helper
load package

setup() { package=$BATS_TEST_TMPDIR/package; }
published() { jq -r "$1" "$ROOT/run/kmodsmith/status.json"; }

@test "R-K2: a run publishes what it measured, and a start that finds the same leaves the file unchanged" {
  loadable
  kmodsmith install --package "$package" --json
  assert_status 0
  assert_equal "$(published '[.state, .ready, .run] | map(tostring) | join(" ")')" "READY true null"
  assert_equal "$(published .boot_id)" "$(cat "$ROOT/proc/sys/kernel/random/boot_id")"
  assert_equal "$(published '.build_id == .kernel.build_id and (.build_id | length) == 64')" true
  assert_equal "$(published '.last_run | [.outcome, .error] | map(tostring) | join(" ")')" "change null"
  assert_equal "$(published '[.last_run.phases[].phase] | join(",")')" detect,preflight,package,prove,load,nodes,gpus,verify
  assert_equal "$(published '.checks | all(.pass)')" true
  assert_equal "$(published '[.checks[].name] | unique | join(",")')" driver,firmware,flavour,gpus,module,nodes,request
  snapshot
  kmodsmith install --driver 535.261.03
  assert_status 0
  assert_unchanged
  kmodsmith status --json
  assert_json .last_run.outcome change
  assert_json .since "$(published .since)"
  kmodsmith status
  assert_line --regexp "^READY since $(published .since) \([0-9]+ (s|min) ago\)$"
  assert_line --regexp '^last run: change succeeded at 20'
}

@test "R-E1: a failed run is reported beside the working driver, and cleared by the next good one" {
  loadable
  kmodsmith install --package "$package"
  kmodsmith install --driver 999.1
  assert_error E_NO_PACKAGE
  assert_equal "$(published '[.state, .last_run.outcome, .last_run.error.code] | join(" ")')" "READY refused E_NO_PACKAGE"
  kmodsmith status
  assert_status 0
  assert_line --regexp '^last run: refused at 20.*: E_NO_PACKAGE \(NoPackage\): '
  assert_line --regexp '^next: name where a package is: --from '
  kmodsmith status --json
  assert_json .ready true
  assert_json .last_run.error.code E_NO_PACKAGE
  assert_json .last_run.error.next
  kmodsmith install --driver 535.261.03
  assert_equal "$(published '.last_run | [.outcome, .error] | map(tostring) | join(" ")')" "adopt null"
}

@test "R-G5: not ready is FAILED with the reason; unload withdraws it; another boot's file does not count" {
  loadable
  printf x >>"$(blob "$package" layer)"
  kmodsmith install --package "$package"
  assert_error E_TOO_LARGE
  assert_equal "$(published '[.state, .ready, .last_run.error.code] | map(tostring) | join(" ")')" "FAILED false E_TOO_LARGE"
  assert_equal "$(published '[.last_run.phases[] | .phase + " " + .note] | last')" "package failed"
  loadable
  kmodsmith install --package "$package"
  kmodsmith unload
  assert_status 0
  assert_equal "$(published '[.state, .ready, .last_run.outcome] | map(tostring) | join(" ")')" "NOT_READY false unload"
  echo 00000000-0000-0000-0000-000000000000 >"$ROOT/proc/sys/kernel/random/boot_id"
  kmodsmith status --json
  assert_json .last_run null
}

@test "R-G5: not reported as ready while the modules are loaded or unloaded" {
  loadable
  kmodsmith install --package "$package"
  # As a run leaves it that was killed between unload and load.
  sed -i 's/"state": "READY"/"state": "CHANGING"/; s/"ready": true/"ready": false/;
    s/"run": null/"run": {"pid": 4711, "since": "2026-01-01T00:00:00Z", "step": "load", "subject": "nvidia"}/' \
    "$ROOT/run/kmodsmith/status.json"
  kmodsmith status
  assert_line --regexp '^CHANGING since 2026-01-01T00:00:00Z \([0-9]+ d ago\): load, by process 4711$'
  kmodsmith install --driver 535.261.03
  assert_equal "$(published '[.state, .run] | map(tostring) | join(" ")')" "READY null"
}

@test "a run without the lock publishes nothing" {
  loadable
  mkdir -p "$ROOT/run/kmodsmith"
  echo 4711 >"$ROOT/run/kmodsmith/lock"
  exec 9>>"$ROOT/run/kmodsmith/lock"
  flock 9
  kmodsmith install --package "$package" 9>&-
  assert_error E_LOCKED "process 4711"
  assert_file_not_exist "$ROOT/run/kmodsmith/status.json"
}

@test "preparation before the old driver goes is not part of the unload's time" {
  loadable
  kmodsmith install --package "$package"
  assert_status 0
  kmodsmith install --package "$package" --param nvidia:NVreg_EnableMSI=0
  assert_status 0
  assert_equal "$(published '[.last_run.phases[].phase] | join(",")')" detect,preflight,package,prove,gpus,prepare,unload,load,nodes,gpus,verify
  [[ $stderr == *"prepare "*"can roll back to driver 535.261.03 open"*"unload "* ]] || told | fail
}

@test "R-H1: a failed run reports the phases up to the failure with their times, as text and as JSON" {
  loadable
  printf x >>"$(blob "$package" layer)"
  kmodsmith install --package "$package"
  assert_error E_TOO_LARGE
  [[ $stderr =~ detect\ +[0-9]+\.[0-9]{3}\ s\  ]]
  [[ $stderr =~ package\ +[0-9]+\.[0-9]{3}\ s\ \ failed ]]
  kmodsmith install --package "$package" --json
  assert_json .error.code E_TOO_LARGE
  assert_json '[.phases[].phase] | join(",")' detect,preflight,package
  assert_json '.phases | all(.seconds >= 0)'
}

@test "R-K3: the log as JSON: every line parses, phases have their step, errors have step, code and reason" {
  loadable
  kmodsmith install --package "$package" --log-format json
  assert_status 0
  output=$(jq -s . <<<"$stderr")
  assert_json 'all(.ts and .level and .msg)'
  assert_json '[.[].step] | join(",")' detect,preflight,package,prove,load,nodes,gpus,verify
  kmodsmith unload
  printf x >>"$(blob "$package" layer)"
  rm -r "$ROOT/var/lib/kmodsmith"
  kmodsmith install --package "$package" --log-format json
  output=$(jq -s . <<<"$stderr")
  assert_json 'last | [.level, .step, .code, .reason] | join(" ")' "error package E_TOO_LARGE TooLarge"
}

@test "R-K1: init writes its error to the termination log, and no other command does" {
  loadable
  local log=$ROOT/dev/termination-log
  mkdir -p "$ROOT/dev"
  kmodsmith init --driver 999.1
  assert_error E_NO_PACKAGE
  assert_file_not_exist "$log" # it is Kubernetes that makes it
  printf 'an older and longer text%4000s\n' . >"$log"
  local inode
  inode=$(stat -c %i "$log")
  kmodsmith install --driver 999.1
  assert_equal "$(wc -c <"$log")" 4025
  kmodsmith init --driver 999.1
  assert_error E_NO_PACKAGE
  run cat "$log"
  assert_line --index 0 --regexp '^E_NO_PACKAGE \(NoPackage\): no package of driver 999.1'
  assert_line --index 1 --regexp '^next: '
  assert_equal "${#lines[@]}" 2
  assert_equal "$(stat -c %i "$log")" "$inode" # in place: it is a mount point
  kmodsmith init --no-such-option
  assert_error E_USAGE
  run cat "$log"
  assert_line --index 0 --partial "E_USAGE (Usage): unknown option '--no-such-option'"
  : >"$ROOT/dev/other"
  kmodsmith init --driver 999.1 --termination-log /dev/other
  run cat "$ROOT/dev/other"
  assert_line --index 0 --partial E_NO_PACKAGE
  run cat "$log"
  assert_line --index 0 --partial E_USAGE
}

@test "R-E1: status shows what worked last and what failed here, from the journal" {
  loadable
  kmodsmith status
  refute_line --partial 'bad target'
  mkdir -p "$ROOT/var/lib/kmodsmith"
  cat >"$ROOT/var/lib/kmodsmith/journal" <<'JSON'
{"state": "idle", "since": "2026-01-02T03:04:05Z", "boot": "b",
 "last-good": {"version": "535.1", "flavour": "open", "modules": ["nvidia"], "params": []},
 "failures": [{"driver": {"version": "535.2", "flavour": "proprietary"}, "code": "E_LOAD", "text": "no way", "time": "T"}]}
JSON
  snapshot
  kmodsmith status
  assert_line 'last good: 535.1 open'
  assert_line 'bad target: 535.2 proprietary failed at T: E_LOAD: no way'
  kmodsmith status --json
  assert_json '.journal.failures[0].code' E_LOAD
  kmodsmith status --state-dir "$BATS_TEST_TMPDIR"
  refute_line --partial 'bad target'
  assert_unchanged
  echo '{ broken' >"$ROOT/var/lib/kmodsmith/journal" # says nothing and stops nobody
  kmodsmith status
  assert_status 1
  refute_line --partial 'bad target'
}

@test "under umask 077 public files stay readable for others; locks are their owner's" {
  loadable
  (umask 077 && kmodsmith install --package "$package")
  run stat -c %a "$ROOT/run/kmodsmith" "$ROOT/run/kmodsmith/status.json" "$ROOT/var/lib/kmodsmith"
  assert_output $'755\n644\n755'
  run find "$ROOT/run/kmodsmith" "$ROOT/var/lib/kmodsmith" -name '*lock' ! -perm 600
  assert_output ""
}
