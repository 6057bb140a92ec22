// SPDX-License-Identifier: Apache-2.0
#include "base/core/date.h"
#include "base/process/state_file.h"
#include "cluster/driver_manager/upgrade_hold.h"
#include "cmd/common/job.h"
#include "daemons/holders_wait.h"
#include "journal/journal.h"
#include "journal/node_lock.h"
#include "next_kernel/kernel_report.h"
#include "peermem/peermem.h"
#include "status/status_file.h"

#include <stdio.h>

struct values {
	struct common common;
	char *dev_root, *state_dir, *gpu_check;
	bool is_check;
};

static const struct opt opts[] = {
	{ "dev-root", 0, "DIR", "KMODSMITH_DEV_ROOT", OPT_STR, offsetof(struct values, dev_root),
	  "directory whose dev/ is read; default the host's root" },
	{ "state-dir", 0, "DIR", "KMODSMITH_STATE_DIR", OPT_STR, offsetof(struct values, state_dir),
	  "state directory with the node's journal; default /var/lib/kmodsmith of the host" },
	{ "check-gpus", 0, NULL, NULL, OPT_FLAG, offsetof(struct values, is_check),
	  "measure now whether the GPUs work, which boots those that nobody has open; compute on them only if nobody "
	  "uses one" },
	{ "gpu-check", 0, "start|none", "KMODSMITH_GPU_CHECK", OPT_STR, offsetof(struct values, gpu_check),
	  "with --check-gpus: open the GPUs, and ask no further; or only record that they need not be measured" },
	{ 0 },
};

// One sentence before the rows. A machine without a GPU has no others.
static void show_headline(const struct facts *f, const struct status *s)
{
	const struct check *first = status_first_failed(s);
	size_t failed = 0;
	auto_served_gpus struct gpus served = { 0 };
	gpu_support_served(&f->gpus, f->loaded.version, f->loaded.flavour, &served);
	size_t gpus = gpus_count_ours(&served, GPU_DISPLAY);
	for (size_t i = 0; i < s->count; i++)
		failed += !s->checks[i].is_ok;
	if (!s->has_gpu)
		return;
	const char *plural = str_plural(gpus);
	if (!f->loaded.version)
		printf("Not ready: no driver is loaded for %zu GPU%s\n", gpus, plural);
	else if (s->is_ready)
		printf("Ready: driver %s (%s), %zu GPU%s, kernel %s%s\n", f->loaded.version,
		       module_type_name(f->loaded.flavour), gpus, plural, f->host.release,
		       modules_find(&f->loaded, "nvidia_uvm") ? "" : ", without compute (nvidia_uvm is not loaded)");
	else
		printf("Not ready: driver %s is loaded, and %zu of %zu checks fail, first %s: %s\n", f->loaded.version,
		       failed, s->count, first ? first->name : "none", first ? first->evidence : "");
}

static const char *status_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	return text ? text : "";
}

// Since when, what is in progress, and the result of the last run (R-E1).
static void show_last_run(const json_t *file)
{
	const json_t *run = json_object_get(file, "run"), *last = json_object_get(file, "last_run"),
		     *error = json_object_get(last, "error");
	time_t now = time(NULL);
	auto_str char *begun = date_ago(status_text(run, "since"), now),
		      *held = date_ago(status_text(file, "since"), now),
		      *ended = date_ago(status_text(last, "time"), now);
	if (json_is_object(run))
		printf("%s since %s%s: %s, by process %d\n", status_text(file, "state"), status_text(run, "since"),
		       begun, status_text(run, "step"), (int)json_integer_value(json_object_get(run, "pid")));
	else if (file)
		printf("%s since %s%s\n", status_text(file, "state"), status_text(file, "since"), held);
	if (json_is_object(error))
		printf("last run: %s%s at %s%s: %s (%s): %s\n", status_text(last, "outcome"),
		       str_eq(status_text(last, "outcome"), "refused") ? "" : " failed", status_text(last, "time"),
		       ended, status_text(error, "code"), status_text(error, "reason"), status_text(error, "text"));
	else if (json_is_object(last))
		printf("last run: %s succeeded at %s%s\n", status_text(last, "outcome"), status_text(last, "time"),
		       ended);
}

static void show_measured(const struct gpu_record *r)
{
	auto_str char *ago = r->time && !r->is_waived ? date_ago(r->time, time(NULL)) : NULL;
	if (ago)
		printf("GPUs measured at %s%s\n", r->time, ago);
}

// Returns the next step of the last run if it failed, else of the checks. Caller frees; NULL = nothing is to be done.
static char *next_step(const json_t *file, const struct status *s)
{
	const json_t *run = json_object_get(file, "run"),
		     *error = json_object_get(json_object_get(file, "last_run"), "error");
	if (json_is_object(run))
		return str_fmt("wait for process %d; if it is gone, `kmodsmith install` goes on from there",
			       (int)json_integer_value(json_object_get(run, "pid")));
	return str_dup(json_is_object(error) ? status_text(error, "next") : status_next(s));
}

