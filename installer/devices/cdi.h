// SPDX-License-Identifier: Apache-2.0
// A Container Device Interface specification: what a runtime (containerd, CRI-O, podman) adds to a container that
// asks for nvidia.com/gpu=0, without any toolkit.
//
// Facts: the CDI specification and its validation (github.com/cncf-tags/container-device-interface: SPEC.md,
// specs-go/version.go, pkg/cdi); what a container needs of the driver, the contract 1.8.
//
// Mounts have their sources below the driver root, where paths stay the same from one generation to the next. A
// running container keeps the files that it was started with: its mounts refer to the payload's tree in the state
// directory, which is removed after the last of them is gone (driver_root/driver_root.h).
#pragma once
#include "base/formats/json.h"
#include "base/process/node.h"

#define CDI_FILE "/var/run/cdi/kmodsmith.json"
#define CDI_KIND "nvidia.com/gpu"
#define CDI_IMEX_KIND "nvidia.com/imex-channel"

// E_NOT_READY: no driver is loaded, or the user space is of another version; E_NODES; E_NO_DEVICE: there is no GPU to
// name; E_NOT_FOUND: no libraries, or no program for the hooks. export: where the user space is, below host
// ("run/nvidia/driver"); "" = the machine's own; NULL = what is exported, if any.
int cdi_spec(const struct node *node, const char *export, json_t **ret, struct err *err);

// IMEX channels by number, as NVIDIA's toolkit names them (pkg/nvcdi/lib-imex.go): a file has one kind only, and a
// container asks for channels beside its GPUs. 1 = made, 0 = there is no channel's node.
int cdi_imex_spec(const struct node *node, json_t **ret, struct err *err);
