// SPDX-License-Identifier: Apache-2.0
#include "transaction/transaction_internal.h"

#include "devices/cdi_spec_file.h"
#include "journal/loaded_params.h"
#include "status/status_file.h"
#include "transaction/unload.h"

#include <signal.h>

void transaction_done(struct transaction *t)
{
	package_done(&t->package);
	driver_state_done(&t->target);
	journal_done(&t->journal);
	rollback_done(&t->rollback);
	free(t->order);
	for (size_t i = 0; t->needs && i < t->set.count; i++)
		strv_done(&t->needs[i]);
	free(t->needs);
	optional_modules_done(&t->failed);
	module_set_done(&t->set);
	strv_done(&t->loaded);
	gpu_record_done(&t->before);
	facts_done(&t->now);
	unbind_done(&t->released);
}

static int transaction_open(struct transaction *t, struct err *err)
{
	progress_begin(t->session->node.progress);
	if (journal_find(t->session->node.host, t->session->node.state, &t->journal, err) < 0)
		return -1;
	t->was_open = journal_is_open(&t->journal, t->session->node.boot);
	return 0;
}

// From the first change in the kernel on, a request to stop waits until the node is in a consistent state; and a
// closed log pipe must not kill us between an unload and the load after it.
static void block_signals(void)
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

static int keep_journal(struct transaction *t, bool is_memory_allowed, struct err *err)
{
	struct session *s = t->session;
	bool is_said = t->journal.unwritten;
	int kept = journal_keep(s->node.host, s->node.state, is_memory_allowed, &t->journal, err);
	if (kept > 0 && !is_said)
		progress_note(s->node.progress, "the journal of this boot is in memory only: %s", t->journal.unwritten);
	return kept < 0 ? -1 : 0;
}

// Boots that end during a change are counted on disk. A change that ended one is not started again while they cannot
// be counted; the last good driver is, because there is nothing better.
static int write_intent(struct transaction *t, struct err *err)
{
	const struct journal *j = &t->journal;
	bool is_counted = j->boots.count > 1 && !driver_state_same(&j->target, &j->last_good);
	if (keep_journal(t, t->session->acquire.memory.is_allowed && !is_counted, err) == 0)
		return 0;
	return is_counted ?
		       err_wrap(err, "this change ended a boot before, and another attempt could not be recorded") :
		       -1;
}

// Once the kernel is touched, an unwritable journal is not a reason to stop half-way: a later start checks the kernel
// first.
static void write_journal(struct transaction *t)
{
	struct err why;
	if (keep_journal(t, true, &why) < 0)
		progress_note(t->session->node.progress, "cannot write the journal: %s", why.text);
}

static void flush_journal(struct transaction *t)
{
	if (!t->journal.unwritten)
		return;
	write_journal(t);
	if (!t->journal.unwritten)
		progress_note(t->session->node.progress, "the journal is on disk again, in '%s'",
			      t->session->node.state->name);
}

// Publishes what is about to happen. Negative only before the first change in the kernel: the published status must not
// say that the driver is ready.
static int publish_step(const struct transaction *t, const char *step, const char *subject, bool is_touch,
			struct err *err)
{
	struct err why;
	struct session *s = t->session;
	if (status_file_step(s->node.host, &s->facts.host, step, subject, is_touch, &why) == 0)
		return 0;
	if (is_touch && !t->is_touched) {
		*err = why;
		return err_wrap(err, "withdraw the published status of this node");
	}
	progress_note(s->node.progress, "cannot publish the status of this node: %s", why.text);
	return 0;
}

static void publish_result(struct session *s, const struct facts *now, const struct status *status, const char *outcome,
			   const struct err *failure)
{
	struct err why;
	const struct status_file_end e = { .outcome = outcome, .progress = s->node.progress, .failure = failure };
	int r = cdi_spec_file_update(&s->node, s->request->cdi, status->has_gpu && status->is_ready, &why);
	if (r < 0) // a failure here must not fail a working node
		progress_note(s->node.progress, "CDI specification not updated, containers get no GPU: %s", why.text);
	else if (r > 0)
		progress_note(s->node.progress, "CDI specification updated");
	if (status_file_end(s->node.host, now, status, &e, &why) < 0)
		progress_note(s->node.progress, "cannot publish the status of this node: %s", why.text);
}

