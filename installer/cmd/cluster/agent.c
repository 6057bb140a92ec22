// SPDX-License-Identifier: Apache-2.0
// The agent of a node in a rollout: this machine, and the child processes that do the work.

#include "base/file/file.h"
#include "base/formats/json.h"
#include "base/process/launch.h"
#include "base/process/log.h"
#include "cluster/agent/loop.h"
#include "cluster/kube/client.h"
#include "cmd/common/job.h"
#include "journal/node_lock.h"
#include "service/service.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

enum { LOCKED_AGAIN_MS = 5000, LOCKED_MOST_MS = 300000, OUTPUT_MOST = 4 << 20 };

// A child of the agent: started, polled, and its result in terms of an acknowledgement.
struct agent_child {
	bool is_there;
	pid_t pid;
	int out;
	struct launch_words words; // to start it once more
	long since_ms, again_ms;   // again_ms: next try, since another kmodsmith works on this node; 0 = it runs
};
#define AGENT_CHILD_NONE ((struct agent_child){ .out = -1 })

static void forget_child(struct agent_child *c)
{
	close_fdp(&c->out);
	launch_words_done(&c->words);
	*c = AGENT_CHILD_NONE;
}

static int start_child(struct agent_child *c, struct err *err)
{
	close_fdp(&c->out);
	c->out = -1;
	c->again_ms = 0;
	return launch_self(&c->words, &c->pid, &c->out, err);
}

// words are taken.
static int agent_child_start(struct agent_child *c, struct launch_words *words, struct err *err)
{
	*c = (struct agent_child){ .is_there = true, .out = -1, .words = *words, .since_ms = kube_now_ms() };
	*words = (struct launch_words){ 0 };
	if (start_child(c, err) == 0)
		return 0;
	forget_child(c);
	return -1;
}

static void judge_child_result(const struct agent_child *c, int status, struct agent_end *ret)
{
	char text[128] = "";
	*ret = (struct agent_end){ .is_ok = WIFEXITED(status) && WEXITSTATUS(status) == 0,
				   .is_crash = WIFSIGNALED(status) };
	if (ret->is_ok)
		return;
	const struct err_info *info = NULL;
	auto_str char *output = NULL;
	size_t len = 0;
	struct err ignored;
	if (ret->is_crash) {
		log_warn("'kmodsmith %s' was killed by signal %d", c->words.args.items[0], WTERMSIG(status));
	} else if (lseek(c->out, 0, SEEK_SET) == 0 &&
		   file_read_most(c->out, "output", OUTPUT_MOST, &output, &len, &ignored) == 0) {
		auto_json json_t *json = json_loadb(output ? output : "", len, 0, NULL);
		const json_t *error = json_object_get(json, "error");
		const char *code = json_string_value(json_object_get(error, "code"));
		const char *words = json_string_value(json_object_get(error, "text"));
		snprintf(text, sizeof(text), "%.120s", words ? words : "");
		info = code ? err_info_by_name(code) : NULL;
	}
	// A failed `status` only means that it is not ready.
	if (!info)
		info = err_info(str_eq(c->words.args.items[0], "status") ? E_NOT_READY : E_SYSTEM);
	ret->failing = agent_failing(info);
	snprintf(ret->code, sizeof(ret->code), "%s", ret->is_crash ? "killed" : info->name);
	log_warn("'kmodsmith %s' failed: %s%s%s", c->words.args.items[0], ret->code, *text ? ": " : "", text);
}

// True if it has ended, or could not be started again.
static bool agent_child_ended(struct agent_child *c, struct agent_end *ret)
{
	long now_ms = kube_now_ms();
	struct err err;
	int status = 0;
	if (c->again_ms) {
		if (now_ms < c->again_ms || start_child(c, &err) == 0)
			return false;
		*ret = (struct agent_end){ .failing = FAILING_TRANSIENT, .code = "E_SYSTEM" };
		forget_child(c);
		return true;
	}
	if (waitpid(c->pid, &status, WNOHANG) != c->pid)
		return false;
	judge_child_result(c, status, ret);
	// Another process works on this node, for instance the child of an agent that was killed: wait for it.
	if (str_eq(ret->code, "E_LOCKED") && now_ms - c->since_ms < LOCKED_MOST_MS) {
		c->again_ms = now_ms + LOCKED_AGAIN_MS;
		return false;
	}
	forget_child(c);
	return true;
}

