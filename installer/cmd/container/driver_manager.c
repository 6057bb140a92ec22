// SPDX-License-Identifier: Apache-2.0
#include "cmd/container/driver_manager.h"

#include "base/http/proxy.h"
#include "cluster/driver_manager/driver_pod.h"
#include "cluster/driver_manager/evacuate.h"
#include "cluster/driver_manager/upgrade_hold.h"
#include "cluster/kube/api.h"
#include "cluster/node_state/nvidia.h"
#include "cmd/common/entry.h"
#include "cmd/common/job.h"
#include "cmd/container/nvidia_driver.h"
#include "daemons/holders_wait.h"
#include "driver_root/driver_root.h"
#include "journal/node_lock.h"
#include "status/gpu_operator.h"
#include "transaction/unload.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

// The steps of the operator's init container, in order. Before the proof nothing is written but the node's store.

struct driver_manager_values {
	struct job_values job;
	char *termination_log, *config_digest, *node, *namespace, *kubelet_dir;
	char *drain_timeout, *drain_selector, *operand_label, *upgrade_hold;
	bool is_evicting, is_draining, is_forced, deletes_empty_dir, is_reinstall, is_without_daemons;
};

static const char STATE[] = "run/nvidia/nvidia-driver.state", KUBELET[] = "var/lib/kubelet";
static const char HOSTNAME[] = "proc/sys/kernel/hostname";
static const char LEAVING[] = "leaving", STARTING[] = "starting";
enum { HOLDERS_MS = 60000, NAP_MS = 500, LEAVING_MS = 2000 };

// A number and a unit, again and again.
int driver_manager_seconds(const char *text, unsigned *ret, struct err *err)
{
	static const struct {
		const char *unit;
		unsigned ms;
	} units[] = { { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 }, { "", 1000 } };
	enum { DAY_S = 86400, DIGITS = 6 };
	uint64_t sum = 0;
	const char *c = text ? text : "";
	while (*c) {
		size_t digits = strspn(c, "0123456789"), letters = strcspn(c + digits, "0123456789"), u = 0;
		while (u < ARRAY_SIZE(units) &&
		       (strlen(units[u].unit) != letters || strncmp(units[u].unit, c + digits, letters) != 0))
			u++;
		if (!digits || digits > DIGITS || u == ARRAY_SIZE(units))
			return err_set(err, E_USAGE, "'%s' is not a duration such as 300s, 5m or 1h30m", text);
		sum += strtoull(c, NULL, 10) * units[u].ms;
		c += digits + letters;
	}
	*ret = (unsigned)(sum / 1000 < DAY_S ? sum / 1000 : DAY_S);
	return 0;
}

struct manager {
	const struct cmd *cmd;
	struct driver_manager_values *v;
	struct machine machine;
	struct kube *kube;
	struct facts facts;
	struct evacuation e;
	json_t *pod;
	char *holders;
	bool is_known;    // the operator's next driver was wanted before: no word about each try
	bool is_unloaded; // else the kernel has what is requested, or no driver
	char *why;        // for people
	struct strv unloaded;
};

static void manager_done(struct manager *m)
{
	json_decref(m->pod);
	free(m->holders);
	free(m->why);
	strv_done(&m->unloaded);
	facts_done(&m->facts);
	kube_free(m->kube);
	machine_done(&m->machine);
}
#define auto_manager __attribute__((cleanup(manager_done)))

static void log_manager_note(void *ctx, const char *text)
{
	(void)ctx;
	log_info("%s", text);
}

// Signals are blocked as soon as there is something to restore.
static bool is_ended(void *ctx)
{
	(void)ctx;
	sigset_t set;
	return sigpending(&set) == 0 && (sigismember(&set, SIGTERM) || sigismember(&set, SIGINT));
}

// Called again once the environment of the driver's container is known: all texts are borrowed.
static int fill_evacuation(struct manager *m, struct err *err)
{
	const struct driver_manager_values *v = m->v;
	m->e = (struct evacuation){ .kube = m->kube,
				    .node = v->node,
				    .own_uid = m->pod ? driver_pod_uid(m->pod) : NULL,
				    .label = v->operand_label && *v->operand_label ? v->operand_label : NULL,
				    .selector = v->drain_selector,
				    .may_evict = v->is_evicting,
				    .may_drain = v->is_draining,
				    .is_forced = v->is_forced,
				    .deletes_empty_dir = v->deletes_empty_dir,
				    .note = log_manager_note,
				    .is_ended = is_ended };
	return driver_manager_seconds(v->drain_timeout, &m->e.timeout_s, err) < 0 ? err_wrap(err, "drain-timeout") : 0;
}

