#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Grafana's dashboards: every expression is one that Prometheus' own promtool takes, of metrics and labels that the program has.
# shellcheck disable=SC2016,SC2154 # Grafana has variables, too; bats and helper.bash set output, status and top
load helper
load prometheus

setup_file() { prometheus_fetch; }
expressions() { # of all dashboards, one a line, as Grafana sends them
  jq -r '.panels[].targets[].expr' "$top"/deploy/monitoring/dashboards/*.json | sed 's/\$pool/.*/g; s/\$instance/gpu-1/g'
}

@test "every expression is valid" {
  prometheus_needed
  expressions | jq -R . | jq -s '{groups: [{name: "all", rules: [to_entries[] | {record: "r\(.key)", expr: .value}]}]}' >"$BATS_TEST_TMPDIR/rules.json"
  run "$PROMTOOL" check rules "$BATS_TEST_TMPDIR/rules.json"
  assert_success
  assert_output --partial "$(expressions | wc -l) rules found"
  sed 's/kmodsmith_ready/kmodsmith_ready{/' "$BATS_TEST_TMPDIR/rules.json" >"$BATS_TEST_TMPDIR/wrong.json"
  run "$PROMTOOL" check rules "$BATS_TEST_TMPDIR/wrong.json"
  assert_failure
}

# docs/reference.md has all metrics with their labels, and cli/docs holds it against the program.
@test "every metric and label is one that the program has, and each panel says what it is for" {
  run python3 - "$top" <<'END'
import glob, json, re, sys
top = sys.argv[1]
known = {}
for line in open(top + "/docs/reference.md"):
    if m := re.match(r"\| `(kmodsmith_\w+)` \| (\w+) \| (.*)\|", line):
        known[m[1]] = {"instance", "le"} | set(re.findall(r"`(\w+)`", m[3]))
assert len(known) > 20
uids = set()
for file in sorted(glob.glob(top + "/deploy/monitoring/dashboards/*.json")):
    board = json.load(open(file))
    uids.add(board["uid"])
    texts = [v["query"] for v in board["templating"]["list"]]
    for panel in board["panels"]:
        assert panel["description"] and panel["title"] and panel["datasource"]["uid"] == "${datasource}", (file, panel["title"])
        texts += [t["expr"] for t in panel["targets"]]
    for text in texts:
        names = re.findall(r"kmodsmith_\w+", text)
        assert names or text == "prometheus", text
        labels = set()
        for name in names:
            name = re.sub(r"_(bucket|sum|count)$", "", name)
            assert name in known, (file, name)
            labels |= known[name]
        asked = set(re.findall(r"(\w+)=~?\"", text)) | {w for group in re.findall(r"(?:by|on) ?\(([^)]*)\)", text) for w in re.split(r", *", group)}
        asked |= set(re.findall(r"label_values\(\w+, (\w+)\)", text))
        assert asked <= labels, (file, text, asked - labels)
    assert all(link["url"].removeprefix("/d/") != board["uid"] for link in board["links"])
assert len(uids) == 3
for file in glob.glob(top + "/deploy/monitoring/dashboards/*.json"):
    assert {link["url"].removeprefix("/d/") for link in json.load(open(file))["links"]} < uids, file
END
  assert_success
}
