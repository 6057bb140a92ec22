// SPDX-License-Identifier: Apache-2.0
// NVIDIA's conftest takes every failed compilation for "the kernel does not have this". So before it is asked anything,
// one snippet that must compile and one that must not go through the very flags it will use; and one object through the
// kernel's own, which decides whether this compiler suits the tree at all.
#include "kmod/build/make.h"

#include <sys/stat.h>

static const struct {
	const char *name, *text;
} files[] = {
	{ "probe/probe.c", "#include <linux/module.h>\n#include <linux/mm.h>\nMODULE_LICENSE(\"GPL\");\n" },
	{ "probe/good.c", "#include <linux/kconfig.h>\n#include <linux/module.h>\n#include <linux/mm.h>\n"
			  "unsigned long good(struct vm_area_struct *vma) { return vma->vm_start; }\n" },
	{ "probe/bad.c",
	  "#include <linux/kconfig.h>\n#include <linux/module.h>\n#include <linux/mm.h>\n"
	  "unsigned long bad(struct vm_area_struct *vma) { return vma->kmodsmith_has_no_such_member; }\n" },
	{ "probe/Kbuild", "obj-m := probe.o\n"
			  "CONFTEST := $(shell /bin/sh " SANDBOX_WORK
			  "/src/conftest.sh \"$(CC)\" $(ARCH) $(SYSSRC) $(SYSOUT) build_cflags)\n"
			  "FLAGS = $(filter-out $(GCC_PLUGINS_CFLAGS),$(KBUILD_CFLAGS)) $(CONFTEST) -fno-pie $(filter "
			  "-std=%,$(KBUILD_CFLAGS))\n"
			  "$(obj)/good.o $(obj)/bad.o: $(obj)/%.o: $(src)/%.c FORCE\n"
			  "\t@$(CC) $(FLAGS) -D__KERNEL__ -DMODULE -c -o $@ $< 2>$@.log\n" },
};

static int write_canary_files(struct compile *c, struct err *err)
{
	if (root_mkdirs(&c->job, "probe", 0755, err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (root_write(&c->job, files[i].name, files[i].text, strlen(files[i].text), 0644, err) < 0)
			return -1;
	return 0;
}

static int run_canary(struct compile *c, struct buildlog *log, struct proc_end *end, struct err *err)
{
	auto_strv struct strv argv = { 0 };
	bool is_split = !str_eq(c->tree->build, c->tree->source);
	strv_add(&argv, str_dup(c->tools->make));
	strv_add(&argv, str_fmt("-C%s", c->tree->source));
	if (is_split)
		strv_add(&argv, str_fmt("O=%s", c->tree->build));
	strv_add(&argv, str_fmt("SYSSRC=%s", c->tree->source));
	strv_add(&argv, str_fmt("SYSOUT=%s", c->tree->build));
	strv_add(&argv, str_dup("M=" SANDBOX_WORK "/probe"));
	strv_add(&argv, str_dup("-k"));
	strv_add(&argv, str_dup("-j3"));
	make_variables(c, &argv);
	strv_add(&argv, str_dup("probe.o"));
	strv_add(&argv, str_dup("good.o"));
	strv_add(&argv, str_dup("bad.o"));
	return make_run(c, (const char *const *)argv.items, NULL, log, end, err);
}

enum { MOST_TEXT = 1 << 20 };

static char *compiler_text(struct compile *c, const char *path)
{
	char *text = NULL;
	struct err absent;
	if (root_read_most(&c->job, path, MOST_TEXT, &text, NULL, &absent) <= 0)
		return str_dup("no output");
	return text;
}

static int judge_canary(struct compile *c, const struct buildlog *log, const struct proc_end *end, struct err *err)
{
	if (!root_exists(&c->job, "probe/probe.o"))
		return err_set(err, E_TOOLCHAIN, "%s (%s) cannot compile an empty module for kernel %s: %s",
			       c->tools->cc, c->tools->version, c->tree->release, log->error ? log->error : end->tail);
	if (!root_exists(&c->job, "probe/good.o")) {
		auto_str char *text = compiler_text(c, "probe/good.o.log");
		return err_set(err, E_CONFTEST_BROKEN, "a test that must compile does not: %.400s", text);
	}
	if (root_exists(&c->job, "probe/bad.o")) {
		auto_str char *text = compiler_text(c, "probe/bad.o.log");
		return err_set(err, E_CONFTEST_BROKEN, "a test that must not compile does: %.400s", text);
	}
	return 0;
}

int canary_check(struct compile *c, struct err *err)
{
	struct buildlog log = { .fd = -1 };
	struct proc_end end;
	int r = write_canary_files(c, err);
	if (r == 0)
		r = run_canary(c, &log, &end, err);
	if (r == 0)
		r = judge_canary(c, &log, &end, err);
	buildlog_done(&log);
	return r;
}
