// SPDX-License-Identifier: Apache-2.0
// The state machine of one daemon, on a clock that the caller passes in: pure, so that hours pass in a test at once.
// The caller carries out the actions and reports the events.
#pragma once
#include "base/core/str.h"

enum supervised_state {
	SUPERVISED_WAITING,  // for what it needs; nothing has failed
	SUPERVISED_STARTING, // its program runs but has not reported that it is up
	SUPERVISED_UP,
	SUPERVISED_DOWN, // ended, or could not be started; tried again later
};

enum {
	BACKOFF_FIRST_MS = 1000,
	BACKOFF_MOST_MS = 60 * 1000,
	BACKOFF_RESET_MS = 5 * 60 * 1000, // after this time up, the next end counts as the first
	STARTING_MOST_MS = 5 * 60 * 1000, // eight large GPUs are brought up one after the other
	WAITING_MOST_MS = 5 * 60 * 1000,  // after this it is reported; waiting goes on
	WAITING_POLL_MS = 10 * 1000,
	FOLLOW_MS = 5000, // the subnet manager's socket comes some seconds after its start
};
#define SUPERVISED_NEVER INT64_MAX

struct supervised {
	enum supervised_state state;
	int pid;                  // STARTING: of the program that was started; UP: of the daemon
	uint64_t start;           // proc_start_time() of it
	int64_t since_ms, due_ms; // of the state; of the next action
	int backoff_ms;           // before the next start after an end
	unsigned restarts;        // how often it came up again
	bool was_up, is_told;
	char last[128];    // how it ended last: "exit status 1"; "" = it never did
	char why_not[256]; // of WAITING and DOWN
};
#define SUPERVISED ((struct supervised){ .backoff_ms = BACKOFF_FIRST_MS })

enum supervised_event_kind {
	EVENT_TICK,     // the clock
	EVENT_LAUNCHED, // pid
	EVENT_UP,       // pid, start: by our start
	EVENT_ADOPTED,  // pid, start: it ran already
	EVENT_ENDED,    // text: how; also a start that failed
	EVENT_BLOCKED,  // text: what is missing; after_ms: when to look again
};
struct supervised_event {
	enum supervised_event_kind kind;
	int pid;
	uint64_t start;
	const char *text;
	int64_t after_ms;
};
enum {                    // actions, several at once
	ACTION_START = 1, // start it, or find that it runs already
	ACTION_END = 2,   // it has not come up in time: stop it
	ACTION_AFTER = 4, // it is up for the first time: run what follows its first start
	ACTION_TELL = 8,  // it has waited too long
};
unsigned restart_policy_step(struct supervised *s, const struct supervised_event *e, int64_t now_ms);

// When the daemon that follows may start: now or earlier = it may; SUPERVISED_NEVER = unknown.
int64_t restart_policy_follower_due_ms(const struct supervised *leader);
const char *restart_policy_state_name(enum supervised_state s); // "waiting", "starting", "up", "down"
