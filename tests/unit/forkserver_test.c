// SPDX-License-Identifier: Apache-2.0
// Fork servers inside of a sandbox: they compile what the compiler alone would, and whatever happens to them, so does
// the compile.
#include "tests/unit/tempdir.h"

#include "kmod/forkserver/forkserver.h"
#include "kmod/sandbox/sandbox.h"

#define MIB ((uint64_t)1 << 20)

// One sandbox: servers live no longer. What the script prints is the failure's text.
static int run(const struct folder *job, const char *script)
{
	auto_str char *all = str_fmt("cd /build && %s", script);
	const char *argv[] = { "/bin/sh", "-c", all, NULL }, *env[] = { "PATH=/usr/bin:/bin", "LC_ALL=C", NULL };
	const struct sandbox sandbox = { .work = &job->root, .argv = argv, .env = env, .timeout_ms = 60000 };
	struct proc_end end;
	struct err err = { 0 };
	if (sandbox_run(&sandbox, &end, &err) < 0)
		fail_msg("%s", err.text);
	if (end.status)
		print_message("%s\n", end.tail);
	return end.status;
}

static void prepare(struct folder *job)
{
	struct err err = { 0 };
	folder_make(job);
	if (forkserver_prepare(&job->root, &err) < 0)
		fail_msg("%s", err.text);
}

static void test_check(void **state)
{
	(void)state;
	needs_seccomp();
	struct folder job;
	struct err err = { 0 };
	prepare(&job);
	assert_int_equal(run(&job, "sh forkserver/check.sh gcc"), 0);
	// A compiler without cc1 as a program, none at all, and a library that cannot be loaded or that nothing loads.
	assert_int_equal(run(&job, "! why=$(sh forkserver/check.sh true) && [ \"$why\" = 'true has no cc1' ]"), 0);
	assert_int_equal(run(&job, "! why=$(sh forkserver/check.sh absent) && [ \"$why\" = 'absent has no cc1' ]"), 0);
	assert_int_equal(run(&job, ">forkserver/preload.so && ! why=$(sh forkserver/check.sh gcc) && "
				   "case $why in *'another '* | *'is not used') ;; *) echo \"$why\"; false ;; esac"),
			 0);
	if (forkserver_prepare(&job.root, &err) < 0)
		fail_msg("%s", err.text);
	assert_false(root_exists(&job.root, FORKSERVER_DIR "/cc1")); // nothing of the one before is left
	folder_done(&job);
}

// A few sources with one beginning; `same N` compiles one with servers, and compares it with what gcc alone makes.
#define SOURCES                                                                                                       \
	"sh forkserver/check.sh gcc || exit; export COMPILER_PATH=/build/forkserver; rm -f forkserver/log; "          \
	"D=/tmp/kmodsmith-forkserver; rm -rf $D; echo 'static int twice(int a) { return 2 * a; }' >h.h; "             \
	"for i in 1 2 3 4 5 6 7 8; do printf '#include \"h.h\"\\nint f%d(void) { return twice(%d) + __LINE__; }\\n' " \
	"$i $i >$i.c; COMPILER_PATH= gcc -g0 -c -o $i.alone $i.c || exit; done; "                                     \
	"same() { gcc -g0 -c -o $1.o $1.c && cmp $1.o $1.alone; }; "                                                  \
	"servers() { for p in /proc/[0-9]*; do case $(readlink $p/exe) in */cc1) kill $1 ${p#/proc/} ;; esac; done; " \
	"}; "                                                                                                         \
	"forked() { grep -c forked forkserver/log; }; "