// Sends SIGTERM and waits at most so long: a change in progress is finished first.
static void agent_child_stop(struct agent_child *c, int wait_ms)
{
	enum { STEP_MS = 50 };
	int status;
	if (!c->is_there)
		return;
	if (c->again_ms == 0) {
		kill(-c->pid, SIGTERM);
		for (; wait_ms > 0 && waitpid(c->pid, &status, WNOHANG) == 0; wait_ms -= STEP_MS)
			poll(NULL, 0, STEP_MS);
	}
	forget_child(c);
}

// The machine of struct agent_site: a policy in a file, what is loaded and stored, children, and a log.

enum { IDLE_MS = 1000, LEAVE_MS = 20000 };

struct agent_host { // all borrowed
	struct agent_paths place;
	const char *boot, *node, *policy; // policy: a path as given on the command line
	struct kube *kube;
	void *ctx;
	// The arguments of a child of this program that does the work; its result is JSON. target NULL: for a probe.
	// E_PARAM: a parameter that cannot be passed.
	int (*words)(void *ctx, enum agent_work work, const struct target *target, struct launch_words *ret,
		     struct err *err);
};

struct agent_run {
	const struct agent_host *host;
	struct stat stamp; // of the policy's file
	struct agent_child child;
};

// An invalid policy is reported once, not at every turn.
static int reread_policy_file(void *ctx, struct policy *ret, struct err *err)
{
	struct agent_run *s = ctx;
	struct stat st;
	auto_str char *text = NULL;
	size_t len = 0;
	auto_fd int fd = file_open_arg(s->host->policy, O_RDONLY | O_NONBLOCK, err);
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0)
		return err_set(err, errno, "%s", s->host->policy);
	if (st.st_ino == s->stamp.st_ino && st.st_dev == s->stamp.st_dev && st.st_size == s->stamp.st_size &&
	    st.st_mtim.tv_sec == s->stamp.st_mtim.tv_sec && st.st_mtim.tv_nsec == s->stamp.st_mtim.tv_nsec)
		return 0;
	s->stamp = st;
	if (file_read_most(fd, s->host->policy, POLICY_BYTES, &text, &len, err) < 0 ||
	    policy_parse(text, len, ret, err) < 0)
		return -1;
	return 1;
}

static int read_agent_facts(void *ctx, const struct target *const *names, size_t count, struct agent_facts *ret,
			    struct target *ret_new, struct err *err)
{
	const struct agent_run *s = ctx;
	return agent_read_facts(&s->host->place, names, count, ret, ret_new, err);
}

static void read_agent_holders(void *ctx, struct agent_holders *ret)
{
	const struct agent_run *s = ctx;
	agent_read_holders(&s->host->place, ret);
}

static int begin_child(void *ctx, enum agent_work work, const struct target *target, struct err *err)
{
	struct agent_run *s = ctx;
	auto_launch_words struct launch_words words = { 0 };
	if (s->host->words(s->host->ctx, work, target, &words, err) < 0)
		return -1;
	return agent_child_start(&s->child, &words, err);
}

static bool child_has_ended(void *ctx, struct agent_end *ret)
{
	struct agent_run *s = ctx;
	return agent_child_ended(&s->child, ret);
}

static void log_agent_action(void *ctx, const char *what)
{
	(void)ctx;
	log_info("%s", what);
}

static void log_agent_trouble(void *ctx, const char *what, const struct err *why)
{
	(void)ctx;
	log_warn("%s: %s", what, why->text);
}

static int next_agent_signal(const sigset_t *set)
{
	static const struct timespec none;
	for (int signal; (signal = sigtimedwait(set, NULL, &none)) > 0;)
		if (signal != SIGCHLD && signal != SIGPIPE)
			return signal;
	return 0;
}

