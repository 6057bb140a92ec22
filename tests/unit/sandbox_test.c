// SPDX-License-Identifier: Apache-2.0
// R-N3: what a program inside the sandbox has, sees and can reach. Run as root and as an ordinary user alike.
#include "tests/unit/test.h"

#include "kmod/sandbox/jail.h"
#include "kmod/sandbox/sandbox.h"

#include "base/core/date.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

struct output {
	char *text;
};

static void keep(void *ctx, const char *line)
{
	struct output *out = ctx;
	str_add(&out->text, "%s\n", line);
}

struct inside {
	struct folder headers, work;
	struct strv dirs;
	struct output out;
	struct proc_end end;
};

static void inside_make(struct inside *in)
{
	*in = (struct inside){ 0 };
	folder_make(&in->headers);
	folder_make(&in->work);
	folder_dir(&in->headers, "usr/src/linux-headers-test/include");
	folder_file(&in->headers, "usr/src/linux-headers-test/Makefile", "all:\n");
	folder_dir(&in->headers, "usr/lib/linux-kbuild-test/scripts");
	folder_file(&in->headers, "usr/lib/linux-kbuild-test/scripts/tool", "tool");
	folder_link(&in->headers, "../../lib/linux-kbuild-test/scripts", "usr/src/linux-headers-test/scripts");
	strv_add(&in->dirs, str_dup("/usr/src/linux-headers-test"));
	strv_add(&in->dirs, str_dup("/usr/lib/linux-kbuild-test/scripts"));
}

static void inside_done(struct inside *in)
{
	folder_done(&in->headers);
	folder_done(&in->work);
	strv_done(&in->dirs);
	free(in->out.text);
}
#define auto_inside __attribute__((cleanup(inside_done)))

static int run(struct inside *in, const char *script, struct err *err)
{
	const char *argv[] = { "/bin/sh", "-c", script, NULL };
	const char *env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL };
	const struct sandbox sandbox = { .headers = &in->headers.root,
					 .dirs = &in->dirs,
					 .scratch = "/usr/src/linux-headers-test",
					 .work = &in->work.root,
					 .argv = argv,
					 .env = env,
					 .timeout_ms = 60000,
					 .line = keep,
					 .ctx = &in->out };
	free(TAKE(in->out.text));
	in->out.text = str_dup("");
	return sandbox_run(&sandbox, &in->end, err);
}

static void expect_output(struct inside *in, const char *script, const char *text)
{
	struct err err = { 0 };
	if (run(in, script, &err) < 0)
		fail_msg("%s: %s", script, err.text);
	if (!str_eq(in->out.text, text))
		fail_msg("%s gave:\n%s", script, in->out.text);
}

static const char RIGHTS[] =
	"while read k v; do case $k in Cap*|NoNewPrivs:|Seccomp:) echo $k $v;; esac; done </proc/self/status";
static const char NO_RIGHTS[] = "CapInh: 0000000000000000\nCapPrm: 0000000000000000\nCapEff: 0000000000000000\n"
				"CapBnd: 0000000000000000\nCapAmb: 0000000000000000\nNoNewPrivs: 1\nSeccomp: 2\n";

static void test_rights(void **state)
{
	(void)state;
	needs_seccomp();
	auto_inside struct inside in;
	inside_make(&in);
	struct err err = { 0 };
	assert_int_equal(run(&in, "id -u; id -g", &err), 0);
	uint32_t uid = (uint32_t)strtoul(in.out.text, NULL, 10);
	auto_str char *both = str_fmt("%u\n%u\n", uid, geteuid() ? getegid() : uid);
	assert_string_equal(in.out.text, both);
	assert_true(geteuid() ? uid == geteuid() : uid >= 1879048192 && uid < 2147352576);
	expect_output(&in, RIGHTS, NO_RIGHTS);
	expect_output(&in, "ulimit -c", "0\n");
	expect_output(&in, "mount -t tmpfs x /tmp 2>/dev/null || echo refused", "refused\n");
	expect_output(&in, "unshare -r true 2>/dev/null || echo refused", "refused\n");
}

