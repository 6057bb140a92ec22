// SPDX-License-Identifier: Apache-2.0
// probe: a kubelet calls it every few seconds. It starts no program and opens no GPU; what it cannot measure it reads
// from the files of the last run.
#include "cmd/common/job.h"
#include "status/gpu_operator.h"
#include "status/liveness.h"
#include "status/status_file.h"

#include <limits.h>
#include <stdio.h>

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

struct answer {
	bool is_yes;
	char *why;
};

static int set_answer(struct answer *a, bool is_yes, char *why)
{
	*a = (struct answer){ .is_yes = is_yes, .why = why };
	return 0;
}

// The last run's status, the current state and the supervisor's report must all be good.
static int ask_ready(const struct values *v, const struct machine *m, struct answer *ret, struct err *err)
{
	auto_facts struct facts f = { 0 };
	auto_status struct status s = { 0 };
	auto_json json_t *file = NULL;
	auto_root struct root dev_root = ROOT_NONE;
	struct err why;
	bool has_daemons = true;
	if ((v->dev_root ? root_init(&dev_root, v->dev_root, err) : root_sub(&m->host, ".", &dev_root, err)) < 0 ||
	    facts_read(&m->host, &m->kern, &f, err) < 0 ||
	    status_read(&f, &m->host, &m->kern, &dev_root, &m->sys, &s, err) < 0 ||
	    status_file_read(&m->host, f.host.boot_id, &file, err) < 0 ||
	    gpu_operator_read_ready(&m->host, &has_daemons, err) < 0)
		return -1;
	const char *state = json_string_value(json_object_get(file, "state"));
	if (!s.has_gpu)
		return set_answer(ret, true, str_dup("no NVIDIA function on this machine"));
	if (!str_eq(state, "READY"))
		return set_answer(ret, false,
				  str_fmt("the last run reported %s", state ? state : "nothing in this boot"));
	if (status_error(&s, &why) < 0)
		return set_answer(ret, false, str_dup(why.text));
	if (!has_daemons)
		return set_answer(ret, false, str_dup("the daemons' status is not Ready"));
	return set_answer(ret, true, str_fmt("driver %s", f.loaded.version));
}

// A DaemonSet's rollout continues with the next node once this one's container has started. Files of the previous
// container do not prove that.
static int ask_started(const struct values *v, const struct machine *m, struct answer *ret, struct err *err)
{
	auto_liveness_verdict struct liveness_verdict p = { 0 };
	if (liveness_check(&m->host, LIVENESS_DIR, &m->kern, UINT_MAX, &p, err) < 0)
		return -1;
	if (p.pid && !p.is_serving)
		return set_answer(ret, false, TAKE(p.why));
	return ask_ready(v, m, ret, err);
}

static int ask_alive(const struct values *v, const struct machine *m, struct answer *ret, struct err *err)
{
	enum { STALL_S = 600 };
	auto_liveness_verdict struct liveness_verdict p = { 0 };
	auto_root struct root dir = ROOT_NONE;
	unsigned stall_s = v->stall_s ? v->stall_s : STALL_S;
	if (v->pulse_dir && root_init(&dir, v->pulse_dir, err) < 0)
		return err_wrap(err, "--pulse-dir");
	if (liveness_check(v->pulse_dir ? &dir : &m->host, v->pulse_dir ? "." : LIVENESS_DIR, &m->kern, stall_s, &p,
			   err) < 0)
		return -1;
	return set_answer(ret, p.is_alive, TAKE(p.why));
}

static const struct question {
	const char *name;
	int (*ask)(const struct values *v, const struct machine *m, struct answer *ret, struct err *err);
} questions[] = {
	{ "startup", ask_started },
	{ "readiness", ask_ready },
	{ "liveness", ask_alive },
};

static int run_probe(void *values, char **args, size_t count, struct err *err)
{
	(void)count;
	const struct values *v = values;
	auto_machine struct machine m = { .host = ROOT_NONE, .kern = ROOT_NONE };
	struct answer a = { 0 };
	const struct question *q = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(questions); i++)
		if (str_eq(questions[i].name, args[0]))
			q = &questions[i];
	if (!q)
		return err_set(err, E_USAGE, "unknown probe '%s' (expected startup, readiness or liveness)", args[0]);
	if (machine_open(&v->common, &m, err) < 0 || q->ask(v, &m, &a, err) < 0)
		return -1;
	if (v->common.is_json) {
		auto_json json_t *json =
			json_pack("{s:s, s:b, s:o}", "probe", q->name, "ok", a.is_yes, "why", json_text(a.why));
		show_json(json);
	} else {
		printf("%s: %s, %s\n", q->name, a.is_yes ? "yes" : "no", a.why);
	}
	free(a.why);
	return a.is_yes ? 0 : err_info(E_NOT_READY)->exit_status;
}

const struct cmd cmd_probe = {
	.name = "probe",
	.args = "startup|readiness|liveness",
	.args_min = 1,
	.args_max = 1,
	.help = "answer a kubelet's probe: is it ready, is it alive",
	.about = "readiness: the last run of this boot reported READY, and what it measured still holds.\nstartup: the "
		 "same, and the latest `init` has completed its start.\nliveness: `init` serves, or makes progress; a "
		 "compile that finishes no object for --stall seconds does not.\nWith --pulse-dir: the coordinator "
		 "that writes its sign of life there is alive, whether or not it reaches the API server.\nStarts no "
		 "program and opens no GPU; takes milliseconds. Exit status 0: yes; 1: no, and the line says why.\n\n"
		 "  kmodsmith probe readiness\n"
		 "  kmodsmith probe liveness --stall 600\n",
	.opts = { opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_probe,
};
