// SPDX-License-Identifier: Apache-2.0
// R-B4, R-H2: which of conftest's answers are taken from the cache, and that a wrong one never is. The script that
// stands before conftest.sh runs in the sandbox, as it does in a build.
#include "tests/unit/tempdir.h"

#include "kmod/build/probes.h"
#include "kmod/sandbox/sandbox.h"

// One probe of each kind that NVIDIA's has, and one whose answer is none. Each that is asked leaves a line in asked.
#define SCRIPT(version, plain, end)                                                                                    \
	"#!/bin/sh\n# " version "\nCFLAGS=$6\nappend_conftest() {\n    cat\n}\ncompile_test() {\n    case \"$1\" in\n" \
	"        plain)\n            " plain "\n            echo '#define NV_PLAIN'\n        ;;\n\n"                   \
	"        one | is_symbol_present_*)\n            echo \"#undef NV_$1\"\n        ;;\n\n"                        \
	"        by_header)\n            case $CFLAGS in\n                *)\n                ;;\n            esac\n"  \
	"            # NV_LINUX_MM_H_PRESENT\n            echo '#define NV_BY_HEADER'\n        ;;\n\n"                 \
	"        noise)\n            echo noise\n        ;;\n\n        fails)\n            exit 3\n        ;;\n"       \
	"        *)\n            echo unknown\n        ;;\n    esac\n}\n"                                              \
	"echo \"$1 $7\" >>/build/asked\ncase \"$5\" in\n"                                                              \
	"    compile_tests) compile_test \"$7\" ;;\n    test_kernel_header) echo '#define NV_LINUX_MM_H_PRESENT' ;;\n" \
	"    build_cflags) echo \"$@\" ;;\nesac\n" end

static const char kbuild[] = "ccflags-y += -Wall\nccflags-y += -DNV_VERSION_STRING=\\\"1\\\"\n"
			     "TESTS = \\\n linux/mm.h \\\n linux/fs.h\n";

struct build {
	struct folder job;
	struct probes probes;
};

static void start(struct build *b, const struct folder *cache, const char *script, const char *lists, const char *what)
{
	struct err err = { 0 };
	*b = (struct build){ 0 };
	folder_make(&b->job);
	tempdir_write(&b->job, "src/conftest.sh", script);
	tempdir_write(&b->job, "src/Kbuild", lists);
	tempdir_write(&b->job, "asked", "");
	if (probes_start(&b->probes, &cache->root, &b->job.root, "0123", what, &err) < 0)
		fail_msg("%s", err.text);
}

static void stop(struct build *b)
{
	probes_done(&b->probes);
	folder_done(&b->job);
}
#define auto_stop __attribute__((cleanup(stop)))

static int ask(const struct build *b, const char *command)
{
	const char *argv[] = { "/bin/sh", "-c", command, NULL };
	const char *env[] = { "PATH=/usr/bin:/bin", NULL };
	struct sandbox sandbox = { .work = &b->job.root, .argv = argv, .env = env, .timeout_ms = 20000 };
	struct proc_end end;
	struct err err = { 0 };
	if (sandbox_run(&sandbox, &end, &err) < 0)
		fail_msg("%s", err.text);
	return end.status;
}

#define CALL(version, flags, kind, name)                                                                 \
	"sh /build/src/conftest.sh '/usr/bin/ccache gcc' x86_64 /s /o " kind                             \
	" \"-O2 -DKBUILD_BASENAME=\\\"#conftest$$\\\" "                                                  \
	"-DKBUILD_MODNAME=\\\"#conftest$$\\\" -DNV_VERSION_STRING=\\\"" version "\\\" " flags "\" " name \
	" >/build/out"
#define PLAIN CALL("1", "-x", "compile_tests", "plain")

static void learn(const struct folder *cache, const char *command)
{
	auto_stop struct build b;
	start(&b, cache, SCRIPT("a", ":", ""), kbuild, "gcc");
	assert_int_equal(ask(&b, command), 0);
	probes_save(&b.probes, true);
}

