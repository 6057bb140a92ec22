// SPDX-License-Identifier: Apache-2.0
// Device nodes that belong to GPUs and that others make: they are found, and never made or corrected. Only character
// devices with the number that the kernel names for them count.
#pragma once
#include "base/process/node.h"
#include "devices/nodes.h"

// The DRM nodes of the GPU at a PCI address ("0000:40:00.0"), "dri/card0" and "dri/renderD128": the kernel makes them
// once nvidia-drm serves the GPU (drivers/gpu/drm/drm_drv.c, drm_minor_alloc(), and drm_sysfs.c, drm_devnode()).
int found_drm_nodes(const struct node *node, const char *address, struct devices *ret, struct err *err);

// The nodes of IMEX channels, "nvidia-caps-imex-channels/channel7": ours (--imex-channels), and those of whoever hands
// channels out one by one.
int found_imex_channels(const struct node *node, struct devices *ret, struct err *err);