// Container runtimes start their programs with inheritable capabilities, which neither another user nor another program
// loses by itself.
static void test_inheritable_capabilities(void **state)
{
	(void)state;
	needs_seccomp();
	auto_inside struct inside in;
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct before[_LINUX_CAPABILITY_U32S_3], all[_LINUX_CAPABILITY_U32S_3];
	assert_int_equal(syscall(SYS_capget, &header, before), 0);
	memcpy(all, before, sizeof(all));
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		all[i].inheritable = all[i].permitted;
	inside_make(&in);
	assert_int_equal(syscall(SYS_capset, &header, all), 0);
	expect_output(&in, RIGHTS, NO_RIGHTS);
	assert_int_equal(syscall(SYS_capset, &header, before), 0);
}

// It had them for its own meanwhile, and needs no right to everybody's files afterwards.
static void test_owner(void **state)
{
	(void)state;
	needs_seccomp();
	static const char *const files[] = { "dir", "dir/file", "link" };
	auto_inside struct inside in;
	inside_make(&in);
	expect_output(&in, "mkdir dir && : >dir/file && chmod 4755 dir/file && ln -s /etc/passwd link", "");
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		struct stat st;
		assert_int_equal(fstatat(in.work.root.fd, files[i], &st, AT_SYMLINK_NOFOLLOW), 0);
		assert_int_equal(st.st_uid, geteuid());
		assert_true(geteuid() || !(st.st_mode & S_ISUID));
	}
}

static void test_no_network(void **state)
{
	(void)state;
	needs_seccomp();
	auto_inside struct inside in;
	inside_make(&in);
	expect_output(&in, "tail -n +2 /proc/net/route; tail -n +3 /proc/net/dev | grep -v lo:; echo end", "end\n");
	expect_output(&in,
		      "perl -MSocket -e 'print socket(my $s, AF_INET, SOCK_STREAM, 0) ? qq(open\n) : qq(refused\n)'",
		      "refused\n");
}

static void test_files(void **state)
{
	(void)state;
	needs_seccomp();
	auto_inside struct inside in;
	inside_make(&in);
	expect_output(&in, "pwd; echo text >made; cat made", "/build\ntext\n");
	folder_expect(&in.work, "made", "text\n");
	expect_output(&in,
		      "for d in / /usr /etc /usr/src /usr/lib /usr/src/linux-headers-test/include; do"
		      " touch $d/x 2>/dev/null && echo wrote $d; done; echo end",
		      "end\n");
	expect_output(&in, "cat /usr/src/linux-headers-test/Makefile /usr/src/linux-headers-test/scripts/tool; echo",
		      "all:\ntool\n");
	expect_output(&in, "touch /usr/src/linux-headers-test/Makefile 2>/dev/null || echo refused", "refused\n");
	expect_output(&in, "cd /usr/src/linux-headers-test && echo snippet >conftest1.c && cat conftest1.c",
		      "snippet\n");
	assert_false(root_exists(&in.headers.root, "usr/src/linux-headers-test/conftest1.c"));
	expect_output(&in, "ls /root /home /var /etc/passwd /etc/shadow 2>/dev/null; echo end", "end\n");
	expect_output(&in, "ls -A /usr/lib/bfd-plugins /usr/lib64/bfd-plugins 2>/dev/null | grep so; echo end",
		      "end\n");
	expect_output(&in, "echo x >/tmp/only-inside; ls /tmp", "only-inside\n");
	assert_int_not_equal(access("/tmp/only-inside", F_OK), 0);
	assert_int_not_equal(access("/usr/src/linux-headers-test", F_OK), 0);
	assert_int_not_equal(access("/usr/lib/linux-kbuild-test", F_OK), 0);
}

static void test_devices_and_processes(void **state)
{
	(void)state;
	needs_seccomp();
	auto_inside struct inside in;
	inside_make(&in);
	expect_output(&in, "ls /dev", "fd\nfull\nnull\nrandom\nstderr\nstdin\nstdout\nurandom\nzero\n");
	expect_output(&in, "echo gone >/dev/null; head -c 3 /dev/zero | wc -c", "3\n");
	expect_output(&in, "echo $$", "1\n");
}

