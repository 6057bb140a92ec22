#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Grafana's dashboards: every expression is one that Prometheus' own promtool takes, of metrics and labels that the program has.
# shellcheck disable=SC2016,SC2154 # Grafana has variables, too; bats and helper.bash set output, status and top
load helper
load prometheus

setup_file() { prometheus_fetch; }
expressions() { # of all dashboards, one a line, as Grafana sends them
  jq -r '.panels[].targets[].expr' "$top"/deploy/monitoring/dashboards/*.json | sed 's/\$__range/6h/g; s/\$pool/.*/g; s/\$instance/gpu-1/g'
}

@test "every expression is valid" {
  prometheus_needed
  expressions | jq -R . | jq -s '{groups: [{name: "all", rules: [to_entries[] | {record: "r\(.key)", expr: .value}]}]}' >"$BATS_TEST_TMPDIR/rules.json"
  run "$PROMTOOL" check rules "$BATS_TEST_TMPDIR/rules.json"
  assert_success
  assert_output --partial "$(expressions | wc -l) rules found"
  run grep -F '$' "$BATS_TEST_TMPDIR/rules.json"
  assert_failure # a variable of Grafana that is not known above
  sed 's/kmodsmith_ready/kmodsmith_ready{/' "$BATS_TEST_TMPDIR/rules.json" >"$BATS_TEST_TMPDIR/wrong.json"
  run "$PROMTOOL" check rules "$BATS_TEST_TMPDIR/wrong.json"
  assert_failure
}

# What a node writes is asked of the program itself, what a coordinator writes of its source; docs/reference.md has to name both.
asks_for_known() { # DASHBOARDS METRICS-OF-A-NODE
  python3 - "$1" "$2" "$top" <<'END'
import glob, json, re, sys
boards, metrics, top = sys.argv[1:]
known, documented = {}, {}
def learn(name, labels): known.setdefault(re.sub(r"_(bucket|sum|count)$", "", name), {"instance"}).update(labels)
for file in glob.glob(metrics + "/*.prom"):
    for line in open(file):
        if m := re.match(r"(kmodsmith_\w+)(?:\{(.*)\})? ", line): learn(m[1], re.findall(r'(\w+)="', m[2] or ""))
for m in re.finditer(r"(kmodsmith_\w+)(?:\{([^}]*)\})? [%1]", "".join(open(f"{top}/installer/{f}.c").read() for f in ("cluster/coordinator/metrics", "status/xid"))):
    learn(m[1], re.findall(r'(\w+)=\\"', m[2] or ""))
for line in open(top + "/docs/reference.md"):
    if m := re.match(r"\| `(kmodsmith_\w+)` \| (\w+) \| (.*)\|", line): documented[m[1]] = {"instance", "le"} | set(re.findall(r"`(\w+)`", m[3]))
assert known.keys() == documented.keys(), known.keys() ^ documented.keys()
for name in known: assert known[name] <= documented[name], (name, known[name] - documented[name])
writers = ("status/node_metrics.c", "next_kernel/kernel_report.c", "cluster/coordinator/metrics.c", "cluster/node_state/states.c", "cluster/node_state/states.def")
sources = "".join(open(f"{top}/installer/{f}").read() for f in writers)

def look_at(text, legend): # every label is one of the metric that it is asked of, every value one that the program can write
    labels = set()
    names = re.findall(r"(kmodsmith_\w+)(?:\{([^}]*)\})?", text)
    assert names
    for name, selector in names:
        name = re.sub(r"_(bucket|sum|count)$", "", name)
        assert name in known, name
        labels |= known[name]
        for label, value in re.findall(r'(\w+) *(?:=~|!~|!=|=) *"([^"]*)"', selector):
            assert label in known[name], (name, label)
            for word in value.split("|"): assert word.startswith("$") or not word or f'"{word}"' in sources, (name, word)
    grouped = {w for group in re.findall(r"by ?\(([^)]*)\)", text) for w in re.split(r", *", group)}
    asked = grouped | set(re.findall(r"on ?\((\w+)\)", text)) | set(re.findall(r"label_values\(\w+, (\w+)\)", text))
    assert asked <= labels, (text, asked - labels)
    shown = set(re.findall(r"\{\{(\w+)\}\}", legend))
    assert shown <= (grouped or labels), (text, legend)

links = {}
for file in sorted(glob.glob(boards + "/*.json")):
    board = json.load(open(file))
    links[board["uid"]] = {link["url"].removeprefix("/d/") for link in board["links"]}
    for v in board["templating"]["list"]: v["query"] == "prometheus" or look_at(v["query"], "")
    titles, cells = [p["title"] for p in board["panels"]], []
    for panel in board["panels"]:
        assert panel["title"] and panel["description"], (file, panel["title"])
        for t in panel["targets"]: look_at(t["expr"], t["legendFormat"])
        g = panel["gridPos"]
        cells += [(x, y) for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])]
    assert len(cells) == len(set(cells)) and max(cells)[0] < 24, (file, "panels overlap")
    assert len({p["id"] for p in board["panels"]}) == len(set(titles)) == len(titles), (file, titles)
    uids = set(re.findall(r'"uid": "([^"]*)"', open(file).read())) - {board["uid"]}
    assert uids == {"${datasource}"}, (file, uids)
    for url in re.findall(r'"url": "/d/([\w-]+)', open(file).read()): assert url in ("kmodsmith-fleet", "kmodsmith-rollout", "kmodsmith-node"), url
assert len(links) == 3 and all(links[uid] == links.keys() - {uid} for uid in links), links
END
}

@test "every metric, label and value is one that the program has, and each panel says what it is for" {
  local host=$BATS_TEST_TMPDIR/host next=6.1.0-99-cloud-amd64 from to
  cp -a "$top/tests/hosts/h100x8" "$host"
  mkdir -p "$host/lib/modules/$next/kernel" "$host/boot"
  touch "$host/lib/modules/$next"/modules.{builtin,order,dep,dep.bin} "$host/boot/vmlinuz-$next"
  "$KMODSMITH" install 535.261.03 --root "$host" >/dev/null
  "$KMODSMITH" watch --once --driver 535.261.03 --root "$host" >/dev/null 2>&1 || true
  run asks_for_known "$top/deploy/monitoring/dashboards" "$host/run/kmodsmith/metrics"
  assert_success
  # and one that is wrong is found
  while IFS='|' read -r from to; do
    rm -rf "$BATS_TEST_TMPDIR/wrong" && cp -r "$top/deploy/monitoring/dashboards" "$BATS_TEST_TMPDIR/wrong"
    sed -i "s,$from,$to," "$BATS_TEST_TMPDIR"/wrong/*.json
    run diff -rq "$top/deploy/monitoring/dashboards" "$BATS_TEST_TMPDIR/wrong"
    assert_failure
    run asks_for_known "$BATS_TEST_TMPDIR/wrong" "$host/run/kmodsmith/metrics"
    assert_failure
    assert_output --partial AssertionError
  done <<'EOF'
kmodsmith_gpus|kmodsmith_gpu
by (result)|by (pool)
code!=|reason!=
state=~\\"failed|state=~\\"fails
{{driver}}|{{version}}
"uid": "${datasource}"|"uid": "prometheus"
d/kmodsmith-node|d/kmodsmith-nodes
EOF
}
