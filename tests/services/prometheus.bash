# shellcheck shell=bash disable=SC2034 # the tests use what is set here
# SPDX-License-Identifier: Apache-2.0
# Debian's prometheus below $BATS_FILE_TMPDIR: PROMETHEUS and PROMTOOL, or PROMETHEUS_LACKS says why there is none. For setup_file.
prometheus_fetch() {
  local deb
  export PROMETHEUS=$BATS_FILE_TMPDIR/usr/bin/prometheus PROMTOOL=$BATS_FILE_TMPDIR/usr/bin/promtool PROMETHEUS_LACKS=''
  if deb=$("$BATS_TEST_DIRNAME/../../scripts/inputs.sh" prometheus 2>"$BATS_FILE_TMPDIR/lacking") && [ -n "$deb" ]; then
    dpkg-deb -x "$deb" "$BATS_FILE_TMPDIR"
  else
    PROMETHEUS_LACKS="Debian's prometheus cannot be fetched: $(tail -n 1 "$BATS_FILE_TMPDIR/lacking")"
  fi
}
prometheus_needed() { [ -z "$PROMETHEUS_LACKS" ] || skip "$PROMETHEUS_LACKS"; }
