// SPDX-License-Identifier: Apache-2.0
#include "journal/journal.h"

#include "base/core/date.h"

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

void journal_rolled_back(struct journal *j)
{
	strv_done(&j->boots);
	driver_state_done(&j->target);
	driver_state_done(&j->previous);
	set_journal_text(&j->step, NULL);
	enter_state(j, JOURNAL_IDLE);
}

void journal_succeeded(struct journal *j)
{
	forget_failure(j, &j->target);
	driver_state_copy(&j->target, &j->last_good);
	set_journal_text(&j->last_good_boot, j->boot);
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
