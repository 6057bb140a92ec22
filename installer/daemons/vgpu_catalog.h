// SPDX-License-Identifier: Apache-2.0
// Which guest driver fits the host of a virtual GPU: by what the host's vGPU manager writes into a vendor-specific
// capability of the device, and by NVIDIA's catalogue (vgpuDriverCatalog.yaml of its vGPU software). Facts:
// gpu-driver-container 06a208c, vgpu/src/vgpu-util.go. Where its lists of allowed and denied drivers are read the wrong
// way round there, they mean here what they say.
#pragma once
#include "base/file/root.h"
#include "base/formats/json.h"

struct vgpu_host {
	char version[11], branch[11]; // of its vGPU manager: "550.90.05", "R550_U1"
	char device[8], subsystem[8]; // of the virtual GPU, as sysfs has them: "0x2330"
};

// From a device's configuration space. False: this is no virtual GPU that tells its host's version. Pure.
bool vgpu_host_parse(const unsigned char *config, size_t len, struct vgpu_host *ret);
// Of the first virtual GPU. 1 = it tells, 0 = there is none.
int vgpu_host_read(const struct root *kern, struct vgpu_host *ret, struct err *err);

// Of these versions the one that fits: of the host's branch, if there is one, else the newest. E_NOT_FOUND: none does,
// and why. arch: `uname -m`. Pure; caller frees.
int vgpu_catalog_choose(const json_t *catalog, const struct vgpu_host *host, const char *arch,
			const struct strv *versions, char **ret, struct err *err);
