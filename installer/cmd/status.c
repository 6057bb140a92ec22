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
	if (status_read(&f, &m.kern, &dev_root, &m.sys, &s, err) < 0)
		return -1;
	if (v->common.is_json) {
		if (host_load_config(&f.host, &m.host, &m.kern, err) < 0)
			return -1;
		auto_json json_t *json = report_json(&f, &s);
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
