#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the product's own C (installer, kmod, precompiled; no tests) and print a Markdown table.

  scripts/measure.py [--rooms] [--chains] [--names] [REV...]    or: make measure [REV=...]

One column for each git revision and a last one for this tree. Nothing is compiled: clang-format puts the head of a
function into column 0 and its braces on lines of their own, so plain regular expressions read any revision, the
same way. --rooms, --chains and --names list what the table counts, for the last column.

What is counted
  room        A folder that holds .c or .h files.
  code line   Has something besides blanks and comments. Comment line: nothing but a comment; its share is of both.
  function    From the first line of its head to its closing brace; inline ones in headers too.
  exported    Not static, main() left out.
  prefix      An exported function begins with the name of its file, of the header that declares it, or of its folder,
              or with the first word of one of them ("store" of store_gc.c), singular or plural.
  shared      Static functions whose name a static function of another file has, too. Those in headers are left out.
  chain       Functions from the first to the last, both counted; those of libraries are not. In a circle of calls each
              function counts once. "By name": a call by name, and main's ways through the tables of programs and of
              commands. "Through pointers too", in addition: the functions behind a macro, a cleanup attribute for
              instance; a call through the member of a structure, which leads to all functions that tables at file
              scope have in that member of that structure; and a function that is named without a call, as a callback
              for instance (who names it counts as its caller).
  install     What is behind the function of the command "install"; the frames from main to it are counted.
  circles     Groups of files (.c and .h of one name are one) or rooms that reach each other by #include or by calls.
              Behind a header for one room's own use (..._own.h, internal.h) stands what it includes.
  copies      Lines that set a member from one of the same name: ".x = y->x", "a->x = b->x", with dots too.
