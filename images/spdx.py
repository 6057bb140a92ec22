# SPDX-License-Identifier: Apache-2.0
"""An SPDX 2.3 document: packages, files, who contains what. The same contents give the same text."""
import hashlib
import json
import time
import uuid

import debian


class Document:
    """The SPDX document as it grows."""

    def __init__(self, name, version, epoch, purpose):
        self.packages, self.files, self.relations, self.extracted = [], [], [], {}
        self.name, self.created = name, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch))
        self.image = self.add_package("image", f"kmodsmith-{name}", version, "Apache-2.0", purpose=purpose)
        self.relate("SPDXRef-DOCUMENT", "DESCRIBES", self.image)

    def relate(self, left, relation, right):
        self.relations.append({"spdxElementId": left, "relationshipType": relation, "relatedSpdxElement": right})

    def add_package(self, ident, name, version, licence, purpose=None, sha256=None, **more):
        entry = {"SPDXID": "SPDXRef-" + ident, "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION",
                 "filesAnalyzed": False, "licenseConcluded": "NOASSERTION", "licenseDeclared": licence,
                 "copyrightText": "NOASSERTION", **more}
        if purpose:
            entry["primaryPackagePurpose"] = purpose
        if sha256:
            entry["checksums"] = [{"algorithm": "SHA256", "checksumValue": sha256}]
        self.packages.append(entry)
        return entry["SPDXID"]

    def add_licence(self, name, text):
        """A licence that SPDX has no name for, with its text: what it is called here."""
        ident = debian.spdx_licence(name)
        self.extracted[ident] = {"licenseId": ident, "name": name, "extractedText": text}
        return ident

    def add_debian(self, kind, package, names):
        """A Debian package with the licences that its copyright file names."""
        for name in names:
            ident = debian.spdx_licence(name)
            if ident.startswith("LicenseRef-"):
                self.extracted[ident] = {"licenseId": ident, "name": name,
                                         "extractedText": f"called '{name}' in the copyright files below /usr/share/doc"}
        purl = f"pkg:deb/debian/{package.name}@{package.version.replace('+', '%2B').replace(':', '%3A')}?arch={package.arch}"
        licence = " AND ".join(sorted({debian.spdx_licence(n) for n in names})) or "NOASSERTION"
        more = {"supplier": f"Organization: {package.maintainer}" if package.maintainer else "NOASSERTION",
                "sourceInfo": f"built from Debian's source package {package.source}",
                "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}]}
        return self.add_package(f"{kind}-" + package.name.replace("+", "-plus"), package.name, package.version, licence,
                                sha256=package.sha256, **more)

    def add_files(self, owner, paths):
        """The files of a package as they are in the image, and the package's verification code over them (SPDX 2.3, 7.9)."""
        sums = []
        for path, (sha1, sha256) in paths:
            ident = f"SPDXRef-file-{len(self.files)}"
            self.files.append({"SPDXID": ident, "fileName": "./" + path, "licenseConcluded": "NOASSERTION",
                               "licenseInfoInFiles": ["NOASSERTION"], "copyrightText": "NOASSERTION",
                               "checksums": [{"algorithm": "SHA1", "checksumValue": sha1},
                                             {"algorithm": "SHA256", "checksumValue": sha256}]})
            self.relate(owner, "CONTAINS", ident)
            sums.append(sha1)
        entry = next(p for p in self.packages if p["SPDXID"] == owner)
        if sums:
            entry["filesAnalyzed"] = True
            entry["licenseInfoFromFiles"] = ["NOASSERTION"]
            code = hashlib.sha1("".join(sorted(sums)).encode()).hexdigest()
            entry["packageVerificationCode"] = {"packageVerificationCodeValue": code}

    def text(self):
        body = {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
                "name": f"kmodsmith-{self.name}", "packages": self.packages, "files": self.files,
                "relationships": self.relations, "hasExtractedLicensingInfos": list(self.extracted.values()),
                "creationInfo": {"created": self.created, "creators": ["Tool: kmodsmith-images"]}}
        digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        body["documentNamespace"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, digest)}"
        return json.dumps(body, indent=1) + "\n"
