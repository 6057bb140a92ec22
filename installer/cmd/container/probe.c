// SPDX-License-Identifier: Apache-2.0
#include "status/probe.h"
#include "cmd/common/job.h"

struct values {
	struct common common;
	char *dev_root, *pulse_dir;
	unsigned stall_s;
};

static const struct opt opts[] = {
	{ "stall", 0, "SECONDS", NULL, OPT_UINT, offsetof(struct values, stall_s),
	  "liveness: how long a compile may run without finishing an object, or a coordinator without a turn; default "
	  "600" },
	{ "pulse-dir", 0, "DIR", NULL, OPT_STR, offsetof(struct values, pulse_dir),
	  "liveness: check the coordinator that was given this directory" },
	{ "dev-root", 0, "DIR", "KMODSMITH_DEV_ROOT", OPT_STR, offsetof(struct values, dev_root),
	  "directory whose dev/ is read; default the host's root" },
	{ 0 },
};

static const struct question {
	const char *name;
	int (*ask)(const struct probe *p, char **ret_why, struct err *err);
} questions[] = {
	{ "startup", probe_startup },
	{ "readiness", probe_readiness },
	{ "liveness", probe_liveness },
};

static int run_probe(void *values, char **args, size_t count, struct err *err)
{
	(void)count;
	const struct values *v = values;
	auto_machine struct machine m = MACHINE_NONE;
	auto_root struct root pulse_dir = ROOT_NONE;
	auto_str char *why = NULL;
	const struct question *q = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(questions); i++)
		if (str_eq(questions[i].name, args[0]))
			q = &questions[i];
	if (!q)
		return err_set(err, E_USAGE, "unknown probe '%s' (expected startup, readiness or liveness)", args[0]);
	if (machine_open(&v->common, &m, err) < 0)
		return -1;
	if (q->ask != probe_liveness && machine_open_dev(&m, v->dev_root, err) < 0)
		return -1;
	if (v->pulse_dir && root_init(&pulse_dir, v->pulse_dir, err) < 0)
		return err_wrap(err, "--pulse-dir");
	const struct probe probe = { .node = &m.node,
				     .pulse_dir = v->pulse_dir ? &pulse_dir : NULL,
				     .stall_s = v->stall_s };
	int is_yes = q->ask(&probe, &why, err);
	if (is_yes < 0)
		return -1;
	if (v->common.is_json) {
		auto_json json_t *json =
			json_pack("{s:s, s:b, s:o}", "probe", q->name, "ok", is_yes, "why", json_text(why));
		show_json(json);
	} else {
		printf("%s: %s, %s\n", q->name, is_yes ? "yes" : "no", why);
	}
	return is_yes ? 0 : err_info(E_NOT_READY)->exit_status;
}

const struct cmd cmd_probe = {
	.name = "probe",
	.args = "startup|readiness|liveness",
	.args_min = 1,
	.args_max = 1,
	.help = "answer a kubelet's probe: is it ready, is it alive",
	.about = "readiness: the last run of this boot reported READY, what it measured still holds, and the agent\n"
		 "of rollouts, where `init` has one, stays up.\n"
		 "startup: the same, and the latest `init` has completed its start.\n"
		 "liveness: `init` serves, or makes progress; a compile that finishes no object for --stall seconds\n"
		 "does not.\n"
		 "With --pulse-dir: the coordinator that writes its sign of life there is alive, whether or not it\n"
		 "reaches the API server.\n"
		 "Starts no program and opens no GPU; takes milliseconds. Exit status 0: yes; 1: no, and the line\n"
		 "says why.\n\n"
		 "  kmodsmith probe readiness\n"
		 "  kmodsmith probe liveness --stall 600\n",
	.opts = { opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_probe,
};
