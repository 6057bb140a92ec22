// SPDX-License-Identifier: Apache-2.0
// Fault injection by a plan: the first matching row that is due breaks the request.
#include "tests/sim/sim_internal.h"

#include <limits.h>

static bool is_event_fault(enum sim_break what)
{
	return what == SIM_WATCH_DROP || what == SIM_WATCH_TWICE || what == SIM_WATCH_SWAP || what == SIM_WATCH_GONE;
}

static bool is_stream_fault(enum sim_break what)
{
	return what == SIM_WATCH_LATE || what == SIM_WATCH_NO_BOOKMARKS;
}

const struct sim_fault *sim_fault(struct sim *s, const struct sim_fault *fault)
{
	struct sim_fault_row *row = mem_alloc(sizeof(*row)), **at = &s->faults;
	while (*at)
		at = &(*at)->next;
	row->fault = *fault;
	row->fault.client = row->client = str_dup(fault->client);
	*at = row;
	return &row->fault;
}

void sim_heal(struct sim *s)
{
	while (s->faults) {
		struct sim_fault_row *row = s->faults;
		s->faults = row->next;
		free(row->client);
		free(row);
	}
}

static bool is_fault_for(const char *wanted, const char *is)
{
	size_t len = wanted ? strlen(wanted) : 0;
	if (len && wanted[len - 1] == '*')
		return is && strncmp(is, wanted, len - 1) == 0;
	return !wanted || str_eq(wanted, is);
}

bool sim_parted(const struct sim *s, const char *client, long *ret_until)
{
	long now = sim_now_ms();
	for (const struct sim_fault_row *row = s->faults; row; row = row->next) {
		const struct sim_fault *f = &row->fault;
		if (f->what != SIM_PARTITION || !is_fault_for(f->client, client) || now < f->from_ms ||
		    (f->to_ms && now >= f->to_ms))
			continue;
		if (ret_until)
			*ret_until = f->to_ms ? f->to_ms : LONG_MAX;
		return true;
	}
	return false;
}

static bool is_fault_deadly(const struct sim_fault *f)
{
	return f->hits && (f->what == SIM_DIE_BEFORE || f->what == SIM_DIE_AFTER || f->what == SIM_DIE_LINGER);
}

// verb NULL = an event of a watch. Returns the row that breaks it; NULL = none.
const struct sim_fault *sim_fault_hit(struct sim *s, const char *client, const char *verb, const char *resource,
				      const char *name)
{
	for (struct sim_fault_row *row = s->faults; row; row = row->next) {
		struct sim_fault *f = &row->fault;
		unsigned first = f->nth ? f->nth : 1, times = f->times ? f->times : 1;
		if (!is_fault_for(f->client, client) || is_stream_fault(f->what) || f->what == SIM_PARTITION)
			continue;
		if (is_fault_deadly(f)) {
			f->hits += verb != NULL;
			return f;
		}
		if (is_event_fault(f->what) != !verb || (verb && !is_fault_for(f->verb, verb)) ||
		    !is_fault_for(f->resource, resource) || (f->name && !str_eq(f->name, name)))
			continue;
		f->seen++;
		if (f->one_in ? sim_dice() % f->one_in != 0 : f->seen < first || f->seen - first >= times)
			continue;
		f->hits++;
		return f;
	}
	return NULL;
}

// True: it never reaches the server.
bool sim_fault_before(const struct sim_fault *f, struct sim_answer *ret)
{
	static const struct {
		long status;
		const char *reason;
	} reasons[] = { { 401, "Unauthorized" },       { 403, "Forbidden" },
			{ 409, "Conflict" },           { 410, "Expired" },
			{ 429, "TooManyRequests" },    { 500, "InternalError" },
			{ 503, "ServiceUnavailable" }, { 504, "Timeout" } };
	bool is_lingering = f->what == SIM_LINGER || (f->what == SIM_DIE_LINGER && f->hits == 1);
	if (is_lingering) {
		ret->code = E_TIMEOUT;
		ret->took_ms = LONG_MAX; // as long as the client waits
		return true;
	}
	if ((is_fault_deadly(f) && (f->what == SIM_DIE_BEFORE || f->hits > 1)) || f->what == SIM_CUT_BEFORE) {
		ret->code = f->what == SIM_CUT_BEFORE ? E_NETWORK : E_SYSTEM;
		return true;
	}
	if (f->what != SIM_STATUS)
		return false;
	const char *reason = "";
	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		reason = reasons[i].status == f->status ? reasons[i].reason : reason;
	sim_say(ret, f->status, reason, "%s", f->message ? f->message : "broken on purpose");
	ret->retry_s = f->retry_s;
	return true;
}

// The answer as the client gets it.
void sim_fault_after(const struct sim_fault *f, struct sim_answer *ret)
{
	ret->is_cut = f->what == SIM_TRUNCATE;
	ret->took_ms += f->what == SIM_SLOW ? f->late_ms : 0;
	if (f->what != SIM_CUT_AFTER && f->what != SIM_DIE_AFTER)
		return;
	ret->status = 0;
	ret->code = f->what == SIM_CUT_AFTER ? E_NETWORK : E_SYSTEM;
}

void sim_fault_stream(const struct sim *s, const char *client, struct sim_watch *w)
{
	for (const struct sim_fault_row *row = s->faults; row; row = row->next) {
		const struct sim_fault *f = &row->fault;
		if (!is_stream_fault(f->what) || !is_fault_for(f->client, client) ||
		    !is_fault_for(f->resource, w->path.kind->resource))
			continue;
		w->lag_ms = f->what == SIM_WATCH_LATE ? f->late_ms : w->lag_ms;
		w->path.has_bookmarks = w->path.has_bookmarks && f->what != SIM_WATCH_NO_BOOKMARKS;
	}
}
