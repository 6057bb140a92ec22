# SPDX-License-Identifier: Apache-2.0
"""Run jobs side by side: as many as the processors and the memory take, the longest first, and leave nothing running."""
import contextlib
import dataclasses
import fcntl
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import report

LOGS = "build/check"
HANGS = 2


@dataclasses.dataclass
class Job:
    name: str  # TIER/NAME
    command: list
    processors: int = 1  # that it keeps busy; 0: it waits, most of its time
    seconds: float = 10  # what it takes, about: of one turn the longest start first
    turn: int = 0  # a lower one starts first
    needs: list = dataclasses.field(default_factory=list)  # names of jobs that must have passed
    memory: int = 0  # MiB
    files: int = 0  # MiB that it writes below TMPDIR; 0: nobody knows, and it gets a folder on a disk
    limit: int = 1200  # seconds of processor; HANGS times as many by the clock: a slow machine is no defect of a test
    env: dict = dataclasses.field(default_factory=dict)
    environment: str = ""  # a file with more of it
    output: str = ""  # a preparation's own KEY=VALUE lines
    counts: bool = True  # a test; False: it only prepares
    inputs: list = dataclasses.field(default_factory=list)  # keys of scripts/inputs.sh that it cannot do without
    may_lack: bool = False  # status 3: it cannot be had here, and the tests that need it say so and skip
    skips: int = 1  # how many tests are skipped when it cannot run
    # what became of it
    state: str = "waiting"  # waiting, running, passed, failed, skipped (with why), blocked
    why: str = ""
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    wall: float = 0
    cpu: float = 0
    process: object = None
    folder: str = ""
    begun: float = 0

    @property
    def log(self):
        return f"{LOGS}/{self.name}.log"


@contextlib.contextmanager
def only_one(folder):
    """One run in a checkout: two would delete each other's results."""
    os.makedirs(folder, exist_ok=True)
    lock = open(f"{folder}/lock", "a+", encoding="ascii")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        sys.exit(f"check: another run, process {lock.read().strip() or '?'}, tests this checkout; wait for it, or stop it")
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    yield


def available_memory():
    with open("/proc/meminfo", encoding="ascii") as file:
        return int(re.search(r"MemAvailable: *(\d+)", file.read())[1]) // 1024


def tally(job, status):
    """Count what the job printed: a closing line of its tier, or TAP."""
    with open(job.log, encoding="utf-8", errors="replace") as file:
        text = file.read()
    closing = re.findall(r"^[a-z][a-z0-9-]*: (\d+) passed, (\d+) failed, (\d+) skipped$", text, re.M)
    if closing:
        job.passed, job.failed, job.skipped = map(int, closing[-1])
    else:
        job.skipped = len(re.findall(r"^ok\b.*# skip", text, re.M | re.I))
        job.passed = len(re.findall(r"^ok\b", text, re.M)) - job.skipped
        job.failed = len(re.findall(r"^not ok\b", text, re.M))
        plans = [int(n) for n in re.findall(r"^1\.\.(\d+)$", text, re.M)]
        if plans and sum(plans) != job.passed + job.failed + job.skipped and not job.failed:
            job.failed, job.why = 1, f"planned {sum(plans)} checks and ran {job.passed + job.skipped}"
            return
    if job.failed:
        job.why = "failed"
    elif status:
        job.failed, job.why = 1, f"ended with status {status}" if status > 0 else f"was killed by signal {-status}"
    elif job.counts and job.passed + job.skipped == 0:
        job.failed, job.why = 1, "ran no test"


