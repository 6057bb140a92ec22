// SPDX-License-Identifier: Apache-2.0
// pack headers: a distribution's header packages as something that repositories and bundles can offer (R-A4).
#include "cmd/job.h"
#include "cmd/output.h"
#include "kmod/distro.h"
#include "precompiled/kheaders.h"

#include <stdio.h>

struct values {
	struct common common;
	char *kernel, *output, *state_dir;
};

static const struct opt opts[] = {
	{ "kernel", 'k', "RELEASE", NULL, OPT_STR, offsetof(struct values, kernel), "kernel release that they are of" },
	{ "output", 'o', "NAME", NULL, OPT_STR, offsetof(struct values, output),
	  "oci:DIR adds them to this OCI layout, oci-archive:FILE.tar makes a tar of one; default: the node's store" },
	{ "state-dir", 0, "DIR", "KMODSMITH_STATE_DIR", OPT_STR, offsetof(struct values, state_dir),
	  "where they are unpacked; default as for `install`" },
	{ 0 },
};

struct packing {
	struct machine machine;
	struct root state, store, dir; // dir: in the header store, the tree
	struct strv files;
	struct output output;
	struct tree tree;
	struct descriptor manifest;
};

static void packing_done(struct packing *p)
{
	descriptor_done(&p->manifest);
	tree_done(&p->tree);
	output_done(&p->output);
	strv_done(&p->files);
	root_done(&p->dir);
	root_done(&p->store);
	root_done(&p->state);
	machine_done(&p->machine);
}

static int open_all(const struct values *v, char **args, size_t count, struct packing *p, struct err *err)
{
	struct job_values job = { .state_dir = v->state_dir };
	if (!v->kernel)
		return err_set(err, E_USAGE, "pack headers needs --kernel RELEASE");
	for (size_t i = 0; i < count; i++)
		strv_split(&p->files, args[i], ",");
	job.headers = p->files; // borrowed
	if (job_inputs(&job, err) < 0 || machine_open(&v->common, &p->machine, err) < 0 ||
	    job_state(&job, &p->machine, &p->state, err) < 0 || root_mkdirs(&p->state, "headers", 0755, err) < 0 ||
	    root_sub(&p->state, "headers", &p->store, err) < 0)
		return -1;
	return output_init(&p->output, v->output, &p->state, err);
}

// Which kernels the files are of says more than where nothing was found.
static int open_tree(const struct values *v, struct packing *p, struct err *err)
{
	auto_strv struct strv found = { 0 };
	struct err why;
	if (tree_releases(&p->dir, &found, err) < 0)
		return -1;
	if (tree_open(&p->dir, v->kernel, &p->tree, &why) == 0)
		return 0;
	*err = why;
	if (!found.count || strv_has(&found, v->kernel))
		return -1;
	auto_str char *text = strv_join(&found, ", ");
	return err_set(err, E_HEADERS_MISMATCH, "the files are of kernel %s, wanted is %s", text, v->kernel);
}

static int make(const struct values *v, struct packing *p, struct err *err)
{
	const struct layout *into = NULL;
	char digest[DIGEST_HEX + 1];
	if (headers_import(&p->files, &p->store, digest, err) < 0 || root_sub(&p->store, digest, &p->dir, err) < 0 ||
	    open_tree(v, p, err) < 0 || output_layout(&p->output, &into, err) < 0)
		return -1;
	const struct tree *t = &p->tree;
	auto_str char *distro = distro_of(t->release, t->banner);
	struct kheaders_key key = {
		.release = t->release, .arch = t->arch, .build_id = *t->build_id ? t->build_id : NULL, .distro = distro
	};
	return kheaders_create(into, &p->dir, &key, &p->manifest, err) < 0 ? -1 : output_finish(&p->output, err);
}

static void show(const struct values *v, const struct packing *p)
{
	const struct tree *t = &p->tree;
	struct kheaders_key key = { .release = t->release, .arch = t->arch };
	auto_str char *tag = kheaders_tag(&key), *digest = oci_digest_text(p->manifest.digest);
	const char *place = p->output.name ? p->output.name : "the store";
	auto_json json_t *json = json_pack("{s:s, s:s, s:o, s:s, s:s, s:o}", "tag", tag, "digest", digest, "into",
					   json_text(place), "kernel", t->release, "arch", t->arch, "build_id",
					   json_text(*t->build_id ? t->build_id : NULL));
	if (v->common.is_json)
		show_json(json);
	else
		printf("%s %s in %s\n", tag, digest, place);
}

static int run(void *values, char **args, size_t count, struct err *err)
{
	const struct values *v = values;
	struct packing p = { .machine = { .host = ROOT_NONE, .kern = ROOT_NONE },
			     .state = ROOT_NONE,
			     .store = ROOT_NONE,
			     .dir = ROOT_NONE,
			     .output = OUTPUT_NONE,
			     .tree = { .root = ROOT_NONE } };
	int r = open_all(v, args, count, &p, err);
	if (r == 0)
		r = make(v, &p, err);
	if (r == 0)
		show(v, &p);
	packing_done(&p);
	return r;
}

const struct cmd cmd_pack_headers = {
	.name = "pack headers",
	.args = "FILE,... [FILE...]",
	.args_min = 1,
	.args_max = 16,
	.help = "a kernel's header packages, for nodes that must compile and have none",
	.about = "FILEs are all header packages of one kernel: .deb, .rpm or .tar.*. A node or a `build` that finds no "
		 "headers "
		 "on\n"
		 "the host takes these from its store, a repository (--from) or a bundle (--bundle), signed as "
		 "packages are.\n\n"
		 "  kmodsmith pack headers linux-headers-A.deb,linux-headers-B.deb,linux-kbuild.deb \\\n"
		 "      --kernel 6.1.0-56-cloud-amd64 --output oci:DIR\n",
	.opts = { opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run,
};
