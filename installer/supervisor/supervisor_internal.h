// SPDX-License-Identifier: Apache-2.0
// What the files of the keeper know of each other. Only they include this.
#pragma once
#include "supervisor/supervisor.h"

enum { KEEPER_RETRY_MS = 1000, KEEPER_NEW_MS = 50, KEEPER_BLIND_MS = 5000 };
#define KEEPER_FAR_MS (1000LL * 60 * 60 * 24 * 365) // until something else changes

// supervisor_start.c; i: of plan
void keeper_blocked(struct keeper *k, size_t i, const char *text, int64_t after_ms, int64_t now_ms);
void keeper_down(struct keeper *k, size_t i, const char *text, int64_t now_ms); // it ended, or could not be started
bool keeper_adopt(struct keeper *k, size_t i, enum supervised_kind kind, int64_t now_ms); // it runs: it is up
void keeper_act(struct keeper *k, size_t i, int64_t now_ms);                              // whatever is due

// supervisor_log.c
void keeper_read(struct keeper *k, size_t i); // its output, by line into the log
void keeper_read_syslog(struct keeper *k);

// supervisor_watch.c
void keeper_measure(struct keeper *k, size_t i, int64_t now_ms);

// supervisor_record.c
void keeper_write(struct keeper *k); // daemons.json, when it would say something new: an idle node writes nothing (P9)
