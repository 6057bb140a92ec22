// SPDX-License-Identifier: Apache-2.0
#include "kmod/build/make.h"

#include "base/core/date.h"
#include "base/file/copy.h"
#include "kmod/build/objects.h"
#include "kmod/forkserver/forkserver.h"
#include "kmod/sandbox/sandbox.h"

void make_done(struct compile *c)
{
	objects_close(c);
	root_done(&c->headers);
	root_done(&c->job);
}

int make_bind_headers(struct compile *c, struct err *err)
{
	const struct tree *tree = c->tree;
	if (!sandbox_is_foreign(&tree->root)) {
		auto_str char *name = str_dup(tree->root.name);
		if (root_sub(&tree->root, ".", &c->headers, err) < 0)
			return -1;
		free(c->headers.name);
		c->headers.name = TAKE(name);
		return 0;
	}
	for (size_t i = 0; i < tree->dirs.count; i++) {
		auto_str char *to = str_fmt("headers%s", tree->dirs.items[i]);
		if (copy_tree(&tree->root, tree->dirs.items[i], &c->job, to, err) < 0)
			return -1;
	}
	return root_sub(&c->job, "headers", &c->headers, err);
}

// -g0: debug information is stripped anyway, and making it costs a quarter of the time; with the BTF switch off, no
// pahole is ever run (R-B6). Where CRCs are computed from it, it has to be there. The path inside the sandbox is
// constant, so no prefix has to be mapped.
void make_variables(const struct compile *c, struct strv *argv)
{
	const char *arch = c->tree->arch;
	bool is_kept = c->objects.fd >= 0;
	strv_split(argv, "IGNORE_CC_MISMATCH=1 CONFIG_DEBUG_INFO_BTF_MODULES= KBUILD_MODPOST_WARN=", " ");
	strv_add(argv, str_fmt("KCFLAGS=%s", c->tree->has_dwarf_crcs ? "" : "-g0"));
	toolchain_binutils(c->tools, argv);
	strv_add(argv, str_fmt("CC=%s%s%s", is_kept ? c->tools->ccache : "", is_kept ? " " : "", c->tools->cc));
	strv_add(argv, str_fmt("ARCH=%s", str_eq(arch, "aarch64") ? "arm64" :
					  str_eq(arch, "ppc64le") ? "powerpc" :
								    arch));
	if (c->tree->is_rt) // and allowed: see build_options_check()
		strv_add(argv, str_dup("IGNORE_PREEMPT_RT_PRESENCE=1"));
}

int make_run(struct compile *c, const struct strv *argv, const char *dir, struct buildlog *log, struct proc_end *ret,
	     struct err *err)
{
	auto_str char *path = str_fmt("PATH=%s", c->tools->path), *servers = str_fmt("FORKSERVER_MOST=%u", c->servers);
	const char *env[] = { path, "LC_ALL=C", "HOME=/tmp", "TMPDIR=/tmp",
			      "KBUILD_BUILD_TIMESTAMP=Thu Jan  1 00:00:00 UTC 1970", "KBUILD_BUILD_USER=kmodsmith",
			      "KBUILD_BUILD_HOST=kmodsmith", "SOURCE_DATE_EPOCH=0", ("CCACHE_DIR=" SANDBOX_CACHE),
			      "CCACHE_CONFIGPATH=/dev/null", "CCACHE_NOHASHDIR=1", "CCACHE_COMPILERCHECK=content",
			      "CCACHE_MAXSIZE=512M", "CCACHE_MAXFILES=20000",
			      "CCACHE_SLOPPINESS=include_file_mtime,include_file_ctime",
			      ("CCACHE_STATSLOG=" SANDBOX_WORK "/" OBJECTS_LOG),
			      // No preprocessor run before a compile that is not in the cache: the compiler lists what
			      // it read.
			      "CCACHE_DEPEND=1", c->servers ? servers : NULL,
			      ("COMPILER_PATH=" SANDBOX_WORK "/" FORKSERVER_DIR), NULL };
	long left = c->deadline_ms - clock_ms();
	struct sandbox sandbox = { .base = c->tools->base,
				   .headers = c->tree ? &c->headers : NULL,
				   .dirs = c->tree ? &c->tree->dirs : NULL,
				   .scratch = c->tree ? c->tree->build : NULL,
				   .work = &c->job,
				   .cache = c->objects.fd >= 0 ? &c->objects : NULL,
				   .argv = (const char *const *)argv->items,
				   .tool = c->tools->cc,
				   .env = env,
				   .dir = dir,
				   .timeout_ms = left > 1 ? (int)left : 1,
				   .line = buildlog_line,
				   .ctx = log };
	if (sandbox_run(&sandbox, ret, err) < 0)
		return -1;
	if (ret->peak_kib > c->peak_kib)
		c->peak_kib = ret->peak_kib;
	return ret->is_timed_out ?
		       err_set(err, E_BUILD_TIMEOUT, "the deadline passed while '%s' was running", argv->items[0]) :
		       0;
}
