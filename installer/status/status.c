// SPDX-License-Identifier: Apache-2.0
#include "status/status.h"

#include "daemons/vgpu_guest.h"
#include "driver_root/root_record.h"
#include "journal/journal.h"
#include "kmod/load/kernel_log.h"
#include "plan/preflight.h"

#include <stdarg.h>
#include <stdio.h>

void status_done(struct status *s)
{
	for (size_t i = 0; i < s->count; i++)
		free(s->checks[i].evidence);
	free(s->checks);
	free(s->compatible);
	devices_done(&s->devices);
	gpu_record_done(&s->gpus);
	optional_modules_done(&s->optional);
	*s = (struct status){ 0 };
}

static void add_check(struct status *s, const char *name, bool is_ok, const char *fmt, ...) PRINTF(4, 5);
static void add_check(struct status *s, const char *name, bool is_ok, const char *fmt, ...)
{
	char text[512];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	s->checks = mem_grow(s->checks, s->count + 1, sizeof(*s->checks));
	s->checks[s->count++] = (struct check){ .name = name, .evidence = str_dup(text), .is_ok = is_ok };
}

static void check_modules(const struct facts *facts, struct status *s)
{
	const struct modules *l = &facts->loaded;
	const struct loaded_module *nvidia = modules_find(l, "nvidia");
	add_check(s, "driver", nvidia && l->version, "%s%s%s", l->version ? l->version : "not loaded",
		  l->version ? " " : "", l->version ? module_type_name(l->flavour) : "");
	if (nvidia) {
		// The kernel's taint shows a proprietary module, whatever its metadata says.
		const char *taint = nvidia->taint;
		bool is_proprietary = taint && strchr(taint, 'P');
		add_check(s, "flavour",
			  l->flavour && (!taint || is_proprietary == (l->flavour == MODULE_TYPE_PROPRIETARY)),
			  "%s, taint %s", l->flavour ? module_type_name(l->flavour) : "unknown",
			  taint ? taint : "unknown");
	}
	for (size_t i = 0; i < l->count; i++) {
		const struct loaded_module *m = &l->items[i];
		if (!m->is_driver)
			continue;
		bool is_equal = !m->version || !l->version || str_eq(m->version, l->version);
		add_check(s, "module", m->state == LOADED_LIVE && is_equal, "%s %s, %s", m->name,
			  m->version ? m->version : "(no version)", modules_state_name(m->state));
	}
	if (nvidia && !modules_find(l, "nvidia_uvm")) // a reason to be unready only where it was requested
		add_check(s, "compute", true, "not reachable: nvidia_uvm is not loaded");
}

// "0000:50:00.0 has no driver (kernel: NVRM: ... has fallen off the bus ...)"
static void add_missing(char **text, const struct gpu *gpu, const struct root *kern)
{
	auto_str char *line = NULL;
	str_add(text, "; %s ", gpu->address);
	if (gpu->driver && gpu_owner(gpu) != GPU_NVIDIA)
		str_add(text, "is bound to %s", gpu->driver);
	else if (kernel_log_last(kern, gpu->address, &line) > 0)
		str_add(text, "has no driver (kernel: %.200s)", line);
	else
		str_add(text, "has no driver");
}

