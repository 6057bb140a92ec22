// SPDX-License-Identifier: Apache-2.0
// What a node had when it was cordoned and has to have again before it is uncordoned: the GPU resources that were
// allocatable, and operands. Pure; texts, since that is what the Node keeps.
#pragma once
#include "base/formats/json.h"

enum { RESOURCES_TEXT = 96, BASELINE_TEXT = 144, SHORTAGE_TEXT = 96 };

// Words of a baseline, after the resources.
#define BASELINE_PLUGIN "device-plugin"         // it was Ready, and no resource was allocatable
#define BASELINE_MIG "mig-manager"              // it had partitioned the GPUs, or was about to
#define BASELINE_VALIDATOR "operator-validator" // it was Ready
#define BASELINE_DEVICES "devices"              // with a number: of DRA

// "gpu=8,mig-1g.10gb=7": nvidia.com/gpu* and nvidia.com/mig-* of status.allocatable, by name, without "nvidia.com/" and
// without those of which there is none. Others of NVIDIA's names are no GPUs of ours: RDMA, passed-through devices.
// Names for which there is no room are left out.
void baseline_read_resources(const json_t *allocatable, char ret[RESOURCES_TEXT]);

bool baseline_has(const char *baseline, const char *word);
uint64_t baseline_count(const char *baseline, const char *word); // 0 = it is not there
void baseline_add(char baseline[BASELINE_TEXT], const char *word);

// Whether all resources of the baseline are there. Time-slicing, MPS and MIG change names and numbers: a name that is
// gone is back as others that were not there before, and those make up one for one for a name that is short.
// ret_short: the first that is not back, as "nvidia.com/gpu 7 of 8".
bool baseline_is_allocatable(const char *baseline, const char *now, char ret_short[SHORTAGE_TEXT]);
