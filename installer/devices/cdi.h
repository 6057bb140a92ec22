// SPDX-License-Identifier: Apache-2.0
// A Container Device Interface specification: what a runtime (containerd, CRI-O, podman) adds to a container that
// asks for nvidia.com/gpu=0, without any toolkit. cdi_read() collects the facts, cdi_json() is pure.
//
// Facts: the CDI specification and its validation (github.com/cncf-tags/container-device-interface: SPEC.md,
// specs-go/version.go, pkg/cdi); what a container needs of the driver, the contract 1.8.
//
// Mounts have their sources below the driver root, where paths stay the same from one generation to the next. A
// running container keeps the files that it was started with: its mounts are of the payload's tree in the state
// directory, which is removed after the last of them is gone (driver_root/driver_root.h).
#pragma once
#include "base/formats/json.h"
#include "devices/nodes.h"

struct cdi_gpu {
	unsigned minor; // of its node
	char *uuid;     // NULL = not known before the GPU is opened for the first time
};

struct cdi_instance {                  // of a GPU that is partitioned (MIG): a compute instance
	unsigned minor;                // of the GPU
	unsigned gi, ci;               // numbers of the GPU instance and of the compute instance in it
	unsigned gi_access, ci_access; // minors of the nodes that give access to them
};

struct cdi_mount {
	char *source, *path; // absolute: on the machine, in the container
	bool is_socket;      // a directory where a daemon has its socket
};

struct cdi {
	struct devices devices; // with verdicts
	struct cdi_gpu *gpus;   // in the order of their PCI addresses, as NVML counts; those that the driver serves
	size_t gpu_count;
	struct cdi_instance *instances; // in the order of gpu, gi, ci
	size_t instance_count;
	char *version; // of the user space
	struct cdi_mount *mounts;
	size_t mount_count;
	struct strv links;   // "TARGET::PATH": names under which libraries are looked for
	struct strv folders; // absolute, in the container: where libraries are
	char *hook;          // absolute, on the machine: this program
};

struct cdi_request {
	const struct root *host, *kern, *dev_root;
	const struct sys *sys;
	const char *export; // below host: "run/nvidia/driver"; "" = the machine's own; NULL = what is exported, if any
	const char *boot;   // id: where export is NULL
};
#define CDI_FILE "/var/run/cdi/kmodsmith.json"
#define CDI_KIND "nvidia.com/gpu"

// E_NOT_READY: no driver is loaded, or the user space is of another version; E_NODES; E_NO_DEVICE: there is no GPU to
// name; E_NOT_FOUND: no libraries, or no program for the hooks.
int cdi_read(const struct cdi_request *w, struct cdi *ret, struct err *err);
json_t *cdi_json(const struct cdi *c);
void cdi_done(struct cdi *c);
#define auto_cdi __attribute__((cleanup(cdi_done)))
