# SPDX-License-Identifier: Apache-2.0
"""The tests that look for mutants: programs of the unit tier, and files of the cli, services and cluster tiers with the
real binary."""
import concurrent.futures
import glob
import json
import os
import signal
import subprocess
import tempfile
import time

TIERS = {"unit": ("tests/unit/*_test.c", ".c"), "cli": ("tests/cli/*.bats", ".bats"),
         "services": ("tests/services/*.bats", ".bats"), "cluster": ("tests/cluster/*.bats", ".bats")}
LEAST_S, FACTOR = 20, 6  # of the time limit: a test may take so many times what it took without a mutant


def chosen(variable, pattern, suffix):
    """NAMES of the variable, all of them when it is not set, none for "none"."""
    names = os.environ.get(variable, "").split()
    if names == ["none"]:
        return []
    every = {os.path.basename(f).removesuffix(suffix): f for f in sorted(glob.glob(pattern))}
    for name in names:
        if name not in every:
            raise SystemExit(f"mutate: {variable}: there is no test '{name}'")
    return names or list(every)


class Tests:
    def __init__(self, build):
        self.build, self.top = build, os.path.abspath(f"{build}/tree")
        self.selected = [f"{tier}/{name}" for tier, files in TIERS.items() for name in chosen(tier.upper(), *files)]
        self.servers = self.prepared()
        self.seconds, self.reached = {}, {}

    def prepared(self):
        """The environment of the cluster tier; without Kubernetes its tests are left out."""
        if not any(t.startswith("cluster/") for t in self.selected):
            return {}
        done = subprocess.run(["tests/cluster/prepare"], stdout=subprocess.PIPE, text=True)
        if done.returncode:
            print(f"mutate: without the cluster tier: {done.stdout.strip() or 'tests/cluster/prepare failed'}", flush=True)
            self.selected = [t for t in self.selected if not t.startswith("cluster/")]
            return {}
        return dict(line.split("=", 1) for line in done.stdout.split("\n") if "=" in line)

    def goals(self):
        goals = [f"build/asan/{t}" for t in self.selected if t.startswith("unit/")]
        return goals + (["build/asan/kmodsmith"] if len(goals) < len(self.selected) else [])

    def command(self, test):
        tier, name = test.split("/")
        if tier == "unit":
            return [f"build/asan/unit/{name}"]
        return ["bats", f"tests/{tier}/{name}.bats"]

    def run(self, test, limit_s, **more):
        """True: it passed within the time. All that it started ends with it, and its temporary files go."""
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        with tempfile.TemporaryDirectory(prefix="mutate.", dir=memory, ignore_cleanup_errors=True) as folder:
            env = dict(os.environ, KMODSMITH=f"{self.top}/build/asan/kmodsmith", TMPDIR=folder, **self.servers, **more)
            with subprocess.Popen(self.command(test), cwd=self.top, env=env, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as p:
                try:
                    ok = p.wait(limit_s) == 0
                except subprocess.TimeoutExpired:
                    ok = False
                try:
                    os.killpg(p.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            if not test.startswith("unit/"):
                subprocess.run(["tests/servers-left", folder], env=dict(os.environ, SECONDS_TO_END="1"), stdout=subprocess.DEVNULL)
            return ok

    def record_one(self, test):
        trace = os.path.abspath(f"{self.build}/trace/{test.replace('/', '-')}")
        if not os.path.exists(f"{trace}.json"):
            if os.path.exists(trace):
                os.unlink(trace)
            start = time.monotonic()
            ok = self.run(test, 600, MUTANT_TRACE=trace)
            seconds = time.monotonic() - start
            numbers = []
            if os.path.exists(trace):
                with open(trace, "rb") as f:
                    numbers = [number for number, byte in enumerate(f.read()) if byte]
            with open(f"{trace}.new", "w", encoding="ascii") as f:
                json.dump([ok, seconds, numbers], f)
            os.replace(f"{trace}.new", f"{trace}.json")
        with open(f"{trace}.json", encoding="ascii") as f:
            return test, *json.load(f)

    def record(self, jobs):
        """Each test once, without a mutant: what it reaches, and how long it takes. One that fails says nothing."""
        os.makedirs(f"{self.build}/trace", exist_ok=True)
        print(f"mutate: which of {len(self.selected)} tests reaches what", flush=True)
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for test, ok, seconds, numbers in pool.map(self.record_one, self.selected):
                if not ok:
                    print(f"mutate: {test} fails without a mutant and is not used", flush=True)
                    continue
                self.seconds[test] = seconds
                for number in numbers:
                    self.reached.setdefault(number, []).append(test)

    def reaching(self, number):
        """Tier by tier, the quickest first."""
        return sorted(self.reached.get(number, []), key=lambda t: (list(TIERS).index(t.split("/")[0]), self.seconds[t]))

    def passes(self, test, number):
        return self.run(test, max(LEAST_S, FACTOR * self.seconds[test]), MUTANT=str(number))
