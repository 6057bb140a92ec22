// SPDX-License-Identifier: Apache-2.0
#include "transaction/transaction_internal.h"

#include "transaction/unload.h"

#include <signal.h>

static const struct {
	int (*run)(struct transaction *r, const struct step *step, struct err *err);
	int (*undo)(struct transaction *r, struct err *err);
	bool is_touch; // changes the kernel: from the first of these on there is a journal
	bool is_long;  // may be: others are told that it began
} actions[] = {
	[STEP_PAYLOAD] = { step_payload, NULL, false, true },
	[STEP_ADOPT] = { step_adopt, NULL, false, false },
	[STEP_PREFLIGHT] = { step_preflight, NULL, false, false },
	[STEP_PACKAGE] = { step_package, NULL, false, true },
	[STEP_COMPILE] = { step_compile, NULL, false, true },
	[STEP_PROVE] = { step_prove, NULL, false, false },
	[STEP_HOLDERS] = { step_holders, NULL, false, true },
	[STEP_UNLOAD] = { step_unload, NULL, true, true },
	[STEP_UNBIND] = { step_unbind, step_undo_unbind, true, true },
	[STEP_LOAD] = { step_load, step_undo_load, true, true },
	[STEP_NODES] = { step_nodes, NULL, false, false },
	[STEP_EXPORT] = { step_export, NULL, false, false },
	[STEP_VERIFY] = { step_verify, NULL, false, false },
};

// A freshly compiled package may turn out to be one that failed before: checked before holders are asked to end.
static int check_target(struct transaction *r, struct err *err)
{
	plan_target(r->a->plan, r->a->request, r->package.manifest.digest, r->a->facts->host.build_id, &r->target);
	auto_str char *why = plan_why_not(&r->target, r->a->request, r->a->facts, &r->journal);
	return why ? err_set(err, E_TARGET_FAILED, "%s", why) : 0;
}

// Up to here a full disk, a bad target or a missing way back has changed nothing that works.
static int begin_change(struct transaction *r, const struct step *step, struct err *err)
{
	const char *name = plan_step_name(step->kind);
	const struct host *host = &r->a->facts->host;
	if (check_target(r, err) < 0 || step_prepare_export(r, err) < 0)
		return -1;
	transaction_prepare_rollback(r->a, &r->journal, &r->target, &r->package, &r->rollback);
	journal_begin(&r->journal, host->boot_id, &r->target, &r->rollback.driver);
	journal_step(&r->journal, name);
	transaction_block_signals();
	if (r->rollback.driver.version) // may take seconds, in which the old driver still serves: not part of the step
		progress_end(r->a->progress, "prepare", "can roll back to driver %s %s", r->rollback.driver.version,
			     r->rollback.driver.flavour);
	if (transaction_publish(r, name, step->subject, true, err) < 0 || transaction_write_intent(r, err) < 0)
		return -1;
	r->is_touched = true;
	return 0;
}

static int begin_step(struct transaction *r, const struct step *step, struct err *err)
{
	const char *name = plan_step_name(step->kind);
	if (step->kind == STEP_HOLDERS && (check_target(r, err) < 0 || step_prepare_export(r, err) < 0))
		return -1;
	if (!r->is_touched && actions[step->kind].is_touch)
		return begin_change(r, step, err);
	if (r->is_touched) {
		journal_step(&r->journal, name);
		transaction_write_journal(r);
	}
	return actions[step->kind].is_long ? transaction_publish(r, name, step->subject, r->is_touched, err) : 0;
}

static int undo_steps(struct transaction *r, size_t failed, struct err *err)
{
	for (size_t i = failed + 1; i-- > 0;) {
		int (*undo)(struct transaction * r, struct err * err) = actions[r->a->plan->steps[i].kind].undo;
		if (undo && undo(r, err) < 0)
			return -1;
	}
	return step_undo_unload(r, err);
}

