# SPDX-License-Identifier: Apache-2.0
"""What a run prints: a line for each job that ended, what failed below it, and the closing tables."""
import functools
import json
import os
import re
import subprocess
import time

import ids

TIMES = os.path.join(os.environ.get("KMODSMITH_CACHE") or os.path.expanduser("~/.cache/kmodsmith"), "check", "times.json")
progress = {"done": 0, "of": 0}


def times():
    """Seconds that each job took in the last run on this machine."""
    try:
        with open(TIMES, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return {}


def inputs_changed():
    done = subprocess.run(["scripts/inputs.sh", "--changed"], capture_output=True, text=True)
    return done.stdout.strip().split("\n") if done.returncode == 0 and done.stdout.strip() else []


def begin(count, left_out, widened, seconds):
    progress["of"] = count
    print(f"{count} tests of {count + sum(len(names) for names, _ in left_out)}, on {os.cpu_count()} processors, about "
          f"{round(seconds / 60) or 1} min; logs are in build/check", flush=True)
    for names, why in widened:
        print(f"widened: {len(names)} more, since {why}")


def failures(log):
    """The parts of a log that say what failed: TAP's failures with what stands below them, or all of it when there is none."""
    with open(log, encoding="utf-8", errors="replace") as file:
        lines = file.read().rstrip("\n").split("\n")
    if not any(line.startswith("not ok") for line in lines):
        return lines[-60:]
    shown, show = [], False
    for line in lines:
        if re.match(r"(not )?ok\b|1\.\.", line):
            show = line.startswith("not ok")
        if show:
            shown.append(line)
    return shown[:200]


def finished(job):
    progress["done"] += job.counts
    words = {"passed": "ok", "failed": "FAILED", "skipped": "skipped", "blocked": "not run"}
    checks = f"{job.passed} passed" + (f", {job.failed} failed" if job.failed else "") + \
        (f", {job.skipped} skipped" if job.skipped else "") if job.counts else ""
    print(f"[{progress['done']:3}/{progress['of']}] {words[job.state]:7} {job.name:34} {job.wall:6.1f} s  {checks}"
          f"{'  ' + job.why if job.why and job.why != 'failed' else ''}", flush=True)
    store_result(job)
    if job.state == "failed":
        print("\n".join("    " + line for line in failures(job.log)), f"\n    the whole log: {job.log}", flush=True)


def table(jobs, wall):
    rows = {}
    for job in jobs:
        row = rows.setdefault(job.name.split("/")[0], [0, 0, 0, 0.0, 0.0])
        for i, value in enumerate((job.passed * job.counts, job.failed, job.skipped, job.cpu, job.wall)):
            row[i] += value
    print(f"\n{'tier':10} {'passed':>7} {'failed':>7} {'skipped':>8} {'processor':>10} {'one by one':>11}")
    for tier, (p, f, s, cpu, took) in rows.items():
        print(f"{tier:10} {p:7} {f:7} {s:8} {cpu:8.0f} s {took:9.0f} s")
    total = sum(row[3] for row in rows.values())
    print(f"{'':35} {total:8.0f} s, in {round(wall) // 60} min {round(wall) % 60} s of wall time")


def end(jobs, left_out, widened, wall, interrupted):
    """The closing tables; returns what passed, failed and was skipped."""
    table(jobs, wall)
    for names, why in widened:
        print(f"widened: {', '.join(names[:4])}{' ...' if len(names) > 4 else ''}: {why}")
    if left_out:
        print("\nleft out here, and run by `make check-all`:")
    for names, why in left_out:
        print(f"  {len(names):4} {', '.join(names[:3])}{' ...' if len(names) > 3 else ''}\n       {why}" if names else f"  {why}")
    skipped = sorted({(job.why, job.name.split("/")[0]) for job in jobs if job.state == "skipped" and job.why})
    for why, tier in skipped:
        print(f"skipped in {tier}: {why}")
    blocked = [job.name for job in jobs if job.state == "blocked"]
    failed = [job.name for job in jobs if job.state == "failed"]
    changed = inputs_changed()
    if changed:
        print("\ninputs changed since the tests last passed (tests/inputs.lock):", *changed, sep="\n  ")
    if failed:
        print("\nfailed:", *failed, sep="\n  ")
    if blocked:
        print(f"\nnot run, since what they need failed: {len(blocked)} jobs, {blocked[0]} first")
    if interrupted:
        print("\ninterrupted: the counts are of what had ended by then")
    store_times(jobs)
    p, f, s = (sum(getattr(job, what) for job in jobs) for what in ("passed", "failed", "skipped"))
    p -= sum(job.passed for job in jobs if not job.counts)
    f += len(blocked) + bool(interrupted)
    return p, f, s


def replace(path, known):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(known, file, indent=0, sort_keys=True)
    os.replace(path + ".new", path)


def store_times(jobs):
    known = times()
    known.update({job.name: round(job.wall, 1) for job in jobs if job.state == "passed"})
    replace(TIMES, known)


@functools.cache
def commit():
    """The commit of this tree; "" where it has changes of its own other than what the run before wrote."""
    done = subprocess.run("git rev-parse HEAD && git status --porcelain -- . :!tests/check/passed", shell=True, capture_output=True, text=True)
    words = done.stdout.split("\n")[:-1]
    return words[0] if len(words) == 1 else ""


def store_result(job):
    """How each test of this checkout ended when it ran last, at once: a run may be cut off."""
    if job.counts:
        known = ids.results()
        known[job.name] = {"state": job.state, "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "commit": commit(),
                           "long": os.environ.get("CHECK") == "all"}
        replace(ids.RESULTS, known)


def passed_before():
    """{commit: the tests that passed there in their long form}, as this checkout remembers."""
    found = {}
    for name, was in ids.results().items():
        if was["state"] == "passed" and was.get("long") and was.get("commit"):
            found.setdefault(was["commit"], set()).add(name)
    return found
