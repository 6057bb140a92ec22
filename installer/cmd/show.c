// SPDX-License-Identifier: Apache-2.0
// How phases and status look, as text and as JSON.
#include "cmd/job.h"

#include <stdio.h>

void show_phase(void *ctx, const struct phase *p)
{
	(void)ctx;
	log_step(p->name);
	log_info("%-8s %8.3f s  %s", p->name, p->seconds, p->note);
	log_step(NULL);
}

void show_note(void *ctx, const char *text)
{
	(void)ctx;
	log_info("%s", text);
}

static void on_progress(void *ctx, const char *what, unsigned done, unsigned total)
{
	(void)ctx;
	show_progress(what, done, total);
}

void show_bytes(void *ctx, uint64_t done, uint64_t total)
{
	enum { MIB = 20, WORTH_MIB = 16 }; // what is done in a moment needs no bar
	(void)ctx;
	if (total >> MIB >= WORTH_MIB)
		show_progress("fetched MiB", (unsigned)(done >> MIB), (unsigned)(total >> MIB));
}

struct watch show_watch(void)
{
	return (struct watch){ .phase = show_phase, .progress = on_progress, .note = show_note };
}

json_t *phases_json(const struct watch *w)
{
	json_t *list = json_array();
	for (size_t i = 0; i < w->count; i++)
		json_array_append_new(list, json_pack("{s:s, s:f, s:o}", "phase", w->phases[i].name, "seconds",
						      w->phases[i].seconds, "note", json_text(w->phases[i].note)));
	return list;
}

static json_t *nodes_json(const struct devices *d)
{
	json_t *list = json_array();
	for (size_t i = 0; i < d->count; i++) {
		const struct node *n = &d->items[i];
		auto_str char *mode = str_fmt("%04o", n->mode);
		json_array_append_new(list,
				      json_pack("{s:o, s:i, s:i, s:s, s:I, s:I, s:s, s:o}", "path", json_text(n->path),
						"major", n->major, "minor", n->minor, "mode", mode, "uid",
						(json_int_t)n->uid, "gid", (json_int_t)n->gid, "verdict",
						node_verdict_name(n->verdict), "why", json_text(n->why)));
	}
	return list;
}

json_t *status_json(const struct status *s)
{
	auto_json json_t *checks = json_array();
	for (size_t i = 0; i < s->count; i++)
		json_array_append_new(checks,
				      json_pack("{s:s, s:b, s:o}", "name", s->checks[i].name, "pass",
						s->checks[i].is_ok, "evidence", json_text(s->checks[i].evidence)));
	return json_pack("{s:s, s:b, s:O, s:o}", "state",
			 !s->has_gpu ? "NO_GPU" :
			 s->is_ready ? "READY" :
				       "NOT_READY",
			 "ready", s->is_ready, "checks", checks, "nodes", nodes_json(&s->devices));
}

void show_status(const struct status *s)
{
	auto_strv struct strv rows = { 0 };
	for (size_t i = 0; i < s->count; i++)
		strv_add(&rows, str_fmt("%s\t%s\t%s", s->checks[i].is_ok ? "pass" : "FAIL", s->checks[i].name,
					s->checks[i].evidence));
	show_table(&rows);
	printf("%s\n", !s->has_gpu ? "NO_GPU: no NVIDIA function on this machine, nothing to do" :
		       s->is_ready ? "ready" :
				     "NOT READY");
}