static void test_accidents(void **state)
{
	(void)state;
	needs_seccomp();
	static const struct {
		const char *what, *script;
		size_t forked;
	} rows[] = {
		{ "none", "same 1 && same 2", 2 },
		{ "servers that are killed", "same 1 && servers -KILL && same 2 && same 3", 1 },
		{ "a compile that is killed, while it waits for a header",
		  "compilers() { for p in /proc/[0-9]*; do case $(readlink $p/exe) in */cc1) echo ${p#/proc/} ;; esac; "
		  "done; }; "
		  "mkfifo pipe.h; printf '#include \"h.h\"\nint a;\n#include \"pipe.h\"\n' >9.c; same 1 || exit; "
		  "servers=$(compilers | wc -l); gcc -g0 -c -o 9.o 9.c & "
		  "until [ $(compilers | wc -l) = $((servers + 2)) ]; do sleep 0.1; done; " // one asks, one compiles
		  "child=$(compilers | sort -n | tail -n 1); kill -KILL $child; "
		  "while kill -0 $child; do sleep 0.1; done; echo 'int b;' >pipe.h; wait $! || exit; "
		  "echo 'int b;' >pipe.h & COMPILER_PATH= gcc -g0 -c -o 9.alone 9.c && cmp 9.o 9.alone",
		  1 },
		{ "servers that hang", "same 1 && servers -STOP && same 2", 1 },
		{ "names without servers", "same 1 && servers -KILL && rm $D/server.* $D/first.* && same 2", 1 },
		{ "no directory", "same 1 && rm -rf $D && same 2 && same 3", 3 },
		{ "a file in its place", "touch $D && same 1 && same 2", 0 },
		{ "a directory that cannot be written", "same 1 && chmod 500 $D && same 2", 1 },
		{ "failures that nobody hears",
		  "printf '#include \"h.h\"\nint f(void) { return none; }\n' >bad.c; for i in 1 2 3; do "
		  "! gcc -g0 -c -o bad.o bad.c >/dev/null 2>&1 || exit; done; ! [ -e bad.o ]",
		  3 },
		{ "failures that somebody hears",
		  "printf '#include \"h.h\"\nint f(void) { return none; }\n' >bad.c; same 1 && "
		  "! gcc -g0 -c -o bad.o bad.c 2>said && grep -q 'bad.c:2:.*none' said",
		  1 },
		{ "of another identity", "same 1 && for i in $D/identity.*; do echo x >$i; done; same 2", 1 },
		{ "other arguments",
		  "same 1 && gcc -g0 -O1 -c -o x 2.c && COMPILER_PATH= gcc -g0 -O1 -c -o y 2.c && cmp x y", 2 },
		{ "debug information is asked for", "gcc -g -c -o x 1.c && gcc -g -c -o x 2.c", 0 },
		{ "a header that changes",
		  "same 1 && echo 'static int twice(int a) { return 3 * a; }' >h.h; "
		  "COMPILER_PATH= gcc -g0 -c -o 2.alone 2.c; same 2",
		  1 },
		{ "all at once", "for i in 1 2 3 4 5 6 7 8; do same $i || touch failed & done; wait; ! [ -e failed ]",
		  SIZE_MAX },
		{ "fewer servers than beginnings",
		  "export FORKSERVER_MOST=1; for i in 1 2 3; do echo \"int i$i;\" >h$i.h; for k in a b; do "
		  "printf '#include \"h%d.h\"\\nint x;\\n' $i >$i$k.c; done; done; for k in a b; do for i in 1 2 3; do "
		  "gcc -g0 -c -o x $i$k.c && COMPILER_PATH= gcc -g0 -c -o y $i$k.c && cmp x y || exit; done; done; "
		  "[ $(ls $D | grep -c '^server') = 1 ]",
		  6 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct folder job;
		auto_str char *script = str_fmt("%s%s", SOURCES, rows[i].script);
		prepare(&job);
		expect(run(&job, script) == 0, rows[i].what);
		expect(rows[i].forked == SIZE_MAX || forkserver_count(&job.root) == rows[i].forked, rows[i].what);
		folder_done(&job);
	}
}

static void test_most(void **state)
{
	(void)state;
	assert_int_equal(forkserver_most(UINT64_MAX), 48);
	assert_int_equal(forkserver_most(3072 * MIB), 48);
	assert_int_equal(forkserver_most(640 * MIB), 10);
	assert_int_equal(forkserver_most(256 * MIB), 4);
	assert_int_equal(forkserver_most(255 * MIB), 0);
	assert_int_equal(forkserver_most(0), 0);
}

int main(int argc, char **argv)
{
	if (argc > 1 && str_eq(argv[1], SANDBOX_ARG))
		return sandbox_main(argc, argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_check),
		cmocka_unit_test(test_accidents),
		cmocka_unit_test(test_most),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
