# SPDX-License-Identifier: Apache-2.0
"""Is a DaemonSet one that Kubernetes takes? As far as our manifests go: field names, types, and names that must match.
An unknown field is an error here, as with kubectl's strict validation. Usage: kube.py FILE; exit status 1 with the path of
what is wrong."""
import re
import sys

import yaml

TEXTS = {str: str}
PROBE = {"exec": {"command": [str]}, "periodSeconds": int, "failureThreshold": int, "timeoutSeconds": int,
         "initialDelaySeconds": int}
CONTAINER = {
    "name": str, "image": str, "command": [str], "args": [str],
    "env": [{"name": str, "value": str}],
    "securityContext": {
        "privileged": bool, "runAsUser": int, "appArmorProfile": {"type": str}, "seLinuxOptions": {"type": str},
        "capabilities": {"add": [str], "drop": [str]}},
    "startupProbe": PROBE, "livenessProbe": PROBE, "readinessProbe": PROBE,
    "volumeMounts": [{"name": str, "mountPath": str, "readOnly": bool, "mountPropagation": str}],
}
POD = {
    "hostPID": bool, "automountServiceAccountToken": bool, "priorityClassName": str, "terminationGracePeriodSeconds": int,
    "tolerations": [{"key": str, "operator": str, "effect": str}], "nodeSelector": TEXTS, "containers": [CONTAINER],
    "volumes": [{"name": str, "configMap": {"name": str, "optional": bool}, "hostPath": {"path": str, "type": str}}],
}
DAEMONSET = {
    "apiVersion": str, "kind": str,
    "metadata": {"name": str, "namespace": str, "labels": TEXTS},
    "spec": {"selector": {"matchLabels": TEXTS}, "updateStrategy": {"type": str},
             "template": {"metadata": {"labels": TEXTS}, "spec": POD}},
}
REQUIRED = {"": ["apiVersion", "kind", "metadata", "spec"], ".spec": ["selector", "template"],
            ".spec.template.spec": ["containers"]}


def check(value, shape, path):
    """Yield what is wrong with value."""
    if isinstance(shape, list):
        if not isinstance(value, list) or not value:
            yield f"{path}: is no list with something in it"
        else:
            for i, item in enumerate(value):
                yield from check(item, shape[0], f"{path}[{i}]")
    elif isinstance(shape, dict):
        if not isinstance(value, dict):
            yield f"{path}: is no object"
            return
        for name in REQUIRED.get(path, []):
            if name not in value:
                yield f"{path}: lacks {name}"
        for name, item in value.items():
            if str in shape:
                yield from check(item, str, f"{path}.{name}")
            elif name not in shape:
                yield f"{path}: has no field {name}"
            else:
                yield from check(item, shape[name], f"{path}.{name}")
    elif type(value) is not shape:
        yield f"{path}: '{value}' is no {shape.__name__}"


def match(d):
    """Yield names that should be the same and are not."""
    pod = d["spec"]["template"]["spec"]
    if d["apiVersion"] != "apps/v1" or d["kind"] != "DaemonSet":
        yield "is no DaemonSet of apps/v1"
    if not d["spec"]["selector"]["matchLabels"].items() <= d["spec"]["template"]["metadata"]["labels"].items():
        yield "the selector does not match the pods"
    volumes = {v["name"] for v in pod.get("volumes", [])}
    for container in pod["containers"]:
        if not re.fullmatch(r"[a-z0-9.-]+(/[a-z0-9._-]+)+:[A-Za-z0-9._-]+", container["image"]):
            yield f"'{container['image']}' is no image with a tag"
        for mount in container.get("volumeMounts", []):
            if mount["name"] not in volumes:
                yield f"there is no volume {mount['name']}"
            if not mount["mountPath"].startswith("/"):
                yield f"'{mount['mountPath']}' is no absolute path"
            privileged = container["securityContext"].get("privileged")
            if mount.get("mountPropagation") == "Bidirectional" and not privileged:
                yield "Bidirectional is for privileged containers only"


with open(sys.argv[1], encoding="utf-8") as file:
    document = yaml.safe_load(file)
problems = list(check(document, DAEMONSET, "")) or list(match(document))
for problem in problems:
    print(f"{sys.argv[1]}: {problem}")
sys.exit(bool(problems))
