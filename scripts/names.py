#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exported functions whose names do not say where they are: in C all of them share one space. A name starts with that of its
file, of the header that declares it, or of its folder. And structures
of one name in two headers, rooms of more than 25 files, and words that the glossary replaces. Prints FILE:LINE:TEXT.
"""
import os
import re
import sys

import measure

# Prefixes of a file beside its own name: the subject's short form in the field, or a second subject of the same few lines.
ALSO = {
    "installer/base/core/date.c": ("clock",),
    "installer/base/core/str.c": ("mem", "strv"),
    "installer/base/http/http_lib.c": ("__wrap",),  # the linker's own, for the static program
    "installer/base/process/capabilities.c": ("caps",),
    "installer/cmd/common/common.c": ("machine", "termlog"),
    "installer/host/pci.c": ("gpu", "gpus"),
    "kmod/load/load.c": ("unload",),
}

# Words that docs/glossary.md replaces; "aim" stays where it is a key of a ConfigMap or a reason.
REPLACED = re.compile(r"\b(wish(es|ed)?|keeper|parcel|roster)\b|(?<![\"-])\baim\b", re.I)
TEXTS = ("installer", "kmod", "precompiled", "docs", "deploy", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")


def replaced_words():
    for top in filter(os.path.exists, TEXTS):
        for where, _, names in os.walk(top) if os.path.isdir(top) else [("", [], [top])]:
            for path in (os.path.join(where, name) for name in names if not name.endswith(".png")):
                with open(path, encoding="utf-8") as file:
                    for number, line in enumerate(file, 1):
                        word = REPLACED.search(line)
                        if word and path != "docs/glossary.md":
                            yield f"{path}:{number}:'{word[0]}' is not a word of docs/glossary.md"


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    found = measure.Names(measure.Tree("."))
    wrong = [f"{f.file.path}:1:{f.name}() does not start with the name of its file or folder" for f in found.strange
             if not f.name.startswith(tuple(f"{p}_" for p in ALSO.get(f.file.path, ("no prefix",))))]
    wrong += [f"installer:1:struct {name} is in two headers" for name in found.twice]
    wrong += [f"{room}:1:{len(files)} files in one room: at most 25" for room, files in found.rooms.items() if len(files) > 25]
    wrong += replaced_words()
    print("\n".join(sorted(wrong)), end="\n" if wrong else "")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
