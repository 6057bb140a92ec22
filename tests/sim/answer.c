// SPDX-License-Identifier: Apache-2.0
// Refusals in the server's own words: metav1.Status as k8s.io/apimachinery/pkg/api/errors makes it.
#include "tests/sim/own.h"

#include <stdarg.h>
#include <stdio.h>

void sim_answer_done(struct sim_answer *a)
{
	json_decref(TAKE(a->reply));
}

static void set_sim_status(struct sim_answer *a, long status, const char *reason, json_t *details, const char *message)
{
	json_decref(a->reply);
	a->status = status;
	a->reply = json_pack("{s:s, s:s, s:{}, s:s, s:s, s:s*, s:o*, s:i}", "kind", "Status", "apiVersion", "v1",
			     "metadata", "status", "Failure", "message", message, "reason", reason, "details", details,
			     "code", (int)status);
}

void sim_say(struct sim_answer *a, long status, const char *reason, const char *fmt, ...)
{
	va_list args;
	char text[1024];
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	set_sim_status(a, status, reason, NULL, text);
}

void sim_say_of(struct sim_answer *a, long status, const char *reason, const struct sim_kind *kind, const char *name,
		const char *fmt, ...)
{
	va_list args;
	char text[1024];
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	bool is_kind = str_eq(reason, "Invalid"); // such errors name the kind, all others the resource
	set_sim_status(a, status, reason,
		       json_pack("{s:s*, s:s, s:s}", "group", *kind->group ? kind->group : NULL, "kind",
				 is_kind ? kind->kind : kind->resource, "name", name),
		       text);
}

void sim_say_cause(struct sim_answer *a, const char *reason, const char *message, const char *field)
{
	if (!sim_at(a->reply, "details causes"))
		sim_set(a->reply, "details causes", json_array());
	json_array_append_new(sim_at(a->reply, "details causes"),
			      json_pack("{s:s, s:s, s:s*}", "reason", reason, "message", message, "field", field));
}
