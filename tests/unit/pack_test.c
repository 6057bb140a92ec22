// SPDX-License-Identifier: Apache-2.0
#include "base/archive/archive.h"
#include "base/archive/pack.h"
#include "tests/unit/test.h"

#include <fcntl.h>

static void write_one(const struct folder *f, const char *name, enum pack_filter filter, char digest[DIGEST_HEX + 1],
		      char diff_id[DIGEST_HEX + 1], uint64_t *size)
{
	struct err err;
	auto_pack struct pack *p = NULL;
	auto_fd int fd = root_create(&f->root, name, &err), in = -1;
	folder_file(f, "content", "some bytes");
	in = root_open(&f->root, "content", O_RDONLY, &err);
	assert_int_equal(pack_new(fd, name, filter, &p, &err), 0);
	assert_int_equal(pack_dir(p, "opt", &err), 0);
	assert_int_equal(pack_file(p, "opt/a", in, strlen("some bytes"), &err), 0);
	assert_int_equal(pack_data(p, "opt/b", "x", 1, &err), 0);
	assert_int_equal(pack_close(p, digest, diff_id, size, &err), 0);
}

static void gzip_says_no_time(void **state)
{
	(void)state;
	auto_folder struct folder f;
	struct err err;
	char digest[DIGEST_HEX + 1];
	auto_str char *text = NULL;
	size_t len;
	uint64_t size;
	folder_make(&f);
	write_one(&f, "a", PACK_GZIP, digest, NULL, &size);
	assert_int_equal(root_read(&f.root, "a", &text, &len, &err), 1);
	assert_int_equal(len, size);
	assert_memory_equal(text, "\x1f\x8b\x08\0\0\0\0\0", 8); // RFC 1952: magic, deflate, flags, time
}

static void the_same_content_is_the_same_bytes(void **state)
{
	(void)state;
	auto_folder struct folder f;
	struct err err;
	char a[DIGEST_HEX + 1], b[DIGEST_HEX + 1], plain[DIGEST_HEX + 1], diff_a[DIGEST_HEX + 1],
		diff_b[DIGEST_HEX + 1], on_disk[DIGEST_HEX + 1];
	uint64_t size_a, size_b, size;
	struct stat st;
	folder_make(&f);
	write_one(&f, "a", PACK_ZSTD, a, diff_a, &size_a);
	write_one(&f, "b", PACK_ZSTD, b, diff_b, &size_b);
	assert_string_equal(a, b);
	assert_string_equal(diff_a, diff_b);
	assert_string_not_equal(a, diff_a);
	write_one(&f, "plain", PACK_PLAIN, plain, diff_b, &size);
	assert_string_equal(plain, diff_a); // the digest of the tar inside
	auto_fd int fd = root_open(&f.root, "a", O_RDONLY, &err);
	assert_int_equal(digest_file(fd, "a", on_disk, &err), 0);
	assert_string_equal(on_disk, a);
	assert_int_equal(root_stat(&f.root, "a", &st, &err), 1);
	assert_int_equal(st.st_size, size_a);
}

static void what_is_packed_can_be_unpacked(void **state)
{
	(void)state;
	auto_folder struct folder f;
	struct err err;
	char digest[DIGEST_HEX + 1];
	auto_root struct root to = ROOT_NONE;
	auto_str char *text = NULL;
	folder_make(&f);
	folder_dir(&f, "to");
	write_one(&f, "a", PACK_ZSTD, digest, NULL, NULL);
	auto_fd int fd = root_open(&f.root, "a", O_RDONLY, &err);
	assert_int_equal(root_sub(&f.root, "to", &to, &err), 0);
	assert_int_equal(archive_unpack(fd, "a", 0, &to, NULL, &err), 0);
	assert_int_equal(root_read(&to, "opt/a", &text, NULL, &err), 1);
	assert_string_equal(text, "some bytes");
}

static void pack_folder(const struct folder *f, const char *below, const char *name, char digest[DIGEST_HEX + 1])
{
	struct err err;
	auto_root struct root dir = ROOT_NONE;
	auto_pack struct pack *p = NULL;
	auto_fd int fd = root_create(&f->root, name, &err);
	assert_int_equal(root_sub(&f->root, below, &dir, &err), 0);
	assert_int_equal(pack_new(fd, name, PACK_ZSTD, &p, &err), 0);
	assert_int_equal(pack_tree(p, &dir, &err), 0);
	assert_int_equal(pack_close(p, digest, NULL, NULL, &err), 0);
}

