// SPDX-License-Identifier: Apache-2.0
// A job carried out; and what becomes of a node whose job cannot be.
#include "cmd/common/share.h"
#include "devices/cdi.h"

static void fill_apply(struct job *j, struct compile_request *compile, struct apply *ret)
{
	const struct job_values *v = j->values;
	*compile = (struct compile_request){
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
		.request = &j->request,
		.plan = &j->plan,
		.acquire = &j->acquire,
		.export = j->export.dir ? &j->export : NULL,
		.compile = compile,
		.cdi = v->cdi            ? v->cdi :
		       v->is_cdi_default ? CDI_FILE :
					   NULL,
		.imex_channels = v->imex_channels,
		.is_kept = v->is_keeping,
		.is_unproven_allowed = v->is_unproven_allowed,
		.compared = &j->compared,
		.load_timeout_ms = v->load_timeout_s ? job_unload_timeout_ms(v->load_timeout_s) : 0,
		.unload_timeout_ms = job_unload_timeout_ms(v->unload_timeout_s),
		.holders_timeout_ms = holders_wait_deadline_ms(j->request.holders, v->holders_timeout_s),
		.progress = &j->progress,
	};
}

static int recover_driver(struct job *j, const struct apply *apply, struct err *err)
{
	auto_status struct status status = { 0 };
	if (j->state.fd < 0 || apply->failure->code == E_MODULE_BUSY) // busy: somebody else's load or unload
		return 0;
	j->acquire.fetch.state = &j->state;
	if (!j->acquire.fetch.now_trusted && !j->values->origin.is_unverified) { // it ended before anybody asked
		trust_now(&j->machine.host, j->values->origin.trust_dir, &j->origin.trust);
		j->acquire.fetch.now_trusted = &j->origin.trust;
	}
	modules_done(&j->facts.loaded);
	if (modules_read(&j->machine.host, &j->machine.kern, j->facts.host.release, &j->facts.loaded, err) < 0 ||
	    acquire_open_store(&j->acquire, err) < 0)
		return 0;
	return recover_last_good(apply, &status, err);
}

void job_recover(struct job *j, const char *outcome, struct err *err)
{
	struct compile_request compile;
	struct apply apply;
	struct err why;
	bool ignored;
	if (j->state.fd >= 0 && job_export_open(j, &ignored, &why) < 0)
		progress_note(&j->progress, "no user space is exported: %s", why.text);
	fill_apply(j, &compile, &apply);
	apply.failure = err;
	int r = recover_driver(j, &apply, &why);
	if (r > 0)
		progress_note(&j->progress, "the last good driver serves, not the one that was wished");
	else if (r < 0)
		err_wrap(err, "and the last good driver could not be brought back (%s)", why.text);
	else if (outcome)
		transaction_publish_failure(&apply, outcome, err);
}

static int open_share(struct job *j, struct share *ret, struct err *err)
{
	const struct share_request request = { .values = j->values,
					       .kern = &j->machine.kern,
					       .state = &j->state,
					       .origin = &j->origin,
					       .progress = &j->progress,
					       .acquire = &j->acquire,
					       .source = &j->source,
					       .flavour = j->plan.flavour,
					       .release = j->facts.host.release,
					       .build_id = j->facts.host.build_id,
					       .arch = j->facts.host.arch,
					       .modules = &j->modules };
	return share_open(&request, ret, err);
}

int job_stage(struct job *j, struct err *err)
{
	struct compile_request compile;
	struct apply apply;
	auto_share struct share share = SHARE_NONE;
	fill_apply(j, &compile, &apply);
	int r = open_share(j, &share, err);
	if (r < 0)
		return -1;
	apply.gate = r > 0 ? &share.gate : NULL;
	return apply_stage(&apply, err);
}

int job_apply(struct job *j, struct status *ret, struct err *err)
{
	struct compile_request compile;
	struct apply apply;
	auto_share struct share share = SHARE_NONE;
	fill_apply(j, &compile, &apply);
	int r = open_share(j, &share, err);
	if (r < 0)
		return -1;
	apply.gate = r > 0 ? &share.gate : NULL;
	if (j->at_hand.payload && !j->at_hand.export_why &&
	    driver_root_confirm(&j->export, &j->driver_root_request, err) < 0)
		return -1;
	// Where nothing is to be exported that goes first, so that what is measured is what stays.
	if (!j->export.dir && job_export_withdraw(j, err) < 0)
		return -1;
	if (apply_plan(&apply, ret, err) == 0)
		return job_export_withdraw(j, err);
	job_recover(j, NULL, err);
	return -1;
}