static const struct row {
	const char *name, *script, *lists, *what, *command, *out;
	size_t kept, asked;
} rows[] = {
	{ "same", SCRIPT("a", ":", ""), kbuild, "gcc", PLAIN, "#define NV_PLAIN\n", 1, 0 },
	{ "another process, another driver", SCRIPT("a", ":", ""), kbuild, "gcc",
	  "true; " CALL("2", "-x", "compile_tests", "plain"), "#define NV_PLAIN\n", 1, 0 },
	{ "another text", SCRIPT("a", "true", ""), kbuild, "gcc", PLAIN, "#define NV_PLAIN\n", 0, 1 },
	{ "another text of what all share", SCRIPT("b", ":", ""), kbuild, "gcc", PLAIN, "#define NV_PLAIN\n", 0, 1 },
	{ "another end", SCRIPT("a", ":", "# end\n"), kbuild, "gcc", PLAIN, "#define NV_PLAIN\n", 0, 1 },
	{ "another compiler", SCRIPT("a", ":", ""), kbuild, "clang", PLAIN, "#define NV_PLAIN\n", 0, 1 },
	{ "other flags", SCRIPT("a", ":", ""), kbuild, "gcc", CALL("1", "-y", "compile_tests", "plain"),
	  "#define NV_PLAIN\n", 0, 1 },
	{ "other flags in Kbuild", SCRIPT("a", ":", ""), "ccflags-y += -Wextra\nlinux/mm.h\n", "gcc", PLAIN,
	  "#define NV_PLAIN\n", 0, 1 },
	{ "not asked yet", SCRIPT("a", ":", ""), kbuild, "gcc", CALL("1", "-x", "compile_tests", "one"),
	  "#undef NV_one\n", 0, 1 },
	{ "by pattern", SCRIPT("a", ":", ""), kbuild, "gcc", CALL("1", "-x", "compile_tests", "is_symbol_present_f"),
	  "#undef NV_is_symbol_present_f\n", 1, 0 },
	{ "a header", SCRIPT("a", ":", ""), kbuild, "gcc", CALL("1", "-x", "test_kernel_header", "linux/mm.h"),
	  "#define NV_LINUX_MM_H_PRESENT\n", 1, 0 },
	{ "with its header test", SCRIPT("a", ":", ""), kbuild, "gcc", CALL("1", "-x", "compile_tests", "by_header"),
	  "#define NV_BY_HEADER\n", 1, 0 },
	{ "without its header test", SCRIPT("a", ":", ""), "ccflags-y += -Wall\nlinux/fs.h\n", "gcc",
	  CALL("1", "-x", "compile_tests", "by_header"), "#define NV_BY_HEADER\n", 0, 1 },
	{ "what is no answer", SCRIPT("a", ":", ""), kbuild, "gcc", CALL("1", "-x", "compile_tests", "noise"),
	  "noise\n", 0, 1 },
	{ "other questions", SCRIPT("a", ":", ""), kbuild, "gcc",
	  "sh /build/src/conftest.sh '/usr/bin/ccache gcc' x86_64 /s /o build_cflags >/build/out",
	  "gcc x86_64 /s /o build_cflags\n", 0, 0 },
	{ "several at once", SCRIPT("a", ":", ""), kbuild, "gcc", CALL("1", "-x", "compile_tests", "plain one"),
	  "#define NV_PLAIN\n", 0, 0 },
	{ "a name that leaves the place", SCRIPT("a", ":", ""), kbuild, "gcc",
	  CALL("1", "-x", "compile_tests", "../../out2"), "unknown\n", 0, 0 },
};

static void test_what_is_taken(void **state)
{
	(void)state;
	needs_seccomp();
	auto_folder struct folder cache;
	folder_make(&cache);
	learn(&cache, PLAIN " && " CALL("1", "-x", "compile_tests", "is_symbol_present_f") " && " CALL(
			      "1", "-x", "test_kernel_header",
			      "linux/mm.h") " && " CALL("1", "-x", "compile_tests",
							"by_header") " && " CALL("1", "-x", "compile_tests", "noise"));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct row *row = &rows[i];
		auto_stop struct build b;
		auto_str char *out = NULL, *asked = NULL;
		struct err err = { 0 };
		size_t kept = 9, was_asked = 9;
		start(&b, &cache, row->script, row->lists, row->what);
		expect(ask(&b, row->command) == 0, row->name);
		probes_count(&b.probes, &kept, &was_asked);
		expect(kept == row->kept && was_asked == row->asked, row->name);
		expect(root_read(&b.job.root, "out", &out, NULL, &err) > 0 && str_eq(out, row->out), row->name);
		expect(root_read(&b.job.root, "asked", &asked, NULL, &err) > 0, row->name);
		expect(!*asked == (row->kept > 0), row->name);           // who answered
		expect(!*asked || str_starts(asked, "gcc "), row->name); // and that no object was kept for it
	}
}

static void test_a_failure_is_not_kept(void **state)
{
	(void)state;
	needs_seccomp();
	auto_folder struct folder cache;
	auto_stop struct build b;
	size_t kept, asked;
	folder_make(&cache);
	start(&b, &cache, SCRIPT("a", ":", ""), kbuild, "gcc");
	assert_int_equal(ask(&b, CALL("1", "-x", "compile_tests", "fails")), 3);
	probes_count(&b.probes, &kept, &asked);
	assert_int_equal(asked, 0);
}

