// SPDX-License-Identifier: Apache-2.0
// pack builder: packs the root file system of an image with compilers for nodes that have none (R-J3).
#include "base/archive/archive.h"
#include "base/file/file.h"
#include "cmd/common/job.h"
#include "cmd/common/output.h"
#include "precompiled/package/asset.h"

#include <fcntl.h>
#include <stdio.h>

struct values {
	struct common common;
	char *arch, *compiler, *output, *state_dir;
};

static const struct opt opts[] = {
	{ "arch", 0, "ARCH", NULL, OPT_STR, offsetof(struct values, arch), "x86_64, aarch64; default: this machine's" },
	{ "compiler", 0, "NAME", NULL, OPT_STR, offsetof(struct values, compiler),
	  "gcc-12, clang-16: the one compiler that the root is for, which kernels built with it ask for first" },
	{ "output", 'o', "NAME", NULL, OPT_STR, offsetof(struct values, output), OUTPUT_HELP },
	{ "state-dir", 0, "DIR", "KMODSMITH_STATE_DIR", OPT_STR, offsetof(struct values, state_dir),
	  "where it is unpacked; default as for `install`" },
	{ 0 },
};

struct builder_job {
	struct machine machine;
	struct root state;
	struct scratch work;
	struct output output;
	struct host host;
	struct asset_key key; // borrows from values and host
	struct oci_descriptor manifest;
};
#define BUILDER_JOB_NONE       \
	((struct builder_job){ \
		.machine = MACHINE_NONE, .state = ROOT_NONE, .work = SCRATCH_NONE, .output = OUTPUT_NONE })

static void builder_job_done(struct builder_job *p)
{
	oci_descriptor_done(&p->manifest);
	host_done(&p->host);
	output_done(&p->output);
	scratch_done(&p->work);
	root_done(&p->state);
	machine_done(&p->machine);
}
#define auto_builder_job __attribute__((cleanup(builder_job_done)))

// Keeps what the compile sandbox exposes (kmod/sandbox/jail.c), minus files that no compiler reads. Device nodes are
// left out.
static bool is_needed_by_compiler(void *ctx, const char *path)
{
	static const char *const dirs[] = { "usr/", "bin", "sbin", "lib", "opt/", "etc/alternatives/" };
	static const char *const idle[] = { "usr/share/doc/",  "usr/share/info/",   "usr/share/man/",
					    "usr/share/i18n/", "usr/share/locale/", "usr/games/" };
	(void)ctx;
	for (size_t i = 0; i < ARRAY_SIZE(idle); i++)
		if (str_starts(path, idle[i]))
			return false;
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		if (str_starts(path, dirs[i]))
			return true;
	return str_eq(path, "etc/ld.so.cache");
}

static bool has_program(const struct root *root, const char *name)
{
	static const char *const dirs[] = { "usr/bin", "bin", "usr/sbin", "sbin" };
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		auto_str char *path = str_fmt("%s/%s", dirs[i], name);
		if (root_exists(root, path))
			return true;
	}
	return false;
}

// Programs that a compile of NVIDIA's modules runs besides the compiler and its tools: for Kbuild (6.1, 6.12) as seen
// by strace, and for conftest.sh and the Makefiles. Without one of them the compile fails on every node.
static int check_tools(const struct root *root, const char *file, struct err *err)
{
	static const char *const tools[] = { "make", "ld",   "patch", "sh", "awk",   "cat", "cmp",
					     "cut",  "grep", "head",  "ln", "mkdir", "mv",  "rm",
					     "sed",  "sort", "touch", "tr", "uname", "uniq" };
	auto_strv struct strv missing = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(tools); i++)
		if (!has_program(root, tools[i]))
			strv_add(&missing, str_dup(tools[i]));
	if (!missing.count)
		return 0;
	auto_str char *names = strv_join(&missing, ", ");
	return err_set(err, E_TOOLCHAIN, "'%s' is not the root of a builder image: it lacks %s, which compiles need",
		       file, names);
}

