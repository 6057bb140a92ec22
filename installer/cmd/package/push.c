// SPDX-License-Identifier: Apache-2.0
// push: copy from a layout, a bundle or any repository to a registry or a layout, with signatures and catalogue.
#include "cmd/common/job.h"
#include "precompiled/package/copy.h"

#include <stdio.h>

struct values {
	struct remote_values remote;
	char *state_dir;
	struct strv tags;
};

static const struct opt opts[] = {
	{ "tag", 't', "TAG,...", NULL, OPT_LIST, offsetof(struct values, tags), "only these tags; default: all" },
	{ "state-dir", 0, "DIR", "KMODSMITH_STATE_DIR", OPT_STR, offsetof(struct values, state_dir),
	  "working directory; default as for `install`" },
	{ 0 },
};

struct push_job {
	struct machine machine;
	struct remote_access remote;
	struct repository *from, *to;
	struct root state;
	struct scratch work;
	struct layout layout; // what is pushed
	struct strv pushed;
};

static void push_job_done(struct push_job *p)
{
	repository_free(p->from);
	repository_free(p->to);
	layout_done(&p->layout);
	scratch_done(&p->work);
	root_done(&p->state);
	strv_done(&p->pushed);
	remote_access_done(&p->remote);
	machine_done(&p->machine);
}
#define auto_push_job __attribute__((cleanup(push_job_done)))

static void on_pushed(void *ctx, const char *tag)
{
	struct push_job *p = ctx;
	strv_add(&p->pushed, str_dup(tag));
	log_info("push        %s to %s", tag, p->to->name);
}

static int run_push(void *values, char **args, size_t count, struct err *err)
{
	const struct values *v = values;
	const struct job_values job = { .state_dir = v->state_dir };
	auto_str char *from = origin_name(args[0]), *to = origin_name(args[1]);
	auto_strv struct strv all = { 0 };
	auto_push_job struct push_job p = {
		.machine = MACHINE_NONE, .state = ROOT_NONE, .work = SCRATCH_NONE, .layout = LAYOUT_NONE
	};
	(void)count;
	if (machine_open(&v->remote.common, &p.machine, err) < 0 ||
	    remote_access_open(&v->remote, &p.remote, err) < 0 ||
	    repository_open(from, &p.remote.options, &p.from, err) < 0 ||
	    repository_open(to, &p.remote.options, &p.to, err) < 0 || job_state(&job, &p.machine, &p.state, err) < 0 ||
	    scratch_make(&p.state, "push", &p.work, err) < 0 || layout_make(&p.work.root, &p.layout, err) < 0 ||
	    (!v->tags.count && repository_tags(p.from, &all, err) < 0))
		return -1;
	const struct strv *tags = v->tags.count ? &v->tags : &all;
	for (size_t i = 0; i < tags->count; i++) {
		if (str_starts(tags->items[i], "sha256-")) // a signature: copied with the package that it signs
			continue;
		int r = copy_to_layout(p.from, tags->items[i], &p.layout, err);
		if (r <= 0)
			return r < 0 ? -1 : err_set(err, E_NOT_FOUND, "%s has no %s", p.from->name, tags->items[i]);
	}
	if (copy_to_repository(&p.layout, p.to, on_pushed, &p, err) < 0)
		return -1;
	if (v->remote.common.is_json) {
		auto_json json_t *json = json_pack("{s:s, s:o}", "to", p.to->name, "tags", json_strv(&p.pushed));
		show_json(json);
	} else {
		printf("%zu tag%s in %s\n", p.pushed.count, str_plural(p.pushed.count), p.to->name);
	}
	return 0;
}

const struct cmd cmd_push = {
	.name = "push",
	.args = "SOURCE DEST",
	.args_min = 2,
	.args_max = 2,
	.help = "copy packages to a registry or a layout",
	.about =
		"Copies packages with their signatures and the catalogue; digests do not change. A tag is pushed after "
		"all its\n"
		"content. SOURCE is " REPOSITORY_NAMES ";\n"
		"DEST is oci:DIR or docker://HOST/NAME.\n\n"
		"  kmodsmith push oci:packages docker://registry.example/drivers\n",
	.opts = { opts, remote_opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_push,
};