// deadline_ms: of each request; 0 = the default.
static int open_manager(struct manager *m, unsigned deadline_ms, struct err *err)
{
	const struct driver_manager_values *v = m->v;
	auto_kube_config struct kube_config config = KUBE_CONFIG_NONE;
	if (!v->node || !*v->node)
		return err_set(err, E_USAGE, "NODE_NAME or --node must name the Node of this machine");
	int found = machine_open(&v->job.origin.remote.common, &m->machine, err);
	if (found < 0 || (found = kube_config_find(v->job.kubeconfig, &m->machine.kern, &config, err)) < 0)
		return -1;
	if (found == 0)
		return err_set(err, E_USAGE, "not in a pod with a service account; give --kubeconfig");
	config.deadline_ms = deadline_ms;
	return kube_open(&config, &m->kube, err) < 0 ||
			       facts_read(&m->machine.host, &m->machine.kern, &m->facts, err) < 0 ?
		       -1 :
		       fill_evacuation(m, err);
}

// The driver's container

// What is neither file nor directory is left out: of a key that a ConfigMap lacks the kubelet makes a directory.
static int put_entry(const struct manager *m, const char *from, const char *to, unsigned depth, struct err *err)
{
	const struct root *host = &m->machine.host, *kern = &m->machine.kern;
	auto_strv struct strv names = { 0 }, skipped = { 0 };
	auto_str char *text = NULL;
	struct err ignored;
	auto_fd int dir = depth ? root_open(host, from, O_PATH | O_DIRECTORY, &ignored) : -1;
	if (dir >= 0 && (root_list(host, from, &names, err) < 0 || root_mkdirs(kern, to, 0755, err) < 0))
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *path = str_fmt("%s/%s", from, names.items[i]);
		auto_str char *copy = str_fmt("%s/%s", to, names.items[i]);
		if (*names.items[i] != '.' && // the kubelet's own: ..data and what it leads to
		    put_entry(m, path, copy, depth - 1, err) < 0)
			return -1;
	}
	if (dir >= 0)
		return 0;
	int r = root_read_entry(host, from, SIZE_MAX, &text, &skipped, err);
	if (r == 0 && skipped.count) {
		log_warn("%s", skipped.items[0]);
		return 0;
	}
	if (r == 0)
		err_set(err, E_NOT_FOUND,
			"'/%s' is mounted into the driver's container, but the host has no such file: "
			"--kubelet-dir (KMODSMITH_KUBELET_DIR) says where the kubelet keeps volumes",
			from);
	return r <= 0 || root_put(kern, to, text, strlen(text), 0644, err) < 0 ? -1 : 0;
}

// Module parameters, public keys where KMODSMITH_TRUST_DIR names the directory, and repositories: files, or directories
// of them, as the driver's container sees them.
static int put_files(const struct manager *m, const struct driver_pod_file *f, struct err *err)
{
	enum { DEPTH = 8 };
	const char *kubelet = m->v->kubelet_dir ? m->v->kubelet_dir : KUBELET;
	auto_str char *from = str_fmt("%s/%s%s%s", kubelet, f->volume, f->path ? "/" : "", f->path ? f->path : "");
	const char *slash = strrchr(f->to, '/');
	auto_str char *parent = str_ndup(f->to, slash ? (size_t)(slash - f->to) : strlen(f->to));
	return root_mkdirs(&m->machine.kern, parent, 0755, err) < 0 || put_entry(m, from, f->to, DEPTH, err) < 0 ? -1 :
														   0;
}

static void reach_directly(const char *server) // whatever proxies there are
{
	const char *lower = getenv("no_proxy"), *now = lower && *lower ? lower : getenv("NO_PROXY");
	auto_str char *all = str_fmt("%s%s%s", now ? now : "", now && *now ? "," : "", server);
	setenv("no_proxy", all, 1);
}

// Takes over the environment of the driver's container.
static int take_driver_environment(struct manager *m, struct err *err)
{
	auto_strv struct strv env = { 0 }, unknown = { 0 }, warnings = { 0 };
	const char *server = getenv("KUBERNETES_SERVICE_HOST");
	auto_str char *proxy = server ? proxy_choose(NULL, NULL, "https", server, 443) : NULL;
	bool was_direct = !proxy;
	driver_pod_environment(m->pod, &env, &unknown);
	for (size_t i = 0; i < env.count; i++) {
		size_t len = strcspn(env.items[i], "=");
		auto_str char *name = str_ndup(env.items[i], len);
		setenv(name, env.items[i] + len + 1, 1);
	}
	// If the API server was reached without a proxy, keep it so: the driver's proxies are for its downloads.
	server = getenv("KUBERNETES_SERVICE_HOST");
	if (server && was_direct)
		reach_directly(server);
	for (size_t i = 0; i < unknown.count; i++)
		if (!getenv(unknown.items[i]))
			log_warn(
				"%s of the driver's container is unknown here; driver.manager.env can set it here, too",
				unknown.items[i]);
	nvidia_driver_environment(&warnings); // which the driver's container tells
	if (nvidia_driver_guest(&m->machine.kern, &m->machine.kern, err) < 0)
		return -1;
	struct driver_manager_values *fresh = mem_alloc(m->cmd->values_size);
	int r = entry_reparse(m->cmd, fresh, err);
	if (r == 0) {
		const struct driver_manager_values before = *m->v;
		*m->v = *fresh;
		*fresh = before;
	}
	opt_done(m->cmd, fresh);
	free(fresh);
	return r < 0 ? -1 : fill_evacuation(m, err);
}