// The name is what a kernel asks for: family and major version, as toolchain_wanted() has them.
static int check_compiler(const struct root *root, const char *file, const char *name, struct err *err)
{
	size_t family = str_starts(name, "gcc-") ? strlen("gcc-") : str_starts(name, "clang-") ? strlen("clang-") : 0;
	const char *major = name + family;
	if (!family || !*major || strspn(major, "0123456789") != strlen(major))
		return err_set(err, E_USAGE, "--compiler '%s' is not gcc-N or clang-N", name);
	return has_program(root, name) ?
		       0 :
		       err_set(err, E_TOOLCHAIN,
			       "'%s' is not the root of a builder image with %s: it lacks that program", file, name);
}

static int run_pack_builder(void *values, char **args, size_t count, struct err *err)
{
	(void)count;
	const struct values *v = values;
	const char *file = args[0];
	struct job_values job = { .state_dir = v->state_dir };
	auto_builder_job struct builder_job p = BUILDER_JOB_NONE;
	const struct layout *into = NULL;
	if (job_check_path("ROOT.tar", file, false, err) < 0 || machine_open(&v->common, &p.machine, err) < 0 ||
	    job_state(&job, &p.machine, &p.state, err) < 0 || output_init(&p.output, v->output, &p.state, err) < 0 ||
	    host_read(&p.machine.host, &p.machine.kern, &p.host, err) < 0)
		return -1;
	auto_fd int fd = file_open_arg(file, O_RDONLY, err);
	if (fd < 0 || scratch_make(&p.state, "builder", &p.work, err) < 0 ||
	    archive_unpack(fd, file, 0, &p.work.root, &(struct archive_options){ .select = is_needed_by_compiler },
			   err) < 0 ||
	    check_tools(&p.work.root, file, err) < 0 ||
	    (v->compiler && check_compiler(&p.work.root, file, v->compiler, err) < 0))
		return -1;
	p.key = (struct asset_key){ .kind = &ASSET_BUILDER,
				    .arch = v->arch ? v->arch : p.host.arch,
				    .compiler = v->compiler };
	if (output_layout(&p.output, &into, err) < 0 ||
	    asset_create(into, &p.work.root, &p.key, &p.manifest, err) < 0 || output_finish(&p.output, err) < 0)
		return -1;
	auto_str char *tag = asset_tag(&p.key), *digest = oci_digest_text(p.manifest.digest);
	const char *place = p.output.name ? p.output.name : "the store";
	auto_json json_t *json = json_pack("{s:s, s:s, s:o, s:s}", "tag", tag, "digest", digest, "into",
					   json_text(place), "arch", p.key.arch);
	if (v->common.is_json)
		show_json(json);
	else
		printf("%s %s in %s\n", tag, digest, place);
	return 0;
}

const struct cmd cmd_pack_builder = {
	.name = "pack builder",
	.args = "ROOT.tar",
	.args_min = 1,
	.args_max = 1,
	.help = "pack the root of an image with compilers for nodes that compile and have none",
	.about = "ROOT.tar is the root file system of an image with gcc or clang, make, binutils, patch, and the\n"
		 "programs that Kbuild and NVIDIA's conftest call (awk, sed, grep, ...), as written by `podman\n"
		 "export`. A node or a `build` without a matching compiler takes this one from its store, a\n"
		 "repository (--from) or a bundle (--bundle), signed like packages, and compiles on top of it in\n"
		 "the same sandbox. A newer one in the sources replaces the stored one; while no source can be\n"
		 "reached, the stored one is used; one packed into this machine's store takes precedence. If there\n"
		 "is none, one that --builder names by digest is taken, as driver images do. With --compiler a\n"
		 "repository can offer small roots, one for each compiler that kernels were built with. The bytes\n"
		 "of packages do not depend on where the compiler came from.\n\n"
		 "  kmodsmith pack builder root.tar --output oci:DIR\n",
	.opts = { opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_pack_builder,
};
