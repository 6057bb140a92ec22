// SPDX-License-Identifier: Apache-2.0
// Whether the driver works, measured: post-conditions one by one (R-K2).
#pragma once
#include "base/formats/json.h"
#include "base/process/node.h"
#include "daemons/daemon_record.h"
#include "devices/nodes.h"
#include "gpu_check/gpu_record.h"
#include "host/facts.h"
#include "journal/optional_modules.h"

struct check {
	const char *name; // "module nvidia", "gpus", "nodes"
	char *evidence;   // "8 of 8"
	bool is_ok;
	int code; // of a failed one with a code of its own; 0 = E_NOT_READY
};

struct status {
	bool has_gpu, is_ready;
	char *compatible; // release that the loaded modules were made for, where it is another one; NULL = it is not
	struct check *checks;
	size_t count;
	struct devices devices;           // with verdicts
	struct gpu_record gpus;           // what was measured of them in this boot; .driver NULL = nothing
	struct optional_modules optional; // modules that failed in this boot and are not loaded; they count for nothing
};

// Compares and changes nothing.
int status_read(const struct facts *facts, const struct node *node, struct status *ret, struct err *err);
// One more post-condition: what the run wanted is what the kernel has. modules may be empty.
void status_check_request(struct status *s, const struct modules *l, const char *driver, enum module_type flavour,
			  const struct strv *modules);
bool status_holds_beside_gpus(const struct status *s); // every post-condition but that of the GPUs
// And one more: the daemons that GPUs cannot be used without are up (R-P1). Not of a run that changes the driver: they
// come after it.
void status_daemons(struct status *s, const struct daemon_record *r, const struct root *kern);
void status_done(struct status *s);
#define auto_status __attribute__((cleanup(status_done)))
const struct check *status_first_failed(const struct status *s); // NULL = none
// What the first failed check asks for; NULL = nothing: ready, or no GPU.
const char *status_next(const struct status *s);
// 0 when ready or without a GPU, else E_NOT_READY, or a code of its own, with the first failed check.
int status_error(const struct status *s, struct err *err);

// What is known about a node, as JSON: for `status --json`, for the results of other commands and for the file that
// stays behind a run (status_file.h). Members that are not known are null.
json_t *status_json_error(const struct err *err);     // code, reason, retryable, text, next
json_t *status_json_phases(const struct progress *w); // [{phase, seconds, note}]
json_t *status_json_compatible(const char *made_for); // {made_for}: of another kernel; else null
json_t *status_json_status(const struct status *s);   // state, ready, compatible, checks, next, nodes, optional
json_t *status_json_all(const struct facts *facts, const struct status *s); // that, and what was read of the machine
