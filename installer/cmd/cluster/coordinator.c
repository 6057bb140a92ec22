// SPDX-License-Identifier: Apache-2.0
// The rollout controller of a cluster, as a Deployment of two.
#include "base/core/date.h"
#include "cluster/coordinator/metrics.h"
#include "cmd/cluster/cluster.h"
#include "cmd/cluster/rollout.h"
#include "cmd/container/serve.h"
#include "status/liveness.h"

#include <fcntl.h>
#include <signal.h>

struct values {
	struct cluster_values cluster;
	struct listen_values listen;
	char *node, *pod_uid, *identity, *metrics, *pulse_dir;
};

static const struct opt opts[] = {
	{ "node", 0, "NAME", "NODE_NAME", OPT_STR, offsetof(struct values, node),
	  "the Node that this coordinator runs on; it is upgraded last" },
	{ "pod-uid", 0, "UID", "POD_UID", OPT_STR, offsetof(struct values, pod_uid),
	  "the pod that it runs in; never evicted where the cluster has only one node" },
	{ "identity", 0, "TEXT", "POD_NAME", OPT_STR, offsetof(struct values, identity),
	  "name of this holder in the Lease; default: the node, or \"coordinator\"" },
	{ "metrics", 0, "FILE", "KMODSMITH_METRICS", OPT_STR, offsetof(struct values, metrics),
	  "write metrics to this file, for Prometheus' textfile collector (NAME.prom); default none" },
	{ "pulse-dir", 0, "DIR", NULL, OPT_STR, offsetof(struct values, pulse_dir),
	  "write liveness files to this directory, for `kmodsmith probe liveness --pulse-dir DIR`; default none" },
	LISTEN_OPTS(struct values, listen),
	{ 0 },
};

struct coordinator_process { // for the callbacks
	struct coordinator c;
	char *metrics_dir, *metrics_name; // NULL = none
	char *written;
	bool is_served;
	bool is_full; // what is written could not be, and that was said
	struct counters counters;
	struct root pulse_dir, kern;
	struct liveness liveness;
	struct service_child server;
};

static volatile sig_atomic_t stop_signal;
static void on_signal(int signal)
{
	stop_signal = signal;
}

static void log_moved(void *ctx, const struct phase_change *t)
{
	struct coordinator_process *d = ctx;
	metrics_count_phase(&d->counters, t);
	log_info("node %s: %s -> %s (%u.%u): %s%s%s%s%s", t->node, node_phase_info(t->from)->name,
		 node_phase_info(t->to)->name, t->seq.epoch, t->seq.n, t->rule,
		 t->reason->code == REASON_NONE ? "" : "; ",
		 t->reason->code == REASON_NONE ? "" : node_reason_info(t->reason->code)->code,
		 *t->reason->object ? " " : "", t->reason->object);
}

static void log_trouble(void *ctx, const char *what, const struct err *why)
{
	(void)ctx;
	log_warn("%s: %s: %s", what, err_info(why->code)->name, why->text);
}

static void log_lead(void *ctx)
{
	(void)ctx;
	log_info("leading");
}

static void beat_pulse(void *ctx)
{
	struct coordinator_process *d = ctx;
	if (d->liveness.root)
		liveness_beat(&d->liveness, LIVENESS_TURN, 0, 0);
}

static void coordinator_process_done(struct coordinator_process *d)
{
	service_child_done(&d->server);
	free(d->metrics_dir);
	free(d->metrics_name);
	free(d->written);
	liveness_done(&d->liveness);
	root_done(&d->pulse_dir);
	root_done(&d->kern);
}
#define auto_coordinator_process __attribute__((cleanup(coordinator_process_done)))

// Said once, until it can be written again.
static bool put_text(struct coordinator_process *d, const struct root *dir, const char *name, const char *text)
{
	struct err why;
	if (root_put_or_remove(dir, name, text, &why) == 0) {
		d->is_full = false;
		return true;
	}
	if (!d->is_full)
		log_warn("%s: %s", name, why.text);
	d->is_full = true;
	return false;
}

static bool put_metrics_file(struct coordinator_process *d, const char *text)
{
	struct err why;
	auto_root struct root dir = ROOT_NONE;
	if (root_init(&dir, d->metrics_dir, &why) == 0)
		return put_text(d, &dir, d->metrics_name, text);
	log_warn("the metrics: %s", why.text);
	return false;
}

// An error is logged only. s NULL: another one leads.
static void write_metrics(void *ctx, const struct slots *s)
{
	struct coordinator_process *d = ctx;
	if (s)
		metrics_count_pools(&d->counters, &d->c.source.policy, s->sums, kube_now_ms());
	auto_str char *text = d->metrics_name || d->is_served ? metrics_text(&d->c, s, &d->counters) : NULL;
	if (!text || str_eq(text, d->written))
		return;
	free(d->written);
	d->written = NULL;
	bool is_served = !d->is_served || put_text(d, &d->pulse_dir, SERVED_METRICS, text);
	if ((!d->metrics_name || put_metrics_file(d, text)) && is_served)
		d->written = TAKE(text);
}

