// SPDX-License-Identifier: Apache-2.0
#include "cmd/container/watch.h"

#include "cluster/node_state/next_kernel_report.h"
#include "cmd/common/entry.h"
#include "cmd/common/share.h"
#include "cmd/container/report.h"
#include "journal/journal.h"
#include "journal/node_lock.h"
#include "next_kernel/prebuild.h"
#include "service/service_xid.h"

#include <stdio.h>

extern const struct cmd cmd_watch;

static const struct opt opts[] = {
	{ "driver", 'd', "VERSION", "DRIVER_VERSION", OPT_STR, offsetof(struct watch_values, job.driver),
	  "driver version; default: that of --payload, of the loaded driver, of the last good one" },
	{ "kernel", 'k', "RELEASE,...", NULL, OPT_LIST, offsetof(struct watch_values, kernels),
	  "prebuild for these kernels only; default: all installed ones except the running one" },
	{ "once", 0, NULL, NULL, OPT_FLAG, offsetof(struct watch_values, is_once),
	  "check once, prebuild what is missing, and exit" },
	{ "limit", 0, "N", NULL, OPT_UINT, offsetof(struct watch_values, limit),
	  "compile for N kernels at most, the newest first; default 4" },
	{ "interval", 0, "SECONDS", NULL, OPT_UINT, offsetof(struct watch_values, interval_s),
	  "check at least this often; default 900" },
	{ "quiet-time", 0, "SECONDS", NULL, OPT_UINT, offsetof(struct watch_values, quiet_s),
	  "after a change, wait for this long without another one before checking; default 10" },
	{ "next-root", 0, "DIR,...", "KMODSMITH_NEXT_ROOT", OPT_LIST, offsetof(struct watch_values, next_roots),
	  "where an updater has the root of the next boot, as a path of the host (A/B partitions)" },
	{ "gate", 0, NULL, "KMODSMITH_GATE", OPT_FLAG, offsetof(struct watch_values, is_gated),
	  "keep /run/kmodsmith/reboot-blocked while a kernel that may start next has no package" },
	{ "no-compile", 0, NULL, "KMODSMITH_NO_COMPILE", OPT_FLAG,
	  offsetof(struct watch_values, job.request.is_compile_forbidden), "use packages only" },
	{ "reuse", 0, "off|series|on", "KMODSMITH_REUSE", OPT_STR, offsetof(struct watch_values, job.reuse),
	  REUSE_HELP },
	{ "retry", 0, NULL, NULL, OPT_FLAG, offsetof(struct watch_values, job.request.is_retry),
	  "retry what failed before" },
	{ "store-limit", 0, "BYTES", "KMODSMITH_STORE_LIMIT", OPT_STR, offsetof(struct watch_values, job.store_limit),
	  STORE_LIMIT_HELP },
	{ "payload", 0, "DIR", "KMODSMITH_PAYLOAD", OPT_STR, offsetof(struct watch_values, job.request.payload),
	  "the driver and the sources that an image carries" },
	{ "nfd-labels", 0, NULL, "KMODSMITH_NFD_LABELS", OPT_FLAG, offsetof(struct watch_values, has_labels),
	  NFD_LABELS_HELP },
	LISTEN_OPTS(struct watch_values, listen),
	{ 0 },
};

