# SPDX-License-Identifier: Apache-2.0
"""What a root's package database says: packages, the files of each, and their licences.

Two layouts of the database are read: one file with everything (var/lib/dpkg/status, as dpkg keeps it) and one file a
package (var/lib/dpkg/status.d/NAME, as in images without dpkg, written by `unpack` in common.bash).
"""
import os
import re

MERGED = re.compile(r"^(bin|sbin|lib|lib64)/")
# Debian's short names (machine-readable debian/copyright) that SPDX calls otherwise; names alike need no line.
SPDX = {
    "Expat": "MIT", "BSD-2-clause": "BSD-2-Clause", "BSD-3-clause": "BSD-3-Clause", "BSD-4-clause": "BSD-4-Clause",
    "GPL-1": "GPL-1.0-only", "GPL-1+": "GPL-1.0-or-later", "GPL-2": "GPL-2.0-only", "GPL-2+": "GPL-2.0-or-later",
    "GPL-2.0": "GPL-2.0-only", "GPL-2.0+": "GPL-2.0-or-later", "GPL-3": "GPL-3.0-only", "GPL-3+": "GPL-3.0-or-later",
    "GPL-3.0": "GPL-3.0-only", "GPL-3.0+": "GPL-3.0-or-later", "LGPL-2": "LGPL-2.0-only", "LGPL-2+": "LGPL-2.0-or-later",
    "LGPL-2.1": "LGPL-2.1-only", "LGPL-2.1+": "LGPL-2.1-or-later", "LGPL-3": "LGPL-3.0-only",
    "LGPL-3+": "LGPL-3.0-or-later", "Apache-2": "Apache-2.0", "Apache-2.0": "Apache-2.0", "MPL-2.0": "MPL-2.0",
    "MPL-1.1": "MPL-1.1", "ISC": "ISC", "Zlib": "Zlib", "zlib": "Zlib", "MIT": "MIT", "curl": "curl",
    "Artistic": "Artistic-1.0-Perl", "CC0-1.0": "CC0-1.0", "OLDAP-2.8": "OLDAP-2.8", "Unicode-DFS-2016": "Unicode-DFS-2016",
}


class Package:
    """One Debian package: its control fields, and the paths of its files, with merged /usr."""

    def __init__(self, fields, paths):
        self.name, self.version = fields["Package"], fields["Version"]
        self.arch, self.sha256 = fields.get("Architecture", ""), fields.get("SHA256")
        self.source = fields.get("Source", self.name)
        self.maintainer, self.home = fields.get("Maintainer", ""), fields.get("Homepage")
        self.fields, self.paths = fields, paths


def stanzas(text):
    """The control stanzas of a text; continuation lines are left out."""
    for stanza in re.split(r"\n\s*\n", text.strip()):
        yield dict(re.findall(r"^([A-Za-z0-9-]+):[ \t]*(.*)$", stanza, re.M))


def normal(path):
    """PATH as it is in a root with merged /usr, without a leading slash."""
    return MERGED.sub(r"usr/\g<0>", path.strip().removeprefix(".").strip("/"))


def paths_of(db, fields):
    """What the database lists for a package; "Multi-Arch: same" packages have the architecture in the name."""
    for name in (fields["Package"], f"{fields['Package']}:{fields.get('Architecture')}"):
        file = os.path.join(db, "info", name + ".list")
        if os.path.exists(file):
            with open(file, encoding="utf-8") as lines:
                return {normal(line) for line in lines}
    return set()


def packages(root):
    """Every installed package of ROOT, by name."""
    db, texts = os.path.join(root, "var/lib/dpkg"), []
    parts = os.path.join(db, "status.d")
    names = sorted(os.listdir(parts)) if os.path.isdir(parts) else []
    files = [os.path.join(parts, n) for n in names if not n.endswith(".md5sums")] + [os.path.join(db, "status")]
    for file in files:
        if os.path.exists(file):
            with open(file, encoding="utf-8") as f:
                texts.append(f.read())
    found = (s for text in texts for s in stanzas(text) if "Package" in s)
    return {s["Package"]: Package(s, paths_of(db, s)) for s in found if s.get("Status", "ok installed").endswith("installed")}


def licences(text):
    """The short names in a machine-readable copyright file, sorted; none when it is prose."""
    if not re.match(r"\s*Format(-Specification)?:", text):
        return []
    names = set()
    for line in re.findall(r"^License:[ \t]*(\S.*)$", text, re.M):
        names.update(n.strip(" ,()") for n in re.split(r"\s+(?:and/or|and|or)\s+|,", line))
    return sorted(n for n in names if n)


def spdx_licence(name):
    """The SPDX identifier of a Debian short name: of the standard's list, or one that is explained in the document."""
    return SPDX.get(name) or "LicenseRef-" + re.sub(r"[^A-Za-z0-9.-]+", "-", name)
