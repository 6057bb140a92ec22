#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keep what `make bench` has measured, judge it by the budgets, and write the generated parts of BENCHMARKS.md.

  report.py add PART FILE   the rows of FILE take the place of all that PART had before; $BENCH_RUN says what the run is,
                            as a line "DATE<TAB>VERSION<TAB>MACHINE<TAB>TOOLS<TAB>COMMAND"
  report.py show            print each budget with what was measured
  report.py write           write BENCHMARKS.md anew, when a budget below has changed
  report.py check           is BENCHMARKS.md what the rows say?

Rows are kept in docs/benchmarks.tsv, so that a part which was not run again keeps its figures, with the run they are of.
A row is a line of fields separated by tabs; those at the end may be missing:

  row ID CASE WHERE UNIT MEDIAN LOW HIGH CPU PLAIN MEDIAN LOW HIGH CPU

PLAIN is the name of the plain tool; CPU is processor time. Other lines of FILE that begin with "text" are Markdown.
No verdict is written by hand: BUDGETS below has the limits, and everything else follows.
"""
import collections
import fnmatch
import os
import re
import sys

TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
KEPT = os.environ.get("BENCH_RESULTS", os.path.join(TOP, "docs", "benchmarks.tsv"))
PAGE = os.environ.get("BENCH_PAGE", os.path.join(TOP, "BENCHMARKS.md"))

# A limit is of what kmodsmith takes ("own"), or of the ratio to the plain tool, by the clock ("ratio") or in processor
# time ("cpu"). A row is judged by the first pattern "CASE; PLAIN" that fits it, where it was measured.
BUDGETS = [
    ("P1", "start*", "native", {"own": 50}),
    ("P1", "probe readiness", "native", {"own": 100}),
    ("P1", "unloads*", "*", {"own": 0}),
    ("P2", "all nodes*; few*", "native", {"own": 5, "ratio": 0.6}),
    ("P2", "all nodes*", "native", {"own": 5}),
    ("P2", "changing calls*", "*", {"own": 0}),
    ("P3", "*", "*", {"ratio": 1.15}),
    ("P4", "fetch*", "*", {"ratio": 0.6}),
    ("P4", "peak memory*", "*", {"own": 32}),
    ("P5", "cold compile; bare make", "*", {"ratio": 0.6, "cpu": 0.55}),
    ("P5", "the same again; bare make", "*", {"ratio": 0.15}),
    ("P5", "*after it; bare make", "*", {"ratio": 0.45}),
    ("P5", "packages with other bytes*", "*", {"own": 0}),
    ("P6", "decision*", "*", {"own": 200}),
    ("P6", "programs started*", "*", {"own": 0}),
    ("P7", "*", "*", {"own": 1}),
    ("P8", "memory of the coordinator*", "*", {"own": 32}),
    ("P8", "calls a second at rest*", "*", {"own": 0.25}),
    ("P8", "writes on nodes at rest*", "*", {"own": 0}),
    ("P8", "patches of a node by the coordinator*", "*", {"own": 9}),
    ("P8", "writes of a node by its agent*", "*", {"own": 6}),
    ("P8", "resync*", "*", {"own": 1}),
    ("P9", "memory of an agent*", "*", {"own": 8}),
    ("P9", "writes of an agent at rest", "*", {"own": 0}),
    ("P10", "program*", "*", {"own": 2}),
    ("P10", "runtime image*", "*", {"own": 25}),
    ("P11", "holders, 5000 processes*", "native", {"own": 60}),
    ("start", "*", "*", {"own": 5000}),
    ("P12", "make check, from nothing", "*", {"own": 25}),
    ("P12", "make check, with caches", "*", {"own": 15}),
    ("P12", "an edit to its unit test*", "*", {"own": 20}),
    ("P13", "stand-ins of 8 GPUs*", "native", {"own": 50}),
    ("P13", "GPUs of this machine*", "native", {"ratio": 1.2}),
]
SUBJECTS = {
    "P1": "start with the requested driver loaded",
    "P2": "all device nodes and links, 8 GPUs and 4 switches",
    "P3": "load from the store, beside `insmod` of the same files",
    "P4": "fetch, verify and unpack, beside `curl`, `sha256sum` and `tar`",
    "P5": "compile, beside bare `make` of the same modules",
    "P6": "kernel update whose CRCs all match",
    "P7": "nodes that need the same package",
    "P8": "coordinator of 5,000 nodes",
    "P9": "agent",
    "P10": "size",
    "P11": "holders among 5,000 processes",
    "P12": "the project's own checks, on 2 processors",
    "P13": "do the GPUs work: the whole check, beside `nvidia-smi -L`",
}
HOW = {"P5": "make bench P5=1", "P7": "make bench SCALE=1", "P8": "make bench SCALE=1", "P9": "make bench SCALE=1", "P12": "make bench P12=1, P12=nothing",
       "P13": "make bench ONLY=P13 where there are GPUs"}
WORDS = {"own": "{} {}", "ratio": "{} x", "cpu": "processor {} x"}
Run = collections.namedtuple("Run", "date version machine tools command")
FIELDS = "part run id case where unit own own_low own_high own_cpu plain other other_low other_high other_cpu"


class Row(collections.namedtuple("Row", FIELDS)):
    def figures(self):
        own, other = number(self.own), number(self.other)
        cpu, other_cpu = number(self.own_cpu), number(self.other_cpu)
        return {"own": own, "ratio": own / other if own is not None and other else None,
                "cpu": cpu / other_cpu if cpu is not None and other_cpu else None}

    def budget(self):
        """Which of BUDGETS judges it, or None."""
        for budget in BUDGETS:
            name, case, where, _ = budget
            if name == self.id and fnmatch.fnmatch(self.where, where) and \
                    (fnmatch.fnmatch(f"{self.case}; {self.plain}", case) or fnmatch.fnmatch(self.case, case)):
                return budget
        return None

    def limits(self):
        budget = self.budget()
        return budget[3] if budget else {}

    def misses(self):
        """The limits that are exceeded; a figure that is missing exceeds its limit."""
        figures = self.figures()
        return [name for name, limit in self.limits().items() if figures[name] is None or figures[name] > limit]


def number(text):
    return float(text) if text else None


def short(value):
    if value == int(value) or value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def load():
    """(rows, {part: [line]}, {key: run})"""
    rows, texts, runs = [], collections.defaultdict(list), {}
    if not os.path.exists(KEPT):
        return rows, texts, runs
    with open(KEPT, encoding="utf-8") as file:
        for line in file:
            kind, *fields = line.rstrip("\n").split("\t")
            if kind == "run":
                runs[fields[0]] = Run(*fields[1:])
            elif kind == "row":
                rows.append(Row(*fields))
            elif kind == "text":
                texts[fields[0]].append(tuple(fields[1:]))
    return rows, texts, runs


def order(row):
    return (row.id[0] != "P", int(row.id[1:]) if row.id[1:].isdigit() else 0)


def store(rows, texts, runs):
    used = {row.run for row in rows} | {line[0] for lines in texts.values() for line in lines}
    with open(KEPT + ".new", "w", encoding="utf-8") as file:
        file.write("# SPDX-License-Identifier: Apache-2.0\n# Written by `make bench`; see tests/bench/report.py.\n")
        for key in sorted(used):
            print("run", key, *runs[key], sep="\t", file=file)
        for row in sorted(rows, key=order):
            print("row", *row, sep="\t", file=file)
        for part in sorted(texts):
            for line in texts[part]:
                print("text", part, *line, sep="\t", file=file)
    os.replace(KEPT + ".new", KEPT)


def add(part, path):
    rows, texts, runs = load()
    run = Run(*os.environ["BENCH_RUN"].split("\t"))
    key = run.date.replace(" ", "T")
    runs[key] = run
    rows = [row for row in rows if row.part != part]
    texts.pop(part, None)
    with open(path, encoding="utf-8") as file:
        for line in file:
            kind, *fields = line.rstrip("\r\n").split("\t")
            if kind == "row":
                rows.append(Row(*([part, key] + fields + [""] * (len(Row._fields) - 2 - len(fields)))))
            elif kind == "text":
                texts[part].append((key, "\t".join(fields)))
    store(rows, texts, runs)
    render(rows, texts, runs)


def measured(unit, median, low, high, cpu):
    if not median:
        return ""
    more = []
    if low and high and (low, high) != (median, median):
        more.append(f"{short(float(low))} to {short(float(high))}")
    if cpu:
        more.append(f"processor {short(float(cpu))}")
    return f"{short(float(median))}{' ' + unit if unit else ''}" + (f" ({', '.join(more)})" if more else "")


def ratios(row):
    figures = row.figures()
    if figures["ratio"] is None:
        return ""
    return f"{figures['ratio']:.2f}" + (f" ({figures['cpu']:.2f})" if figures["cpu"] is not None else "")


def verdict(row):
    limits = row.limits()
    text = ", ".join(WORDS[name].format(limit, row.unit).rstrip() for name, limit in limits.items())
    return f"{text}: {'**not met**' if row.misses() else 'met'}" if limits else ""


def compared(row):
    """Each figure that has a limit, with its limit."""
    figures = row.figures()
    for name, limit in row.limits().items():
        own = "?" if figures[name] is None else short(figures[name])
        yield f"{own} of {WORDS[name].format(limit, row.unit).rstrip()}"


def names_of(runs):
    return {key: "abcdefghijklmnopqrstuvwxyz"[i % 26] * (i // 26 + 1) for i, key in enumerate(sorted(runs))}


def worst(rows):
    """Of the rows of one budget, the one that is nearest to its limit, or farthest beyond it."""
    def excess(row):
        figures, most = row.figures(), 0.0
        for name, limit in row.limits().items():
            value = figures[name]
            most = max(most, float("inf") if value is None else value / limit if limit else value * 1e9)
        return most
    return max((row for row in rows if row.limits()), key=excess, default=None)


def budget_lines(rows):
    """(id, verdict, the row that decides, or how to measure it)"""
    for name in SUBJECTS:
        row = worst([row for row in rows if row.id == name])
        how = f"`{HOW.get(name, 'make bench')}`"
        if row is None:
            yield name, "not measured", how
            continue
        judged = [row.budget() for row in rows]
        missing = [budget[1].split(";")[0].strip("*, ") for budget in BUDGETS if budget[0] == name and budget not in judged]
        word = "**not met**" if row.misses() else "met in part" if missing else "met"
        yield name, word, f"{row.case}: {', '.join(compared(row))}" + \
            (f"; not measured: {', '.join(missing)} ({how})" if missing else "")


def blocks(rows, texts, runs):
    names = names_of(runs)
    yield "budgets", ["| | budget | | the row that is nearest to its limits, or farthest beyond them |", "|---|---|---|---|"] + \
        [f"| {name} | {SUBJECTS[name]} | {word} | {why} |" for name, word, why in budget_lines(rows)]
    yield "rows", ["| | where | kmodsmith | plain tool | ratio (processor) | budget | run |", "|---|---|---|---|---|---|---|"] + [
        f"| {row.id} {row.case} | {row.where} | {measured(row.unit, row.own, row.own_low, row.own_high, row.own_cpu)} | "
        + (f"{row.plain}: {measured(row.unit, row.other, row.other_low, row.other_high, row.other_cpu)}" if row.other else "")
        + f" | {ratios(row)} | {verdict(row)} | {names[row.run]} |" for row in rows]
    yield "runs", [f"- **{names[key]}**: {run.date}, `{run.command}`, version {run.version}. {run.machine}. {run.tools}"
                   for key, run in sorted(runs.items())]
    growth = texts.get("growth", [])
    yield "growth", ([f"Run {names[growth[0][0]]}.", ""] + [line for _, line in growth]) if growth else \
        ["Not measured yet: `make bench ONLY=growth`."]


def page(rows, texts, runs):
    used = {row.run for row in rows} | {line[0] for lines in texts.values() for line in lines}
    runs = {key: run for key, run in runs.items() if key in used}
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    for name, lines in blocks(rows, texts, runs):
        begin, end = f"<!-- generated: {name} -->\n", "<!-- /generated -->"
        if begin not in text:
            sys.exit(f"report: {PAGE} has no line '{begin.strip()}'")
        body = "\n".join(lines)
        text = re.sub(re.escape(begin) + ".*?" + re.escape(end), lambda _: f"{begin}\n{body}\n\n{end}", text, flags=re.S)
    return text


def render(rows, texts, runs):
    text = page(sorted(rows, key=order), texts, runs)
    with open(PAGE + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(PAGE + ".new", PAGE)


def main():
    command = sys.argv[1] if len(sys.argv) > 1 else ""
    if command == "add" and len(sys.argv) == 4:
        add(*sys.argv[2:])
    elif command == "show":
        for name, word, why in budget_lines(load()[0]):
            print(f"{name:4} {word.strip('*'):13} {why}")
    elif command == "write":
        render(*load())
    elif command == "check":
        with open(PAGE, encoding="utf-8") as file:
            if file.read() != page(*load()):
                sys.exit(f"report: {PAGE} is not what {KEPT} says; make bench writes both")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
