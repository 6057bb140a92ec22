// SPDX-License-Identifier: Apache-2.0
#include "base/process/boot_record.h"
#include "cmd/common/job.h"
#include "devices/cdi_spec_file.h"

#include <stdio.h>

struct values {
	struct common common;
	char *output, *export, *dev_root;
	bool is_imex;
};

static const struct opt opts[] = {
	{ "output", 'o', "FILE|-", NULL, OPT_STR, offsetof(struct values, output),
	  "output file, replaced atomically; default -: standard output" },
	{ "export", 0, "DIR", "KMODSMITH_EXPORT", OPT_STR, offsetof(struct values, export),
	  "the driver root on the host, / for the host's own user space; default: the current export" },
	{ "dev-root", 0, "DIR", "KMODSMITH_DEV_ROOT", OPT_STR, offsetof(struct values, dev_root),
	  "directory whose dev/ is read; default the host's root" },
	{ "imex", 0, NULL, NULL, OPT_FLAG, offsetof(struct values, is_imex),
	  "name the IMEX channels, of kind " CDI_IMEX_KIND ", in place of the GPUs" },
	{ 0 },
};

static int make_cdi_spec(const struct values *v, struct machine *m, json_t **ret, struct err *err)
{
	bool is_for_job =
		str_eq(v->export, JOB_AUTO) || str_eq(v->export, "none"); // as a pod's environment may have it
	const char *named = is_for_job ? NULL : v->export;
	if (named && *named != '/')
		return err_set(err, E_USAGE, "--export '%s' is not an absolute path", named);
	if (machine_open_dev(m, v->dev_root, err) < 0)
		return -1;
	auto_strv struct strv parts = { 0 };
	if (named)
		strv_split(&parts, named, "/");
	auto_str char *export = named ? strv_join(&parts, "/") : NULL, *boot = boot_record_id(&m->kern);
	struct node node = m->node;
	node.boot = boot;
	if (!v->is_imex)
		return cdi_spec(&node, export, ret, err);
	int r = cdi_imex_spec(&node, ret, err);
	return r ? r : err_set(err, E_NO_DEVICE, "there is no node of an IMEX channel");
}

static int run_cdi_generate(void *values, char **args, size_t count, struct err *err)
{
	(void)args, (void)count;
	const struct values *v = values;
	auto_machine struct machine m = MACHINE_NONE;
	auto_json json_t *json = NULL;
	auto_str char *rival = NULL;
	struct err ignored;
	if (machine_open(&v->common, &m, err) < 0 || make_cdi_spec(v, &m, &json, err) < 0)
		return -1;
	bool is_file = v->output && !str_eq(v->output, "-");
	if (is_file &&
	    cdi_spec_file_conflict(&m.host, v->output, v->is_imex ? CDI_IMEX_KIND : CDI_KIND, &rival, &ignored) > 0)
		log_warn("'%s' has devices of the same names: a runtime that reads both may refuse them", rival);
	return show_json_as(json, v->output, err);
}

const struct cmd cmd_cdi_generate = {
	.name = "cdi generate",
	.help = "write what a container runtime adds to a container that asks for a GPU",
	.about = "A specification of the Container Device Interface: containerd, CRI-O and podman read it and need no\n"
		 "toolkit.\n"
		 "Names each GPU by its index, by its UUID where the driver knows it, and all of them by \"all\"; a\n"
		 "partition (MIG) as INDEX-giG-ciC. Nothing is named that is not there. `kmodsmith init` keeps one in\n"
		 "step with the driver by itself (--cdi), and beside it one of IMEX channels, where there are any.\n\n"
		 "  kmodsmith cdi generate --output /var/run/cdi/kmodsmith.json\n"
		 "  kmodsmith cdi generate --imex --output /var/run/cdi/kmodsmith-imex.json\n"
		 "  podman run --rm --device nvidia.com/gpu=0 IMAGE nvidia-smi\n",
	.opts = { opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_cdi_generate,
};