static int open_metrics(const struct values *v, struct coordinator_process *d, struct err *err)
{
	static const struct opt *const tables[] = { opts, cluster_opts, common_opts, NULL };
	const char *slash = v->metrics ? strrchr(v->metrics, '/') : NULL;
	if (v->metrics) {
		d->metrics_dir = !slash              ? str_dup(".") :
				 slash == v->metrics ? str_dup("/") :
						       str_ndup(v->metrics, (size_t)(slash - v->metrics));
		d->metrics_name = str_dup(slash ? slash + 1 : v->metrics);
	}
	d->is_served = v->listen.listen;
	if (d->is_served && !v->pulse_dir)
		return err_set(err, E_USAGE, "--listen needs --pulse-dir DIR, for what is served");
	return serve_child_open(&v->listen, tables, v, &d->server, err);
}

// Opens the directory, and removes stale files of an earlier process of this pod.
static int open_pulse_dir(const struct values *v, struct coordinator_process *d, struct err *err)
{
	struct err ignored;
	if (!v->pulse_dir)
		return 0;
	if (root_make(v->pulse_dir, &d->pulse_dir, err) < 0)
		return err_wrap(err, "--pulse-dir");
	if (root_init(&d->kern, v->cluster.common.root ? v->cluster.common.root : "/", err) < 0)
		return -1;
	root_unlink(&d->pulse_dir, SERVED_METRICS, &ignored);
	liveness_open(&d->liveness, &d->pulse_dir, ".", &d->kern);
	return 0;
}

static int coordinate(struct coordinator_process *d, struct err *err)
{
	enum { STEP_MS = 1000 };
	struct coordinator *c = &d->c;
	int was = 0, r = 0;
	if (d->is_served)
		service_child_look(&d->server); // before the first turn, which may wait for the API
	while (!stop_signal && (r = coordinator_turn(c, STEP_MS, err)) >= 0) {
		if (d->is_served)
			service_child_look(&d->server);
		if (r == 0 && !was)
			log_info("waiting for the Lease %s in namespace %s", c->leader.lease.name, c->o.namespace);
		was = 1;
		if (r == 0)
			write_metrics(d, NULL);
	}
	if (r < 0)
		return -1;
	log_info("signal %d: leaving; the next leader continues from the state on the nodes", (int)stop_signal);
	return coordinator_leave(c, err);
}

static int run_coordinator(void *values, char **args, size_t count, struct err *err)
{
	const struct values *v = values;
	auto_kube_config struct kube_config config = KUBE_CONFIG_NONE, lease_config = KUBE_CONFIG_NONE;
	auto_kube struct kube *kube = NULL, *lease_kube = NULL;
	auto_coordinator_process struct coordinator_process d = { .pulse_dir = ROOT_NONE, .kern = ROOT_NONE };
	struct sigaction action = { .sa_handler = on_signal };
	(void)args, (void)count;
	if (open_metrics(v, &d, err) < 0 || cluster_config(&v->cluster, &config, err) < 0 ||
	    cluster_config(&v->cluster, &lease_config, err) < 0 || kube_open(&config, &kube, err) < 0 ||
	    kube_open(&lease_config, &lease_kube, err) < 0)
		return -1;
	if (open_pulse_dir(v, &d, err) < 0)
		return -1;
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	const struct coordinator_options o = {
		.kube = kube,
		.lease_kube = lease_kube,
		.namespace = kube_namespace(kube),
		.holder = v->identity ? v->identity :
			  v->node     ? v->node :
					"coordinator",
		.own_node = v->node,
		.own_uid = v->pod_uid,
		.callbacks = { .moved = log_moved,
			       .trouble = log_trouble,
			       .leads = log_lead,
			       .turns = beat_pulse,
			       .rests = write_metrics,
			       .ctx = &d },
	};
	coordinator_init(&o, &d.c);
	int r = coordinate(&d, err);
	coordinator_done(&d.c);
	return r;
}

const struct cmd cmd_coordinator = {
	.name = "coordinator",
	.help = "the controller of rollouts: one of several leads",
	.about = "Moves the nodes of a cluster to the driver that the policy names, a few at a time: staged first,\n"
		 "then cordoned and drained, replaced and validated by the node's agent, uncordoned; undone where\n"
		 "it fails. The policy is the ConfigMap kmodsmith-policy, key policy.json or policy.yaml; the\n"
		 "progress is in the ConfigMap kmodsmith-rollout, the labels and annotations of the nodes, and\n"
		 "Events. Any number may run; the holder of the Lease kmodsmith-coordinator leads.\n"
		 "A process that loses the Lease ends with status 1. See also kmodsmith-rollout-status(8).\n\n"
		 "  kmodsmith coordinator --kubeconfig admin.conf --namespace kmodsmith\n",
	.opts = { opts, cluster_opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_coordinator,
};
