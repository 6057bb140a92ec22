# SPDX-License-Identifier: Apache-2.0
"""Are the tests able to see a fault? Puts random small faults (find.py) into a copy of the product, all behind one
run-time switch (mutant.c), finds out which test reaches which of them, and runs for each the tests that reach it until
one fails. What no test notices is printed. See scripts/mutate.sh for its use.

An unfinished run goes on where it stood, as long as sources, tests and the draw are the same.
"""
import collections
import concurrent.futures
import glob
import hashlib
import json
import os
import random
import shutil
import sys
import threading

import find
import tree
from tests import TIERS, Tests

BUILD = "build/mutate"
STATE = f"{BUILD}/state.json"
EQUIVALENT = "tests/mutate/equivalent"
MOST = 4095  # bytes of a trace, less one: numbers begin at 1


def setting(name, default):
    value = os.environ.get(name, "") or str(default)
    if not value.isdigit():
        raise SystemExit(f"mutate: {name} must be a number, not '{value}'")
    return int(value)


def candidates(files):
    """Of all files; those of a file that has not changed are remembered."""
    os.makedirs(f"{BUILD}/candidates", exist_ok=True)
    with open(find.__file__, "rb") as f:
        finder = f.read()

    def one(path):
        with open(path, "rb") as f:
            name = hashlib.sha256(finder + path.encode() + f.read()).hexdigest()[:32]
        kept = f"{BUILD}/candidates/{name}"
        if not os.path.exists(kept):
            found = find.find(path)
            with open(f"{kept}.{os.getpid()}", "w", encoding="utf-8") as f:
                json.dump(found, f)
            os.replace(f"{kept}.{os.getpid()}", kept)
        with open(kept, encoding="utf-8") as f:
            return json.load(f)

    return [m for path in files for m in one(path)]


def key(m):
    """What names a mutant when lines move."""
    return " ".join([m["file"], m["function"], m["kind"], *m["original"].split()])


