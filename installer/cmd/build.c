// SPDX-License-Identifier: Apache-2.0
#include "cmd/job.h"

#include <stdio.h>

struct values {
	struct job_values job;
	char *kernel, *output;
};

static const struct opt opts[] = {
	{ "kernel", 'k', "RELEASE", "KERNEL_VERSION", OPT_STR, offsetof(struct values, kernel),
	  "target kernel release; default: the running one" },
	{ "output", 'o', "DIR", NULL, OPT_STR, offsetof(struct values, output),
	  "the package becomes this directory; default: kept in the state directory" },
	{ 0 },
};

struct build {
	struct machine machine;
	struct host host;
	struct gpus gpus;
	struct root state, patches, output;
	struct strv modules;
	char *output_name;
	struct watch watch;
	struct package package;
	struct compile_report report;
};

static void build_done(struct build *b)
{
	package_done(&b->package);
	compile_report_done(&b->report);
	strv_done(&b->modules);
	watch_done(&b->watch);
	host_done(&b->host);
	gpus_done(&b->gpus);
	free(b->output_name);
	root_done(&b->output);
	root_done(&b->patches);
	root_done(&b->state);
	machine_done(&b->machine);
}

// --output DIR is a directory in its parent, so that it can appear whole.
static int open_output(const struct values *v, struct build *b, struct err *err)
{
	if (!v->output)
		return root_mkdirs(&b->state, "packages", 0755, err) < 0 ?
			       -1 :
			       root_sub(&b->state, "packages", &b->output, err);
	size_t len = strlen(v->output);
	while (len > 1 && v->output[len - 1] == '/')
		len--;
	auto_str char *path = str_ndup(v->output, len);
	char *slash = strrchr(path, '/');
	b->output_name = str_dup(slash ? slash + 1 : path);
	if (!*b->output_name || str_eq(b->output_name, ".") || str_eq(b->output_name, ".."))
		return err_set(err, E_USAGE, "--output '%s' must name a directory of its own", v->output);
	if (slash)
		slash[slash == path] = '\0';
	return root_make(slash ? path : ".", &b->output, err);
}

static int open_all(const struct values *v, struct build *b, struct err *err)
{
	const struct job_values *j = &v->job;
	if (job_inputs(j, err) < 0 || machine_open(&j->common, &b->machine, err) < 0 ||
	    job_state(j, &b->machine, &b->state, err) < 0 || open_output(v, b, err) < 0 ||
	    (j->patches && root_init(&b->patches, j->patches, err) < 0))
		return -1;
	// The machine only matters when it is the target, or for its GPUs; a build host has neither.
	if (host_read(&b->machine.host, &b->machine.kern, &b->host, err) < 0 ||
	    gpus_read(&b->machine.kern, &b->gpus, err) < 0)
		return -1;
	job_modules(&j->modules, &b->modules);
	return 0;
}

static int make(const struct values *v, struct build *b, struct err *err)
{
	const struct job_values *j = &v->job;
	const char *release = v->kernel ? v->kernel : b->host.release;
	struct compile_wish wish = {
		.release = release,
		.banner = str_eq(release, b->host.release) && !j->headers.count ? b->host.banner : NULL,
		.source_path = j->source,
		.source_sha256 = j->source_sha256,
		.headers = &j->headers,
		.modules = &b->modules,
		.gpus = &b->gpus,
		.host = &b->machine.host,
		.kern = &b->machine.kern,
		.state = &b->state,
		.patches = j->patches ? &b->patches : NULL,
		.jobs = j->jobs,
		.timeout_s = j->timeout_s,
		.is_rt_allowed = j->is_rt_allowed,
		.output = &b->output,
		.name = b->output_name,
	};
	if (job_flavour(j, &wish.flavour, err) < 0)
		return -1;
	return compile_package(&wish, &b->watch, &b->package, &b->report, err);
}

static void show(const struct values *v, const struct build *b)
{
	const struct package *p = &b->package;
	auto_json json_t *json = json_pack("{s:o, s:o, s:o, s:o, s:i, s:i, s:i}", "package", json_text(p->dir.name),
					   "key", package_key_json(&p->key), "phases", phases_json(&b->watch),
					   "headers", json_text(b->report.headers_from), "jobs", b->report.jobs,
					   "objects", (int)b->report.objects, "peak_kib", (int)b->report.peak_kib);
	if (v->job.common.is_json) {
		show_json(json);
		return;
	}
	auto_strv struct strv rows = { 0 };
	for (size_t i = 0; i < p->count; i++)
		strv_add(&rows, str_fmt("%s\t%llu bytes\tsha256 %s", p->files[i].name,
					(unsigned long long)p->files[i].size, p->files[i].sha256));
	show_table(&rows);
	for (size_t i = 0; i < p->key.patches.count; i++)
		printf("patch %s\n", p->key.patches.items[i]);
	printf("%s\n", p->dir.name);
}

static int run(void *values, char **args, size_t count, struct err *err)
{
	(void)args, (void)count;
	const struct values *v = values;
	struct build b = { .machine = { .host = ROOT_NONE, .kern = ROOT_NONE },
			   .state = ROOT_NONE,
			   .patches = ROOT_NONE,
			   .output = ROOT_NONE,
			   .package = { .dir = ROOT_NONE },
			   .watch = show_watch() };
	int r = v->job.source ? open_all(v, &b, err) : err_set(err, E_USAGE, "build needs --source PATH");
	if (r == 0)
		r = make(v, &b, err);
	if (r == 0)
		show(v, &b);
	build_done(&b);
	return r;
}

const struct cmd cmd_build = {
	.name = "build",
	.help = "compile a driver for a kernel into a package",
	.about = "Needs no GPU, no root and no network. The same source, headers and compiler give the same bytes.\n\n"
		 "  kmodsmith build --source nvidia-open-kernel-source_535.261.03-1_amd64.deb \\\n"
		 "      --kernel 6.1.0-56-cloud-amd64 --headers A.deb,B.deb,C.deb --output DIR\n",
	.opts = { source_opts, opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run,
};
