// SPDX-License-Identifier: Apache-2.0
// How phases and status look, as text and as JSON.
#include "cmd/common/job.h"

#include <stdio.h>

static void log_enter(void *ctx, const char *name)
{
	(void)ctx;
	log_step(name);
}

void show_phase(void *ctx, const struct phase *p)
{
	(void)ctx;
	const char *within = log_step(p->name);
	if (log_is_json()) {
		auto_json json_t *fields = json_pack("{s:f}", "seconds", p->seconds);
		json_object_update(fields, p->facts);
		log_line(LOG_LEVEL_INFO, fields, "%s", p->note);
	} else {
		log_info("%-9s %8.3f s  %s", p->name, p->seconds, p->note);
	}
	log_step(within);
}

void show_note(void *ctx, const char *text)
{
	(void)ctx;
	log_info("%s", text);
}

static void log_progress(void *ctx, const char *what, unsigned done, unsigned total)
{
	(void)ctx;
	show_progress(what, done, total);
}

void show_bytes(void *ctx, uint64_t done, uint64_t total)
{
	enum { MIB = 20, WORTH_MIB = 16 }; // short steps need no progress bar
	(void)ctx;
	if (total >> MIB >= WORTH_MIB)
		show_progress("fetched MiB", (unsigned)(done >> MIB), (unsigned)(total >> MIB));
}

struct progress show_progress_log(void)
{
	return (struct progress){
		.enter = log_enter, .phase = show_phase, .progress = log_progress, .note = show_note
	};
}

void show_status(const struct status *s)
{
	auto_strv struct strv rows = { 0 };
	for (size_t i = 0; i < s->count; i++)
		strv_add(&rows, str_fmt("%s\t%s\t%s", s->checks[i].is_ok ? "pass" : "FAIL", s->checks[i].name,
					s->checks[i].evidence));
	for (size_t i = 0; i < s->optional.count; i++)
		strv_add(&rows, str_fmt("note\toptional\t%s: not loaded, %s: %s", s->optional.items[i].module,
					s->optional.items[i].code, s->optional.items[i].text));
	show_table(&rows);
	printf("%s\n", !s->has_gpu ? "NO_GPU: no NVIDIA function on this machine, nothing to do" :
		       s->is_ready ? "ready" :
				     "NOT READY");
}
