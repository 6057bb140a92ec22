// SPDX-License-Identifier: Apache-2.0
// The GPUs before a driver goes and after another came, and whose fault it is if one does not work.
#include "transaction/transaction_internal.h"

#include "base/core/date.h"

// A broken GPU is not tried again for so long: each try boots it anew, and a container that fails is started again
// soon.
enum { BROKEN_KEEPS_S = 300 };

// Where there are NVSwitches, the fabric manager comes up after this run, and until then no GPU answers as it will.
static struct gpu_check gpu_check_of(struct session *s, const struct facts *facts, enum gpu_level deepest)
{
	const struct gpu_start start = { .node = &s->node, .facts = facts, .timeout_ms = s->request->gpus.timeout_ms };
	if (s->request->gpus.is_start_only || gpus_count_ours(&facts->gpus, GPU_SWITCH))
		deepest = GPU_START;
	else if (deepest == GPU_COMPUTE && !modules_find(&facts->loaded, "nvidia_uvm"))
		deepest = GPU_ANSWER;
	return (struct gpu_check){ .start = start, .deepest = deepest };
}

static void keep_record(const struct transaction *t, const struct gpu_record *record)
{
	struct session *s = t->session;
	struct err why;
	if (gpu_record_write(s->node.host, s->node.state, s->node.boot, record, &why) < 0)
		progress_note(s->node.progress, "cannot record how the GPUs are: %s", why.text);
}

int transaction_measure_before(struct transaction *t, struct err *err)
{
	auto_gpu_holds struct gpu_holds holds = { 0 };
	struct session *s = t->session;
	if (s->request->gpus.is_off || !s->facts.loaded.version || !plan_has(&s->plan, STEP_UNLOAD) ||
	    t->is_before_known)
		return 0;
	const struct gpu_check check = gpu_check_of(s, &s->facts, GPU_ANSWER); // somebody may compute
	progress_enter(s->node.progress, "gpus");
	if (gpu_record_measure(&check, &t->before, &holds, err) < 0)
		return err_wrap(err, "before the change");
	t->is_before_known = true;
	auto_str char *text = gpu_results_text(&t->before.results);
	if (gpu_results_count(&t->before.results, GPU_PENDING) || !gpu_holds_release(&holds)) {
		t->before.allowed = s->request->gpus.allowed_missing;
		keep_record(t, &t->before); // until they are measured again the node is not ready
		err_set(err, E_GPU_PENDING, "before the change: %s", text);
		return err_next(err, "nothing was changed; see what the GPU hangs in (`dmesg | grep NVRM`), drain the "
				     "node and reboot it");
	}
	progress_end(s->node.progress, "gpus", "before the change: %s", text);
	return 0;
}

// A GPU that was never measured counts as working if there is a driver to go back to.
static bool has_worked(const struct transaction *t, const struct gpu_record *last, const struct gpu_result *now)
{
	const struct gpu_result *before = gpu_results_find(&t->before.results, now->address);
	const struct gpu_result *record = gpu_results_find(&last->results, now->address);
	if (t->is_before_known && (!before || before->outcome == GPU_BROKEN || before->level >= now->level))
		return before && before->outcome != GPU_BROKEN;
	if (record) // deeper than it was looked at before the change, or there was no look
		return record->outcome != GPU_BROKEN;
	return t->is_before_known || t->rollback.driver.version;
}

// Whether the driver that was just loaded broke a GPU. One that is the last good driver, as it was, did not: before the
// reboot it worked with it. What only a reset mends is not mended by another driver either.
static bool is_driver_at_fault(const struct transaction *t, const struct gpu_results *now)
{
	auto_gpu_record struct gpu_record last = { 0 };
	struct err ignored;
	if (!t->is_before_known && driver_state_same(&t->target, &t->journal.last_good))
		return false;
	gpu_record_last(t->session->node.state, &last, &ignored);
	// A record that an interrupted attempt at this very driver left does not tell what worked before.
	if (!t->is_before_known && gpu_record_is_of(&last, t->target.version, t->target.flavour))
		gpu_record_done(&last);
	for (size_t i = 0; i < now->count; i++) {
		const struct gpu_result *g = &now->items[i];
		if (g->outcome == GPU_BROKEN && !g->is_reset_due && has_worked(t, &last, g))
			return true;
	}
	return false;
}

// Measured since this driver was loaded, and no GPU has come or gone since.
static bool is_known(const struct transaction *t, const struct gpu_record *record)
{
	auto_strv struct strv there = { 0 };
	struct err ignored;
	time_t measured;
	const struct modules *l = &t->now.loaded;
	const struct gpu_results *g = &record->results;
	bool is_good = gpu_results_count(g, GPU_WORKS) + gpu_results_count(g, GPU_EXCLUDED) == g->count;
	if (t->is_touched || record->is_waived || !gpu_record_is_valid(record, l) ||
	    root_list(t->session->node.kern, "proc/driver/nvidia/gpus", &there, &ignored) < 0)
		return false;
	for (size_t i = 0; i < there.count; i++)
		if (!gpu_results_find(g, there.items[i]))
			return false;
	for (size_t i = 0; i < g->count; i++)
		if (g->items[i].outcome == GPU_WORKS && !strv_has(&there, g->items[i].address))
			return false;
	if (is_good || gpu_results_count(g, GPU_PENDING)) // a start may have ended since, and costs nothing to ask for
		return is_good;
	double age = record->time && date_parse(record->time, &measured) ? difftime(time(NULL), measured) : -1;
	return age >= 0 && age < BROKEN_KEEPS_S; // less: somebody has set the clock back
}

static int measure_now(struct transaction *t, struct gpu_record *ret, struct err *err)
{
	struct session *s = t->session;
	// A context is made only after a load, when nothing is open: a running job must not meet another one.
	const struct gpu_check check = gpu_check_of(s, &t->now, t->is_touched ? GPU_COMPUTE : GPU_ANSWER);
	progress_enter(s->node.progress, "gpus");
	if (gpu_record_measure(&check, ret, &s->holds, err) < 0)
		return -1;
	ret->allowed = s->request->gpus.allowed_missing;
	bool is_at_fault = is_driver_at_fault(t, &ret->results); // by the record that is replaced now
	keep_record(t, ret);
	t->is_gpu_at_fault = !is_at_fault;
	if (is_at_fault) // what a driver broke may not be missing
		ret->allowed = 0;
	if (gpu_record_check(ret, err) < 0)
		return -1;
	auto_str char *text = gpu_results_text(&ret->results);
	progress_end(s->node.progress, "gpus", "%s", text);
	return 0;
}

int transaction_check_gpus(struct transaction *t, struct err *err)
{
	auto_gpu_record struct gpu_record record = { 0 }, now = { 0 };
	struct session *s = t->session;
	struct err ignored;
	bool is_changed = false;
	if (!t->now.loaded.version)
		return 0;
	if (s->request->gpus.is_off)
		return gpu_record_waive(s->node.host, s->node.boot, &t->now.loaded, err) < 0 ? -1 : 1;
	if (gpu_record_read(s->node.host, s->node.boot, &record, &ignored) <= 0 || !is_known(t, &record))
		return measure_now(t, &now, err) < 0 ? err_wrap(err, "gpus") : 1;
	t->is_gpu_at_fault = true;
	if (record.allowed != s->request->gpus.allowed_missing) {
		record.allowed = s->request->gpus.allowed_missing;
		keep_record(t, &record);
		is_changed = true;
	}
	return gpu_record_check(&record, err) < 0 ? err_wrap(err, "gpus, measured at %s", record.time) : is_changed;
}
