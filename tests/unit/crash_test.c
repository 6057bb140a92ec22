// SPDX-License-Identifier: Apache-2.0
// Killed before any of its system calls that change something, the store still verifies and keeps what it must, and the
// same work can be done again. The child is stepped with ptrace, so that every such call is a point of its own.
//
// A killed process leaves what it wrote in the page cache, a power cut does not: so the order of its calls counts, too.
// What gets a name was synced before, and what names a blob comes after the sync of the blob's directory.
#include "journal/journal.h"
#include "precompiled/bundle/bundle.h"
#include "precompiled/oci/partial_blob.h"
#include "tests/unit/stored.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static bool changes_something(uint64_t nr)
{
	static const uint64_t list[] = {
#ifdef SYS_rename // arm64 has only those with a directory
		SYS_rename, SYS_unlink,
#endif
		SYS_write,  SYS_pwrite64,  SYS_renameat, SYS_renameat2, SYS_unlinkat,
		SYS_fsync,  SYS_ftruncate, SYS_mkdirat,  SYS_fchmod,
	};
	for (size_t i = 0; i < ARRAY_SIZE(list); i++)
		if (list[i] == nr)
			return true;
	return false;
}

static pid_t start(void (*work)(const struct setting *), const struct setting *s)
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
	return pid;
}

// 1 = it stands before a system call, 0 = it was done before.
static int step(pid_t pid, struct __ptrace_syscall_info *ret)
{
	int status;
	do {
		assert_int_equal(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (WIFEXITED(status)) {
			assert_int_equal(WEXITSTATUS(status), 0);
			return 0;
		}
		assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | 0x80));
		ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(*ret), ret);
	} while (ret->op != PTRACE_SYSCALL_INFO_ENTRY);
	return 1;
}

