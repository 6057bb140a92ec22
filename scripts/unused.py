#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Find what nothing in the product uses (tests do not count). Prints each as FILE:LINE:TEXT; exit 1 if there is one.

  function    Exported, and no file that is left has its name. gcc says it of static ones.
  constant    Of an enum, or an error of errors.def: its name is only where it is declared. The first of an enum may be
              there to say what zero means.
  macro       The same, of a #define. An auto_ macro may serve tests alone: each type has one.
  member      Of a structure: never read, or never written. Where the structure behind -> or . cannot be told from
              declarations nearby, the access counts for every member of that name: what is printed is certain, not all.

Nothing is compiled; names that macros put together (PHASE_##name) are put together here, too.
"""
import collections
import os
import re
import sys

sys.dont_write_bytecode = True
import measure  # noqa: E402

# Used by nothing that is written here, and needed: name, STRUCTURE.MEMBER or STRUCTURE.* -> why.
ALLOWED = {
    "__wrap_getaddrinfo": "for the linker (--wrap) in the static program",
    "__wrap_freeaddrinfo": "for the linker (--wrap) in the static program",
    "__wrap_gethostbyname": "for the linker (--wrap) in the static program",
    "__wrap_dlopen": "for the linker (--wrap) in the static program",
    "preload_open": "in the place of the C library's, in a compiler (LD_PRELOAD)",
    "preload_open64": "in the place of the C library's, in a compiler (LD_PRELOAD)",
    "OPENSSL_SUPPRESS_DEPRECATED": "for OpenSSL's headers",
    "header.*": "layout of ld.so.cache",
    "slot.*": "layout of ld.so.cache",
    "map_query.*": "layout of an ioctl of the kernel, PROCMAP_QUERY",
    "fabric_v2.*": "layout of a structure of NVML",
    "helper_start": "called by _start, in assembler",
    "HOLDERS_WAIT": "chosen by its place in a table of names",
    "WAIT_RELEASE": "chosen by its place in a table of names",
    "HALT_ROLLBACK": "chosen by its place in a table of names",
    "CORDON_USE_FIRST": "chosen by its place in a table of names",
    "kube_list.pages": "how tests see that a server sends a list in pages",
    "kube_watch.bookmarks": "how tests see that a server sends bookmarks",
}


def line_of(file, offset):
    return file.plain.count("\n", 0, offset) + 1


class Words:
    """Where each name stands in the product: name -> number of times."""

    def __init__(self, tree, defs):
        self.count = collections.Counter()
        self.pasted = {}  # macro -> prefixes of names that it makes of its arguments
        for file in tree.files:
            for name, body in re.findall(r"^#define (\w+)\([^)]*\)((?:[^\n]*\\\n)*[^\n]*)", file.plain, re.M):
                for prefix in re.findall(r"\b(\w+_)##", body):
                    self.pasted.setdefault(name, set()).add(prefix)
        for file in tree.files:
            self.add(file.plain)
        for text in defs.values():
            self.add(text)

    def add(self, text, sign=1):
        for word in re.findall(r"\w+", text):
            self.count[word] += sign
        for name, arguments in re.findall(r"\b(\w+)\(([\w, ]+)", text):
            for prefix in self.pasted.get(name, ()):
                for argument in re.findall(r"\w+", arguments):
                    self.count[prefix + argument] += sign


def unused_functions(tree, words):
    own = [f for f in tree.functions if (not f.is_static or f.file.path.endswith(".h")) and f.name != "main"]
    declared = collections.Counter()
    for file in tree.files:
        for name in re.findall(r"\b(\w+)\([^{}]*?\)[^{};()]*(?:\([\d, ]*\))?;", file.outside):
            declared[name] += 1
    alive, found = True, []
    while alive:
        alive = False
        for f in list(own):
            defined = sum(g.name == f.name for g in own)
            if words.count[f.name] - declared[f.name] - defined - len(re.findall(r"\b%s\b" % f.name, f.body)) <= 0:
                found.append(f)
                own.remove(f)
                words.add(f.head + f.body, -1)  # what it alone calls is dead, too
                alive = True
    for f in found:
        yield f.file.path, line_of(f.file, f.file.plain.find(f.head[:60])), f"function {f.name}() is not called", f.name


def autos_of_tests():
    found = set()
    for where, _, names in os.walk("tests"):
        for name in names:
            if name.endswith((".c", ".h")):
                with open(os.path.join(where, name), encoding="utf-8") as f:
                    found.update(re.findall(r"\bauto_\w+", f.read()))
    return found


def unused_constants(tree, defs, words):
    in_tests = autos_of_tests()
    for file in tree.files:
        for m in re.finditer(r"\benum(?: \w+)? \{([^{}]*)\}", file.plain):
            inside = re.sub(r"^#[^\n]*", lambda d: measure.blank(d[0]), m[1], flags=re.M)
            for i, name in enumerate(re.finditer(r"(?:^|,)\s*([A-Z]\w+)", inside)):
                if i and words.count[name[1]] < 2:
                    line = line_of(file, m.start(1) + name.start(1))
                    yield file.path, line, f"constant {name[1]} is not used", name[1]
        for m in re.finditer(r"^[ \t]*#[ \t]*define (\w+)", file.plain, re.M):
            if m[1] != "X" and words.count[m[1]] < 2 and m[1] not in in_tests:
                yield file.path, line_of(file, m.start(1)), f"macro {m[1]} is not used", m[1]
    for path, text in defs.items():
        for number, line in enumerate(text.split("\n"), 1):
            name = re.match(r"X\((E_\w+),", line)
            if name and words.count[name[1]] < 2:
                yield path, number, f"error {name[1]} is not set", name[1]


class Members:
    def __init__(self, tree):
        self.tree = tree
        self.read, self.written = set(), set()  # (structure's key, member)
        self.read_any, self.written_any = set(), set()  # member, of whatever structure
        self.positional = set()  # names of structures that are initialised without names of members
        for file in tree.files:
            self.look(file.outside, file, {})
            for function in file.functions:
                self.look(function.body, file, measure.locals_of(function))
            for name in re.findall(r"struct (\w+) \w*(?:\[[^\]]*\])*(?: =|\)) \{[\s{]*(?!0 \}|\.)\S", file.plain):
                self.positional.add(name)
            for kind, text in file.tables.values():
                if re.match(r"= \{[\s{]*(?!0 \}|\.)\S", text):
                    self.positional.add(kind)
            for name in re.findall(r"\(struct (\w+)\)\{\s*(?!0 \}|\.)\S", file.plain):
                self.positional.add(name)
            by_offset = [name for (_, name), (_, body) in tree.macros.items() if "offsetof(" in body]
            for text in re.findall(r"\b(?:%s)\(([^()]*)\)" % "|".join(["offsetof", *by_offset]), file.plain):
                self.read_any.update(re.findall(r"\w+", text))
                self.written_any.update(re.findall(r"\w+", text))

    def look(self, text, file, known):
        self.written_any.update(re.findall(r"(?<=[{,(\s])\.(\w+)(?=(?:\[[^\]]*\]|\.\w+)* = )", text))
        path = (r"(&?)((?:\w+(?:\[[^\]]*\]|\([^()]*\))*)?(?:(?:->|\.)\w+(?:\[[^\]]*\])*)+)"
                r"(\s*(?:[-+|&^*/]|<<|>>)?=(?!=)|\+\+|--)?")
        for m in re.finditer(path, text):
            address, whole, sets = m.groups()
            # x->count++ is written; and read, unless it is all of a statement.
            is_step = bool(sets) and sets in ("++", "--")
            is_read = is_step and (text[m.end():m.end() + 1] != ";" or text[:m.start()].rstrip(" \t")[-1:] != "\n")
            is_read = is_read or re.search(r"[\s(;{]\*$", text[:m.start()][-2:]) is not None  # *x->member = ...: where to
            for inner in re.findall(r"\[([^\]]*)\]|\(([^()]*)\)", whole):
                self.look("".join(inner), file, known)
            first = re.match(r"\w*(?:\[[^\]]*\]|\([^()]*\))*", whole)[0]
            members = re.findall(r"(?:->|\.)(\w+)", whole)
            kind = self.kind_of(first, file, known)
            for i, member in enumerate(members):
                is_last = i == len(members) - 1
                key, struct = self.tree.struct(file, kind) if kind else (None, None)
                kind = struct.types.get(member) if struct else None
                is_array = struct is not None and member in struct.arrays
                for is_it, exact, some in ((not (is_last and sets) or is_read, self.read, self.read_any),
                                           (is_last and sets or address or not is_last or is_array,
                                            self.written, self.written_any)):
                    if is_it and struct:
                        exact.add((key, member))
                    if is_it and not struct:
                        some.add(member)

    def kind_of(self, first, file, known):
        name = re.match(r"\w*", first)[0]
        if "(" in first:
            callee = self.tree.function(file, name)
            kind = re.search(r"struct (\w+)", callee.head[:callee.head.find("(")]) if callee else None
            return kind[1] if kind else None
        return known.get(name) or file.tables.get(name, self.tree.variables.get(name, (None, None))[1:])[0]


def unused_members(tree):
    use = Members(tree)
    for file in tree.files:
        for m in re.finditer(r"^(?:static |const |typedef )*struct (\w+) \{\n(.*?)^\}", file.outside, re.M | re.S):
            at = file.plain.find(m[0][:m[0].find("\n")] + "\n")
            key, struct = tree.struct(file, m[1])
            for member in struct.names:
                line = line_of(file, file.plain.find(m[2], at) + re.search(r"\b%s\b" % member, m[2]).start())
                if (key, member) not in use.read and member not in use.read_any:
                    yield file.path, line, f"member {member} of struct {m[1]} is never read", f"{m[1]}.{member}"
                elif (key, member) not in use.written and member not in use.written_any and m[1] not in use.positional:
                    yield file.path, line, f"member {member} of struct {m[1]} is never written", f"{m[1]}.{member}"


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    tree = measure.Tree(".")
    defs = {}
    for top in measure.TREES:
        for where, _, names in os.walk(top):
            for name in names:
                if name.endswith(".def"):
                    with open(os.path.join(where, name), encoding="utf-8") as f:
                        defs[os.path.join(where, name)] = measure.without_comments(f.read())
    words = Words(tree, {path: measure.without_strings(text) for path, text in defs.items()})
    found = [*unused_constants(tree, defs, words), *unused_functions(tree, words), *unused_members(tree)]
    keys = {row[3]: {row[3], row[3].split(".")[0] + ".*"} for row in found}
    left = [row for row in found if keys[row[3]].isdisjoint(ALLOWED)]
    for path, line, text, _ in sorted(left):
        print(f"{path}:{line}:{text}")
    for name in sorted(set(ALLOWED) - set().union(*keys.values())):
        print(f"scripts/unused.py:1:ALLOWED names {name}, which is used or gone")
        left.append(name)
    sys.exit(bool(left))


if __name__ == "__main__":
    main()