// Until a signal; returns it.
static int agent_loop(const struct agent_host *host, struct err *err)
{
	struct agent_run agent_run = { .host = host, .child = AGENT_CHILD_NONE };
	const struct agent_site site = {
		.state = host->place.node->state,
		.boot = host->boot,
		.node = host->node,
		.kube = host->kube,
		.machine = { &agent_run, reread_policy_file, read_agent_facts, read_agent_holders, begin_child,
			     child_has_ended, log_agent_action, log_agent_trouble },
	};
	struct agent a;
	sigset_t set;
	int signal = 0;
	if (agent_open(&site, &a, err) < 0)
		return -1;
	service_block(&set);
	while (!(signal = next_agent_signal(&set)))
		agent_turn(&a, IDLE_MS);
	agent_child_stop(&agent_run.child, LEAVE_MS);
	agent_done(&a);
	return signal;
}

struct values { // first the options that children get as well
	struct job_values job;
	char *policy, *node;
};

static const struct opt opts[] = {
	{ "policy", 0, "FILE", "KMODSMITH_POLICY", OPT_STR, offsetof(struct values, policy),
	  "the policy of the rollout, read again when it changes; it defines the targets of orders" },
	{ "node", 0, "NAME", "NODE_NAME", OPT_STR, offsetof(struct values, node), "the Node that this machine is" },
	{ 0 },
};
static const struct opt *const tables[] = { opts,       source_opts, module_key_opts, distribution_opts, job_opts,
					    share_opts, origin_opts, remote_opts,     common_opts,       NULL };
extern const struct cmd cmd_agent, cmd_install, cmd_status;

// No source is asked: everything was staged; parameters that were set by others stay.
static void use_disk_only(struct job_values *j)
{
	j->origin.remote.is_offline = j->request.is_compile_forbidden = true;
	j->origin.from = j->share_keys = j->request.headers = (struct strv){ 0 };
	j->origin.bundle = j->request.source = j->request.source_sha256 = j->share = j->share_role = j->compile_lease =
		NULL;
}

static int add_params(const struct target *target, struct strv *params, struct err *err)
{
	auto_strv struct strv own = { 0 };
	target_params(target, &own);
	for (size_t i = 0; i < own.count; i++) {
		if (strchr(own.items[i], ','))
			return err_set(err, E_PARAM, "'%s' of the policy has a comma, which separates parameters",
				       own.items[i]);
		strv_add(params, TAKE(own.items[i]));
	}
	return 0;
}

// As variables, which an order's driver outranks: a source of another one does not count.
static void tell_source(struct job_values *j, struct strv *env)
{
	if (j->request.source)
		strv_add(env, str_fmt("KMODSMITH_SOURCE=%s", j->request.source));
	if (j->request.source_sha256)
		strv_add(env, str_fmt("KMODSMITH_SOURCE_SHA256=%s", j->request.source_sha256));
	j->request.source = j->request.source_sha256 = NULL;
}

static int child_arguments(void *ctx, enum agent_work work, const struct target *target, struct launch_words *ret,
			   struct err *err)
{
	struct values v = *(const struct values *)ctx;
	const struct cmd *cmd = work == AGENT_WORK_PROBE ? &cmd_status : &cmd_install;
	auto_strv struct strv params = { 0 };
	v.job.origin.remote.common.is_json = true;
	strv_add(&ret->args, str_dup(cmd->name));
	if (work == AGENT_WORK_PROBE) { // the node is cordoned, and nobody uses a GPU
		strv_add(&ret->args, str_dup("--check-gpus"));
	} else {
		for (size_t i = 0; i < v.job.request.params.count; i++)
			strv_add(&params, str_dup(v.job.request.params.items[i]));
		if (add_params(target, &params, err) < 0)
			return -1;
		v.job.driver = (char *)(uintptr_t)target->driver;
		v.job.flavour = *target->flavour ? (char *)(uintptr_t)target->flavour : NULL;
		v.job.digest = target->package;
		v.job.request.params = params;
		tell_source(&v.job, &ret->env);
		v.job.holders = NULL; // never take a driver that is in use
		v.job.request.is_retry = work != AGENT_WORK_REVIVE;
	}
	if (work == AGENT_WORK_STAGE)
		strv_add(&ret->args, str_dup("--stage"));
	else
		use_disk_only(&v.job);
	opt_words(tables + 1, &v, cmd, &ret->args, &ret->env);
	return 0;
}

