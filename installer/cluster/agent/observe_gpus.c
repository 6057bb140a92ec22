// SPDX-License-Identifier: Apache-2.0
// What is known of this node's GPUs without opening one: the last measurement of this boot with the driver that is
// loaded, which of them the driver still has, and NVIDIA's errors since the load.
#include "cluster/agent/observe.h"

#include "gpu_check/gpu_record.h"
#include "host/facts.h"
#include "host/gpu_support.h"
#include "status/xid.h"

#include <stdio.h>

static void add_fault(struct gpu_report *r, const char *gpu, enum gpu_fault_kind kind)
{
	struct gpu_fault fault = { .kind = kind };
	snprintf(fault.gpu, sizeof(fault.gpu), "%.*s", GPU_ADDRESS_TEXT - 1, gpu);
	gpu_report_add(r, &fault);
}

// is_allowed: as many may be broken as are (--allow-missing-gpus), and nobody is blamed.
static void add_result(struct gpu_report *r, const struct gpu_result *g, bool is_gone, bool is_allowed)
{
	static const enum gpu_fault_kind by_level[] = { [GPU_LEVEL_NONE] = GPU_FAULT_START,
							[GPU_START] = GPU_FAULT_START,
							[GPU_ANSWER] = GPU_FAULT_ANSWER,
							[GPU_COMPUTE] = GPU_FAULT_COMPUTE };
	r->count++;
	if (g->outcome == GPU_PENDING)
		add_fault(r, g->address, GPU_FAULT_HANGS);
	else if (g->outcome == GPU_BROKEN && !is_allowed)
		add_fault(r, g->address, g->is_reset_due ? GPU_FAULT_RESET : by_level[g->level]);
	else if (g->outcome == GPU_WORKS && is_gone)
		add_fault(r, g->address, GPU_FAULT_GONE);
	else if (g->outcome == GPU_WORKS)
		r->works++;
}

static void add_measured(struct gpu_report *r, const struct gpu_record *record, const struct strv *there)
{
	const struct gpu_results *g = &record->results;
	bool is_allowed = gpu_results_count(g, GPU_BROKEN) <= record->allowed;
	for (size_t i = 0; i < g->count; i++)
		if (g->items[i].outcome != GPU_EXCLUDED)
			add_result(r, &g->items[i], there && !strv_has(there, g->items[i].address), is_allowed);
}

static void add_xids(struct gpu_report *r, const struct root *host, const char *boot_id)
{
	struct xids x;
	struct err ignored;
	xids_read(host, boot_id, &x, &ignored);
	for (size_t i = 0; i < x.count; i++) {
		const struct xid_count *c = &x.items[i];
		struct gpu_fault fault = { .kind = GPU_FAULT_XID,
					   .xid = (uint16_t)c->xid,
					   .times = c->loaded < UINT16_MAX ? (uint16_t)c->loaded : UINT16_MAX };
		snprintf(fault.gpu, sizeof(fault.gpu), "%s", c->gpu);
		if (c->loaded && c->xid <= UINT16_MAX)
			gpu_report_add(r, &fault);
	}
}

void agent_read_gpus(const struct root *host, const struct root *kern, const struct facts *facts,
		     struct gpu_report *ret)
{
	auto_gpu_record struct gpu_record record = { 0 };
	auto_strv struct strv there = { 0 };
	struct err ignored;
	const struct modules *l = &facts->loaded;
	*ret = (struct gpu_report){ 0 };
	if (!l->version)
		return;
	ret->is_known = true;
	snprintf(ret->driver, sizeof(ret->driver), "%s", l->version);
	bool is_listed = root_list(kern, "proc/driver/nvidia/gpus", &there, &ignored) >= 0;
	ret->is_measured =
		gpu_record_read(host, facts->host.boot_id, &record, &ignored) > 0 && gpu_record_is_valid(&record, l);
	if (ret->is_measured)
		add_measured(ret, &record, is_listed ? &there : NULL);
	for (size_t i = 0; i < facts->gpus.count; i++) {
		const struct gpu *gpu = &facts->gpus.items[i];
		const struct gpu_result *measured = gpu_results_find(&record.results, gpu->address);
		auto_str char *id = str_fmt("10de:%04x", gpu->device);
		if (!gpu_support_expects(gpu, l->version, l->flavour))
			continue;
		ret->count = (uint16_t)(ret->count + !ret->is_measured);
		gpu_report_add_model(ret, measured && measured->name ? measured->name : id);
	}
	add_xids(ret, host, facts->host.boot_id);
}