void transaction_publish_failure(struct session *s, const char *outcome, const struct err *failure)
{
	auto_facts struct facts now = { 0 };
	auto_status struct status status = { 0 };
	struct err why;
	if (facts_read(s->node.host, s->node.kern, &now, &why) < 0 || status_read(&now, &s->node, &status, &why) < 0)
		progress_note(s->node.progress, "cannot publish the status of this node: %s", why.text);
	else
		publish_result(s, &now, &status, outcome, failure);
}

// A freshly compiled package may turn out to be one that failed before: checked before holders are asked to end.
static int check_target(struct transaction *t, struct err *err)
{
	plan_target(&t->session->plan, &t->session->params, t->package.manifest.digest, t->session->facts.host.build_id,
		    &t->target);
	auto_str char *why = plan_why_not(&t->target, t->session->request, &t->session->facts, &t->journal);
	return why ? err_set(err, E_TARGET_FAILED, "%s", why) : 0;
}

// Up to here a full disk, a bad target or a missing way back has changed nothing that works.
static int begin_change(struct transaction *t, const struct step *step, struct err *err)
{
	const char *name = plan_step_name(step->kind);
	rollback_prepare(t->session, &t->journal, &t->target, &t->package, &t->rollback);
	journal_begin(&t->journal, t->session->node.boot, &t->target, &t->rollback.driver);
	journal_step(&t->journal, name);
	block_signals();
	if (t->rollback.driver.version) // may take seconds, in which the old driver still serves: not part of the step
		progress_end(t->session->node.progress, "prepare", "can roll back to driver %s %s",
			     t->rollback.driver.version, t->rollback.driver.flavour);
	if (publish_step(t, name, step->subject, true, err) < 0 || write_intent(t, err) < 0)
		return -1;
	t->is_touched = true;
	return 0;
}

static int begin_step(struct transaction *t, const struct step *step, struct err *err)
{
	const char *name = plan_step_name(step->kind);
	bool is_first = !t->is_touched && plan_step_is(step->kind, STEP_TOUCHES);
	if ((is_first || plan_step_is(step->kind, STEP_IS_FELT)) &&
	    (check_target(t, err) < 0 || step_prepare_export(t, err) < 0 || transaction_measure_before(t, err) < 0))
		return -1;
	if (is_first)
		return begin_change(t, step, err);
	if (t->is_touched) {
		journal_step(&t->journal, name);
		write_journal(t);
	}
	return plan_step_is(step->kind, STEP_IS_LONG) ? publish_step(t, name, step->subject, t->is_touched, err) : 0;
}

static int undo_steps(struct transaction *t, size_t failed, struct err *err)
{
	for (size_t i = failed + 1; i-- > 0;) {
		int (*undo)(struct transaction * t, struct err * err) =
			step_actions[t->session->plan.steps[i].kind].undo;
		if (undo && undo(t, err) < 0)
			return -1;
	}
	return step_undo_unload(t, err);
}

// Whether the target itself failed, so that another try would do the same harm. Transient causes do not count (no
// memory, a new holder, a missing module of the host), except for post-conditions of the target, nor do failed system
// calls, which have no code of ours.
static bool is_target_to_blame(const struct err *err)
{
	if (err->code == E_NOT_READY || err->code == E_NODES)
		return true;
	if (err->code < E_FIRST_)
		return false;
	return err->code != E_WEDGED && err->code != E_BOUND && err->code != E_FIRMWARE && err->code != E_READ_ONLY &&
	       !err_info(err->code)->retryable;
}

// Takes the optional modules that failed out of the target.
static void drop_failed_modules(struct transaction *t)
{
	for (size_t i = 0; i < t->failed.count; i++)
		driver_state_drop(&t->journal.target, t->failed.items[i].module);
}

// A GPU is broken that no driver mends.
static bool is_gpu_fault(const struct transaction *t, const struct err *err)
{
	return t->is_gpu_at_fault &&
	       (err->code == E_GPU_START || err->code == E_GPU_FAULT || err->code == E_GPU_UNTESTED);
}

// Measures which GPUs work with the driver that is back.
static void measure_undone(struct transaction *t)
{
	struct err why;
	facts_done(&t->now);
	if (!t->rollback.driver.version || facts_read(t->session->node.host, t->session->node.kern, &t->now, &why) < 0)
		return;
	if (transaction_check_gpus(t, &why) < 0)
		progress_note(t->session->node.progress, "%s", why.text);
}

