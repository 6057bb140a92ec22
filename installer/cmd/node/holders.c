// SPDX-License-Identifier: Apache-2.0
// holders and unload: who uses the driver, and unloading it when it is not in use.
#include "cmd/common/job.h"
#include "journal/node_lock.h"
#include "transaction/unload.h"

#include <stdio.h>

struct values {
	struct common common;
	char *holders, *state_dir;
	unsigned timeout_s, holders_timeout_s;
};

static const struct opt unload_opts[] = {
	{ "unload-timeout", 0, "SECONDS", NULL, OPT_UINT, offsetof(struct values, timeout_s), UNLOAD_TIMEOUT_HELP },
	{ "holders", 0, "refuse|wait|stop", "KMODSMITH_HOLDERS", OPT_STR, offsetof(struct values, holders),
	  HOLDERS_HELP },
	{ "holders-timeout", 0, "SECONDS", NULL, OPT_UINT, offsetof(struct values, holders_timeout_s),
	  HOLDERS_TIMEOUT_HELP },
	{ "state-dir", 0, "DIR", "KMODSMITH_STATE_DIR", OPT_STR, offsetof(struct values, state_dir),
	  "state directory with the node's journal; default /var/lib/kmodsmith of the host" },
	{ 0 },
};

// unseen: who is seen by reference counts alone; NULL = nobody.
static json_t *holders_json(const struct holders *h, const char *unseen)
{
	auto_json json_t *list = json_array();
	for (size_t i = 0; i < h->count; i++) {
		const struct holder *x = &h->items[i];
		json_array_append_new(list, json_pack("{s:i, s:I, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:i}", "pid",
						      x->pid, "uid", (json_int_t)x->uid, "comm", json_text(x->comm),
						      "cmdline", json_text(x->cmdline), "runtime",
						      json_text(x->runtime), "container", json_text(x->container),
						      "pod", json_text(x->pod), "kind", holder_kind_name(x->kind),
						      "path", json_text(x->path), "count", x->count));
	}
	return json_pack("{s:b, s:O, s:o, s:o, s:o, s:i, s:i}", "in_use",
			 holders_blocking(h) > 0 || h->console || unseen, "processes", list, "modules",
			 json_strv(&h->modules), "console", json_text(h->console), "unseen", json_text(unseen),
			 "looked_at", (int)h->processes, "unreadable", (int)h->unreadable);
}

static void show_holders(const struct holders *h, const char *unseen)
{
	for (size_t i = 0; i < h->count; i++) {
		auto_str char *text = holder_text(&h->items[i]);
		printf("%s\n", text);
	}
	for (size_t i = 0; i < h->modules.count; i++)
		printf("module %s\n", h->modules.items[i]);
	if (h->console)
		printf("the kernel's console: %s\n", h->console);
	else if (unseen)
		printf("%s\n", unseen);
	else if (!h->count && !h->modules.count)
		printf("the driver is not in use (%zu processes checked)\n", h->processes);
	if (h->unreadable)
		log_warn("%zu processes could not be checked: run as root, in the host's pid namespace", h->unreadable);
}

static int run_holders(void *values, char **args, size_t count, struct err *err)
{
	(void)args, (void)count;
	const struct values *v = values;
	auto_machine struct machine m = MACHINE_NONE;
	auto_modules struct modules loaded = { 0 };
	auto_str char *release = NULL;
	struct holders h = { 0 };
	if (machine_open(&v->common, &m, err) < 0 || host_read_release(&m.kern, &release, err) < 0 ||
	    modules_read(&m.host, &m.kern, release, &loaded, err) < 0 || holders_find(&m.kern, &loaded, &h, err) < 0)
		return -1;
	auto_str char *unseen = holders_blocking(&h) || h.console ? NULL : holders_wait_uncounted(&loaded);
	if (v->common.is_json) {
		auto_json json_t *json = holders_json(&h, unseen);
		show_json(json);
	} else {
		show_holders(&h, unseen);
	}
	holders_done(&h);
	return 0;
}

