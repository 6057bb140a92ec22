# SPDX-License-Identifier: Apache-2.0
"""Which tests `make check` runs: tests/check/lists.toml, and what changed since every test passed."""
import fnmatch
import glob
import io
import os
import re
import subprocess
import time
import tomllib

LISTS = "tests/check/lists.toml"
PASSED = "tests/check/passed"  # COMMIT DATE: the last one for which `make check-all` passed; below it COMMIT DATE TEST...: parts of the next


def load():
    with open(LISTS, "rb") as file:
        return tomllib.load(file)


def match(patterns, names):
    """The names that one of the patterns means: TIER, TIER/NAME or TIER/NAME@KIND, with * as in a shell."""
    def means(pattern, name):
        return name == pattern or fnmatch.fnmatchcase(name, pattern) or name.split("/")[0] == pattern or \
            name.split("@")[0] == pattern
    return [n for n in names if any(means(p, n) for p in patterns)]


def of(entry, names):
    """Those that an entry of the lists means."""
    return [n for n in match(entry["tests"], names) if not match(entry.get("except", []), [n])]


def git(*words):
    done = subprocess.run(["git", *words], capture_output=True, text=True)
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else None


def complete_pass():
    if not os.path.exists(PASSED):
        return ""
    with open(PASSED, encoding="ascii") as file:
        return file.read().split()[0]


def changed_files(without_a_remote="passed"):
    """(files, since what) of this tree; files is None when nobody knows. A contributor's are those since the branch that he
    cloned. CHECK_SINCE names another commit; `passed`, which continuous integration says: the last complete pass."""
    since = os.environ.get("CHECK_SINCE", "")
    if not since:
        since = next((found[0] for branch in ("@{upstream}", "origin/HEAD") if (found := git("merge-base", "HEAD", branch))),
                     without_a_remote)
    if since == "passed":
        since = complete_pass()
    if not since:
        return None, "there is no record of a complete `make check-all`"
    files = git("diff", "--name-only", since, "--")
    if files is None:
        return None, f"commit {since[:12]} is not in this clone"
    return files + (git("ls-files", "--others", "--exclude-standard") or []), f"commit {since[:12]}"


def choose(plan, tests, changed):
    """(chosen, left out as (names, why), widened as (names, why))"""
    files, since = changed
    chosen = {name for entry in plan["check"] for name in of(entry, tests)}
    left_out, widened = [], []
    written = {os.path.splitext(f)[0] for f in files or []} | {f"tests/lint/c:{os.path.dirname(f)}" for f in files or [] if f[-2:] in (".c", ".h")}
    own = [n for n in tests if n not in chosen and f"tests/{n.split('@')[0]}" in written]
    if own:
        chosen.update(own)
        widened.append((own, f"their own files changed since {since}"))
    for entry in plan["check-all"]:
        names = [n for n in of(entry, tests) if n not in chosen]
        touched = [f for f in files or [] if any(fnmatch.fnmatchcase(f, p) for p in entry.get("when", []))]
        if touched:
            chosen.update(names)
            widened.append((names, f"{touched[0]}{' and others' if len(touched) > 1 else ''} changed since {since}"))
        elif names:
            left_out.append((names, entry["why"]))
    if files is None:
        left_out.append(([], f"changes bring nothing back in this run: {since}"))
    return [n for n in tests if n in chosen], left_out, widened


def still_passed(plan, tests, passed, head):
    """Of those that passed before ({commit: tests}), the ones that do so at this commit, too: they passed at it, or at one
    before it since which nothing changed, or nothing that brings them into `make check`."""
    found = set()
    for commit, names in passed.items() if head else ():
        if commit != head and git("merge-base", "--is-ancestor", commit, head) is None:
            continue
        files = [f for f in git("diff", "--name-only", commit, head) if f != PASSED]
        found |= names - set(choose(plan, tests, (files, f"commit {commit[:12]}"))[0] if files else ())
    return found


