// SPDX-License-Identifier: Apache-2.0
#include "status/status_json.h"

json_t *status_json_error(const struct err *err)
{
	const struct err_info *info = err_info(err->code);
	return json_pack("{s:s, s:s, s:b, s:o, s:s}", "code", info->name, "reason", info->reason, "retryable",
			 info->retryable, "text", json_text(err->text), "next", info->next);
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
	return json_pack("{s:s, s:b, s:o, s:O, s:o, s:o}", "state",
			 !s->has_gpu ? "NO_GPU" :
			 s->is_ready ? "READY" :
				       "NOT_READY",
			 "ready", s->is_ready, "compatible", status_json_compatible(s->compatible), "checks", checks,
			 "nodes", nodes_json(&s->devices), "optional", optional_modules_json(&s->optional));
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

// What the kernel's configuration says of modules; null where it is not set, {} where no configuration is at hand.
static json_t *config_json(const struct host *h)
{
	static const char *const names[] = { "CONFIG_MODVERSIONS",     "CONFIG_MODULE_SIG", "CONFIG_MODULE_SIG_FORCE",
					     "CONFIG_MODULE_SIG_HASH", "CONFIG_PREEMPT_RT", "CONFIG_CC_VERSION_TEXT" };
	json_t *config = json_object();
	for (size_t i = 0; h->config && i < ARRAY_SIZE(names); i++) {
		auto_str char *value = host_config(h, names[i]);
		json_object_set_new(config, names[i], json_text(value));
	}
	return config;
}

static json_t *running_kernel_json(const struct host *h)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:I, s:s, s:s, s:b, s:o, s:o, s:o}", "release", json_text(h->release),
			 "build_id", json_text(h->build_id), "arch", json_text(h->arch), "boot_id",
			 json_text(h->boot_id), "taint", (json_int_t)h->taint, "secure_boot",
			 host_secure_boot_name(h->secure_boot), "lockdown", host_lockdown_name(h->lockdown),
			 "sig_enforced", h->is_sig_enforced, "headers", json_text(h->headers), "config_source",
			 json_text(h->config_source), "config", config_json(h));
}

static json_t *host_json(const struct host *h)
{
	auto_str char *distro =
		h->distro_id ? str_fmt("%s %s", h->distro_id, h->distro_version ? h->distro_version : "") : NULL;
	return json_pack("{s:o, s:o, s:i, s:i, s:I, s:I}", "distro", json_text(distro), "compilers",
			 json_strv(&h->compilers), "processors", (int)h->nproc, "cpu_max_milli", (int)h->cpu_max_milli,
			 "memory_max_bytes", (json_int_t)h->memory_max_bytes, "memory_total_bytes",
			 (json_int_t)h->memory_total_bytes);
}

json_t *status_json_all(const struct facts *f, const struct status *s)
{
	json_t *json = status_json_status(s);
	json_object_set_new(json, "kernel", running_kernel_json(&f->host));
	json_object_set_new(json, "host", host_json(&f->host));
	json_object_set_new(json, "driver",
			    json_pack("{s:o, s:o, s:o}", "version", json_text(f->loaded.version), "flavour",
				      json_text(f->loaded.flavour ? flavour_name(f->loaded.flavour) : NULL), "params",
				      json_strv(&f->loaded.params)));
	json_object_set_new(json, "gpus", gpus_json(&f->gpus));
	json_object_set_new(json, "modules", loaded_json(&f->loaded));
	return json;
}
