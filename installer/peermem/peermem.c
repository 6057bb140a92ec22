// SPDX-License-Identifier: Apache-2.0
#include "peermem/peermem.h"

#include "base/process/boot_record.h"
#include "journal/node_lock.h"
#include "kmod/load/load.h"
#include "kmod/load/provider.h"
#include "peermem/peermem_module.h"
#include "transaction/unload.h"

#include <stdio.h>
#include <time.h>

static const char FILE_NAME[] = BOOT_RECORD_DIR "/peermem.json", MODULE[] = "nvidia-peermem";
static const char *const states[] = { "none", "waiting", "loaded", "failed" };

const char *peermem_state_name(enum peermem_state s)
{
	return states[s];
}

static double boot_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_BOOTTIME, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static bool is_module_live(const struct root *kern, const char *module)
{
	struct err ignored;
	auto_str char *path = str_fmt("sys/module/%s/initstate", module), *state = NULL;
	return root_line(kern, path, &state, &ignored) > 0 && str_eq(state, "live");
}

// Some PCI function is of vendor 15b3 (Mellanox).
static bool has_network_adapter(const struct root *kern)
{
	struct err ignored;
	auto_strv struct strv functions = { 0 };
	if (root_list(kern, "sys/bus/pci/devices", &functions, &ignored) < 0)
		return false;
	for (size_t i = 0; i < functions.count; i++) {
		auto_str char *path = str_fmt("sys/bus/pci/devices/%s/vendor", functions.items[i]), *vendor = NULL;
		if (root_line(kern, path, &vendor, &ignored) > 0 && str_eq(vendor, "0x15b3"))
			return true;
	}
	return false;
}

static void write_peermem_file(const struct peermem *p, const struct err *failure)
{
	struct err why;
	auto_str char *boot = boot_record_id(p->node->kern);
	auto_json json_t *error = failure ? json_pack("{s:s, s:o}", "code", err_info(failure->code)->name, "text",
						      json_text(failure->text)) :
					    json_null();
	auto_json json_t *file =
		json_pack("{s:s, s:o, s:f, s:i, s:b, s:O}", "state", states[p->now], "why", json_text(p->why),
			  "deadline", p->deadline, "pid", (int)getpid(), "dma_buf", p->has_dma_buf, "error", error);
	if (boot_record_write(p->node->host, FILE_NAME, boot, file, &why) < 0)
		progress_note(p->node->progress, "cannot record the state of nvidia-peermem: %s", why.text);
}

// An unchanged state is neither logged nor written.
static void enter_peermem_state(struct peermem *p, enum peermem_state now, const char *why)
{
	if (p->now == now && str_eq(p->why, why))
		return;
	p->now = now;
	snprintf(p->why, sizeof(p->why), "%s", why);
	if (now != PEERMEM_WAITING)
		p->deadline = 0;
	progress_note(p->node->progress, "nvidia-peermem: %s: %s", states[now], why);
	write_peermem_file(p, NULL);
}

static int fail_peermem(struct peermem *p, struct err *err)
{
	if (p->has_dma_buf)
		err_wrap(err, "nvidia-peermem is not loaded (GPU memory can still be shared through dma-buf)");
	p->now = PEERMEM_FAILED;
	p->deadline = 0;
	snprintf(p->why, sizeof(p->why), "%s", err->text);
	write_peermem_file(p, err);
	return -1;
}

static int wait_for_driver(struct peermem *p, const char *what, struct err *err)
{
	if (p->deadline <= 0)
		p->deadline = boot_seconds() + p->timeout_ms / 1e3;
	if (boot_seconds() < p->deadline) {
		enter_peermem_state(p, PEERMEM_WAITING, what);
		return 0;
	}
	err_set(err, E_PEERMEM, "waited %g s for %s", p->timeout_ms / 1e3, what);
	return fail_peermem(p, err);
}

// MOFED's ready file says nothing once the host's own drivers are used (contract 2.3 K).
static bool is_network_ready(const struct peermem *p)
{
	static const char FLAG[] = "run/mellanox/drivers/.driver-ready";
	return p->is_host_mofed ? is_module_live(p->node->kern, "mlx5_core") :
				  root_exists(p->node->kern, FLAG) || root_exists(p->node->host, FLAG);
}

// The loaded module is that of the driver. Without srcversions to compare, any loaded one counts.
static bool is_loaded_right(const struct facts *facts, const struct peermem_module *f)
{
	const struct loaded_module *now = modules_find(&facts->loaded, MODULE);
	return now && (!now->srcversion || !f->module.srcversion || str_eq(now->srcversion, f->module.srcversion));
}

// Everything that changes modules in the kernel.
static int replace_peermem(const struct peermem *p, const struct facts *facts, const struct peermem_module *f,
			   const char *params, struct err *err)
{
	const struct loaded_module *now = modules_find(&facts->loaded, MODULE);
	auto_journal struct journal j = { 0 };
	if (p->node->state && (journal_find(p->node->host, p->node->state, &j, err) < 0 ||
			       journal_check_wedged(&j, facts->host.boot_id, err) < 0))
		return -1;
	if (now)
		progress_note(p->node->progress, "nvidia-peermem: %s is loaded, the driver's is %s: replacing it",
			      now->srcversion, f->module.srcversion);
	int r = now ? unload_module(p->node->sys, p->node->kern, "nvidia_peermem", p->unload_timeout_ms, err) : 0;
	for (size_t i = 0; i < f->needs.count && r >= 0; i++)
		r = provider_load(p->node->host, p->node->kern, p->node->sys, facts->host.release, f->needs.items[i], 0,
				  err);
	if (r >= 0 && load_module(p->node->sys, p->node->kern, &f->module, params, 0, err) >= 0)
		return 0;
	if (p->node->state)
		unload_record_wedge(p->node->host, p->node->state, &j, facts->host.boot_id, p->node->progress, err);
	return -1;
}

