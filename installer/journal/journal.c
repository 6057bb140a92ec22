// SPDX-License-Identifier: Apache-2.0
#include "journal/journal.h"

#include "base/core/date.h"
#include "base/process/boot_record.h"
#include "base/process/state_file.h"
#include "journal/state_dir.h"

enum { FAILURES_MOST = 8, BOOTS_MOST = 8, BOOTS_LOOP = 2 };

static void journal_failure_done(struct journal_failure *f)
{
	driver_state_done(&f->driver);
	free(f->code);
	free(f->text);
	free(f->time);
	free(f->boot);
}

void journal_done(struct journal *j)
{
	free(j->boot);
	free(j->step);
	free(j->since);
	free(j->text);
	free(j->rest);
	free(j->last_good_boot);
	free(j->unwritten);
	driver_state_done(&j->target);
	driver_state_done(&j->previous);
	driver_state_done(&j->last_good);
	strv_done(&j->boots);
	for (size_t i = 0; i < j->failure_count; i++)
		journal_failure_done(&j->failures[i]);
	free(j->failures);
	*j = (struct journal){ 0 };
}

static void set_journal_text(char **s, const char *value)
{
	char *new = str_dup(value);
	free(*s);
	*s = new;
}

static void enter_state(struct journal *j, enum journal_state state)
{
	free(j->since);
	j->since = date_text(time(NULL));
	j->state = state;
}

void journal_begin(struct journal *j, const char *boot, const struct driver_state *target,
		   const struct driver_state *previous)
{
	if (j->state == JOURNAL_IDLE || !driver_state_same(&j->target, target))
		strv_done(&j->boots);
	if (!strv_has(&j->boots, boot))
		strv_add(&j->boots, str_dup(boot));
	driver_state_copy(target, &j->target);
	driver_state_copy(previous, &j->previous);
	set_journal_text(&j->boot, boot);
	set_journal_text(&j->text, NULL);
	set_journal_text(&j->rest, NULL);
	enter_state(j, JOURNAL_CHANGING);
}

void journal_step(struct journal *j, const char *step)
{
	set_journal_text(&j->step, step);
}

static void forget_failure(struct journal *j, const struct driver_state *driver)
{
	size_t kept = 0;
	for (size_t i = 0; i < j->failure_count; i++) {
		if (driver_state_same(&j->failures[i].driver, driver))
			journal_failure_done(&j->failures[i]);
		else
			j->failures[kept++] = j->failures[i];
	}
	j->failure_count = kept;
}

void journal_left(struct journal *j)
{
	strv_done(&j->boots);
	driver_state_done(&j->previous);
	set_journal_text(&j->step, NULL);
	enter_state(j, JOURNAL_IDLE);
}

void journal_rolled_back(struct journal *j)
{
	driver_state_done(&j->target);
	journal_left(j);
}

const struct driver_state *journal_left_loaded(const struct journal *j, const char *boot)
{
	return j->state == JOURNAL_IDLE && j->target.version && str_eq(j->boot, boot) ? &j->target : NULL;
}

void journal_succeeded(struct journal *j)
{
	forget_failure(j, &j->target);
	driver_state_copy(&j->target, &j->last_good);
	set_journal_text(&j->last_good_boot, j->boot);
	journal_rolled_back(j);
}

void journal_adopted(struct journal *j, const struct driver_state *driver)
{
	forget_failure(j, driver);
	driver_state_copy(driver, &j->last_good);
	set_journal_text(&j->last_good_boot, NULL);
	journal_rolled_back(j);
}

void journal_failed(struct journal *j, const struct err *why)
{
	struct journal_failure f = { .code = str_dup(err_info(why->code)->name),
				     .text = str_dup(why->text),
				     .time = date_text(time(NULL)),
				     .boot = str_dup(j->boot) };
	driver_state_copy(&j->target, &f.driver);
	forget_failure(j, &f.driver);
	if (j->failure_count == FAILURES_MOST) {
		journal_failure_done(&j->failures[0]);
		memmove(j->failures, j->failures + 1, --j->failure_count * sizeof(f));
	}
	j->failures = mem_grow(j->failures, j->failure_count + 1, sizeof(f));
	j->failures[j->failure_count++] = f;
}