// Whether the target itself failed, so that another try would only do the same harm. Passing causes do not count (no
// memory, a new holder, a missing module of the host), except for post-conditions of the target, nor do failed system
// calls, which have no code of ours.
static bool is_target_to_blame(const struct err *err)
{
	if (err->code == E_NOT_READY || err->code == E_NODES)
		return true;
	if (err->code < E_FIRST_)
		return false;
	return err->code != E_WEDGED && err->code != E_BOUND && err->code != E_FIRMWARE &&
	       !err_info(err->code)->retryable;
}

static int undo_change(struct transaction *r, size_t failed, struct err *err)
{
	struct err why = { 0 };
	auto_str char *cause = str_dup(err->text);
	bool is_blamed = is_target_to_blame(err), is_wedged = err->code == E_WEDGED;
	// A driver that is loaded but not ready beats none: it is unloaded only if there is one to go back to.
	bool is_kept = r->a->plan->steps[failed].kind > STEP_LOAD && !r->rollback.driver.version;
	if (!is_kept || !r->a->export || !r->a->export->is_switched)
		step_undo_export(r);
	if (!is_kept && !is_wedged) {
		journal_step(&r->journal, "undo");
		transaction_write_journal(r);
		transaction_publish(r, "undo", r->rollback.driver.version, true, &why);
		// The node's state comes first: the cause quotes the kernel and may be long.
		if (undo_steps(r, failed, &why) < 0)
			err_set(err, why.code == E_WEDGED ? E_WEDGED : err->code, "could not be undone, %s; cause: %s",
				why.text, cause);
	}
	if (is_blamed && !is_kept)
		journal_failed(&r->journal, err);
	if (!is_wedged || r->a->plan->steps[failed].kind != STEP_LOAD)
		journal_rolled_back(&r->journal);
	if (err->code == E_WEDGED)
		journal_wedge(&r->journal, r->a->facts->host.boot_id, err->text);
	transaction_write_journal(r);
	return -1;
}

static int run_steps(struct transaction *r, struct err *err)
{
	const struct plan *plan = r->a->plan;
	for (size_t i = 0; i < plan->count; i++) {
		enum step_kind kind = plan->steps[i].kind;
		progress_enter(r->a->progress, plan_step_name(kind));
		if (begin_step(r, &plan->steps[i], err) < 0 || actions[kind].run(r, &plan->steps[i], err) < 0) {
			progress_fail(r->a->progress);
			err_wrap(err, "%s", plan_step_name(kind));
			if (r->is_touched)
				return undo_change(r, i, err);
			step_undo_export(r);
			return -1;
		}
	}
	return 0;
}

// Whether the kernel has what an interrupted run intended, parameters included; else that run changed nothing, and the
// request is another one now.
static bool is_loaded_as_meant(const struct transaction *r)
{
	const struct driver_state *meant = &r->journal.target;
	auto_driver_state struct driver_state found = { 0 };
	plan_target(r->a->plan, r->a->request, meant->digest, r->a->facts->host.build_id, &found);
	return driver_state_same(&found, meant);
}

// Every post-condition holds: what this or an interrupted run changed becomes the last good driver.
static void finish_transaction(struct transaction *r)
{
	if (r->was_open)
		step_commit_unbind_left(r);
	if (!r->is_touched && !journal_is_unfinished(&r->journal, r->a->facts->host.boot_id))
		return;
	bool is_good = r->is_touched || is_loaded_as_meant(r);
	transaction_drop_optional(r);
	if (is_good)
		journal_succeeded(&r->journal);
	else
		journal_rolled_back(&r->journal);
	transaction_write_journal(r);
	transaction_remember(r, r->journal.last_good.digest, store_set_last_good);
}

int apply_stage(const struct apply *apply, struct err *err)
{
	struct status unused = { 0 };
	auto_transaction struct transaction r = TRANSACTION_OF(apply, &unused);
	const struct plan *plan = apply->plan;
	if (transaction_open(&r, err) < 0)
		return -1;
	for (size_t i = 0; i < plan->count && plan->steps[i].kind <= STEP_PROVE; i++) {
		const char *name = plan_step_name(plan->steps[i].kind);
		progress_enter(apply->progress, name);
		if (actions[plan->steps[i].kind].run(&r, &plan->steps[i], err) < 0) {
			progress_fail(apply->progress);
			return err_wrap(err, "%s", name);
		}
	}
	return plan_has(plan, STEP_PROVE) ? check_target(&r, err) : 0;
}

