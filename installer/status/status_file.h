// SPDX-License-Identifier: Apache-2.0
// run/kmodsmith/status.json: what the last run measured, for programs that must not start before the driver is ready
// (R-G5, R-K2, R-E1). The file is replaced as a whole, and has what `status --json` prints, and:
//
//   state     READY only after every post-condition was measured; NOT_READY; FAILED: not ready, and the last run says
//             why; CHANGING: modules are going or coming. READY beside a failed last run: the old driver works.
//   boot_id, build_id   of the kernel; a file of another boot says nothing
//   time      of the writing      since    of the change into this state
//   last_run  {outcome, time, pid, error, phases}; null: none ended yet in this boot. outcome: as of a plan, or
//             "unload". error: null, or code, reason, retryable, text, next.
//   run       {step, subject, since, pid} of a run that is under way, or was ended by force; else null
#pragma once
#include "status/status.h"

// root: of the host in all of these, because the file outlives a pod.
//
// Before a step of a run that changes something. is_touching: of the modules in the kernel, so from now on CHANGING;
// a caller that cannot say so must not go on.
int status_file_step(const struct root *root, const struct host *host, const char *step, const char *subject,
		     bool is_touching, struct err *err);

struct status_file_end {
	const char *outcome;
	const struct progress *progress; // NULL = no phases
	const struct err *failure;       // NULL = all went well
};
// At the end of a run, as measured now. 1 = written, 0 = the file says all of it already.
int status_file_end(const struct root *root, const struct facts *now, const struct status *status,
		    const struct status_file_end *end, struct err *err);

// Between runs, as measured now: the last run stays what it was. 0 = a run is under way and tells for itself.
int status_file_refresh(const struct root *root, const struct facts *now, const struct status *status, struct err *err);

// 1 = read, 0 = there is none of this boot.
int status_file_read(const struct root *root, const char *boot_id, json_t **ret, struct err *err);
