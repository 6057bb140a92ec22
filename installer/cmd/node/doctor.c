// SPDX-License-Identifier: Apache-2.0
#include "plan/doctor.h"
#include "cmd/common/job.h"
#include "host/capabilities.h"

#include <stdio.h>

struct values {
	struct job_values job;
};

static const struct opt opts[] = {
	{ "driver", 'd', "VERSION", "DRIVER_VERSION", OPT_STR, offsetof(struct values, job.driver),
	  "driver version that is to serve the GPUs; default: the loaded one, else any" },
	{ "flavour", 'f', "auto|open|proprietary", "KERNEL_MODULE_TYPE", OPT_STR, offsetof(struct values, job.flavour),
	  "its modules; auto decides by the GPUs and the driver branch" },
	{ "headers", 0, "FILE,...", "KMODSMITH_HEADERS", OPT_LIST, offsetof(struct values, job.request.headers),
	  "kernel header packages (.deb, .rpm, .tar.*) instead of the host's tree" },
	{ "state-dir", 0, "DIR", "KMODSMITH_STATE_DIR", OPT_STR, offsetof(struct values, job.state_dir),
	  "state directory: packages, headers, scratch; default /var/lib/kmodsmith of the host" },
	{ 0 },
};

static const char *next_step(const struct doctor_finding *x)
{
	return x->next ? x->next : x->code ? err_info(x->code)->next : NULL;
}

static json_t *findings_json(const struct doctor_findings *f)
{
	json_t *list = json_array();
	for (size_t i = 0; i < f->count; i++) {
		const struct doctor_finding *x = &f->items[i];
		json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:o, s:o}", "name", x->name, "state",
						      doctor_state_name(x->state), "evidence", json_text(x->evidence),
						      "code", json_text(x->code ? err_info(x->code)->name : NULL),
						      "next", json_text(next_step(x))));
	}
	return list;
}

static void show_findings(const struct doctor_findings *f)
{
	auto_strv struct strv rows = { 0 };
	for (size_t i = 0; i < f->count; i++) {
		const struct doctor_finding *x = &f->items[i];
		strv_add(&rows, str_fmt("%s\t%s\t%s%s%s", doctor_state_name(x->state), x->name,
					x->code ? err_info(x->code)->name : "", x->code ? ": " : "", x->evidence));
		if (x->code)
			strv_add(&rows, str_fmt("\t\tnext: %s", next_step(x)));
	}
	show_table(&rows);
	printf("%s.\n", f->summary);
	if (f->next)
		printf("next: %s\n", f->next);
}

static int run_doctor(void *values, char **args, size_t count, struct err *err)
{
	(void)args, (void)count;
	const struct values *v = values;
	auto_machine struct machine m = MACHINE_NONE;
	auto_job_temp_state struct job_temp_state spare = JOB_TEMP_STATE_NONE;
	auto_root struct root state = ROOT_NONE, patches = ROOT_NONE; // patches: never open
	auto_doctor_findings struct doctor_findings f = { 0 };
	struct request request; // no modules are named
	if (job_check_driver(v->job.driver, err) < 0 || job_request(&v->job, &patches, &request, err) < 0 ||
	    job_check_inputs(&v->job, err) < 0 || machine_open(&v->job.origin.remote.common, &m, err) < 0 ||
	    job_state_for_reading(&v->job, &m, &spare, &state, err) < 0)
		return -1;
	m.node.state = &state;
	if (doctor_read(&m.node, &request, &f, err) < 0)
		return -1;
	if (v->job.origin.remote.common.is_json) {
		auto_json json_t *json =
			json_pack("{s:o, s:i, s:o, s:s, s:o}", "checks", findings_json(&f), "failed", (int)f.failed,
				  "rights", capabilities_json(), "summary", f.summary, "next", json_text(f.next));
		show_json(json);
	} else {
		show_findings(&f);
	}
	return f.failed ? 1 : 0;
}

const struct cmd cmd_doctor = {
	.name = "doctor",
	.help = "check every precondition of an install: pass, warn or fail, and the next step",
	.about = "Changes nothing. Exit status 1 when something would make every install fail; a warning matters only\n"
		 "in the case that it names.\n\n"
		 "  kmodsmith doctor\n"
		 "  kmodsmith doctor --driver 580.95.05\n"
		 "  kmodsmith doctor --json | jq .failed\n",
	.opts = { opts, module_key_opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_doctor,
};