void journal_wedge(struct journal *j, const char *boot, const char *text)
{
	set_journal_text(&j->boot, boot);
	set_journal_text(&j->text, text);
	enter_state(j, JOURNAL_WEDGED);
}

bool journal_is_open(const struct journal *j, const char *boot)
{
	return j->state == JOURNAL_CHANGING && str_eq(j->boot, boot);
}

bool journal_is_wedged(const struct journal *j, const char *boot)
{
	return j->state == JOURNAL_WEDGED && str_eq(j->boot, boot);
}

int journal_check_wedged(const struct journal *j, const char *boot, struct err *err)
{
	return journal_is_wedged(j, boot) ? err_set(err, E_WEDGED, "since %s: %s", j->since, j->text) : 0;
}

bool journal_is_unfinished(const struct journal *j, const char *boot)
{
	return j->state != JOURNAL_IDLE && !journal_is_wedged(j, boot);
}

static bool is_boot_loop(const struct journal *j, const char *boot, const struct driver_state *target)
{
	size_t ended = j->boots.count - strv_has(&j->boots, boot);
	return j->state != JOURNAL_IDLE && (ended >= BOOTS_LOOP || str_eq(j->rest, boot)) &&
	       driver_state_same(&j->target, target);
}

bool journal_skip_boot(struct journal *j, const char *boot)
{
	if (!is_boot_loop(j, boot, &j->last_good) || str_eq(j->rest, boot))
		return false;
	set_journal_text(&j->rest, boot);
	strv_done(&j->boots);
	return true;
}

char *journal_why_not(const struct journal *j, const char *boot, const struct driver_state *target)
{
	if (is_boot_loop(j, boot, target)) {
		size_t ended = j->boots.count - strv_has(&j->boots, boot);
		return str_fmt("%zu boots ended while it was being loaded (%s)%s%s",
			       ended > BOOTS_LOOP ? ended : BOOTS_LOOP, j->step ? j->step : "begin",
			       j->text ? "; the last one: " : "", j->text ? j->text : "");
	}
	for (size_t i = 0; i < j->failure_count; i++) {
		const struct journal_failure *f = &j->failures[i];
		bool is_past = str_eq(f->code, "E_NO_DEVICE") && !str_eq(f->boot, boot);
		if (!is_past && driver_state_same(&f->driver, target))
			return str_fmt("it failed at %s with %s: %s", f->time, f->code, f->text);
	}
	return NULL;
}

static const char FILE_NAME[] = "journal", IN_MEMORY[] = BOOT_RECORD_DIR "/journal", STATE_DIR[] = "state-dir";
static const char *const states[] = { "idle", "changing", "wedged" };

json_t *journal_json(const struct journal *j)
{
	json_t *failures = json_array();
	for (size_t i = 0; i < j->failure_count; i++) {
		const struct journal_failure *f = &j->failures[i];
		json_array_append_new(failures,
				      json_pack("{s:o, s:o, s:o, s:o, s:o}", "driver", driver_state_json(&f->driver),
						"code", json_text(f->code), "text", json_text(f->text), "time",
						json_text(f->time), "boot", json_text(f->boot)));
	}
	return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "state", states[j->state],
			 "boot", json_text(j->boot), "step", json_text(j->step), "since", json_text(j->since), "text",
			 json_text(j->text), "target", driver_state_json(&j->target), "previous",
			 driver_state_json(&j->previous), "boots", json_strv(&j->boots), "rest", json_text(j->rest),
			 "last-good", driver_state_json(&j->last_good), "last-good-boot", json_text(j->last_good_boot),
			 "failures", failures, "unwritten", json_text(j->unwritten));
}

