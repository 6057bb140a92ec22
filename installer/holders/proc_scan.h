// SPDX-License-Identifier: Apache-2.0
// One process after the other: the engine below holders.h, made for many workers on one struct scan.
#pragma once
#include "holders/holders.h"

enum { SCAN_MAJORS_MOST = 32 };

// What the kernel's own count of references says.
enum scan_use {
	SCAN_UNKNOWN, // it does not count, or no driver is loaded
	SCAN_IDLE,    // no process has a device open or mapped: only mounts are looked for
	SCAN_IN_USE,
};

// What a driver's device looks like here. Read once, then shared by all workers.
struct scan {
	const struct root *kern;
	int proc;
	enum scan_use use;
	bool is_thorough; // look at private mappings, too, although the drivers' own libraries never make one
	bool is_procfs;   // a recorded proc is a folder whose links must be resolved inside the root
	unsigned majors[SCAN_MAJORS_MOST];
	size_t major_count;
	struct strv drm; // "/dev/dri/card0": nodes of NVIDIA GPUs
};

int scan_open(struct scan *s, const struct root *kern, const struct loaded *loaded, struct err *err);
void scan_done(struct scan *s);
int scan_own_pid(const struct scan *s); // 0 = proc does not tell
char *scan_namespace(const struct scan *s,
		     const char *pid); // mount namespace of a process ("self" too); NULL = unknown

// What one worker found. Namespaces and first_pids belong together: a mount namespace and the first process seen in it.
struct scan_result {
	struct holder *items;
	size_t count;
	struct strv namespaces;
	int *first_pids;
	size_t processes, unreadable;
	char *buffer;
};

void scan_process(const struct scan *s, int pid, struct scan_result *r);
void scan_mounts(const struct scan *s, int pid, struct scan_result *r); // adds holders of kind mount