// Whatever order, time and rights beyond "may be run" they have on disk.
static void a_tree_comes_back_with_links_and_programs(void **state)
{
	(void)state;
	auto_folder struct folder f;
	struct err err;
	struct stat st;
	auto_str char *target = NULL, *program = NULL;
	auto_root struct root to = ROOT_NONE;
	char a[DIGEST_HEX + 1], b[DIGEST_HEX + 1];
	folder_make(&f);
	folder_dir(&f, "one/usr/src");
	folder_dir(&f, "one/empty");
	folder_file(&f, "one/usr/src/program", "#!");
	folder_file(&f, "one/a", "");
	folder_link(&f, "/usr/src", "one/link");
	folder_link(&f, "../nowhere", "one/usr/dangling");
	program = str_fmt("%s/one/usr/src/program", f.path);
	assert_int_equal(chmod(program, 0700), 0);
	pack_folder(&f, "one", "a.tar", a);
	folder_dir(&f, "to");
	auto_fd int fd = root_open(&f.root, "a.tar", O_RDONLY, &err);
	assert_int_equal(root_sub(&f.root, "to", &to, &err), 0);
	assert_int_equal(archive_unpack(fd, "a.tar", 0, &to, NULL, &err), 0);
	assert_int_equal(root_readlink(&to, "link", &target, &err), 1);
	assert_string_equal(target, "/usr/src");
	assert_int_equal(root_stat(&to, "usr/dangling", &st, &err), 1);
	assert_int_equal(root_stat(&to, "empty", &st, &err), 1);
	assert_int_equal(root_stat(&to, "usr/src/program", &st, &err), 1);
	assert_int_equal(st.st_mode & 0777, 0755);
	assert_int_equal(root_stat(&to, "a", &st, &err), 1);
	assert_int_equal(st.st_mode & 0777, 0644);
	pack_folder(&f, "to", "b.tar", b);
	assert_string_equal(a, b);
}

static void a_tree_with_a_fifo_is_refused(void **state)
{
	(void)state;
	auto_folder struct folder f;
	struct err err;
	auto_pack struct pack *p = NULL;
	auto_root struct root dir = ROOT_NONE;
	folder_make(&f);
	folder_dir(&f, "one/two");
	auto_str char *fifo = str_fmt("%s/one/two/fifo", f.path);
	assert_int_equal(mkfifo(fifo, 0644), 0);
	auto_fd int fd = root_create(&f.root, "a", &err);
	assert_int_equal(root_sub(&f.root, "one", &dir, &err), 0);
	assert_int_equal(pack_new(fd, "a", PACK_PLAIN, &p, &err), 0);
	assert_int_equal(pack_tree(p, &dir, &err), -1);
	assert_int_equal(err.code, E_ARCHIVE_UNSAFE);
}

static void a_shrinking_file_and_a_full_disk_are_errors(void **state)
{
	(void)state;
	auto_folder struct folder f;
	struct err err;
	auto_pack struct pack *p = NULL, *full = NULL;
	folder_make(&f);
	folder_file(&f, "content", "short");
	auto_fd int fd = root_create(&f.root, "a", &err), in = root_open(&f.root, "content", O_RDONLY, &err);
	assert_int_equal(pack_new(fd, "a", PACK_PLAIN, &p, &err), 0);
	assert_int_equal(pack_file(p, "a", in, 100, &err), -1);
	assert_non_null(strstr(err.text, "shrank"));
	auto_fd int dev = open("/dev/full", O_WRONLY | O_CLOEXEC);
	assert_int_equal(pack_new(dev, "full", PACK_PLAIN, &full, &err), 0);
	int r = pack_data(full, "a", "x", 1, &err);
	if (r == 0)
		r = pack_close(full, NULL, NULL, NULL, &err);
	assert_int_equal(r, -1);
	assert_int_equal(err.code, E_NO_SPACE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gzip_says_no_time),
		cmocka_unit_test(the_same_content_is_the_same_bytes),
		cmocka_unit_test(what_is_packed_can_be_unpacked),
		cmocka_unit_test(a_tree_comes_back_with_links_and_programs),
		cmocka_unit_test(a_tree_with_a_fifo_is_refused),
		cmocka_unit_test(a_shrinking_file_and_a_full_disk_are_errors),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
