// SPDX-License-Identifier: Apache-2.0
// What becomes of this node when it starts one of its other kernels, said before any reboot:
// run/kmodsmith/kernels.json for whoever asks (status, doctor, an agent that tells the cluster),
// run/kmodsmith/metrics/kernels.prom for a collector of text files, and, where the site wishes it,
// run/kmodsmith/reboot-blocked while the next kernel cannot be served.
//
// The record is of this boot; what another boot wrote says nothing (R-F3). Each file appears whole, and only when it
// says something new.
#pragma once
#include "base/file/digest.h"
#include "base/formats/json.h"

enum forecast_verdict {
	FORECAST_READY,       // its package is in the store and was proven for it: the start is a load
	FORECAST_BUILDING,    // now
	FORECAST_NEEDS_BUILD, // and nothing known stands in the way; code: the last try failed
	FORECAST_INCOMPLETE,  // the kernel itself is not whole yet
	FORECAST_IMPOSSIBLE,  // as things are; code says why
};
const char *forecast_verdict_name(enum forecast_verdict v); // "ready", "building", "needs-build", ...

struct forecast_kernel {
	char *release;
	char *where; // below the host's root; "" = the host's own
	bool is_next;
	enum forecast_verdict verdict;
	int code;                   // 0 = nothing is in the way
	char *evidence;             // one line
	char *package;              // FORECAST_READY: digest of its manifest
	char stamp[DIGEST_HEX + 1]; // of what the verdict rests on
	unsigned tries;             // compiles that failed for a reason that may pass
	int64_t not_before_s;       // of the next one, on the clock that does not stand still in a sleep
};
struct forecast {
	char *running, *driver;        // driver: that is looked after; NULL = none is wished
	char *next, *next_by;          // what the boot loader starts; NULL = not known
	bool is_gated;                 // the site wants no reboot into a kernel that cannot be served
	struct forecast_kernel *items; // in the order in which they matter
	size_t count;
};
void forecast_done(struct forecast *f);
#define auto_forecast __attribute__((cleanup(forecast_done)))

const struct forecast_kernel *forecast_find(const struct forecast *f, const char *release);
void forecast_say(struct forecast_kernel *k, enum forecast_verdict verdict, int code, const char *evidence);
// The one that the next boot starts: what the boot loader says; where it is not known, the newest one. NULL = it is the
// running one, or there is no other.
const struct forecast_kernel *forecast_next(const struct forecast *f);
// One line for people: "6.1.0-56 starts next: impossible: E_SOURCE_KERNEL: ...". Caller frees.
char *forecast_text(const struct forecast_kernel *k);

// host: root of the host. 1 = written, 0 = it says all of it already.
int forecast_write(const struct root *host, const char *boot_id, const struct forecast *f, struct err *err);
int forecast_read(const struct root *host, const char *boot_id, struct forecast *ret,
		  struct err *err); // 0 = there is none
json_t *forecast_json(const struct forecast *f);
