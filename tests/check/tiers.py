# SPDX-License-Identifier: Apache-2.0
"""The tiers: which tests each has, and the job that runs one."""
import functools
import glob
import os
import re
import subprocess

import report
from pool import Job

# What scripts/deps.sh calls the packages that a tier needs.
PACKAGES = {"lint": "build test lint", "unit": "build test", "cli": "build cli", "cli-asan": "build cli",
            "services": "build services", "cluster": "build cluster", "whole": "build cluster images root whole", "images": "build images", "matrix": "build vm",
            "vm": "build vm", "fuzz": "build fuzz", "roots": "root", "arm64": "build vm"}  # arm64.sh itself gets what may be absent
ENVIRONMENT = "build/check/prepare/{}.env"  # what tests/TIER/prepare prints
BINARY = os.path.abspath("build/release/kmodsmith")


def lines(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.split()


def files(pattern):
    return sorted(os.path.splitext(os.path.basename(path))[0] for path in glob.glob(pattern))


@functools.cache
def names():
    """Every test there is, as TIER/NAME."""
    tiers = {
        "lint": lines("scripts/lint.sh", "--list"),
        "unit": files("tests/unit/*_test.c"),
        "cli": files("tests/cli/*.bats"),
        "services": files("tests/services/*.bats"),
        "matrix": lines("scripts/matrix.sh", "--list"),
        "cluster": files("tests/cluster/*.bats"),
        "whole": files("tests/whole/*.bats"),
        "images": files("tests/images/*.bats"),
        "vm": lines("tests/vm/run", "--list") + ["selftest"] * os.path.exists("tests/vm/selftest"),
        "cli-asan": files("tests/cli/*.bats"),
        "roots": lines("scripts/other-root.sh", "--list"),
        "arm64": ["boot", "cli", "unit"] * os.path.exists("scripts/arm64.sh"),
        "fuzz": sorted(os.listdir("tests/fuzz/corpus")) if os.path.isdir("tests/fuzz/corpus") else [],
    }
    return [f"{tier}/{name}" for tier, members in tiers.items() for name in members]


def header(name, key, default="", kernel=""):
    """As tests/vm/header.sh reads it."""
    found = {}
    with open(f"tests/vm/{name}.sh", encoding="utf-8") as file:
        for line in file:
            if not line.startswith("#"):
                break
            word, _, value = line[1:].strip().partition(": ")
            found.setdefault(word, value.strip())
    return kernel.startswith("K13") and found.get(f"{key}@13") or found.get(key, default)


def titles(path):
    """How many tests a bats file has."""
    with open(path, encoding="utf-8") as file:
        return sum(line.startswith("@test ") for line in file)


def bats(tier, name, **job):
    path = f"tests/{tier.split('-')[0]}/{name}.bats"
    job = {"memory": 500, "files": 500, **job} if path.startswith("tests/cli/") else job  # the most that one of them leaves: 400
    return Job(f"{tier}/{name}", ["bats", "--tap", path], skips=titles(path),
               **{"seconds": 15, "needs": ["build/release"], **job, "env": {"KMODSMITH": BINARY, **job.get("env", {})}})


def lint(name):
    return Job(f"lint/{name}", ["scripts/lint.sh", name], seconds=60 if name.startswith("c:") else 5)


def unit(name):
    env = {"CMOCKA_MESSAGE_OUTPUT": "TAP", "INPUTS": os.path.abspath(ENVIRONMENT.format("inputs"))}
    return Job(f"unit/{name}", [f"build/asan/unit/{name}"], seconds=20 if name.startswith("sim_") else 1, env=env,
               needs=["build/unit"] + ["prepare/inputs"] * (name == "kernels_test"))


def cli_asan(name):
    env = {"KMODSMITH": os.path.abspath("build/asan/kmodsmith"), "TIMEOUT_SCALE": "3"}
    return bats("cli-asan", name, needs=["build/asan"], env=env)


def services(name):
    return bats("services", name, processors=0, seconds={"cosign": 800, "nvidia": 400}.get(name, 40))  # the first time


def cluster(name):
    is_long = name == "chaos"  # with coordinators under ASan
    return bats("cluster", name, processors=int(name == "walk"), seconds=1500 if is_long else 60, limit=3600 if is_long else 1200,
                needs=["build/release", "build/cluster", "prepare/cluster"] + ["build/asan"] * is_long,
                environment=ENVIRONMENT.format("cluster"))


def whole(name):
    path = f"tests/whole/{name}.bats"
    return Job(f"whole/{name}", ["tests/whole/run", "--tap", path], skips=titles(path), seconds=300, memory=3000, env={"KMODSMITH": BINARY},
               needs=["build/release", "prepare/whole"], environment=ENVIRONMENT.format("whole"))


def images(name):
    return bats("images", name, seconds=60, needs=["build/release", "prepare/images"], environment=ENVIRONMENT.format("images"))


def matrix(name, processors):
    return Job(f"matrix/{name}", ["scripts/matrix.sh", name], processors=processors, seconds=300,
               limit=3600, inputs=name.upper().split("@"),
               needs=["build/release", "prepare/inputs"])


def packages_of(name, key):
    """The rows of the matrix whose packages a guest is given: they are compiled once, before it starts."""
    stands_for = {"cut": f"open@{key}"}
    for word in header(name, "packages", kernel=key).split():
        source, _, kernel = word.partition(":")
        yield "matrix/" + stands_for.get(source, f"{source}@{kernel or key}")


def vm(name):
    if name == "selftest":
        return Job("vm/selftest", ["tests/vm/selftest"], needs=["build/release", "prepare/inputs"], seconds=120)
    script, _, key = name.partition("@")
    size = header(script, "mem", "1G")
    memory = int(size.rstrip("GM")) * (1024 if size.endswith("G") else 1) + 300
    packages = list(packages_of(script, key))
    needs = ["build/release", "prepare/inputs", *packages]
    if header(script, "image"):
        needs.append("prepare/images")
    return Job(f"vm/{name}", ["tests/vm/run", name], needs=needs, memory=memory, limit=7200,
               inputs=[key, *(word for row in packages for word in row[len("matrix/"):].upper().split("@"))],
               seconds=int(header(script, "timeout", "300").split()[0]) / 4)


def roots(name, processors):
    return Job(f"roots/{name}", ["scripts/other-root.sh", name], processors=processors, seconds=900, limit=7200)


# Under qemu-user everything takes ten times as long, and without seccomp nothing is compiled: what a node does with packages. A
# simulated cluster is the same everywhere, and so is each world that a rollout can reach.
ARM64_CLI = "agent bundle cache cached check".split()


def arm64(name, processors):
    command = {"boot": ["scripts/arm64-boot.sh"],
               "cli": ["scripts/arm64.sh", *(f"cli/{file}" for file in ARM64_CLI)],
               "unit": ["scripts/arm64.sh", *(f"unit/{file}" for file in files("tests/unit/*_test.c") if not file.startswith(("sim_", "rollout_model")))],
               }[name]
    return Job(f"arm64/{name}", command, processors=processors, seconds=1500, limit=4 * 3600,
               env={"INPUTS": os.path.abspath(ENVIRONMENT.format("inputs"))}, needs=["build/release", "prepare/inputs"])


def fuzz(name):
    env = {"TARGETS": name, "FUZZ_SECONDS": os.environ.get("FUZZ_SECONDS", "10")}
    return Job(f"fuzz/{name}", ["scripts/fuzz.sh"], needs=["build/fuzz"], seconds=12, env=env)


def preparations(tests, processors):
    """What has to be there before the tests, of it what these tests need."""
    def make(name, *targets, mode="release", seconds=60):
        command = ["make", "-s", f"-j{processors}", "CC=ccache gcc", "WERROR=1", f"MODE={mode}", *targets]
        return Job(f"build/{name}", command, processors=processors, seconds=seconds, counts=False, limit=3600)

    def prepare(tier, program="", **job):
        path = ENVIRONMENT.format(tier)
        command = ["bash", "-c", f'mkdir -p "{os.path.dirname(path)}" && exec {program or f"tests/{tier}/prepare"} >"{path}"']
        return Job(f"prepare/{tier}", command, counts=False, limit=5400, output=path, **job)
    units = [f"build/asan/{test.name}" for test in tests if test.name.startswith("unit/")]
    every = {job.name: job for job in (
        make("release", "all", "static", seconds=90),
        make("unit", *(units if len(units) < 30 else ["unit-build"]), mode="asan", seconds=230),
        make("asan", "all", mode="asan", seconds=80),
        make("cluster", "build/release/cluster/client", "build/release/cluster/conform", seconds=70),
        Job("build/fuzz", ["scripts/fuzz.sh", "--list"], processors=processors, seconds=300, counts=False, limit=3600),
        prepare("inputs", "scripts/inputs.sh", processors=0, seconds=60),
        prepare("images", seconds=110, needs=["build/release", "prepare/inputs"]),
        prepare("cluster", seconds=600, processors=processors, may_lack=True),
        prepare("whole", seconds=1000, processors=processors, may_lack=True, needs=["build/release", "prepare/inputs"]),
    )}
    every["build/asan"].needs = ["build/unit"]  # two makes in one folder are one too many
    every["build/cluster"].needs = ["build/release"]
    wanted, queue = {}, [need for test in tests for need in test.needs]
    while queue:
        name = queue.pop()
        if name in every and name not in wanted:
            wanted[name] = every[name]
            queue += every[name].needs
    return [job for name, job in every.items() if name in wanted]


def jobs(tests, processors):
    """The jobs for these tests and for what they need."""
    os.environ.setdefault("CCACHE_DIR", os.path.join(os.path.dirname(os.path.dirname(report.TIMES)), "ccache"))
    os.environ["CCACHE_NOHASHDIR"] = "1"
    make = {"lint": lint, "unit": unit, "cli": functools.partial(bats, "cli"), "cli-asan": cli_asan, "services": services,
            "cluster": cluster, "whole": whole, "images": images, "matrix": functools.partial(matrix, processors=processors), "vm": vm,
            "roots": functools.partial(roots, processors=processors), "fuzz": fuzz,
            "arm64": functools.partial(arm64, processors=processors)}
    made = [make[tier](name) for tier, name in (test.split("/", 1) for test in tests)]
    every = preparations(made, processors) + made
    known = report.times()
    for job in every:
        job.seconds = known.get(job.name, job.seconds)
        job.turn = turn(job)
    return every


# The first answers come from what is quick: a misspelt word is told before a guest has booted.
TURNS = ("lint", "unit", "cli", "services")


def turn(job):
    """Which jobs start first: a lower number, and then the longest."""
    tier, _, name = job.name.partition("/")
    if job.name in ("build/release", "prepare/inputs"):
        return 0
    if job.name == "prepare/images":  # long, by one processor, and the images wait for it at the end
        return TURNS.index("cli") + 1
    tier = name if tier in ("build", "prepare") else tier
    return TURNS.index(tier) + 1 if tier in TURNS else len(TURNS) + 1


def estimate(made, processors):
    """Seconds by the clock, about: as many jobs as there are processors and one more run at once; those that wait cost little."""
    return sum(job.seconds * max(job.processors, 0.3) for job in made) / (processors + 1)


def fit(chosen, widened, minutes, processors):
    """Of the tests that changes brought back those that a run of so many minutes has room for, the cheapest first. What a
    test needs counts for it, the modules of a guest as well."""
    by_name = {job.name: job for job in jobs([*chosen, *widened], processors)}
    rows = {need for job in by_name.values() for need in job.needs} & set(names())
    by_name |= {job.name: job for job in jobs(sorted(rows), processors)}

    def whole(names):
        wanted, queue = set(), list(names)
        while queue:
            name = queue.pop()
            if name in by_name and name not in wanted:
                wanted.add(name)
                queue += by_name[name].needs
        return wanted

    def cost(names):
        return estimate([by_name[name] for name in names], processors)
    taken, room = whole(chosen), []
    for name in sorted(widened, key=lambda name: cost(whole([name]) - taken)):
        if cost(taken | whole([name])) <= minutes * 60:
            taken |= whole([name])
            room.append(name)
    return room