static bool has_user_namespaces(void) // there are none in a chroot
{
	int status = -1;
	pid_t pid = fork();
	if (pid == 0)
		_exit(unshare(CLONE_NEWUSER) == 0 ? 0 : 1);
	return waitpid(pid, &status, 0) == pid && status == 0;
}

// A container's root that may not mount: fenced in all the same, as the owner of a user namespace.
static void test_root_without_mounts(void **state)
{
	(void)state;
	needs_seccomp();
	auto_inside struct inside in;
	struct err err = { 0 };
	if (geteuid() != 0 || !has_user_namespaces())
		skip(); // that is what all the other tests show then, or it cannot be
	inside_make(&in);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		bool is_good = prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0) == 0 &&
			       run(&in, "id -u; echo text >made; touch /usr/x 2>/dev/null || echo refused", &err) == 0;
		_exit(is_good && strtoul(in.out.text, NULL, 10) >= 1879048192 && str_ends(in.out.text, "\nrefused\n") ?
			      0 :
			      1);
	}
	int status = -1;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	expect(status == 0, err.text);
	folder_expect(&in.work, "made", "text\n");
}

static bool forbid_pivot_root(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pivot_root, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = ARRAY_SIZE(code), .filter = code };
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

// The default filter of containerd and docker: mounts are allowed to who has the right, pivot_root is not.
static void test_without_pivot_root(void **state)
{
	(void)state;
	needs_seccomp();
	static const char script[] = "echo text >made; cat /usr/src/linux-headers-test/Makefile; ls -a / /../..;"
				     "touch /x /usr/x 2>/dev/null || echo refused;"
				     "umount / /usr 2>/dev/null || echo refused; cat /etc/passwd 2>/dev/null; pwd";
	auto_inside struct inside in;
	struct err err = { 0 };
	inside_make(&in);
	assert_int_equal(run(&in, script, &err), 0);
	auto_str char *expected = str_dup(in.out.text);
	assert_non_null(strstr(expected, "refused\nrefused\n/build\n"));
	assert_null(strstr(expected, "oldroot"));
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		bool is_good = forbid_pivot_root() && run(&in, script, &err) == 0 && str_eq(in.out.text, expected);
		dprintf(STDERR_FILENO, "%s", is_good ? "" : err.code ? err.text : in.out.text);
		_exit(is_good ? 0 : 1);
	}
	int status = -1;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	folder_expect(&in.work, "made", "text\n");
	assert_int_not_equal(access("/usr/src/linux-headers-test", F_OK), 0); // nothing of it is seen outside
}

// Into a directory that is no mount point, of a shared mount, with the machine's programs: as build daemons do.
static bool enter_chroot(const char *at)
{
	static const char *const names[] = { "usr", "bin", "sbin", "lib", "lib64", "dev", "proc" };
	if (unshare(CLONE_NEWNS) < 0 || sandbox_make_private() < 0 || mount("chroot", at, "tmpfs", 0, NULL) < 0 ||
	    mount(NULL, at, NULL, MS_SHARED, NULL) < 0 || chdir(at) < 0 || mkdir("root", 0755) < 0 ||
	    chdir("root") < 0 || mkdir("tmp", 01777) < 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		auto_str char *from = str_fmt("/%s", names[i]);
		char target[64] = "";
		if (readlink(from, target, sizeof(target) - 1) > 0 ?
			    symlink(target, names[i]) < 0 :
			    access(from, F_OK) == 0 && (mkdir(names[i], 0755) < 0 ||
							mount(from, names[i], NULL, MS_BIND | MS_REC, NULL) < 0))
			return false;
	}
	return chroot(".") == 0;
}

