#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What reviewers, kube-linter and Polaris ask of rendered objects; what they do not get is a table in docs/kubernetes.md.
Usage: chart_rules.py FILE...; one line for each rule that is broken, and then exit status 1."""
import os
import re
import sys

import yaml

APP = "app.kubernetes.io/"
LABELS = {APP + word for word in ("name", "instance", "version", "managed-by", "part-of", "component")}
WIDE = re.compile("Namespace|ClusterRole|ValidatingAdmissionPolicy")


def of_labels(metadata):
    labels = metadata.get("labels", {})
    yield "labels", LABELS | {"helm.sh/chart"} <= set(labels)
    yield "part of kmodsmith", labels.get(APP + "part-of") == "kmodsmith"
    yield "no driver of the GPU Operator", labels.get(APP + "component") != "nvidia-driver"


def of_container(container, is_host):
    """is_host: it loads drivers, as root with the host's processes and capabilities, and a compile takes what is free."""
    context, resources = container.get("securityContext", {}), container.get("resources", {})
    image = container["image"]
    yield "names an image that does not move", re.search(r"@sha256:[0-9a-f]{64}$|:[0-9][^/:]*$", image)
    yield "starts without a registry", container.get("imagePullPolicy") == "IfNotPresent"
    yield "requests", {"cpu", "memory"} <= set(resources.get("requests", {}))
    names = [e["name"] for e in container.get("env", [])]
    yield "no secret in its environment", not any(re.search("secret|password|token", name, re.I) for name in names)
    yield "drops all capabilities", context.get("privileged") or context.get("capabilities", {}).get("drop") == ["ALL"]
    yield "limits", is_host or "memory" in resources.get("limits", {})
    yield "no way to more privileges", is_host or context.get("allowPrivilegeEscalation") is False
    yield "reads its root only", is_host or context.get("readOnlyRootFilesystem") is True
    yield "not privileged", is_host or not context.get("privileged")


def of_pod(spec, accounts, is_served):
    is_host = spec.get("hostPID", False)
    context = spec.get("securityContext", {})
    yield "no network, no memory of the host", not any(spec.get(key) for key in ("hostNetwork", "hostIPC"))
    yield "nothing of the host, but where drivers are loaded", is_host or "hostPath" not in str(spec.get("volumes"))
    yield "a priority", spec.get("priorityClassName", "").startswith("system-")
    has_token = spec.get("automountServiceAccountToken") is not False
    yield "an account of its own, or no token", spec.get("serviceAccountName") in accounts or not has_token
    yield "not root", is_host or context.get("runAsNonRoot") is True and context.get("runAsUser", 0) > 0
    yield "a seccomp profile", is_host or context.get("seccompProfile") == {"type": "RuntimeDefault"}
    for container in spec["containers"]:
        rules = [*of_container(container, is_host)]
        if is_served:
            rules += [(probe, probe in container) for probe in ("livenessProbe", "readinessProbe")]
            ports = {p["containerPort"] for p in container.get("ports", [])}
            rules.append(("no port of the host", "hostPort" not in str(container) and all(p >= 1024 for p in ports)))
        yield from ((f"container {container['name']}: {rule}", is_kept) for rule, is_kept in rules)


def of_workload(d, accounts):
    template = d["spec"]["template"]
    yield from ((f"pod: {rule}", is_kept) for rule, is_kept in of_labels(template["metadata"]))
    yield from of_pod(template["spec"], accounts, d["kind"] != "Job")
    if d["kind"] != "Job":
        name = {APP + "name": template["metadata"]["labels"][APP + "name"]}
        yield "a selector as ever", d["spec"]["selector"] == {"matchLabels": name}
    if d["kind"] == "DaemonSet" and d["metadata"]["name"] == "kmodsmith-driver":
        yield "a start that takes as long as a compile", "startupProbe" in template["spec"]["containers"][0]
    if d["kind"] == "DaemonSet":
        taints = {t["key"] for t in template["spec"]["tolerations"]}
        yield "taints of GPU nodes", {"nvidia.com/gpu", "kmodsmith.io/driver-not-ready"} <= taints
    if d["kind"] == "Deployment":
        yield "two", d["spec"]["replicas"] >= 2
        yield "apart", template["spec"]["topologySpreadConstraints"][0]["labelSelector"] == d["spec"]["selector"]
        affinity = str(template["spec"].get("affinity", {}).get("nodeAffinity"))
        yield "away from GPUs", "preferred" in affinity and affinity.count("'operator': 'DoesNotExist'") == 4
    if d["kind"] == "Job":
        yield "ends", 0 < d["spec"].get("activeDeadlineSeconds", 0) <= 86400 and "backoffLimit" in d["spec"]
        yield "goes", 0 < d["spec"].get("ttlSecondsAfterFinished", 0)
        yield "says what to do", "--no-hooks" in d["metadata"]["annotations"].get("kubernetes.io/description", "")


def of_object(d, objects):
    accounts = {o["metadata"]["name"] for o in objects if o["kind"] == "ServiceAccount"}
    yield from of_labels(d["metadata"])
    yield "a namespace", ("namespace" in d["metadata"]) != bool(WIDE.match(d["kind"]))
    if d["kind"] in ("DaemonSet", "Deployment", "Job"):
        yield from of_workload(d, accounts)
    if d["kind"] == "PodDisruptionBudget":
        yield "lets one go", d["spec"].get("maxUnavailable") == 1
        yield "lets a broken pod go", d["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
        of = [o["spec"]["selector"] for o in objects if o["kind"] == "Deployment"]
        yield "is of a Deployment", d["spec"]["selector"] in of
    if d["kind"] == "NetworkPolicy":
        yield "of every pod", d["spec"]["podSelector"] == {} and d["spec"]["policyTypes"] == ["Ingress"]
    for rule in d.get("rules", []) if d["kind"].endswith("Role") else []:
        yield "no right to everything, to secrets or into pods", not {"*", "secrets", "pods/exec", "pods/attach"} & set(
            rule["verbs"] + rule["resources"] + rule["apiGroups"])
    if d["kind"].endswith("RoleBinding"):
        yield "a role of ours", re.match("kmodsmith-", d["roleRef"]["name"])
        yield "an account that is here", {s["name"] for s in d["subjects"]} <= accounts


def main():
    broken = False
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            objects = [d for d in yaml.safe_load_all(file) if d]
        kinds = {d["kind"] for d in objects}
        checks = [(f"{d['kind']} {d['metadata']['name']}", *check) for d in objects for check in of_object(d, objects)]
        checks.append(("all", "pods behind a NetworkPolicy", "NetworkPolicy" in kinds and "DaemonSet" in kinds))
        for name, rule, is_kept in checks:
            if not is_kept:
                broken = True
                print(f"{os.path.basename(path)}: {name}: {rule}")
    return broken


sys.exit(main())