static const char *operator_namespace(const struct manager *m)
{
	return m->v->namespace && *m->v->namespace ? m->v->namespace : kube_namespace(m->kube);
}

static int read_driver_pod(struct manager *m, struct err *err)
{
	auto_str char *name = NULL;
	auto_driver_pod_files struct driver_pod_files files = { 0 };
	auto_strv struct strv sources = { 0 };
	if (root_line(&m->machine.kern, HOSTNAME, &name, err) < 0 ||
	    driver_pod_read(m->kube, operator_namespace(m), m->v->node, name ? name : "", false, &m->pod, err) < 0 ||
	    driver_pod_check(m->pod, getenv("DRIVER_VERSION"), err) < 0)
		return -1;
	driver_pod_files(m->pod, &files);
	for (size_t i = 0; i < files.count; i++)
		if (put_files(m, &files.items[i], err) < 0)
			return -1;
	for (const struct nvidia_input *x = nvidia_inputs; x->name; x++)
		for (size_t i = 0; i < files.count && x->kind == INPUT_MOUNT; i++)
			if (str_starts(files.items[i].to, x->name) && !strv_has(&sources, x->name))
				strv_add(&sources, str_dup(x->name));
	nvidia_driver_sources(&m->machine.kern, &sources);
	return take_driver_environment(m, err);
}

// A loaded driver without a file on the host was left by another container, NVIDIA's for instance: unloading it is our
// job. The host's own driver stays.
static int open_job(struct manager *m, struct job *job, struct err *err)
{
	struct job_values *v = &m->v->job;
	str_set(&v->holders, "wait"); // checked once the next driver is ready
	v->is_export_default = v->is_for_operator = true;
	v->request.has_daemons = !m->v->is_without_daemons;
	if (job_open(v, false, job, err) == 0)
		return 0;
	if (err->code != E_HOST_DRIVER)
		return -1;
	if (!job->session.facts.existing_driver.file) {
		job_done(job);
		str_set(&v->host_driver, "replace");
		return job_open(v, false, job, err);
	}
	struct err why;
	if (evacuate_mark_preinstalled(&m->e, &why) < 0)
		log_err(&why);
	else
		log_info("the operator removes its driver from node %s: the host has its own", m->v->node);
	return -1;
}

// Out of the kernel

// Finds who has a GPU open before evicting: a process of the host's own would still be there after all evictions.
static int check_holders(struct manager *m, struct err *err)
{
	auto_holders struct holders h = { 0 };
	auto_progress struct progress progress = show_progress_log();
	auto_strv struct strv pods = { 0 };
	if (holders_find(&m->machine.kern, &m->facts.loaded, &h, err) < 0 ||
	    holders_wait_omit_daemons(&m->machine.host, &m->machine.kern, &h, err) < 0)
		return -1;
	holders_wait_note(&progress, &h);
	for (size_t i = 0; i < h.count; i++) {
		const struct holder *x = &h.items[i];
		auto_str char *who = x->pod || x->container || x->kind == HOLDER_MOUNT ? NULL : holder_text(x);
		if (who)
			return err_set(err, E_IN_USE, "%s, and no eviction would end it: it is not in a container",
				       who);
		if (x->pod && x->kind != HOLDER_MOUNT && !strv_has(&pods, x->pod))
			strv_add(&pods, str_dup(x->pod));
	}
	auto_str char *uids = strv_join(&pods, " ");
	m->holders = str_fmt("%zu 0 %s", pods.count, uids ? uids : "");
	m->e.holders = m->holders;
	return 0;
}

// A process may close its files a moment after its pod is gone; on a recorded machine nothing changes. No process is
// asked to end: that is what the evictions are for.
static int wait_holders(const struct holders_wait *d, struct holders *ret, struct err *err)
{
	const struct timespec nap = { .tv_nsec = NAP_MS * 1000 * 1000 };
	for (int left = d->node->sys->record ? 1 : HOLDERS_MS / NAP_MS; left > 0; left--) {
		auto_modules struct modules now = { 0 };
		holders_done(ret);
		int r = holders_wait_check(d, &now, ret, err);
		if (r == 0 || err->code != E_IN_USE)
			return r;
		if (is_ended(NULL))
			return err_set(err, EINTR, "told to stop");
		nanosleep(&nap, NULL);
	}
	holders_wait_note(d->node->progress, ret);
	return -1;
}

