#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What stands in for the kubelets of all nodes and for their container runtime. It takes the pods that the real controllers and
scheduler gave to a node, and runs the first container of each as its spec says: the image out of the registry, command, arguments
and environment, ConfigMaps and empty directories, the user, and a token of its service account that is bound to the pod. It asks
the probes, and says on Node and pod what a kubelet says. What differs from a node:

  - A container is a chroot with mounts of its own: no cgroup, no limit of memory, capabilities and system calls as they come.
  - Its host is a recorded machine, DIR/machines/NODE, at /machine ($KMODSMITH_ROOT); a driver there only seems to be loaded.
  - All pods share this machine's network, so each gets another port in place of the one in $KMODSMITH_LISTEN: DIR/ports/POD has it.
  - The registry's certificate is of an authority of the tests, which is appended to those of the image.

Usage: kubelet.py DIR, with the API server in $KUBE, and in $SERVERS ca.pem and the administrator's admin.pem and admin.key."""
import datetime
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request

DIR, KUBE, SERVERS = sys.argv[1], os.environ["KUBE"], os.environ["SERVERS"]
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
TLS = ssl.create_default_context(cafile=f"{SERVERS}/ca.pem")
TLS.load_cert_chain(f"{SERVERS}/admin.pem", f"{SERVERS}/admin.key")
with open(f"{SERVERS}/ca.pem", encoding="utf-8") as authority:
    AUTHORITY = authority.read()


def ask(method, path, body=None, kind="application/json"):
    """The answer as an object; None where there is no such thing, or another one was quicker."""
    request = urllib.request.Request(KUBE + path, method=method, data=json.dumps(body).encode() if body else None,
                                     headers={"Content-Type": kind})
    try:
        with urllib.request.urlopen(request, context=TLS, timeout=20) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        if error.code in (404, 409):
            return None
        raise


def merge(path, body):
    return ask("PATCH", path, body, "application/merge-patch+json")


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def renew(node):
    """The node is there and has room."""
    path, spec = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", {
        "holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": now()}
    if not merge(f"{path}/{node}", {"spec": spec}):
        ask("POST", path, {"metadata": {"name": node}, "spec": spec})
    room = {"cpu": "8", "memory": "16Gi", "pods": "50", "nvidia.com/gpu": "2"}
    conditions = [c for c in ask("GET", f"/api/v1/nodes/{node}")["status"].get("conditions", []) if c["type"] == "Ready"]
    if not conditions or conditions[0]["status"] != "True":  # as a strategic patch, which leaves the conditions of others
        ask("PATCH", f"/api/v1/nodes/{node}/status", {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "capacity": room, "allocatable": room}}, "application/strategic-merge-patch+json")


def pulled(image):
    """The root of an image and its configuration, fetched from the registry once."""
    place = f"{DIR}/images/{image.replace('/', '+').replace(':', '+')}"
    if not os.path.exists(f"{place}/root"):
        subprocess.run(["skopeo", "--insecure-policy", "copy", "-q", f"docker://{image}", f"dir:{place}"], check=True)
        with open(f"{place}/manifest.json", encoding="utf-8") as file:
            manifest = json.load(file)
        os.makedirs(f"{place}/root.new")
        for layer in manifest["layers"]:
            subprocess.run(["tar", "-xpf", f"{place}/{layer['digest'].split(':')[1]}", "-C", f"{place}/root.new"], check=True)
        shutil.copy(f"{place}/{manifest['config']['digest'].split(':')[1]}", f"{place}/config.json")
        os.rename(f"{place}/root.new", f"{place}/root")
    with open(f"{place}/config.json", encoding="utf-8") as file:
        return f"{place}/root", json.load(file)["config"]


def free_port():
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


