#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Put a package into an OCI layout, written from the format's description alone: an independent second implementation.

  make_layout.py --kernel 6.1.0-1-amd64 LAYOUT MODULE.ko...     prints the digest of the manifest

The same input gives the same bytes. --tag and --label make packages that are not what their name says.
"""
import argparse
import hashlib
import io
import json
import os
import random
import re
import subprocess
import tarfile

TITLE, REF_NAME = "org.opencontainers.image.title", "org.opencontainers.image.ref.name"


def text(document):
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def put(data):
    """A blob; gives digest and size as a descriptor has them."""
    digest = hashlib.sha256(data).hexdigest()
    os.makedirs(OPTIONS.layout + "/blobs/sha256", exist_ok=True)
    with open(OPTIONS.layout + "/blobs/sha256/" + digest, "wb") as file:
        file.write(data)
    return {"digest": "sha256:" + digest, "size": len(data)}


def modules():
    """{file name: bytes}; --pad appends bytes that do not compress to the first one."""
    found = {}
    for path in sorted(OPTIONS.module):
        with open(path, "rb") as file:
            found[os.path.basename(path)] = file.read()
    source, most = random.Random(OPTIONS.pad), 10**8  # of one call; a quarter of a gigabyte is too much for it
    found[next(iter(found))] += b"".join(source.randbytes(min(most, OPTIONS.pad - at)) for at in range(0, OPTIONS.pad, most))
    return found


def layer(files):
    """The uncompressed tar."""
    out, base = io.BytesIO(), ""
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for part in ("opt/lib/modules/" + OPTIONS.kernel).split("/"):
            base += part + "/"
            folder = tarfile.TarInfo(base)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(folder)
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(base + name)
            entry.size, entry.mode = len(data), 0o644
            tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def labels(files):
    listed = []
    for name, data in sorted(files.items()):
        srcversion = re.search(rb"\0srcversion=([0-9A-F]+)\0", data)
        listed.append({"name": name, "module": name[:-3], "sha256": hashlib.sha256(data).hexdigest(),
                       "size": len(data), "srcversion": srcversion[1].decode() if srcversion else "0" * 23})
    key = {"format": "1", "driver": OPTIONS.driver, "flavour": OPTIONS.flavour, "kernel.release": OPTIONS.kernel,
           "kernel.build-id": hashlib.sha256(OPTIONS.kernel.encode()).hexdigest(), "arch": OPTIONS.arch,
           "distro": "debian", "compiler": "gcc (made up) 12.2.0", "source": hashlib.sha256(b"source").hexdigest(),
           "modules": ",".join(sorted(name[:-3] for name in files)), "patches": "", "files": text(listed).decode()}
    key.update(label.split("=", 1) for label in OPTIONS.label)
    return {"io.kmodsmith." + name: value for name, value in key.items() if value != ""}


def package():
    """Writes everything but the index; gives the manifest's descriptor."""
    files = modules()
    tar = layer(files)
    packed = subprocess.run(["zstd", "-q", "-3", "-c"], input=tar, stdout=subprocess.PIPE, check=True).stdout
    notes = labels(files)
    config = {"architecture": "amd64", "os": "linux", "config": {"Labels": notes},
              "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(tar).hexdigest()]}}
    manifest = {
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "artifactType": "application/vnd.kmodsmith.kmod.package.v1",
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **put(text(config))},
        "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+zstd", **put(packed),
                    "annotations": {TITLE: "modules.tar.zst"}}],
        "annotations": {"org.opencontainers.image.created": "1970-01-01T00:00:00Z",
                        "org.opencontainers.image.version": OPTIONS.driver,
                        **{"io.kmodsmith." + name: notes["io.kmodsmith." + name]
                           for name in ("kernel.release", "flavour", "arch")}}}
    return {"mediaType": manifest["mediaType"], "artifactType": manifest["artifactType"], **put(text(manifest))}


def publish(descriptor):
    path, index = OPTIONS.layout + "/index.json", {"schemaVersion": 2, "manifests": []}
    tag = OPTIONS.tag or re.sub("[^A-Za-z0-9._-]", "_", "-".join(
        [OPTIONS.driver, OPTIONS.flavour, OPTIONS.kernel, OPTIONS.arch]))
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            index = json.load(file)
    index["manifests"] = [m for m in index["manifests"] if m["annotations"][REF_NAME] != tag]
    index["manifests"].append({**descriptor, "annotations": {REF_NAME: tag}})
    for name, data in (("oci-layout", text({"imageLayoutVersion": "1.0.0"})), ("index.json", text(index))):
        with open(OPTIONS.layout + "/" + name, "wb") as file:
            file.write(data)


parser = argparse.ArgumentParser()
parser.add_argument("--driver", default="535.261.03")
parser.add_argument("--flavour", default="open")
parser.add_argument("--kernel", required=True)
parser.add_argument("--arch", default="x86_64")
parser.add_argument("--tag", help="instead of DRIVER-FLAVOUR-KERNEL-ARCH")
parser.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help="instead of the true one; '' = none")
parser.add_argument("--pad", type=int, default=0, metavar="BYTES")
parser.add_argument("layout")
parser.add_argument("module", nargs="+")
OPTIONS = parser.parse_args()
made = package()
publish(made)
print(made["digest"])