"""
import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile

TREES = ("installer", "kmod", "precompiled")
MASKED = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
WORDS = set("if for while switch return sizeof do else case goto typeof offsetof alignof defined".split())
TABLES = ("cmd", "command", "program")  # structures of what main chooses from
COPY = re.compile(r"(?:\.|->)(\w+) = &?(?:\w+(?:\[\w*\])?(?:->|\.))+\1(?=[,;\s}]|$)", re.M)
STEPS = 20000  # of the search for the longest way through one circle of calls


def blank(text):
    return re.sub(r"[^\n]", " ", text)


def without_comments(text):
    return MASKED.sub(lambda m: blank(m[0]) if m[0][0] == "/" else m[0], text)


def without_strings(text):
    return MASKED.sub(lambda m: m[0][0] + blank(m[0][1:-1]) + m[0][-1], text)


class Function:
    def __init__(self, file, name, head, body, lines, is_static):
        self.file, self.name, self.head, self.body = file, name, head, body
        self.lines, self.is_static = lines, is_static
        self.callees = {}  # in the order of their appearance
        self.called = {}  # of these, by name


class Struct:
    def __init__(self, body, function_types):
        self.pointers = set(re.findall(r"\(\*(?:const )?(\w+)(?:\[\w*\])?\)\s*\(", body))
        self.types = {}  # member -> name of its structure, or whatever the type is
        self.arrays = set(re.findall(r"(\w+)(?=\[)", body))
        member = r"(?:struct )?(\w+)\s+\**(?:const )?((?:\w+(?:\[[^\]]*\])*(?:, \**)?)+)(?: : \d+)?;"
        for kind, names in re.findall(member, body):
            for name in re.findall(r"\w+", re.sub(r"\[[^\]]*\]", "", names)):
                self.types[name] = kind
                if kind in function_types:
                    self.pointers.add(name)
        self.names = sorted(self.pointers | set(self.types))


class File:
    def __init__(self, path, raw):
        self.path, self.raw = path, raw
        self.code = without_comments(raw)
        self.plain = without_strings(self.code)
        self.lines = raw.count("\n")
        self.code_lines = sum(1 for line in self.code.split("\n") if line.strip())
        self.comment_lines = sum(1 for line in raw.split("\n") if line.strip()) - self.code_lines
        self.includes = re.findall(r'^\s*#\s*include\s+"([^"]+)"', raw, re.M)
        self.functions, self.outside = self.find_functions()
        self.structs = {}
        self.tables = {}  # variable -> (structure, initialiser)

    def find_functions(self):
        lines, found, outside, i = self.plain.split("\n"), [], [], 0
        while i < len(lines):
            if lines[i] != "{":
                outside.append(lines[i])
                i += 1
                continue
            first = i
            while first and lines[first - 1].strip() and not re.match(r"[#}]", lines[first - 1]) \
                    and not lines[first - 1].rstrip().endswith((";", "}")):
                first -= 1
            last = next(n for n in range(i, len(lines)) if lines[n].startswith("}"))
            head = " ".join(lines[first:i])
            name = re.search(r"(\w+)\(", re.sub(r"__attribute__\(\(.*?\)\)+|\b[A-Z_]+\([\d, ]*\)", "", head))
            if name:
                found.append(Function(self, name[1], head, "\n".join(lines[i:last]), last - first + 1,
                                      bool(re.match(r"(?:inline )?static\b", head))))
            del outside[len(outside) - (i - first):]
            outside.extend("" for _ in lines[first:last + 1])
            i = last + 1
        return found, "\n".join(outside)

    def find_tables(self, function_types):
        structure = r"^(?:static |const |extern |typedef )*struct (\w+ )?\{\n(.*?)^\}([^;=\n]*)(=[^;]*)?;"
        variable_of = (r"^(?:static |const |extern )*(?:struct )?(\w+)[\s*]+(?:const )?\**(?:const )?(\w+)"
                       r"(?:\[[^\]]*\])*(?: __attribute__\S+)? ?(= ?[^;]*)?;")
        pointers = r"^(?:static )?[^;={}\n]*\(\*(?:const )?(\w+)(?:\[[^\]]*\])?\)\([^;={}]*\) (= ?[^;]*);"
        for m in re.finditer(structure, self.outside, re.M | re.S):
            variable = re.match(r"[\s*]*(?:const )?(\w+)", m[3])
            key = (m[1] or "").strip() or "@" + (variable[1] if variable else "")
            self.structs[key] = Struct(m[2], function_types)
            if m[4] and variable:
                self.tables[variable[1]] = (key, m[4])
        for m in re.finditer(variable_of, self.outside, re.M):
            self.tables.setdefault(m[2], (m[1], m[3] or ""))
        for m in re.finditer(pointers, self.outside, re.M):
            self.tables.setdefault(m[1], ("", m[2]))


def locals_of(function):
    """Parameters and variables: name -> structure, or whatever the type is."""
    found = {}
    for name in re.findall(r"\(\*(?:const )?(\w+)\)\(", function.head + function.body):
        found[name] = ""
    kinds = (r"(?:(?:const|static|unsigned|struct|enum|union|long|volatile|auto_\w+) )*(\w+)"
             r"(?: |\s*\*+(?: ?const )?)\**(\w+)(?=\s*(?:[=;,)\[:]|__attr))")
    rows = r"^\s*(?:\w+ )+\**\w+(?:\[[^\]]*\])?(?: = [^;]*?)?(?:, \**\w+(?:\[[^\]]*\])?(?: = [^;]*?)?)+;"
    for text in (function.head[function.head.find("("):], function.body):
        for kind, name in re.findall(kinds, text):
            if kind not in WORDS:
                found[name] = kind
        for line in re.findall(rows, text, re.M):
            kind = re.match(r"\s*(?:(?:const|static|struct|unsigned|auto_\w+) )*(\w+)", line)[1]
            if kind not in WORDS:
                for name in re.findall(r", \**(\w+)", line):
                    found.setdefault(name, kind)
    return found


class Tree:
    def __init__(self, folder):
        self.files = []
        for top in TREES:
            for where, _, names in os.walk(os.path.join(folder, top)):
                for name in names:
                    if name.endswith((".c", ".h")):
                        path = os.path.join(where, name)
                        with open(path, encoding="utf-8") as f:
                            self.files.append(File(os.path.relpath(path, folder), f.read()))
        self.files.sort(key=lambda f: f.path)
        if not self.files:
            sys.exit(f"measure: no C below {folder}")
        self.functions = [f for file in self.files for f in file.functions]
        types = set()
        for file in self.files:
            types.update(re.findall(r"^typedef [\w *]+?(\w+)\([^;]*\);", file.outside, re.M))
            types.update(re.findall(r"^typedef [^;]*\(\*(\w+)\)\([^;]*;", file.outside, re.M))
        for file in self.files:
            file.find_tables(types)
        self.own = {file.path: {f.name: f for f in file.functions if f.is_static} for file in self.files}
        self.shared, self.structs, self.variables = {}, {}, {}
        for file in self.files:
            is_header = file.path.endswith(".h")
            self.shared.update((f.name, f) for f in file.functions if is_header or not f.is_static)
            if is_header:
                self.structs.update(file.structs)
            for name, table in file.tables.items():
                if not re.search(r"^static [^;=]*\b%s\b" % name, file.outside, re.M):
                    self.variables.setdefault(name, (file, *table))
        self.see()
        self.link()

    def see(self):
        """Which files each one includes, through others too."""
        by_path = {f.path: f for f in self.files}
        self.included = {f.path: [] for f in self.files}
        for f in self.files:
            for name in f.includes:
                for place in ("installer/" + name, name, os.path.join(os.path.dirname(f.path), name)):
                    if place in by_path:
                        self.included[f.path].append(place)
                        break
        self.visible = {}  # path -> what its headers declare, and the structures in them
        for f in self.files:
            seen, todo = {f.path}, [f.path]
            while todo:
                for path in self.included[todo.pop()]:
                    if path not in seen:
                        seen.add(path)
                        todo.append(path)
            self.visible[f.path] = seen
        self.declared = collections.defaultdict(set)
        self.homes = collections.defaultdict(set)
        for f in self.files:
            for name in re.findall(r"\b(\w+)\(", f.plain if f.path.endswith(".h") else ""):
                self.declared[name].add(f.path)
            for name in f.functions:
                self.declared[name.name].add(f.path)
            for name in f.structs:
                self.homes[name].add(f.path)

    def function(self, file, name):
        found = self.own[file.path].get(name) or self.shared.get(name)
        return found if found and not self.visible[file.path].isdisjoint(self.declared[name]) else None

    def named(self, file, text):
        text = re.sub(r"offsetof\([^()]*\)", "", text)
        return [f for f in (self.function(file, n) for n in dict.fromkeys(re.findall(r"\w+", text))) if f]

    def struct(self, file, name):
        """Its key: a structure of one file is not that of another."""
        if name in file.structs:
            return (file.path if file.path.endswith(".c") else "", name), file.structs[name]
        return ("", name), self.structs.get(name)

    def link(self):
        slots, self.macros = collections.defaultdict(list), {}
        for file in self.files:
            for name, body in re.findall(r"^#define (\w+)(?:\([^)]*\))?((?:[^\n]*\\\n)*[^\n]*)", file.plain, re.M):
                self.macros.setdefault((file.path if file.path.endswith(".c") else "", name), (file, body))
            for kind, text in file.tables.values():
                key, struct = self.struct(file, kind)
                members = dict(re.findall(r"\.(\w+) = &?(\w+)\b(?!\()", text))
                for member, name in members.items():
                    slots[key, member].extend(self.named(file, name))
                others = re.sub(r"\.\w+ = &?\w+\b(?!\()", "", text)
                for member in struct.pointers if struct else ():
                    slots[key, member].extend(self.named(file, others))
        reached = set()
        for function in self.functions:
            self.link_body(function, slots, reached)
        # What no call through a member was found for: who names the table counts as the caller.
        for function in self.functions:
            known = locals_of(function)
            for name in dict.fromkeys(re.findall(r"(?<![.>\w])\w+", function.body)):
                table = self.variables.get(name)
                if name in function.file.tables:
                    table = (function.file, *function.file.tables[name])
                if table and name not in known:
                    for callee in self.named(table[0], table[2]):
                        if callee not in reached:
                            function.callees[callee] = True

    def expand(self, file, name, seen):
        """Functions behind a macro."""
        macro = self.macros.get((file.path, name)) or self.macros.get(("", name))
        if not macro or name in seen:
            return []
        found = []
        for word in re.findall(r"(?<![.>\w])\w+", macro[1]):
            callee = self.function(file, word)
            found += [callee] if callee else self.expand(file, word, seen | {name})
        return found

    def link_body(self, function, slots, reached):
        file, body = function.file, function.body
        known = locals_of(function)
        for m in re.finditer(r"((?:\w+(?:\[[^\]]*\]|\([^()]*\))?(?:->|\.))*)\b([A-Za-z_]\w*)\b(\s*\()?", body):
            path, name, is_call = m[1], m[2], bool(m[3])
            for word in [name] if not path else re.findall(r"^\w+(?=\()", path):
                for callee in self.expand(file, word, frozenset()):
                    function.callees[callee] = True
            if path and is_call:
                kind, callees = self.behind(file, known, path, name, slots)
                for callee in callees:
                    function.callees[callee] = True
                    reached.add(callee)
                    if kind in TABLES:
                        function.called[callee] = True
            for inner in re.findall(r"(\w+)\(", path):
                callee = self.function(file, inner)
                if inner not in known and callee:
                    function.callees[callee] = function.called[callee] = True
            if path or name in known or name in WORDS:
                continue
            callee = self.function(file, name)
            if not callee:
                continue
            before, after = body[:m.start()].rstrip()[-1:], body[m.end():].lstrip()[:1]
            if is_call or (before in "(,=?:&{" and after in ",);:}") or body[:m.start()].rstrip().endswith("return"):
                function.callees[callee] = True
                if is_call:
                    function.called[callee] = True

    def behind(self, file, known, path, member, slots):
        """What a call through path, "a->b[i].", and member leads to: the structure's name and the functions."""
        steps = re.findall(r"(\w+)(?:\[[^\]]*\]|(\([^()]*\)))?(?:->|\.)", path)
        name, is_call = steps[0]
        if is_call:
            callee = self.function(file, name)
            kind = re.search(r"struct (\w+)", callee.head[:callee.head.find("(")]) if callee else None
            kind = kind[1] if kind else None
        else:
            kind = known.get(name) or file.tables.get(name, self.variables.get(name, (None, None))[1:])[0]
        for name, _ in steps[1:]:
            _, struct = self.struct(file, kind) if kind else (None, None)
            kind = struct.types.get(name) if struct else None
        if kind:
            key, struct = self.struct(file, kind)
            if struct:
                return kind, slots.get((key, member), [])
        return "", [f for ((_, kind), m), functions in slots.items() if m == member
                    and not self.visible[file.path].isdisjoint(self.homes[kind]) for f in functions]


