// SPDX-License-Identifier: Apache-2.0
#include "precompiled/oci/layout_view.h"
#include "tests/unit/tempdir.h"

#include <sys/wait.h>

#define EMPTY_HEX "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"

static struct oci_descriptor point(const char *hex, uint64_t size)
{
	struct oci_descriptor d = { .media_type = str_dup(OCI_MANIFEST), .size = size };
	memcpy(d.digest, hex, sizeof(d.digest));
	return d;
}

static void created_opened_and_created_again(void **state)
{
	(void)state;
	auto_folder struct folder f;
	auto_layout struct layout l = LAYOUT_NONE, again = LAYOUT_NONE, opened = LAYOUT_NONE;
	auto_oci_index struct oci_index x = { 0 };
	struct err err;
	folder_make(&f);
	assert_int_equal(layout_open(&f.root, &l, &err), -1);
	assert_int_equal(err.code, E_NOT_FOUND);
	assert_int_equal(layout_make(&f.root, &l, &err), 0);
	folder_expect(&f, "oci-layout", "{\"imageLayoutVersion\":\"1.0.0\"}");
	auto_oci_descriptor struct oci_descriptor d = point(EMPTY_HEX, 2);
	assert_int_equal(layout_publish(&l, &d, "tag", &err), 0);
	assert_int_equal(layout_make(&f.root, &again, &err), 0);
	assert_int_equal(layout_open(&f.root, &opened, &err), 0);
	assert_string_equal(opened.root.name, f.root.name);
	assert_int_equal(layout_index(&opened, &x, &err), 0);
	assert_int_equal(oci_index_find(&x, "tag"), 0);
}

// A kill in the middle of layout_make must not make the directory unusable; a foreign directory is left alone.
static void where_a_layout_can_be_created(void **state)
{
	(void)state;
	static const struct {
		const char *file;
		int code;
	} rows[] = {
		{ "blobs/sha256/.keep", 0 }, { ".oci-layout.7.tmp", 0 }, { ".lock", 0 },
		{ "precious.txt", E_USAGE }, { ".hidden", E_USAGE },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder f;
		auto_layout struct layout l = LAYOUT_NONE;
		struct err err = { 0 };
		folder_make(&f);
		tempdir_write(&f, rows[i].file, "");
		expect(layout_make(&f.root, &l, &err) == (rows[i].code ? -1 : 0), rows[i].file);
		expect(!rows[i].code || (err.code == rows[i].code && !root_exists(&f.root, ".lock")), rows[i].file);
	}
}

static void invalid_marks(void **state)
{
	(void)state;
	static const char *const rows[] = { "", "{}", "[]", "{\"imageLayoutVersion\":2}",
					    "{\"imageLayoutVersion\":\"2.0.0\"}" };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder f;
		struct layout l = LAYOUT_NONE;
		struct err err = { 0 };
		folder_make(&f);
		folder_file(&f, "oci-layout", rows[i]);
		expect(layout_open(&f.root, &l, &err) == -1 && err.code == E_MANIFEST, rows[i]);
	}
}

static void blobs_are_written_and_read(void **state)
{
	(void)state;
	auto_folder struct folder f;
	auto_layout struct layout l = LAYOUT_NONE;
	auto_str char *data = NULL;
	char hex[DIGEST_HEX + 1];
	size_t len;
	struct err err;
	folder_make(&f);
	assert_int_equal(layout_make(&f.root, &l, &err), 0);
	assert_int_equal(layout_blob_put(&l, "{}", 2, hex, &err), 0);
	assert_string_equal(hex, EMPTY_HEX);
	assert_true(layout_has(&l, hex));
	folder_expect(&f, "blobs/sha256/" EMPTY_HEX, "{}");
	auto_oci_descriptor struct oci_descriptor d = point(hex, 2), absent = point(hex, 2);
	assert_int_equal(layout_blob_read(&l, &d, &data, &len, &err), 0);
	assert_int_equal(len, 2);
	absent.digest[0] = '5';
	assert_false(layout_has(&l, absent.digest));
	assert_int_equal(layout_blob_read(&l, &absent, &data, &len, &err), -1);
	assert_int_equal(err.code, E_NOT_FOUND);
	assert_int_equal(layout_blob_open(&l, absent.digest, &err), -1);
	assert_int_equal(err.code, E_NOT_FOUND);
}

static void damaged_blobs(void **state)
{
	(void)state;
	static const char *const rows[] = { "", "{", "{]", "{}}" };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder f;
		auto_layout struct layout l = LAYOUT_NONE;
		auto_oci_descriptor struct oci_descriptor d = point(EMPTY_HEX, 2);
		char *data = NULL, hex[DIGEST_HEX + 1];
		size_t len;
		struct err err;
		folder_make(&f);
		assert_int_equal(layout_make(&f.root, &l, &err), 0);
		folder_file(&f, "blobs/sha256/" EMPTY_HEX, rows[i]);
		expect(layout_blob_read(&l, &d, &data, &len, &err) == -1, rows[i]);
		expect(err.code == E_DIGEST && strstr(err.text, EMPTY_HEX) && !data, rows[i]);
		expect(layout_blob_put(&l, "{}", 2, hex, &err) == 0, rows[i]); // mends
		folder_expect(&f, "blobs/sha256/" EMPTY_HEX, "{}");
	}
}