def leftovers(job):
    """Processes that the job left running, after a few seconds to end: they are named, and killed."""
    done = subprocess.run(["tests/servers-left", job.folder], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode else ""


def environment(job):
    """KEY=VALUE lines that a preparation wrote."""
    if not job.environment:
        return {}
    with open(job.environment, encoding="utf-8") as file:
        return dict(line.rstrip("\n").split("=", 1) for line in file if "=" in line)


def folder(job):
    """A new TMPDIR: in memory where as many jobs of this size as run at once have room. Tests that copy many small files
    cost two thirds of the processor time there."""
    place = None
    with contextlib.suppress(OSError):
        room = os.statvfs("/dev/shm")
        enough = room.f_bavail * room.f_frsize >> 20 >= job.files * ((os.cpu_count() or 1) + 1)
        if job.files and enough and not room.f_flag & os.ST_NOEXEC and os.access("/dev/shm", os.W_OK):
            place = "/dev/shm"
    return tempfile.mkdtemp(prefix="check.", dir=place)


def start(job):
    os.makedirs(os.path.dirname(job.log), exist_ok=True)
    job.folder = folder(job)
    job.begun = time.monotonic()
    with open(job.log, "wb") as log:
        job.process = subprocess.Popen(job.command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                       env={**os.environ, "TMPDIR": job.folder, **environment(job), **job.env}, start_new_session=True)
    job.state = "running"


def end(job, status, usage):
    job.wall, job.cpu = time.monotonic() - job.begun, usage.ru_utime + usage.ru_stime
    tally(job, os.waitstatus_to_exitcode(status))
    left = leftovers(job)
    if left:
        job.failed, job.why = job.failed + 1, "left a process running: " + left.replace("\n", "; ")
    if job.may_lack and os.waitstatus_to_exitcode(status) == 3:
        job.failed, job.why = 0, "cannot be had here"
    job.state = "failed" if job.failed else "passed"
    shutil.rmtree(job.folder, ignore_errors=True)
    job.process = None


def stop(job):
    with contextlib.suppress(OSError):
        os.killpg(job.process.pid, signal.SIGTERM)


def lacking_inputs(by_name):
    """The keys of scripts/inputs.sh that this Debian does not have."""
    prepared = by_name.get("prepare/inputs")
    if not prepared or prepared.state != "passed":
        return set()
    with open(prepared.output, encoding="utf-8") as file:
        return set(re.findall(r"\w+", " ".join(line.split("=", 1)[1] for line in file if line.startswith("LACKING="))))


def settle(jobs, by_name):
    """Those whose needs failed are blocked, and those whose inputs nobody has are skipped."""
    lacking = lacking_inputs(by_name)
    for job in jobs:
        if job.state != "waiting":
            continue
        for need in (by_name[n] for n in job.needs if n in by_name):
            if need.state in ("failed", "blocked"):
                job.state, job.why = "blocked", f"{need.name} failed"
        if job.state == "waiting" and lacking & set(job.inputs):
            job.state, job.skipped = "skipped", job.skips
            job.why = f"apt offers no {' '.join(sorted(lacking & set(job.inputs)))} here"
        if job.state != "waiting":
            report.finished(job)


def ready(jobs, by_name, running, processors, memory):
    """The job to start now. Of those that compute the first turn's longest is next, and who needs more room than there is gets it
    before others: a compile would never find two processors free. Those that wait have places of their own."""
    able = [job for job in jobs if job.state == "waiting" and all(by_name[n].state == "passed" for n in job.needs if n in by_name)]
    memory -= sum(job.memory for job in running)
    for waits, places in ((False, processors + 1), (True, 2 * processors)):
        job = max((job for job in able if (job.processors == 0) == waits), key=lambda job: (-job.turn, job.seconds), default=None)
        taken = sum(other.processors or 1 for other in running if (other.processors == 0) == waits)
        if job and taken + (job.processors or 1) <= places and job.memory <= memory:
            return job
    return None


def run(jobs, processors):
    """Run them all; True when interrupted."""
    by_name = {job.name: job for job in jobs}
    running, memory = {}, available_memory() * 8 // 10
    for job in jobs:
        if job.memory > memory:
            job.state, job.skipped = "skipped", job.skips
            job.why = f"needs {job.memory} MiB of memory, and {memory} are free here"
            report.finished(job)
    try:
        while True:
            settle(jobs, by_name)
            while job := ready(jobs, by_name, running.values(), processors, memory):
                start(job)
                running[job.process.pid] = job
            if not running:
                return False
            wait(running)
    except (KeyboardInterrupt, SystemExit):
        for job in running.values():
            stop(job)
        time.sleep(1)
        for job in running.values():
            with contextlib.suppress(OSError):
                os.killpg(job.process.pid, signal.SIGKILL)
            leftovers(job)
            shutil.rmtree(job.folder, ignore_errors=True)
        return True


def spent(job):
    """Seconds of processor of the job, its children and those that ended."""
    ticks = 0
    for path in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15])) if int(fields[3]) == job.process.pid else 0  # its session
    return ticks / os.sysconf("SC_CLK_TCK")


def wait(running):
    """Until one has ended; one that hangs is ended."""
    while True:
        pid, status, usage = os.wait4(-1, os.WNOHANG)
        if pid in running:
            job = running.pop(pid)
            job.process.returncode = os.waitstatus_to_exitcode(status)
            end(job, status, usage)
            report.finished(job)
            return
        for job in running.values():
            took = time.monotonic() - job.begun
            if took > job.limit and (took > job.limit * HANGS or spent(job) > job.limit):
                with open(job.log, "a", encoding="utf-8") as log:
                    print(f"\nended after {took:.0f} s, {spent(job):.0f} of processor: it hangs", file=log)
                stop(job)
                job.limit += 10
        time.sleep(0.05)