// If the kernel refused a module after others were unloaded, the rest is useless: reload them.
static void reload_missing_modules(const struct manager *m)
{
	struct job_values v = m->v->job;
	auto_job struct job job = JOB_NONE;
	auto_status struct status status = { 0 };
	struct err why;
	v.driver = m->facts.loaded.version;
	v.flavour = (char *)(uintptr_t)module_type_name(m->facts.loaded.flavour);
	v.request.source = v.digest = v.origin.package = NULL;
	v.request.is_retry = true;
	if (job_open(&v, true, &job, &why) < 0 || job_apply(&job, &status, &why) < 0)
		log_warn("driver %s is partly loaded, and its other modules could not be reloaded: %s", v.driver,
			 why.text);
}

// If a node has two driver pods, the other one may be done by now: the driver then belongs to its container. Returns
// the node's lock.
static int lock_driver_node(const struct machine *at, struct err *err)
{
	auto_fd int lock = node_lock_take(&at->host, NODE_LOCK_CHANGE, err);
	return lock < 0 || gpu_operator_clear(&at->host, err) < 0 ? -1 : TAKE_FD(lock);
}

static int unload_once(const struct manager *m, struct strv *ret, struct err *err)
{
	const struct machine *at = &m->machine;
	auto_root struct root state = ROOT_NONE;
	auto_holders struct holders holders = { 0 };
	auto_progress struct progress progress = show_progress_log();
	// Idle third-party modules that use the driver, gdrdrv for instance, are unloaded with it: their containers
	// restart, too.
	struct node node = at->node;
	const struct holders_wait drain = { .node = &node, .policy = HOLDERS_STOP };
	node.release = m->facts.host.release;
	node.progress = &progress;
	if (job_state(&m->v->job, at, &state, err) < 0 || wait_holders(&drain, &holders, err) < 0)
		return -1;
	auto_fd int lock = lock_driver_node(at, err);
	if (lock < 0)
		return -1;
	return unload_node(&drain, &state, job_unload_timeout_ms(m->v->job.unload_timeout_s), &holders, ret, err);
}

// Operands that restart before the next root is mounted would keep the old one.
static int detach_driver_root(const struct manager *m, struct err *err)
{
	const struct machine *at = &m->machine;
	const char *named = m->v->job.export, *dir = named && !str_eq(named, JOB_AUTO) ? named : DRIVER_ROOT_DEFAULT;
	auto_root struct root state = ROOT_NONE;
	auto_progress struct progress progress = show_progress_log();
	struct node node = at->node;
	auto_driver_root struct driver_root export = { .node = &node };
	node.state = &state;
	node.progress = &progress;
	node.boot = m->facts.host.boot_id;
	if (str_eq(dir, "none") || !root_exists(&at->host, dir))
		return 0;
	auto_fd int lock = lock_driver_node(at, err);
	if (lock < 0 || job_state(&m->v->job, at, &state, err) < 0 || driver_root_open(&export, dir, err) < 0)
		return -1;
	return driver_root_withdraw(&export, m->facts.host.release, NULL, true, err) < 0 ?
		       err_wrap(err, "remove the driver root from %s", dir) :
		       0;
}

// What to do, and its reason

static char *target_text(const struct job *j)
{
	return str_fmt("driver %s (%s) for kernel %s", j->session.plan.driver,
		       module_type_name(j->session.plan.flavour), j->session.facts.host.release);
}

static const char *unload_reason(const struct plan *plan) // NULL = the driver stays
{
	for (size_t i = 0; i < plan->count; i++)
		if (plan->steps[i].kind == STEP_UNLOAD)
			return plan->steps[i].why;
	return NULL;
}

// 1 = the driver must be unloaded, and the next one is in the store and fits; 0 = it stays.
static int stage_next_driver(struct manager *m, struct err *err)
{
	auto_job struct job job = JOB_NONE;
	if (read_driver_pod(m, err) < 0 || open_job(m, &job, err) < 0)
		return -1;
	const char *why = unload_reason(&job.session.plan);
	if (job.session.plan.outcome == PLAN_NO_GPU) {
		m->why = str_dup("this machine has no NVIDIA function");
		return 0;
	}
	auto_str char *target = target_text(&job);
	if (!why && !m->v->is_reinstall) {
		m->why = str_fmt("the kernel already has what the pod would load, %s", target);
		return 0;
	}
	if (!why && !acquire_found(&job.session.acquire))
		return err_set(err, E_NO_PACKAGE,
			       "FORCE_REINSTALL: %s is loaded, but the store has no package to reinstall it from",
			       target);
	if (job_stage(&job, err) < 0)
		return err_wrap(err, "driver %s stays loaded",
				m->facts.loaded.version ? m->facts.loaded.version : "(unknown)");
	m->why = str_fmt("%s; %s is ready in the store", why ? why : "FORCE_REINSTALL", target);
	return 1;
}

