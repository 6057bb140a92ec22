// SPDX-License-Identifier: Apache-2.0
#include "base/process/boot_record.h"
#include "cmd/common/job.h"
#include "devices/cdi_spec_file.h"
#include "journal/node_lock.h"

#include <stdio.h>

struct values {
	struct common common;
	char *dev_root;
	unsigned imex_channels;
	bool is_dry_run;
};

static const struct opt opts[] = {
	{ "dev-root", 0, "DIR", "KMODSMITH_DEV_ROOT", OPT_STR, offsetof(struct values, dev_root),
	  "directory whose dev/ gets the nodes; default the host's root" },
	{ "imex-channels", 0, "N", NULL, OPT_UINT, offsetof(struct values, imex_channels),
	  "make N IMEX channel nodes; default none" },
	{ "dry-run", 'n', NULL, NULL, OPT_FLAG, offsetof(struct values, is_dry_run), "compare only" },
	{ 0 },
};

static void show_device_nodes(const struct devices *d)
{
	auto_strv struct strv rows = { 0 };
	for (size_t i = 0; i < d->count; i++) {
		const struct device_node *n = &d->items[i];
		strv_add(&rows, str_fmt("%s\t/dev/%s\tc %u:%u\t%04o\t%u:%u\t%s", device_verdict_name(n->verdict),
					n->path, n->major, n->minor, n->mode, n->uid, n->gid, n->why ? n->why : ""));
	}
	show_table(&rows);
	printf("%zu node%s, %zu change%s, %zu wrong\n", d->count, str_plural(d->count), d->changes,
	       str_plural(d->changes), devices_count_bad(d));
}

// Where a CDI specification is kept, it follows changes of partitions (MIG).
static void refresh_cdi_spec(const struct machine *m)
{
	auto_str char *boot = boot_record_id(&m->kern);
	struct node node = m->node;
	struct err why;
	node.boot = boot;
	if (cdi_spec_file_update(&node, NULL, true, &why) < 0)
		log_warn("CDI specification not updated, containers get no GPU: %s", why.text);
}

static int make_device_nodes(const struct values *v, struct machine *m, struct devices *d, struct err *err)
{
	auto_fd int lock = -1;
	if (machine_open_dev(m, v->dev_root, err) < 0)
		return -1;
	if (!v->is_dry_run && (lock = node_lock_take(&m->host, NODE_LOCK_CHANGE, err)) < 0)
		return -1;
	if (devices_want(&m->kern, v->imex_channels, d, err) < 0)
		return -1;
	int r = devices_apply(m->node.dev_root, &m->sys, v->is_dry_run, d, err);
	if (!v->is_dry_run)
		refresh_cdi_spec(m);
	return r;
}

static int run_nodes(void *values, char **args, size_t count, struct err *err)
{
	(void)args, (void)count;
	const struct values *v = values;
	auto_machine struct machine m = MACHINE_NONE;
	auto_devices struct devices d = { 0 };
	if (machine_open(&v->common, &m, err) < 0 || make_device_nodes(v, &m, &d, err) < 0)
		return -1;
	if (v->common.is_json) {
		struct status s = { .devices = d };
		auto_json json_t *json = status_json_status(&s);
		auto_json json_t *whole = json_pack("{s:O, s:i, s:i}", "nodes", json_object_get(json, "nodes"),
						    "changes", (int)d.changes, "wrong", (int)devices_count_bad(&d));
		show_json(whole);
	} else {
		show_device_nodes(&d);
	}
	return devices_count_bad(&d) ? err_info(E_NODES)->exit_status : 0;
}

const struct cmd cmd_nodes = {
	.name = "nodes",
	.help = "create or verify the device nodes and their /dev/char links",
	.about = "Makes every node that the loaded driver needs, with the modes and owners that the driver\n"
		 "states. A second run changes nothing. Exit status 1 when a node is missing or wrong and may not\n"
		 "be changed.\n"
		 "Also updates the CDI specification where there is one: run this after a change of partitions\n"
		 "(MIG).\n\n"
		 "  kmodsmith nodes\n"
		 "  kmodsmith nodes --dry-run\n",
	.opts = { opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_nodes,
};
