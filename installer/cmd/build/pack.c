// SPDX-License-Identifier: Apache-2.0
// pack headers, pack payload: packs distribution packages as assets for repositories and bundles (R-A4).
#include "cmd/common/job.h"
#include "cmd/common/output.h"
#include "kmod/kernel_tree/distro.h"
#include "precompiled/package/asset.h"
#include "precompiled/payload/image_dir.h"

#include <stdio.h>

struct values {
	struct common common;
	char *kernel, *driver, *arch, *base, *output, *state_dir;
};

#define OUTPUT_OPTS(help)                                                                                  \
	{ "output", 'o', "NAME", NULL, OPT_STR, offsetof(struct values, output), help },                   \
	{                                                                                                  \
		"state-dir", 0, "DIR", "KMODSMITH_STATE_DIR", OPT_STR, offsetof(struct values, state_dir), \
			"where the files are unpacked; default as for `install`"                           \
	}

static const struct opt headers_opts[] = {
	{ "kernel", 'k', "RELEASE", NULL, OPT_STR, offsetof(struct values, kernel), "kernel release of the headers" },
	OUTPUT_OPTS(OUTPUT_HELP),
	{ 0 },
};
static const struct opt payload_opts[] = {
	{ "driver", 'd', "VERSION", NULL, OPT_STR, offsetof(struct values, driver), "driver version of the files" },
	{ "arch", 0, "ARCH", NULL, OPT_STR, offsetof(struct values, arch), "x86_64, aarch64; default: this machine's" },
	{ "base", 0, "TAR", NULL, OPT_STR, offsetof(struct values, base),
	  "root file system to build on, so that programs run after a chroot" },
	OUTPUT_OPTS(OUTPUT_HELP "; dir:DIR creates a directory for --payload"),
	{ 0 },
};

struct pack_job {
	struct machine machine;
	struct root state, store, dir; // dir: in the header store, the tree
	struct scratch work;           // a payload's tree
	struct strv files;
	struct output output;
	struct tree tree;
	struct host host;
	struct asset_key key; // borrows from the rest
	char *distro;
	struct oci_descriptor manifest;
	struct image_dir carried; // the result of dir:DIR
};

static void pack_job_done(struct pack_job *p)
{
	image_dir_done(&p->carried);
	oci_descriptor_done(&p->manifest);
	free(p->distro);
	host_done(&p->host);
	tree_done(&p->tree);
	output_done(&p->output);
	strv_done(&p->files);
	scratch_done(&p->work);
	root_done(&p->dir);
	root_done(&p->store);
	root_done(&p->state);
	machine_done(&p->machine);
}
#define auto_pack_job __attribute__((cleanup(pack_job_done)))

// DIR of dir:DIR; NULL = other output.
static const char *image_dir_name(const struct values *v)
{
	static const char DIR[] = "dir:";
	return v->output && str_starts(v->output, DIR) ? v->output + strlen(DIR) : NULL;
}

static int put_asset(struct pack_job *p, const struct root *tree, struct err *err)
{
	const struct layout *into = NULL;
	return output_layout(&p->output, &into, err) < 0 || asset_create(into, tree, &p->key, &p->manifest, err) < 0 ?
		       -1 :
		       output_finish(&p->output, err);
}

// Naming the kernels of the files helps more than listing where nothing was found.
static int open_headers_tree(const struct values *v, struct pack_job *p, struct err *err)
{
	auto_strv struct strv found = { 0 };
	struct err why;
	if (tree_releases(&p->dir, &found, err) < 0)
		return -1;
	if (tree_open(&p->dir, v->kernel, NULL, &p->tree, &why) == 0)
		return 0;
	*err = why;
	if (!found.count || strv_has(&found, v->kernel))
		return -1;
	auto_str char *text = strv_join(&found, ", ");
	return err_set(err, E_HEADERS_MISMATCH, "the files are for kernel %s, expected %s", text, v->kernel);
}

static int pack_headers(const struct values *v, struct pack_job *p, struct err *err)
{
	char digest[DIGEST_HEX + 1];
	const struct tree *t = &p->tree;
	if (root_mkdirs(&p->state, "headers", 0755, err) < 0 || root_sub(&p->state, "headers", &p->store, err) < 0 ||
	    headers_import(&p->files, &p->store, digest, err) < 0 || root_sub(&p->store, digest, &p->dir, err) < 0 ||
	    open_headers_tree(v, p, err) < 0)
		return -1;
	p->distro = distro_of(t->release, t->banner);
	p->key = (struct asset_key){ .kind = &ASSET_HEADERS,
				     .release = t->release,
				     .arch = t->arch,
				     .build_id = *t->build_id ? t->build_id : NULL,
				     .distro = p->distro };
	return put_asset(p, &p->dir, err);
}

static int pack_image_dir(const struct values *v, const struct payload_request *request, struct pack_job *p,
			  struct err *err)
{
	auto_str char *dir = str_dup(image_dir_name(v));
	while (*dir && dir[strlen(dir) - 1] == '/')
		dir[strlen(dir) - 1] = '\0';
	char *slash = strrchr(dir, '/');
	const char *name = slash ? slash + 1 : dir;
	auto_str char *above = slash ? str_ndup(dir, (size_t)(slash - dir) + 1) : str_dup(".");
	auto_root struct root parent = ROOT_NONE;
	if (!*name || *name == '.')
		return err_set(err, E_USAGE, "--output '%s' does not name a directory to create", v->output);
	return root_make(above, &parent, err) < 0 || image_dir_make(request, &parent, name, &p->carried, err) < 0 ? -1 :
														    0;
}