// Shows what the journal keeps across boots: what must not be tried again, and why.
static void show_journal(const struct journal *j, const char *boot)
{
	if (j->last_good.version)
		printf("last good: %s %s\n", j->last_good.version, j->last_good.flavour);
	for (size_t i = 0; i < j->failure_count; i++) {
		const struct journal_failure *f = &j->failures[i];
		printf("bad target: %s %s failed at %s: %s: %s\n", f->driver.version, f->driver.flavour, f->time,
		       f->code, f->text);
	}
	if (journal_is_wedged(j, boot))
		printf("wedged since %s: %s\n", j->since, j->text);
	else if (journal_is_open(j, boot))
		printf("a change to %s %s began at %s and was cut off: %s\n", j->target.version, j->target.flavour,
		       j->since, j->step ? j->step : "begin");
}

// A daemon's last message, where it may matter: the daemon is not running, or serves licences only (R-P4).
static void show_daemons(const struct daemon_record *r, const struct root *kern)
{
	for (size_t i = 0; i < r->count; i++) {
		const struct daemon_entry *e = &r->items[i];
		if (!daemon_entry_runs(e, kern) || str_eq(e->name, "nvidia-gridd"))
			for (size_t l = 0; l < e->log.count; l++)
				printf("%s: %s\n", e->name, e->log.items[l]);
	}
}

// Adds what the file of the last run says.
static json_t *last_run_json(json_t *json, const json_t *file)
{
	static const char *const keys[] = { "since", "run", "last_run" };
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		json_t *value = json_object_get(file, keys[i]);
		json_object_set_new(json, keys[i], value ? json_incref(value) : json_null());
	}
	return json;
}

// Reads what status.json and the metrics say, too.
static int publish_measured(const struct machine *m, const struct facts *f, struct err *err)
{
	auto_status struct status s = { 0 };
	auto_daemon_record struct daemon_record daemons = { 0 };
	if (status_read(f, &m->node, &s, err) < 0 || daemon_record_read(&m->host, f->host.boot_id, &daemons, err) < 0)
		return -1;
	status_daemons(&s, &daemons, &m->kern);
	return status_file_refresh(&m->host, f, &s, err);
}

// Replaces the last measurement by a new one, unless another process is changing the node: that one measures, too.
static int check_gpus_now(const struct values *v, const struct machine *m, const struct facts *f,
			  const struct root *state, struct err *err)
{
	enum { FABRIC_MS = 300 * 1000 }; // the fabric manager of a large machine takes minutes
	auto_gpu_record struct gpu_record last = { 0 }, now = { 0 };
	auto_gpu_holds struct gpu_holds holds = { 0 };
	auto_progress struct progress progress = show_progress_log();
	auto_holders struct holders holders = { 0 };
	struct node node = m->node;
	struct gpu_check check = { .start = { .node = &node, .facts = f }, .fabric_ms = FABRIC_MS };
	struct gpu_demand demand = { 0 };
	node.progress = &progress;
	if (job_parse_gpu_check(v->gpu_check, &demand, err) < 0)
		return -1;
	if (!f->loaded.version)
		return 0;
	auto_fd int lock = node_lock_take(&m->host, NODE_LOCK_CHANGE, err);
	if (lock < 0)
		return err_wrap(err, "check the GPUs");
	if (demand.is_off) {
		int r = gpu_record_waive(&m->host, f->host.boot_id, &f->loaded, err);
		return r < 0 || publish_measured(m, f, err) < 0 ? -1 : 0;
	}
	if (gpu_record_read(&m->host, f->host.boot_id, &last, err) < 0 ||
	    holders_find(&m->kern, &f->loaded, &holders, err) < 0 ||
	    holders_wait_omit_daemons(&m->host, &m->kern, &holders, err) < 0)
		return err_wrap(err, "check the GPUs");
	// A job must not meet another context on its GPU.
	check.deepest = demand.is_start_only ? GPU_START : holders.count ? GPU_ANSWER : GPU_COMPUTE;
	if (gpu_record_measure(&check, &now, &holds, err) < 0)
		return err_wrap(err, "check the GPUs");
	struct err why;
	if (!last.driver && state->fd >= 0) // --allow-missing-gpus outlives a boot
		gpu_record_last(state, &last, &why);
	now.allowed = last.allowed;
	if (gpu_record_write(&m->host, state->fd >= 0 ? state : NULL, f->host.boot_id, &now, &why) < 0)
		log_warn("cannot record how the GPUs are: %s", why.text);
	return publish_measured(m, f, err) < 0 ? -1 : 0;
}

// Shows what the GPU Operator wants next, where our container holds its upgrade controller back (contract 1.17).
static void show_upgrade_hold(const json_t *h)
{
	const char *target = json_string_value(json_object_get(h, "target"));
	const char *until = json_string_value(json_object_get(h, "until"));
	const char *reason = json_string_value(json_object_get(h, "reason"));
	bool is_held = str_eq(json_string_value(json_object_get(h, "state")), "held");
	if (!target)
		printf("the operator's upgrades: not held: %s\n", reason ? reason : "");
	else
		printf("the operator wants %s: %s%s: %s\n", target, is_held ? "held until " : "let go",
		       is_held && until ? until : "", reason ? reason : "");
}