// Children get flags for these; variables must not add to them.
static void clear_environment(void)
{
	for (size_t t = 1; tables[t]; t++)
		for (const struct opt *o = tables[t]; o->name; o++)
			if (o->env)
				unsetenv(o->env);
}

static int serve_node(struct values *v, const struct machine *m, const char *boot, struct err *err)
{
	auto_kube struct kube *kube = NULL;
	auto_root struct root state = ROOT_NONE;
	auto_kube_config struct kube_config config = KUBE_CONFIG_NONE;
	int r = kube_config_find(v->job.kubeconfig, &m->kern, &config, err);
	if (r == 0)
		return err_set(err, E_USAGE,
			       "not running in a pod with a service account, and --kubeconfig is not set");
	if (r < 0 || kube_open(&config, &kube, err) < 0)
		return -1;
	auto_fd int lock = node_lock_take(&m->host, NODE_LOCK_AGENT, err);
	if (lock < 0 || job_state(&v->job, m, &state, err) < 0)
		return -1;
	struct node node = m->node;
	node.state = &state;
	const struct agent_host host = { .place = { .node = &node,
						    .params = &v->job.request.params,
						    .trust_dir = v->job.origin.trust_dir,
						    .is_unverified = v->job.origin.is_unverified },
					 .boot = boot,
					 .node = v->node,
					 .policy = v->policy,
					 .kube = kube,
					 .ctx = v,
					 .words = child_arguments };
	clear_environment();
	log_info("agent of Node %s", v->node);
	int signal = agent_loop(&host, err);
	if (signal < 0)
		return -1;
	log_info("signal %d: exiting; the driver stays as it is", signal);
	return 0;
}

static int run_agent(void *values, char **args, size_t count, struct err *err)
{
	(void)args, (void)count;
	struct values *v = values;
	auto_machine struct machine m = MACHINE_NONE;
	auto_facts struct facts f = { 0 };
	if (!v->node || !*v->node || !v->policy)
		return err_set(err, E_USAGE, "an agent needs --node NAME and --policy FILE");
	if (machine_open(&v->job.origin.remote.common, &m, err) < 0 || facts_read(&m.host, &m.kern, &f, err) < 0)
		return -1;
	if (facts_has_gpu(&f))
		return serve_node(v, &m, f.host.boot_id ? f.host.boot_id : "unknown", err);
	sigset_t signals;
	service_block(&signals);
	log_info("NO_GPU: no NVIDIA function on this machine, nothing to do");
	return service_run(NULL, 0, &signals, err) < 0 ? -1 : 0;
}

const struct cmd cmd_agent = {
	.name = "agent",
	.help = "carry out on this node what a rollout orders: stage, replace, validate, restore",
	.about = "Watches its own Node and carries out the order in the annotation kmodsmith.io/go, if it is newer\n"
		 "than all before it; reports on the Node the result, the loaded driver and the staged ones. The\n"
		 "work is done by `kmodsmith install` and `status` as child processes. A driver is never unloaded\n"
		 "without an order for a staged one, nor while it is in use. A change that was begun is finished or\n"
		 "undone, even if the agent died meanwhile or the API cannot be reached; after a boot the last good\n"
		 "driver is loaded again.\n"
		 "With `mode: self` in the policy the agent of a single node gives itself these orders, and needs\n"
		 "no coordinator.\n"
		 "The policy is the document of `kmodsmith rollout check-policy`; options say where drivers come\n"
		 "from.\n\n"
		 "  kmodsmith agent --policy /policy/policy.json --from docker://registry.example/drivers\n",
	.opts = { opts, source_opts, module_key_opts, distribution_opts, job_opts, share_opts, origin_opts, remote_opts,
		  common_opts },
	.values_size = sizeof(struct values),
	.run = run_agent,
};
