// SPDX-License-Identifier: Apache-2.0
#include "kmod/build/make.h"

#include "base/core/date.h"
#include "base/file/copy.h"
#include "kmod/build/objects.h"

int make_bind_headers(struct compile *c, struct err *err)
{
	const struct tree *tree = c->tree;
	if (!str_starts(tree->root.name, "/proc/")) {
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

static const char *make_arch(const char *arch)
{
	if (str_eq(arch, "aarch64"))
		return "arm64";
	return str_eq(arch, "ppc64le") ? "powerpc" : arch;
}

// -g0: debug information is stripped anyway, and making it costs a quarter of the time; without it, and with the BTF
// switch off, no pahole is ever run (R-B6). The path inside the sandbox is constant, so no prefix has to be mapped.
void make_variables(const struct compile *c, struct strv *argv)
{
	static const char *const always[] = { "IGNORE_CC_MISMATCH=1", "KCFLAGS=-g0",
					      "CONFIG_DEBUG_INFO_BTF_MODULES=", "KBUILD_MODPOST_WARN=" };
	static const char *const binutils[] = { "LD=ld",           "AR=ar",           "NM=nm",      "OBJCOPY=objcopy",
						"OBJDUMP=objdump", "READELF=readelf", "STRIP=strip" };
	for (size_t i = 0; i < ARRAY_SIZE(always); i++)
		strv_add(argv, str_dup(always[i]));
	if (c->tools->is_clang)
		strv_add(argv, str_dup("LLVM=1"));
	for (size_t i = 0; i < ARRAY_SIZE(binutils) && !c->tools->is_clang; i++)
		strv_add(argv, str_dup(binutils[i]));
	bool is_kept = c->objects.fd >= 0;
	strv_add(argv, str_fmt("CC=%s%s%s", is_kept ? c->tools->ccache : "", is_kept ? " " : "", c->tools->cc));
	strv_add(argv, str_fmt("ARCH=%s", make_arch(c->tree->arch)));
	if (c->is_rt_allowed)
		strv_add(argv, str_dup("IGNORE_PREEMPT_RT_PRESENCE=1"));
}

int make_run(struct compile *c, const char *const *argv, const char *dir, struct buildlog *log, struct proc_end *ret,
	     struct err *err)
{
	auto_str char *path = str_fmt("PATH=%s", c->tools->path);
	const char *env[] = { path,
			      "LC_ALL=C",
			      "HOME=/tmp",
			      "TMPDIR=/tmp",
			      "KBUILD_BUILD_TIMESTAMP=Thu Jan  1 00:00:00 UTC 1970",
			      "KBUILD_BUILD_USER=kmodsmith",
			      "KBUILD_BUILD_HOST=kmodsmith",
			      "SOURCE_DATE_EPOCH=0",
			      OBJECTS_ENVIRONMENT,
			      NULL };
	long left = c->deadline_ms - clock_ms();
	struct sandbox sandbox = { .base = c->tools->base,
				   .headers = &c->headers,
				   .dirs = &c->tree->dirs,
				   .scratch = c->tree->build,
				   .work = &c->job,
				   .cache = c->objects.fd >= 0 ? &c->objects : NULL,
				   .argv = argv,
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
	return ret->is_timed_out ? err_set(err, E_BUILD_TIMEOUT, "the deadline passed while '%s' ran", argv[0]) : 0;
}