def components(nodes, edges):
    """Tarjan's: the components in the order callees first."""
    index, low, stack, on, out = {}, {}, [], set(), []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        on.add(v)
        for w in edges(v):
            if w not in index:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w in on:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            part = []
            while True:
                w = stack.pop()
                on.discard(w)
                part.append(w)
                if w is v:
                    break
            out.append(part[::-1])

    for node in nodes:
        if node not in index:
            visit(node)
    return out


def longest(functions, callees):
    """The longest chain that begins at each function."""
    chain = {}
    for part in components(functions, callees):
        inside, found = set(part), {}

        def below(f, inside=inside):
            return max((chain[c] for c in callees(f) if c not in inside), key=len, default=())

        for entry in part:
            best, left = (), STEPS
            stack = [(entry,)]
            while stack and left:
                left -= 1
                way = stack.pop()
                tail = below(way[-1])
                if len(way) + len(tail) > len(best):
                    best = way + tail
                stack.extend(way + (c,) for c in callees(way[-1]) if c in inside and c not in way)
            found[entry] = best
        chain.update(found)
    return chain


def stem(path):
    return os.path.splitext(path)[0]


def is_internal(path):
    return bool(re.search(r"(?:_own|_internal|/internal)\.h$", path))


def behind_internal(tree, path):
    """What a file includes, through headers of its room alone too."""
    found, todo = {}, [path]
    while todo:
        for name in tree.included[todo.pop()]:
            if name not in found:
                found[name] = True
                if is_internal(name):
                    todo.append(name)
    return [name for name in found if not is_internal(name)]


