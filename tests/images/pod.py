# SPDX-License-Identifier: Apache-2.0
"""One container of the pod in a manifest, as a configuration of the OCI runtime: what the kubelet and containerd make of its
security context, volumes and limits. With `hostUsers: false` ids of the container are those from FIRST_ID on; its network is
the machine's, for servers on loopback.
Usage: pod.py MANIFEST CONTAINER ROOTFS VOLUMES [--env NAME=VALUE]... [--replace OLD=NEW]... [--mount FROM=TO]...
VOLUMES is a directory with one for each volume; the configuration goes to standard output."""
import argparse
import json
import re

import yaml

FIRST_ID = 100000
FILTER = "/usr/share/containers/seccomp.json"  # podman's; containerd's differs from it in what is taken away below
UNITS = {"Mi": 1 << 20, "Gi": 1 << 30}


def bind(source, destination, read_only):
    """A volume in a container."""
    options = ["rbind", "rprivate", "ro" if read_only else "rw"]
    return {"destination": destination, "type": "bind", "source": source, "options": options}


def applies(rule, capabilities):
    """Is a rule of the filter for this architecture and these capabilities?"""
    includes, excludes = rule.get("includes") or {}, rule.get("excludes") or {}
    return ("amd64" in includes.get("arches", ["amd64"]) and set(includes.get("caps", [])) <= capabilities
            and not set(excludes.get("caps", [])) & capabilities and rule["action"] == "SCMP_ACT_ALLOW")


def runtime_default(capabilities):
    """RuntimeDefault of containerd, whose rules no package installs: pivot_root is allowed to nobody, and what makes
    namespaces and mounts to SYS_ADMIN alone (contrib/seccomp/seccomp_default.go)."""
    withheld = {"pivot_root", "keyctl", "add_key", "request_key"}
    if "CAP_SYS_ADMIN" not in capabilities:
        withheld |= {"mount", "umount", "umount2", "unshare", "setns", "move_mount", "open_tree", "fsopen", "fsmount"}
    with open(FILTER, encoding="utf-8") as file:
        rules = [rule for rule in json.load(file)["syscalls"] if applies(rule, capabilities)]
    return {"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 1, "architectures": ["SCMP_ARCH_X86_64"],
            "syscalls": [{"names": sorted(set(rule["names"]) - withheld), "action": rule["action"],
                          "args": rule.get("args") or []} for rule in rules if set(rule["names"]) - withheld]}


def resources(limits):
    """cgroup limits, and no device of the machine."""
    ret = {"devices": [{"allow": False, "access": "rwm"}]}
    if "memory" in limits:
        number, unit = re.fullmatch(r"(\d+)([MG]i)", limits["memory"]).groups()
        ret["memory"] = {"limit": int(number) * UNITS[unit]}
    if "cpu" in limits:
        ret["cpu"] = {"quota": int(limits["cpu"]) * 100000, "period": 100000}
    return ret


def mounts(container, volumes, more):
    """What a runtime mounts, and the volumes."""
    ret = [
        {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "strictatime", "mode=755"]},
        {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": ["nosuid", "noexec", "nodev", "mode=1777"]},
    ]
    for mount in container["volumeMounts"]:
        ret.append(bind(f"{volumes}/{mount['name']}", mount["mountPath"], mount.get("readOnly", False)))
    return ret + [bind(*pair.split("=", 1), True) for pair in more]


def configuration(pod, container, options):
    """The whole of it."""
    context = container["securityContext"]
    capabilities = ["CAP_" + name for name in context["capabilities"].get("add", [])]
    command = container["command"] + container.get("args", [])
    for old, new in (pair.split("=", 1) for pair in options.replace):
        command = [word.replace(old, new) for word in command]
    linux = {
        "namespaces": [{"type": kind} for kind in ("mount", "uts", "ipc", "pid")],
        "resources": resources(container["resources"]["limits"]),
        "cgroupsPath": f"/kmodsmith-test/{container['name']}",
        "maskedPaths": [f"/proc/{name}" for name in ("acpi", "kcore", "keys", "timer_list", "sched_debug", "scsi")],
        "readonlyPaths": [f"/proc/{name}" for name in ("bus", "fs", "irq", "sys", "sysrq-trigger")],
    }
    if pod.get("hostUsers") is False:
        ids = [{"containerID": 0, "hostID": FIRST_ID, "size": 65536}]
        linux |= {"uidMappings": ids, "gidMappings": ids}
        linux["namespaces"].append({"type": "user"})
    if pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault":
        linux["seccomp"] = runtime_default(set(capabilities))
    user = pod["securityContext"]["runAsUser"]
    return {
        "ociVersion": "1.0.2", "hostname": container["name"],
        "root": {"path": options.rootfs, "readonly": context["readOnlyRootFilesystem"]},
        "process": {"user": {"uid": user, "gid": user}, "cwd": "/", "args": command, "env": options.env,
                    "noNewPrivileges": not context.get("allowPrivilegeEscalation", True),
                    "capabilities": {name: capabilities for name in ("bounding", "effective", "permitted")}},
        "mounts": mounts(container, options.volumes, options.mount),
        "linux": linux,
    }


parser = argparse.ArgumentParser()
for name in ("manifest", "container", "rootfs", "volumes"):
    parser.add_argument(name)
for name in ("--env", "--replace", "--mount"):
    parser.add_argument(name, action="append", default=[])
arguments = parser.parse_args()
with open(arguments.manifest, encoding="utf-8") as manifest:
    spec = list(yaml.safe_load_all(manifest))[-1]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
chosen = [c for c in spec["initContainers"] + spec["containers"] if c["name"] == arguments.container]
print(json.dumps(configuration(spec, chosen[0], arguments)))
