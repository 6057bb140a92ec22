// SPDX-License-Identifier: Apache-2.0
// plan and install: the same job, shown or done.
#include "acquire/source_url.h"
#include "cmd/common/entry.h"
#include "cmd/common/job.h"

#include <stdio.h>
#include <unistd.h>

struct values {
	struct job_values job;
	bool is_dry_run, is_stage;
};

static const struct opt dry_run_opts[] = {
	{ "dry-run", 'n', NULL, NULL, OPT_FLAG, offsetof(struct values, is_dry_run), "show the plan, do nothing" },
	{ "stage", 0, NULL, NULL, OPT_FLAG, offsetof(struct values, is_stage),
	  "fetch or compile what is needed, prove it and keep it in the store; the loaded driver is not touched" },
	{ 0 },
};

static json_t *plan_json(const struct job *j)
{
	auto_json json_t *steps = json_array();
	const struct plan *p = &j->session.plan;
	for (size_t i = 0; i < p->count; i++)
		json_array_append_new(steps,
				      json_pack("{s:s, s:o, s:o}", "step", plan_step_name(p->steps[i].kind), "subject",
						json_text(p->steps[i].subject), "why", json_text(p->steps[i].why)));
	return json_pack("{s:s, s:o, s:s, s:o, s:o, s:o, s:O}", "outcome", plan_outcome_name(p->outcome), "driver",
			 json_text(p->driver), "flavour", module_type_name(p->flavour), "flavour_why",
			 json_text(p->flavour_why), "kernel", json_text(j->session.facts.host.release), "compatible",
			 status_json_compatible(p->compatible), "steps", steps);
}

static void show_plan(const struct job *j)
{
	auto_strv struct strv rows = { 0 };
	const struct plan *p = &j->session.plan;
	if (p->outcome == PLAN_NO_GPU) {
		printf("NO_GPU: no NVIDIA function on this machine, nothing to do\n");
		return;
	}
	printf("driver %s, %s (%s), kernel %s\n", p->driver, module_type_name(p->flavour), p->flavour_why,
	       j->session.facts.host.release);
	for (size_t i = 0; i < p->count; i++)
		strv_add(&rows, str_fmt("%zu\t%s\t%s\t%s", i + 1, plan_step_name(p->steps[i].kind), p->steps[i].subject,
					p->steps[i].why));
	show_table(&rows);
}

// The steps, and then what would stop them: the exit status is that of the install.
static int show_dry_run(struct job *j, struct err *err)
{
	bool is_json = j->values->origin.remote.common.is_json;
	int r = session_foresee(&j->session, err);
	auto_json json_t *json = plan_json(j);
	if (r < 0)
		entry_add_origin(err);
	if (is_json && r < 0)
		json_object_set_new(json, "error", status_json_error(err));
	if (is_json)
		show_json(json);
	else
		show_plan(j);
	if (r < 0)
		log_err(err);
	return r < 0 ? err_info(err->code)->exit_status : 0;
}

// With the phases up to the failure and their times.
static int show_install_failure(const struct job *j, struct err *err)
{
	if (!j->values->origin.remote.common.is_json)
		return -1;
	entry_add_origin(err);
	auto_json json_t *json = show_failure_json(err);
	log_err(err);
	json_object_set_new(json, "phases", status_json_phases(&j->session.progress));
	show_json(json);
	return err_info(err->code)->exit_status;
}

// A key of the configuration, as a word of the shell. false: no word is simple enough.
static bool add_key(const char *key, const char *value, char **text)
{
	if (value && !value[strcspn(value, "'\n")])
		str_add(text, " '%s = %s'", key, value);
	return !value || !value[strcspn(value, "'\n")];
}

// The user space that is exported brought the sources of its driver.
static bool has_payload_source(const struct session *s)
{
	auto_str char *path = str_fmt("payloads/%s/usr/src/nvidia-%s", s->acquire.payload, s->plan.driver);
	return *s->acquire.payload && root_exists(&s->state, path);
}

// Says how to configure what was only typed, which the next boot and the next kernel forget.
static void offer_configuration(const struct job *j)
{
	static const char *const keys[] = { "driver", "package", "source", "from", "bundle" };
	const struct job_values *v = j->values;
	const char *source = v->request.source;
	auto_str char *text = NULL;
	if (entry_source_of("source") != OPT_FLAGS)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (entry_is_configured(keys[i]))
			return;
	auto_str char *here = *source == '/' || source_url_is(source) ? NULL : getcwd(NULL, 0);
	auto_str char *path = str_fmt("%s%s%s", here ? here : "", here ? "/" : "", source);
	bool is_kept = has_payload_source(&j->session);
	if (add_key("driver", j->session.plan.driver, &text) &&
	    add_key("source",
		    is_kept ? NULL :
		    path    ? path :
			      source,
		    &text) &&
	    add_key("source-sha256", is_kept ? NULL : v->request.source_sha256, &text) &&
	    add_key("flavour", v->flavour, &text) && add_key("export", v->export, &text))
		log_info("to have it at each boot, and for the next kernel: printf '%%s\\n'%s >>%s%s", text,
			 entry_config_name(),
			 root_exists(&j->machine.host, "run/systemd/system") ?
				 " && systemctl enable --now kmodsmith kmodsmith-watch" :
				 "");
}

