#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write what an image is made of into its root: an SPDX 2.3 document, a list of licences, and their texts.

  images/sbom.py ROOT --name NAME --version VERSION --epoch SECONDS --base ROOT... [--input FILE...]

--base: the roots whose packages files of ROOT were taken from (see debian.py). --input: files that were laid out in
ROOT by other paths (a driver's packages); what they hold is known by its digest. --made PATH=PACKAGE: written here from
files of PACKAGE. --linked: packages of this machine whose libraries are in our programs. A regular file that is of no package
and of no input is ours: the program, or something that images/*.sh wrote. Writes usr/share/kmodsmith/sbom.spdx.json and
licences.txt there, and usr/share/doc/PACKAGE/copyright.
"""
import argparse
import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile

import debian
import spdx

HERE = "usr/share/kmodsmith/"
PAYLOAD = HERE + "payload/root/"
NVIDIAS = PAYLOAD + "usr/share/doc/NVIDIA_GLX-1.0/LICENSE"  # of a .run, as its manifest says
OURS = "Apache-2.0"


def regular(root):
    """The regular files of ROOT, sorted, as relative paths; not what this program writes."""
    for directory, subdirectories, names in os.walk(root):
        subdirectories.sort()
        for name in sorted(names):
            path = os.path.join(directory, name)
            relative = os.path.relpath(path, root)
            if is_file(root, relative) and not relative.startswith(HERE + "sbom."):
                yield relative


def is_file(root, path):
    """Is there a regular file at PATH?"""
    path = os.path.join(root, path)
    return os.path.lexists(path) and stat.S_ISREG(os.lstat(path).st_mode)


def digests(path):
    """(SHA1, SHA256) of a file; SPDX asks for the first."""
    sha1, sha256 = hashlib.sha1(), hashlib.sha256()
    with open(path, "rb") as f:
        for block in iter(lambda: f.read(1 << 20), b""):
            sha1.update(block)
            sha256.update(block)
    return sha1.hexdigest(), sha256.hexdigest()


def read(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


class Input:
    """A file that was given: a Debian package, or something else with a name."""

    def __init__(self, file):
        self.file, self.name, self.version, self.contents = file, os.path.basename(file), "NOASSERTION", {}
        self.package, self.copyright = None, ""
        self.sha256 = digests(file)[1]
        if file.endswith(".deb"):
            self.read_deb()

    def read_deb(self):
        control = subprocess.run(["dpkg-deb", "-f", self.file], check=True, capture_output=True, text=True).stdout
        self.package = debian.Package({**next(debian.stanzas(control)), "SHA256": self.sha256}, set())
        with tempfile.TemporaryDirectory() as directory:
            subprocess.run(["dpkg-deb", "-x", self.file, directory], check=True)
            self.contents = {digests(os.path.join(directory, p))[1] for p in regular(directory)}
            copyright_file = os.path.join(directory, "usr/share/doc", self.package.name, "copyright")
            self.copyright = read(copyright_file) if os.path.exists(copyright_file) else ""


class Contents:
    """The regular files of a root, by whom they are from."""

    def __init__(self, bases, inputs, made):
        self.inputs, self.found, self.owners, self.made, self.linked = inputs, {}, {}, made, {}
        for base in bases:
            for package in debian.packages(base).values():
                self.found.setdefault(package.name, (package, base))
                for path in package.paths:
                    self.owners.setdefault(path, package.name)

    def add_linked(self, names):
        """Packages of this machine, of which our programs have a part."""
        here = debian.packages("/")
        for name in names:
            if name not in here:
                sys.exit(f"sbom: the package '{name}' is not installed, but our programs are linked with it")
            self.linked[name] = (here[name], "/")

    def owner(self, root, path, sha256):
        """("deb", NAME), ("linked", NAME), ("input", NUMBER), ("payload", ) or ("ours", )"""
        inner = path.removeprefix(PAYLOAD)
        if inner != path and is_file(root, inner) and digests(os.path.join(root, inner))[1] == sha256:
            return self.owner(root, inner, sha256)  # the runtime, below the payload once more
        if path.startswith("usr/share/doc/"):
            name = path.split("/")[3]
            if name == "nvidia-driver-payload":
                return ("payload",)
            numbers = [i for i, given in enumerate(self.inputs) if given.package and given.package.name == name]
            kinds = [kind for kind, names in (("deb", self.found), ("linked", self.linked)) if name in names]
            return ("input", numbers[0]) if numbers else (kinds[0], name) if kinds else ("ours",)
        for number, given in enumerate(self.inputs):
            if sha256 in given.contents:
                return ("input", number)
        if path in self.made:
            return ("deb", self.made[path])
        name = self.owners.get(path)
        if name and self.is_same(name, path, sha256):
            return ("deb", name)
        return ("payload",) if self.inputs and path.startswith(PAYLOAD) else ("ours",)

    def is_same(self, name, path, sha256):
        """Is a file with this digest the one that the package has there, or another in its place?"""
        theirs = os.path.join(self.found[name][1], path)
        return os.path.exists(theirs) and digests(theirs)[1] == sha256

    def package(self, owner):
        """(what is known of the package of an owner, the text of its copyright file)"""
        kind, which = owner
        given = self.inputs[which] if kind == "input" else None
        if given and (given.copyright or given.package.name not in self.found):
            return given.package, given.copyright
        found, base = self.linked[which] if kind == "linked" else self.found[given.package.name if given else which]
        path = os.path.join(base, "usr/share/doc", found.name, "copyright")  # the directory may be a link to another's
        if not os.path.exists(path):
            sys.exit(f"sbom: the package '{found.name}' has no copyright file in '{base}'")
        return given.package if given else found, read(path)

    def is_package(self, owner):
        return owner[0] in ("deb", "linked") or (owner[0] == "input" and self.inputs[owner[1]].package)


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def sort_out(root, contents):
    """The files of ROOT by owner: {owner: [(path, (sha1, sha256))]}"""
    sorted_out = {}
    for path in regular(root):
        sums = digests(os.path.join(root, path))
        sorted_out.setdefault(contents.owner(root, path, sums[1]), []).append((path, sums))
    return sorted_out


def keep_texts(root, owners, contents):
    """The copyright file of every package that something is from, and the licences that those refer to."""
    for owner in sorted(filter(contents.is_package, owners), key=str, reverse=True):  # "deb" has the last word
        package, text = contents.package(owner)
        write(os.path.join(root, "usr/share/doc", package.name, "copyright"), text)
    if is_file(root, NVIDIAS):
        write(os.path.join(root, "usr/share/doc/nvidia-driver-payload/copyright"), read(os.path.join(root, NVIDIAS)))
    if "base-files" in contents.found:
        source = os.path.join(contents.found["base-files"][1], "usr/share/common-licenses")
        target = os.path.join(root, "usr/share/common-licenses")
        if not os.path.exists(target):
            shutil.copytree(source, target, symlinks=True)


def add_owner(document, owner, contents, args):
    """The package of an owner: its place in the document, and its line in the list of licences."""
    if owner == ("ours",):
        return document.image, f"kmodsmith-{args.name} {args.version}: {OURS}"
    if owner == ("payload",) and is_file(args.root, NVIDIAS):
        licence = document.add_licence("NVIDIA's licence", read(os.path.join(args.root, NVIDIAS)))
        ident = document.add_package("payload", "nvidia-driver-payload", args.driver, licence)
        return ident, f"nvidia-driver-payload {args.driver}: NVIDIA's licence"
    if owner == ("payload",):
        ident = document.add_package("payload", "nvidia-driver-payload", args.driver, "NOASSERTION")
        return ident, f"nvidia-driver-payload {args.driver}: see the packages that it was laid out from"
    if not contents.is_package(owner):
        given = contents.inputs[owner[1]]
        ident = document.add_package(f"input-{owner[1]}", given.name, given.version, "NOASSERTION", sha256=given.sha256)
        return ident, f"{given.name}: not told"
    package, text = contents.package(owner)
    names = debian.licences(text)
    told = ", ".join(names) or "see its text"
    return document.add_debian(owner[0], package, names), f"{package.name} {package.version}: {told}"


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--name", required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--epoch", type=int, required=True)
    parser.add_argument("--base", action="append", default=[])
    parser.add_argument("--input", action="append", default=[])
    parser.add_argument("--driver", default="NOASSERTION", help="the version of the inputs")
    parser.add_argument("--made", action="append", default=[])
    parser.add_argument("--linked", nargs="*", default=[])
    parser.add_argument("--purpose", default="CONTAINER", help="what SPDX calls it; APPLICATION is a program alone")
    parser.add_argument("--brief", action="store_true", help="every package of the first base, and only our own files")
    return parser.parse_args()


def main():
    args = arguments()
    contents = Contents(args.base, [Input(f) for f in args.input], dict(m.split("=") for m in args.made))
    contents.add_linked(args.linked)
    inputs, linked = [("input", i) for i in range(len(args.input))], [("linked", name) for name in args.linked]
    owners = {*sort_out(args.root, contents), *inputs, *linked, ("ours",)}
    if args.brief:
        owners.update(("deb", name) for name in debian.packages(args.base[0]))
    keep_texts(args.root, owners, contents)
    document, lines, idents = spdx.Document(args.name, args.version, args.epoch, args.purpose), [], {}
    for owner in sorted(owners, key=str):
        idents[owner], line = add_owner(document, owner, contents, args)
        lines.append(line)
        if idents[owner] != document.image:
            document.relate(document.image, "STATIC_LINK" if owner in linked else "CONTAINS", idents[owner])
    for owner in inputs:
        if ("payload",) in idents:
            document.relate(idents[("payload",)], "GENERATED_FROM", idents[owner])
    listing = "What is in this image, and its licences; the texts are in /usr/share/doc/*/copyright.\n\n"
    write(os.path.join(args.root, HERE, "licences.txt"), listing + "\n".join(sorted(lines)) + "\n")
    for owner, files in sort_out(args.root, contents).items():
        if owner == ("ours",) or not args.brief:
            document.add_files(idents[owner], files)
    write(os.path.join(args.root, HERE, "sbom.spdx.json"), document.text())


if __name__ == "__main__":
    main()
