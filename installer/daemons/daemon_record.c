// SPDX-License-Identifier: Apache-2.0
#include "daemons/daemon_record.h"

#include "base/process/boot_record.h"
#include "base/process/proc.h"

#include <fcntl.h>

static const char FILE_NAME[] = BOOT_RECORD_DIR "/daemons.json";

static void daemon_entry_done(struct daemon_entry *e)
{
	free(e->name);
	free(e->why);
	free(e->state);
	free(e->since);
	free(e->last);
	free(e->why_not);
	strv_done(&e->argv);
	strv_done(&e->log);
	free(e->env);
	free(e->dir);
	free(e->pid_file);
	free(e->socket);
}

void daemon_record_done(struct daemon_record *r)
{
	for (size_t i = 0; i < r->count; i++)
		daemon_entry_done(&r->items[i]);
	free(r->items);
	free(r->driver);
	*r = (struct daemon_record){ 0 };
}

bool daemon_entry_runs(const struct daemon_entry *e, const struct root *kern)
{
	return daemon_is(kern, e->pid, e->start, e->argv.items[0]);
}

bool daemon_record_owned(const struct daemon_record *r, const struct root *kern)
{
	return r->owner > 0 && r->owner_start && proc_start_time(kern, r->owner) == r->owner_start;
}

json_t *daemon_record_json(const struct daemon_record *r, const struct root *kern)
{
	json_t *list = json_array();
	for (size_t i = 0; i < r->count; i++) {
		const struct daemon_entry *e = &r->items[i];
		json_t *item = json_pack(
			"{s:s, s:s, s:o, s:i, s:I, s:o, s:i, s:o, s:o, s:b, s:o, s:s, s:o, s:o, s:o, s:o, s:b}", "name",
			e->name, "state", e->state, "why", json_text(e->why), "pid", e->pid, "start",
			(json_int_t)e->start, "since", json_text(e->since), "restarts", (int)e->restarts, "last_exit",
			json_text(e->last), "why_not", json_text(e->why_not), "needed", e->is_needed, "argv",
			json_strv(&e->argv), "dir", e->dir, "pid_file", json_text(e->pid_file), "socket",
			json_text(e->socket), "env", json_text(e->env), "log", json_strv(&e->log), "foreign",
			e->is_foreign);
		if (kern)
			json_object_set_new(item, "running", json_boolean(daemon_entry_runs(e, kern)));
		json_array_append_new(list, item);
	}
	return list;
}

int daemon_record_write(const struct root *host, const char *boot, const struct daemon_record *r, struct err *err)
{
	auto_json json_t *json =
		json_pack("{s:{s:i, s:I}, s:o, s:o}", "owner", "pid", r->owner, "start", (json_int_t)r->owner_start,
			  "driver_root", json_text(r->driver), "daemons", daemon_record_json(r, NULL));
	return boot_record_write(host, FILE_NAME, boot, json, err);
}

int daemon_record_forget(const struct root *host, struct err *err)
{
	return root_unlink(host, FILE_NAME, err);
}

static json_int_t entry_number(const json_t *json, const char *key)
{
	return json_integer_value(json_object_get(json, key));
}

static void add_daemon_entry(struct daemon_record *r, const json_t *item)
{
	struct daemon_entry e = { .name = json_text_dup(item, "name"),
				  .why = json_text_dup(item, "why"),
				  .state = json_text_dup(item, "state"),
				  .pid = (int)entry_number(item, "pid"),
				  .start = (uint64_t)entry_number(item, "start"),
				  .since = json_text_dup(item, "since"),
				  .restarts = (unsigned)entry_number(item, "restarts"),
				  .last = json_text_dup(item, "last_exit"),
				  .why_not = json_text_dup(item, "why_not"),
				  .is_needed = json_is_true(json_object_get(item, "needed")),
				  .is_foreign = json_is_true(json_object_get(item, "foreign")),
				  .dir = json_text_dup(item, "dir"),
				  .pid_file = json_text_dup(item, "pid_file"),
				  .socket = json_text_dup(item, "socket"),
				  .env = json_text_dup(item, "env") };
	json_strv_read(json_object_get(item, "argv"), &e.argv);
	json_strv_read(json_object_get(item, "log"), &e.log);
	if (!e.name || !e.state || !e.dir || !e.argv.count) { // not of ours
		daemon_entry_done(&e);
		return;
	}
	r->items = mem_grow(r->items, r->count + 1, sizeof(e));
	r->items[r->count++] = e;
}