// Ready is what was measured since this driver was loaded, unless nobody is to measure.
static int check_gpus(const struct facts *facts, const struct root *host, const struct root *kern, struct status *s,
		      struct err *err)
{
	const struct modules *l = &facts->loaded;
	auto_strv struct strv found = { 0 };
	auto_str char *missing = str_dup(""), *left = gpu_support_left(&facts->gpus, l->version, l->flavour);
	size_t expected = 0, has = 0, unmeasured = 0, ours = gpus_count_ours(&facts->gpus, GPU_DISPLAY);
	struct gpu_record *r = &s->gpus;
	struct err why = { 0 };
	if (root_list(kern, "proc/driver/nvidia/gpus", &found, err) < 0 ||
	    gpu_record_read(host, facts->host.boot_id, r, err) < 0)
		return -1;
	if (!gpu_record_is_valid(r, l))
		gpu_record_done(r);
	for (size_t i = 0; i < facts->gpus.count; i++) {
		const struct gpu *gpu = &facts->gpus.items[i];
		if (!gpu_support_expects(gpu, l->version, l->flavour))
			continue;
		bool is_found = strv_has(&found, gpu->address);
		const struct gpu_result *measured = gpu_results_find(&r->results, gpu->address);
		expected++;
		has += is_found;
		unmeasured += is_found && !measured && !r->is_waived;
		if (!is_found && l->version && !(measured && measured->outcome == GPU_BROKEN))
			add_missing(&missing, gpu, kern); // gone since the measurement, or it was never there
	}
	bool is_told = r->results.count && !*missing && !unmeasured;
	auto_str char *results = is_told ? gpu_results_text(&r->results) : str_fmt("%zu of %zu", has, expected);
	int code = unmeasured ? E_GPU_UNTESTED : r->driver && gpu_record_check(r, &why) < 0 ? why.code : 0;
	bool is_ok = !code && !*missing && (has == expected || is_told) && (expected || !ours);
	add_check(s, "gpus", is_ok, "%s%s%s%s%s%s", results, missing, left ? "; left without a driver: " : "",
		  left ? left : "", unmeasured ? "; not measured since the driver was loaded" : "",
		  r->is_waived ? "; not measured (--gpu-check none)" : "");
	s->checks[s->count - 1].code = *missing ? 0 : code;
	return 0;
}

static int check_count(const struct root *kern, struct status *s, const char *name, const char *dir, size_t wanted,
		       struct err *err)
{
	auto_strv struct strv found = { 0 };
	if (root_list(kern, dir, &found, err) < 0)
		return -1;
	add_check(s, name, found.count == wanted, "%zu of %zu", found.count, wanted);
	return 0;
}

static int check_nodes(const struct node *node, struct status *s, struct err *err)
{
	int r = devices_want(node->kern, 0, &s->devices, err);
	if (r < 0 || (r > 0 && devices_apply(node->dev_root, node->sys, true, &s->devices, err) < 0))
		return -1;
	size_t bad = devices_count_bad(&s->devices);
	auto_str char *first = str_dup("");
	for (size_t i = 0; bad && !*first && i < s->devices.count; i++) {
		const struct device_node *n = &s->devices.items[i];
		if (n->verdict == NODE_MISSING || n->verdict == NODE_WRONG)
			str_add(&first, ", first: %s is %s", n->path, device_verdict_name(n->verdict));
	}
	if (!s->devices.count)
		add_check(s, "nodes", false, "none: no driver has registered any");
	else
		add_check(s, "nodes", !bad, "%zu of %zu correct, with their /dev/char links%s", s->devices.count - bad,
			  s->devices.count, first);
	return 0;
}

// The kernel reads it when a GPU is started, which may be long after the load: without it no GPU starts.
static int check_status_firmware(const struct facts *facts, const struct root *host, const struct root *kern,
				 struct status *s, struct err *err)
{
	auto_str char *where = NULL;
	int r = preflight_loaded_firmware(host, kern, facts, &where, err);
	if (r < 0 && err->code != E_FIRMWARE)
		return -1;
	if (r != 0)
		add_check(s, "firmware", r > 0, "%s", r > 0 ? where : err->text);
	if (r < 0)
		s->checks[s->count - 1].code = err->code;
	return 0;
}

// Only where something is exported; a node that has its user space elsewhere lacks nothing.
static int check_export(const struct facts *facts, const struct node *node, struct status *s, struct err *err)
{
	auto_root_record struct root_record now = { 0 };
	const char *kernel = facts->loaded.version;
	int r = root_record_measure(node, facts->host.boot_id, &now, err);
	if (r <= 0)
		return r;
	add_check(s, "user space", str_eq(now.user_space, kernel), "%s exported, %s in the kernel",
		  now.user_space ? now.user_space : "no library", kernel ? kernel : "none");
	add_check(s, "export", !now.problem, "/%s, generation %u%s%s", now.dir, now.generation, now.problem ? ": " : "",
		  now.problem ? now.problem : "");
	return 0;
}

