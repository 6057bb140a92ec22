// SPDX-License-Identifier: Apache-2.0
// pulse.json shows that a process makes progress, for `kmodsmith probe liveness` (R-H2). `init` writes it below the
// host's run/kmodsmith while it works, at most once a second, and a last time when it only waits. A coordinator
// writes it in a directory of its own, every few seconds as long as its loop turns.
#pragma once
#include "base/file/root.h"

struct liveness {
	const struct root *root; // borrowed
	const char *dir;         // in it
	char *boot_id;
	uint64_t start; // of this process, in the kernel's ticks; 0 = it cannot be read
	int64_t beat_ms;
};

#define LIVENESS_DIR "run/kmodsmith" // of the host
void liveness_open(struct liveness *p, const struct root *root, const char *dir, const struct root *kern);
void liveness_done(struct liveness *p);
#define auto_liveness __attribute__((cleanup(liveness_done)))
// step: the phase; LIVENESS_SERVE: only waiting from now on; LIVENESS_TURN: from now on it beats. If it cannot be
// written it is removed, so that a full disk does not look like a hung process.
void liveness_beat(struct liveness *p, const char *step, unsigned done, unsigned total);
#define LIVENESS_SERVE "serve"
#define LIVENESS_TURN "turn"
#define LIVENESS_AGENT_DOWN "agent down" // as LIVENESS_SERVE, but its agent does not stay up

struct liveness_verdict {
	bool is_alive;
	bool is_serving;      // its start is complete, and it waits
	bool is_agent_down;   // and nobody carries out a rollout's orders
	int pid;              // 0 = nothing was started in this boot
	char *step;           // NULL = nothing
	unsigned done, total; // total 0 = the step does not count
	int64_t age_s;        // since the last beat
	char *why;
};
// A process is dead if it is stopped, or has made no progress for stall_s. A step without a count, such as a wait for
// holders, has its own deadlines, and a kill would only restart it. A process that has ended took its container with
// it: the probe runs in the next one.
int liveness_check(const struct root *root, const char *dir, const struct root *kern, unsigned stall_s,
		   struct liveness_verdict *ret, struct err *err);
void liveness_verdict_done(struct liveness_verdict *v);
#define auto_liveness_verdict __attribute__((cleanup(liveness_verdict_done)))
