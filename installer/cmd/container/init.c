// SPDX-License-Identifier: Apache-2.0
// The container's entry point: install once, then run until a signal. The driver outlives the process: no signal
// unloads it.
#include "cluster/agent/agent_journal.h"
#include "cluster/kube/kubeconfig.h"
#include "cmd/common/job.h"
#include "cmd/container/report.h"
#include "cmd/container/watch.h"
#include "daemons/daemon_record.h"
#include "daemons/daemon_rules.h"
#include "devices/cdi.h"
#include "devices/nodes.h"
#include "host/capabilities.h"
#include "journal/node_lock.h"
#include "service/service_hold.h"
#include "service/service_xid.h"
#include "status/gpu_operator.h"
#include "status/liveness.h"

#include <stdio.h>

extern const struct cmd cmd_agent, cmd_status;

enum { MOFED_WAIT_S = 1200 };

struct peermem_values {
	bool is_requested, is_host_mofed;
	unsigned timeout_s;
};

struct values {
	struct job_values job;
	struct peermem_values rdma;
	struct listen_values listen;
	char *termination_log, *config_digest, *policy, *node;
	struct strv next_roots;
	bool is_operator, is_without_daemons, is_privileged, is_without_watch, is_gated, is_agent, has_labels;
};

static const struct opt opts[] = {
	{ "termination-log", 0, "FILE", NULL, OPT_STR, offsetof(struct values, termination_log), TERMLOG_HELP },
	{ "operator", 0, NULL, NULL, OPT_FLAG, offsetof(struct values, is_operator),
	  "write the files below /run/nvidia that the GPU Operator's pods read, as `nvidia-driver` does" },
	{ "config-digest", 0, "TEXT", "DRIVER_CONFIG_DIGEST", OPT_STR, offsetof(struct values, config_digest),
	  "with --operator: content of /run/nvidia/nvidia-driver.state once the driver is ready" },
	{ "no-daemons", 0, NULL, "KMODSMITH_NO_DAEMONS", OPT_FLAG, offsetof(struct values, is_without_daemons),
	  "do not start the driver's daemons: something else does" },
	{ "rdma", 0, NULL, "GPU_DIRECT_RDMA_ENABLED", OPT_FLAG, offsetof(struct values, rdma.is_requested),
	  "also load nvidia-peermem where there is a Mellanox function; see `kmodsmith peermem load`" },
	{ "host-mofed", 0, NULL, "USE_HOST_MOFED", OPT_FLAG, offsetof(struct values, rdma.is_host_mofed),
	  "with --rdma: the network driver is the host's, not a container's" },
	{ "mofed-timeout", 0, "SECONDS", NULL, OPT_UINT, offsetof(struct values, rdma.timeout_s),
	  "with --rdma: deadline for the network driver to be loaded, which the GPUs do not wait for; default 1200" },
	{ "no-watch", 0, NULL, "KMODSMITH_NO_WATCH", OPT_FLAG, offsetof(struct values, is_without_watch),
	  "do not prebuild for the other kernels of this machine; see `kmodsmith watch`" },
	{ "next-root", 0, "DIR,...", "KMODSMITH_NEXT_ROOT", OPT_LIST, offsetof(struct values, next_roots),
	  "where an updater has the root of the next boot, as `kmodsmith watch` takes it" },
	{ "gate", 0, NULL, "KMODSMITH_GATE", OPT_FLAG, offsetof(struct values, is_gated),
	  "keep /run/kmodsmith/reboot-blocked while a kernel that may start next has no package" },
	{ "agent", 0, NULL, "KMODSMITH_AGENT", OPT_FLAG, offsetof(struct values, is_agent),
	  "carry out the orders of a rollout, and touch no driver otherwise; see `kmodsmith agent`. Keeps privileges; "
	  "not with --operator" },
	{ "policy", 0, "FILE", "KMODSMITH_POLICY", OPT_STR, offsetof(struct values, policy),
	  "with --agent: the policy of the rollout" },
	{ "node", 0, "NAME", "NODE_NAME", OPT_STR, offsetof(struct values, node),
	  "the Node that this machine is: of --agent, and of its conditions, see `kmodsmith report`" },
	{ "nfd-labels", 0, NULL, "KMODSMITH_NFD_LABELS", OPT_FLAG, offsetof(struct values, has_labels),
	  NFD_LABELS_HELP },
	LISTEN_OPTS(struct values, listen),
	{ "keep-privileges", 0, NULL, "KMODSMITH_KEEP_PRIVILEGES", OPT_FLAG, offsetof(struct values, is_privileged),
	  "keep all capabilities once the driver is ready" },
	{ 0 },
};
// Those of a child: no package, because it is of one driver and one kernel.
static const struct opt *const passed_on[] = { opts,       source_opts, module_key_opts, distribution_opts, job_opts,
					       share_opts, origin_opts, remote_opts,     common_opts,       NULL };