// Neither a link out of the layout nor a pipe that would never answer is followed.
static void only_regular_files_are_blobs(void **state)
{
	(void)state;
	auto_folder struct folder f;
	auto_layout struct layout l = LAYOUT_NONE;
	struct err err;
	folder_make(&f);
	assert_int_equal(layout_make(&f.root, &l, &err), 0);
	folder_link(&f, "/etc/hostname", "blobs/sha256/" EMPTY_HEX);
	assert_false(layout_has(&l, EMPTY_HEX));
	assert_int_equal(layout_blob_open(&l, EMPTY_HEX, &err), -1);
	auto_str char *path = str_fmt("%s/blobs/sha256/" EMPTY_HEX, f.path);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0644), 0);
	assert_false(layout_has(&l, EMPTY_HEX));
	assert_int_equal(layout_blob_open(&l, EMPTY_HEX, &err), -1);
	assert_int_equal(err.code, EINVAL);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0755), 0);
	assert_int_equal(layout_blob_open(&l, EMPTY_HEX, &err), -1);
	assert_int_equal(err.code, E_STORE_CORRUPT);
}

// Nobody may ever write to it: a directory of another machine must not keep a node from starting.
static void an_index_that_is_a_pipe_is_refused(void **state)
{
	(void)state;
	auto_folder struct folder f;
	auto_layout struct layout l = LAYOUT_NONE;
	const struct layout_view *view;
	struct err err;
	folder_make(&f);
	assert_int_equal(layout_make(&f.root, &l, &err), 0);
	auto_str char *path = str_fmt("%s/index.json", f.path);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0644), 0);
	alarm(10);
	assert_int_equal(layout_view(&l, &view, &err), -1);
	alarm(0);
	assert_true(strstr(err.text, "index.json' is not a regular file"));
}

static void large_documents_are_refused(void **state)
{
	(void)state;
	auto_folder struct folder f;
	auto_layout struct layout l = LAYOUT_NONE;
	struct oci_index x = { 0 };
	struct err err;
	folder_make(&f);
	assert_int_equal(layout_make(&f.root, &l, &err), 0);
	auto_oci_descriptor struct oci_descriptor d = point(EMPTY_HEX, OCI_DOCUMENT_MAX + 1ull);
	char *data = NULL;
	size_t len;
	folder_file(&f, "blobs/sha256/" EMPTY_HEX, "{}");
	assert_int_equal(layout_blob_read(&l, &d, &data, &len, &err), -1);
	assert_int_equal(err.code, E_TOO_LARGE);
	auto_str char *path = str_fmt("%s/index.json", f.path);
	assert_int_equal(truncate(path, OCI_INDEX_MAX + 1), 0); // sparse
	assert_int_equal(layout_index(&l, &x, &err), -1);
	assert_int_equal(err.code, E_TOO_LARGE);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(layout_index(&l, &x, &err), -1);
	assert_int_equal(err.code, E_MANIFEST);
}

enum { WRITERS = 8, EACH = 10 };

static void publish_many(const struct root *dir, int who)
{
	auto_layout struct layout l = LAYOUT_NONE;
	struct err err;
	if (layout_make(dir, &l, &err) < 0)
		_exit(1);
	for (int i = 0; i < EACH; i++) {
		auto_str char *tag = str_fmt("t%d.%d", who, i);
		char hex[DIGEST_HEX + 1];
		if (layout_blob_put(&l, tag, strlen(tag), hex, &err) < 0)
			_exit(2);
		auto_oci_descriptor struct oci_descriptor d = point(hex, strlen(tag));
		if (layout_publish(&l, &d, tag, &err) < 0)
			_exit(3);
	}
	_exit(0);
}

// No entry is lost, not even when all processes create the layout at the same moment.
static void concurrent_writers(void **state)
{
	(void)state;
	auto_folder struct folder f;
	auto_layout struct layout l = LAYOUT_NONE;
	auto_oci_index struct oci_index x = { 0 };
	struct err err;
	folder_make(&f);
	for (int i = 0; i < WRITERS; i++)
		if (fork() == 0)
			publish_many(&f.root, i);
	for (int i = 0; i < WRITERS; i++) {
		int status;
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	assert_int_equal(layout_open(&f.root, &l, &err), 0);
	assert_int_equal(layout_index(&l, &x, &err), 0);
	assert_int_equal(x.count, WRITERS * EACH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(created_opened_and_created_again),
		cmocka_unit_test(where_a_layout_can_be_created),
		cmocka_unit_test(invalid_marks),
		cmocka_unit_test(blobs_are_written_and_read),
		cmocka_unit_test(damaged_blobs),
		cmocka_unit_test(only_regular_files_are_blobs),
		cmocka_unit_test(an_index_that_is_a_pipe_is_refused),
		cmocka_unit_test(large_documents_are_refused),
		cmocka_unit_test(concurrent_writers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