int watch_part_open(const struct watch_values *v, const struct opt *const *tables, const void *values,
		    struct watch_part *ret, struct service_part *ret_part, struct err *err)
{
	static const char *const own[] = { "watch", "--once" };
	auto_launch_words struct launch_words words = { 0 };
	if (machine_open(&v->job.origin.remote.common, &ret->machine, err) < 0 ||
	    job_state(&v->job, &ret->machine, &ret->state, err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		strv_add(&words.args, str_dup(own[i]));
	for (size_t i = 0; i < v->next_roots.count; i++)
		strv_add(&ret->roots, str_dup(v->next_roots.items[i]));
	if (tables)
		opt_words(tables, values, &cmd_watch, &words.args, &words.env);
	else
		entry_add_arguments(&words.args);
	ret->machine.node.state = &ret->state;
	const struct service_kernels_request request = { .node = &ret->machine.node,
							 .roots = &ret->roots,
							 .config = tables ? NULL : entry_config_name(),
							 .interval_s = v->interval_s,
							 .quiet_s = v->quiet_s };
	service_kernels_open(&request, &words, &ret->kernels, ret_part);
	return 0;
}

void watch_part_done(struct watch_part *p)
{
	service_kernels_done(&p->kernels);
	strv_done(&p->roots);
	root_done(&p->state);
	machine_done(&p->machine);
}

// One check, by `watch --once` or as the child of `watch` and `init`.
struct once {
	const struct watch_values *values;
	struct machine machine;
	struct facts facts;
	struct root state, patches;
	int lock;
	struct image_payload carry;
	struct origin origin;
	struct fetch fetch;
	struct journal journal;
	struct progress progress;
	char *source;        // of what an image carries
	char *source_driver; // version of the named source
	struct request request;
	struct prebuild_scope scope;
	struct prebuild prebuild;
	struct shared_build share; // of the current compile
};

static void once_done(struct once *o)
{
	shared_build_done(&o->share);
	prebuild_done(&o->prebuild);
	origin_done(&o->origin);
	image_payload_done(&o->carry);
	journal_done(&o->journal);
	strv_done(&o->request.modules);
	facts_done(&o->facts);
	progress_done(&o->progress);
	free(o->source);
	free(o->source_driver);
	close_fdp(&o->lock);
	root_done(&o->patches);
	root_done(&o->state);
	machine_done(&o->machine);
}

#define auto_once __attribute__((cleanup(once_done)))

// 0 = this machine has no GPU.
static int open_once(const struct watch_values *v, struct once *o, struct err *err)
{
	const struct job_values *j = &v->job;
	if (job_check_inputs(j, err) < 0 || machine_open(&j->origin.remote.common, &o->machine, err) < 0 ||
	    facts_read(&o->machine.host, &o->machine.kern, &o->facts, err) < 0)
		return -1;
	if (!facts_has_gpu(&o->facts))
		return 0;
	o->lock = node_lock_take(&o->machine.host, NODE_LOCK_PREBUILD, err);
	if (o->lock < 0 || job_state(j, &o->machine, &o->state, err) < 0 ||
	    journal_find(&o->machine.host, &o->state, &o->journal, err) < 0 ||
	    origin_open(&j->origin, &o->machine.host, &o->origin, err) < 0 || share_check(j, &o->origin, err) < 0 ||
	    job_request(j, &o->patches, &o->request, err) < 0 ||
	    (o->request.payload && image_payload_open(o->request.payload, &o->carry, err) < 0))
		return -1;
	origin_fetch(&o->origin, &o->state, &o->fetch);
	return 1;
}

// Read from the beginning of the archive; a source that does not show it there is unpacked.
static int read_source_driver(struct once *o, struct err *err)
{
	auto_scratch struct scratch work = SCRATCH_NONE;
	auto_source struct source source = { .root = ROOT_NONE };
	if (scratch_make(&o->state, "source", &work, err) < 0)
		return -1;
	const char *path = o->request.source;
	int r = source_peek(path, &work.root, &source, err);
	if (r < 0 || (r == 0 && source_open(path, o->request.source_sha256, &work.root, &source, err) < 0))
		return -1;
	o->source_driver = str_dup(source.version);
	return 0;
}

// No user waits for this: if the nodes cannot agree on one of them, each compiles.
static const struct compile_gate *share(void *ctx, struct acquire *acquire, const struct source *source,
					enum module_type flavour)
{
	struct once *o = ctx;
	struct err why;
	const struct shared_build_request request = { .acquire = acquire, .source = source, .flavour = flavour };
	shared_build_done(&o->share);
	int r = share_open(&o->values->job, &o->origin, request, &o->share, &why);
	if (r < 0)
		progress_note(&o->progress, "%s; this node compiles for itself", why.text);
	return r > 0 ? &o->share.gate : NULL;
}

// The driver, and where it would be compiled from.
static int choose_driver(struct once *o, struct err *err)
{
	struct request *r = &o->request;
	bool has_source = r->source;
	if (job_check_driver(r->driver, err) < 0 ||
	    job_fetch_source(&o->values->job, r->source, r->source_sha256, &o->state, &o->source, err) < 0)
		return -1;
	if (o->source)
		r->source = o->source;
	if (!r->driver && has_source && read_source_driver(o, err) < 0)
		return -1;
	const struct prebuild_drivers known = { .requested = r->driver,
						.of_source = o->source_driver,
						.of_image = o->carry.is.driver,
						.loaded = &o->facts.loaded,
						.last_good = o->journal.last_good.version };
	if (prebuild_choose(&known, r, err) < 0)
		return -1;
	if (!has_source && str_eq(r->driver, o->carry.is.driver))
		r->source = o->source = image_payload_source_path(&o->carry);
	return 0;
}

static int fill_prebuild(const struct watch_values *v, struct once *o, struct err *err)
{
	struct build_options *options = &o->request.options;
	if (v->kernels.count != 1) // headers are of one kernel
		o->request.headers = (struct strv){ 0 };
	if (!options->timeout_s)
		options->timeout_s = PREBUILD_TIMEOUT_S;
	o->scope = (struct prebuild_scope){ .only = &v->kernels,
					    .roots = &v->next_roots,
					    .limit = v->limit ? v->limit : PREBUILD_LIMIT,
					    .is_gated = v->is_gated,
					    .share = share,
					    .share_ctx = o };
	return choose_driver(o, err) < 0 ? -1 : job_parse_store_limit(v->job.store_limit, &o->scope.store_limit, err);
}

static void show_kernel_report(const struct watch_values *v, const struct kernel_report *f)
{
	if (v->job.origin.remote.common.is_json) {
		auto_json json_t *json = kernel_report_json(f);
		show_json(json);
		return;
	}
	for (size_t i = 0; i < f->count; i++) {
		auto_str char *line = kernel_report_line(&f->items[i]);
		printf("%s\n", line);
		if (f->items[i].code)
			printf("  next step: %s\n", err_info(f->items[i].code)->next);
	}
	if (!f->count)
		printf("there is no other kernel\n");
}

// A failure to reach the cluster is no reason to fail: the record on the node says the same.
static void publish_kernel_report(const struct watch_values *v, const struct once *o)
{
	struct err err;
	const char *node = getenv("NODE_NAME");
	auto_kube_config struct kube_config config = KUBE_CONFIG_NONE;
	auto_kube struct kube *kube = NULL;
	if (!node)
		return;
	int r = kube_config_find(v->job.kubeconfig, &o->machine.kern, &config, &err);
	if (r == 0)
		return;
	if (r < 0 || kube_open(&config, &kube, &err) < 0 ||
	    next_kernel_report_write(kube, node, &o->prebuild.kernel_report, &err) < 0)
		log_warn("the Node %s is not told: %s", node, err.text);
}

// Exit status: 0 = every kernel is ready, 1 = not.
static int watch_once(const struct watch_values *v, struct err *err)
{
	auto_once struct once o = { .values = v,
				    .machine = MACHINE_NONE,
				    .state = ROOT_NONE,
				    .patches = ROOT_NONE,
				    .lock = -1,
				    .carry = IMAGE_PAYLOAD_NONE,
				    .progress = show_progress_log(),
				    .prebuild = PREBUILD_NONE,
				    .share = SHARED_BUILD_NONE };
	int r = open_once(v, &o, err);
	if (r == 0)
		log_info("NO_GPU: no NVIDIA function on this machine, nothing to do");
	if (r <= 0)
		return r;
	if (fill_prebuild(v, &o, err) < 0)
		return -1;
	o.prebuild.request = &o.request;
	o.prebuild.scope = &o.scope;
	o.machine.node.state = &o.state;
	o.machine.node.progress = &o.progress;
	o.prebuild.node = &o.machine.node;
	o.prebuild.facts = &o.facts;
	o.prebuild.fetch = &o.fetch;
	r = prebuild_run(&o.prebuild, err);
	if (r < 0)
		return -1;
	show_kernel_report(v, &o.prebuild.kernel_report);
	publish_kernel_report(v, &o);
	return r > 0 ? 0 : 1;
}

static int watch_until_stopped(const struct watch_values *v, struct err *err)
{
	auto_watch_part struct watch_part kernels = WATCH_PART_NONE;
	auto_service_child struct service_child server = { 0 }, reporter = { 0 };
	auto_service_xid struct service_xid xid = SERVICE_XID_NONE;
	struct service_part parts[4];
	size_t count = 1;
	sigset_t signals;
	service_block(&signals);
	if (watch_part_open(v, NULL, NULL, &kernels, &parts[0], err) < 0 ||
	    serve_child_open(&v->listen, cmd_watch.opts, v, &server, err) < 0)
		return -1;
	if (v->listen.listen)
		parts[count++] = service_child_part(&server);
	if (report_child_open(&kernels.machine.kern, getenv("NODE_NAME"), v->job.kubeconfig, v->has_labels,
			      cmd_watch.opts, v, &reporter))
		parts[count++] = service_child_part(&reporter);
	if (service_xid_open(&kernels.machine.host, &kernels.machine.kern, &xid, &parts[count]))
		count++;
	int signal = service_run(parts, count, &signals, err);
	if (signal < 0)
		return -1;
	log_info("signal %d: exiting", signal);
	return 0;
}

static int run_watch(void *values, char **args, size_t count, struct err *err)
{
	(void)args, (void)count;
	const struct watch_values *v = values;
	return v->is_once ? watch_once(v, err) : watch_until_stopped(v, err);
}

const struct cmd cmd_watch = {
	.name = "watch",
	.help = "prebuild for kernels that appear, and warn before the reboot",
	.about = "Finds the other kernels of this machine, and puts a proven package for each of them into the\n"
		 "store before the reboot: from the store, --from, or a compile at the lowest priority. The running\n"
		 "driver is not touched.\n"
		 "`kmodsmith status` and `doctor` show the result, as do /run/kmodsmith/kernels.json and\n"
		 "/run/kmodsmith/metrics/kernels.prom; see kmodsmith-kernels(7). Exit status 0: every kernel is\n"
		 "ready; 1: one is not.\n\n"
		 "  kmodsmith watch --once --driver 535.261.03 --source DRIVER.deb --gate\n",
	.often = "driver,source,from",
	.opts = { opts, source_opts, module_key_opts, distribution_opts, share_opts, origin_opts, remote_opts,
		  common_opts },
	.values_size = sizeof(struct watch_values),
	.run = run_watch,
};