static int pack_payload(const struct values *v, struct pack_job *p, struct err *err)
{
	auto_root struct root tree = ROOT_NONE;
	if (v->base && job_check_path("--base", v->base, false, err) < 0)
		return -1;
	if (host_read(&p->machine.host, &p->machine.kern, &p->host, err) < 0)
		return -1;
	p->key = (struct asset_key){ .kind = &ASSET_PAYLOAD,
				     .driver = v->driver,
				     .arch = v->arch ? v->arch : p->host.arch };
	struct payload_request request = {
		.driver = v->driver, .arch = p->key.arch, .files = &p->files, .base = v->base
	};
	if (image_dir_name(v))
		return pack_image_dir(v, &request, p, err);
	return scratch_make(&p->state, "payload", &p->work, err) < 0 ||
			       payload_make(&request, &p->work.root, IMAGE_DIR_ROOT, err) < 0 ||
			       root_sub(&p->work.root, IMAGE_DIR_ROOT, &tree, err) < 0 ?
		       -1 :
		       put_asset(p, &tree, err);
}

static void show_packed(const struct values *v, const struct pack_job *p)
{
	const struct asset_key *key = &p->key;
	auto_str char *tag = asset_tag(key),
		      *digest = oci_digest_text(image_dir_name(v) ? p->carried.digest : p->manifest.digest);
	const char *place = image_dir_name(v) ? v->output : p->output.name ? p->output.name : "the store";
	auto_json json_t *json =
		json_pack("{s:s, s:s, s:o, s:o, s:o, s:s, s:o}", "tag", tag, "digest", digest, "into", json_text(place),
			  "driver", json_text(key->driver), "kernel", json_text(key->release), "arch", key->arch,
			  "build_id", json_text(key->build_id));
	if (v->common.is_json)
		show_json(json);
	else
		printf("%s %s in %s\n", tag, digest, place);
}

static int run_pack(const struct values *v, char **args, size_t count,
		    int (*make)(const struct values *v, struct pack_job *p, struct err *err), struct err *err)
{
	struct job_values job = { .state_dir = v->state_dir };
	auto_pack_job struct pack_job p = { .machine = MACHINE_NONE,
					    .state = ROOT_NONE,
					    .store = ROOT_NONE,
					    .dir = ROOT_NONE,
					    .work = SCRATCH_NONE,
					    .output = OUTPUT_NONE,
					    .tree = { .root = ROOT_NONE } };
	for (size_t i = 0; i < count; i++)
		strv_split(&p.files, args[i], ",");
	for (size_t i = 0; i < p.files.count; i++)
		if (job_check_path("FILE", p.files.items[i], false, err) < 0)
			return -1;
	if (machine_open(&v->common, &p.machine, err) < 0 || job_state(&job, &p.machine, &p.state, err) < 0 ||
	    (!image_dir_name(v) && output_init(&p.output, v->output, &p.state, err) < 0) || make(v, &p, err) < 0)
		return -1;
	show_packed(v, &p);
	return 0;
}

static int run_pack_headers(void *values, char **args, size_t count, struct err *err)
{
	const struct values *v = values;
	if (!v->kernel)
		return err_set(err, E_USAGE, "pack headers needs --kernel RELEASE");
	if (image_dir_name(v))
		return err_set(err, E_USAGE, "--output '%s': a directory is made of a payload only", v->output);
	return run_pack(v, args, count, pack_headers, err);
}

static int run_pack_payload(void *values, char **args, size_t count, struct err *err)
{
	const struct values *v = values;
	if (!v->driver || !*v->driver)
		return err_set(err, E_USAGE, "pack payload needs --driver VERSION");
	return run_pack(v, args, count, pack_payload, err);
}

const struct cmd cmd_pack_headers = {
	.name = "pack headers",
	.args = "FILE,... [FILE...]",
	.args_min = 1,
	.args_max = 16,
	.help = "pack a kernel's header packages for nodes that compile and have none",
	.about = "FILEs are all header packages of one kernel: .deb, .rpm or .tar.*. A node or a `build` without\n"
		 "headers on the host takes these from its store, a repository (--from) or a bundle (--bundle),\n"
		 "signed like packages.\n\n"
		 "  kmodsmith pack headers linux-headers-A.deb,linux-headers-B.deb,linux-kbuild.deb \\\n"
		 "      --kernel 6.1.0-56-cloud-amd64 --output oci:DIR\n",
	.opts = { headers_opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_pack_headers,
};

const struct cmd cmd_pack_payload = {
	.name = "pack payload",
	.args = "FILE,... [FILE...]",
	.args_min = 1,
	.args_max = 64,
	.help = "pack the libraries, firmware and programs of a driver version",
	.about = "FILEs are all packages of one driver version: .deb, .rpm, .tar.* or NVIDIA's .run, which is read\n"
		 "but never executed. Files are placed where consumers look for them: libraries with their SONAME\n"
		 "links, programs in usr/bin, firmware, sources in usr/src/nvidia-VERSION, etc/ld.so.cache. A file\n"
		 "of another version is refused, and so is a file that differs between two FILEs.\n\n"
		 "`kmodsmith fetch --payload` and `bundle create --payload-too` copy the result, signed like\n"
		 "packages; `kmodsmith install --export` uses it. An image can contain it as a directory (dir:DIR)\n"
		 "for `--payload DIR`:\n"
		 "DIR/root and DIR/payload.json, created completely or not at all.\n\n"
		 "  kmodsmith pack payload libcuda1.deb,libnvidia-ml1.deb,firmware-nvidia-gsp.deb \\\n"
		 "      --driver 535.261.03 --output oci:DIR\n"
		 "  kmodsmith pack payload NVIDIA-Linux-x86_64-535.261.03.run --driver 535.261.03 --base root.tar \\\n"
		 "      --output dir:DIR\n",
	.opts = { payload_opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_pack_payload,
};