// A start that reports its progress in the log and in the liveness file.
struct init_start {
	struct machine machine;
	struct gpu_operator_pod gpu_operator_pod;
	struct liveness liveness;
	struct progress shown, watch;
	const struct values *values;
	struct service_child agent, server, reporter;
	struct service_hold hold;
	struct service_xid xid;
	struct service_part xid_part;
	struct gpu_holds holds; // what was started stays so until a daemon keeps it: each start costs seconds
	bool is_check_due;      // the GPUs have more to answer
	int64_t look_ms;        // when an agent looks again whether they were measured
	bool has_reporter, has_hold, has_xid, is_agent_down;
	bool is_told;     // the operator, that the driver is ready
	bool has_request; // something to install or adopt; else wait for the agent
};

// Without the node's lock, which "detect" takes, the liveness file belongs to the process that has it.
static void beat_phase(struct init_start *s, const char *step)
{
	if (step && !str_eq(step, "detect"))
		liveness_beat(&s->liveness, step, 0, 0);
}

static void init_enter(void *ctx, const char *name)
{
	struct init_start *s = ctx;
	s->shown.enter(s->shown.ctx, name);
	beat_phase(s, name);
}

static void init_phase(void *ctx, const struct phase *ended)
{
	struct init_start *s = ctx;
	s->shown.phase(s->shown.ctx, ended);
	beat_phase(s, ended->name);
}

static void init_progress(void *ctx, const char *what, unsigned done, unsigned total)
{
	struct init_start *s = ctx;
	s->shown.progress(s->shown.ctx, what, done, total);
	liveness_beat(&s->liveness, what, done, total);
}

static void init_note(void *ctx, const char *text)
{
	struct init_start *s = ctx;
	s->shown.note(s->shown.ctx, text);
}

// With an agent: never another driver than the loaded one, else what the agent installed last, else what values say.
// 1 = there is something to install or to adopt, 0 = nothing, until the agent gets an order.
static int request_for_agent(struct job_values *v, struct err *err)
{
	auto_machine struct machine m = MACHINE_NONE;
	auto_facts struct facts f = { 0 };
	auto_root struct root state = ROOT_NONE;
	struct target last = { 0 };
	if (machine_open(&v->origin.remote.common, &m, err) < 0 || facts_read(&m.host, &m.kern, &f, err) < 0 ||
	    job_state(v, &m, &state, err) < 0)
		return -1;
	int r = agent_current(&state, &last, err);
	if (r < 0)
		return -1;
	struct service_agent_request request = {
		.driver = v->driver, .flavour = v->flavour, .digest = v->digest, .source = v->request.source
	};
	service_agent_request(r > 0 ? &last : NULL, &f.loaded, &request);
	v->is_ordered = true;
	str_set(&v->driver, request.driver);
	str_set(&v->flavour, request.flavour);
	str_set(&v->digest, request.digest);
	str_set(&v->request.source, request.source);
	if (r > 0)
		target_params(&last, &v->request.params);
	target_done(&last);
	return v->driver || v->request.source || v->request.payload || v->origin.package;
}

