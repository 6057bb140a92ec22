#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Prometheus' own promtool, of Debian's package: the metrics that a node writes, and what each alert fires on.
# made up: the driver versions, which are of the recorded machine
# shellcheck disable=SC2154 # bats and helper.bash set output, status and top
load helper
load prometheus

setup_file() { prometheus_fetch; }
setup() { prometheus_needed; }

@test "what a node writes is valid: ready, failed, and the next kernels" {
  local host=$BATS_TEST_TMPDIR/host
  cp -a "$top/tests/hosts/h100x8" "$host"
  "$KMODSMITH" install 535.261.03 --root "$host" >/dev/null
  grep -qx 'kmodsmith_ready 1' "$host/run/kmodsmith/metrics/node.prom"
  run "$PROMTOOL" check metrics <"$host/run/kmodsmith/metrics/node.prom"
  assert_success
  assert_output ""
  run "$KMODSMITH" install 550.54.14 --root "$host"
  assert_failure
  grep -qx 'kmodsmith_last_run_failed 1' "$host/run/kmodsmith/metrics/node.prom"
  run "$PROMTOOL" check metrics <"$host/run/kmodsmith/metrics/node.prom"
  assert_success
  assert_output ""
  "$KMODSMITH" watch --once --driver 535.261.03 --root "$host" >/dev/null 2>&1 || true
  run "$PROMTOOL" check metrics <"$host/run/kmodsmith/metrics/kernels.prom"
  assert_success
  assert_output ""
  run "$PROMTOOL" check metrics <<<'kmodsmith_ready{'
  assert_failure
}

@test "the alerts of nodes ask for nothing but what a node writes: they are quiet where no coordinator is collected" {
  local host=$BATS_TEST_TMPDIR/host
  cp -a "$top/tests/hosts/h100x8" "$host"
  "$KMODSMITH" install 535.261.03 --root "$host" >/dev/null
  "$KMODSMITH" watch --once --driver 535.261.03 --root "$host" >/dev/null 2>&1 || true
  echo '4,100,5000,-;NVRM: Xid (PCI:0000:1b:00): 79, pid=12, name=a, GPU has fallen off the bus.' >"$host/dev/kmsg"
  "$KMODSMITH" watch --driver 535.261.03 --root "$host" >"$BATS_TEST_TMPDIR/log" 2>&1 3>&- &
  log=$BATS_TEST_TMPDIR/log soon test -e "$host/run/kmodsmith/metrics/xid.prom"
  kill $! && wait $!
  run "$PROMTOOL" check metrics <"$host/run/kmodsmith/metrics/xid.prom"
  assert_success
  assert_output ""
  run comm -23 <(grep -oE 'kmodsmith_[a-z_]+' "$top/deploy/monitoring/nodes.rules.yaml" | sort -u) \
    <(sed -n 's/^# TYPE \([a-z_]*\) .*/\1/p' "$host"/run/kmodsmith/metrics/*.prom | sort -u)
  assert_output ""
}

@test "each alert fires on what it is for, and none where all is well" {
  cp "$top"/deploy/monitoring/*.rules.yaml "$top/tests/services/alerts.yaml" "$BATS_TEST_TMPDIR"
  cd "$BATS_TEST_TMPDIR"
  run "$PROMTOOL" check rules nodes.rules.yaml rollouts.rules.yaml
  assert_success
  run "$PROMTOOL" test rules alerts.yaml
  assert_success
  # each is tested, and a test can fail
  run comm -3 <(sed -n 's/^      - alert: //p' ./*.rules.yaml | sort -u) <(grep -oE 'alertname: [A-Za-z]+' alerts.yaml | cut -d' ' -f2 | sort -u)
  assert_output ""
  sed -i 's/kmodsmith_ready == 0/kmodsmith_ready == 1/' nodes.rules.yaml
  run "$PROMTOOL" test rules alerts.yaml
  assert_failure
}

@test "each alert names a section of a page that exists, and each metric that it asks for is documented" {
  local page section
  while IFS='#' read -r page section; do
    sed -nE 's/^#+ //p' "$top/$page" | tr 'A-Z ' 'a-z-' | tr -d "'\`,:?()." | grep -qx -e "$section" || fail "$page has no section '$section'"
  done < <(sed -n 's/.*runbook: //p' "$top"/deploy/monitoring/*.rules.yaml | sort -u)
  while read -r metric; do
    grep -qF "\`$metric\`" "$top/docs/reference.md" || fail "docs/reference.md has no $metric"
  done < <(cat "$top"/deploy/monitoring/*.rules.yaml | grep -oE 'kmodsmith_[a-z_]+' | sort -u)
}