// 1 = killed at its point'th such call, 0 = it was done before.
static int run_killed(void (*work)(const struct setting *), const struct setting *s, int point)
{
	int status;
	struct __ptrace_syscall_info info = { 0 };
	pid_t pid = start(work, s);
	while (point > 0) {
		if (!step(pid, &info))
			return 0;
		point -= changes_something(info.entry.nr);
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
	auto_partial_blob struct partial_blob p = PARTIAL_BLOB_NONE;
	auto_oci_descriptor struct oci_descriptor d = { .size = sizeof(TEXT) };
	char hex[DIGEST_HEX + 1];
	digest_data(TEXT, sizeof(TEXT), d.digest);
	must(store_open(&s->folder.root, 0, &mine, &err));
	must(partial_blob_open(&mine.layout, &d, &p, &err));
	while (!p.is_committed && p.have < p.size) {
		size_t rest = (size_t)(p.size - p.have);
		must(partial_blob_append(&p, TEXT + p.have, rest < 3 ? rest : 3, &err));
	}
	must(partial_blob_commit(&p, &err));
	struct oci_manifest m = { .config = d };
	d.media_type = str_dup(OCI_LAYER);
	m.config.media_type = d.media_type;
	auto_str char *text = oci_manifest_text(&m);
	auto_oci_descriptor struct oci_descriptor its = { .media_type = str_dup(OCI_MANIFEST), .size = strlen(text) };
	must(layout_blob_put(&mine.layout, text, its.size, hex, &err));
	memcpy(its.digest, hex, sizeof(hex));
	must(layout_publish(&mine.layout, &its, "brought", &err));
	must(store_pin(&mine, hex, true, &err));
}

static void bundle(const struct setting *s)
{
	struct err err;
	auto_store struct store mine = STORE_NONE;
	auto_str char *file = str_fmt("%s/bundle.tar", s->folder.path);
	must(store_open(&s->folder.root, 0, &mine, &err));
	must(bundle_write(&mine.layout, file, &err));
}

static void note(const struct setting *s)
{
	struct err err;
	auto_journal struct journal j = { .state = JOURNAL_CHANGING };
	must(journal_keep(&s->folder.root, &s->folder.root, false, &j, &err));
}

static void mend(const struct setting *s)
{
	struct err err;
	auto_store struct store mine = STORE_NONE;
	must(store_open(&s->folder.root, 0, &mine, &err));
	must(store_quarantine(&mine, s->layer[1], NULL, &err));
}

static void create(const struct setting *s)
{
	struct err err;
	struct setting mine = { .folder = s->folder, .store = STORE_NONE };
	must(store_open(&s->folder.root, 0, &mine.store, &err));
	add_package(&mine, 3);
	store_done(&mine.store);
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
	int points = count_points(collect, true) + count_points(bring, false) + count_points(create, false) +
		     count_points(mend, true);
	print_message("# killed at %d points\n", points);
	assert_true(points >= 50);
}

// What a power cut would take: files that were written, and directories in which something got its name.
struct disk {
	struct strv dirty;
	struct strv wrong; // names that were given too early
	int names, blobs;  // that were given, and of them those of blobs
};

static void disk_done(struct disk *d)
{
	strv_done(&d->dirty);
	strv_done(&d->wrong);
}
#define auto_disk __attribute__((cleanup(disk_done)))

static char *path_of(pid_t pid, uint64_t fd)
{
	char target[512] = "";
	auto_str char *link = str_fmt("/proc/%d/fd/%d", pid, (int)fd);
	assert_true(readlink(link, target, sizeof(target) - 1) > 0);
	return str_dup(target);
}

static char *path_at(pid_t pid, uint64_t dir, uint64_t name)
{
	char text[256] = "";
	auto_str char *mem = str_fmt("/proc/%d/mem", pid), *above = path_of(pid, dir);
	auto_fd int fd = open(mem, O_RDONLY | O_CLOEXEC);
	assert_true(pread(fd, text, sizeof(text) - 1, (off_t)name) > 0);
	return str_fmt("%s/%s", above, text);
}

static void make_clean(struct disk *d, const char *path)
{
	struct strv rest = { 0 };
	for (size_t i = 0; i < d->dirty.count; i++)
		if (!str_eq(d->dirty.items[i], path))
			strv_add(&rest, str_dup(d->dirty.items[i]));
	strv_done(&d->dirty);
	d->dirty = rest;
}

static bool is_dirty_blobs(const struct disk *d)
{
	for (size_t i = 0; i < d->dirty.count; i++)
		if (str_ends(d->dirty.items[i], "/blobs/sha256"))
			return true;
	return false;
}

static void give_name(struct disk *d, const char *from, const char *to)
{
	auto_str char *dir = str_ndup(to, (size_t)(strrchr(to, '/') - to));
	bool is_blob = str_ends(dir, "/blobs/sha256");
	if (strv_has(&d->dirty, from))
		strv_add(&d->wrong, str_fmt("%s before its content is on the disk", to));
	if (!is_blob && is_dirty_blobs(d))
		strv_add(&d->wrong, str_fmt("%s before the names of the blobs are on the disk", to));
	d->names++;
	d->blobs += is_blob;
	make_clean(d, from);
	strv_add(&d->dirty, TAKE(dir));
}

static void look(struct disk *d, pid_t pid, const struct __ptrace_syscall_info *info)
{
	const uint64_t *args = info->entry.args;
	auto_str char *path = NULL, *to = NULL;
	switch (info->entry.nr) {
	case SYS_write:
	case SYS_pwrite64:
	case SYS_ftruncate:
		strv_add(&d->dirty, path_of(pid, args[0]));
		break;
	case SYS_fsync:
		path = path_of(pid, args[0]);
		make_clean(d, path);
		break;
	case SYS_renameat:
	case SYS_renameat2:
		path = path_at(pid, args[0], args[1]);
		to = path_at(pid, args[2], args[3]);
		give_name(d, path, to);
		break;
	default:
		break;
	}
}

static void synced_before_named(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		void (*work)(const struct setting *);
		int names, blobs;
	} rows[] = {
		{ "bring", bring, 4, 2 }, { "create", create, 7, 4 }, { "bundle", bundle, 1, 0 }, { "note", note, 1, 0 }
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_setting struct setting s;
		auto_disk struct disk d = { 0 };
		struct __ptrace_syscall_info info = { 0 };
		setting_make(&s, 1);
		store_done(&s.store);
		pid_t pid = start(rows[i].work, &s);
		while (step(pid, &info))
			look(&d, pid, &info);
		auto_str char *wrong = strv_join(&d.wrong, "; "), *left = strv_join(&d.dirty, " ");
		expect(d.wrong.count == 0, wrong);
		expect(d.dirty.count == 0, left);
		auto_str char *found = str_fmt("%s: %d names, %d of blobs", rows[i].name, d.names, d.blobs);
		expect(d.names == rows[i].names && d.blobs == rows[i].blobs, found);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(at_every_point), cmocka_unit_test(synced_before_named) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