static void undo_change(struct transaction *t, size_t failed, struct err *err)
{
	struct err why = { 0 };
	auto_str char *cause = str_dup(err->text);
	bool is_blamed = is_target_to_blame(err), is_wedged = err->code == E_WEDGED;
	// A driver that is loaded but not ready beats none: it is unloaded only if there is one to go back to that does
	// better, and never while a GPU's start has not ended.
	bool is_loaded = plan_step_is(t->session->plan.steps[failed].kind, STEP_IS_LOADED),
	     is_pending = err->code == E_GPU_PENDING;
	bool is_kept = is_loaded && (!t->rollback.driver.version || is_pending || is_gpu_fault(t, err));
	if (!is_kept && !gpu_holds_release(&t->session->holds))
		progress_note(t->session->node.progress, "the driver has not closed every GPU yet");
	if (!is_kept || !t->session->driver_root.dir || !t->session->driver_root.is_switched)
		step_undo_export(t);
	if (!is_kept && !is_wedged) {
		journal_step(&t->journal, "undo");
		write_journal(t);
		publish_step(t, "undo", t->rollback.driver.version, true, &why);
		// The node's state comes first: the cause quotes the kernel and may be long.
		if (undo_steps(t, failed, &why) < 0)
			err_set(err, why.code == E_WEDGED ? E_WEDGED : err->code, "could not be undone, %s; cause: %s",
				why.text, cause);
		else
			measure_undone(t);
	}
	if (is_blamed && !is_kept)
		journal_failed(&t->journal, err);
	if (is_kept && !is_wedged) {
		drop_failed_modules(t);
		journal_left(&t->journal);
	} else if (!is_wedged || t->session->plan.steps[failed].kind != STEP_LOAD) {
		journal_rolled_back(&t->journal);
	}
	if (err->code == E_WEDGED)
		journal_wedge(&t->journal, t->session->node.boot, err->text);
	write_journal(t);
}

// The planned driver as it is loaded now: without optional modules that failed in an earlier run of this boot.
static void loaded_target(const struct transaction *t, const char *digest, struct driver_state *ret)
{
	const struct plan *p = &t->session->plan;
	plan_target(p, &t->session->params, digest, t->session->facts.host.build_id, ret);
	for (size_t i = 0; i < p->optional.count; i++)
		if (!modules_find(&t->now.loaded, p->optional.items[i]))
			driver_state_drop(ret, p->optional.items[i]);
}

// Whether the kernel has what was meant, parameters included; else the request is another one now.
static bool is_loaded_as_meant(const struct transaction *t, const struct driver_state *meant)
{
	auto_driver_state struct driver_state found = { 0 };
	loaded_target(t, meant->digest, &found);
	return meant->version && driver_state_same(&found, meant);
}

// An adopted driver is the last good one, too: a run of this boot loaded it and could not end well, or the journal that
// knew it is lost. Without its package in the store there would be no way back to it.
static bool is_adopted_anew(struct transaction *t)
{
	struct journal *j = &t->journal;
	const struct driver_state *left = journal_left_loaded(j, t->session->node.boot);
	const struct acquire *o = &t->session->acquire;
	const struct package *p = acquire_found(o);
	auto_driver_state struct driver_state found = { 0 };
	auto_package struct package stored = PACKAGE_NONE;
	struct err ignored;
	if (left && is_loaded_as_meant(t, left)) {
		journal_succeeded(j);
		return true;
	}
	// The journal of this boot knows better how it was loaded.
	if (loaded_params_record(j, t->session->node.boot, t->session->plan.driver,
				 module_type_name(t->session->plan.flavour)))
		return false;
	if (j->state != JOURNAL_IDLE || !p || !acquire_has_store(o) || !plan_has(&t->session->plan, STEP_ADOPT) ||
	    is_loaded_as_meant(t, &j->last_good))
		return false;
	const struct package_want want = { .digest = p->manifest.digest };
	if (package_find(&o->store.layout, &want, &stored, NULL, &ignored) <= 0)
		return false;
	loaded_target(t, p->manifest.digest, &found);
	journal_adopted(j, &found);
	return true;
}

