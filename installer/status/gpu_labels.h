// SPDX-License-Identifier: Apache-2.0
// Labels of a node's GPUs, by the names that NVIDIA's GPU feature discovery (GFD) gives them, as far as they are known
// without CUDA: a file for the local source of Node Feature Discovery (NFD), whose worker makes labels of it. Without a
// driver that is ready there is none, and beside GFD's own there is none.
//
// Facts: NVIDIA/k8s-device-plugin, docs/gpu-feature-discovery/README.md (the names, and its file features.d/gfd);
// kubernetes-sigs/node-feature-discovery, customization guide, local feature source (a line is NAME=VALUE).
#pragma once
#include "base/formats/json.h"

#define GPU_LABELS_DIR "etc/kubernetes/node-feature-discovery/features.d"
// status: as in status_file.h, NULL = none of this boot. NULL = no labels. Caller frees.
char *gpu_labels_text(const json_t *status, const struct root *kern);
// text NULL: the file is removed. 1 = it changed.
int gpu_labels_write(const struct root *host, const char *text, struct err *err);
