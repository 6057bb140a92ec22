// SPDX-License-Identifier: Apache-2.0
#include "cluster/node_state/next_kernel_report.h"
#include "cmd/common/share.h"
#include "cmd/container/watch.h"
#include "journal/journal.h"
#include "journal/node_lock.h"
#include "next_kernel/prebuild.h"

#include <stdio.h>

struct once {
	const struct watch_values *values;
	struct machine machine;
	struct facts facts;
	struct root state, patches;
	int lock;
	struct strv modules;
	struct image_payload carry;
	struct origin origin;
	struct fetch fetch;
	struct journal journal;
	struct progress progress;
	char *source;        // of what an image carries
	char *source_driver; // of what was named, when that says which driver is meant
	struct prebuild_request request;
	struct prebuild prebuild;
	struct shared_build share; // of the compile that is under way
};

static void once_done(struct once *o)
{
	shared_build_done(&o->share);
	prebuild_done(&o->prebuild);
	origin_done(&o->origin);
	image_payload_done(&o->carry);
	journal_done(&o->journal);
	strv_done(&o->modules);
	facts_done(&o->facts);
	progress_done(&o->progress);
	free(o->source);
	free(o->source_driver);
	close_fdp(&o->lock);
	root_done(&o->patches);
	root_done(&o->state);
	machine_done(&o->machine);
}

static int open_watch(const struct watch_values *v, struct once *o, struct err *err)
{
	const struct job_values *j = &v->job;
	if (job_check_inputs(j, err) < 0 || machine_open(&j->origin.remote.common, &o->machine, err) < 0 ||
	    facts_read(&o->machine.host, &o->machine.kern, &o->facts, err) < 0)
		return -1;
	if (!facts_has_gpu(&o->facts))
		return 0;
	o->lock = node_lock_take(&o->machine.host, NODE_LOCK_PREBUILD, err);
	if (o->lock < 0 || job_state(j, &o->machine, &o->state, err) < 0 ||
	    (j->patches && root_init(&o->patches, j->patches, err) < 0) ||
	    journal_find(&o->machine.host, &o->state, &o->journal, err) < 0 ||
	    origin_open(&j->origin, &o->machine.host, &o->origin, err) < 0 || share_check(j, &o->origin, err) < 0 ||
	    (j->payload && image_payload_open(j->payload, &o->carry, err) < 0))
		return -1;
	origin_fetch(&o->origin, &o->state, &o->fetch);
	return job_parse_modules(&j->modules, &o->modules, err) < 0 ? -1 : 1;
}

// By what the archive shows at its beginning; one that does not is unpacked.
static int read_source_driver(const struct job_values *j, struct once *o, struct err *err)
{
	auto_scratch struct scratch work = SCRATCH_NONE;
	auto_source struct source source = { .root = ROOT_NONE };
	if (scratch_make(&o->state, "source", &work, err) < 0)
		return -1;
	int r = source_peek(j->source, &work.root, &source, err);
	if (r < 0 || (r == 0 && source_open(j->source, j->source_sha256, &work.root, &source, err) < 0))
		return -1;
	o->source_driver = str_dup(source.version);
	return 0;
}

// Nobody waits for this: what cannot be agreed on costs a compile.
static const struct compile_gate *share(void *ctx, const struct prebuild_order *order)
{
	struct once *o = ctx;
	struct err why;
	const struct shared_build_request request = { .kern = &o->machine.kern,
						      .state = &o->state,
						      .progress = &o->progress,
						      .acquire = order->acquire,
						      .source = order->source,
						      .flavour = order->flavour,
						      .release = order->release,
						      .build_id = order->build_id,
						      .arch = order->arch,
						      .modules = &o->modules };
	shared_build_done(&o->share);
	int r = share_open(&o->values->job, &o->origin, request, &o->share, &why);
	if (r < 0)
		progress_note(&o->progress, "%s; this node compiles for itself", why.text);
	return r > 0 ? &o->share.gate : NULL;
}

// What is asked for; else what an image carries, what this node runs, what served it last.
static const char *choose_driver(const struct once *o, const struct job_values *j)
{
	return j->driver                    ? j->driver :
	       o->source_driver             ? o->source_driver :
	       o->carry.is.driver           ? o->carry.is.driver :
	       o->facts.loaded.version      ? o->facts.loaded.version :
	       o->journal.last_good.version ? o->journal.last_good.version :
					      NULL;
}

