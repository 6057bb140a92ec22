#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Inputs of a size for growth.sh: shapes as the program reads them, contents of a few bytes.

  growth_input.py store DIR COUNT KERNEL      an OCI layout with a package for KERNEL and others for kernels that are gone,
                                              each with the record of how it came (a node's store)
  growth_input.py catalogue DIR COUNT         adds a catalogue of COUNT entries, with the layout's packages among them
  growth_input.py nodes FILE COUNT TARGET     a NodeList of nodes that wait for a slot for TARGET, four to a group
  growth_input.py gpus HOST COUNT             a recorded machine of eight GPUs gets as many as COUNT
  growth_input.py kernels HOST COUNT          as many installed kernels beside the running one
  growth_input.py matrix DIR COUNT            a build matrix of a source and as many kernels, none of which has headers
"""
import hashlib
import json
import os
import shutil
import sys

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OURS = "application/vnd.kmodsmith."
REF_NAME = "org.opencontainers.image.ref.name"
DRIVER, RELEASE = os.environ["DRIVER"], "io.kmodsmith.kernel.release"


def text(document):
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


class Layout:
    def __init__(self, folder):
        self.folder, self.entries = folder, []
        os.makedirs(folder + "/blobs/sha256", exist_ok=True)
        if os.path.exists(folder + "/index.json"):
            with open(folder + "/index.json", encoding="utf-8") as file:
                self.entries = json.load(file)["manifests"]

    def put(self, media_type, data):
        digest = hashlib.sha256(data).hexdigest()
        with open(self.folder + "/blobs/sha256/" + digest, "wb") as file:
            file.write(data)
        return {"mediaType": media_type, "digest": "sha256:" + digest, "size": len(data)}

    def manifest(self, kind, config, layer, **more):
        document = {"schemaVersion": 2, "mediaType": MANIFEST, "artifactType": OURS + kind, "config": config,
                    "layers": [layer], **more}
        return {**self.put(MANIFEST, text(document)), "artifactType": OURS + kind}

    def artifact(self, kind, document, **more):
        empty = self.put("application/vnd.oci.empty.v1+json", b"{}")
        return self.manifest(kind, empty, self.put(OURS + kind, text(document)), **more)

    def write(self):
        for name, document in (("oci-layout", {"imageLayoutVersion": "1.0.0"}),
                               ("index.json", {"schemaVersion": 2, "manifests": self.entries})):
            with open(self.folder + "/" + name, "wb") as file:
                file.write(text(document))


def package(layout, release):
    """Its modules are three lines of text: what is looked up, verified and collected, but never loaded."""
    names = ("nvidia", "nvidia-modeset", "nvidia-uvm")
    layer = layout.put("application/vnd.oci.image.layer.v1.tar+zstd", ("layer of " + release).encode())
    files = [{"name": name + ".ko", "module": name, "sha256": hashlib.sha256(name.encode()).hexdigest(), "size": 9,
              "srcversion": "0123456789ABCDEF0123456"} for name in names]
    labels = {"format": "1", "driver": DRIVER, "flavour": "open", "kernel.release": release, "arch": "x86_64",
              "distro": "debian", "compiler": "gcc (made up) 12.2.0", "source": hashlib.sha256(b"source").hexdigest(),
              "modules": ",".join(names), "files": text(files).decode()}
    labels = {"io.kmodsmith." + key: value for key, value in labels.items()}
    config = {"architecture": "amd64", "os": "linux", "config": {"Labels": labels},
              "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}}
    return layout.manifest("kmod.package.v1", layout.put("application/vnd.oci.image.config.v1+json", text(config)), layer,
                           annotations={"org.opencontainers.image.version": DRIVER, RELEASE: release})


def store(folder, count, kernel):
    layout = Layout(folder)
    record = {"origin": "compiled", "source": None, "signers": [], "catalog": 0, "taken": None}
    for number in range(int(count)):
        release = f"5.{number // 100}.{number % 100}-gone-amd64" if number else kernel
        made = package(layout, release)
        tag = f"{DRIVER}-open-{release}-x86_64"
        layout.entries.append({**made, "annotations": {REF_NAME: tag, RELEASE: release}})
        subject = {key: made[key] for key in ("mediaType", "digest", "size")}
        layout.entries.append(layout.artifact("provenance.v1+json", record, subject=subject))
    layout.write()


def catalogue(folder, count):
    layout = Layout(folder)
    listed = [{"tag": entry["annotations"][REF_NAME], "digest": entry["digest"], "size": entry["size"]}
              for entry in layout.entries if REF_NAME in entry.get("annotations", {})]
    for number in range(len(listed), int(count)):
        tag = f"{DRIVER}-open-4.{number // 100}.{number % 100}-gone-amd64-x86_64"
        listed.append({"tag": tag, "digest": "sha256:" + hashlib.sha256(tag.encode()).hexdigest(), "size": 1234})
    made = layout.artifact("catalog.v1+json", {"catalog": 1, "created": "2020-01-01T00:00:00Z",
                                               "expires": "2999-01-01T00:00:00Z", "packages": listed})
    layout.entries.append({**made, "annotations": {REF_NAME: "kmodsmith-catalog"}})
    layout.write()


def nodes(path, count, target):
    """As kubelets and feature discovery write them: 14 KiB each, of which little matters here."""
    old, key = "1111111111111111-0000000000000000", "kmodsmith.io/"
    images = [{"names": [f"registry.example.com/team/component-{n:02}@sha256:{n:064x}"], "sizeBytes": n} for n in range(60)]
    features = {f"feature.node.kubernetes.io/cpu-cpuid.{n:032}": "true" for n in range(60)}
    with open(path, "wb") as file:
        file.write(b'{"kind":"NodeList","items":[')
        for number in range(int(count)):
            node = {"metadata": {
                "name": f"gpu{number:05}", "uid": f"6e0d5b0c-0a3e-4d8e-9d7f-{number:012x}",
                "labels": {**features, "nvidia.com/gpu.present": "true", "rack": f"r{number // 4}", key + "state": "queued"},
                "annotations": {key + "target": target, key + "agent.loaded": old + " 1.0", key + "agent.holders": "0",
                                key + "agent.store": f"{old},{target}"}},
                "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}], "images": images}}
            file.write((b"," if number else b"") + text(node))
        file.write(b"]}")


def gpus(host, count):
    links, model = ("sys/bus/pci/devices/", "sys/bus/pci/drivers/nvidia/"), "0000:40"
    folders = ("sys/devices/pci{0}/{0}:00.0", "proc/driver/nvidia/gpus/{0}:00.0")
    kept = sorted(os.listdir(f"{host}/{links[1]}"))
    for address in kept[int(count):]:
        for link in links:
            os.remove(f"{host}/{link}{address}")
        for folder in folders:
            shutil.rmtree(f"{host}/{folder.format(address[:-5])}")
    for number in range(len(kept), int(count)):
        bus = f"{number // 256 + 1:04x}:{number % 256:02x}"
        for folder in folders:
            shutil.copytree(f"{host}/{folder.format(model)}", f"{host}/{folder.format(bus)}", symlinks=True)
        for link in links:
            target = os.readlink(f"{host}/{link}{model}:00.0")
            os.symlink(target.replace(model, bus), f"{host}/{link}{bus}:00.0")
        path = f"{host}/{folders[1].format(bus)}/information"
        with open(path, encoding="utf-8") as file:
            lines = file.read().replace(model, bus).splitlines(True)
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"Device Minor: \t {number}\n" if line.startswith("Device Minor") else line for line in lines)


def kernels(host, count):
    for number in range(int(count)):
        folder = f"{host}/lib/modules/6.2.{number}-installed-amd64"
        os.makedirs(folder + "/kernel")
        os.makedirs(host + "/boot", exist_ok=True)
        for path in (folder + "/modules.dep", folder + "/modules.builtin", f"{host}/boot/vmlinuz-6.2.{number}-installed-amd64"):
            with open(path, "wb"):
                pass


def matrix(folder, count):
    source = folder + "/tree/kernel-open"
    os.makedirs(source + "/nvidia")
    for path, content in (("Kbuild", f'EXTRA_CFLAGS += -DNV_VERSION_STRING=\\"{DRIVER}\\"\n'), ("conftest.sh", "#!/bin/sh\n"),
                          ("nvidia/nvidia.Kbuild", ""), ("nvidia/nv.c", 'MODULE_LICENSE("Dual MIT/GPL");\n'),
                          ("nvidia/nv-kernel.o_binary", "binary")):
        with open(f"{source}/{path}", "w", encoding="utf-8") as file:
            file.write(content)
    with open(folder + "/matrix.json", "wb") as file:
        file.write(text({"drivers": [{"source": "tree"}], "kernels": [{"release": f"6.2.{n}-1-amd64"} for n in range(int(count))]}))


globals()[sys.argv[1]](*sys.argv[2:])