// A record of another driver than the loaded one does not count.
static int read_optional(const struct facts *facts, const struct root *host, struct status *s, struct err *err)
{
	auto_optional_modules struct optional_modules noted = { 0 };
	if (optional_modules_read(host, facts->host.boot_id, &noted, err) < 0)
		return -1;
	for (size_t i = 0; i < noted.count && str_eq(noted.driver, facts->loaded.version); i++) {
		const struct optional_failure *f = &noted.items[i];
		if (!modules_find(&facts->loaded, f->module))
			optional_modules_add(&s->optional, f->module, f->params, f->code, f->text);
	}
	return 0;
}

static void set_ready(struct status *s)
{
	s->is_ready = true;
	for (size_t i = 0; i < s->count; i++)
		s->is_ready = s->is_ready && s->checks[i].is_ok;
}

void status_check_request(struct status *s, const struct modules *l, const char *driver, enum module_type flavour,
			  const struct strv *modules)
{
	const char *missing = NULL;
	for (size_t i = 0; i < modules->count && !missing; i++)
		missing = modules_find(l, modules->items[i]) ? NULL : modules->items[i];
	bool is_equal = str_eq(l->version, driver) && l->flavour == flavour && !missing;
	add_check(s, "request", is_equal, "%s %s%s%s", driver, module_type_name(flavour),
		  missing ? ", and this is not loaded: " : "", missing ? missing : "");
	set_ready(s);
}

bool status_holds_beside_gpus(const struct status *s)
{
	for (size_t i = 0; i < s->count; i++)
		if (!s->checks[i].is_ok && !str_eq(s->checks[i].name, "gpus"))
			return false;
	return s->has_gpu;
}

static char *daemon_text(const struct daemon_entry *e, const struct root *kern)
{
	const char *why = e->why_not ? e->why_not : e->last;
	const char *licence = str_eq(e->name, "nvidia-gridd") ? vgpu_guest_licence(&e->log) : NULL;
	if (daemon_entry_runs(e, kern))
		return str_fmt("%s up (pid %d%s)%s%s", e->name, e->pid,
			       e->is_foreign ? ", of others" :
			       e->restarts   ? ", restarted" :
					       "",
			       licence ? ", " : "", licence ? licence : "");
	return str_fmt("%s %s%s%s", e->name, str_eq(e->state, "up") ? "not running" : e->state, why ? ": " : "",
		       why ? why : "");
}

void status_daemons(struct status *s, const struct daemon_record *r, const struct root *kern)
{
	auto_strv struct strv texts = { 0 };
	bool is_ok = true;
	for (size_t i = 0; i < r->count; i++) {
		is_ok = is_ok && (!r->items[i].is_needed || daemon_entry_runs(&r->items[i], kern));
		strv_add(&texts, daemon_text(&r->items[i], kern));
	}
	if (!s->has_gpu || !r->count)
		return;
	auto_str char *text = strv_join(&texts, "; ");
	add_check(s, "daemons", is_ok, "%s", text);
	set_ready(s);
}

int status_read(const struct facts *facts, const struct node *node, struct status *ret, struct err *err)
{
	const struct root *host = node->host, *kern = node->kern;
	auto_status struct status s = { .has_gpu = facts_has_gpu(facts) };
	if (s.has_gpu) {
		size_t switches = gpus_count_ours(&facts->gpus, GPU_SWITCH);
		check_modules(facts, &s);
		s.compatible = existing_driver_made_for(host, facts->host.boot_id, &facts->loaded);
		if (s.compatible)
			add_check(&s, "package", true, "compatible (made for %s)", s.compatible);
		// Not a reason to be unready; until the disk works again, a reboot loses what was recorded since.
		auto_str char *unwritten = journal_unwritten(host);
		if (unwritten)
			add_check(&s, "journal", true, "in memory only, %s", unwritten);
		if (check_gpus(facts, host, kern, &s, err) < 0 ||
		    (switches &&
		     check_count(kern, &s, "nvswitches", "proc/driver/nvidia-nvswitch/devices", switches, err) < 0) ||
		    check_nodes(node, &s, err) < 0 || check_export(facts, node, &s, err) < 0 ||
		    check_status_firmware(facts, host, kern, &s, err) < 0 || read_optional(facts, host, &s, err) < 0)
			return -1;
		set_ready(&s);
	}
	*ret = s;
	s = (struct status){ 0 };
	return 0;
}