static void test_chroot(void **state)
{
	(void)state;
	needs_seccomp();
	enum { CANNOT = 77 };
	auto_folder struct folder folder;
	struct err err = { 0 };
	folder_make(&folder);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct inside in;
		if (!enter_chroot(folder.path))
			_exit(CANNOT);
		inside_make(&in);
		auto_str char *made = str_fmt("%s/made", in.work.path);
		bool is_good = run(&in, "echo text >made; ls -a / /../..; pwd", &err) == 0 &&
			       strstr(in.out.text, "\nusr\n") && !strstr(in.out.text, "oldroot") &&
			       str_ends(in.out.text, "\n/build\n") && in.end.status == 0;
		dprintf(STDERR_FILENO, "%s", is_good ? "" : err.code ? err.text : in.out.text);
		_exit(is_good && access(made, F_OK) == 0 ? 0 : 1); // else a mount of the sandbox hides it out here
	}
	int status = -1;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT) { // no mounts for who runs the tests
		folder_done(&folder);
		skip();
	}
	assert_int_equal(status, 0);
}

static void test_base(void **state)
{
	(void)state;
	needs_seccomp();
	auto_inside struct inside in;
	auto_folder struct folder base;
	const char *argv[] = { "/bin/hello", NULL };
	struct sandbox sandbox = { .base = &base.root, .argv = argv, .timeout_ms = 60000, .line = keep };
	struct err err = { 0 };
	inside_make(&in);
	folder_make(&base);
	sandbox.ctx = &in.out;
	folder_dir(&base, "usr/bin");
	folder_link(&base, "usr/bin", "bin");
	in.out.text = str_dup("");
	assert_int_equal(sandbox_run(&sandbox, &in.end, &err), -1); // the machine's programs are not there
	assert_int_equal(err.code, E_SANDBOX);
	expect(strstr(err.text, "/bin/hello"), err.text);
	folder_file(&base, "usr/bin/hello", "#!/bin/busybox sh\n");
	assert_int_equal(sandbox_run(&sandbox, &in.end, &err), -1); // nor is an interpreter
	folder_dir(&base, "usr/lib");
	folder_link(&base, "usr/lib", "lib");
	argv[0] = "/bin/absent";
	sandbox.headers = &in.headers.root;
	sandbox.dirs = &in.dirs;
	sandbox.work = &in.work.root;
	assert_int_equal(sandbox_run(&sandbox, &in.end, &err), -1);
	expect(strstr(err.text, "start '/bin/absent'"), err.text); // all before it went well
}

static void test_endings(void **state)
{
	(void)state;
	needs_seccomp();
	auto_inside struct inside in;
	struct err err = { 0 };
	inside_make(&in);
	assert_int_equal(run(&in, "exit 7", &err), 0);
	assert_int_equal(in.end.status, 7);
	assert_int_equal(run(&in, "kill -9 $$; sleep 1; sh -c 'kill -9 $PPID'; exit 3", &err), 0);
	assert_int_equal(in.end.status, 3); // the first process of a pid namespace is immune to its own signals
	strv_add(&in.dirs, str_dup("/usr/src/absent"));
	assert_int_equal(run(&in, "true", &err), -1);
	assert_int_equal(err.code, E_SANDBOX);
	assert_non_null(strstr(err.text, "/usr/src/absent"));
}

static void test_timeout(void **state)
{
	(void)state;
	needs_seccomp();
	auto_inside struct inside in;
	struct err err = { 0 };
	inside_make(&in);
	const char *argv[] = { "/bin/sh", "-c", "sleep 1000 & sleep 1000", NULL };
	const char *env[] = { "PATH=/usr/bin:/bin", NULL };
	const struct sandbox sandbox = { .work = &in.work.root, .argv = argv, .env = env, .timeout_ms = 300 };
	assert_int_equal(sandbox_run(&sandbox, &in.end, &err), 0);
	assert_true(in.end.is_timed_out);
}

