// SPDX-License-Identifier: Apache-2.0
#include "transaction/apply_internal.h"

#include <signal.h>

void run_done(struct run *r)
{
	package_done(&r->package);
	driver_done(&r->target);
	journal_done(&r->journal);
	back_done(&r->back);
	free(r->order);
	for (size_t i = 0; r->needs && i < r->set.count; i++)
		strv_done(&r->needs[i]);
	free(r->needs);
	optional_done(&r->failed);
	module_set_done(&r->set);
	strv_done(&r->loaded);
	facts_done(&r->now);
	released_done(&r->released);
}

static const struct {
	int (*run)(struct run *r, const struct step *step, struct err *err);
	int (*undo)(struct run *r, struct err *err);
	bool is_touch; // changes the kernel: from the first of these on there is a journal
	bool is_long;  // may be: others are told that it began
} actions[] = {
	[STEP_PAYLOAD] = { step_payload, NULL, false, true },      [STEP_ADOPT] = { step_adopt, NULL, false, false },
	[STEP_PREFLIGHT] = { step_preflight, NULL, false, false }, [STEP_PACKAGE] = { step_package, NULL, false, true },
	[STEP_COMPILE] = { step_compile, NULL, false, true },      [STEP_PROVE] = { step_prove, NULL, false, false },
	[STEP_HOLDERS] = { step_holders, NULL, false, true },      [STEP_UNLOAD] = { step_unload, NULL, true, true },
	[STEP_UNBIND] = { step_unbind, undo_unbind, true, true },  [STEP_LOAD] = { step_load, undo_load, true, true },
	[STEP_NODES] = { step_nodes, NULL, false, false },         [STEP_EXPORT] = { step_export, NULL, false, false },
	[STEP_VERIFY] = { step_verify, NULL, false, false },
};

void run_remember(const struct run *r, const char *digest,
		  int (*set)(const struct store *s, const char *hex, struct err *err))
{
	struct err why;
	if (digest && obtain_has_store(r->a->obtain) && set(&r->a->obtain->store, digest, &why) < 0)
		watch_note(r->a->watch, "the store does not remember package %.12s: %s", digest, why.text);
}

int run_keep_reuse(const struct run *r, const struct package *p, struct err *err)
{
	const struct host *host = &r->a->facts->host;
	bool is_other = p->count && !str_eq(p->key.release, host->release);
	if (!obtain_has_store(r->a->obtain))
		return 0;
	return store_set_reuse(&r->a->obtain->store, host->release, host->build_id,
			       is_other ? p->manifest.digest : NULL, err);
}

void run_hold_signals(void)
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

static int keep_journal(struct run *r, bool is_memory_allowed, struct err *err)
{
	const struct apply *a = r->a;
	bool is_said = r->journal.unwritten;
	int kept = journal_keep(a->host, a->state, is_memory_allowed, &r->journal, err);
	if (kept > 0 && !is_said)
		watch_note(a->watch, "the journal of this boot is in memory only: %s", r->journal.unwritten);
	return kept < 0 ? -1 : 0;
}

// Boots that end in a change are counted on the disk. What ended one already is not begun again while nobody counts;
// the last good driver is, because nothing better is known.
int run_note_intent(struct run *r, struct err *err)
{
	const struct journal *j = &r->journal;
	bool is_counted = j->boots.count > 1 && !driver_same(&j->target, &j->last_good);
	if (keep_journal(r, r->a->obtain->memory.is_allowed && !is_counted, err) == 0)
		return 0;
	return is_counted ? err_wrap(err, "a boot ended in this change before, and another one could not be noted") :
			    -1;
}

void run_write(struct run *r)
{
	struct err why;
	if (keep_journal(r, true, &why) < 0)
		watch_note(r->a->watch, "the journal is not written: %s", why.text);
}

int run_without_note(const struct run *r, struct err *err)
{
	if (!r->a->obtain->memory.is_allowed || !memstate_is_due(err))
		return -1;
	watch_note(r->a->watch, "the store does not remember what is loaded: %s", err->text);
	return 0;
}