static int run_status(void *values, char **args, size_t count, struct err *err)
{
	(void)args, (void)count;
	const struct values *v = values;
	auto_machine struct machine m = MACHINE_NONE;
	auto_facts struct facts f = { 0 };
	auto_status struct status s = { 0 };
	auto_root struct root state = ROOT_NONE;
	auto_json json_t *file = NULL, *hold = NULL;
	auto_journal struct journal j = { 0 };
	auto_daemon_record struct daemon_record daemons = { 0 };
	struct peermem_status peermem;
	auto_kernel_report struct kernel_report kernels = { 0 };
	struct err unread;
	if (machine_open(&v->common, &m, err) < 0 || facts_read(&m.host, &m.kern, &f, err) < 0 ||
	    machine_open_dev(&m, v->dev_root, err) < 0)
		return -1;
	// Reading creates no state directory.
	int has_state = job_state_existing(v->state_dir, &m, &state, &unread);
	if ((v->is_check && check_gpus_now(v, &m, &f, &state, err) < 0) || status_read(&f, &m.node, &s, err) < 0)
		return -1;
	if (daemon_record_read(&m.host, f.host.boot_id, &daemons, &unread) < 0)
		log_warn("the state of the daemons is unknown: %s", unread.text);
	status_daemons(&s, &daemons, &m.kern);
	if (status_file_read(&m.host, f.host.boot_id, &file, &unread) < 0)
		log_warn("the result of the last run is unknown: %s", unread.text);
	if (has_state < 0 || (state.fd >= 0 && journal_find(&m.host, &state, &j, &unread) < 0))
		log_warn("earlier failures on this node are unknown: %s", unread.text);
	// GPUDirect RDMA, where it was requested; the GPUs are ready with or without it.
	int has_peermem = peermem_status(&m.host, &m.kern, &peermem, &unread);
	if (has_peermem < 0)
		log_warn("the state of nvidia-peermem is unknown: %s", unread.text);
	// Shows the other installed kernels, as of this boot (R-F1).
	int has_kernels = kernel_report_read(&m.host, f.host.boot_id, &kernels, &unread);
	if (has_kernels < 0)
		log_warn("cannot read the report on installed kernels: %s", unread.text);
	if (state_file_load(&m.host, UPGRADE_HOLD_FILE, &hold, &unread) < 0)
		log_warn("what the operator wants next is unknown: %s", unread.text);
	auto_str char *next = next_step(file, &s);
	if (v->common.is_json) {
		if (host_read_config(&m.host, &m.kern, f.host.release, &f.host.config, &f.host.config_source, err) < 0)
			return -1;
		auto_json json_t *json = last_run_json(status_json_all(&f, &s), file);
		struct err failed;
		json_object_set_new(json, "error",
				    status_error(&s, &failed) < 0 ? status_json_error(&failed) : json_null());
		json_object_set_new(json, "next", json_text(next));
		json_object_set_new(json, "journal", j.since ? journal_json(&j) : json_null());
		json_object_set_new(json, "daemons", daemon_record_json(&daemons, &m.kern));
		json_object_set_new(json, "peermem",
				    has_peermem <= 0 ?
					    json_null() :
					    json_pack("{s:s, s:o, s:b}", "state", peermem_state_name(peermem.state),
						      "why", json_text(peermem.why), "dma_buf", peermem.has_dma_buf));
		json_object_set_new(json, "kernels", has_kernels > 0 ? kernel_report_json(&kernels) : json_null());
		json_object_set(json, "upgrade_hold", hold ? hold : json_null());
		show_json(json);
	} else {
		show_headline(&f, &s);
		show_status(&s);
		show_last_run(file);
		show_measured(&s.gpus);
		if (next)
			printf("next: %s\n", next);
		show_journal(&j, f.host.boot_id);
		show_daemons(&daemons, &m.kern);
		if (has_peermem > 0)
			printf("nvidia-peermem: %s: %s\n", peermem_state_name(peermem.state), peermem.why);
		for (size_t i = 0; has_kernels > 0 && i < kernels.count; i++) {
			auto_str char *line = kernel_report_line(&kernels.items[i]);
			printf("kernel %s\n", line);
		}
		if (hold)
			show_upgrade_hold(hold);
	}
	return s.has_gpu && !s.is_ready ? err_info(E_NOT_READY)->exit_status : 0;
}

const struct cmd cmd_status = {
	.name = "status",
	.help = "show what is loaded and whether it works, post-condition by post-condition",
	.about = "Measures and changes nothing; opens no GPU, unless it is told to. Exit status 0: ready, or no\n"
		 "NVIDIA function here; 1: not ready.\n"
		 "Also shows the result of the last run on this node, from /run/kmodsmith/status.json, and the last\n"
		 "good driver and earlier failures, from the journal; see kmodsmith-recovery(7). Last come the\n"
		 "other kernels of this machine, as `kmodsmith watch` found them.\n\n"
		 "  kmodsmith status\n"
		 "  kmodsmith status --json | jq .ready\n",
	.opts = { opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_status,
};
