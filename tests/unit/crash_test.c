// SPDX-License-Identifier: Apache-2.0
// Killed before any of its system calls that change something, the store still verifies and keeps what it must, and the
// same work can be done again. The child is stepped with ptrace, so that every such call is a point of its own.
#include "precompiled/part.h"
#include "tests/unit/stored.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static bool changes_something(uint64_t nr)
{
	static const uint64_t list[] = { SYS_write,     SYS_pwrite64, SYS_renameat, SYS_renameat2,
					 SYS_rename,    SYS_unlink,   SYS_unlinkat, SYS_fsync,
					 SYS_ftruncate, SYS_mkdirat,  SYS_fchmod };
	for (size_t i = 0; i < ARRAY_SIZE(list); i++)
		if (list[i] == nr)
			return true;
	return false;
}

// 1 = killed at its point'th such call, 0 = it was done before.
static int run_killed(void (*work)(const struct setting *), const struct setting *s, int point)
{
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
			_exit(99);
		raise(SIGSTOP);
		work(s);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 99)
		skip(); // this machine forbids ptrace
	ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
	while (point > 0) {
		struct __ptrace_syscall_info info = { 0 };
		assert_int_equal(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (WIFEXITED(status)) {
			assert_int_equal(WEXITSTATUS(status), 0);
			return 0;
		}
		assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | 0x80));
		ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info);
		if (info.op == PTRACE_SYSCALL_INFO_ENTRY && changes_something(info.entry.nr))
			point--;
	}
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return 1;
}

static void must(int r)
{
	if (r < 0)
		_exit(1);
}

static void collect(const struct setting *s)
{
	struct err err;
	auto_store struct store mine = STORE_NONE;
	auto_store_garbage struct store_garbage g = { 0 };
	must(store_open(&s->folder.root, 0, &mine, &err));
	must(store_gc(&mine, &s->kernels, false, &g, &err));
}

static const char TEXT[] = "a layer that comes in pieces";

static void bring(const struct setting *s)
{
	struct err err;
	auto_store struct store mine = STORE_NONE;
	auto_part struct part p = PART_NONE;
	auto_descriptor struct descriptor d = { .size = sizeof(TEXT) };
	char hex[DIGEST_HEX + 1];
	digest_data(TEXT, sizeof(TEXT), d.digest);
	must(store_open(&s->folder.root, 0, &mine, &err));
	must(part_open(&mine.layout, &d, &p, &err));
	while (!p.is_committed && p.have < p.size) {
		size_t rest = (size_t)(p.size - p.have);
		must(part_add(&p, TEXT + p.have, rest < 3 ? rest : 3, &err));
	}
	must(part_commit(&p, &err));
	struct manifest m = { .config = d };
	d.media_type = str_dup(OCI_LAYER);
	m.config.media_type = d.media_type;
	auto_str char *text = manifest_text(&m);
	auto_descriptor struct descriptor its = { .media_type = str_dup(OCI_MANIFEST), .size = strlen(text) };
	must(layout_blob_put(&mine.layout, text, its.size, hex, &err));
	memcpy(its.digest, hex, sizeof(hex));
	must(layout_publish(&mine.layout, &its, "brought", &err));
	must(store_pin(&mine, hex, &err));
}

static void mend(const struct setting *s)
{
	struct err err;
	auto_store struct store mine = STORE_NONE;
	must(store_open(&s->folder.root, 0, &mine, &err));
	must(store_quarantine(&mine, s->layer[1], NULL, &err));
}

// Everything that must hold whenever the power fails.
static void expect_whole(struct setting *s)
{
	struct err err;
	auto_store_roots struct store_roots r = { 0 };
	assert_int_equal(store_open(&s->folder.root, 0, &s->store, &err), 0);
	expect_sound(s);
	assert_true(has(s, 0));
	assert_int_equal(store_roots(&s->store, &r, &err), 0);
	assert_string_equal(r.target, s->hex[0]);
	store_done(&s->store);
}

static int count_points(void (*work)(const struct setting *), bool is_gone)
{
	struct err err;
	for (int point = 1;; point++) {
		auto_setting struct setting s;
		setting_make(&s, 2);
		sign(&s, 1, true);
		sign(&s, 1, false);
		assert_int_equal(store_set_target(&s.store, s.hex[0], &err), 1);
		folder_file(&s.folder, "store/blobs/sha256/.left.part", "123");
		folder_file(&s.folder, "store/blobs/sha256/.new.7.part", "12345");
		store_done(&s.store);
		int killed = run_killed(work, &s, point);
		expect_whole(&s);
		run_killed(work, &s, 1 << 20);
		expect_whole(&s);
		assert_int_equal(store_open(&s.folder.root, 0, &s.store, &err), 0);
		assert_int_equal(has(&s, 1), !is_gone);
		if (!killed)
			return point - 1;
	}
}

static void at_every_point(void **state)
{
	(void)state;
	int points = count_points(collect, true) + count_points(bring, false) + count_points(mend, true);
	print_message("# killed at %d points\n", points);
	assert_true(points >= 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(at_every_point) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
