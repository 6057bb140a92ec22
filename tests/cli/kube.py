# SPDX-License-Identifier: Apache-2.0
"""Are these documents such that Kubernetes takes them? As far as our manifests go: kinds, field names, types, and names that must match.
An unknown field is an error here, as with kubectl's strict validation. Usage: kube.py FILE; exit status 1 with the path of
what is wrong."""
import re
import sys

import yaml

TEXTS = {str: str}
QUANTITIES = {"cpu": str, "memory": str, "ephemeral-storage": str}
SECCOMP = {"type": str}
PROBE = {"exec": {"command": [str]}, "periodSeconds": int, "failureThreshold": int, "timeoutSeconds": int,
         "initialDelaySeconds": int}
CONTAINER = {
    "name": str, "image": str, "command": [str], "args": [str],
    "env": [{"name": str, "value": str, "valueFrom": {"fieldRef": {"fieldPath": str}}}],
    "ports": [{"name": str, "containerPort": int}],
    "securityContext": {
        "privileged": bool, "runAsUser": int, "allowPrivilegeEscalation": bool, "readOnlyRootFilesystem": bool, "appArmorProfile": {"type": str}, "seLinuxOptions": {"type": str},
        "capabilities": {"add": [str], "drop": [str]}},
    "startupProbe": PROBE, "livenessProbe": PROBE, "readinessProbe": PROBE,
    "volumeMounts": [{"name": str, "mountPath": str, "readOnly": bool, "mountPropagation": str}],
    "resources": {"requests": QUANTITIES, "limits": QUANTITIES},
}
POD = {
    "hostPID": bool, "automountServiceAccountToken": bool, "serviceAccountName": str, "priorityClassName": str, "terminationGracePeriodSeconds": int,
    "tolerations": [{"key": str, "operator": str, "effect": str}], "nodeSelector": TEXTS,
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": str, "operator": str}]}]}}}, "containers": [CONTAINER],
    "initContainers": [CONTAINER], "restartPolicy": str, "hostUsers": bool, "enableServiceLinks": bool,
    "securityContext": {"runAsUser": int, "seccompProfile": SECCOMP},
    "volumes": [{"name": str, "configMap": {"name": str, "optional": bool, "items": [{"key": str, "path": str}]},
                  "hostPath": {"path": str, "type": str},
                 "emptyDir": {"sizeLimit": str}, "secret": {"secretName": str, "defaultMode": int},
                 "projected": {"defaultMode": int, "sources": [{
                     "serviceAccountToken": {"path": str, "expirationSeconds": int},
                     "configMap": {"name": str, "items": [{"key": str, "path": str}]},
                     "downwardAPI": {"items": [{"path": str, "fieldRef": {"fieldPath": str}}]}}]}}],
}
METADATA = {"name": str, "namespace": str, "labels": TEXTS}
DAEMONSET = {
    "apiVersion": str, "kind": str,
    "metadata": METADATA,
    "spec": {"selector": {"matchLabels": TEXTS}, "updateStrategy": {"type": str},
             "template": {"metadata": {"labels": TEXTS}, "spec": POD}},
}
JOB_SPEC = {"backoffLimit": int, "activeDeadlineSeconds": int, "ttlSecondsAfterFinished": int,
            "template": {"metadata": {"labels": TEXTS}, "spec": POD}}
OBJECT = {"apiVersion": str, "kind": str, "metadata": METADATA}
CRONJOB = OBJECT | {
    "spec": {"schedule": str, "concurrencyPolicy": str, "startingDeadlineSeconds": int, "successfulJobsHistoryLimit": int,
             "failedJobsHistoryLimit": int, "jobTemplate": {"spec": JOB_SPEC}},
}
RBAC = "rbac.authorization.k8s.io/v1 "
ROLE = OBJECT | {"rules": [{"apiGroups": [str], "resources": [str], "verbs": [str]}]}
BINDING = OBJECT | {"roleRef": {"apiGroup": str, "kind": str, "name": str}, "subjects": [{"kind": str, "name": str, "namespace": str}]}
KINDS = {"apps/v1 DaemonSet": DAEMONSET, "batch/v1 CronJob": CRONJOB, "v1 ConfigMap": OBJECT | {"data": TEXTS},
         "v1 ServiceAccount": OBJECT, RBAC + "ClusterRole": ROLE, RBAC + "ClusterRoleBinding": BINDING}
REQUIRED = {".spec.jobTemplate.spec": ["template"], ".spec.template.spec": ["containers"],
            ".spec.jobTemplate.spec.template.spec": ["containers"]}


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


def check_container(container, volumes):
    """Yield what is wrong in one container of a pod."""
    if not re.fullmatch(r"[a-z0-9.-]+(/[a-z0-9._-]+)+:[A-Za-z0-9._-]+", container["image"]):
        yield f"'{container['image']}' is no image with a tag"
    context = container["securityContext"]
    if "SYS_ADMIN" in context.get("capabilities", {}).get("add", []) and not context.get("allowPrivilegeEscalation", True):
        yield "allowPrivilegeEscalation: false and SYS_ADMIN exclude each other"
    for mount in container.get("volumeMounts", []):
        if mount["name"] not in volumes:
            yield f"there is no volume {mount['name']}"
        if not mount["mountPath"].startswith("/"):
            yield f"'{mount['mountPath']}' is no absolute path"
        if mount.get("mountPropagation") == "Bidirectional" and not context.get("privileged"):
            yield "Bidirectional is for privileged containers only"


def match(d):
    """Yield names that should be the same and are not."""
    if "spec" not in d:
        return
    pod = d["spec"].get("jobTemplate", d)["spec"]["template"]["spec"]
    if d["kind"] == "DaemonSet":
        labels = d["spec"]["template"]["metadata"]["labels"]
        if not d["spec"].get("selector", {}).get("matchLabels", {"": ""}).items() <= labels.items():
            yield "the selector does not match the pods"
    elif pod.get("restartPolicy") not in ("OnFailure", "Never"):
        yield "the pod of a Job is restarted OnFailure or Never"
    volumes = {v["name"] for v in pod.get("volumes", [])}
    for container in pod.get("initContainers", []) + pod["containers"]:
        yield from check_container(container, volumes)


def check_document(document):
    """Yield what is wrong in one document of a file."""
    kind = f"{document.get('apiVersion')} {document.get('kind')}"
    if kind not in KINDS:
        yield f"'{kind}' is none of {', '.join(KINDS)}"
    else:
        yield from list(check(document, KINDS[kind], "")) or match(document)


with open(sys.argv[1], encoding="utf-8") as file:
    problems = [p for document in yaml.safe_load_all(file) for p in check_document(document)]
for problem in problems:
    print(f"{sys.argv[1]}: {problem}")
sys.exit(bool(problems))