// That nobody has measured the GPUs matters only where all else is right.
const struct check *status_first_failed(const struct status *s)
{
	const struct check *untested = NULL;
	for (size_t i = 0; i < s->count; i++) {
		if (!s->checks[i].is_ok && s->checks[i].code != E_GPU_UNTESTED)
			return &s->checks[i];
		if (!s->checks[i].is_ok)
			untested = &s->checks[i];
	}
	return untested;
}

const char *status_next(const struct status *s)
{
	static const struct {
		const char *check, *next;
	} steps[] = {
		{ "driver", "`kmodsmith doctor` names what an install needs; then `kmodsmith install`" },
		{ "flavour", "`kmodsmith install` puts the requested modules in place of the loaded ones" },
		{ "module", "`kmodsmith install` puts one set of modules in place of the loaded ones" },
		{ "request", "`kmodsmith plan` says what is loaded instead, and what an install would do" },
		{ "gpus",
		  "the kernel's log says why (`dmesg | grep NVRM`), and `kmodsmith explain XID` what an Xid in it "
		  "means; `kmodsmith explain E_NO_DEVICE` names the usual causes" },
		{ "nvswitches", "the kernel's log says why: `dmesg | grep -i nvswitch`" },
		{ "nodes", "`kmodsmith nodes` makes and corrects them" },
		{ "user space", "`kmodsmith install` exports the user space of the loaded driver" },
		{ "export", "`kmodsmith install` exports the user space again" },
		{ "daemons",
		  "the daemon's last messages say why; `kmodsmith explain E_DAEMON` names the usual causes" },
	};
	const struct check *c = status_first_failed(s);
	if (!s->has_gpu || s->is_ready || !c)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(steps) && !c->code; i++)
		if (str_eq(steps[i].check, c->name))
			return steps[i].next;
	return err_info(c->code ? c->code : E_NOT_READY)->next;
}

int status_error(const struct status *s, struct err *err)
{
	if (!s->has_gpu || s->is_ready)
		return 0;
	const struct check *c = status_first_failed(s);
	if (!c)
		return err_set(err, E_NOT_READY, "no post-condition could be measured");
	err_set(err, c->code ? c->code : E_NOT_READY, "%s: %s", c->name, c->evidence);
	return err_next(err, "%s", status_next(s));
}

json_t *status_json_error(const struct err *err)
{
	const struct err_info *info = err_info(err->code);
	return json_pack("{s:s, s:s, s:b, s:o, s:o}", "code", info->name, "reason", info->reason, "retryable",
			 info->retryable, "text", json_text(err->text), "next", json_text(err_next_step(err)));
}

json_t *status_json_phases(const struct progress *w)
{
	json_t *list = json_array();
	for (size_t i = 0; i < w->count; i++)
		json_array_append_new(list, json_pack("{s:s, s:f, s:o}", "phase", w->phases[i].name, "seconds",
						      w->phases[i].seconds, "note", json_text(w->phases[i].note)));
	return list;
}

static json_t *nodes_json(const struct devices *d)
{
	json_t *list = json_array();
	for (size_t i = 0; i < d->count; i++) {
		const struct device_node *n = &d->items[i];
		auto_str char *mode = str_fmt("%04o", n->mode);
		json_array_append_new(list,
				      json_pack("{s:o, s:i, s:i, s:s, s:I, s:I, s:s, s:o}", "path", json_text(n->path),
						"major", n->major, "minor", n->minor, "mode", mode, "uid",
						(json_int_t)n->uid, "gid", (json_int_t)n->gid, "verdict",
						device_verdict_name(n->verdict), "why", json_text(n->why)));
	}
	return list;
}

json_t *status_json_compatible(const char *made_for)
{
	return made_for ? json_pack("{s:s}", "made_for", made_for) : json_null();
}

json_t *status_json_status(const struct status *s)
{
	auto_json json_t *checks = json_array();
	for (size_t i = 0; i < s->count; i++)
		json_array_append_new(checks,
				      json_pack("{s:s, s:b, s:o}", "name", s->checks[i].name, "pass",
						s->checks[i].is_ok, "evidence", json_text(s->checks[i].evidence)));
	return json_pack("{s:s, s:b, s:o, s:O, s:o, s:o, s:o}", "state",
			 !s->has_gpu ? "NO_GPU" :
			 s->is_ready ? "READY" :
				       "NOT_READY",
			 "ready", s->is_ready, "compatible", status_json_compatible(s->compatible), "checks", checks,
			 "next", json_text(status_next(s)), "nodes", nodes_json(&s->devices), "optional",
			 optional_modules_json(&s->optional));
}

