// SPDX-License-Identifier: Apache-2.0
// The agent of a node in a roll-out: this machine, and the words of the children that do its work.
#include "cmd/cluster/agent.h"

#include "cmd/common/job.h"
#include "cmd/container/serve.h"
#include "journal/node_lock.h"

struct values { // first what the children are told
	struct job_values job;
	char *policy, *node;
};

static const struct opt opts[] = {
	{ "policy", 0, "FILE", "KMODSMITH_POLICY", OPT_STR, offsetof(struct values, policy),
	  "the policy of the roll-out, read again when it changes: what the aims of orders mean" },
	{ "node", 0, "NAME", "NODE_NAME", OPT_STR, offsetof(struct values, node), "the Node that this machine is" },
	{ 0 },
};
static const struct opt *const tables[] = { opts,        source_opts, job_opts,    share_opts,
					    origin_opts, remote_opts, common_opts, NULL };
extern const struct cmd cmd_agent, cmd_install, cmd_status;

// Nobody is asked: what it takes was staged, and parameters that somebody else gave stay as they are.
static void use_disk_only(struct job_values *j)
{
	j->origin.remote.is_offline = j->is_compile_forbidden = true;
	j->origin.from = j->share_keys = j->headers = (struct strv){ 0 };
	j->origin.bundle = j->source = j->source_sha256 = j->share = j->share_role = j->compile_lease = NULL;
}

static int add_params(const struct target *target, struct strv *params, struct err *err)
{
	auto_strv struct strv own = { 0 };
	target_params(target, &own);
	for (size_t i = 0; i < own.count; i++) {
		if (strchr(own.items[i], ','))
			return err_set(err, E_PARAM, "'%s' of the policy has a comma, which parts parameters",
				       own.items[i]);
		strv_add(params, TAKE(own.items[i]));
	}
	return 0;
}

static int child_arguments(void *ctx, enum agent_work work, const struct target *target, struct launch_words *ret,
			   struct err *err)
{
	struct values v = *(const struct values *)ctx;
	const struct cmd *cmd = work == AGENT_WORK_PROBE ? &cmd_status : &cmd_install;
	auto_strv struct strv params = { 0 };
	v.job.origin.remote.common.is_json = true;
	strv_add(&ret->args, str_dup(cmd->name));
	if (work != AGENT_WORK_PROBE) {
		for (size_t i = 0; i < v.job.params.count; i++)
			strv_add(&params, str_dup(v.job.params.items[i]));
		if (add_params(target, &params, err) < 0)
			return -1;
		v.job.driver = (char *)(uintptr_t)target->driver;
		v.job.flavour = *target->flavour ? (char *)(uintptr_t)target->flavour : NULL;
		v.job.digest = target->package;
		v.job.params = params;
		v.job.holders = NULL; // nobody loses a driver that they use
		v.job.is_retry = work != AGENT_WORK_REVIVE;
	}
	if (work == AGENT_WORK_STAGE)
		strv_add(&ret->args, str_dup("--stage"));
	else
		use_disk_only(&v.job);
	opt_words(tables + 1, &v, cmd, &ret->args, &ret->env);
	return 0;
}

// Children have flags for it; what the environment says of their work must not come in beside these.
static void clear_environment(void)
{
	for (size_t t = 1; tables[t]; t++)
		for (const struct opt *o = tables[t]; o->name; o++)
			if (o->env)
				unsetenv(o->env);
}

static int open_agent_kube(const struct values *v, const struct machine *m, struct kube **ret, struct err *err)
{
	auto_kube_config struct kube_config config = KUBE_CONFIG_NONE;
	int r = v->job.kubeconfig ? kube_config_file(v->job.kubeconfig, NULL, &config, err) :
				    kube_config_pod(&m->kern, environ, &config, err);
	if (r == 0 && !config.server)
		return err_set(err, E_USAGE, "this is no pod with a service account, and no --kubeconfig was named");
	return r < 0 ? -1 : kube_open(&config, ret, err);
}

static int serve_node(struct values *v, const struct machine *m, const char *boot, struct err *err)
{
	auto_kube struct kube *kube = NULL;
	auto_root struct root state = ROOT_NONE;
	if (open_agent_kube(v, m, &kube, err) < 0)
		return -1;
	auto_fd int lock = node_lock_take_agent(&m->host, err);
	if (lock < 0 || job_state(&v->job, m, &state, err) < 0)
		return -1;
	const struct agent_host host = { .place = { .host = &m->host,
						    .kern = &m->kern,
						    .state = &state,
						    .params = &v->job.params,
						    .trust_dir = v->job.origin.trust_dir,
						    .is_unverified = v->job.origin.is_unverified },
					 .boot = boot,
					 .node = v->node,
					 .policy = v->policy,
					 .kube = kube,
					 .ctx = v,
					 .words = child_arguments };
	clear_environment();
	log_info("the agent of Node %s", v->node);
	int signal = agent_loop(&host, err);
	if (signal < 0)
		return -1;
	log_info("signal %d: leaving; the driver stays as it is", signal);
	return 0;
}

static int idle_until_signal(struct err *err)
{
	sigset_t signals;
	serve_block(&signals);
	log_info("NO_GPU: no NVIDIA function on this machine, nothing to do");
	return serve(NULL, 0, &signals, err) < 0 ? -1 : 0;
}

static int run_agent(void *values, char **args, size_t count, struct err *err)
{
	(void)args, (void)count;
	struct values *v = values;
	auto_machine struct machine m = { .host = ROOT_NONE, .kern = ROOT_NONE };
	auto_facts struct facts f = { 0 };
	if (!v->node || !*v->node || !v->policy)
		return err_set(err, E_USAGE, "an agent needs --node NAME and --policy FILE");
	if (machine_open(&v->job.origin.remote.common, &m, err) < 0 || facts_read(&m.host, &m.kern, &f, err) < 0)
		return -1;
	return facts_has_gpu(&f) ? serve_node(v, &m, f.host.boot_id ? f.host.boot_id : "unknown", err) :
				   idle_until_signal(err);
}

const struct cmd cmd_agent = {
	.name = "agent",
	.help = "carry out on this node what a roll-out orders: stage, replace, validate, restore",
	.about = "Watches its own Node and does what the annotation kmodsmith.io/go orders, when it is newer than "
		 "everything\n"
		 "before it; tells on the Node what came of it, what is loaded and what is whole on the disk. The work "
		 "is done\n"
		 "by `kmodsmith install` and `status` as children. Nothing is unloaded without an order for what lies "
		 "on the\n"
		 "disk, nor while somebody uses the driver. What was begun is ended or undone, whoever died meanwhile "
		 "and\n"
		 "whether or not the API can be reached; after a boot what worked last is loaded again.\n"
		 "With `mode: self` in the policy the agent of a single node gives itself these orders, and needs no "
		 "coordinator.\n"
		 "The policy is the document of `kmodsmith rollout check-policy`; options say where drivers come "
		 "from.\n\n"
		 "  kmodsmith agent --policy /policy/policy.json --from docker://registry.example/drivers\n",
	.opts = { opts, source_opts, job_opts, share_opts, origin_opts, remote_opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_agent,
};
