// SPDX-License-Identifier: Apache-2.0
#include "base/process/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

static double now_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void progress_begin(struct progress *w)
{
	w->started = now_seconds();
}

void progress_tick(const struct progress *w)
{
	if (w->tick)
		w->tick(w->tick_ctx);
}

void progress_enter(struct progress *w, const char *name)
{
	progress_tick(w);
	progress_begin(w);
	w->entered = name;
	if (w->enter)
		w->enter(w->ctx, name);
}

void progress_fail(struct progress *w)
{
	const char *name = w->entered;
	if (!name)
		return;
	progress_end(w, name, "failed");
	if (w->enter) // the error that follows belongs to it
		w->enter(w->ctx, name);
}

void progress_facts(struct progress *w, json_t *take)
{
	json_decref(w->facts);
	w->facts = take;
}

void progress_end(struct progress *w, const char *name, const char *note, ...)
{
	char text[512];
	va_list args;
	va_start(args, note);
	vsnprintf(text, sizeof(text), note, args);
	va_end(args);
	w->phases = mem_grow(w->phases, w->count + 1, sizeof(*w->phases));
	struct phase *p = &w->phases[w->count++];
	*p = (struct phase){
		.name = str_dup(name), .note = str_dup(text), .seconds = now_seconds() - w->started, .facts = w->facts
	};
	w->facts = NULL;
	if (w->phase)
		w->phase(w->ctx, p);
	if (str_eq(w->entered, name)) {
		w->entered = NULL;
		if (w->enter)
			w->enter(w->ctx, NULL);
	}
	progress_begin(w);
}

void progress_count(struct progress *w, const char *what, size_t done, size_t total)
{
	progress_tick(w);
	if (w->progress)
		w->progress(w->ctx, what, (unsigned)done, (unsigned)total);
}

void progress_note(struct progress *w, const char *fmt, ...)
{
	char text[512];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (w->note)
		w->note(w->ctx, text);
}

void progress_done(struct progress *w)
{
	for (size_t i = 0; i < w->count; i++) {
		free(w->phases[i].name);
		free(w->phases[i].note);
		json_decref(w->phases[i].facts);
	}
	free(w->phases);
	w->phases = NULL;
	w->count = 0;
	progress_facts(w, NULL);
}