static int preflight(struct manager *m, struct err *err)
{
	auto_job struct job job = JOB_NONE;
	if (read_driver_pod(m, err) < 0 || open_job(m, &job, err) < 0 ||
	    (job.session.plan.outcome != PLAN_NO_GPU && job_stage(&job, err) < 0))
		return -1;
	auto_str char *target = target_text(&job);
	m->why = job.session.plan.outcome == PLAN_NO_GPU ? str_dup("this machine has no NVIDIA function") :
							   str_fmt("%s is ready in the store", target);
	return 0;
}

// Whether GPUs that vfio-pci has are for containers now, which the driver's container cannot ask.
static int read_workload(const struct manager *m, struct err *err)
{
	static const char LABEL[] = "nvidia.com/gpu.workload.config";
	const struct root *host = &m->machine.host;
	auto_str char *path = api_node(m->e.node);
	auto_json json_t *node = NULL;
	if (api_get(m->kube, path, &node, err) < 0)
		return -1;
	const json_t *labels = json_object_get(json_object_get(node, "metadata"), "labels");
	const char *value = json_string_value(json_object_get(labels, LABEL));
	if (!str_eq(value, "container"))
		return root_unlink(host, JOB_FROM_VFIO, err) < 0 ? -1 : 0;
	return root_put(host, JOB_FROM_VFIO, LABEL, strlen(LABEL), 0644, err);
}

static int uninstall(struct manager *m, struct err *err)
{
	const char *digest = m->v->config_digest;
	auto_str char *ready = NULL;
	struct err ignored;
	sigset_t stop;
	if (read_workload(m, err) < 0)
		return -1;
	if (!m->facts.loaded.count) { // nothing to disturb: its container reports what is wrong with the next one
		m->why = str_dup("no driver is loaded");
		return detach_driver_root(m, err) < 0 ? -1 : gpu_operator_clear(&m->machine.host, err);
	}
	// That configuration was ready in this boot: run/ does not outlive it.
	if (digest && *digest && !m->v->is_reinstall && root_line(&m->machine.host, STATE, &ready, &ignored) > 0 &&
	    str_eq(ready, digest)) {
		m->why = str_fmt("the loaded driver was ready with this configuration, %s", digest);
		return 0;
	}
	int r = stage_next_driver(m, err);
	if (r <= 0)
		return r;
	sigemptyset(&stop);
	sigaddset(&stop, SIGTERM);
	sigaddset(&stop, SIGINT);
	sigprocmask(SIG_BLOCK, &stop, NULL);
	if (evacuate_begin(&m->e, err) < 0 || check_holders(m, err) < 0 || evacuate_check(&m->e, err) < 0 ||
	    gpu_operator_clear(&m->machine.host, err) < 0 || evacuate_run(&m->e, err) < 0)
		return -1;
	r = unload_once(m, &m->unloaded, err);
	if (r < 0 && err->code == E_IN_USE && m->e.may_drain && !m->unloaded.count) {
		log_info("the driver is still in use (%s): draining the node", err->text);
		r = evacuate_drain(&m->e, err) < 0 ? -1 : unload_once(m, &m->unloaded, err);
	}
	if (r < 0 && m->unloaded.count && err->code != E_WEDGED)
		reload_missing_modules(m);
	if (r < 0)
		return -1;
	m->is_unloaded = true;
	return detach_driver_root(m, err);
}

// Also restores what an earlier, killed run left.
static int uncordon_and_restore(const struct manager *m, struct err *err)
{
	int r = evacuate_restore(&m->e, err);
	if (r > 0)
		log_info("restored the operands and the cordon of node %s", m->e.node);
	return r < 0 ? -1 : 0;
}

// Before the controller evicts

// With the environment of the next pod's container in place of ours. Its files below /drivers are those of the present
// one: the kubelet has no others yet.
static int prove_next_driver(void *ctx, const json_t *own, const json_t *next, struct err *err)
{
	struct manager *m = ctx;
	auto_job struct job job = JOB_NONE;
	auto_strv struct strv env = { 0 }, unknown = { 0 };
	auto_str char *driver = NULL, *carried = str_dup(getenv("DRIVER_VERSION"));
	if (driver_pod_version(own, next, carried, &driver, err) < 0)
		return -1;
	driver_pod_environment(own, &env, &unknown);
	for (size_t i = 0; i < env.count; i++) {
		auto_str char *name = str_ndup(env.items[i], strcspn(env.items[i], "="));
		unsetenv(name);
	}
	setenv("DRIVER_VERSION", driver, 1);
	json_decref(m->pod);
	m->pod = json_incref((json_t *)(uintptr_t)next);
	if (take_driver_environment(m, err) < 0)
		return -1;
	static const struct progress quiet;
	struct job_values *v = &m->v->job;
	v->progress = m->is_known ? &quiet : NULL;
	v->is_ordered = !str_eq(v->driver, carried); // our image carries user space and sources of another one
	v->request.is_payload_elsewhere = v->is_ordered;
	v->request.is_stage = true;
	v->is_export_default = v->is_for_operator = true;
	str_set(&v->host_driver, "replace");
	int r = job_open(v, false, &job, err);
	r = r == 0 && unload_reason(&job.session.plan) ? job_stage(&job, err) : r;
	return r < 0 && v->is_ordered && (err->code == E_NOT_FOUND || err->code == E_NO_PACKAGE) ?
		       err_wrap(err, "what the next image carries cannot be seen from here, and elsewhere") :
		       r;
}

