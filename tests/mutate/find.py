# SPDX-License-Identifier: Apache-2.0
"""Every place of a C file that can be mutated, found with libclang so that each is a whole expression.

Kinds, and what the mutant does:
  negate   the condition of if, while, do and ?: is turned round
  compare  < is <=, > is >=, == is !=, and the other way round
  logic    && is ||, and the other way round
  one      "+ 1" or "- 1" is left out
  call     a call whose result nobody looks at is left out
  error    a failure is returned as 0, as if all had gone well
  flip     a bool is returned the other way round
"""
import bisect
import re
import subprocess

from clang.cindex import CursorKind as K, Index, StorageClass, TypeKind

COMPARE = {b"<": b"<=", b"<=": b"<", b">": b">=", b">=": b">", b"==": b"!=", b"!=": b"=="}
LOGIC = {b"&&": b"||", b"||": b"&&"}
FAILURES = re.compile(rb"-1|(err_set|err_wrap|err_code|file_fail)\(.*", re.S)
NO_RETURN = re.compile(rb"(abort|exit|_exit|va_end)\b")
PREPROCESSOR = 1  # TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD


def arguments():
    flags = subprocess.run(["pkg-config", "--cflags", "jansson", "libcurl", "libssl"],
                           stdout=subprocess.PIPE, text=True, check=False).stdout.split()
    return ["-std=gnu11", "-D_GNU_SOURCE", "-D_FILE_OFFSET_BITS=64", '-DKMODSMITH_VERSION="0"', "-Iinstaller", "-I.",
            *flags]


class Finder:
    def __init__(self, path):
        self.path, self.found, self.function, self.returns_bool = path, [], None, False
        with open(path, "rb") as f:
            self.text = f.read()
        unit = Index.create().parse(path, arguments(), options=PREPROCESSOR)
        bad = [d for d in unit.diagnostics if d.severity >= 3]
        if bad:
            raise SystemExit(f"mutate: {path} is not understood: {bad[0].spelling}")
        here = [c for c in unit.cursor.get_children() if c.location.file and c.location.file.name == path]
        self.macros = sorted((c.extent.start.offset, c.extent.end.offset) for c in here
                             if c.kind == K.MACRO_INSTANTIATION)
        self.starts = [m[0] for m in self.macros]
        for c in here:
            if c.kind == K.FUNCTION_DECL and c.is_definition():
                self.function, self.returns_bool = c.spelling, c.result_type.kind == TypeKind.BOOL
                self.walk(c)

    def of(self, node):
        return self.text[node.extent.start.offset:node.extent.end.offset]

    def is_plain(self, start, end):
        """Not from the inside of a macro: text and meaning are the same thing. An object-like one alone is fine."""
        at = bisect.bisect_right(self.starts, start) - 1
        for first, last in self.macros[max(0, at - 3):at + 1]:
            if first <= start < last and not (start == first and end > last):
                if (start, end) != (first, last) or not re.fullmatch(rb"\w+", self.text[start:end]):
                    return False
        return not any(s < end < e for s, e in self.macros[max(0, at):] if s < end)

    def add(self, kind, node, mutant):
        start, end = node.extent.start.offset, node.extent.end.offset
        original = self.text[start:end]
        if not original or b"//" in original or b"#" in original or b"/*" in original or not self.is_plain(start, end):
            return
        self.found.append({"file": self.path, "function": self.function, "kind": kind, "start": start, "end": end,
                           "line": self.text.count(b"\n", 0, start) + 1, "original": original.decode(),
                           "mutant": b" ".join(mutant.split(b"\n")).decode()})

    def negate(self, node):
        self.add("negate", node, b"!(" + self.of(node) + b")")

    def operator(self, node):
        left, right = list(node.get_children())
        a, b = left.extent.end.offset, right.extent.start.offset
        sign = self.text[a:b].strip()
        lhs, rhs = self.text[node.extent.start.offset:a], self.text[b:node.extent.end.offset]
        if sign in COMPARE:
            self.add("compare", node, lhs + b" " + COMPARE[sign] + b" " + rhs)
        elif sign in LOGIC:
            self.add("logic", node, b"(" + lhs + b") " + LOGIC[sign] + b" (" + rhs + b")")
        elif sign in (b"+", b"-") and rhs == b"1":
            self.add("one", node, lhs)

    def statement(self, node):
        if node.kind == K.CALL_EXPR and not NO_RETURN.match(self.of(node)):
            self.add("call", node, b"")

    def returned(self, node):
        text = self.of(node)
        if self.returns_bool:
            self.add("flip", node, b"!(" + text + b")")
        elif FAILURES.fullmatch(text):
            self.add("error", node, b"0")

    def walk(self, node):
        children, kind = list(node.get_children()), node.kind
        if kind == K.CXX_UNARY_EXPR or kind == K.STATIC_ASSERT:  # sizeof
            return
        if kind == K.VAR_DECL and node.storage_class == StorageClass.STATIC:
            return
        if kind == K.CASE_STMT:  # its value must stay a constant
            children = children[-1:]
        if kind in (K.IF_STMT, K.WHILE_STMT, K.CONDITIONAL_OPERATOR):
            self.negate(children[0])
        if kind == K.DO_STMT:
            self.negate(children[-1])
        if kind == K.BINARY_OPERATOR and len(children) == 2:
            self.operator(node)
        if kind == K.RETURN_STMT and children:
            self.returned(children[0])
        if kind == K.COMPOUND_STMT or kind == K.CASE_STMT or kind == K.DEFAULT_STMT:
            for c in children:
                self.statement(c)
        if kind == K.IF_STMT:
            for c in children[1:]:
                self.statement(c)
        if kind in (K.FOR_STMT, K.WHILE_STMT):
            self.statement(children[-1])
        for c in children:
            self.walk(c)


def find(path):
    return Finder(path).found