// What was compiled just now may turn out to be what failed before: nobody has to end for that.
static int check_target(struct run *r, struct err *err)
{
	plan_target(r->a->plan, r->a->wish, r->package.manifest.digest, r->a->facts->host.build_id, &r->target);
	auto_str char *why = plan_why_not(&r->target, r->a->wish, r->a->facts, &r->journal);
	return why ? err_set(err, E_TARGET_FAILED, "%s", why) : 0;
}

// Up to here a full disk, a bad target or a missing way back stops nothing that works.
static int begin(struct run *r, const struct step *step, struct err *err)
{
	const char *name = step_kind_name(step->kind);
	const struct host *host = &r->a->facts->host;
	if (check_target(r, err) < 0 || run_prepare_export(r, err) < 0)
		return -1;
	back_prepare(r->a, &r->journal, &r->target, &r->package, &r->back);
	journal_begin(&r->journal, host->boot_id, &r->target, &r->back.driver);
	journal_step(&r->journal, name);
	run_hold_signals();
	if (r->back.driver.version) // it may take seconds, in which the driver still serves: no part of the step
		watch_end(r->a->watch, "prepare", "driver %s %s could come back", r->back.driver.version,
			  r->back.driver.flavour);
	if (run_publish(r, name, step->subject, true, err) < 0 || run_note_intent(r, err) < 0)
		return -1;
	r->is_touched = true;
	return 0;
}

static int before(struct run *r, const struct step *step, struct err *err)
{
	const char *name = step_kind_name(step->kind);
	if (step->kind == STEP_HOLDERS && (check_target(r, err) < 0 || run_prepare_export(r, err) < 0))
		return -1;
	if (!r->is_touched && actions[step->kind].is_touch)
		return begin(r, step, err);
	if (r->is_touched) {
		journal_step(&r->journal, name);
		run_write(r);
	}
	return actions[step->kind].is_long ? run_publish(r, name, step->subject, r->is_touched, err) : 0;
}

static int undo_steps(struct run *r, size_t failed, struct err *err)
{
	for (size_t i = failed + 1; i-- > 0;) {
		int (*undo)(struct run * r, struct err * err) = actions[r->a->plan->steps[i].kind].undo;
		if (undo && undo(r, err) < 0)
			return -1;
	}
	return undo_unload(r, err);
}

// Whether a failure is the target's own, so that trying the same again would only harm again. What may pass by itself
// is not (no memory, a holder that came, a module of the host's that is missing), except for what was measured of the
// target; nor is a call of ours that the system refused, for which it has no code of ours.
static bool is_blame(const struct err *err)
{
	if (err->code == E_NOT_READY || err->code == E_NODES)
		return true;
	if (err->code < E_FIRST_)
		return false;
	return err->code != E_WEDGED && err->code != E_BOUND && err->code != E_FIRMWARE &&
	       !err_info(err->code)->retryable;
}

static int undo(struct run *r, size_t failed, struct err *err)
{
	struct err why = { 0 };
	auto_str char *cause = str_dup(err->text);
	bool is_blamed = is_blame(err), is_wedged = err->code == E_WEDGED;
	// A driver that loads but is not right yet beats none: it goes only when there is one to come back to.
	bool is_kept = r->a->plan->steps[failed].kind > STEP_LOAD && !r->back.driver.version;
	if (!is_kept || !r->a->export || !r->a->export->is_switched)
		run_unexport(r);
	if (!is_kept && !is_wedged) {
		journal_step(&r->journal, "undo");
		run_write(r);
		run_publish(r, "undo", r->back.driver.version, true, &why);
		// First what state the node is in: the cause quotes the kernel and may be long.
		if (undo_steps(r, failed, &why) < 0)
			err_set(err, why.code == E_WEDGED ? E_WEDGED : err->code, "could not be undone, %s; cause: %s",
				why.text, cause);
	}
	if (is_blamed && !is_kept)
		journal_fail(&r->journal, err);
	if (!is_wedged || r->a->plan->steps[failed].kind != STEP_LOAD)
		journal_back(&r->journal);
	if (err->code == E_WEDGED)
		journal_wedge(&r->journal, r->a->facts->host.boot_id, err->text);
	run_write(r);
	return -1;
}