def equivalents():
    """The known harmless ones: a line as key() makes it, below lines "# why"."""
    ret, why = {}, []
    with open(EQUIVALENT, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            line = line.strip()
            if line.startswith("#"):
                why.append(line[1:].strip())
            elif not line:
                why = []
            elif not why:
                raise SystemExit(f"{EQUIVALENT}:{number}: has no line '# why' above it")
            else:
                ret[line] = " ".join(why)
    return ret


def draw(found, count, seed):
    """At random, none inside of another, and none of the known harmless ones."""
    harmless, taken, ret, left_out = equivalents(), collections.defaultdict(list), [], 0
    found = sorted(found, key=lambda m: (m["file"], m["start"], m["end"], m["kind"]))
    random.Random(seed).shuffle(found)
    for m in found:
        if len(ret) == count:
            break
        if any(m["start"] < end and start < m["end"] for start, end in taken[m["file"]]):
            continue
        if key(m) in harmless:
            left_out += 1
            continue
        taken[m["file"]].append((m["start"], m["end"]))
        ret.append(m)
    ret.sort(key=lambda m: (m["file"], m["start"]))
    for number, m in enumerate(ret, 1):
        m["id"] = number
    return ret, left_out


class State:
    """What is known so far, kept after each step."""

    def __init__(self, digest):
        self.lock = threading.Lock()
        self.data = {"digest": digest, "results": {}}
        try:
            with open(STATE, encoding="utf-8") as f:
                old = json.load(f)
        except (OSError, ValueError):
            old = {}
        if old.get("digest") == digest:
            self.data = old
        else:
            shutil.rmtree(f"{BUILD}/trace", ignore_errors=True)

    def put(self, number, result):
        with self.lock:
            self.data["results"][str(number)] = result
            with open(f"{STATE}.new", "w", encoding="utf-8") as f:
                json.dump(self.data, f)
            os.replace(f"{STATE}.new", STATE)

    def get(self, number):
        return self.data["results"].get(str(number))


def judge(m, tests, state):
    result = state.get(m["id"])
    if result is None:
        result = {"tests": tests.reaching(m["id"]), "by": None}
        for test in result["tests"]:
            if not tests.passes(test, m["id"]):
                result["by"] = test
                break
        state.put(m["id"], result)
    m.update(result)
    return m


def show(m):
    change = m["mutant"] or "nothing"
    print(f"{m['file']}:{m['line']}: {m['function']}: {' '.join(m['original'].split())}  ->  {' '.join(change.split())}")
    print(f"    {key(m)}")
    print(f"    reached by {', '.join(m['tests'][:6])}{' ...' if len(m['tests']) > 6 else ''}" if m["tests"] else
          "    reached by no test that was run")


def report(mutants, left_out):
    rooms = collections.defaultdict(collections.Counter)
    for m in mutants:
        verdict = "unreached" if not m["tests"] else "alive" if not m["by"] else m["by"].split("/")[0]
        for room in (os.path.dirname(m["file"]), "all"):
            rooms[room]["mutants"] += 1
            rooms[room][verdict] += 1
    alive = [m for m in mutants if not m["by"]]
    print("\nNot noticed by a test (the second line is what tests/mutate/equivalent would say of a harmless one):")
    for m in alive:
        show(m)
    columns = ("mutants", *TIERS, "alive", "unreached")
    print("\n" + f"{'room':24}" + "".join(f"{c:>11}" for c in columns) + f"{'killed':>11}")
    for room in sorted(rooms, key=lambda r: (r == "all", r)):
        c = rooms[room]
        killed = 100 * sum(c[tier] for tier in TIERS) / c["mutants"]
        print(f"{room:24}" + "".join(f"{c[n]:11}" for n in columns) + f"{killed:10.0f}%")
    print("\nA tier: killed there (unit programs come first). unreached: also what runs only where the switch cannot be seen: in"
          "\nchildren with an environment of their own, and in guests and images, which are not run.")
    killed = len(mutants) - len(alive)
    print(f"mutate: {killed} of {len(mutants)} killed, {len(alive)} survived, {left_out} known harmless left out")
    return 100 * killed / len(mutants)


def main():
    count, seed, jobs = setting("MUTANTS", 120), setting("SEED", 1), setting("JOBS", os.cpu_count() or 1)
    if count > MOST:
        raise SystemExit(f"mutate: MUTANTS is at most {MOST} (mutant.c)")
    least, rooms = setting("MIN_KILLED", 0), [r.strip("/") for r in os.environ.get("ROOM", "").split()]
    files = sorted(f for p in ("installer/*/**/*.c", "kmod/**/*.c", "precompiled/**/*.c") for f in glob.glob(p, recursive=True)
                   if not rooms or f in rooms or any(f.startswith(f"{r}/") for r in rooms))
    if not files:
        raise SystemExit(f"mutate: there is no room or file '{' '.join(rooms)}' (installer/host, kmod/module/elf.c, ...)")
    os.makedirs(BUILD, exist_ok=True)
    found = candidates(files)
    mutants, left_out = draw(found, count, seed)
    print(f"mutate: {len(mutants)} of {len(found)} mutants in {len({m['file'] for m in mutants})} files, SEED={seed}",
          flush=True)
    tests = Tests(BUILD)
    digest = tree.make(f"{BUILD}/tree", mutants, tests.selected)
    dropped = tree.build(f"{BUILD}/tree", mutants, tests, jobs)
    mutants = [m for m in mutants if m["id"] not in dropped]
    state = State(digest)
    tests.record(jobs)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for done, m in enumerate(pool.map(lambda m: judge(m, tests, state), mutants), 1):
            print(f"{done}/{len(mutants)} {m['file']}:{m['line']} {m['kind']}: {m['by'] or 'survived'}", flush=True)
    return 1 if report(mutants, left_out) < least else 0


if __name__ == "__main__":
    sys.exit(main())
