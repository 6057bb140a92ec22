#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What helm asks about the chart's objects before it creates them (--post-renderer): the pods of agents see their node's recorded machine at
/machine, with their own service account in it, and nothing else of them changes."""
import sys

import yaml

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN = {"projected": {"sources": [
    {"serviceAccountToken": {"path": "token"}},
    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}}]}}


def main():
    objects = [document for document in yaml.safe_load_all(sys.stdin) if document]
    for document in objects:
        if document["kind"] == "DaemonSet":
            pod = document["spec"]["template"]["spec"]
            pod["volumes"] += [{"name": "machine", "hostPath": {"path": "/machine"}}, {"name": "account", **TOKEN}]
            pod["containers"][0]["volumeMounts"] += [{"name": "machine", "mountPath": "/machine"},
                                                     {"name": "account", "mountPath": f"/machine{ACCOUNT}", "readOnly": True}]
            pod["containers"][0]["env"] += [{"name": "KMODSMITH_ROOT", "value": "/machine"}]
    yaml.safe_dump_all(objects, sys.stdout)


main()