static void expect_all_end(bool has_mounts)
{
	auto_inside struct inside in;
	struct err err = { 0 };
	inside_make(&in);
	// A pipe that every process in there holds open: its end is a sign, not the absence of one.
	auto_str char *path = str_fmt("%s/held", in.work.path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(chmod(path, 0666), 0);
	auto_fd int held = open(path, O_RDONLY | O_NONBLOCK);
	assert_true(held >= 0);
	pid_t pid = fork();
	if (pid == 0)
		_exit((!has_mounts && prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0) < 0) ||
		      run(&in, "exec >held; echo; setsid sleep 120 & sleep 120; wait", &err) < 0);
	struct pollfd end = { .fd = held, .events = POLLIN };
	char started = 0;
	assert_int_equal(poll(&end, 1, 60000), 1);
	assert_int_equal(read(held, &started, 1), 1);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(poll(&end, 1, 60000), 1);
	assert_int_equal(read(held, &started, 1), 0);
}

static void test_nothing_outlives_the_program(void **state)
{
	(void)state;
	needs_seccomp();
	expect_all_end(true);
	if (geteuid() == 0 && has_user_namespaces())
		expect_all_end(false);
}

// What a compile writes is looked at once a second: a child that writes too much, or too many files, or nothing much.
static void test_room(void **state)
{
	(void)state;
	static const struct {
		const char *script;
		const char *why;
	} rows[] = {
		{ "head -c 3000000 /dev/zero >big; exec sleep 60", "the compile wrote more than 2 MiB" },
		{ "mkdir -p a/b; for i in 1 2 3 4 5 6 7 8 9; do : >a/b/$i; done; exec sleep 60",
		  "the compile made more than 10 files" },
		{ "truncate -s 1G hole; sleep 2; exit 3", NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder f;
		auto_str char *why = NULL;
		folder_make(&f);
		pid_t pid = fork();
		if (pid == 0) {
			if (fchdir(f.root.fd) == 0)
				execl("/bin/sh", "sh", "-c", rows[i].script, NULL);
			_exit(127);
		}
		assert_true(pid > 0);
		const struct write_limit room = { .dirs = { f.root.fd, -1 }, .bytes = 2 << 20, .files = 10 };
		int status = sandbox_limit_writes(pid, &room, &why);
		assert_int_equal(rows[i].why ? WTERMSIG(status) : WEXITSTATUS(status), rows[i].why ? SIGKILL : 3);
		assert_true(rows[i].why ? str_eq(why, rows[i].why) : !why);
	}
}

// The end of a compile is heard of at once, not at the next look at what it wrote, a second later.
static void test_the_end_is_heard(void **state)
{
	(void)state;
	enum { COMPILES = 10, MOST_MS = 6000 };
	const struct write_limit room = { .dirs = { -1, -1 } };
	int64_t start = clock_ms();
	for (int i = 0; i < COMPILES; i++) {
		auto_str char *why = NULL;
		pid_t pid = fork();
		if (pid == 0) {
			usleep(20 * 1000);
			_exit(3);
		}
		assert_int_equal(WEXITSTATUS(sandbox_limit_writes(pid, &room, &why)), 3);
	}
	assert_true(clock_ms() - start < MOST_MS);
}

// Two compiles at once never get the same one.
static void test_uids(void **state)
{
	(void)state;
	struct err err = { 0 };
	uid_t a = 0, b = 0;
	assert_int_equal(sandbox_choose_uid(&a, &err), 0);
	assert_int_equal(sandbox_choose_uid(&b, &err), 0);
	assert_true(geteuid() ? a == geteuid() && b == a : a != b);
}

int main(int argc, char **argv)
{
	if (argc > 1 && str_eq(argv[1], SANDBOX_ARG))
		return sandbox_main(argc, argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rights),
		cmocka_unit_test(test_inheritable_capabilities),
		cmocka_unit_test(test_owner),
		cmocka_unit_test(test_no_network),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_devices_and_processes),
		cmocka_unit_test(test_root_without_mounts),
		cmocka_unit_test(test_without_pivot_root),
		cmocka_unit_test(test_chroot),
		cmocka_unit_test(test_base),
		cmocka_unit_test(test_endings),
		cmocka_unit_test(test_timeout),
		cmocka_unit_test(test_nothing_outlives_the_program),
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_the_end_is_heard),
		cmocka_unit_test(test_uids),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