// Gets the options as typed, before this start changes them.
static int open_agent(struct values *v, struct init_start *s, struct err *err)
{
	s->has_request = true;
	if (!v->is_agent)
		return 0;
	if (v->is_operator) // it would report Ready for a driver that it did not check, or for none at all
		return err_set(
			err, E_USAGE,
			"--agent and --operator exclude each other: one program drives a node, the operator or a "
			"rollout; see kmodsmith-operator(7)");
	if (!v->node || !*v->node || !v->policy)
		return err_set(err, E_USAGE, "--agent needs --node NAME and --policy FILE");
	auto_launch_words struct launch_words words = { 0 };
	strv_add(&words.args, str_dup(cmd_agent.name));
	// What the agent installs is exported and in the CDI specification as what init installs.
	static char is_auto[] = JOB_AUTO, cdi[] = CDI_FILE;
	struct values of_agent = *v;
	of_agent.job.export = v->job.export ? v->job.export : is_auto;
	of_agent.job.request.cdi = v->job.request.cdi ? v->job.request.cdi : cdi;
	opt_words(passed_on, &of_agent, &cmd_agent, &words.args, &words.env);
	service_child_open("the agent", &words, &s->agent);
	int r = request_for_agent(&v->job, err);
	s->has_request = r > 0;
	return r < 0 ? -1 : 0;
}

// In a pod of the operator: on a Node, and with an account that may ask for it.
static bool is_on_node(const struct init_start *s)
{
	struct err why;
	auto_kube_config struct kube_config config = KUBE_CONFIG_NONE;
	const struct values *v = s->values;
	int found = v->node && *v->node ? kube_config_find(v->job.kubeconfig, &s->machine.kern, &config, &why) : 0;
	if (found < 0)
		log_warn("the operator's upgrade controller may evict before a proof: %s", why.text);
	return found > 0;
}

static int init_start_open(struct values *v, struct init_start *s, struct err *err)
{
	static const char HOOKS[] = "run/kernel/postinst.d";
	s->shown = show_progress_log();
	s->watch = (struct progress){
		.enter = init_enter, .phase = init_phase, .progress = init_progress, .note = init_note, .ctx = s
	};
	v->job.progress = &s->watch;
	v->job.is_export_default = true;
	v->job.is_cdi_default = !v->is_operator;
	v->job.is_for_operator = v->is_operator;
	v->job.request.has_daemons = !v->is_without_daemons;
	auto_daemon_request struct daemon_request request = { 0 };
	if ((v->job.request.has_daemons && daemon_request_read(environ, &request, err) < 0) ||
	    machine_open(&v->job.origin.remote.common, &s->machine, err) < 0 ||
	    serve_child_open(&v->listen, passed_on, v, &s->server, err) < 0 || open_agent(v, s, err) < 0 ||
	    (v->is_operator && gpu_operator_begin(&s->gpu_operator_pod, &s->machine.host, err) < 0))
		return -1;
	// NVIDIA's containers install a hook there that enters them to compile for a kernel that is being installed.
	// Here the next start finds a package or compiles; `nvidia-driver update` does it beforehand.
	if (v->is_operator && root_exists(&s->machine.host, HOOKS))
		log_info("/%s exists, but no hook is installed there; `nvidia-driver update -k RELEASE` compiles "
			 "beforehand",
			 HOOKS);
	s->has_hold = v->is_operator && is_on_node(s);
	liveness_open(&s->liveness, &s->machine.host, LIVENESS_DIR, &s->machine.kern);
	s->has_reporter = !v->is_operator && report_child_open(&s->machine.kern, v->node, v->job.kubeconfig,
							       v->has_labels, passed_on, v, &s->reporter);
	if (v->listen.listen)
		service_child_look(&s->server); // a compile is watched, too
	if (s->has_reporter)
		service_child_look(&s->reporter);
	return 0;
}

static void init_start_done(struct init_start *s)
{
	service_child_done(&s->agent);
	service_child_done(&s->server);
	service_child_done(&s->reporter);
	service_xid_done(&s->xid);
	liveness_done(&s->liveness);
	gpu_holds_done(&s->holds);
	gpu_operator_pod_done(&s->gpu_operator_pod);
	machine_done(&s->machine);
}
#define auto_init_start __attribute__((cleanup(init_start_done)))

