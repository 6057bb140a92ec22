// SPDX-License-Identifier: Apache-2.0
#include "acquire/check.h"
#include "cmd/common/job.h"

#include <stdio.h>

struct values {
	struct job_values job;
	char *kernel, *arch;
};

static const struct opt opts[] = {
	{ "kernel", 'k', "RELEASE", "KERNEL_VERSION", OPT_STR, offsetof(struct values, kernel),
	  "kernel release to check; default: the running one" },
	{ "arch", 0, "ARCH", NULL, OPT_STR, offsetof(struct values, arch), ARCH_HELP "that of its headers" },
	{ "package", 'p', "NAME", "KMODSMITH_PACKAGE", OPT_STR, offsetof(struct values, job.origin.package),
	  "a package made by `kmodsmith build`" },
	{ "reuse", 0, "off|series|on", "KMODSMITH_REUSE", OPT_STR, offsetof(struct values, job.reuse), REUSE_HELP },
	{ 0 },
};

struct check_job {
	struct machine machine;
	struct host host;
	struct gpus gpus;
	struct job_temp_state spare;
	struct root state, patches;
	struct scratch work, layout_work;
	struct layout layout;
	struct package package;
	struct source source;
	struct request request;
};

static void check_job_done(struct check_job *c)
{
	package_done(&c->package);
	source_done(&c->source);
	strv_done(&c->request.modules);
	host_done(&c->host);
	gpus_done(&c->gpus);
	layout_done(&c->layout);
	scratch_done(&c->layout_work);
	scratch_done(&c->work);
	root_done(&c->patches);
	root_done(&c->state);
	job_temp_state_done(&c->spare);
	machine_done(&c->machine);
}

// The newest driver, for any kernel: it is only checked.
static int read_package(const char *name, struct check_job *c, struct err *err)
{
	static const struct package_want any;
	auto_str char *repository = origin_name(name);
	auto_strv struct strv from = { 0 };
	auto_fetch_result struct fetch_result found = FETCH_RESULT_NONE;
	struct repository_options options = { 0 };
	struct fetch fetch = { .from = &from, .options = &options, .state = &c->state };
	strv_add(&from, TAKE(repository));
	if (scratch_make(&c->state, "check", &c->layout_work, err) < 0 ||
	    layout_make(&c->layout_work.root, &c->layout, err) < 0 || fetch_find(&fetch, &any, &found, err) < 0 ||
	    fetch_take(&fetch, &any, &found, &c->layout, err) < 0)
		return -1;
	package_move(&found.candidate.package, &c->package);
	return 0;
}

static int open_inputs(const struct values *v, struct check_job *c, struct err *err)
{
	const struct job_values *j = &v->job;
	if (job_check_inputs(j, err) < 0 || machine_open(&j->origin.remote.common, &c->machine, err) < 0 ||
	    job_state_for_reading(j, &c->machine, &c->spare, &c->state, err) < 0 ||
	    host_read(&c->machine.host, &c->machine.kern, &c->host, err) < 0 ||
	    gpus_read(&c->machine.kern, &c->gpus, err) < 0 || job_request(j, &c->patches, &c->request, err) < 0)
		return -1;
	if (j->origin.package && read_package(j->origin.package, c, err) < 0)
		return -1;
	const char *source = c->request.source, *sha256 = c->request.source_sha256;
	if (!source)
		return 0;
	auto_str char *path = NULL;
	if (scratch_make(&c->state, "check", &c->work, err) < 0 ||
	    job_fetch_source(j, source, sha256, &c->state, &path, err) < 0)
		return -1;
	return source_open(path ? path : source, sha256, &c->work.root, &c->source, err);
}

static int check_inputs(const struct values *v, struct check_job *c, struct check_result *ret, struct err *err)
{
	c->machine.node.state = &c->state;
	struct check_request request = {
		.asked = &c->request,
		.release = v->kernel ? v->kernel : c->host.release,
		.package = c->package.count ? &c->package : NULL,
		.source = c->source.version ? &c->source : NULL,
		.gpus = &c->gpus,
		.node = &c->machine.node,
	};
	return job_parse_arch(v->arch, &request.arch, err) < 0 ? -1 : check_kernel(&request, ret, err);
}

static void show_check_result(const struct values *v, const struct check_result *r)
{
	const char *verdict = r->verdict == VERDICT_OK          ? "ok" :
			      r->verdict == VERDICT_COMPATIBLE  ? "compatible" :
			      r->verdict == VERDICT_NEEDS_BUILD ? "needs-build" :
								  "impossible";
	const struct err_info *info = r->code ? err_info(r->code) : NULL;
	if (v->job.origin.remote.common.is_json) {
		auto_json json_t *json =
			json_pack("{s:s, s:i, s:o, s:o, s:b, s:o, s:o, s:o}", "verdict", verdict, "exit",
				  (int)r->verdict, "code", json_text(info ? info->name : NULL), "reason",
				  json_text(r->reason), "untried", r->is_untried, "evidence", json_text(r->evidence),
				  "compared", json_text(r->compared), "next", json_text(info ? info->next : NULL));
		show_json(json);
		return;
	}
	printf("%s: %s%s%s\n", verdict, info ? info->name : "", info ? ": " : "", r->reason);
	printf("compared with: %s\n", r->evidence);
	if (info)
		printf("next: %s\n", info->next);
}

static int run_check(void *values, char **args, size_t count, struct err *err)
{
	(void)args, (void)count;
	const struct values *v = values;
	struct check_job c = { .machine = MACHINE_NONE,
			       .state = ROOT_NONE,
			       .patches = ROOT_NONE,
			       .work = SCRATCH_NONE,
			       .layout_work = SCRATCH_NONE,
			       .layout = LAYOUT_NONE,
			       .package = PACKAGE_NONE,
			       .source = { .root = ROOT_NONE } };
	auto_check_result struct check_result result = { 0 };
	int r = open_inputs(v, &c, err);
	if (r == 0)
		r = check_inputs(v, &c, &result, err);
	if (r == 0)
		show_check_result(v, &result);
	check_job_done(&c);
	return r < 0 ? r : (int)result.verdict;
}

const struct cmd cmd_check = {
	.name = "check",
	.help = "can a kernel be served? ok, compatible, needs-build or impossible, and why",
	.about = "Needs no GPU, no root and, but for a --source that is a URL, no network. With --package it proves\n"
		 "the modules against the kernel; with --source it looks for headers, compiler and known\n"
		 "obstacles. Exit status: 0 ok, 10 compatible (made for another release, all symbol CRCs equal, and\n"
		 "--reuse allows it), 20 needs-build, 30 impossible; 1 and 2 are errors of the check itself.\n\n"
		 "  kmodsmith check --kernel 6.1.0-56-cloud-amd64 --headers A.deb,B.deb,C.deb --source DRIVER.deb\n",
	.opts = { source_opts, opts, remote_opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_check,
};
