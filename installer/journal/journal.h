// SPDX-License-Identifier: Apache-2.0
// What is being done to this node, and what came of it: STATE/journal. Written whole and fsynced before each step that
// changes the kernel, with the boot and the kernel build it belongs to, so that a start after a kill or a power cut
// knows what was meant and what worked last. What the kernel has now is always asked of the kernel: the journal tells
// intentions, and what another boot wrote is history (R-F3).
#pragma once
#include "host/driver_state.h"

struct journal_failure {
	struct driver_state driver;
	char *code, *text; // "E_LOAD"
	char *time, *boot;
};

enum journal_state {
	JOURNAL_IDLE,
	JOURNAL_CHANGING, // a change was begun and not ended
	JOURNAL_WEDGED,   // a load or unload did not come back: nothing is tried until the next boot (R-D5)
};

struct journal {
	enum journal_state state;
	char *boot;                           // boot id of who wrote it
	char *step;                           // of a change: which is about to happen, or was under way
	char *since;                          // of state
	char *text;                           // of a wedge: what is stuck
	struct driver_state target, previous; // of a change; previous: what the kernel had before it
	struct strv boots;                    // of a change: boots in which it was tried, this one last
	char *rest;                           // of a way back that is a loop: the boot in which it is not tried
	struct driver_state last_good;        // measured right, last
	char *last_good_boot;                 // boot in which it was loaded
	struct journal_failure *failures;     // targets that failed and have not changed since, oldest first
	size_t failure_count;
	char *unwritten; // it is in memory only: why STATE could not be written; NULL = it is in STATE
};
void journal_done(struct journal *j);
#define auto_journal __attribute__((cleanup(journal_done)))

// 1 = read, 0 = there is none, or nothing that can be understood: a journal that says nothing stops nobody.
int journal_read(const struct root *state, struct journal *ret, struct err *err);
json_t *journal_json(const struct journal *j);
int journal_write(const struct root *state, const struct journal *j, struct err *err);

// While STATE cannot be written, a node without a driver has the journal in memory, in run/kmodsmith of the host. It
// counts for the state directory that it was written for, until that can be written again. As journal_read().
int journal_find(const struct root *host, const struct root *state, struct journal *ret, struct err *err);
// In STATE, else, where that is the disk's fault and allowed, in memory. 0 = in STATE, 1 = in memory.
int journal_keep(const struct root *host, const struct root *state, bool is_memory_allowed, struct journal *j,
		 struct err *err);
char *journal_unwritten(const struct root *host); // why, for who only looks; NULL = it is in STATE. Caller frees

// Changes of the document; nothing is written.
void journal_begin(struct journal *j, const char *boot, const struct driver_state *target,
		   const struct driver_state *previous);
void journal_step(struct journal *j, const char *step);
void journal_succeeded(struct journal *j); // the target works: it is the last good one, and its failures are forgotten
void journal_rolled_back(struct journal *j);                   // the previous driver is back, or nothing could be done
void journal_failed(struct journal *j, const struct err *why); // the target is bad until it changes
// The kernel is stuck. With a target (a load of it hangs or oopsed, so not after journal_rolled_back()) the boot counts
// as one that ended in the middle of the change.
void journal_wedge(struct journal *j, const char *boot, const char *text);
// The last good driver was on its way back when two boots ended: in this one it is left alone, so that somebody can
// look at the node, and the next boot tries again. True = that is new.
bool journal_skip_boot(struct journal *j, const char *boot);

// A change that this boot began and did not end.
bool journal_is_open(const struct journal *j, const char *boot);
// Nothing may be loaded or unloaded in this boot any more. check: E_WEDGED then, with what happened.
bool journal_is_wedged(const struct journal *j, const char *boot);
int journal_check_wedged(const struct journal *j, const char *boot, struct err *err);
// A change that was begun and not ended, in this boot or in another one, which may have ended with a stuck kernel.
bool journal_is_unfinished(const struct journal *j, const char *boot);
// Why a driver is not to be tried: it failed and is the same still, or two boots ended while it was being put in
// (which may be its doing). That a GPU did not start (E_NO_DEVICE) is of its boot: hardware gets repaired. NULL = it
// may be tried. Caller frees.
char *journal_why_not(const struct journal *j, const char *boot, const struct driver_state *target);