static int load_peermem(struct peermem *p, struct err *err)
{
	static const struct strv none;
	auto_facts struct facts facts = { 0 };
	// Nothing is replaced from there later, so the package may be unpacked in memory.
	auto_state_dir struct state_dir memory = STATE_DIR_NONE;
	auto_peermem_module struct peermem_module f = PEERMEM_MODULE_NONE;
	auto_module_params struct module_params params = { 0 };
	if (facts_read(p->node->host, p->node->kern, &facts, err) < 0 ||
	    module_params_read(p->node->host, p->node->kern, p->node->kern, &none, NULL, &params, err) < 0)
		return -1;
	state_dir_init(&memory, p->node, true);
	if (peermem_module_find(p->node, p->trust_dir, &memory, &facts, &f, err) < 0) {
		if (!is_module_live(p->node->kern, "nvidia_peermem"))
			return -1;
		if (err->code != E_NOT_FOUND)
			progress_note(p->node->progress,
				      "nvidia-peermem: cannot compare the loaded module, leaving it: %s", err->text);
		return 0;
	}
	p->has_dma_buf = f.has_dma_buf;
	if (is_loaded_right(&facts, &f))
		return 0;
	auto_str char *text = module_params_text(&params, MODULE);
	if (peermem_module_prove(p->node, &facts, &f, err) < 0 || replace_peermem(p, &facts, &f, text, err) < 0)
		return -1;
	progress_note(p->node->progress, "nvidia-peermem: loaded from %s", f.from);
	return 0;
}

int peermem_step(struct peermem *p, struct err *err)
{
	if (p->is_looked_at && is_module_live(p->node->kern, "nvidia_peermem")) {
		enter_peermem_state(p, PEERMEM_LOADED, "the kernel has it");
		return 1;
	}
	if (p->now == PEERMEM_LOADED)
		progress_note(p->node->progress, "nvidia-peermem: no longer loaded, loading it again");
	if (!has_network_adapter(p->node->kern)) {
		enter_peermem_state(p, PEERMEM_NONE, "no PCI device of vendor 15b3 (NVIDIA networking)");
		return 1;
	}
	if (!is_module_live(p->node->kern, "nvidia"))
		return wait_for_driver(p, "the NVIDIA driver", err);
	if (!is_network_ready(p))
		return wait_for_driver(p,
				       p->is_host_mofed ?
					       "the host's network driver (mlx5_core)" :
					       "the network driver's container (/run/mellanox/drivers/.driver-ready)",
				       err);
	auto_fd int lock = node_lock_take(p->node->host, NODE_LOCK_CHANGE, err);
	if (lock < 0 && err->code == E_LOCKED) // another process is installing the driver, and will finish in a while
		return wait_for_driver(p, "a change of the driver that is under way", err);
	if (lock < 0 || load_peermem(p, err) < 0)
		return fail_peermem(p, err);
	p->is_looked_at = true;
	enter_peermem_state(p, PEERMEM_LOADED, "the kernel has it");
	return 1;
}

// A load within its deadline is fine, and so is the moment until the loading process looks again. If that process is
// gone, its container is about to be restarted anyway.
static bool is_recorded_state_fine(const struct root *kern, const json_t *file, enum peermem_state state)
{
	auto_str char *process = str_fmt("proc/%d", (int)json_integer_value(json_object_get(file, "pid")));
	double deadline = json_number_value(json_object_get(file, "deadline"));
	if (state == PEERMEM_NONE || state == PEERMEM_FAILED)
		return state == PEERMEM_NONE;
	return root_exists(kern, process) && (state == PEERMEM_LOADED || boot_seconds() < deadline);
}

int peermem_status(const struct root *host, const struct root *kern, struct peermem_status *ret, struct err *err)
{
	auto_json json_t *file = NULL;
	auto_str char *boot = boot_record_id(kern);
	struct peermem_status look = { .state = PEERMEM_LOADED, .why = "the kernel has it", .is_fine = true };
	int r = boot_record_read(host, FILE_NAME, boot, &file, err);
	bool is_live_now = is_module_live(kern, "nvidia_peermem");
	if (r < 0)
		return -1;
	bool is_told = r > 0;
	if (!is_live_now && !is_told)
		return 0;
	look.has_dma_buf = is_told && json_is_true(json_object_get(file, "dma_buf"));
	if (!is_live_now) {
		const char *why = json_string_value(json_object_get(file, "why"));
		const char *name = json_string_value(json_object_get(file, "state"));
		look.state = PEERMEM_FAILED;
		for (size_t i = 0; i < ARRAY_SIZE(states); i++)
			if (str_eq(states[i], name))
				look.state = (enum peermem_state)i;
		look.is_fine = is_recorded_state_fine(kern, file, look.state);
		snprintf(look.why, sizeof(look.why), "%s", why ? why : "");
	}
	*ret = look;
	return 1;
}
