#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requirements (R-Xn) and scenarios (Tnn) with the tests that cite them.

  tests/check/run --ids    the table, as Markdown: id, test, how that ended in the last run here
  tests/check/ids.py       print each id that no test cites, and that gives no reason for it, as FILE:LINE:TEXT
"""
import functools
import glob
import json
import os
import re

TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
REQUIREMENTS, SCENARIOS = "docs/design/requirements.md", "tests/cluster/scenarios.md"
RESULTS = "build/check/results.json"  # tests/check/report.py writes it
ID = re.compile(r"(?<![-\w])(R-[A-Z]\d+|T\d\db?)(?!\w)|\bt(\d\d)_\w")  # as a function: t60_a_lost_status
RANGE = re.compile(r"R-([A-Z])(\d+) to R-\1(\d+)")
STATES = ("Met", "Partly", "Declined")
FUNCTION = re.compile(r"static void (\w+)\(void \*\*state\)")


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def entries():
    """(id, place, reason why it has no test, what is wrong with the entry) of each requirement and scenario."""
    text = read(REQUIREMENTS)
    for match in re.finditer(r"^\*\*(R-[A-Z]\d+)\*\* .*?(?=\n\n|\Z)", text, re.M | re.S):
        paragraph = " ".join(match[0].split())
        state = re.findall(r"\*(\w+)\*[.,: ]", paragraph)
        reason = re.search(r"no test: (.+?\.)( |$)", paragraph)
        wrong = "" if len(state) == 1 and state[0] in STATES else f"does not have one state of {', '.join(STATES)}"
        yield match[1], f"{REQUIREMENTS}:{text.count(chr(10), 0, match.start()) + 1}", reason[1] if reason else "", wrong
    for number, line in enumerate(read(SCENARIOS).split("\n"), 1):
        if re.match(r"\| T\d\d", line):
            name, test, reason = (cell.strip() for cell in line.split("|")[1:4])
            yield name, f"{SCENARIOS}:{number}", "" if test else reason, ""


def ids(line):
    """The ids that a line cites, those between the ends of a range too."""
    found = [match[1] or "T" + match[2] for match in ID.finditer(line)]
    for letter, first, last in RANGE.findall(line):
        found += [f"R-{letter}{n}" for n in range(int(first) + 1, int(last))]
    return found


def title_in_bats(lines, at):
    """The test whose title or body has the line; "" above the first one."""
    for line in reversed(lines[:at + 1]):
        if line.startswith("@test "):
            return line.split('"', 1)[1].rsplit('"', 1)[0]
    return ""


def title_in_c(lines, at):
    """The test function around the line or below its comment, else the string that has the id; "" for the file."""
    function = FUNCTION.match(lines[at])
    if function:
        return function[1]
    if lines[at].startswith("//"):
        below = next((line for line in lines[at:] if not line.startswith("//")), "")
        return FUNCTION.match(below)[1] if FUNCTION.match(below) else ""
    for line in reversed(lines[:at]):
        if line == "}":
            break
        if FUNCTION.match(line):
            return FUNCTION.match(line)[1]
    return title_in_shell(lines, at)


def title_in_shell(lines, at):
    text = next((text for text in re.findall(r'"([^"]*)"', lines[at]) if ids(text)), "")
    return "" if lines[at].startswith(("#", "//")) else text.strip()


def sources():
    """(test, file, how to find a title) of each file of tests; what plants citations for the linter is none."""
    for path in sorted(glob.glob("tests/unit/*_test.c")):
        rows = path.replace("_test.c", ".def")
        yield "unit/" + os.path.basename(path)[:-2], path, title_in_c
        if os.path.exists(rows):
            yield "unit/" + os.path.basename(path)[:-2], rows, title_in_shell
    for tier in ("cli", "services", "cluster", "images"):
        for path in sorted(set(glob.glob(f"tests/{tier}/*.bats")) - {"tests/cli/house.bats"}):
            yield f"{tier}/{os.path.basename(path)[:-5]}", path, title_in_bats
    for path in sorted(glob.glob("tests/vm/[0-9]*.sh")):
        yield "vm/" + os.path.basename(path)[:-3], path, title_in_shell
    yield "matrix/again", "scripts/matrix.sh", title_in_shell


@functools.cache
def citations():
    """id -> {(test, title): None}, in the order of the files."""
    cited = {}
    for test, path, title in sources():
        lines = read(path).split("\n")
        for at, line in enumerate(lines):
            for name in ids(line):
                cited.setdefault(name, {})[(test, title(lines, at))] = None
    return cited


@functools.cache
def results():
    return json.loads(read(RESULTS) or "{}")


@functools.cache
def tap(test):
    """Title -> passed, FAILED or skipped, of the last run."""
    logs = [f"build/check/{test}.log"] if not test.startswith("vm/") else glob.glob(f"build/vm/{test[3:]}.*/tap")
    found = {}
    for line in "\n".join(read(log) for log in logs).split("\n"):
        match = re.match(r"(not )?ok \d+ (?:- )?(.*?)( # skip.*)?$", line, re.I)
        if match and found.get(match[2]) != "FAILED":
            found[match[2]] = "FAILED" if match[1] else "skipped" if match[3] else "passed"
    return found


def result(test, title):
    states = {entry["state"] for name, entry in results().items() if name.split("@")[0] == test}
    if not states:
        return "not run"
    if title in tap(test):
        return tap(test)[title]
    return "FAILED" if states & {"failed", "blocked"} else "passed" if "passed" in states else "skipped"


def lint():
    found = []
    for name, place, reason, wrong in entries():
        if wrong:
            found.append(f"{place}:{name} {wrong}")
        if reason and name in citations() and name.startswith("R-"):
            found.append(f"{place}:{name} gives a reason for having no test, and {next(iter(citations()[name]))[0]} cites it")
        if not reason and name not in citations():
            found.append(f"{place}:{name} is cited by no test, and does not say why (no test: ...)")
    return found


def show():
    print("| id | test | last run here |\n|---|---|---|")
    for name, _, reason, _ in entries():
        for test, title in citations().get(name, {}):
            text = f"{test}: {title}" if title else test
            print(f"| {name} | {text.replace('|', chr(92) + '|')} | {result(test, title)} |")
        if name not in citations():
            print(f"| {name} | no test: {reason} | |")


if __name__ == "__main__":
    os.chdir(TOP)
    print("".join(line + "\n" for line in lint()), end="")
