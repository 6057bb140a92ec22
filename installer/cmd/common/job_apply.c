// SPDX-License-Identifier: Apache-2.0
// A job carried out; and what becomes of a node whose job cannot be.
#include "cmd/common/share.h"
#include "devices/cdi.h"

static void describe(struct job *j, struct compile_wish *compile, struct apply *ret)
{
	const struct job_values *v = j->values;
	*compile = (struct compile_wish){
		.release = j->facts.host.release,
		.banner = j->facts.host.banner,
		.source = &j->source,
		.headers = &v->headers,
		.modules = &j->modules,
		.gpus = &j->facts.gpus,
		.host = &j->machine.host,
		.kern = &j->machine.kern,
		.state = &j->state,
		.patches = v->patches ? &j->patches : NULL,
		.jobs = v->jobs,
		.timeout_s = v->timeout_s,
		.is_rt_allowed = v->is_rt_allowed,
		.is_cache_off = v->is_cache_off,
	};
	*ret = (struct apply){
		.host = &j->machine.host,
		.kern = &j->machine.kern,
		.dev_root = &j->dev_root,
		.sys = &j->machine.sys,
		.state = &j->state,
		.facts = &j->facts,
		.wish = &j->wish,
		.plan = &j->plan,
		.obtain = &j->obtain,
		.export = j->export.dir ? &j->export : NULL,
		.compile = compile,
		.cdi = v->cdi            ? v->cdi :
		       v->is_cdi_default ? CDI_FILE :
					   NULL,
		.imex_channels = v->imex_channels,
		.is_kept = v->is_keeping,
		.is_unproven_allowed = v->is_unproven_allowed,
		.compared = &j->compared,
		.load_timeout_ms = v->load_timeout_s ? unload_deadline_ms(v->load_timeout_s) : 0,
		.unload_timeout_ms = unload_deadline_ms(v->unload_timeout_s),
		.holders_timeout_ms = drain_deadline_ms(j->wish.holders, v->holders_timeout_s),
		.watch = &j->watch,
	};
}

static int bring_back(struct job *j, const struct apply *apply, struct err *err)
{
	auto_status struct status status = { 0 };
	if (j->state.fd < 0 || apply->failure->code == E_MODULE_BUSY) // busy: somebody else's load or unload
		return 0;
	j->obtain.fetch.state = &j->state;
	if (!j->obtain.fetch.now_trusted && !j->values->origin.is_unverified) { // it ended before anybody asked
		trust_now(&j->machine.host, j->values->origin.trust_dir, &j->origin.trust);
		j->obtain.fetch.now_trusted = &j->origin.trust;
	}
	loaded_done(&j->facts.loaded);
	if (loaded_read(&j->machine.host, &j->machine.kern, j->facts.host.release, &j->facts.loaded, err) < 0 ||
	    obtain_open(&j->obtain, err) < 0)
		return 0;
	return apply_back(apply, &status, err);
}

void job_fall_back(struct job *j, const char *outcome, struct err *err)
{
	struct compile_wish compile;
	struct apply apply;
	struct err why;
	bool ignored;
	if (j->state.fd >= 0 && job_export_open(j, &ignored, &why) < 0)
		watch_note(&j->watch, "no user space is exported: %s", why.text);
	describe(j, &compile, &apply);
	apply.failure = err;
	int r = bring_back(j, &apply, &why);
	if (r > 0)
		watch_note(&j->watch, "the last good driver serves, not the one that was wished");
	else if (r < 0)
		err_wrap(err, "and the last good driver could not be brought back (%s)", why.text);
	else if (outcome)
		apply_failed(&apply, outcome, err);
}

static int share_job(struct job *j, struct share *ret, struct err *err)
{
	const struct share_wish wish = { .values = j->values,
					 .kern = &j->machine.kern,
					 .state = &j->state,
					 .origin = &j->origin,
					 .watch = &j->watch,
					 .obtain = &j->obtain,
					 .source = &j->source,
					 .flavour = j->plan.flavour,
					 .release = j->facts.host.release,
					 .build_id = j->facts.host.build_id,
					 .arch = j->facts.host.arch,
					 .modules = &j->modules };
	return share_open(&wish, ret, err);
}

int job_stage(struct job *j, struct err *err)
{
	struct compile_wish compile;
	struct apply apply;
	auto_share struct share share = SHARE_NONE;
	describe(j, &compile, &apply);
	int r = share_job(j, &share, err);
	if (r < 0)
		return -1;
	apply.gate = r > 0 ? &share.gate : NULL;
	return apply_stage(&apply, err);
}

int job_apply(struct job *j, struct status *ret, struct err *err)
{
	struct compile_wish compile;
	struct apply apply;
	auto_share struct share share = SHARE_NONE;
	describe(j, &compile, &apply);
	int r = share_job(j, &share, err);
	if (r < 0)
		return -1;
	apply.gate = r > 0 ? &share.gate : NULL;
	if (j->at_hand.payload && !j->at_hand.export_why && export_confirm(&j->export, &j->export_wish, err) < 0)
		return -1;
	// Where nothing is to be exported that goes first, so that what is measured is what stays.
	if (!j->export.dir && job_withdraw(j, err) < 0)
		return -1;
	if (apply_plan(&apply, ret, err) == 0)
		return job_withdraw(j, err);
	job_fall_back(j, NULL, err);
	return -1;
}
