// SPDX-License-Identifier: Apache-2.0
// Progress of long operations: phases with their times, and progress inside a phase (R-K3, R-H1).
#pragma once
#include "base/formats/json.h"

struct phase {
	char *name; // "compile"
	char *note; // its result: "nvidia, nvidia-uvm with gcc-12, 2 jobs"
	double seconds;
	json_t *facts; // of the note, for programs: {"gpus": 8}; NULL = none
};

struct progress {
	void (*enter)(void *ctx, const char *name);                                   // NULL = none; may be NULL
	void (*phase)(void *ctx, const struct phase *ended);                          // may be NULL
	void (*progress)(void *ctx, const char *what, unsigned done, unsigned total); // may be NULL
	void (*note)(void *ctx, const char *text); // one event worth a log line; may be NULL
	void *ctx;
	void (*tick)(void *ctx); // at each of these calls: periodic work; may be NULL
	void *tick_ctx;
	struct phase *phases;
	size_t count;
	const char *entered; // the phase that runs, when it was named before its end; else NULL
	double started;      // of the phase that runs
	json_t *facts;       // of the phase that ends next
};

void progress_begin(struct progress *w);
void progress_tick(const struct progress *w); // during what is not counted: the periodic work alone
// Starts a phase by name: notes until its end belong to it. name must stay valid.
void progress_enter(struct progress *w, const char *name);
// A phase that was entered and has not ended has failed: recorded with its time.
void progress_fail(struct progress *w);
void progress_facts(struct progress *w, json_t *take); // of the phase that ends next
void progress_end(struct progress *w, const char *name, const char *note, ...) PRINTF(3, 4);
void progress_count(struct progress *w, const char *what, size_t done, size_t total);
void progress_note(struct progress *w, const char *fmt, ...) PRINTF(2, 3);
void progress_done(struct progress *w);
#define auto_progress __attribute__((cleanup(progress_done)))