static json_t *gpus_json(const struct gpus *g)
{
	json_t *list = json_array();
	for (size_t i = 0; i < g->count; i++) {
		auto_str char *id = str_fmt("10de:%04x", g->items[i].device);
		json_array_append_new(list, json_pack("{s:o, s:s, s:s, s:s, s:o, s:b}", "address",
						      json_text(g->items[i].address), "kind",
						      g->items[i].kind == GPU_SWITCH ? "nvswitch" : "gpu", "id", id,
						      "architecture", gpu_architecture(g->items[i].device), "bound",
						      json_text(g->items[i].driver), "virtual", g->items[i].is_vf));
	}
	return list;
}

static json_t *loaded_json(const struct modules *l)
{
	json_t *list = json_array();
	for (size_t i = 0; i < l->count; i++) {
		const struct loaded_module *m = &l->items[i];
		json_array_append_new(list, json_pack("{s:o, s:s, s:o, s:o, s:i, s:o, s:o, s:o, s:o}", "name",
						      json_text(m->name), "state", modules_state_name(m->state),
						      "version", json_text(m->version), "srcversion",
						      json_text(m->srcversion), "refcount", m->refcount, "taint",
						      json_text(m->taint), "holders", json_strv(&m->holders), "params",
						      json_strv(&m->params), "file", json_text(m->file)));
	}
	return list;
}

// Module options of the kernel's configuration; null = not set, {} = no configuration was found.
static json_t *config_json(const struct host *h)
{
	static const char *const names[] = { "CONFIG_MODVERSIONS",     "CONFIG_MODULE_SIG", "CONFIG_MODULE_SIG_FORCE",
					     "CONFIG_MODULE_SIG_HASH", "CONFIG_PREEMPT_RT", "CONFIG_CC_VERSION_TEXT" };
	json_t *config = json_object();
	for (size_t i = 0; h->config && i < ARRAY_SIZE(names); i++) {
		auto_str char *value = host_config(h->config, names[i]);
		json_object_set_new(config, names[i], json_text(value));
	}
	return config;
}

json_t *status_json_all(const struct facts *f, const struct status *s)
{
	const struct host *h = &f->host;
	json_t *json = status_json_status(s);
	auto_str char *distro =
		h->distro_id ? str_fmt("%s %s", h->distro_id, h->distro_version ? h->distro_version : "") : NULL;
	json_object_set_new(json, "kernel",
			    json_pack("{s:o, s:o, s:o, s:o, s:I, s:s, s:s, s:b, s:o, s:o, s:o}", "release",
				      json_text(h->release), "build_id", json_text(h->build_id), "arch",
				      json_text(h->arch), "boot_id", json_text(h->boot_id), "taint",
				      (json_int_t)h->taint, "secure_boot", host_secure_boot_name(h->secure_boot),
				      "lockdown", host_lockdown_name(h->lockdown), "sig_enforced", h->is_sig_enforced,
				      "headers", json_text(h->headers), "config_source", json_text(h->config_source),
				      "config", config_json(h)));
	json_object_set_new(json, "host",
			    json_pack("{s:o, s:o, s:i, s:i, s:I, s:I}", "distro", json_text(distro), "compilers",
				      json_strv(&h->compilers), "processors", (int)h->nproc, "cpu_max_milli",
				      (int)h->cpu_max_milli, "memory_max_bytes", (json_int_t)h->memory_max_bytes,
				      "memory_total_bytes", (json_int_t)h->memory_total_bytes));
	json_object_set_new(json, "driver",
			    json_pack("{s:o, s:o, s:o}", "version", json_text(f->loaded.version), "flavour",
				      json_text(f->loaded.flavour ? module_type_name(f->loaded.flavour) : NULL),
				      "params", json_strv(&f->loaded.params)));
	json_object_set_new(json, "gpus", gpus_json(&f->gpus));
	json_object_set_new(json, "modules", loaded_json(&f->loaded));
	json_object_set_new(json, "gpu_check", s->gpus.driver ? gpu_record_json(&s->gpus) : json_null());
	return json;
}