static char *only_file(const struct folder *cache)
{
	auto_strv struct strv names = { 0 };
	struct err err = { 0 };
	assert_int_equal(root_list(&cache->root, "probes", &names, &err), 1);
	assert_int_equal(names.count, 1);
	return str_fmt("probes/%s", names.items[0]);
}

static void test_damage(void **state)
{
	(void)state;
	needs_seccomp();
	auto_folder struct folder cache;
	folder_make(&cache);
	learn(&cache, PLAIN);
	auto_str char *path = only_file(&cache), *text = NULL;
	struct err err = { 0 };
	size_t len = 0;
	assert_int_equal(root_read(&cache.root, path, &text, &len, &err), 1);
	for (size_t cut = 0; cut <= len; cut += 7) { // cut short, or one byte another one
		auto_stop struct build b;
		size_t kept = 9, asked = 9;
		char byte = text[cut == len ? len - 1 : cut];
		bool is_cut = cut % 2;
		text[cut == len ? len - 1 : cut] = '#' == byte ? '!' : '#';
		assert_int_equal(root_put(&cache.root, path, text, is_cut ? cut : len, 0644, &err), 0);
		text[cut == len ? len - 1 : cut] = byte;
		start(&b, &cache, SCRIPT("a", ":", ""), kbuild, "gcc");
		if (cut % 21 == 0) // each costs a sandbox
			assert_int_equal(ask(&b, PLAIN), 0);
		probes_count(&b.probes, &kept, &asked);
		assert_int_equal(kept, 0);
		assert_false(root_exists(&b.job.root, "probes/known/plain="));
	}
	learn(&cache, PLAIN); // and whole again
	auto_stop struct build b;
	start(&b, &cache, SCRIPT("a", ":", ""), kbuild, "gcc");
	assert_true(root_exists(&b.job.root, "probes/known/plain="));
}

// A source makes what it likes in the sandbox.
static void test_hostile_answers(void **state)
{
	(void)state;
	needs_seccomp();
	auto_folder struct folder cache;
	folder_make(&cache);
	learn(&cache, PLAIN
	      " && cd /build/probes/new && rm plain= && ln -s /build/src/Kbuild plain= && { mkfifo one= || :; } && "
	      "printf '#define NV_X' >by_header= && mkdir -p linux && head -c 9000 /dev/zero >linux/mm.h= && "
	      "printf '#define NV_X\\n#include \"/x\"\\n' >is_symbol_present_x= && "
	      "printf '#define NV_Z\\n' >never_asked_for= && "
	      "printf '#define NV_Y\\nprobe x y\\n' >\"$(printf 'a\\nb')\"");
	auto_strv struct strv names = { 0 };
	struct err err = { 0 };
	assert_int_equal(root_list(&cache.root, "probes", &names, &err), 0);
}

// What was answered before a kill is there after it, whatever was being asked.
static void test_in_the_middle(void **state)
{
	(void)state;
	needs_seccomp();
	auto_folder struct folder cache;
	auto_stop struct build b, next;
	folder_make(&cache);
	start(&b, &cache, SCRIPT("a", ":", ""), kbuild, "gcc");
	assert_int_equal(ask(&b, PLAIN " && printf '#define NV_half' >/build/probes/.answer.99"), 0);
	probes_save(&b.probes, false);
	start(&next, &cache, SCRIPT("a", ":", ""), kbuild, "gcc");
	assert_true(root_exists(&next.job.root, "probes/known/plain="));
}

static void test_bound(void **state)
{
	(void)state;
	needs_seccomp();
	auto_folder struct folder cache;
	auto_strv struct strv names = { 0 };
	struct err err = { 0 };
	folder_make(&cache);
	for (size_t i = 0; i < PROBES_FILES; i++) {
		auto_str char *path = str_fmt("probes/%064zu", i);
		tempdir_write(&cache, path, "");
	}
	learn(&cache, PLAIN);
	assert_int_equal(root_list(&cache.root, "probes", &names, &err), 1);
	assert_int_equal(names.count, PROBES_FILES);
}