// A refusal that names every holder is also a result.
static int show_in_use(const struct holders *h, bool is_json, const struct err *err)
{
	const char *unseen = holders_blocking(h) || h->console ? NULL : err->text;
	log_err(err);
	if (is_json) {
		auto_json json_t *json = show_failure_json(err);
		json_object_set_new(json, "holders", holders_json(h, unseen));
		show_json(json);
	} else if (!unseen) { // else the error has said it
		show_holders(h, NULL);
	}
	return err_info(err->code)->exit_status;
}

static int unload_node_driver(const struct values *v, const struct machine *m, struct progress *progress,
			      struct holders *ret, struct strv *ret_unloaded, struct err *err)
{
	auto_facts struct facts f = { 0 };
	auto_root struct root state = ROOT_NONE;
	const struct job_values job = { .state_dir = v->state_dir };
	struct node node = m->node;
	struct holders_wait drain = { .node = &node };
	node.progress = progress;
	if (job_parse_holders(v->holders, &drain.policy, err) < 0)
		return -1;
	auto_fd int lock = node_lock_take(&m->host, NODE_LOCK_CHANGE, err);
	if (lock < 0 || job_state(&job, m, &state, err) < 0 || facts_read(&m->host, &m->kern, &f, err) < 0)
		return -1;
	node.release = f.host.release;
	drain.timeout_ms = holders_wait_deadline_ms(drain.policy, v->holders_timeout_s);
	if (drain.policy != HOLDERS_REFUSE && holders_wait(&drain, ret, err) < 0)
		return -1;
	return unload_node(&drain, &state, job_unload_timeout_ms(v->timeout_s), ret, ret_unloaded, err);
}

static int run_unload(void *values, char **args, size_t count, struct err *err)
{
	(void)args, (void)count;
	const struct values *v = values;
	auto_machine struct machine m = MACHINE_NONE;
	auto_progress struct progress progress = show_progress_log();
	auto_strv struct strv unloaded = { 0 };
	auto_holders struct holders h = { 0 };
	if (machine_open(&v->common, &m, err) < 0)
		return -1;
	if (unload_node_driver(v, &m, &progress, &h, &unloaded, err) < 0)
		return err->code == E_IN_USE ? show_in_use(&h, v->common.is_json, err) : -1;
	if (v->common.is_json) {
		auto_json json_t *json =
			json_pack("{s:o, s:o}", "unloaded", json_strv(&unloaded), "holders", holders_json(&h, NULL));
		show_json(json);
	} else if (unloaded.count) {
		auto_str char *names = strv_join(&unloaded, ", ");
		printf("unloaded %s\n", names);
	} else {
		printf("no NVIDIA module is loaded\n");
	}
	return 0;
}

const struct cmd cmd_holders = {
	.name = "holders",
	.help = "show who uses the driver: processes, containers, pods and modules",
	.about = "Checks the open files, mappings and mounts of every process, and the modules that depend on the\n"
		 "driver; with nvidia-drm also whether the kernel's console has its frame buffer.\n\n"
		 "  kmodsmith holders\n",
	.opts = { common_opts },
	.values_size = sizeof(struct values),
	.run = run_holders,
};

const struct cmd cmd_unload = {
	.name = "unload",
	.help = "unload the driver from the kernel",
	.about = "While the driver is in use, refuses with E_IN_USE, names every holder and unloads nothing.\n"
		 "--holders wait waits until they are gone; --holders stop asks each process once to end (SIGTERM),\n"
		 "and also unloads idle modules that use the driver but do not belong to it.\n\n"
		 "An unload that the kernel does not return from ends with E_WEDGED: the node needs a reboot.\n\n"
		 "  kmodsmith unload\n"
		 "  kmodsmith unload --holders wait --holders-timeout 600\n",
	.opts = { unload_opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_unload,
};
