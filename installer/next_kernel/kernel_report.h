// SPDX-License-Identifier: Apache-2.0
// Whether this node has a driver for each of its other kernels, known before any reboot: run/kmodsmith/kernels.json for
// readers (status, doctor, an agent that reports to the cluster), run/kmodsmith/metrics/kernels.prom for a collector of
// text files, and, if the site wants it, run/kmodsmith/reboot-blocked while one that may start next cannot be served.
//
// The record is of this boot; what another boot wrote says nothing (R-F3). Each file appears whole, and only when it
// says something new.
#pragma once
#include "base/file/digest.h"
#include "base/formats/json.h"

enum kernel_verdict {
	KERNEL_READY,       // its package is in the store and was proven for it: the start is a load
	KERNEL_BUILDING,    // now
	KERNEL_NEEDS_BUILD, // and nothing known stands in the way; code: the last try failed
	KERNEL_INCOMPLETE,  // the kernel itself is not whole yet
	KERNEL_IMPOSSIBLE,  // as things are; code says why
};
const char *kernel_verdict_name(enum kernel_verdict v); // "ready", "building", "needs-build", ...

struct kernel_report_entry {
	char *release;
	char *where;  // below the host's root; "" = the host's own
	bool is_next; // may start next: see struct boot_candidate
	enum kernel_verdict verdict;
	int code;                   // 0 = nothing is in the way
	char *evidence;             // one line
	char *package;              // KERNEL_READY: digest of its manifest
	char stamp[DIGEST_HEX + 1]; // of what the verdict rests on
	unsigned tries;             // compiles that failed for a reason that may pass
	int64_t not_before_s;       // of the next one, on the clock that does not stand still in a sleep
};
struct kernel_report {
	char *running, *driver;            // driver: that packages are built of; NULL = none is requested
	bool is_gated;                     // the site wants no reboot into a kernel that cannot be served
	struct kernel_report_entry *items; // in the order in which they matter
	size_t count;
};
void kernel_report_done(struct kernel_report *f);
#define auto_kernel_report __attribute__((cleanup(kernel_report_done)))

const struct kernel_report_entry *kernel_report_find(const struct kernel_report *f, const char *release);
void kernel_report_set(struct kernel_report_entry *k, enum kernel_verdict verdict, int code, const char *evidence);
// What stands for the next boot: of the kernels that may start next the first one without a package, else the first.
// NULL = there is none.
#define NO_NEWER_KERNEL "no kernel newer than the running one is installed"
const struct kernel_report_entry *kernel_report_next(const struct kernel_report *f);
// One line for people: "6.1.0-56 may start next: impossible: E_SOURCE_KERNEL: ...". Caller frees.
char *kernel_report_line(const struct kernel_report_entry *k);

// host: root of the host. 1 = written, 0 = the files are up to date.
int kernel_report_write(const struct root *host, const char *boot_id, const struct kernel_report *f, struct err *err);
int kernel_report_read(const struct root *host, const char *boot_id, struct kernel_report *ret,
		       struct err *err); // 0 = there is none
json_t *kernel_report_json(const struct kernel_report *f);