// For `kmodsmith status`, and so that each thing is logged once; nothing is written while there is nothing to say.
static void tell_hold(const struct manager *m, const struct upgrade_hold *h)
{
	const struct root *host = &m->machine.host;
	auto_str char *now = h->reason ? upgrade_hold_text(h) : NULL, *before = NULL;
	struct err why;
	if (root_read(host, UPGRADE_HOLD_FILE, &before, NULL, &why) >= 0 && (now ? str_eq(now, before) : !before))
		return;
	if (!now)
		log_info("the operator wants no other driver");
	else if (h->target)
		log_info("the operator wants %s: the upgrade is %s: %s", h->target, h->is_held ? "held" : "let go",
			 h->reason);
	else
		log_warn("what the operator wants next is not known, and its upgrade controller may evict before a "
			 "proof: %s",
			 h->reason);
	if ((now ? root_put(host, UPGRADE_HOLD_FILE, now, strlen(now), 0644, &why) :
		   root_unlink(host, UPGRADE_HOLD_FILE, &why)) < 0)
		log_warn("%s", why.text);
}

// 1 = a target is held, or nothing is known; 0 = nothing is in the way.
static int hold_upgrade(struct manager *m, enum upgrade_hold_when when, struct err *err)
{
	auto_upgrade_hold struct upgrade_hold seen = { 0 };
	auto_str char *name = NULL, *node = str_dup(m->v->node), *namespace = str_dup(operator_namespace(m));
	const char *duration = m->v->upgrade_hold;
	struct upgrade_hold_request request = { .kube = m->kube,
						.node = node,
						.namespace = namespace,
						.when = when,
						.hold_s = UPGRADE_HOLD_S,
						.prove = prove_next_driver,
						.ctx = m };
	struct err why;
	if (duration && *duration && driver_manager_seconds(duration, &request.hold_s, err) < 0)
		return err_wrap(err, "upgrade-hold");
	if (root_line(&m->machine.kern, HOSTNAME, &name, err) < 0)
		return -1;
	request.pod = name ? name : "";
	m->is_known = root_exists(&m->machine.host, UPGRADE_HOLD_FILE);
	int r = upgrade_hold_look(&request, &seen, &why);
	if (r < 0)
		seen.reason = str_fmt("%s: %s", err_info(why.code)->name, why.text);
	else if (!seen.target)
		str_set(&seen.reason, NULL);
	tell_hold(m, &seen);
	return r != 0;
}

#define OPT(name, arg, env, type, member, help)                                               \
	{                                                                                     \
		name, 0, arg, env, type, offsetof(struct driver_manager_values, member), help \
	}
static const struct opt opts[] = {
	OPT("node", "NAME", "NODE_NAME", OPT_STR, node, "the Node of this machine"),
	OPT("operator-namespace", "NAME", "OPERATOR_NAMESPACE", OPT_STR, namespace,
	    "namespace of the driver's pod; default that of the service account"),
	OPT("evict-gpu-pods", NULL, "ENABLE_GPU_POD_EVICTION", OPT_FLAG, is_evicting,
	    "evict pods that use a GPU, where the operator's own upgrade controller does not"),
	OPT("auto-drain", NULL, "ENABLE_AUTO_DRAIN", OPT_FLAG, is_draining,
	    "evict every pod of the node if the driver is still in use after that"),
	OPT("drain-force", NULL, "DRAIN_USE_FORCE", OPT_FLAG, is_forced, "also evict pods that nothing would restart"),
	OPT("drain-delete-emptydir", NULL, "DRAIN_DELETE_EMPTYDIR_DATA", OPT_FLAG, deletes_empty_dir,
	    "also evict pods whose emptyDir would be lost"),
	OPT("drain-selector", "LABELS", "DRAIN_POD_SELECTOR_LABEL", OPT_STR, drain_selector,
	    "with --auto-drain: only pods with these labels"),
	OPT("drain-timeout", "DURATION", "DRAIN_TIMEOUT_SECONDS", OPT_STR, drain_timeout,
	    "deadline of evictions, such as 5m; default, and for 0s, 10m: then everything is restored and the start "
	    "fails"),
	OPT("operand-label", "LABEL", "NODE_LABEL_FOR_GPU_POD_EVICTION", OPT_STR, operand_label,
	    "one more label of the Node to pause, as those of the operands are"),
	OPT("upgrade-hold", "DURATION", "KMODSMITH_UPGRADE_HOLD", OPT_STR, upgrade_hold,
	    "how long the operator's upgrade controller is kept from this node for a driver that is not proven here; "
	    "default, and at most, 24h; 0s: it is not"),
	OPT("config-digest", "TEXT", "DRIVER_CONFIG_DIGEST", OPT_STR, config_digest,
	    "digest of the pod's configuration: if /run/nvidia/nvidia-driver.state has the same one, nothing is "
	    "checked"),
	OPT("force-reinstall", NULL, "FORCE_REINSTALL", OPT_FLAG, is_reinstall,
	    "unload the driver even if it is the requested one; its package must be in the store"),
	OPT("kubelet-dir", "DIR", "KMODSMITH_KUBELET_DIR", OPT_STR, kubelet_dir,
	    "the kubelet's directory on the host, to read the files that are mounted into the driver's container; "
	    "default /var/lib/kubelet"),
	OPT("no-daemons", NULL, "KMODSMITH_NO_DAEMONS", OPT_FLAG, is_without_daemons,
	    "the driver's container does not start the driver's daemons"),
	OPT("termination-log", "FILE", NULL, OPT_STR, termination_log, TERMLOG_HELP),
	{ 0 },
};