static int run_install(void *values, char **args, size_t count, struct err *err)
{
	struct values *v = values;
	if (count && strchr(args[0], '/'))
		return err_set(err, E_USAGE, "'%s' is not a driver version; to compile from source use --source %s",
			       args[0], args[0]);
	v->job.has_branch = count || !entry_is_configured("driver"); // what is configured does not move by itself
	bool is_json = v->job.origin.remote.common.is_json, is_stage = v->is_stage && !v->is_dry_run;
	auto_job struct job job = JOB_NONE;
	auto_status struct status status = { 0 };
	const struct plan *plan = &job.session.plan;
	v->job.request.is_stage = is_stage;
	int r = job_open(&v->job, !v->is_dry_run && !is_stage, &job, err);
	if (v->is_dry_run)
		return r < 0 ? -1 : show_dry_run(&job, err);
	if (r == 0 && plan->outcome != PLAN_NO_GPU)
		r = is_stage ? job_stage(&job, err) : job_apply(&job, &status, err);
	if (r < 0)
		return show_install_failure(&job, err);
	if (is_json) {
		// "compared" says what the proof rests on; null: the plan had none.
		bool has_proof = plan_has(plan, STEP_PROVE);
		auto_json json_t *json = json_pack("{s:o, s:o, s:o}", "plan", plan_json(&job), "compared",
						   json_text(has_proof ? proof_basis_name(job.session.compared) : NULL),
						   "phases", status_json_phases(&job.session.progress));
		if (!is_stage)
			json_object_set_new(json, "status", status_json_status(&status));
		show_json(json);
	} else if (!is_stage) {
		show_status(&status);
		if (plan->outcome != PLAN_NO_GPU)
			offer_configuration(&job);
	} else if (plan->outcome != PLAN_NO_GPU) {
		printf("%s %s is in the store; nothing was touched\n", plan->driver, module_type_name(plan->flavour));
	}
	return 0;
}

static int run_plan(void *values, char **args, size_t count, struct err *err)
{
	struct values *v = values;
	v->is_dry_run = true;
	return run_install(values, args, count, err);
}

// `install --bundle FILE` by another name, beside the other verbs that a bundle has.
static int run_bundle(void *values, char **args, size_t count, struct err *err)
{
	(void)count;
	return run_install(values, args, 0, err);
}

const struct cmd cmd_plan = {
	.name = "plan",
	.args = "[VERSION]",
	.args_max = 1,
	.args_option = "driver",
	.help = "show what install would do, and why",
	.about = "Reads the machine and shows the steps that `install` would take. The driver is not changed; a\n"
		 "source is unpacked below the state directory.\n\n"
		 "  kmodsmith plan 535.261.03\n"
		 "  kmodsmith plan --source NVIDIA-Linux-x86_64-535.261.03.run --json\n",
	.often = "driver,source,from,package,flavour,headers,holders,export",
	.opts = { source_opts, module_key_opts, distribution_opts, job_opts, share_opts, package_opts, origin_opts,
		  remote_opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_plan,
};

const struct cmd cmd_install = {
	.name = "install",
	.args = "[VERSION]",
	.args_max = 1,
	.args_option = "driver",
	.help = "install the driver on this machine, once",
	.about = "Finds or compiles the modules, proves that they fit the running kernel, loads them, makes the\n"
		 "device nodes and measures the result. Until the proof the running driver is not touched; a\n"
		 "failure after it is undone.\n"
		 "When the requested modules are already loaded, nothing is unloaded or loaded.\n"
		 "At each boot kmodsmith.service installs what /etc/kmodsmith/kmodsmith.conf names: \"driver =\n"
		 "535.261.03\".\n\n"
		 "  kmodsmith install --source FILE             compile against the host's headers, or use a stored "
		 "package\n"
		 "  kmodsmith install 535.261.03                what `kmodsmith store ls` lists, also to go back to "
		 "it\n"
		 "  kmodsmith install 535.261.03 --from docker://registry.example/drivers     signed packages of a "
		 "site\n"
		 "  kmodsmith install --source FILE --export /run/nvidia/driver               and user space for "
		 "containers\n",
	.often = "driver,source,from,package,flavour,headers,holders,export",
	.opts = { source_opts, module_key_opts, distribution_opts, job_opts, share_opts, package_opts, origin_opts,
		  remote_opts, dry_run_opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_install,
};

const struct cmd cmd_bundle_install = {
	.name = "bundle install",
	.args = "FILE",
	.args_min = 1,
	.args_max = 1,
	.args_option = "bundle",
	.help = "install the driver on this machine, from a bundle only",
	.about = "The same as `kmodsmith install --bundle FILE`: it contacts no remote source and resolves no name.\n\n"
		 "  kmodsmith bundle install site.tar --driver 535.261.03\n",
	.often = "driver,flavour,holders",
	.opts = { dry_run_opts, source_opts, module_key_opts, distribution_opts, job_opts, share_opts, package_opts,
		  origin_opts, remote_opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_bundle,
};
