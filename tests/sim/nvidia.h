// SPDX-License-Identifier: Apache-2.0
// NVIDIA's GPU Operator beside the coordinator: its driver DaemonSet with a pod on each node with the label
// nvidia.com/gpu.deploy.driver=true, its annotation, and its upgrade controller (nvidia.def), with counters.
#pragma once
#include "tests/sim/farm.h"

#define NVIDIA_STATE "nvidia.com/gpu-driver-upgrade-state"
#define NVIDIA_ENABLED "nvidia.com/gpu-driver-upgrade-enabled"
#define NVIDIA_NOTE "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable"

struct nvidia {
	struct farm *farm;
	bool has_driver;   // driver.enabled of the ClusterPolicy
	bool auto_upgrade; // driver.upgradePolicy.autoUpgrade; true is the chart's default
	unsigned config;   // of the DaemonSet's template, its DRIVER_CONFIG_DIGEST; an increment is an upgrade
	unsigned labels;   // of the same template; an increment is a change of nothing but those
	unsigned cordons, evictions, uncordons, restarts;
};
// From now on, until the farm ends; all nodes get the labels of GPU nodes.
void nvidia_begin(struct farm *f, struct nvidia *ret, bool has_driver, bool auto_upgrade);
const char *nvidia_word(const struct farm *f, unsigned node); // of the label; "" = none