static int run_steps(struct run *r, struct err *err)
{
	const struct plan *plan = r->a->plan;
	for (size_t i = 0; i < plan->count; i++) {
		enum step_kind kind = plan->steps[i].kind;
		watch_enter(r->a->watch, step_kind_name(kind));
		if (before(r, &plan->steps[i], err) < 0 || actions[kind].run(r, &plan->steps[i], err) < 0) {
			watch_fail(r->a->watch);
			err_wrap(err, "%s", step_kind_name(kind));
			if (r->is_touched)
				return undo(r, i, err);
			run_unexport(r);
			return -1;
		}
	}
	return 0;
}

// What was found in the kernel is what a run that was cut off meant, parameters included; else it was cut off before it
// changed anything, and somebody has changed their mind.
static bool is_meant(const struct run *r)
{
	const struct driver *meant = &r->journal.target;
	auto_driver struct driver found = { 0 };
	plan_target(r->a->plan, r->a->wish, meant->digest, r->a->facts->host.build_id, &found);
	return driver_same(&found, meant);
}

// Everything holds: what was changed, or what a run that was cut off had changed, is the last good driver.
static void finish(struct run *r)
{
	if (r->was_open)
		settle_left(r);
	if (!r->is_touched && !journal_is_unfinished(&r->journal, r->a->facts->host.boot_id))
		return;
	bool is_good = r->is_touched || is_meant(r);
	run_drop_optional(r);
	if (is_good)
		journal_good(&r->journal);
	else
		journal_back(&r->journal);
	run_write(r);
	run_remember(r, r->journal.last_good.digest, store_set_last_good);
}

int run_open(struct run *r, struct err *err)
{
	watch_begin(r->a->watch);
	if (journal_find(r->a->host, r->a->state, &r->journal, err) < 0)
		return -1;
	r->was_open = journal_is_open(&r->journal, r->a->facts->host.boot_id);
	return 0;
}

void run_settle_journal(struct run *r)
{
	if (!r->journal.unwritten)
		return;
	run_write(r);
	if (!r->journal.unwritten)
		watch_note(r->a->watch, "the journal, which was in memory, is in '%s' again", r->a->state->name);
}

static int open_and_run(struct run *r, struct err *err)
{
	if (run_open(r, err) < 0)
		return -1;
	run_settle_journal(r);
	return run_steps(r, err);
}

int apply_stage(const struct apply *apply, struct err *err)
{
	struct status unused = { 0 };
	auto_run struct run r = RUN(apply, &unused);
	const struct plan *plan = apply->plan;
	if (run_open(&r, err) < 0)
		return -1;
	for (size_t i = 0; i < plan->count && plan->steps[i].kind <= STEP_PROVE; i++) {
		const char *name = step_kind_name(plan->steps[i].kind);
		watch_enter(apply->watch, name);
		if (actions[plan->steps[i].kind].run(&r, &plan->steps[i], err) < 0) {
			watch_fail(apply->watch);
			return err_wrap(err, "%s", name);
		}
	}
	return plan_has(plan, STEP_PROVE) ? check_target(&r, err) : 0;
}

int apply_plan(const struct apply *apply, struct status *ret, struct err *err)
{
	auto_run struct run r = RUN(apply, ret);
	const char *outcome = plan_outcome_name(apply->plan->outcome);
	sigset_t before;
	sigprocmask(SIG_BLOCK, NULL, &before);
	int done = open_and_run(&r, err);
	if (done < 0) {
		apply_failed(apply, outcome, err);
	} else {
		finish(&r);
		run_collect(&r);
		run_publish_end(&r, outcome);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	return done;
}
