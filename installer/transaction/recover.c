// SPDX-License-Identifier: Apache-2.0
// A node without a driver that had one: when what is wished cannot be had, what worked last comes back.
#include "transaction/apply_internal.h"

#include "transaction/unload.h"

#include <signal.h>

// A change that took two boots with it is not begun a third time by anybody; the way back rests for a boot (below).
static void blame_loop(struct run *r)
{
	auto_str char *why = journal_why_not(&r->journal, r->a->facts->host.boot_id, &r->journal.target);
	struct err err;
	if (!journal_is_unfinished(&r->journal, r->a->facts->host.boot_id) || r->was_open || !why ||
	    driver_same(&r->journal.target, &r->journal.last_good))
		return;
	err_set(&err, E_TARGET_FAILED, "%s", why);
	journal_fail(&r->journal, &err);
}

static int unload_rest(const struct run *r, struct err *err)
{
	auto_strv struct strv order = { 0 }, gone = { 0 };
	if (loaded_unload_order(&r->a->facts->loaded, &order, err) < 0)
		return -1;
	return unload_modules(&order, r->a->sys, r->a->kern, r->a->unload_timeout_ms, &gone, err);
}

static int bring(struct run *r, struct err *err)
{
	if (unload_rest(r, err) < 0)
		return -1;
	if (undo_unload(r, err) < 0)
		return -1;
	run_export_back(r);
	if (run_verify(r, NULL, err) < 0)
		return -1;
	watch_end(r->a->watch, "verify", "what worked last, every post-condition holds");
	return 0;
}

// Before anything is touched: what would serve no better than what was refused stays out. Its user space is made ready
// first, because that may bring the firmware.
static int check_back(struct run *r, struct err *err)
{
	const struct driver *d = &r->back.driver;
	const char *unfit = r->a->obtain->unfit;
	if (*unfit && str_eq(d->digest, unfit))
		return err_set(err, r->a->failure->code, "driver %s is in the package that was refused", d->version);
	run_prepare_back(r);
	return run_check_back(r, err);
}

// That was made ready for a driver that does not come.
static void drop_export(struct run *r)
{
	if (r->a->export && !r->a->export->is_switched)
		run_unexport(r);
}

static int begin(struct run *r, struct err *err)
{
	static const struct driver none;
	const char *boot = r->a->facts->host.boot_id;
	blame_loop(r);
	back_prepare(r->a, &r->journal, &none, &r->package, &r->back);
	if (!r->back.driver.version)
		return 0;
	auto_str char *why = journal_why_not(&r->journal, boot, &r->back.driver);
	if (why) {
		bool is_new = journal_rest(&r->journal, boot);
		watch_note(r->a->watch, "the last good driver %s does not come back: %s%s", r->back.driver.version, why,
			   str_eq(r->journal.rest, boot) ? "; the next boot tries again" : "");
		return is_new ? run_note_intent(r, err) : 0;
	}
	if (check_back(r, err) < 0)
		return -1;
	journal_begin(&r->journal, boot, &r->back.driver, &none);
	journal_step(&r->journal, "back");
	if (run_publish(r, "back", r->back.driver.version, true, err) < 0)
		return -1;
	return run_note_intent(r, err) < 0 ? -1 : 1;
}

int apply_back(const struct apply *a, struct status *ret, struct err *err)
{
	auto_run struct run r = RUN(a, ret);
	struct err owned;
	sigset_t before;
	if (run_open(&r, err) < 0)
		return -1;
	if (journal_is_wedged(&r.journal, a->facts->host.boot_id) || (a->facts->loaded.version && !r.was_open) ||
	    gpus_check_owner(&a->facts->gpus, false, &owned) < 0) // a driver that somebody else stands in the way of
		return 0;
	memstate_init(&a->obtain->memory, a->host, a->kern, a->watch, true); // nothing that works is lost
	run_settle_journal(&r);
	int done = begin(&r, err);
	if (done < 0) {
		drop_export(&r);
		apply_failed(a, "back", err);
	}
	if (done <= 0)
		return done;
	sigprocmask(SIG_BLOCK, NULL, &before);
	run_hold_signals();
	done = bring(&r, err);
	if (done < 0 && err->code == E_WEDGED)
		journal_wedge(&r.journal, a->facts->host.boot_id, err->text);
	else if (done < 0)
		journal_back(&r.journal);
	else
		journal_good(&r.journal);
	run_write(&r);
	if (done < 0) {
		drop_export(&r);
		apply_failed(a, "back", err);
	} else {
		run_collect(&r);
		run_publish_end(&r, "back");
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	return done < 0 ? -1 : 1;
}
