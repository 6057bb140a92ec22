// SPDX-License-Identifier: Apache-2.0
#include "node/run.h"

#include <signal.h>

static void run_done(struct run *r)
{
	package_done(&r->package);
	package_done(&r->previous);
	module_set_done(&r->set);
	free(r->order);
	strv_done(&r->needs);
	strv_done(&r->loaded);
	strv_done(&r->unloaded);
}
#define auto_run __attribute__((cleanup(run_done)))

// The store keeps what is in use and what last made the node ready. A node that works is not failed for a note.
static void remember(const struct run *r, const char *what,
		     int (*set)(const struct store *s, const char *hex, struct err *err))
{
	struct err why;
	if (r->package.count && set(&r->a->obtain->store, r->package.manifest.digest, &why) < 0)
		watch_note(r->a->watch, "the store does not remember the %s package: %s", what, why.text);
}

static const struct {
	int (*run)(struct run *r, const struct step *step, struct err *err);
	void (*undo)(struct run *r, char **problem);
} actions[] = {
	[STEP_ADOPT] = { step_adopt, NULL },     [STEP_PACKAGE] = { step_package, NULL },
	[STEP_COMPILE] = { step_compile, NULL }, [STEP_PROVE] = { step_prove, NULL },
	[STEP_HOLDERS] = { step_holders, NULL }, [STEP_UNLOAD] = { step_unload, undo_unload },
	[STEP_LOAD] = { step_load, undo_load },  [STEP_NODES] = { step_nodes, NULL },
	[STEP_VERIFY] = { step_verify, NULL },
};

static int undo(struct run *r, size_t failed, struct err *err)
{
	auto_str char *problem = NULL;
	if (err->code == E_WEDGED) // neither a load nor an unload can be relied on before the next boot (R-D5)
		return -1;
	// A driver that loads but is not right yet beats none: it goes only when there is one to come back to.
	if (r->a->plan->steps[failed].kind > STEP_LOAD && !r->previous.count)
		return -1;
	for (size_t i = failed + 1; i-- > 0 && !r->is_wedged;)
		if (actions[r->a->plan->steps[i].kind].undo)
			actions[r->a->plan->steps[i].kind].undo(r, &problem);
	if (!problem)
		return -1;
	auto_str char *text = str_dup(err->text);
	// First what state the node is in: the cause quotes the kernel and may be long.
	return err_set(err, r->is_wedged ? E_WEDGED : err->code, "could not be undone, %s; cause: %s", problem, text);
}

// From the first change in the kernel on, a request to stop waits until the node is in a state that may be left; and a
// reader of our log that goes away must not end us between an unload and the load after it.
static void hold_signals(void)
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

static int run_steps(struct run *r, struct err *err)
{
	const struct plan *plan = r->a->plan;
	for (size_t i = 0; i < plan->count; i++) {
		enum step_kind kind = plan->steps[i].kind;
		if (kind == STEP_UNLOAD || kind == STEP_LOAD)
			hold_signals();
		if (kind == STEP_LOAD)
			remember(r, "wished", store_set_target);
		if (actions[kind].run(r, &plan->steps[i], err) < 0) {
			err_wrap(err, "%s", step_kind_name(kind));
			return undo(r, i, err);
		}
	}
	return 0;
}

int apply_plan(const struct apply *apply, struct status *ret, struct err *err)
{
	auto_run struct run r = { .a = apply, .package = PACKAGE_NONE, .previous = PACKAGE_NONE, .status = ret };
	sigset_t before;
	sigprocmask(SIG_BLOCK, NULL, &before);
	watch_begin(apply->watch);
	int done = run_steps(&r, err);
	if (done == 0)
		remember(&r, "last good", store_set_last_good);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return done;
}