// Until the first change in the kernel a signal ends the process and its compile at once; from then on apply_plan
// blocks signals, and after "ready" the main loop waits for them. 1 = ready, 0 = no GPU.
static int install_driver(struct init_start *s, sigset_t *stop, struct err *err)
{
	const struct values *v = s->values;
	auto_job struct job job = JOB_NONE;
	auto_status struct status status = { 0 };
	int opened = job_open(&v->job, true, &job, err);
	const char *loaded = job.session.facts.loaded.version;
	bool is_change = opened == 0 && job.session.plan.outcome == PLAN_CHANGE;
	if (v->is_agent && service_agent_is_left(loaded, is_change, opened < 0 ? err->code : 0)) {
		log_info("driver %s stays as it is until the agent gets an order", loaded);
		service_block(stop);
		return 1;
	}
	if (opened < 0)
		return -1;
	if (job.session.plan.outcome == PLAN_NO_GPU) {
		service_block(stop);
		log_info("NO_GPU: no NVIDIA function on this machine, nothing to do");
		return 0;
	}
	if (job_apply(&job, &status, err) < 0)
		return -1;
	bool is_off_fabric = gpus_count_ours(&job.session.facts.gpus, GPU_SWITCH) > 0;
	for (size_t i = 0; i < status.gpus.results.count; i++)
		is_off_fabric = is_off_fabric || gpu_result_is_off_fabric(&status.gpus.results.items[i]);
	s->holds = job.session.holds;
	s->is_check_due = (is_change || s->holds.count) && is_off_fabric && !job.request.gpus.is_off &&
			  !job.request.gpus.is_start_only;
	job.session.holds = (struct gpu_holds){ 0 };
	service_block(stop);
	log_info("ready: driver %s, %s", job.session.plan.driver, module_type_name(job.session.plan.flavour));
	return 1;
}

// The agent leaves a driver as it is that nobody may have measured since it was loaded, and others may load one at any
// time. Who changes the node measures for itself.
static bool is_unmeasured(const struct init_start *s)
{
	auto_facts struct facts f = { 0 };
	auto_gpu_record struct gpu_record record = { 0 };
	struct err why = { 0 };
	const struct machine *m = &s->machine;
	if (facts_read(&m->host, &m->kern, &f, &why) < 0 || !f.loaded.version ||
	    (gpu_record_read(&m->host, f.host.boot_id, &record, &why) > 0 && gpu_record_is_valid(&record, &f.loaded)))
		return false;
	auto_fd int lock = node_lock_take(&m->host, NODE_LOCK_CHANGE, &why);
	return lock >= 0;
}

// A child of its own, because it waits for the fabric, and begun while this process has its rights.
static void ask_gpus(const struct init_start *s)
{
	auto_launch_words struct launch_words words = { 0 };
	struct err why;
	pid_t ignored;
	strv_add(&words.args, str_dup(cmd_status.name));
	strv_add(&words.args, str_dup("--check-gpus"));
	strv_add(&words.args, str_dup("--quiet"));
	opt_words(passed_on, s->values, &cmd_status, &words.args, &words.env);
	if (launch_self(&words, &ignored, NULL, &why) < 0)
		log_warn("the GPUs are not asked once more: %s", why.text);
}

// Once every daemon that the GPUs need is up, nvidia-persistenced keeps them started, where it runs. The operator is
// told; the first time also the state is written, which makes the next start quick.
static void tell_daemons(void *ctx, bool is_well)
{
	struct err why = { 0 };
	struct init_start *s = ctx;
	gpu_holds_release(&s->holds);
	if (!s->values->is_operator)
		return;
	int r = !is_well || s->is_told ? gpu_operator_write_ready(&s->machine.host, is_well, &why) :
					 gpu_operator_ready(&s->gpu_operator_pod, s->values->config_digest, &why);
	if (r < 0)
		log_err(&why);
	s->is_told = s->is_told || (is_well && r >= 0);
}

// Whether there is any source of packages for them (R-F1).
static bool is_prebuilding(const struct values *v)
{
	const struct origin_values *origin = &v->job.origin;
	const struct request *r = &v->job.request;
	return !v->is_without_watch && (r->source || r->payload || origin->from.count || origin->bundle);
}

// A failure to prebuild for other kernels must not stop the service.
static size_t add_kernels(const struct values *v, struct watch_part *kernels, struct service_part *ret)
{
	struct err why;
	struct values told = *v;
	if (!is_prebuilding(v))
		return 0;
	if (v->is_agent) // it may be another one by then
		told.job.driver = NULL;
	const struct watch_values watch = { .job = told.job, .next_roots = v->next_roots };
	if (watch_part_open(&watch, passed_on, &told, kernels, ret, &why) == 0)
		return 1;
	log_warn("prebuilding for other installed kernels is disabled: %s", why.text);
	return 0;
}