// Also what an earlier run could not write.
static void record_roots(const struct transaction *t)
{
	const char *hex = t->journal.last_good.digest;
	const struct acquire *o = &t->session->acquire;
	auto_store_roots struct store_roots roots = { 0 };
	struct err ignored;
	if (!hex || !acquire_has_store(o) ||
	    (store_roots(&o->store, &roots, &ignored) == 0 && str_eq(roots.target, hex) &&
	     str_eq(roots.last_good, hex)))
		return;
	transaction_remember(t, hex, store_set_target);
	transaction_remember(t, hex, store_set_last_good);
}

// Every post-condition holds: what this or an interrupted run changed becomes the last good driver.
static void finish_transaction(struct transaction *t)
{
	struct journal *j = &t->journal;
	bool is_unfinished = journal_is_unfinished(j, t->session->node.boot), is_good;
	if (t->was_open)
		step_commit_unbind_left(t);
	if (t->is_touched || is_unfinished) {
		is_good = t->is_touched || is_loaded_as_meant(t, &j->target);
		drop_failed_modules(t);
		if (is_good)
			journal_succeeded(j);
		else
			journal_rolled_back(j);
	} else {
		is_good = is_adopted_anew(t);
	}
	if (is_good || is_unfinished)
		write_journal(t);
	if (is_good || is_loaded_as_meant(t, &j->last_good))
		record_roots(t);
}

int session_foresee(struct session *s, struct err *err)
{
	struct status unused = { 0 };
	auto_transaction struct transaction t = TRANSACTION_OF(s, &unused);
	for (size_t i = 0; i < s->plan.count; i++)
		if (step_foresee(&t, &s->plan.steps[i], err) < 0)
			return err_wrap(err, "%s", plan_step_name(s->plan.steps[i].kind));
	return 0;
}

int session_stage(struct session *s, const struct compile_gate *gate, struct err *err)
{
	struct status unused = { 0 };
	auto_transaction struct transaction t = TRANSACTION_OF(s, &unused);
	const struct plan *plan = &s->plan;
	t.gate = gate;
	if (transaction_open(&t, err) < 0)
		return -1;
	for (size_t i = 0; i < plan->count && plan_step_is(plan->steps[i].kind, STEP_IS_STAGED); i++) {
		const char *name = plan_step_name(plan->steps[i].kind);
		progress_enter(s->node.progress, name);
		if (step_actions[plan->steps[i].kind].run(&t, &plan->steps[i], err) < 0) {
			progress_fail(s->node.progress);
			return err_wrap(err, "%s", name);
		}
	}
	return plan_has(plan, STEP_PROVE) ? check_target(&t, err) : 0;
}

