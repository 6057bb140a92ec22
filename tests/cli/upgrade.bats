#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What earlier versions left on a node, and what they understood (tests/upgrade), is known to this one: docs/releasing.md, "What stays
# compatible". A rollout that one of them left in the middle: unit/sim_upgrade_test; the chart's values: cluster/chart.
# shellcheck disable=SC2154 # bats and helper.bash set output and top
load helper
load package
load ../upgrade/options

setup() { recorded=("$top"/tests/upgrade/*/); }
upgraded() { # DIR [loaded]: the node of that version, booted since; or as that version left it
  loadable
  [ $# -eq 1 ] || kmodsmith install --package "$BATS_TEST_TMPDIR/package" --param nvidia:NVreg_EnableMSI=1
  rm -rf "$ROOT"/var/lib/kmodsmith "$ROOT"/run/kmodsmith "$ROOT/.sys-calls"
  cp -rT "$1/node" "$ROOT"
  [ $# -eq 2 ] || { rm -rf "${ROOT:?}"/run/* && echo 7e57ab1e-0000-4000-8000-000000000002 >"$ROOT/proc/sys/kernel/random/boot_id"; }
}
loads() { calls | grep -c '^load' || true; }

@test "the store of an earlier version is whole, and its last good driver is known and comes back after a boot" {
  for dir in "${recorded[@]}"; do
    upgraded "$dir"
    kmodsmith "store verify"
    assert_status 0
    kmodsmith "store ls" --json
    assert_json '[.items[] | .key.driver, .target, .last_good] | join(" ")' "535.261.03 true true"
    kmodsmith status --json
    assert_json '.journal["last-good"].version' 535.261.03
    kmodsmith install --driver 535.261.03 --offline --no-compile
    assert_status 0
    assert_equal "$(loads)" 3
    refute_regex "$stderr" 'warn'
  done
}

@test "the driver that an earlier version loaded is adopted: no module is loaded or unloaded" {
  for dir in "${recorded[@]}"; do
    upgraded "$dir" loaded
    kmodsmith install --driver 535.261.03 --param nvidia:NVreg_EnableMSI=1 --offline
    assert_status 0
    kmodsmith probe readiness # its GPUs are measured now
    assert_status 0
    assert_equal "$(calls | grep -cE '^(un)?load')" 0
    refute_regex "$stderr" 'warn'
  done
}

@test "an install of an earlier version that was killed while it changed the kernel is finished" {
  for dir in "${recorded[@]}"; do
    upgraded "$dir"
    cp "$dir/changing/journal" "$ROOT/var/lib/kmodsmith/journal"
    kmodsmith status --json
    assert_json '.journal.state' changing
    kmodsmith install --driver 535.261.03 --param nvidia:NVreg_EnableMSI=0
    assert_status 0
    assert_equal "$(loads)" 3
    kmodsmith status --json
    assert_json '.journal.state + " " + .journal["last-good"].options[0]' "idle nvidia:NVreg_EnableMSI=0"
  done
}

@test "the agent loads after a boot what an earlier version's agent loaded last" {
  printf '%s\n' 'apiVersion: v1' 'kind: Config' 'current-context: t' 'clusters: [{name: h, cluster: {server: "https://127.0.0.1:1"}}]' \
    'contexts: [{name: t, context: {cluster: h, user: u}}]' 'users: [{name: u, user: {token: x}}]' >"$BATS_TEST_TMPDIR/config"
  log=$BATS_TEST_TMPDIR/log
  for dir in "${recorded[@]}"; do
    upgraded "$dir"
    : >"$log"
    timeout --preserve-status $((2 * hung)) "$KMODSMITH" init --root "$ROOT" --node gpu1 --kubeconfig "$BATS_TEST_TMPDIR/config" --agent \
      --policy "$dir/policy.json" --no-daemons --driver 535.216.03 --export none >"$log" 2>&1 3>&- 4>&- &
    soon grep -qF 'ready: driver 535.261.03, open' "$log"
    kill -TERM $!
    wait $!
    assert_equal "$(loads)" 3
    refute [ -e "$ROOT/var/lib/kmodsmith/agent/journal.damaged" ]
  done
}

@test "every option of an earlier version is one, and takes the values that it took, or releasing.md says that it is gone" {
  options >"$BATS_TEST_TMPDIR/options"
  for dir in "${recorded[@]}"; do
    awk 'function name() { match($0, /^[^:]*: [^ ]+/); return substr($0, 1, RLENGTH) }
      function values() { return substr($0, RLENGTH + 2) }
      NR == FNR { n = name(); now[n] = "|" values() "|"; next }
      { n = name(); was = values() }
      !(n in now) { sub(/: /, " --", n); print n; next }
      (was == "") != (now[n] == "||") { print $0; next }
      was ~ /\|/ { for (i = split(was, one, "|"); i; i--) if (!index(now[n], "|" one[i] "|")) { print $0; next } }' \
      "$BATS_TEST_TMPDIR/options" "$dir/options" >"$BATS_TEST_TMPDIR/gone"
    run diff "$dir/gone" "$BATS_TEST_TMPDIR/gone"
    assert_output ""
    while read -r _ option; do grep -qF "\`$option\`" "$top/docs/releasing.md" || fail "docs/releasing.md does not name $option"; done <"$dir/gone"
  done
}

@test "a policy with every field of an earlier version is valid" {
  for dir in "${recorded[@]}"; do
    kmodsmith "rollout check-policy" "$dir/policy.json"
    assert_status 0
  done
}

@test "each option of an earlier version as a key of kmodsmith.conf, and each of its variables, is known" {
  for dir in "${recorded[@]}"; do
    sed -nE 's/^.*: ([a-z0-9-]+)$/\1 = yes/p; s/^.*: ([a-z0-9-]+) ([^ |]+).*/\1 = \2/p' "$dir/options" | sort -u >"$BATS_TEST_TMPDIR/conf"
    assert [ "$(wc -l <"$BATS_TEST_TMPDIR/conf")" -gt 50 ]
    KMODSMITH_CONFIG=$BATS_TEST_TMPDIR/conf kmodsmith explain E_CONFIG
    assert_status 0
    while read -r name; do export "$name="; done < <(grep '^KMODSMITH_' "$dir/variables")
    kmodsmith explain E_CONFIG
    assert_status 0
  done
}