class Pod:
    """One that runs here."""

    def __init__(self, pod):
        self.pod, self.name, self.node = pod, pod["metadata"]["name"], pod["spec"]["nodeName"]
        self.container, self.namespace = pod["spec"]["containers"][0], pod["metadata"]["namespace"]
        self.path = f"/api/v1/namespaces/{self.namespace}"
        self.dir, self.port, self.starts, self.is_ready = f"{DIR}/pods/{self.name}", free_port(), 0, None
        context = {**pod["spec"].get("securityContext", {}), **self.container.get("securityContext", {})}
        self.is_of_host = pod["spec"].get("hostPID", False)
        self.user = context.get("runAsUser", 0)
        self.volumes = {v["name"]: v for v in pod["spec"].get("volumes", [])}
        rootfs, config = pulled(self.container["image"])
        os.makedirs(f"{self.dir}/volumes")
        subprocess.run(["cp", "-a", rootfs, f"{self.dir}/root"], check=True)
        with open(f"{self.dir}/root/etc/ssl/certs/ca-certificates.crt", "a", encoding="utf-8") as file:
            file.write(AUTHORITY)
        self.environment = self.variables(config)
        self.write_token()
        self.refresh()
        with open(f"{DIR}/ports/{self.name}", "w", encoding="utf-8") as file:
            file.write(f"{self.port}\n")
        self.start()

    def variables(self, config):
        fields = {"spec.nodeName": self.node, "metadata.name": self.name, "metadata.uid": self.pod["metadata"]["uid"],
                  "metadata.namespace": self.namespace}
        ret = dict(word.split("=", 1) for word in config.get("Env", []))
        ret |= {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": KUBE.rsplit(":", 1)[1]}
        for variable in self.container.get("env", []):
            ret[variable["name"]] = variable["value"] if "value" in variable else fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
        if self.is_of_host:
            ret["KMODSMITH_ROOT"] = "/machine"
        if "KMODSMITH_LISTEN" in ret:
            ret["KMODSMITH_LISTEN"] = f":{self.port}"
        return [f"{name}={value}" for name, value in ret.items()]

    def write(self, volume, files):
        os.makedirs(f"{self.dir}/volumes/{volume}", exist_ok=True)
        for name, text in files.items():
            path = f"{self.dir}/volumes/{volume}/{name}"
            with open(f"{path}.new", "w", encoding="utf-8") as file:
                file.write(text)
            os.chown(f"{path}.new", self.user, self.user)
            os.rename(f"{path}.new", path)

    def write_token(self):
        bound = {"apiVersion": "v1", "kind": "Pod", "name": self.name, "uid": self.pod["metadata"]["uid"]}
        token = ask("POST", f"{self.path}/serviceaccounts/{self.pod['spec']['serviceAccountName']}/token", {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"boundObjectRef": bound}})
        self.write("account", {"token": token["status"]["token"], "ca.crt": AUTHORITY, "namespace": self.namespace})

    def refresh(self):
        """The volumes, as the API server has them now."""
        for name, volume in self.volumes.items():
            if "configMap" in volume:
                found = ask("GET", f"{self.path}/configmaps/{volume['configMap']['name']}")
                self.write(name, (found or {}).get("data", {}))
            elif "emptyDir" in volume and not os.path.exists(f"{self.dir}/volumes/{name}"):
                os.makedirs(f"{self.dir}/volumes/{name}")
                os.chown(f"{self.dir}/volumes/{name}", self.user, self.user)

    def start(self):
        account = f"{self.dir}/volumes/account"
        mounts = {"/machine": f"{DIR}/machines/{self.node}", f"/machine{ACCOUNT}": account} if self.is_of_host else {}
        mounts[ACCOUNT] = account
        mounts |= {m["mountPath"]: f"{self.dir}/volumes/{m['name']}" for m in self.container.get("volumeMounts", [])}
        script = ['set -e', 'root=$1 user=$2', 'shift 2', 'mount --rbind "$root" "$root"', 'mount --rbind /dev "$root/dev"',
                  'mount -t proc proc "$root/proc"']
        for inside, outside in mounts.items():
            script.append(f'mkdir -p "$root{inside}"; mount --bind "{outside}" "$root{inside}"')
        script.append('exec env -i "${@:2:$1}" chroot --userspec="$user" "$root" "${@:$1+2}"')
        command = ["unshare", "-m", "--propagation", "private", "bash", "-c", "\n".join(script), "-", f"{self.dir}/root", f"{self.user}:{self.user}",
                   str(len(self.environment)), *self.environment, *self.container["command"], *self.container.get("args", [])]
        self.starts += 1
        with open(f"{DIR}/logs/{self.name}", "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def probe(self, kind):
        """Does it pass? One that is not there does."""
        if kind not in self.container:
            return True
        command = ["env", "-i", *self.environment, "nsenter", f"--target={self.process.pid}", "--mount", "--root", "--wd=/",
                   *self.container[kind]["exec"]["command"]]
        with open(f"{DIR}/logs/{self.name}.{kind}", "wb") as log:
            return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=60).returncode == 0

    def tell(self):
        if self.process.poll() is not None:
            self.start()
        is_ready = self.probe("readinessProbe")
        if is_ready != self.is_ready:
            state = {"name": self.container["name"], "image": self.container["image"], "imageID": "", "ready": is_ready, "restartCount": self.starts - 1,
                     "started": True, "state": {"running": {"startedAt": now()[:19] + "Z"}}}
            conditions = [{"type": kind, "status": str(is_ready or kind == "PodScheduled")} for kind in ("PodScheduled", "Ready", "ContainersReady")]
            merge(f"{self.path}/pods/{self.name}/status", {"status": {"phase": "Running", "conditions": conditions, "containerStatuses": [state]}})
            self.is_ready = is_ready

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
        ask("DELETE", f"{self.path}/pods/{self.name}?gracePeriodSeconds=0")


def main():
    running, due = {}, 0
    for name in ("images", "pods", "ports", "logs"):
        os.makedirs(f"{DIR}/{name}", exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        while True:
            if time.monotonic() >= due:
                due = time.monotonic() + 3
                for node in os.listdir(f"{DIR}/machines"):
                    renew(node)
            there = {p["metadata"]["uid"]: p for p in ask("GET", "/api/v1/namespaces/kmodsmith/pods")["items"] if p["spec"].get("nodeName")}
            for uid, pod in there.items():
                if uid not in running and "deletionTimestamp" not in pod["metadata"]:
                    running[uid] = Pod(pod)
            for uid in [uid for uid in running if uid not in there or "deletionTimestamp" in there[uid]["metadata"]]:
                running.pop(uid).end()
            for pod in running.values():
                pod.refresh()
                pod.tell()
            time.sleep(0.5)
    finally:
        for pod in running.values():
            os.killpg(pod.process.pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
