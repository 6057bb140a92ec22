// SPDX-License-Identifier: Apache-2.0
#include "precompiled/oci/partial_blob.h"
#include "tests/unit/tempdir.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

static const char TEXT[] = "0123456789";
#define BLOB "blobs/sha256/84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882"
#define PART "blobs/sha256/.84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882.part"

struct setting {
	struct folder folder;
	struct layout layout;
	struct oci_descriptor d;
};

static void setting_make(struct setting *s)
{
	struct err err;
	*s = (struct setting){ .d = { .size = strlen(TEXT) } };
	folder_make(&s->folder);
	assert_int_equal(layout_make(&s->folder.root, &s->layout, &err), 0);
	digest_data(TEXT, strlen(TEXT), s->d.digest);
}

static void setting_done(struct setting *s)
{
	layout_done(&s->layout);
	folder_done(&s->folder);
}
#define auto_setting __attribute__((cleanup(setting_done)))

static void complete_in_one_write(void **state)
{
	(void)state;
	auto_setting struct setting s;
	auto_partial_blob struct partial_blob p = PARTIAL_BLOB_NONE, again = PARTIAL_BLOB_NONE;
	struct err err;
	char buf[16];
	setting_make(&s);
	assert_int_equal(partial_blob_open(&s.layout, &s.d, &p, &err), 0);
	assert_int_equal(partial_blob_append(&p, TEXT, 10, &err), 0);
	assert_false(layout_has(&s.layout, s.d.digest));
	assert_int_equal(partial_blob_commit(&p, &err), 0);
	assert_true(p.is_committed);
	assert_int_equal(read(p.fd, buf, sizeof(buf)), 10);
	folder_expect(&s.folder, BLOB, TEXT);
	assert_false(root_exists(&s.folder.root, PART));
	assert_int_equal(partial_blob_open(&s.layout, &s.d, &again, &err), 1);
	assert_true(again.is_committed && again.have == 10);
	assert_int_equal(read(again.fd, buf, sizeof(buf)), 10);
	assert_int_equal(partial_blob_commit(&again, &err), 0);
}

// What lies there when a part begins, and what follows.
static void left_by_an_earlier_run(void **state)
{
	(void)state;
	static const struct {
		const char *left, *rest;
		uint64_t have;
		int code;
	} rows[] = {
		{ "", "0123456789", 0, 0 },
		{ "0123", "456789", 4, 0 },
		{ "0123456789", "", 10, 0 },
		{ "0123456789x", "0123456789", 0, 0 }, // more than there can be: from the start
		{ "x123", "456789", 4, E_DIGEST },
		{ "0123", "45678", 4, E_DIGEST },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_setting struct setting s;
		auto_partial_blob struct partial_blob p = PARTIAL_BLOB_NONE;
		struct err err = { 0 };
		setting_make(&s);
		folder_file(&s.folder, PART, rows[i].left);
		expect(partial_blob_open(&s.layout, &s.d, &p, &err) == 0, rows[i].left);
		expect(p.have == rows[i].have, rows[i].left);
		expect(partial_blob_append(&p, rows[i].rest, strlen(rows[i].rest), &err) == 0, rows[i].left);
		expect(partial_blob_commit(&p, &err) == (rows[i].code ? -1 : 0), rows[i].left);
		expect(!rows[i].code || err.code == rows[i].code, rows[i].left);
		expect(layout_has(&s.layout, s.d.digest) == !rows[i].code, rows[i].left);
		expect(!root_exists(&s.folder.root, PART), rows[i].left);
	}
}

static void more_bytes_than_stated(void **state)
{
	(void)state;
	auto_setting struct setting s;
	auto_partial_blob struct partial_blob p = PARTIAL_BLOB_NONE;
	struct err err;
	setting_make(&s);
	assert_int_equal(partial_blob_open(&s.layout, &s.d, &p, &err), 0);
	assert_int_equal(partial_blob_append(&p, "abc", 3, &err), 0);
	assert_int_equal(partial_blob_append(&p, TEXT, 10, &err), -1);
	assert_int_equal(err.code, E_TOO_LARGE);
	assert_int_equal(p.have, 3);
	assert_int_equal(partial_blob_restart(&p, &err), 0);
	assert_int_equal(partial_blob_append(&p, TEXT, 10, &err), 0);
	assert_int_equal(partial_blob_append(&p, "", 0, &err), 0);
	assert_int_equal(partial_blob_append(&p, "x", 1, &err), -1);
	assert_int_equal(partial_blob_commit(&p, &err), 0);
}

