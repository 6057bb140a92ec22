# SPDX-License-Identifier: Apache-2.0
"""What a path names when a layout directory is served as static repository (/MODE/...) and as registry (/v2/MODE/...)."""
import json
import os

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
REF_NAME = "org.opencontainers.image.ref.name"


class Served:
    def __init__(self, layout):
        self.layout = layout
        with open(layout + "/index.json", encoding="utf-8") as file:
            self.manifests = json.load(file)["manifests"]

    def blob(self, digest):
        return self.layout + "/blobs/" + digest.replace(":", "/")

    def kind(self, digest):
        """manifest, config, layer, or blob when no manifest of the index tells."""
        for entry in self.manifests:
            if entry["digest"] == digest:
                return "manifest"
            with open(self.blob(entry["digest"]), encoding="utf-8") as file:
                manifest = json.load(file)
            if manifest["config"]["digest"] == digest:
                return "config"
            if digest in [layer["digest"] for layer in manifest["layers"]]:
                return "layer"
        return "blob"

    def lookup(self, path):
        """(mode, kind, file, media type); kind is as above, or index or tag; file is None when there is none."""
        parts = path.split("?")[0].strip("/").split("/")
        if parts[0] != "v2":
            name, rest = parts[0], "/".join(parts[1:])
            file, media = self.layout + "/" + rest, "application/json"
            kind = self.kind("sha256:" + parts[-1]) if rest.startswith("blobs/sha256/") else "index"
        elif len(parts) < 4 or parts[-2] not in ("manifests", "blobs"):
            return parts[1], "index", None, MANIFEST
        else:
            tagged = [m["digest"] for m in self.manifests if m.get("annotations", {}).get(REF_NAME) == parts[-1]]
            name, digest, media = parts[1], (tagged or parts)[-1], MANIFEST
            file, kind = self.blob(digest), "tag" if tagged else self.kind(digest)
        return name, kind, file if os.path.isfile(file) else None, media
