// SPDX-License-Identifier: Apache-2.0
// The scan of single processes for holders.c; many workers share one struct proc_scan.
#pragma once
#include "holders/holders.h"

enum { PROC_SCAN_MAX_MAJORS = 32 };

// What the kernel's reference counts say.
enum proc_scan_use {
	PROC_SCAN_UNKNOWN, // it does not count, or no driver is loaded
	PROC_SCAN_IDLE,    // no process has a device open or mapped: only mounts are looked for
	PROC_SCAN_IN_USE,
};

// What a driver's device looks like here. Read once, then shared by all workers.
struct proc_scan {
	const struct root *kern;
	int proc;
	int own_pid;         // 0 = unknown
	char *own_namespace; // our mount namespace; NULL = unknown
	enum proc_scan_use use;
	bool is_thorough; // look at private mappings, too; the driver's own libraries never make one
	bool is_procfs;   // a recorded proc is a folder whose links must be resolved inside the root
	unsigned majors[PROC_SCAN_MAX_MAJORS];
	size_t major_count;
	struct strv drm; // "/dev/dri/card0": nodes of NVIDIA GPUs
};

int proc_scan_open(struct proc_scan *s, const struct root *kern, const struct modules *loaded, struct err *err);
void proc_scan_done(struct proc_scan *s);

// What one worker found. Namespaces and first_pids belong together: a mount namespace and the first process seen in it.
struct proc_scan_result {
	struct holder *items;
	size_t count;
	struct strv namespaces;
	int *first_pids;
	size_t processes, unreadable;
	char *buffer;
};

void proc_scan_process(const struct proc_scan *s, int pid, struct proc_scan_result *r);
void proc_scan_mounts(const struct proc_scan *s, int pid, struct proc_scan_result *r); // adds holders of kind mount