int apply_plan(const struct apply *apply, struct status *ret, struct err *err)
{
	auto_transaction struct transaction r = TRANSACTION_OF(apply, ret);
	const char *outcome = plan_outcome_name(apply->plan->outcome);
	sigset_t before;
	sigprocmask(SIG_BLOCK, NULL, &before);
	int done = transaction_open(&r, err);
	if (done == 0) {
		transaction_flush_journal(&r);
		done = run_steps(&r, err);
	}
	if (done < 0) {
		transaction_publish_failure(apply, outcome, err);
	} else {
		finish_transaction(&r);
		step_export_collect(&r);
		transaction_publish_end(&r, outcome);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	return done;
}

// A change that ended two boots is not started a third time; a rollback pauses for one boot (below).
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

static int load_last_good(struct transaction *r, struct err *err)
{
	auto_strv struct strv order = { 0 }, gone = { 0 };
	if (modules_unload_order(&r->a->facts->loaded, &order, err) < 0 ||
	    unload_modules(&order, r->a->sys, r->a->kern, r->a->unload_timeout_ms, &gone, err) < 0 ||
	    step_undo_unload(r, err) < 0)
		return -1;
	step_export_rollback(r);
	if (transaction_verify(r, NULL, err) < 0)
		return -1;
	progress_end(r->a->progress, "verify", "the last good driver, every post-condition holds");
	return 0;
}

// Prepared for a driver that will not be loaded.
static void drop_prepared_export(struct transaction *r)
{
	if (r->a->export && !r->a->export->is_switched)
		step_undo_export(r);
}

static int begin_recovery(struct transaction *r, struct err *err)
{
	static const struct driver_state none;
	const struct driver_state *last = &r->rollback.driver;
	const char *boot = r->a->facts->host.boot_id, *unfit = r->a->acquire->unfit;
	note_boot_loop(r);
	transaction_prepare_rollback(r->a, &r->journal, &none, &r->package, &r->rollback);
	if (!r->rollback.driver.version)
		return 0;
	auto_str char *why = journal_why_not(&r->journal, boot, &r->rollback.driver);
	if (why) {
		bool is_new = journal_skip_boot(&r->journal, boot);
		progress_note(r->a->progress, "the last good driver %s is not restored: %s%s",
			      r->rollback.driver.version, why,
			      str_eq(r->journal.rest, boot) ? "; the next boot tries again" : "");
		return is_new ? transaction_write_intent(r, err) : 0;
	}
	// Checked before anything is touched: a driver from the refused package would fail the same way. The user space
	// is prepared first, because it may contain the firmware.
	if (*unfit && str_eq(last->digest, unfit))
		return err_set(err, r->a->failure->code, "driver %s is in the package that was refused", last->version);
	step_prepare_rollback_export(r);
	if (step_check_rollback(r, err) < 0)
		return -1;
	journal_begin(&r->journal, boot, &r->rollback.driver, &none);
	journal_step(&r->journal, "back");
	if (transaction_publish(r, "back", r->rollback.driver.version, true, err) < 0)
		return -1;
	return transaction_write_intent(r, err) < 0 ? -1 : 1;
}

int apply_last_good(const struct apply *a, struct status *ret, struct err *err)
{
	auto_transaction struct transaction r = TRANSACTION_OF(a, ret);
	struct err owned;
	sigset_t before;
	if (transaction_open(&r, err) < 0)
		return -1;
	if (journal_is_wedged(&r.journal, a->facts->host.boot_id) || (a->facts->loaded.version && !r.was_open) ||
	    gpus_check_owner(&a->facts->gpus, false, &owned) < 0) // another driver has a GPU
		return 0;
	state_dir_init(&a->acquire->memory, a->host, a->kern, a->progress, true); // no driver is at risk
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