int apply_plan(struct session *s, const struct compile_gate *gate, struct status *ret, struct err *err)
{
	auto_transaction struct transaction t = TRANSACTION_OF(s, ret);
	const struct plan *plan = &s->plan;
	const char *outcome = plan_outcome_name(plan->outcome);
	sigset_t before;
	t.gate = gate;
	sigprocmask(SIG_BLOCK, NULL, &before);
	int done = transaction_open(&t, err);
	if (done == 0)
		flush_journal(&t);
	for (size_t i = 0; done == 0 && i < plan->count; i++) {
		const struct step *step = &plan->steps[i];
		progress_enter(s->node.progress, plan_step_name(step->kind));
		if (begin_step(&t, step, err) == 0 && step_actions[step->kind].run(&t, step, err) >= 0)
			continue;
		progress_fail(s->node.progress);
		err_wrap(err, "%s", plan_step_name(step->kind));
		if (t.is_touched)
			undo_change(&t, i, err);
		else
			step_undo_export(&t);
		done = -1;
	}
	if (done < 0) {
		transaction_publish_failure(s, outcome, err);
	} else {
		finish_transaction(&t);
		step_export_collect(&t);
		publish_result(s, &t.now, ret, outcome, NULL);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	return done;
}

// Chooses the driver that comes back, if any. A change that ended two boots is not started a third time; bringing back
// the last good driver pauses for one boot.
static int choose_last_good(struct transaction *t, struct err *err)
{
	static const struct driver_state none;
	struct journal *j = &t->journal;
	const char *boot = t->session->node.boot;
	auto_str char *loop = journal_why_not(j, boot, &j->target);
	if (loop && journal_is_unfinished(j, boot) && !t->was_open && !driver_state_same(&j->target, &j->last_good)) {
		struct err why;
		err_set(&why, E_TARGET_FAILED, "%s", loop);
		journal_failed(j, &why);
	}
	rollback_prepare(t->session, j, &none, &t->package, &t->rollback);
	if (!t->rollback.driver.version)
		return 0;
	auto_str char *why = journal_why_not(j, boot, &t->rollback.driver);
	if (!why)
		return 1;
	bool is_new = journal_skip_boot(j, boot);
	progress_note(t->session->node.progress, "the last good driver %s is not restored: %s%s",
		      t->rollback.driver.version, why, str_eq(j->rest, boot) ? "; the next boot tries again" : "");
	return is_new ? write_intent(t, err) : 0;
}

// Nothing is touched yet. A driver from the refused package would fail the same way. The user space comes before the
// firmware check, because it may contain the firmware.
static int begin_recovery(struct transaction *t, struct err *err)
{
	static const struct driver_state none;
	const struct driver_state *last = &t->rollback.driver;
	const char *unfit = t->session->acquire.unfit;
	struct err why;
	if (*unfit && str_eq(last->digest, unfit))
		return err_set(err, t->failure->code, "driver %s is in the package that was refused", last->version);
	if (t->session->driver_root.dir && step_prepare_rollback_export(t, &why) < 0)
		progress_note(t->session->node.progress, "the user space of driver %s is not exported: %s",
			      last->version, why.text);
	if (step_check_rollback(t, err) < 0)
		return -1;
	journal_begin(&t->journal, t->session->node.boot, last, &none);
	journal_step(&t->journal, "back");
	return publish_step(t, "back", last->version, true, err) < 0 ? -1 : write_intent(t, err);
}

static int load_last_good(struct transaction *t, struct err *err)
{
	auto_strv struct strv order = { 0 }, gone = { 0 };
	gpu_holds_release(&t->session->holds); // of the run that failed
	if (modules_unload_order(&t->session->facts.loaded, &order, err) < 0 ||
	    unload_modules(&order, t->session->node.sys, t->session->node.kern, t->session->request->unload_timeout_ms,
			   &gone, err) < 0 ||
	    step_undo_unload(t, err) < 0)
		return -1;
	step_export_rollback(t);
	// With a GPU that does not start it is still the last good one, and better than none.
	if (transaction_verify(t, NULL, err) < 0 && err->code != E_GPU_PENDING && !is_gpu_fault(t, err))
		return -1;
	progress_end(t->session->node.progress, "verify", "the last good driver, every post-condition holds");
	return 0;
}

int apply_last_good(struct session *s, const struct err *failure, struct status *ret, struct err *err)
{
	auto_transaction struct transaction t = TRANSACTION_OF(s, ret);
	struct err owned;
	sigset_t before;
	auto_served_gpus struct gpus served = { 0 };
	enum module_type flavour = MODULE_TYPE_AUTO;
	t.failure = failure;
	if (transaction_open(&t, err) < 0)
		return -1;
	module_type_parse(t.journal.last_good.flavour, &flavour);
	gpu_support_served(&s->facts.gpus, t.journal.last_good.version, flavour, &served);
	if (journal_is_wedged(&t.journal, s->node.boot) || (s->facts.loaded.version && !t.was_open) ||
	    gpus_check_owner(&served, false, &owned) < 0) // another driver has a GPU
		return 0;
	state_dir_init(&s->acquire.memory, &s->node, true); // no driver is at risk
	flush_journal(&t);
	sigprocmask(SIG_BLOCK, NULL, &before);
	int done = choose_last_good(&t, err);
	if (done == 0)
		return 0;
	if (done > 0)
		done = begin_recovery(&t, err);
	if (done == 0) {
		block_signals();
		done = load_last_good(&t, err);
		if (done == 0)
			journal_succeeded(&t.journal);
		else if (err->code == E_WEDGED)
			journal_wedge(&t.journal, s->node.boot, err->text);
		else
			journal_rolled_back(&t.journal);
		write_journal(&t);
	}
	if (done < 0) {
		if (s->driver_root.dir && !s->driver_root.is_switched) // prepared for a driver that is not loaded
			step_undo_export(&t);
		transaction_publish_failure(s, "back", err);
	} else {
		step_export_collect(&t);
		publish_result(s, &t.now, ret, "back", failure);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	return done < 0 ? -1 : 1;
}
