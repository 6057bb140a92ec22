// SPDX-License-Identifier: Apache-2.0
#include "cmd/container/report.h"

#include "base/core/date.h"
#include "base/process/boot_record.h"
#include "base/process/capabilities.h"
#include "cluster/node_state/node_report.h"
#include "status/gpu_labels.h"
#include "status/status_file.h"

#include <errno.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>

extern const struct cmd cmd_report;

// The Node is also read again from time to time: another one of its name, or one that lost its conditions, is told.
enum { QUIET_MS = 1000, AGAIN_MS = 5000, DOUBLINGS = 6, RESYNC_MS = 300000, SPREAD_MS = 120000, ASK_MS = 5000 };

struct values {
	struct common common;
	char *node, *kubeconfig;
	unsigned parent;
	bool is_once, has_labels;
};

static const struct opt opts[] = {
	{ "node", 0, "NAME", "NODE_NAME", OPT_STR, offsetof(struct values, node), "the Node that this machine is" },
	{ "kubeconfig", 0, "FILE", "KMODSMITH_KUBECONFIG", OPT_STR, offsetof(struct values, kubeconfig),
	  "how to reach the Kubernetes API outside a pod with a service account" },
	{ "nfd-labels", 0, NULL, "KMODSMITH_NFD_LABELS", OPT_FLAG, offsetof(struct values, has_labels),
	  NFD_LABELS_HELP },
	{ "once", 0, NULL, NULL, OPT_FLAG, offsetof(struct values, is_once), "write once, and exit" },
	{ "until-exit", 0, "PID", NULL, OPT_UINT, offsetof(struct values, parent),
	  "write a last time and end when this process has ended; default: at a signal" },
	{ 0 },
};

struct report {
	const char *node;
	bool has_labels;
	struct machine machine;
	struct kube *kube; // NULL = only labels
	char *boot;
	char *written, *said; // what the Node says; the last complaint, which is not repeated
	unsigned failures;
	long due_ms;
};

static void report_done(struct report *r)
{
	kube_free(r->kube);
	machine_done(&r->machine);
	free(r->boot);
	free(r->written);
	free(r->said);
}
#define auto_report __attribute__((cleanup(report_done)))

static int connect_api(const struct values *v, const struct root *kern, struct kube **ret, struct err *err)
{
	auto_kube_config struct kube_config config = KUBE_CONFIG_NONE;
	int r = kube_config_find(v->kubeconfig, kern, &config, err);
	if (r >= 0 && v->has_labels && (r == 0 || !v->node || !*v->node))
		return 0;
	if (r == 0)
		err_set(err, E_USAGE,
			"no Kubernetes API: this is no pod with a service account, and there is no --kubeconfig FILE");
	if (r <= 0)
		return -1;
	config.deadline_ms = ASK_MS;
	return kube_open(&config, ret, err);
}

// And writes the labels, which need no API.
static void read_report(const struct report *r, struct node_report *ret)
{
	struct err unread; // what cannot be read says nothing
	auto_json json_t *status = NULL;
	auto_kernel_report struct kernel_report kernels = { 0 };
	int has_kernels = kernel_report_read(&r->machine.host, r->boot, &kernels, &unread);
	status_file_read(&r->machine.host, r->boot, &status, &unread);
	node_report_make(status, has_kernels > 0 ? &kernels : NULL, ret);
	auto_str char *labels = r->has_labels ? gpu_labels_text(status, &r->machine.kern) : NULL;
	int written = r->has_labels ? gpu_labels_write(&r->machine.host, labels, &unread) : 0;
	if (written < 0)
		log_warn("no labels of GPUs: %s", unread.text);
	else if (written > 0)
		log_info("labels of GPUs are %s: /" GPU_LABELS_DIR "/kmodsmith", labels ? "written" : "removed");
}

