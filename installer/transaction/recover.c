// SPDX-License-Identifier: Apache-2.0
// A node without a driver that had one: when what is requested cannot be had, what worked last comes back.
#include "transaction/apply_internal.h"

#include "transaction/unload.h"

#include <signal.h>

// A change that took two boots with it is not begun a third time by anybody; the way back rests for a boot (below).
static void note_boot_loop(struct transaction *r)
{
	auto_str char *why = journal_why_not(&r->journal, r->a->facts->host.boot_id, &r->journal.target);
	struct err err;
	if (!journal_is_unfinished(&r->journal, r->a->facts->host.boot_id) || r->was_open || !why ||
	    driver_state_same(&r->journal.target, &r->journal.last_good))
		return;
	err_set(&err, E_TARGET_FAILED, "%s", why);
	journal_failed(&r->journal, &err);
}

static int unload_remains(const struct transaction *r, struct err *err)
{
	auto_strv struct strv order = { 0 }, gone = { 0 };
	if (modules_unload_order(&r->a->facts->loaded, &order, err) < 0)
		return -1;
	return unload_modules(&order, r->a->sys, r->a->kern, r->a->unload_timeout_ms, &gone, err);
}

static int load_last_good(struct transaction *r, struct err *err)
{
	if (unload_remains(r, err) < 0)
		return -1;
	if (step_undo_unload(r, err) < 0)
		return -1;
	step_export_rollback(r);
	if (transaction_verify(r, NULL, err) < 0)
		return -1;
	progress_end(r->a->progress, "verify", "what worked last, every post-condition holds");
	return 0;
}

// Before anything is touched: what would serve no better than what was refused stays out. Its user space is made ready
// first, because that may bring the firmware.
static int check_last_good(struct transaction *r, struct err *err)
{
	const struct driver_state *d = &r->rollback.driver;
	const char *unfit = r->a->acquire->unfit;
	if (*unfit && str_eq(d->digest, unfit))
		return err_set(err, r->a->failure->code, "driver %s is in the package that was refused", d->version);
	step_prepare_rollback_export(r);
	return step_check_rollback(r, err);
}

// That was made ready for a driver that does not come.
static void drop_prepared_export(struct transaction *r)
{
	if (r->a->export && !r->a->export->is_switched)
		step_undo_export(r);
}

static int begin_recovery(struct transaction *r, struct err *err)
{
	static const struct driver_state none;
	const char *boot = r->a->facts->host.boot_id;
	note_boot_loop(r);
	rollback_prepare(r->a, &r->journal, &none, &r->package, &r->rollback);
	if (!r->rollback.driver.version)
		return 0;
	auto_str char *why = journal_why_not(&r->journal, boot, &r->rollback.driver);
	if (why) {
		bool is_new = journal_skip_boot(&r->journal, boot);
		progress_note(r->a->progress, "the last good driver %s does not come back: %s%s",
			      r->rollback.driver.version, why,
			      str_eq(r->journal.rest, boot) ? "; the next boot tries again" : "");
		return is_new ? transaction_write_intent(r, err) : 0;
	}
	if (check_last_good(r, err) < 0)
		return -1;
	journal_begin(&r->journal, boot, &r->rollback.driver, &none);
	journal_step(&r->journal, "back");
	if (transaction_publish(r, "back", r->rollback.driver.version, true, err) < 0)
		return -1;
	return transaction_write_intent(r, err) < 0 ? -1 : 1;
}

int recover_last_good(const struct apply *a, struct status *ret, struct err *err)
{
	auto_transaction struct transaction r = RUN(a, ret);
	struct err owned;
	sigset_t before;
	if (transaction_open(&r, err) < 0)
		return -1;
	if (journal_is_wedged(&r.journal, a->facts->host.boot_id) || (a->facts->loaded.version && !r.was_open) ||
	    gpus_check_owner(&a->facts->gpus, false, &owned) < 0) // a driver that somebody else stands in the way of
		return 0;
	state_dir_init(&a->acquire->memory, a->host, a->kern, a->progress, true); // nothing that works is lost
	transaction_flush_journal(&r);
	int done = begin_recovery(&r, err);
	if (done < 0) {
		drop_prepared_export(&r);
		transaction_publish_failure(a, "back", err);
	}
	if (done <= 0)
		return done;
	sigprocmask(SIG_BLOCK, NULL, &before);
	transaction_block_signals();
	done = load_last_good(&r, err);
	if (done < 0 && err->code == E_WEDGED)
		journal_wedge(&r.journal, a->facts->host.boot_id, err->text);
	else if (done < 0)
		journal_rolled_back(&r.journal);
	else
		journal_succeeded(&r.journal);
	transaction_write_journal(&r);
	if (done < 0) {
		drop_prepared_export(&r);
		transaction_publish_failure(a, "back", err);
	} else {
		step_export_collect(&r);
		transaction_publish_end(&r, "back");
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	return done < 0 ? -1 : 1;
}
