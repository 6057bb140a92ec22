// SPDX-License-Identifier: Apache-2.0
// What was measured last: run/kmodsmith/gpus.json of the host for this boot, and STATE/gpus.json, which outlives it, so
// that a driver with which a GPU worked before a reboot is not blamed when it fails after it.
//   {boot_id, driver, flavour, load, time, allowed_missing, waived, seconds, gpus: [...]} (gpu_results_json)
#pragma once
#include "gpu_check/gpu_start.h"

struct gpu_record {
	char *driver, *flavour; // that was loaded
	uint64_t load;          // as modules.load; 0 = any: it was waived
	char *time;             // date_text()
	unsigned allowed;       // how many may be broken and the node is ready all the same
	bool is_waived;         // nothing was measured, and the node is ready all the same (--gpu-check none)
	struct gpu_results results;
};
void gpu_record_done(struct gpu_record *r);
#define auto_gpu_record __attribute__((cleanup(gpu_record_done)))

// 1 = read, 0 = there is none (of this boot), or it is damaged.
int gpu_record_read(const struct root *host, const char *boot_id, struct gpu_record *ret, struct err *err);
int gpu_record_last(const struct root *state, struct gpu_record *ret, struct err *err);
// Both files; state may be NULL. The first failure is returned, after both were tried.
int gpu_record_write(const struct root *host, const struct root *state, const char *boot_id, const struct gpu_record *r,
		     struct err *err);
// What was measured in this boot no longer counts, and this driver, the loaded one, needs no measurement.
int gpu_record_waive(const struct root *host, const char *boot_id, const struct modules *loaded, struct err *err);
bool gpu_record_is_of(const struct gpu_record *r, const char *driver, const char *flavour);
// Measured since this driver was loaded.
bool gpu_record_is_valid(const struct gpu_record *r, const struct modules *loaded);
json_t *gpu_record_json(const struct gpu_record *r);

struct gpu_check { // borrowed
	struct gpu_start start;
	enum gpu_level deepest; // as far as there is user space; a GPU that cannot be asked stays at the level before
	int fabric_ms;          // how long an NVLink fabric that is not ready is waited for, after which its GPUs are
				// untested; 0 = they stay at the level before, too
};
// Measures now: 0 with the record, whatever it says. E_GPU_PENDING: a start that began earlier has not ended.
int gpu_record_measure(const struct gpu_check *check, struct gpu_record *ret, struct gpu_holds *ret_holds,
		       struct err *err);

// 0 when the node can be ready with these GPUs; E_GPU_PENDING, E_GPU_START, E_GPU_FAULT (it starts, and does not answer
// or compute), E_GPU_UNTESTED: "7 of 8 start; ...".
int gpu_record_check(const struct gpu_record *r, struct err *err);
