// SPDX-License-Identifier: Apache-2.0
// The init container of the GPU Operator's driver pods by our own rules: `driver-manager uninstall_driver`, with the
// environment, labels and exit statuses of NVIDIA/k8s-driver-manager v0.12.0 (contract 2). NVIDIA's unloads the driver
// whenever the digest of the pod's configuration has changed, without any check. This one first checks whether the
// kernel already has what the driver's container would load, and stages and proves the next driver while the present
// one serves.
#pragma once
#include "base/core/err.h"

int driver_manager_main(int argc, char **argv); // exit status; called as `driver-manager`

// "5m", "1h30m", "0s", as Go writes durations, or seconds alone; NULL and "" are 0. E_USAGE.
int driver_manager_seconds(const char *text, unsigned *ret, struct err *err);
