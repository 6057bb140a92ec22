# SPDX-License-Identifier: Apache-2.0
"""The mutated copy of the tree, and its build."""
import hashlib
import os
import re
import subprocess

DECLARATION = b"int mutant_is(unsigned id); "  # on the first line, a comment, so that no line moves


def listed():
    """Files of this checkout: what git knows, and what it would."""
    out = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], check=True,
                         stdout=subprocess.PIPE).stdout.decode()
    return [f for f in out.split("\0") if f and os.path.lexists(f)]


def put(path, data, mode):
    """Written only where it differs: make looks at times."""
    try:
        with open(path, "rb") as f:
            if f.read() == data:
                return
    except OSError:
        pass
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)
    os.chmod(path, mode)


def link(path, target):
    if not os.path.islink(path) or os.readlink(path) != target:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.lexists(path):
            os.unlink(path)
        os.symlink(target, path)


def mutated(data, mutants):
    """From the end to the beginning, so that offsets stay right."""
    for m in sorted(mutants, key=lambda m: -m["start"]):
        old = data[m["start"]:m["end"]]
        if m["kind"] == "call":
            new = b"(mutant_is(%d) ? (void)0 : (void)(%s))" % (m["id"], old)
        else:
            new = b"(mutant_is(%d) ? (%s) : (%s))" % (m["id"], m["mutant"].encode(), old)
        data = data[:m["start"]] + new + data[m["end"]:]
    return DECLARATION + data if mutants else data


def make(top, mutants, selected):
    """The copy. Returns a digest of all that decides a result."""
    digest = hashlib.sha256(repr(selected).encode())
    of = {}
    for m in mutants:
        of.setdefault(m["file"], []).append(m)
    for path in sorted(listed()):
        if os.path.islink(path):
            link(f"{top}/{path}", os.readlink(path))
            continue
        with open(path, "rb") as f:
            data = f.read()
        data = mutated(data, of.get(path, []))
        digest.update(path.encode() + b"\0" + data)
        put(f"{top}/{path}", data, os.stat(path).st_mode & 0o777)
    with open("tests/mutate/mutant.c", "rb") as f:
        put(f"{top}/installer/base/core/mutant.c", f.read(), 0o644)
    return digest.hexdigest()


def build(top, mutants, tests, jobs):
    """With ASan. A mutant that does not compile is dropped with the others of its file; returns their numbers."""
    dropped = set()
    compiler = "ccache gcc" if any(os.access(f"{d}/ccache", os.X_OK) for d in os.get_exec_path()) else "gcc"
    env = dict(os.environ, CFLAGS="-w", CCACHE_NOHASHDIR="1")
    for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
        env.pop(name, None)
    for _ in range(3):
        r = subprocess.run(["make", "-k", f"-j{jobs}", f"CC={compiler}", "MODE=asan", *tests.goals()], cwd=top, env=env,
                           check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        if r.returncode == 0:
            return dropped
        bad = set(re.findall(r"^([a-z_/0-9]+\.c):\d+:\d+: error:", r.stdout, re.M))
        bad &= {m["file"] for m in mutants if m["id"] not in dropped}
        if not bad:
            break
        for path in bad:
            numbers = [m["id"] for m in mutants if m["file"] == path]
            print(f"mutate: {path} does not compile when mutated: {len(numbers)} mutants are left out", flush=True)
            dropped.update(numbers)
            with open(path, "rb") as f:
                put(f"{top}/{path}", f.read(), 0o644)
    raise SystemExit("mutate: the mutated copy does not build\n" + "\n".join(r.stdout.splitlines()[-30:]))