static int add_peermem(const struct init_start *s, struct node *node, struct root *state,
		       struct service_peermem *peermem, struct service_part *ret, struct err *err)
{
	const struct values *v = s->values;
	if (!v->rdma.is_requested)
		return 0;
	if (job_state_existing(v->job.state_dir, &s->machine, state, err) < 0)
		return -1;
	node->state = state->fd < 0 ? NULL : state;
	peermem->peermem = (struct peermem){ .node = node,
					     .trust_dir = v->job.origin.trust_dir,
					     .is_host_mofed = v->rdma.is_host_mofed,
					     .timeout_ms = job_unload_timeout_ms(v->rdma.timeout_s ? v->rdma.timeout_s :
												     MOFED_WAIT_S),
					     .unload_timeout_ms = job_unload_timeout_ms(0) };
	*ret = service_peermem_part(peermem);
	return 1;
}

// The operator's startup probe runs nvidia-smi in this container. Its /dev is the container's own, with what the
// machine had before the load, while the nodes were made in the machine's. A failure here must not fail a working node:
// nvidia-smi makes nodes, too, if it may.
static void make_own_nodes(const struct init_start *s)
{
	auto_devices struct devices d = { 0 };
	struct err why;
	const struct machine *m = &s->machine;
	if (devices_want(&m->kern, s->values->job.request.imex_channels, &d, &why) < 0 ||
	    devices_apply(&m->kern, &m->sys, false, &d, &why) < 0)
		log_warn("nvidia-smi may fail in this container, whose own /dev lacks device nodes: %s", why.text);
	else if (d.changes)
		log_info("%zu device node%s in this container's own /dev, %zu change%s", d.count, str_plural(d.count),
			 d.changes, str_plural(d.changes));
}

// A pod whose agent does not stay up is not ready, although its driver is: else nothing in the cluster shows it.
static void tell_agent(struct init_start *s, int64_t now_ms)
{
	bool is_down = !service_child_is_up(&s->agent, now_ms);
	if (is_down != s->is_agent_down)
		liveness_beat(&s->liveness, is_down ? LIVENESS_AGENT_DOWN : LIVENESS_SERVE, 0, 0);
	s->is_agent_down = is_down;
}

static void agent_ended(void *ctx, int pid, int status, int64_t now_ms)
{
	struct init_start *s = ctx;
	const struct service_part part = service_child_part(&s->agent);
	part.ended(part.ctx, pid, status, now_ms);
	tell_agent(s, now_ms);
}

static int64_t agent_tick(void *ctx, int64_t now_ms)
{
	enum { LOOK_MS = 30 * 1000, AGAIN_MS = 300 * 1000 };
	struct init_start *s = ctx;
	tell_agent(s, now_ms);
	if (now_ms >= s->look_ms) {
		bool is_due = is_unmeasured(s);
		if (is_due)
			ask_gpus(s);
		s->look_ms = now_ms + (is_due ? AGAIN_MS : LOOK_MS);
	}
	int64_t next_ms = service_child_tick(&s->agent, now_ms);
	return next_ms < s->look_ms ? next_ms : s->look_ms;
}

static int serve_until_stopped(struct init_start *s, bool has_driver, const sigset_t *signals, struct err *err)
{
	auto_root struct root state = ROOT_NONE;
	auto_progress struct progress progress = show_progress_log();
	auto_watch_part struct watch_part kernels = WATCH_PART_NONE;
	struct service_peermem peermem = { 0 };
	struct service_part parts[SERVICE_PARTS_MAX - 1];
	struct node node = s->machine.node;
	const struct service_daemons daemons = { .node = &node, .say = tell_daemons, .ctx = s };
	node.progress = &progress;
	int more = has_driver ? add_peermem(s, &node, &state, &peermem, parts, err) : 0;
	if (more < 0)
		return -1;
	size_t count = (size_t)more;
	if (has_driver)
		count += add_kernels(s->values, &kernels, &parts[count]);
	if (has_driver && s->values->is_agent)
		parts[count++] = (struct service_part){ .ctx = s, .ended = agent_ended, .tick = agent_tick };
	if (s->values->listen.listen)
		parts[count++] = service_child_part(&s->server);
	if (s->has_reporter)
		parts[count++] = service_child_part(&s->reporter);
	if (s->has_xid)
		parts[count++] = s->xid_part;
	if (has_driver && s->has_hold)
		parts[count++] = service_hold_part(&s->hold);
	if (has_driver && s->values->job.request.has_daemons)
		return service_daemons_run(&daemons, parts, count, signals, err);
	if (has_driver)
		tell_daemons(s, true);
	if (daemon_record_forget(&s->machine.host, err) < 0) // their supervisor reports them
		return -1;
	return service_run(parts, count, signals, err);
}