def mine(tests, files):
    """The lint of changed files, changed tests that take seconds, and the unit tests that include a changed header, or that of
    a changed C file."""
    wanted = {"lint/includes", "lint/lists", "lint/names", "lint/codespell", "lint/rule-*"} if files else set()
    for path in files:
        kind = os.path.splitext(path)[1]
        if kind in (".c", ".h", ".def"):
            wanted |= {"lint/format", f"lint/c:{os.path.dirname(path)}"}
            header = re.sub(r"^installer/", "", os.path.splitext(path)[0]) + (kind if kind == ".def" else ".h")
            wanted |= {f"unit/{os.path.basename(test)[:-2]}" for test in glob.glob("tests/unit/*_test.c") if test == path or
                       f'#include "{header}"' in open(test, encoding="utf-8").read()}
        elif kind in (".sh", ".bash", ".bats"):
            wanted.add("lint/shellcheck")
        if kind == ".bats" and path.startswith(("tests/cli/", "tests/services/")):
            wanted.add(path.removeprefix("tests/").removesuffix(".bats"))
        if kind == ".md":
            wanted.add("cli/docs")
    return [name for name in tests if match(wanted, [name])]


def keep(choice, room, minutes):
    """The same choice, but of what changes brought back only what there is room for."""
    chosen, left_out, widened = choice
    brought, kept = {n for names, _ in widened for n in names}, []
    for names, why in widened:
        over = [n for n in names if n not in room]
        if len(over) < len(names):
            kept.append(([n for n in names if n in room], why))
        if over:
            left_out.append((over, f"{minutes} minutes have no room for them, although {why}"))
    return [n for n in chosen if n in room or n not in brought], left_out, kept


def lint(tests):
    """Each test in exactly one list, no pattern without a test, no file that looks like a test in no tier. Exit status."""
    plan, wrong = load(), []
    entries = [(kind, entry) for kind in ("check", "check-all") for entry in plan[kind]]
    for kind, entry in entries:
        wrong += [f"{LISTS}: '{p}' in [[{kind}]] means no test" for p in entry["tests"] + entry.get("except", []) if not match([p], tests)]
        wrong += [f"{LISTS}: '{entry['tests'][0]}' in [[{kind}]] has no reason" for _ in [0] if not entry.get("why")]
        wrong += [f"{LISTS}: '{p}' in `when` matches no file" for p in entry.get("when", [])
                  if not any(fnmatch.fnmatchcase(f, p) for f in git("ls-files") or [p])]
    for name in tests:
        where = [kind for kind, entry in entries if of(entry, [name])]
        if len(where) != 1:
            wrong.append(f"{LISTS}: {name} is in {'no list' if not where else 'more than one entry'}")
    known = {name.split("/")[1].split("@")[0] for name in tests}
    for path in sum((glob.glob(f"tests/{shape}") for shape in ("*/*.bats", "*/*_test.c", "vm/[0-9]*.sh")), []):
        if os.path.splitext(os.path.basename(path))[0] not in known:
            wrong.append(f"{path}: is in no tier, so that nothing runs it")
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


def with_parts(tests, passed):
    """{commit: tests} of what passed here, and of the parts of a complete pass that the file has, from here or another machine."""
    lines = []
    if os.path.exists(PASSED):
        with open(PASSED, encoding="ascii") as file:
            lines = [line.split() for line in file.readlines()[1:]]
    here = set().union(*passed.values())
    found = {commit: set(match(words, tests)) - here for commit, _, *words in lines}
    return {commit: found.get(commit, set()) | passed.get(commit, set()) for commit in {**found, **passed}}


def remember(passed, is_whole):
    """After a `make check-all`: the inputs and the commit, for `make check` to start from; after a part of one ({commit: tests} that
    passed) what needs not be run again, for `make check-all RESUME=1` wherever this is cloned."""
    head = git("rev-parse", "HEAD")
    if not head or git("status", "--porcelain", "--untracked-files=no", "--", ":!" + PASSED) != []:
        print("Not recorded as a pass: this is not a commit.")
        return
    today = time.strftime("%Y-%m-%d")
    if is_whole:
        subprocess.run(["scripts/inputs.sh", "--lock"], check=True)
        lines = [f"{head[0]} {today}"]
    else:
        with open(PASSED, encoding="ascii") if os.path.exists(PASSED) else io.StringIO("- never\n") as file:
            before = file.read().split("\n")[:-1]
        dates = {line.split()[0]: line.split()[1] for line in before[1:]}
        lines = before[:1] + [" ".join([commit, dates.get(commit, today), *sorted(names)]) for commit, names in passed.items() if names]
    with open(PASSED, "w", encoding="ascii") as file:
        print(*lines, sep="\n", file=file)
    print(f"Recorded in {PASSED} and tests/inputs.lock: commit both." if is_whole else
          f"Recorded in {PASSED} as a part; commit it, and go on with `make check-all RESUME=1`, here or in another clone.")