static void one_process_at_a_time(void **state)
{
	(void)state;
	auto_setting struct setting s;
	struct partial_blob p = PARTIAL_BLOB_NONE, other = PARTIAL_BLOB_NONE;
	struct err err;
	setting_make(&s);
	assert_int_equal(partial_blob_open(&s.layout, &s.d, &p, &err), 0);
	assert_int_equal(partial_blob_append(&p, TEXT, 4, &err), 0);
	assert_int_equal(partial_blob_open(&s.layout, &s.d, &other, &err), -1);
	assert_int_equal(err.code, E_LOCKED);
	partial_blob_done(&p);
	partial_blob_done(&p); // twice is fine
	assert_int_equal(partial_blob_open(&s.layout, &s.d, &other, &err), 0);
	assert_int_equal(other.have, 4);
	partial_blob_done(&other);
}

// A blob that is shorter than its descriptor says was damaged: it is brought again and replaced.
static void damaged_blob_is_replaced(void **state)
{
	(void)state;
	auto_setting struct setting s;
	auto_partial_blob struct partial_blob p = PARTIAL_BLOB_NONE;
	struct err err;
	setting_make(&s);
	folder_file(&s.folder, BLOB, "012");
	assert_int_equal(partial_blob_open(&s.layout, &s.d, &p, &err), 0);
	assert_int_equal(partial_blob_append(&p, TEXT, 10, &err), 0);
	assert_int_equal(partial_blob_commit(&p, &err), 0);
	folder_expect(&s.folder, BLOB, TEXT);
}

static void killed_and_resumed(void **state)
{
	(void)state;
	auto_setting struct setting s;
	auto_partial_blob struct partial_blob p = PARTIAL_BLOB_NONE;
	struct err err;
	int status;
	setting_make(&s);
	pid_t pid = fork();
	if (pid == 0) {
		struct partial_blob mine = PARTIAL_BLOB_NONE;
		if (partial_blob_open(&s.layout, &s.d, &mine, &err) < 0 ||
		    partial_blob_append(&mine, TEXT, 7, &err) < 0)
			_exit(1);
		raise(SIGKILL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(partial_blob_open(&s.layout, &s.d, &p, &err), 0);
	assert_int_equal(p.have, 7);
	assert_int_equal(partial_blob_append(&p, TEXT + 7, 3, &err), 0);
	assert_int_equal(partial_blob_commit(&p, &err), 0);
}

// A write that stops half way (here at the file size limit) leaves only the counted bytes and can be repeated.
static void a_partial_write_is_undone(void **state)
{
	(void)state;
	auto_setting struct setting s;
	auto_partial_blob struct partial_blob p = PARTIAL_BLOB_NONE;
	struct rlimit old, small;
	struct stat st;
	struct err err;
	setting_make(&s);
	assert_int_equal(partial_blob_open(&s.layout, &s.d, &p, &err), 0);
	assert_int_equal(partial_blob_append(&p, TEXT, 4, &err), 0);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	small = (struct rlimit){ 6, old.rlim_max };
	setrlimit(RLIMIT_FSIZE, &small);
	int r = partial_blob_append(&p, TEXT + 4, 6, &err);
	setrlimit(RLIMIT_FSIZE, &old);
	assert_int_equal(r, -1);
	assert_int_equal(err.code, EFBIG);
	assert_int_equal(p.have, 4);
	assert_int_equal(fstat(p.fd, &st), 0);
	assert_int_equal(st.st_size, 4);
	assert_int_equal(partial_blob_append(&p, TEXT + 4, 6, &err), 0);
	assert_int_equal(partial_blob_commit(&p, &err), 0);
}

enum { RACERS = 6 };

static void race(const struct setting *s)
{
	for (int i = 0; i < 20000; i++) {
		auto_partial_blob struct partial_blob p = PARTIAL_BLOB_NONE;
		struct err err;
		int r = partial_blob_open(&s->layout, &s->d, &p, &err);
		if (r > 0)
			_exit(0);
		if (r < 0 && err.code != E_LOCKED)
			_exit(1);
		if (r < 0)
			usleep(200);
		if (r == 0 && p.have < p.size && partial_blob_append(&p, TEXT + p.have, 1, &err) < 0)
			_exit(2);
		if (r == 0 && p.have == p.size && partial_blob_commit(&p, &err) < 0)
			_exit(3);
	}
	_exit(4);
}

// Each process finds the lock, a part that it resumes, or the blob; none completes a blob that is complete.
static void concurrent_processes(void **state)
{
	(void)state;
	auto_setting struct setting s;
	setting_make(&s);
	for (int i = 0; i < RACERS; i++)
		if (fork() == 0)
			race(&s);
	for (int i = 0; i < RACERS; i++) {
		int status;
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	folder_expect(&s.folder, BLOB, TEXT);
	assert_false(root_exists(&s.folder.root, PART));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(complete_in_one_write),     cmocka_unit_test(left_by_an_earlier_run),
		cmocka_unit_test(more_bytes_than_stated),    cmocka_unit_test(one_process_at_a_time),
		cmocka_unit_test(damaged_blob_is_replaced),  cmocka_unit_test(killed_and_resumed),
		cmocka_unit_test(a_partial_write_is_undone), cmocka_unit_test(concurrent_processes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
