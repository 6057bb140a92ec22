// SPDX-License-Identifier: Apache-2.0
// The init container of the GPU Operator's driver pods by our own rules: `driver-manager uninstall_driver`, with the
// environment, labels and exit statuses of NVIDIA/k8s-driver-manager v0.12.0 (contract 2). Where NVIDIA's takes the
// driver out whenever the pod's configuration has another digest, and looks at nothing before, this one asks first
// whether the kernel has already what the driver's container would load, and stages and proves the next driver while
// the present one serves.
#pragma once
#include "cmd/common/job.h"

struct driver_manager_values {
	struct job_values job;
	char *termination_log, *config_digest, *node, *namespace, *kubelet_dir;
	char *drain_timeout, *drain_selector, *operand_label;
	bool is_evicting, is_draining, is_forced, deletes_empty_dir, is_reinstall, is_without_daemons;
};

int driver_manager_main(int argc, char **argv); // exit status; called as `driver-manager`

// "5m", "1h30m", "0s", as Go writes durations, or seconds alone; NULL and "" are 0. E_USAGE.
int driver_manager_seconds(const char *text, unsigned *ret, struct err *err);

enum driver_manager_outcome {
	DRIVER_MANAGER_KEPT, // the kernel has what is requested, or no driver
	DRIVER_MANAGER_UNLOADED,
};
struct driver_manager_result {
	enum driver_manager_outcome end;
	char *why; // for people
	struct strv unloaded;
};
void driver_manager_result_done(struct driver_manager_result *r);
#define auto_driver_manager_result __attribute__((cleanup(driver_manager_result_done)))

// cmd: whose values these are: they are read again once the environment of the driver's container is known. is_change:
// false = prove only, and write nothing but the store.
int driver_manager_run(const struct cmd *cmd, struct driver_manager_values *v, bool is_change,
		       struct driver_manager_result *ret, struct err *err);
