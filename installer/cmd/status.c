// SPDX-License-Identifier: Apache-2.0
#include "cmd/job.h"

struct values {
	struct common common;
	char *dev_root;
};

static const struct opt opts[] = {
	{ "dev-root", 0, "DIR", "KMODSMITH_DEV_ROOT", OPT_STR, offsetof(struct values, dev_root),
	  "directory that holds the dev/ to look at" },
	{ 0 },
};

static json_t *gpus_json(const struct gpus *g)
{
	json_t *list = json_array();
	for (size_t i = 0; i < g->count; i++) {
		auto_str char *id = str_fmt("10de:%04x", g->items[i].device);
		json_array_append_new(list, json_pack("{s:o, s:s, s:s, s:s, s:o, s:b}", "address",
						      json_text(g->items[i].address), "kind",
						      g->items[i].kind == GPU_SWITCH ? "nvswitch" : "gpu", "id", id,
						      "architecture", flavour_architecture(g->items[i].device), "bound",
						      json_text(g->items[i].driver), "virtual", g->items[i].is_vf));
	}
	return list;
}

static json_t *loaded_json(const struct loaded *l)
{
	json_t *list = json_array();
	for (size_t i = 0; i < l->count; i++) {
		const struct loaded_module *m = &l->items[i];
		json_array_append_new(list,
				      json_pack("{s:o, s:s, s:o, s:o, s:i, s:o, s:o}", "name", json_text(m->name),
						"state", loaded_state_name(m->state), "version", json_text(m->version),
						"srcversion", json_text(m->srcversion), "refcount", m->refcount,
						"taint", json_text(m->taint), "holders", json_strv(&m->holders),
						"params", json_strv(&m->params), "file", json_text(m->file)));
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

static json_t *kernel_json(const struct host *h)
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

static json_t *whole_json(const struct facts *f, const struct status *s)
{
	json_t *json = status_json(s);
	json_object_set_new(json, "kernel", kernel_json(&f->host));
	json_object_set_new(json, "host", host_json(&f->host));
	json_object_set_new(json, "driver",
			    json_pack("{s:o, s:o, s:o}", "version", json_text(f->loaded.version), "flavour",
				      json_text(f->loaded.flavour ? flavour_name(f->loaded.flavour) : NULL), "params",
				      json_strv(&f->loaded.params)));
	json_object_set_new(json, "gpus", gpus_json(&f->gpus));
	json_object_set_new(json, "modules", loaded_json(&f->loaded));
	return json;
}

static int run(void *values, char **args, size_t count, struct err *err)
{
	(void)args, (void)count;
	const struct values *v = values;
	auto_machine struct machine m = { .host = ROOT_NONE, .kern = ROOT_NONE };
	auto_facts struct facts f = { 0 };
	auto_status struct status s = { 0 };
	auto_root struct root dev_root = ROOT_NONE;
	if (machine_open(&v->common, &m, err) < 0 || facts_read(&m.host, &m.kern, &f, err) < 0)
		return -1;
	if ((v->dev_root ? root_init(&dev_root, v->dev_root, err) : root_sub(&m.kern, ".", &dev_root, err)) < 0)
		return -1;
	if (status_read(&f, &m.host, &m.kern, &dev_root, &m.sys, &s, err) < 0)
		return -1;
	if (v->common.is_json) {
		if (host_load_config(&f.host, &m.host, &m.kern, err) < 0)
			return -1;
		auto_json json_t *json = whole_json(&f, &s);
		show_json(json);
	} else {
		show_status(&s);
	}
	return s.has_gpu && !s.is_ready ? err_info(E_NOT_READY)->exit_status : 0;
}

const struct cmd cmd_status = {
	.name = "status",
	.help = "what is loaded and whether it works, post-condition by post-condition",
	.about = "Measures and changes nothing. Exit status 0: ready, or no NVIDIA function here; 1: not ready.\n",
	.opts = { opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run,
};