static int fill_prebuild_request(const struct watch_values *v, struct once *o, struct err *err)
{
	const struct job_values *j = &v->job;
	struct prebuild_request *w = &o->request;
	if (!j->driver && j->source && read_source_driver(j, o, err) < 0)
		return -1;
	const char *driver = choose_driver(o, j);
	if (!driver)
		return err_set(err, E_USAGE, "no driver is loaded, and none is named: --driver, --source or --payload");
	o->source = !j->source && str_eq(driver, o->carry.is.driver) ? image_payload_source_path(&o->carry) : NULL;
	*w = (struct prebuild_request){ .driver = driver,
					.modules = &o->modules,
					.source = j->source ? j->source : o->source,
					.source_sha256 = j->source_sha256,
					.headers = v->kernels.count == 1 ? &j->headers : NULL, // they are of one kernel
					.only = &v->kernels,
					.roots = &v->next_roots,
					.patches = j->patches ? &o->patches : NULL,
					.jobs = j->jobs,
					.timeout_s = j->timeout_s ? j->timeout_s : PREBUILD_TIMEOUT_S,
					.limit = v->limit ? v->limit : PREBUILD_LIMIT,
					.is_rt_allowed = j->is_rt_allowed,
					.is_cache_off = j->is_cache_off,
					.is_compile_forbidden = j->is_compile_forbidden,
					.is_gated = v->is_gated,
					.is_retry = j->is_retry,
					.share = share,
					.share_ctx = o };
	if (job_parse_flavour(j, &w->flavour, err) < 0 || job_parse_reuse(j->reuse, &w->reuse, err) < 0 ||
	    job_parse_store_limit(j->store_limit, &w->store_limit, err) < 0)
		return -1;
	if (w->flavour == MODULE_TYPE_AUTO && str_eq(driver, o->facts.loaded.version))
		w->flavour = o->facts.loaded.flavour;
	return 0;
}

static void show_kernel_report(const struct watch_values *v, const struct kernel_report *f)
{
	if (v->job.origin.remote.common.is_json) {
		auto_json json_t *json = kernel_report_json(f);
		show_json(json);
		return;
	}
	if (f->next)
		printf("next: %s%s (%s)\n", f->next, str_eq(f->next, f->running) ? ", the running kernel" : "",
		       f->next_by);
	else
		printf("next: not known\n");
	for (size_t i = 0; i < f->count; i++) {
		auto_str char *line = kernel_report_line(&f->items[i]);
		printf("%s\n", line);
		if (f->items[i].code)
			printf("  next step: %s\n", err_info(f->items[i].code)->next);
	}
	if (!f->count)
		printf("there is no other kernel\n");
}

// A cluster that cannot be told is no reason to fail: the record on the node says the same.
static void publish_kernel_report(const struct watch_values *v, const struct once *o)
{
	struct err err;
	const char *node = getenv("NODE_NAME");
	auto_kube_config struct kube_config config = KUBE_CONFIG_NONE;
	auto_kube struct kube *kube = NULL;
	if (!node)
		return;
	int r = v->job.kubeconfig ? kube_config_file(v->job.kubeconfig, NULL, &config, &err) :
				    kube_config_pod(&o->machine.kern, environ, &config, &err);
	if (r == 0 && !config.server) // no pod with a service account
		return;
	if (r < 0 || kube_open(&config, &kube, &err) < 0 ||
	    next_kernel_report_write(kube, node, &o->prebuild.kernel_report, &err) < 0)
		log_warn("the Node %s is not told: %s", node, err.text);
}

static int prebuild_kernels(const struct watch_values *v, struct once *o, struct err *err)
{
	if (fill_prebuild_request(v, o, err) < 0)
		return -1;
	o->prebuild.request = &o->request;
	o->prebuild.host = &o->machine.host;
	o->prebuild.kern = &o->machine.kern;
	o->prebuild.state = &o->state;
	o->prebuild.facts = &o->facts;
	o->prebuild.fetch = &o->fetch;
	o->prebuild.progress = &o->progress;
	if (prebuild_run(&o->prebuild, err) < 0)
		return -1;
	show_kernel_report(v, &o->prebuild.kernel_report);
	publish_kernel_report(v, o);
	return prebuild_is_well(&o->prebuild.kernel_report) ? 0 : 1;
}

int watch_once(const struct watch_values *v, struct err *err)
{
	struct once o = { .values = v,
			  .machine = { .host = ROOT_NONE, .kern = ROOT_NONE },
			  .state = ROOT_NONE,
			  .patches = ROOT_NONE,
			  .lock = -1,
			  .carry = IMAGE_PAYLOAD_NONE,
			  .progress = show_progress_log(),
			  .prebuild = PREBUILD_NONE,
			  .share = SHARED_BUILD_NONE };
	int r = open_watch(v, &o, err);
	if (r == 0)
		log_info("NO_GPU: no NVIDIA function on this machine, nothing to do");
	if (r > 0)
		r = prebuild_kernels(v, &o, err);
	once_done(&o);
	return r;
}