static bool parse_journal(const json_t *json, struct journal *j)
{
	size_t i, state = 0;
	json_t *item;
	while (state < ARRAY_SIZE(states) && !str_eq(json_string_value(json_object_get(json, "state")), states[state]))
		state++;
	if (state == ARRAY_SIZE(states))
		return false;
	j->state = (enum journal_state)state;
	j->boot = json_text_dup(json, "boot");
	j->step = json_text_dup(json, "step");
	j->since = json_text_dup(json, "since");
	j->text = json_text_dup(json, "text");
	j->rest = json_text_dup(json, "rest");
	j->last_good_boot = json_text_dup(json, "last-good-boot");
	j->unwritten = json_text_dup(json, "unwritten");
	driver_state_parse(json_object_get(json, "target"), &j->target);
	driver_state_parse(json_object_get(json, "previous"), &j->previous);
	driver_state_parse(json_object_get(json, "last-good"), &j->last_good);
	json_array_foreach(json_object_get(json, "failures"), i, item)
	{
		struct journal_failure f = { .code = json_text_dup(item, "code"),
					     .text = json_text_dup(item, "text"),
					     .time = json_text_dup(item, "time"),
					     .boot = json_text_dup(item, "boot") };
		driver_state_parse(json_object_get(item, "driver"), &f.driver);
		j->failures = mem_grow(j->failures, j->failure_count + 1, sizeof(f));
		j->failures[j->failure_count++] = f;
	}
	json_strv_read(json_object_get(json, "boots"), &j->boots);
	return true;
}

// Identifies a directory on its disk, independent of its path.
static char *state_identity(const struct root *state)
{
	struct stat st;
	return fstat(state->fd, &st) < 0 ?
		       NULL :
		       str_fmt("%llu:%llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
}

static int read_memory_journal(const struct root *host, json_t **ret)
{
	struct err ignored;
	return state_file_load(host, IN_MEMORY, ret, &ignored);
}

static int read_disk_journal(const struct root *state, struct journal *j, struct err *err)
{
	auto_json json_t *json = NULL;
	int r = state_file_read(state, FILE_NAME, &json, err);
	if (r > 0 && !parse_journal(json, j))
		return err_set(err, E_CONFIG, "'%s/%s' is in no known state", state->name, FILE_NAME);
	return r;
}

void journal_mend(const struct root *state)
{
	auto_journal struct journal ignored = { 0 };
	struct err err;
	if (read_disk_journal(state, &ignored, &err) < 0 && err.code == E_CONFIG)
		state_file_set_aside(state, FILE_NAME, err.text);
}

int journal_find(const struct root *host, const struct root *state, struct journal *ret, struct err *err)
{
	auto_json json_t *memory = NULL;
	auto_journal struct journal j = { 0 };
	auto_str char *id = state_identity(state);
	bool is_in_memory = read_memory_journal(host, &memory) > 0 && id &&
			    str_eq(json_string_value(json_object_get(memory, STATE_DIR)), id) &&
			    parse_journal(memory, &j);
	int r = is_in_memory ? 1 : read_disk_journal(state, &j, err);
	if (r <= 0)
		return r < 0 ? state_file_absent(err) : 0;
	*ret = j;
	j = (struct journal){ 0 };
	return 1;
}

char *journal_unwritten(const struct root *host)
{
	auto_json json_t *json = NULL;
	return read_memory_journal(host, &json) > 0 ? json_text_dup(json, "unwritten") : NULL;
}

int journal_keep(const struct root *host, const struct root *state, bool is_memory_allowed, struct journal *j,
		 struct err *err)
{
	auto_str char *before = TAKE(j->unwritten);
	auto_json json_t *json = journal_json(j);
	if (json_write(state, FILE_NAME, json, err) == 0)
		return !before || root_unlink(host, IN_MEMORY, err) >= 0 ? 0 : -1;
	j->unwritten = TAKE(before);
	if (!is_memory_allowed || !state_dir_is_disk_error(err))
		return -1;
	free(j->unwritten);
	j->unwritten = str_fmt("'%s' cannot be written: %s", state->name, err->text);
	const struct err why = *err;
	auto_json json_t *memory = journal_json(j);
	auto_str char *id = state_identity(state);
	json_object_set_new(memory, STATE_DIR, json_text(id));
	if (root_mkdirs(host, BOOT_RECORD_DIR, 0755, err) < 0 || json_put(host, IN_MEMORY, memory, err) < 0)
		return err_wrap(err, "%s, and writing it in memory failed", why.text);
	return 1;
}