int daemon_record_read(const struct root *host, const char *boot, struct daemon_record *ret, struct err *err)
{
	size_t i;
	json_t *item;
	auto_json json_t *json = NULL;
	int r = boot_record_read(host, FILE_NAME, boot, &json, err);
	if (r <= 0)
		return r;
	const json_t *owner = json_object_get(json, "owner");
	*ret = (struct daemon_record){ .owner = (int)entry_number(owner, "pid"),
				       .owner_start = (uint64_t)entry_number(owner, "start"),
				       .driver = json_text_dup(json, "driver_root") };
	json_array_foreach(json_object_get(json, "daemons"), i, item)
	{
		add_daemon_entry(ret, item);
	}
	return 1;
}

int daemon_record_now(const struct root *host, const struct root *kern, struct daemon_record *ret, struct err *err)
{
	auto_str char *boot = NULL;
	int r = root_line(kern, "proc/sys/kernel/random/boot_id", &boot, err);
	return r <= 0 ? r : daemon_record_read(host, boot, ret, err);
}

void daemon_stop_done(struct daemon_stop *s)
{
	daemon_record_done(&s->record);
	strv_done(&s->ended);
}

int daemon_stop_all(struct daemon_stop *s, struct err *err)
{
	if (daemon_record_now(s->node->host, s->node->kern, &s->record, err) < 0)
		return -1;
	for (size_t i = s->record.count; i-- > 0;) {
		const struct daemon_entry *e = &s->record.items[i];
		if (e->is_foreign || !daemon_entry_runs(e, s->node->kern))
			continue;
		if (daemon_end(s->node, e->argv.items[0], e->pid, e->start, err) < 0)
			return err_wrap(err, "%s", e->name);
		strv_add(&s->ended, str_dup(e->name));
		progress_note(s->node->progress, "stopped %s (pid %d) to unload the driver", e->name, e->pid);
	}
	return s->ended.count > 0;
}

static int restart_daemons(struct daemon_stop *s, struct err *err)
{
	auto_str char *boot = NULL;
	for (size_t i = 0; i < s->record.count; i++) {
		struct daemon_entry *e = &s->record.items[i];
		const struct daemon_unit unit = { .name = e->name,
						  .dir = e->dir,
						  .pid_file = e->pid_file,
						  .socket = e->socket,
						  .env = e->env,
						  .argv = &e->argv };
		if (!strv_has(&s->ended, e->name))
			continue;
		auto_fd int out = root_open(s->node->kern, "dev/null", O_WRONLY, err);
		int pid = out < 0 ? -1 :
				    daemon_launch(s->node, s->record.driver ? s->record.driver : ".", &unit, out, err);
		if (pid < 0)
			return err_wrap(err, "%s", e->name);
		e->pid = pid; // one that forks is found by its pid file
		e->start = proc_start_time(s->node->kern, pid);
		progress_note(s->node->progress, "started %s again because the driver stays loaded", e->name);
	}
	return root_line(s->node->kern, "proc/sys/kernel/random/boot_id", &boot, err) <= 0 ?
		       -1 :
		       daemon_record_write(s->node->host, boot, &s->record, err);
}

void daemon_stop_undo(struct daemon_stop *s)
{
	struct err why;
	if (s->ended.count && !daemon_record_owned(&s->record, s->node->kern) && restart_daemons(s, &why) < 0)
		progress_note(s->node->progress, "cannot restart the stopped daemons: %s", why.text);
}
