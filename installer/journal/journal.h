// SPDX-License-Identifier: Apache-2.0
// The journal of this node, STATE/journal: the change in progress, the last good driver and the failures. It is
// written as a whole and fsynced before each step that changes the kernel, with the boot id and the kernel build id,
// so that a start after a kill or a power cut knows what was intended and what worked last. What is loaded now is
// always read from the kernel: the journal only records intentions, and what another boot wrote is history (R-F3).
#pragma once
#include "host/driver_state.h"

struct journal_failure {
	struct driver_state driver;
	char *code, *text; // "E_LOAD"
	char *time, *boot;
};

enum journal_state {
	JOURNAL_IDLE,
	JOURNAL_CHANGING, // a change has begun and not ended
	JOURNAL_WEDGED,   // a load or unload hangs in the kernel: nothing is tried until the next boot (R-D5)
};

struct journal {
	enum journal_state state;
	char *boot;  // boot id of the writer
	char *step;  // of a change: the one that is next or in progress
	char *since; // of state
	char *text;  // of a wedge: what is stuck
	struct driver_state target,
		previous;  // of a change (or journal_left()); previous: what the kernel had before it
	struct strv boots; // of a change: boots in which it was tried, this one last
	char *rest;        // boot in which the last good driver is not tried, because loading it looks like a boot loop
	struct driver_state last_good;    // the last one that was verified
	char *last_good_boot;             // boot in which it was loaded
	struct journal_failure *failures; // targets that failed and have not changed since, oldest first
	size_t failure_count;
	char *unwritten; // why STATE could not be written, so that it is only in memory; NULL = it is in STATE
};
void journal_done(struct journal *j);
#define auto_journal __attribute__((cleanup(journal_done)))

json_t *journal_json(const struct journal *j);

// While STATE cannot be written, a node without a driver keeps the journal in memory, in run/kmodsmith of the host.
// It is valid for the state directory it was written for, until that can be written again.
// 1 = read, 0 = there is none, or it is damaged, with a warning: it blocks nothing.
int journal_find(const struct root *host, const struct root *state, struct journal *ret, struct err *err);
void journal_mend(const struct root *state); // with the node's lock, before that: a damaged one is set aside
// Writes to STATE or, if the disk is at fault and memory is allowed, to memory. 0 = in STATE, 1 = in memory.
int journal_keep(const struct root *host, const struct root *state, bool is_memory_allowed, struct journal *j,
		 struct err *err);
char *journal_unwritten(const struct root *host); // why; NULL = it is in STATE. Caller frees

// Changes of the document; nothing is written.
void journal_begin(struct journal *j, const char *boot, const struct driver_state *target,
		   const struct driver_state *previous);
void journal_step(struct journal *j, const char *step);
void journal_succeeded(struct journal *j); // the target works: it is the last good one, and its failures are forgotten
void journal_rolled_back(struct journal *j); // the previous driver is back, or nothing could be done
// The target stays loaded, although it is not ready: there is nothing better. A later run may find that it is.
void journal_left(struct journal *j);
void journal_failed(struct journal *j, const struct err *why); // the target is bad until it changes
// The kernel is stuck. If a target is set (loading it hung or oopsed, so not after journal_rolled_back()), this boot
// counts as one that ended in the middle of the change.
void journal_wedge(struct journal *j, const char *boot, const char *text);
// Two boots ended while the last good driver was being restored: it is not tried in this boot, so that an operator
// can inspect the node; the next boot tries again. True = this is new.
bool journal_skip_boot(struct journal *j, const char *boot);

// A change that this boot began and did not end.
bool journal_is_open(const struct journal *j, const char *boot);
// What this boot loaded and left although it was not ready; NULL = nothing.
const struct driver_state *journal_left_loaded(const struct journal *j, const char *boot);
// A driver that was verified, and that no journal of this boot knows: it was lost.
void journal_adopted(struct journal *j, const struct driver_state *driver);
// Nothing may be loaded or unloaded any more in this boot. check: returns E_WEDGED with the reason.
bool journal_is_wedged(const struct journal *j, const char *boot);
int journal_check_wedged(const struct journal *j, const char *boot, struct err *err);
// A change that did not end, in this boot or in an earlier one, which may have ended with a stuck kernel.
bool journal_is_unfinished(const struct journal *j, const char *boot);
// Why a driver must not be tried: it failed and has not changed since, or two boots ended while it was being loaded.
// A GPU that did not start (E_NO_DEVICE) counts for its boot only, because hardware gets repaired. NULL = it may be
// tried. Caller frees.
char *journal_why_not(const struct journal *j, const char *boot, const struct driver_state *target);