// What asks is the same in two sources that differ in what is compiled, and in nothing else.
static void test_what_asks(void **state)
{
	(void)state;
	static const struct {
		const char *path, *text;
		bool is_same;
	} changes[] = {
		{ "nvidia/nv.c", "int other;\n", true },
		{ "nvidia/more.c", "", false },
		{ "nvidia/nv-kernel.o_binary", "other", true },
		{ "common/inc/nv-linux.h", "#define OTHER\n", true },
		{ "common/inc/named.h", "#define OTHER\n", false },
		{ "common/inc/linux/mm.h", "", false },
		{ "debian/rules", "other:\n", true },
		{ "NVIDIA_Changelog", "", true },
		{ "Kbuild", "include other.mk\n", false },
		{ "nvidia/nvidia.Kbuild", "other\n", false },
		{ "conftest.sh", "echo named.h other\n", false },
		{ "answers", "NV_PLAIN\n", false },
	};
	for (size_t i = 0; i <= ARRAY_SIZE(changes); i++) {
		auto_folder struct folder source;
		char before[DIGEST_HEX + 1], after[DIGEST_HEX + 1];
		struct err err = { 0 };
		folder_make(&source);
		for (size_t k = 0; k < ARRAY_SIZE(changes); k++)
			if (changes[k].is_same || strstr("common/inc/named.h nvidia/nvidia.Kbuild", changes[k].path))
				tempdir_write(&source, changes[k].path, "first\n");
		tempdir_write(&source, "conftest.sh", "echo named.h\n");
		tempdir_write(&source, "Kbuild", "include nvidia/nvidia.Kbuild\n");
		assert_int_equal(probes_digest(&source.root, before, &err), 0);
		if (i < ARRAY_SIZE(changes))
			tempdir_write(&source, changes[i].path, changes[i].text);
		assert_int_equal(probes_digest(&source.root, after, &err), 0);
		expect(str_eq(before, after) == (i == ARRAY_SIZE(changes) || changes[i].is_same),
		       i < ARRAY_SIZE(changes) ? changes[i].path : "nothing");
	}
}

static void test_other_scripts(void **state)
{
	(void)state;
	static const char *const scripts[] = { "#!/bin/sh\n", "\ncompile_test() {\n",
					       "\ncompile_test() {\n    x\n}\n" };
	auto_folder struct folder cache;
	folder_make(&cache);
	for (size_t i = 0; i < ARRAY_SIZE(scripts); i++) {
		auto_stop struct build b;
		start(&b, &cache, scripts[i], kbuild, "gcc");
		folder_expect(&b.job, "src/conftest.sh", scripts[i]);
	}
}

// The flags are what they were, and made once; the headers can be made alone.
static void test_flags_once(void **state)
{
	(void)state;
	needs_seccomp();
	static const char makes[] = "NV_CONFTEST_CFLAGS = -O2\n"
				    "NV_CONFTEST_CFLAGS += $(shell echo made >>log; echo '-DN=\"#a$$b\"')\n"
				    "NV_CONFTEST_CFLAGS += $(late)\n"
				    "all: a b\na b:\n\t@echo '$(NV_CONFTEST_CFLAGS)' >$@\n";
	auto_stop struct build b = { 0 };
	struct err err = { 0 };
	folder_make(&b.job);
	tempdir_write(&b.job, "Kbuild", makes);
	assert_int_equal(probes_shorten(&b.job.root, &err), 1);
	tempdir_write(&b.job, "Makefile", "all:\ninclude Kbuild\nlate = -Wlate\n");
	assert_int_equal(ask(&b, "cd /build && make"), 0);
	folder_expect(&b.job, "log", "made\n");
	folder_expect(&b.job, "a", "-O2 -DN=\"#a$b\" -Wlate\n");
	folder_expect(&b.job, "b", "-O2 -DN=\"#a$b\" -Wlate\n");
	assert_int_equal(ask(&b, "cd /build && echo 'show:;@echo \"$(obj-m)$(always-y)$(always)\" >>x' >>Makefile && "
				 "make show obj-m=1 && "
				 "make show " PROBES_ONLY "=1 obj=o NV_CONFTEST_HEADERS='o/h.h o/f.h'"),
			 0);
	folder_expect(&b.job, "x", "1\nh.h f.hh.h f.h\n");
	tempdir_write(&b.job, "Kbuild", "obj-m := x.o\n");
	assert_int_equal(probes_shorten(&b.job.root, &err), 0);
	folder_expect(&b.job, "Kbuild", "obj-m := x.o\n");
}

int main(int argc, char **argv)
{
	if (argc > 1 && str_eq(argv[1], SANDBOX_ARG))
		return sandbox_main(argc, argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_taken), cmocka_unit_test(test_a_failure_is_not_kept),
		cmocka_unit_test(test_damage),        cmocka_unit_test(test_hostile_answers),
		cmocka_unit_test(test_in_the_middle), cmocka_unit_test(test_bound),
		cmocka_unit_test(test_what_asks),     cmocka_unit_test(test_other_scripts),
		cmocka_unit_test(test_flags_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
