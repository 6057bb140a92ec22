// SPDX-License-Identifier: Apache-2.0
#include "base/process/start_time.h"
#include "supervisor/supervisor_internal.h"

static void fill_daemon_record(const struct supervisor *k, struct daemon_record *r)
{
	r->owner = getpid();
	r->owner_start = start_time_of(k->kern, r->owner);
	r->driver = str_dup(k->driver);
	r->items = mem_alloc((k->plan.count + 1) * sizeof(*r->items));
	for (size_t i = 0; i < k->plan.count; i++) {
		const struct daemon *d = &k->plan.items[i];
		const struct supervised *s = &k->kept[i].s;
		struct daemon_entry *e = &r->items[r->count++];
		*e = (struct daemon_entry){ .name = str_dup(d->name),
					    .why = str_dup(d->why),
					    .state = str_dup(restart_policy_state_name(s->state)),
					    .pid = s->state == SUPERVISED_UP ? s->pid : 0,
					    .start = s->start,
					    .since = str_dup(k->kept[i].since),
					    .restarts = s->restarts,
					    .last = *s->last ? str_dup(s->last) : NULL,
					    .why_not = *s->why_not ? str_dup(s->why_not) : NULL,
					    .is_needed = d->is_needed,
					    .is_foreign = k->kept[i].is_foreign,
					    .dir = str_dup(d->dir),
					    .pid_file = str_dup(d->pid_file),
					    .socket = str_dup(d->socket),
					    .env = str_dup(d->env) };
		for (size_t a = 0; a < d->argv.count; a++)
			strv_add(&e->argv, str_dup(d->argv.items[a]));
		for (size_t l = 0; l < k->kept[i].log.count; l++)
			strv_add(&e->log, str_dup(k->kept[i].log.items[l]));
	}
}

// Only when it says something new: an idle node writes nothing (P9).
void supervisor_write_record(struct supervisor *k)
{
	struct err why;
	auto_daemon_record struct daemon_record r = { 0 };
	if (!k->plan.count)
		return;
	fill_daemon_record(k, &r);
	auto_json json_t *json = daemon_record_json(&r, NULL);
	auto_str char *text = json_dumps(json, 0);
	if (str_eq(text, k->written))
		return;
	if (daemon_record_write(k->host, k->boot, &r, &why) < 0) {
		progress_note(k->progress, "it is not told how the daemons are: %s", why.text);
		return;
	}
	free(k->written);
	k->written = TAKE(text);
}