// Without a change nothing is asked, until the next resync.
static int write_report(struct report *r, struct err *err)
{
	auto_node_report struct node_report report = { 0 };
	auto_str char *text = NULL;
	read_report(r, &report);
	const struct node_condition *driver = &report.conditions[CONDITION_DRIVER],
				    *next = &report.conditions[CONDITION_NEXT_KERNEL];
	for (size_t i = 0; i < NODE_CONDITIONS; i++)
		str_add(&text, "%s %s %s\n", report.conditions[i].status, report.conditions[i].reason,
			report.conditions[i].message);
	bool is_change = !str_eq(text, r->written);
	if (!r->kube)
		return 1;
	if (!is_change && clock_ms() < r->due_ms)
		return 0;
	int written = node_report_write(r->kube, r->node, &report, err);
	if (written < 0)
		return -1;
	if (written == 0)
		return err_set(err, E_CONFLICT, "the Node was changed by others meanwhile");
	if (is_change)
		log_info("the Node %s is told: driver ready %s, %s; next kernel %s, %s", r->node, driver->status,
			 driver->reason, next->status, next->reason);
	free(r->written);
	r->written = TAKE(text);
	return 1;
}

// A failure is tried again, and said once.
static void report_now(struct report *r)
{
	struct err why;
	if (r->failures && clock_ms() < r->due_ms)
		return;
	int done = write_report(r, &why);
	if (done == 0)
		return;
	if (done > 0) {
		r->failures = 0;
		r->due_ms = clock_ms() + RESYNC_MS + (long)(target_hash_of_text(r->node) % SPREAD_MS);
		free(TAKE(r->said));
		return;
	}
	if (why.code != E_CONFLICT && !str_eq(r->said, why.text)) {
		log_warn("the Node %s is not told: %s", r->node, why.text);
		str_set(&r->said, why.text);
	}
	r->due_ms = clock_ms() + ((long)AGAIN_MS << (r->failures < DOUBLINGS ? r->failures : DOUBLINGS));
	r->failures++;
}