def circles(pairs):
    graph = collections.defaultdict(dict)
    for a, b in pairs:
        if a != b:
            graph[a][b] = True
            graph[b]
    return [sorted(p) for p in components(sorted(graph), lambda v: graph[v]) if len(p) > 1]


def spread(values):
    values = sorted(values)
    return "%d / %d / %d" % (values[len(values) // 2], values[len(values) * 9 // 10], values[-1])


def has_prefix(function, headers):
    names = {os.path.basename(stem(function.file.path)), os.path.basename(os.path.dirname(function.file.path))}
    names.update(os.path.basename(stem(h)) for h in headers.get(function.name, ()))
    for name in names:
        for word in (name, name.split("_")[0]):
            for prefix in (word, word + "s", word + "es", word[:-1] if word.endswith("s") else word):
                if function.name == prefix or function.name.startswith(prefix + "_"):
                    return True
    return False


def install_of(tree):
    for file in tree.files:
        for m in re.finditer(r'^(?:static |const )*struct (?:cmd|command) \w+ = \{(.*?)^\};', file.code, re.M | re.S):
            run = re.search(r"\.run = (\w+)", m[1])
            if run and re.search(r'\.name = "install"', m[1]):
                return tree.function(file, run[1])
    sys.exit('measure: no command "install"')


def way_to(start, goal):
    """The shortest chain from one function to another, without the last."""
    back, row = {start: None}, [start]
    for f in row:
        for c in f.called:
            if c not in back:
                back[c] = f
                row.append(c)
    way, at = [], back.get(goal)
    while at:
        way.insert(0, at)
        at = back[at]
    return tuple(way)


def reach(start):
    row = {start: True}
    todo = [start]
    while todo:
        for c in todo.pop().callees:
            if c not in row:
                row[c] = True
                todo.append(c)
    return row


class Names:
    """Who has which name: files by room, exported functions, those without a prefix, structures of one name."""
    def __init__(self, tree):
        self.rooms, headers, publics = (collections.defaultdict(list) for _ in range(3))
        for f in tree.files:
            self.rooms[os.path.dirname(f.path)].append(f)
            if f.path.endswith(".h"):
                for name in re.findall(r"\b(\w+)\(", f.outside):
                    headers[name].append(f.path)
                for name in re.findall(r"^struct (\w+) \{", f.outside, re.M):
                    publics[name].append(f.path)
        self.exported = [f for f in tree.functions if not f.is_static and f.name != "main"]
        self.strange = [f for f in self.exported if not has_prefix(f, headers)]
        self.twice = sorted(n for n, where in publics.items() if len(set(where)) > 1)


class Measures:
    def __init__(self, folder):
        tree = Tree(folder)
        files, functions = tree.files, tree.functions
        names = Names(tree)
        self.rooms, self.strange, self.twice, exported = names.rooms, names.strange, names.twice, names.exported
        largest = max(self.rooms, key=lambda r: len(self.rooms[r]))
        own = [f for f in functions if f.is_static and f.file.path.endswith(".c")]
        homes = collections.defaultdict(set)
        for f in own:
            homes[f.name].add(f.file.path)
        self.shared = [f for f in own if len(homes[f.name]) > 1]
        self.homes = {n: len(h) for n, h in homes.items() if len(h) > 1}
        chain, by_name = longest(functions, lambda f: f.callees), longest(functions, lambda f: f.called)
        main = next(f for f in functions if f.name == "main" and f.file.path == "installer/main.c")
        install = install_of(tree)
        way = way_to(main, install)
        self.chains = {
            "from main, by name": by_name[main],
            "of `install`, by name": way + by_name[install],
            "from main, through pointers too": chain[main],
            "of `install`, through pointers too": way + chain[install],
        }
        by_include = [(a, b) for a in tree.included if not is_internal(a) for b in behind_internal(tree, a)]
        by_call = [(f.file.path, c.file.path) for f in functions for c in f.callees]
        self.include_circles = circles((stem(a), stem(b)) for a, b in by_include)
        self.call_circles = circles((stem(a), stem(b)) for a, b in by_call)
        self.room_circles = circles((os.path.dirname(a), os.path.dirname(b)) for a, b in by_include)
        bodies = [f.lines for f in files if f.path.endswith(".c")]
        code, comment = sum(f.code_lines for f in files), sum(f.comment_lines for f in files)
        lengths = [f.lines for f in functions]
        self.rows = [
            ("rooms", len(self.rooms)),
            ("largest room: files, lines", "`%s` %d, %d" % (
                largest, len(self.rooms[largest]), sum(f.lines for f in self.rooms[largest]))),
            ("files .c / .h", "%d / %d" % (len(bodies), len(files) - len(bodies))),
            ("lines / code lines", "%d / %d" % (sum(f.lines for f in files), code)),
            ("comment lines", "%.1f %%" % (100 * comment / (code + comment))),
            ("length of a .c: median / p90 / max", spread(bodies)),
            (".c below 60 lines / above 400 / above 900", "%d / %d / %d" % (
                sum(n < 60 for n in bodies), sum(n > 400 for n in bodies), sum(n > 900 for n in bodies))),
            ("headers of up to 20 lines", sum(f.lines <= 20 for f in files if f.path.endswith(".h"))),
            ("functions", len(functions)),
            ("length of a function: median / p90 / max", spread(lengths)),
            ("functions above 60 / above 100 lines", "%d / %d" % (
                sum(n > 60 for n in lengths), sum(n > 100 for n in lengths))),
            ("exported functions", len(exported)),
            ("exported functions per 1,000 code lines", "%.1f" % (1000 * len(exported) / code)),
            ("exported functions without a prefix of file or room", len(self.strange)),
            ("static functions / of them shared by name", "%d / %d" % (len(own), len(self.shared))),
            ("public structures of one name", "%d%s" % (
                len(self.twice), " (%s)" % ", ".join(self.twice) if 0 < len(self.twice) < 8 else "")),
            ("lines that copy a member to one of the same name", sum(
                1 for f in files for line in f.code.split("\n") if COPY.search(line))),
            ("structures with both host and kern", sum(
                bool(re.search(r"\bhost\b", body) and re.search(r"\bkern\b", body))
                for f in files for body in re.findall(r"^struct \w+ \{ *\n(.*?)^\}", f.outside, re.M | re.S))),
            ("files that name is_rt_allowed", sum("is_rt_allowed" in f.code for f in files)),
            ("own functions that a function calls, mean", "%.1f" % (
                sum(len(f.callees) for f in functions) / len(functions))),
            ("chains of calls by name, of all functions: median / p90 / max", spread(len(c) for c in by_name.values())),
            *(("longest chain " + name, len(c)) for name, c in self.chains.items()),
            ("functions behind `install`", len(reach(install))),
            ("circles of #include between files", len(self.include_circles)),
            ("circles of #include between rooms", len(self.room_circles)),
            ("circles of calls between files", len(self.call_circles)),
        ]


def checkout(revision, folder):
    archive = subprocess.run(["git", "archive", revision, *TREES], stdout=subprocess.PIPE, check=False)
    if archive.returncode:
        sys.exit(f"measure: no revision '{revision}'")
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    return Measures(folder)


def show_more(measures, args):
    if args.rooms:
        print("\n| room | files | lines |\n|---|--:|--:|")
        for room, files in sorted(measures.rooms.items()):
            print("| `%s` | %d | %d |" % (room, len(files), sum(f.lines for f in files)))
    if args.chains:
        for title, chain in measures.chains.items():
            print("\nLongest chain %s, %d:\n" % (title, len(chain)))
            print("\n".join("    %-28s %s" % (f.name, f.file.path) for f in chain))
        for title, found in (("#include", measures.include_circles), ("calls", measures.call_circles)):
            print("\nCircles of %s between files:\n" % title)
            print("\n".join("    " + " ".join(c) for c in found))
        print("\nCircles of #include between rooms:\n")
        print("\n".join("    " + " ".join(c) for c in measures.room_circles))
    if args.names:
        print("\nExported without a prefix:\n")
        print("\n".join("    %-28s %s" % (f.name, f.file.path) for f in measures.strange))
        print("\nStatic functions of one name, by the number of their files:\n")
        print("\n".join("    %-28s %d" % row for row in sorted(measures.homes.items(), key=lambda r: (-r[1], r[0]))))


def main():
    parser = argparse.ArgumentParser(description="measures of the product's own C; see the head of this script")
    parser.add_argument("--rooms", action="store_true", help="the rooms with their files and lines")
    parser.add_argument("--chains", action="store_true", help="the longest chains and the circles")
    parser.add_argument("--names", action="store_true", help="exported names without a prefix, shared static ones")
    parser.add_argument("revisions", nargs="*", metavar="REV", help="git revisions, a column each")
    args = parser.parse_args()
    sys.setrecursionlimit(20000)
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    columns = []
    for revision in args.revisions:
        with tempfile.TemporaryDirectory(prefix="measure.") as folder:
            columns.append((revision, checkout(revision, folder)))
    columns.append(("this tree", Measures(".")))
    print("| measure | " + " | ".join(name for name, _ in columns) + " |\n|---|" + "--:|" * len(columns))
    for rows in zip(*(m.rows for _, m in columns)):
        print("| %s | %s |" % (rows[0][0], " | ".join(str(value) for _, value in rows)))
    show_more(columns[-1][1], args)


if __name__ == "__main__":
    main()