// R-N3: installing needs more rights than running for months. A failure here must not fail a working node.
static void drop_rights(const struct init_start *s)
{
	struct err why;
	auto_str char *dropped = NULL;
	const struct values *v = s->values;
	const struct request *asked = &v->job.request;
	bool may_compile = is_prebuilding(v) && (asked->source || asked->payload) && !asked->is_compile_forbidden;
	if (v->is_privileged || v->is_agent)
		return;
	unsigned uses = (s->has_hold ? CAPABILITY_DRIVER : 0) | (may_compile || s->has_hold ? CAPABILITY_COMPILE : 0);
	if (capabilities_drop(!v->is_without_daemons, uses, &dropped, &why) < 0)
		log_warn("capabilities could not be dropped: %s", why.text);
	else if (*dropped)
		log_info("capabilities dropped: %s", dropped);
}

static int run_init(void *values, char **args, size_t count, struct err *err)
{
	(void)args, (void)count;
	struct values *v = values;
	auto_init_start struct init_start s = {
		.machine = MACHINE_NONE, .gpu_operator_pod = GPU_OPERATOR_POD_NONE, .xid = SERVICE_XID_NONE, .values = v
	};
	sigset_t signals;
	if (init_start_open(v, &s, err) < 0)
		return -1;
	int r = s.has_request ? install_driver(&s, &signals, err) : 1;
	if (r < 0 && !(v->is_agent && service_agent_mends(err->code))) {
		if (s.has_hold) // this container does not serve, so nobody else would
			service_hold_last(&s.hold, true);
		return -1;
	}
	if (r < 0)
		log_err(err);
	if (r < 0 || !s.has_request) {
		service_block(&signals);
		log_info("the agent waits for an order");
	}
	if (v->is_operator && r > 0)
		make_own_nodes(&s);
	s.has_xid = r != 0 && service_xid_open(&s.machine.host, &s.machine.kern, &s.xid, &s.xid_part);
	if (s.is_check_due)
		ask_gpus(&s);
	drop_rights(&s);
	liveness_beat(&s.liveness, LIVENESS_SERVE, 0, 0);
	int signal = serve_until_stopped(&s, r != 0, &signals, err);
	if (s.has_hold)
		service_hold_last(&s.hold, false);
	if (signal < 0)
		return -1;
	log_info("signal %d: exiting; the driver stays loaded", signal);
	if (v->is_operator)
		gpu_operator_withdraw(&s.gpu_operator_pod);
	return 0;
}

static void write_init_termlog(const void *values, const struct err *err)
{
	const struct values *v = values;
	termlog_write(&v->job.origin.remote.common, v->termination_log, err);
}

const struct cmd cmd_init = {
	.name = "init",
	.help = "install, then run until a signal; the entry point of a container",
	.about = "Does what `install` does, then starts the daemons that belong to the driver and this hardware,\n"
		 "and keeps them running until a signal. SIGTERM ends the process and leaves the driver and its\n"
		 "daemons running: only `kmodsmith unload` removes them; see kmodsmith-daemons(7). `kmodsmith\n"
		 "probe` answers a kubelet's probes. A failure ends at once with the error's exit status, and\n"
		 "leaves the error in /dev/termination-log.\n\n"
		 "  kmodsmith init --driver 535.261.03 --from docker://registry.example/drivers\n",
	.often = "driver,source,from,flavour,holders",
	.opts = { opts, source_opts, module_key_opts, distribution_opts, job_opts, share_opts, package_opts,
		  origin_opts, remote_opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_init,
	.failed = write_init_termlog,
};