// True = the end: a signal, or the parent has ended. Changes are waited for until it has been quiet for a moment.
static bool wait_for_change(const struct report *r, int signals, int parent, int changes)
{
	char events[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	struct signalfd_siginfo info;
	struct pollfd fds[] = { { .fd = signals, .events = POLLIN },
				{ .fd = parent, .events = POLLIN },
				{ .fd = changes, .events = POLLIN } };
	long left = r->due_ms - clock_ms();
	poll(fds, ARRAY_SIZE(fds), left < QUIET_MS ? QUIET_MS : (int)left);
	if (fds[2].revents)
		poll(fds, 2, QUIET_MS);
	while (changes >= 0 && read(changes, events, sizeof(events)) > 0)
		;
	return fds[1].revents || (read(signals, &info, sizeof(info)) == (ssize_t)sizeof(info) &&
				  info.ssi_signo != SIGPIPE && info.ssi_signo != SIGCHLD);
}

static int report_until_end(struct report *r, int parent, bool is_over, struct err *err)
{
	sigset_t blocked;
	service_block(&blocked);
	auto_fd int signals = signalfd(-1, &blocked, SFD_CLOEXEC | SFD_NONBLOCK);
	auto_fd int changes = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (signals < 0 || changes < 0)
		return err_set(err, errno, "wait for changes");
	if (root_watch(&r->machine.host, BOOT_RECORD_DIR, changes, IN_MOVED_TO | IN_DELETE | IN_ONLYDIR, err) < 0)
		return -1;
	do
		report_now(r);
	while (!is_over && !wait_for_change(r, signals, parent, changes));
	r->failures = 0; // the last try does not wait for its time
	report_now(r);
	return 0;
}

static int report_once(const struct report *r, bool is_json, struct err *err)
{
	auto_node_report struct node_report report = { 0 };
	auto_json json_t *conditions = json_array();
	int written = 0;
	read_report(r, &report);
	if (!r->kube)
		written = 1;
	for (int tries = 3; written == 0 && tries > 0; tries--)
		written = node_report_write(r->kube, r->node, &report, err);
	if (written <= 0)
		return written < 0 ? -1 : err_set(err, E_CONFLICT, "others change the Node '%s' all the time", r->node);
	for (size_t i = 0; r->kube && i < NODE_CONDITIONS; i++) {
		const struct node_condition *c = &report.conditions[i];
		json_array_append_new(conditions,
				      json_pack("{s:s, s:s, s:s, s:o}", "type", c->type, "status", c->status, "reason",
						c->reason, "message", json_text(c->message)));
		if (!is_json)
			printf("%s %s, %s: %s\n", c->type, c->status, c->reason, c->message);
	}
	auto_json json_t *json = json_pack("{s:s, s:O}", "node", r->node, "conditions", conditions);
	if (is_json)
		show_json(json);
	return 0;
}

static int run_report(void *values, char **args, size_t count, struct err *err)
{
	const struct values *v = values;
	auto_report struct report r = { .node = v->node ? v->node : "",
					.has_labels = v->has_labels,
					.machine = MACHINE_NONE };
	uint64_t dropped;
	(void)args, (void)count;
	if (!*r.node && !v->has_labels)
		return err_set(err, E_USAGE, "name the Node: --node NAME, or NODE_NAME");
	auto_fd int parent = v->parent ? (int)syscall(SYS_pidfd_open, (pid_t)v->parent, 0) : -1;
	bool is_over = v->parent && parent < 0 && errno == ESRCH; // killed meanwhile
	if (v->parent && parent < 0 && !is_over)
		return err_set(err, errno, "--until-exit %u", v->parent);
	if (machine_open(&v->common, &r.machine, err) < 0 || connect_api(v, &r.machine.kern, &r.kube, err) < 0)
		return -1;
	r.boot = boot_record_id(&r.machine.kern);
	if (v->is_once)
		return report_once(&r, v->common.is_json, err);
	if (root_mkdirs(&r.machine.host, BOOT_RECORD_DIR, 0755, err) < 0 ||
	    (!r.machine.is_recorded && caps_keep(0, &dropped, err) < 0))
		return -1;
	return report_until_end(&r, parent, is_over, err);
}

const struct cmd cmd_report = {
	.name = "report",
	.help = "conditions and start-up taint of this machine's Node",
	.about = "Writes what the last run and the watcher found to the Node of this machine, when it changes:\n"
		 "NvidiaDriverReady and NvidiaDriverNextKernel, as `kubectl describe node` and monitoring show them.\n"
		 "Once the driver is ready the taint kmodsmith.io/driver-not-ready is removed, with which new nodes\n"
		 "may be registered. `init` and `watch` start it where they know the Node and the Kubernetes API, or\n"
		 "with --nfd-labels.\n\n"
		 "  kmodsmith report --node n1 --kubeconfig FILE --once\n",
	.opts = { opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_report,
};

bool report_child_open(const struct root *kern, const char *node, const char *kubeconfig, bool has_labels,
		       const struct opt *const *tables, const void *values, struct service_child *ret)
{
	struct err why;
	auto_kube_config struct kube_config config = KUBE_CONFIG_NONE;
	auto_launch_words struct launch_words words = { 0 };
	if ((!node || !*node) && !has_labels)
		return false;
	int found = kube_config_find(kubeconfig, kern, &config, &why);
	if (found < 0)
		log_warn("the Node %s is not told: %s", node ? node : "?", why.text);
	if (found <= 0 && !has_labels)
		return false;
	strv_add(&words.args, str_dup(cmd_report.name));
	opt_words(tables, values, &cmd_report, &words.args, &words.env);
	strv_add(&words.args, str_dup("--until-exit"));
	strv_add(&words.args, str_fmt("%d", (int)getpid()));
	service_child_open("the reporter to the Node", &words, ret);
	return true;
}
