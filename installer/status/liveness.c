// SPDX-License-Identifier: Apache-2.0
#include "status/liveness.h"

#include "base/core/date.h"
#include "base/process/boot_record.h"

#include <stdio.h>

#define PULSE "%s/pulse.json"
enum { SECOND_MS = 1000, TURN_MS = 5000 };

// The letter after the name, which may contain anything: "4711 (name) S ..."; 0 = no such process. start: field 22 of
// proc_pid_stat(5), which distinguishes the next container's process 1 from the last one's.
static char process_state(const struct root *kern, int pid, uint64_t *ret_start)
{
	enum { STATE = 3, START = 22 };
	struct err ignored;
	auto_str char *path = str_fmt("proc/%d/stat", pid), *text = NULL;
	const char *at = root_read(kern, path, &text, NULL, &ignored) > 0 ? strrchr(text, ')') : NULL;
	*ret_start = 0;
	if (!at || at[1] != ' ')
		return '\0';
	char state = *(at += 2);
	for (int i = STATE; at && i < START; i++)
		at = (at = strchr(at, ' ')) ? at + 1 : NULL;
	if (at)
		*ret_start = strtoull(at, NULL, 10);
	return state;
}

void liveness_open(struct liveness *p, const struct root *root, const char *dir, const struct root *kern)
{
	*p = (struct liveness){ .root = root, .dir = dir, .boot_id = boot_record_id(kern) };
	process_state(kern, (int)getpid(), &p->start);
}

void liveness_done(struct liveness *p)
{
	free(p->boot_id);
	*p = (struct liveness){ 0 };
}

void liveness_beat(struct liveness *p, const char *step, unsigned done, unsigned total)
{
	struct err ignored;
	int64_t now = clock_ms();
	bool is_turn = str_eq(step, LIVENESS_TURN);
	if ((done > 1 && done < total && now - p->beat_ms < SECOND_MS) ||
	    (is_turn && p->beat_ms && now - p->beat_ms < TURN_MS))
		return;
	p->beat_ms = now;
	auto_json json_t *json =
		json_pack("{s:i, s:I, s:s, s:i, s:i, s:I}", "pid", (int)getpid(), "start", (json_int_t)p->start, "step",
			  step, "done", (int)done, "total", (int)total, "uptime_ms", (json_int_t)now);
	auto_str char *file = str_fmt(PULSE, p->dir);
	if (boot_record_write(p->root, file, p->boot_id, json, &ignored) < 0)
		root_unlink(p->root, file, &ignored);
}

static void judge_pulse(struct liveness_verdict *v, char state, unsigned stall_s)
{
	bool is_gone = !state || strchr("ZXx", state), is_turning = str_eq(v->step, LIVENESS_TURN);
	v->is_alive = is_gone;
	v->is_agent_down = !is_gone && str_eq(v->step, LIVENESS_AGENT_DOWN);
	v->is_serving = !is_gone && (v->is_agent_down || str_eq(v->step, LIVENESS_SERVE));
	if (is_gone)
		v->why = str_fmt("process %d is gone, and the next start has not begun yet", v->pid);
	else if (strchr("Tt", state))
		v->why = str_fmt("process %d is stopped in %s", v->pid, v->step);
	else if (is_turning && v->age_s > stall_s)
		v->why = str_fmt("process %d has hung for %lld s", v->pid, (long long)v->age_s);
	else if (v->done < v->total && v->age_s > stall_s)
		v->why = str_fmt("%s has made no progress for %lld s: %u of %u", v->step, (long long)v->age_s, v->done,
				 v->total);
	else
		v->is_alive = true;
	if (!v->why && (is_turning || v->is_serving))
		v->why = str_fmt("process %d %s", v->pid, is_turning ? "is alive" : "serves");
	if (!v->why)
		v->why = str_fmt("process %d is in %s, %u of %u, %lld s ago", v->pid, v->step, v->done, v->total,
				 (long long)v->age_s);
}

int liveness_check(const struct root *root, const char *dir, const struct root *kern, unsigned stall_s,
		   struct liveness_verdict *ret, struct err *err)
{
	auto_json json_t *json = NULL;
	auto_str char *boot_id = NULL, *file = str_fmt(PULSE, dir);
	const char *step = NULL;
	json_int_t beat = 0, start = 0;
	uint64_t now_start;
	*ret = (struct liveness_verdict){ 0 };
	if (root_line(kern, "proc/sys/kernel/random/boot_id", &boot_id, err) < 0 ||
	    boot_record_read(root, file, boot_id, &json, err) < 0)
		return -1;
	if (!json || json_unpack(json, "{s:i, s?:I, s:s, s:i, s:i, s:I}", "pid", &ret->pid, "start", &start, "step",
				 &step, "done", &ret->done, "total", &ret->total, "uptime_ms", &beat) < 0) {
		*ret = (struct liveness_verdict){ .is_alive = true,
						  .why = str_dup("nothing was started in this boot") };
		return 0;
	}
	ret->step = str_dup(step);
	ret->age_s = (clock_ms() - beat) / SECOND_MS;
	char state = process_state(kern, ret->pid, &now_start);
	bool is_another = start && now_start && (uint64_t)start != now_start;
	judge_pulse(ret, is_another ? '\0' : state, stall_s);
	return 0;
}

void liveness_verdict_done(struct liveness_verdict *v)
{
	free(v->step);
	free(v->why);
	*v = (struct liveness_verdict){ 0 };
}
