// SPDX-License-Identifier: Apache-2.0
#include "transaction/apply_internal.h"

#include <signal.h>

void transaction_done(struct transaction *r)
{
	package_done(&r->package);
	driver_state_done(&r->target);
	journal_done(&r->journal);
	rollback_done(&r->rollback);
	free(r->order);
	for (size_t i = 0; r->needs && i < r->set.count; i++)
		strv_done(&r->needs[i]);
	free(r->needs);
	optional_modules_done(&r->failed);
	module_set_done(&r->set);
	strv_done(&r->loaded);
	facts_done(&r->now);
	unbind_done(&r->released);
}

static const struct {
	int (*transaction)(struct transaction *r, const struct step *step, struct err *err);
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

void transaction_remember(const struct transaction *r, const char *digest,
			  int (*set)(const struct store *s, const char *hex, struct err *err))
{
	struct err why;
	if (digest && acquire_has_store(r->a->acquire) && set(&r->a->acquire->store, digest, &why) < 0)
		progress_note(r->a->progress, "the store does not remember package %.12s: %s", digest, why.text);
}

int transaction_note_reuse(const struct transaction *r, const struct package *p, struct err *err)
{
	const struct host *host = &r->a->facts->host;
	bool is_other = p->count && !str_eq(p->key.release, host->release);
	if (!acquire_has_store(r->a->acquire))
		return 0;
	return store_set_reuse(&r->a->acquire->store, host->release, host->build_id,
			       is_other ? p->manifest.digest : NULL, err);
}

void transaction_block_signals(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGPIPE);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

static int keep_journal(struct transaction *r, bool is_memory_allowed, struct err *err)
{
	const struct apply *a = r->a;
	bool is_said = r->journal.unwritten;
	int kept = journal_keep(a->host, a->state, is_memory_allowed, &r->journal, err);
	if (kept > 0 && !is_said)
		progress_note(a->progress, "the journal of this boot is in memory only: %s", r->journal.unwritten);
	return kept < 0 ? -1 : 0;
}

// Boots that end in a change are counted on the disk. What ended one already is not begun again while nobody counts;
// the last good driver is, because nothing better is known.
int transaction_write_intent(struct transaction *r, struct err *err)
{
	const struct journal *j = &r->journal;
	bool is_counted = j->boots.count > 1 && !driver_state_same(&j->target, &j->last_good);
	if (keep_journal(r, r->a->acquire->memory.is_allowed && !is_counted, err) == 0)
		return 0;
	return is_counted ? err_wrap(err, "a boot ended in this change before, and another one could not be noted") :
			    -1;
}

void transaction_write_journal(struct transaction *r)
{
	struct err why;
	if (keep_journal(r, true, &why) < 0)
		progress_note(r->a->progress, "the journal is not written: %s", why.text);
}

int transaction_may_go_unwritten(const struct transaction *r, struct err *err)
{
	if (!r->a->acquire->memory.is_allowed || !state_dir_is_disk_error(err))
		return -1;
	progress_note(r->a->progress, "the store does not remember what is loaded: %s", err->text);
	return 0;
}

// What was compiled just now may turn out to be what failed before: nobody has to end for that.
static int check_target(struct transaction *r, struct err *err)
{
	plan_target(r->a->plan, r->a->request, r->package.manifest.digest, r->a->facts->host.build_id, &r->target);
	auto_str char *why = plan_why_not(&r->target, r->a->request, r->a->facts, &r->journal);
	return why ? err_set(err, E_TARGET_FAILED, "%s", why) : 0;
}

// Up to here a full disk, a bad target or a missing way back stops nothing that works.
static int begin_change(struct transaction *r, const struct step *step, struct err *err)
{
	const char *name = plan_step_name(step->kind);
	const struct host *host = &r->a->facts->host;
	if (check_target(r, err) < 0 || step_prepare_export(r, err) < 0)
		return -1;
	rollback_prepare(r->a, &r->journal, &r->target, &r->package, &r->rollback);
	journal_begin(&r->journal, host->boot_id, &r->target, &r->rollback.driver);
	journal_step(&r->journal, name);
	transaction_block_signals();
	if (r->rollback.driver.version) // it may take seconds, in which the driver still serves: no part of the step
		progress_end(r->a->progress, "prepare", "driver %s %s could come back", r->rollback.driver.version,
			     r->rollback.driver.flavour);
	if (transaction_publish(r, name, step->subject, true, err) < 0 || transaction_write_intent(r, err) < 0)
		return -1;
	r->is_touched = true;
	return 0;
}

static int before(struct transaction *r, const struct step *step, struct err *err)
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

// Whether a failure is the target's own, so that trying the same again would only harm again. What may pass by itself
// is not (no memory, a holder that came, a module of the host's that is missing), except for what was measured of the
// target; nor is a call of ours that the system refused, for which it has no code of ours.
static bool is_target_to_blame(const struct err *err)
{
	if (err->code == E_NOT_READY || err->code == E_NODES)
		return true;
	if (err->code < E_FIRST_)
		return false;
	return err->code != E_WEDGED && err->code != E_BOUND && err->code != E_FIRMWARE &&
	       !err_info(err->code)->retryable;
}

static int undo(struct transaction *r, size_t failed, struct err *err)
{
	struct err why = { 0 };
	auto_str char *cause = str_dup(err->text);
	bool is_blamed = is_target_to_blame(err), is_wedged = err->code == E_WEDGED;
	// A driver that loads but is not right yet beats none: it goes only when there is one to come back to.
	bool is_kept = r->a->plan->steps[failed].kind > STEP_LOAD && !r->rollback.driver.version;
	if (!is_kept || !r->a->export || !r->a->export->is_switched)
		step_undo_export(r);
	if (!is_kept && !is_wedged) {
		journal_step(&r->journal, "undo");
		transaction_write_journal(r);
		transaction_publish(r, "undo", r->rollback.driver.version, true, &why);
		// First what state the node is in: the cause quotes the kernel and may be long.
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
		if (before(r, &plan->steps[i], err) < 0 || actions[kind].transaction(r, &plan->steps[i], err) < 0) {
			progress_fail(r->a->progress);
			err_wrap(err, "%s", plan_step_name(kind));
			if (r->is_touched)
				return undo(r, i, err);
			step_undo_export(r);
			return -1;
		}
	}
	return 0;
}

// What was found in the kernel is what a run that was cut off meant, parameters included; else it was cut off before it
// changed anything, and somebody has changed their mind.
static bool is_loaded_as_meant(const struct transaction *r)
{
	const struct driver_state *meant = &r->journal.target;
	auto_driver_state struct driver_state found = { 0 };
	plan_target(r->a->plan, r->a->request, meant->digest, r->a->facts->host.build_id, &found);
	return driver_state_same(&found, meant);
}

// Everything holds: what was changed, or what a run that was cut off had changed, is the last good driver.
static void finish_transaction(struct transaction *r)
{
	if (r->was_open)
		step_commit_unbind_left(r);
	if (!r->is_touched && !journal_is_unfinished(&r->journal, r->a->facts->host.boot_id))
		return;
	bool is_good = r->is_touched || is_loaded_as_meant(r);
	optional_step_drop(r);
	if (is_good)
		journal_succeeded(&r->journal);
	else
		journal_rolled_back(&r->journal);
	transaction_write_journal(r);
	transaction_remember(r, r->journal.last_good.digest, store_set_last_good);
}

int transaction_open(struct transaction *r, struct err *err)
{
	progress_begin(r->a->progress);
	if (journal_find(r->a->host, r->a->state, &r->journal, err) < 0)
		return -1;
	r->was_open = journal_is_open(&r->journal, r->a->facts->host.boot_id);
	return 0;
}

void transaction_flush_journal(struct transaction *r)
{
	if (!r->journal.unwritten)
		return;
	transaction_write_journal(r);
	if (!r->journal.unwritten)
		progress_note(r->a->progress, "the journal, which was in memory, is in '%s' again", r->a->state->name);
}

static int run_transaction(struct transaction *r, struct err *err)
{
	if (transaction_open(r, err) < 0)
		return -1;
	transaction_flush_journal(r);
	return run_steps(r, err);
}

int apply_stage(const struct apply *apply, struct err *err)
{
	struct status unused = { 0 };
	auto_transaction struct transaction r = RUN(apply, &unused);
	const struct plan *plan = apply->plan;
	if (transaction_open(&r, err) < 0)
		return -1;
	for (size_t i = 0; i < plan->count && plan->steps[i].kind <= STEP_PROVE; i++) {
		const char *name = plan_step_name(plan->steps[i].kind);
		progress_enter(apply->progress, name);
		if (actions[plan->steps[i].kind].transaction(&r, &plan->steps[i], err) < 0) {
			progress_fail(apply->progress);
			return err_wrap(err, "%s", name);
		}
	}
	return plan_has(plan, STEP_PROVE) ? check_target(&r, err) : 0;
}

int apply_plan(const struct apply *apply, struct status *ret, struct err *err)
{
	auto_transaction struct transaction r = RUN(apply, ret);
	const char *outcome = plan_outcome_name(apply->plan->outcome);
	sigset_t before;
	sigprocmask(SIG_BLOCK, NULL, &before);
	int done = run_transaction(&r, err);
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