extern const struct cmd cmd_driver_manager_uninstall, cmd_driver_manager_preflight, cmd_driver_manager_hold;

// cmd: whose values these are: they are read again once the environment of the driver's container is known. is_change:
// false = prove only, and write nothing but the store.
static int run_driver_manager(const struct cmd *cmd, struct driver_manager_values *v, bool is_change, struct err *err)
{
	auto_manager struct manager m = { .cmd = cmd, .v = v, .machine = MACHINE_NONE };
	struct err why;
	if (open_manager(&m, 0, err) < 0)
		return -1;
	if (!is_change && preflight(&m, err) < 0)
		return -1;
	if (is_change && uninstall(&m, err) < 0) {
		if (uncordon_and_restore(&m, &why) < 0)
			log_warn("the next start has to restore operands and cordon: %s", why.text);
		if (hold_upgrade(&m, is_ended(NULL) ? HOLD_LEAVING : HOLD_STARTING, &why) < 0)
			log_warn("%s", why.text);
		return -1;
	}
	if (is_change && uncordon_and_restore(&m, err) < 0)
		return -1;
	if (v->job.origin.remote.common.is_json) {
		auto_json json_t *json =
			json_pack("{s:o, s:o}", "unloaded", json_strv(&m.unloaded), "why", json_text(m.why));
		show_json(json);
	} else {
		printf("%s: %s\n", m.is_unloaded ? "unloaded" : "nothing was touched", m.why);
	}
	return 0;
}

static int run_uninstall(void *values, char **args, size_t count, struct err *err)
{
	(void)args, (void)count;
	return run_driver_manager(&cmd_driver_manager_uninstall, values, true, err);
}

static int run_preflight(void *values, char **args, size_t count, struct err *err)
{
	(void)args, (void)count;
	return run_driver_manager(&cmd_driver_manager_preflight, values, false, err);
}

static int run_hold(void *values, char **args, size_t count, struct err *err)
{
	struct driver_manager_values *v = values;
	auto_manager struct manager m = { .cmd = &cmd_driver_manager_hold, .v = v, .machine = MACHINE_NONE };
	const char *word = count ? args[0] : "";
	bool is_leaving = str_eq(word, LEAVING), is_starting = str_eq(word, STARTING);
	if (*word && !is_leaving && !is_starting)
		return err_set(err, E_USAGE, "'%s' is neither %s nor %s", word, LEAVING, STARTING);
	if (getenv("KUBERNETES_SERVICE_HOST")) // the proxies of the driver's container are for its downloads
		reach_directly(getenv("KUBERNETES_SERVICE_HOST"));
	if (open_manager(&m, is_leaving ? LEAVING_MS : 0, err) < 0)
		return -1;
	return hold_upgrade(&m, is_leaving ? HOLD_LEAVING : is_starting ? HOLD_STARTING : HOLD_SERVING, err);
}

static void write_manager_termlog(const void *values, const struct err *err)
{
	const struct driver_manager_values *v = values;
	termlog_write(&v->job.origin.remote.common, v->termination_log, err);
}

