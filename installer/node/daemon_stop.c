// SPDX-License-Identifier: Apache-2.0
#include "node/daemon_stop.h"

#include <fcntl.h>

void daemon_stop_done(struct daemon_stop *s)
{
	daemon_record_done(&s->record);
	strv_done(&s->ended);
}

static struct daemon_place place_of(const struct daemon_stop *s)
{
	return (struct daemon_place){
		.host = s->host, .kern = s->kern, .sys = s->sys, .driver = s->record.driver ? s->record.driver : "."
	};
}

static int read_record(const struct root *host, const struct root *kern, struct daemon_record *ret, struct err *err)
{
	auto_str char *boot = NULL;
	int r = root_line(kern, "proc/sys/kernel/random/boot_id", &boot, err);
	return r <= 0 ? r : daemon_record_read(host, boot, ret, err);
}

static bool is_ours(const struct daemon_record *r, const struct holder *h)
{
	for (size_t i = 0; i < r->count; i++)
		if (h->start && !r->items[i].is_foreign && r->items[i].pid == h->pid && r->items[i].start == h->start)
			return true;
	return false;
}

int daemon_stop_omit(const struct root *host, const struct root *kern, struct holders *h, struct err *err)
{
	auto_daemon_record struct daemon_record record = { 0 };
	size_t kept = 0, running = 0;
	if (read_record(host, kern, &record, err) < 0)
		return -1;
	for (size_t i = 0; i < h->count; i++) {
		struct holder x = h->items[i];
		h->items[i] = h->items[kept];
		h->items[kept] = x;
		kept += !is_ours(&record, &x);
	}
	while (h->count > kept)
		holder_done(&h->items[--h->count]);
	for (size_t i = 0; i < record.count; i++)
		running += !record.items[i].is_foreign && daemon_entry_runs(&record.items[i], kern);
	return running > 0;
}

int daemon_stop_all(struct daemon_stop *s, struct err *err)
{
	if (read_record(s->host, s->kern, &s->record, err) < 0)
		return -1;
	const struct daemon_place place = place_of(s);
	for (size_t i = s->record.count; i-- > 0;) {
		const struct daemon_entry *e = &s->record.items[i];
		if (e->is_foreign || !daemon_entry_runs(e, s->kern))
			continue;
		if (daemon_end(&place, e->argv.items[0], e->pid, e->start, err) < 0)
			return err_wrap(err, "%s", e->name);
		strv_add(&s->ended, str_dup(e->name));
		watch_note(s->watch, "%s (pid %d) is stopped, so that the driver can go", e->name, e->pid);
	}
	return s->ended.count > 0;
}

static int restart(const struct daemon_stop *s, struct daemon_entry *e, struct err *err)
{
	const struct daemon_place place = place_of(s);
	const struct daemon_unit unit = daemon_entry_unit(e);
	auto_fd int out = root_open(s->kern, "dev/null", O_WRONLY, err);
	int pid = out < 0 ? -1 : daemon_launch(&place, &unit, out, err);
	if (pid < 0)
		return -1;
	e->pid = pid; // one that forks is found by its pid file
	e->start = holder_start(s->kern, pid);
	watch_note(s->watch, "%s is started again, because the driver stays", e->name);
	return 0;
}

static int restart_all(struct daemon_stop *s, struct err *err)
{
	auto_str char *boot = NULL;
	for (size_t i = 0; i < s->record.count; i++)
		if (strv_has(&s->ended, s->record.items[i].name) && restart(s, &s->record.items[i], err) < 0)
			return err_wrap(err, "%s", s->record.items[i].name);
	return root_line(s->kern, "proc/sys/kernel/random/boot_id", &boot, err) <= 0 ?
		       -1 :
		       daemon_record_write(s->host, boot, &s->record, err);
}

void daemon_stop_undo(struct daemon_stop *s)
{
	struct err why;
	if (s->ended.count && !daemon_record_owned(&s->record, s->kern) && restart_all(s, &why) < 0)
		watch_note(s->watch, "what was stopped is not started again: %s", why.text);
}
