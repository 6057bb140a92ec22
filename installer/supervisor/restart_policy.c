// SPDX-License-Identifier: Apache-2.0
#include "supervisor/restart_policy.h"

#include <stdio.h>

static void enter_supervised_state(struct supervised *s, enum supervised_state state, int64_t now_ms, int64_t due_ms)
{
	if (s->state != state || !s->since_ms)
		s->since_ms = now_ms;
	s->state = state;
	s->due_ms = due_ms;
}

unsigned restart_policy_step(struct supervised *s, const struct supervised_event *e, int64_t now_ms)
{
	const char *text = e->text ? e->text : "";
	bool is_late =
		s->state == SUPERVISED_WAITING && s->since_ms && now_ms - s->since_ms >= WAITING_MOST_MS && !s->is_told;
	bool is_first = !s->was_up;
	switch (e->kind) {
	case EVENT_TICK:
		if (now_ms < s->due_ms || s->state == SUPERVISED_UP)
			return 0;
		if (s->state == SUPERVISED_STARTING)
			return ACTION_END;
		s->due_ms = now_ms + WAITING_POLL_MS; // unless the start's event sets another time
		s->is_told = s->is_told || is_late;
		return ACTION_START | (is_late ? ACTION_TELL : 0U);
	case EVENT_LAUNCHED:
		enter_supervised_state(s, SUPERVISED_STARTING, now_ms, now_ms + STARTING_MOST_MS);
		s->pid = e->pid;
		return 0;
	case EVENT_UP:
	case EVENT_ADOPTED:
		enter_supervised_state(s, SUPERVISED_UP, now_ms, SUPERVISED_NEVER);
		s->pid = e->pid;
		s->start = e->start;
		s->restarts += !is_first && e->kind == EVENT_UP;
		s->was_up = true;
		s->is_told = false;
		*s->why_not = '\0';
		return is_first && e->kind == EVENT_UP ? ACTION_AFTER : 0;
	case EVENT_ENDED:
		if (s->state == SUPERVISED_UP && now_ms - s->since_ms >= BACKOFF_RESET_MS)
			s->backoff_ms = BACKOFF_FIRST_MS;
		enter_supervised_state(s, SUPERVISED_DOWN, now_ms, now_ms + s->backoff_ms);
		s->backoff_ms = s->backoff_ms * 2 < BACKOFF_MOST_MS ? s->backoff_ms * 2 : BACKOFF_MOST_MS;
		s->pid = 0;
		s->start = 0;
		snprintf(s->last, sizeof(s->last), "%s", text);
		snprintf(s->why_not, sizeof(s->why_not), "%s", text);
		return 0;
	case EVENT_BLOCKED:
		enter_supervised_state(s, SUPERVISED_WAITING, now_ms, now_ms + e->after_ms);
		snprintf(s->why_not, sizeof(s->why_not), "%s", text);
		return 0;
	}
	return 0;
}

int64_t restart_policy_follower_due_ms(const struct supervised *leader)
{
	return leader->state == SUPERVISED_UP ? leader->since_ms + FOLLOW_MS : SUPERVISED_NEVER;
}

const char *restart_policy_state_name(enum supervised_state s)
{
	static const char *const names[] = { "waiting", "starting", "up", "down" };
	return names[s];
}