const struct cmd cmd_driver_manager_uninstall = {
	.name = "driver-manager uninstall",
	.help = "make room for the next driver: `driver-manager uninstall_driver` in the operator's driver pods",
	.about = "The init container of the GPU Operator's driver pods. Reads the environment of the container that\n"
		 "will load the driver from the pod. If the kernel already has what that container would load,\n"
		 "nothing is unloaded and no pod is evicted, whatever else has changed in the\n"
		 "configuration. Otherwise the next driver is fetched or compiled and proven first; if that fails,\n"
		 "the driver and every pod stay as they are. Then the operator's operands are paused by their\n"
		 "labels, GPU pods are evicted where that is allowed, the driver is unloaded and its root removed,\n"
		 "and labels and cordon are restored; a cordon that is not ours stays. A failure restores them,\n"
		 "too, and the next run completes a run that was killed. A failure is an exit status other than 0,\n"
		 "with the error in /dev/termination-log.\n\n"
		 "A driver that the host has installed itself is left alone: the Node gets the label\n"
		 "nvidia.com/gpu.deploy.driver=pre-installed, as from NVIDIA's manager. GPUs bound to vfio-pci are\n"
		 "left to the driver's container, which takes them if the Node's label\n"
		 "nvidia.com/gpu.workload.config is container, and waits for the network driver of GPUDirect RDMA.\n\n"
		 "  kmodsmith driver-manager uninstall\n",
	.opts = { opts, source_opts, module_key_opts, distribution_opts, job_opts, share_opts, package_opts,
		  origin_opts, remote_opts, common_opts },
	.values_size = sizeof(struct driver_manager_values),
	.run = run_uninstall,
	.failed = write_manager_termlog,
};

const struct cmd cmd_driver_manager_preflight = {
	.name = "driver-manager preflight",
	.help = "check that the driver that the pod would load is available and fits, as `driver-manager "
		"preflight_check`",
	.about = "Fetches or compiles what the driver's container of this pod would load, and proves it. Touches\n"
		 "nothing that is in use, on the node or in the cluster.\n\n"
		 "  kmodsmith driver-manager preflight\n",
	.opts = { opts, source_opts, module_key_opts, distribution_opts, job_opts, share_opts, package_opts,
		  origin_opts, remote_opts, common_opts },
	.values_size = sizeof(struct driver_manager_values),
	.run = run_preflight,
	.failed = write_manager_termlog,
};

const struct cmd cmd_driver_manager_hold = {
	.name = "driver-manager hold",
	.args = "[leaving|starting]",
	.args_max = 1,
	.help = "keep the operator's upgrade controller from this node until the next driver is proven",
	.about = "One look, which the driver's container takes again and again. The label\n"
		 "nvidia.com/gpu-driver-upgrade.skip=true stands on the Node, unless somebody else has set one. If\n"
		 "the controller wants to upgrade the node, what the next pod would load is fetched or compiled and\n"
		 "proven, and the label is removed for that one target; see kmodsmith-operator(7). Exit status 1: a\n"
		 "target is held, or nothing is known. leaving: the container ends, and the label stays only for a\n"
		 "successor; starting: there is no container yet, and nothing is held that was not held before.\n\n"
		 "  kmodsmith driver-manager hold\n",
	.opts = { opts, source_opts, module_key_opts, distribution_opts, job_opts, share_opts, package_opts,
		  origin_opts, remote_opts, common_opts },
	.values_size = sizeof(struct driver_manager_values),
	.run = run_hold,
};

static const struct {
	const char *name, *ours;
} verbs[] = { { "uninstall_driver", "uninstall" }, { "preflight_check", "preflight" } };

static int driver_manager_usage(FILE *out, int status)
{
	fprintf(out, "Usage: driver-manager VERB [OPTIONS]\n\nVerbs:\n");
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		fprintf(out, "  %-18s see `kmodsmith driver-manager %s --help`\n", verbs[i].name, verbs[i].ours);
	return status;
}

int driver_manager_main(int argc, char **argv)
{
	auto_strv struct strv words = { 0 }, warnings = { 0 };
	log_setup(LOG_LEVEL_INFO, str_eq(getenv("KMODSMITH_LOG_FORMAT"), "json"));
	if (argc > 1 && (str_eq(argv[1], "--help") || str_eq(argv[1], "-h") || str_eq(argv[1], "help")))
		return driver_manager_usage(stdout, 0);
	strv_add(&words, str_dup("driver-manager"));
	for (size_t i = 0; argc > 1 && i < ARRAY_SIZE(verbs); i++)
		if (str_eq(argv[1], verbs[i].name))
			strv_add(&words, str_dup(verbs[i].ours));
	if (words.count < 2)
		return driver_manager_usage(stderr, 1);
	for (int i = 2; i < argc; i++)
		strv_add(&words, str_dup(argv[i]));
	nvidia_driver_environment(&warnings);
	if (getenv("KUBECONFIG")) // by its name there
		setenv("KMODSMITH_KUBECONFIG", getenv("KUBECONFIG"), 0);
	for (size_t i = 0; i < warnings.count; i++)
		log_warn("%s", warnings.items[i]);
	return entry_run_words((int)words.count, words.items);
}
