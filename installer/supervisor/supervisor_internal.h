// SPDX-License-Identifier: Apache-2.0
// What the files of the keeper know of each other. Only they include this.
#pragma once
#include "supervisor/supervisor.h"

enum { SUPERVISOR_RETRY_MS = 1000, SUPERVISOR_NEW_MS = 50, SUPERVISOR_BLIND_MS = 5000 };
#define SUPERVISOR_FAR_MS (1000LL * 60 * 60 * 24 * 365) // until something else changes

// supervisor_start.c; i: of plan
void supervisor_blocked(struct supervisor *k, size_t i, const char *text, int64_t after_ms, int64_t now_ms);
void supervisor_down(struct supervisor *k, size_t i, const char *text,
		     int64_t now_ms); // it ended, or could not be started
bool supervisor_adopt(struct supervisor *k, size_t i, enum supervised_event_kind kind,
		      int64_t now_ms);                               // it runs: it is up
void supervisor_act(struct supervisor *k, size_t i, int64_t now_ms); // whatever is due

// supervisor_log.c
void supervisor_read_output(struct supervisor *k, size_t i); // its output, by line into the log
void supervisor_read_syslog(struct supervisor *k);

// supervisor_watch.c
void supervisor_measure(struct supervisor *k, size_t i, int64_t now_ms);

// supervisor_record.c
void supervisor_write_record(
	struct supervisor *k); // daemons.json, when it would say something new: an idle node writes nothing (P9)
