// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/test.h"

#include "base/archive/archive.h"

#include <archive.h>
#include <archive_entry.h>

struct member {
	const char *name;
	unsigned type;
	const char *link; // target of a symbolic link, or of a hard link when type is 0
	const char *data;
};

static void put(struct archive *a, const struct member *m)
{
	struct archive_entry *e = archive_entry_new();
	archive_entry_set_pathname(e, m->name);
	archive_entry_set_perm(e, 04755);
	if (m->type)
		archive_entry_set_filetype(e, m->type);
	if (m->type == AE_IFLNK)
		archive_entry_set_symlink(e, m->link);
	else if (m->link)
		archive_entry_set_hardlink(e, m->link);
	archive_entry_set_size(e, m->data ? (la_int64_t)strlen(m->data) : 0);
	assert_int_equal(archive_write_header(a, e), ARCHIVE_OK);
	if (m->data)
		assert_int_equal(archive_write_data(a, m->data, strlen(m->data)), strlen(m->data));
	archive_entry_free(e);
}

static size_t make(const struct member *members, size_t count, int (*filter)(struct archive *), char *buf, size_t room)
{
	size_t used = 0;
	struct archive *a = archive_write_new();
	archive_write_set_format_pax_restricted(a);
	assert_int_equal(filter(a), ARCHIVE_OK);
	archive_write_set_bytes_per_block(a, 0);
	assert_int_equal(archive_write_open_memory(a, buf, room, &used), ARCHIVE_OK);
	for (size_t i = 0; i < count; i++)
		put(a, &members[i]);
	assert_int_equal(archive_write_close(a), ARCHIVE_OK);
	archive_write_free(a);
	return used;
}

// Into dest/in, so that an escape has somewhere to go; 0 or the error's code.
static int unpack(const struct folder *folder, const char *data, size_t len, off_t offset,
		  const struct archive_options *limits)
{
	struct err err = { 0 };
	auto_root struct root dest = ROOT_NONE;
	auto_str char *path = str_fmt("%s/archive", folder->path);
	folder_dir(folder, "in");
	auto_fd int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	assert_int_equal(write(fd, data, len), len);
	assert_int_equal(root_sub(&folder->root, "in", &dest, &err), 0);
	int r = archive_unpack(fd, "archive", offset, &dest, limits, &err);
	return r < 0 ? err.code : r;
}

static int unpack_members(const struct folder *folder, const struct member *members, size_t count)
{
	char buf[1 << 16];
	size_t len = make(members, count, archive_write_add_filter_none, buf, sizeof(buf));
	return unpack(folder, buf, len, 0, NULL);
}

static void test_plain_archives(void **state)
{
	(void)state;
	static int (*const filters[])(struct archive *) = { archive_write_add_filter_none,
							    archive_write_add_filter_gzip, archive_write_add_filter_xz,
							    archive_write_add_filter_zstd };
	static const struct member members[] = {
		{ "./", AE_IFDIR, NULL, NULL },         { "./a//b/", AE_IFDIR, NULL, NULL },
		{ "a/b/file", AE_IFREG, NULL, "text" }, { "a/link", AE_IFLNK, "/etc/../../passwd", NULL },
		{ "a/hard", 0, "a/b/file", NULL },      { "deep/er/file", AE_IFREG, NULL, "" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(filters); i++) {
		auto_folder struct folder folder;
		folder_make(&folder);
		char buf[1 << 16];
		struct err err;
		struct stat st;
		auto_str char *target = NULL;
		size_t len = make(members, ARRAY_SIZE(members), filters[i], buf, sizeof(buf));
		assert_int_equal(unpack(&folder, buf, len, 0, NULL), 0);
		folder_expect(&folder, "in/a/b/file", "text");
		folder_expect(&folder, "in/a/hard", "text");
		folder_expect(&folder, "in/deep/er/file", "");
		assert_int_equal(root_stat(&folder.root, "in/a/b/file", &st, &err), 1);
		assert_int_equal(st.st_mode & 07777, 0755);
		assert_int_equal(root_readlink(&folder.root, "in/a/link", &target, &err), 1);
		assert_string_equal(target, "/etc/../../passwd");
	}
}

static void test_hostile_archives(void **state)
{
	(void)state;
	static const struct {
		const char *what;
		struct member members[3];
		int code;
	} rows[] = {
		{ "climbs", { { "../escaped", AE_IFREG, NULL, "x" } }, E_ARCHIVE_UNSAFE },
		{ "climbs inside", { { "a/../../escaped", AE_IFREG, NULL, "x" } }, E_ARCHIVE_UNSAFE },
		{ "absolute", { { "/tmp/kmodsmith-escaped", AE_IFREG, NULL, "x" } }, E_ARCHIVE_UNSAFE },
		{ "device", { { "null", AE_IFCHR, NULL, NULL } }, E_ARCHIVE_UNSAFE },
		{ "block device", { { "sda", AE_IFBLK, NULL, NULL } }, E_ARCHIVE_UNSAFE },
		{ "fifo", { { "pipe", AE_IFIFO, NULL, NULL } }, E_ARCHIVE_UNSAFE },
		{ "hard link out", { { "hard", 0, "../outside", NULL } }, E_ARCHIVE_UNSAFE },
		{ "absolute hard link", { { "hard", 0, "/etc/passwd", NULL } }, E_ARCHIVE_UNSAFE },
		{ "hard link to nothing", { { "hard", 0, "absent", NULL } }, E_ARCHIVE },
		{ "hard link to a link",
		  { { "link", AE_IFLNK, "../outside", NULL }, { "hard", 0, "link", NULL } },
		  E_ARCHIVE_UNSAFE },
		{ "through a link",
		  { { "link", AE_IFLNK, "..", NULL }, { "link/outside", AE_IFREG, NULL, "x" } },
		  E_ARCHIVE_UNSAFE },
		{ "directory through a link",
		  { { "link", AE_IFLNK, "..", NULL }, { "link/made", AE_IFDIR, NULL, NULL } },
		  E_ARCHIVE_UNSAFE },
		{ "hard link through a link",
		  { { "link", AE_IFLNK, "..", NULL }, { "hard", 0, "link/outside", NULL } },
		  E_ARCHIVE_UNSAFE },
		{ "over a link", { { "link", AE_IFLNK, "../outside", NULL }, { "link", AE_IFREG, NULL, "x" } }, 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder folder;
		folder_make(&folder);
		folder_file(&folder, "outside", "untouched");
		size_t count = 0;
		while (count < 3 && rows[i].members[count].name)
			count++;
		expect(unpack_members(&folder, rows[i].members, count) == rows[i].code, rows[i].what);
		folder_expect(&folder, "outside", "untouched");
		expect(!root_exists(&folder.root, "escaped") && !root_exists(&folder.root, "made"), rows[i].what);
		expect(access("/tmp/kmodsmith-escaped", F_OK) != 0, rows[i].what);
	}
}

// A tree that is too deep to walk or to name.
static void test_deep_and_long_names(void **state)
{
	(void)state;
	static const struct {
		const char *what, *part;
		size_t count;
		int code;
	} rows[] = {
		{ "as deep as it may be", "d/", 127, 0 },
		{ "one deeper", "d/", 128, E_ARCHIVE_UNSAFE },
		{ "too deep to walk", "d/", 50000, E_ARCHIVE_UNSAFE },
		{ "as long as it may be", "0123456789012345678901234567890123456789012345678901234567890/", 33, 0 },
		{ "longer", "0123456789012345678901234567890123456789012345678901234567890/", 34, E_ARCHIVE_UNSAFE },
	};
	static char buf[1 << 18];
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder folder;
		folder_make(&folder);
		auto_str char *name = str_dup("");
		name = mem_grow(name, rows[i].count * strlen(rows[i].part) + 2, 1);
		char *p = name;
		for (size_t k = 0; k < rows[i].count; k++)
			p = stpcpy(p, rows[i].part);
		stpcpy(p, "x");
		const struct member member = { name, AE_IFREG, NULL, "text" };
		size_t len = make(&member, 1, archive_write_add_filter_none, buf, sizeof(buf));
		expect(unpack(&folder, buf, len, 0, NULL) == rows[i].code, rows[i].what);
	}
}

static void test_cut_archives(void **state)
{
	(void)state;
	static int (*const filters[])(struct archive *) = { archive_write_add_filter_gzip, archive_write_add_filter_xz,
							    archive_write_add_filter_zstd };
	char text[5000], buf[1 << 16];
	for (size_t i = 0; i + 1 < sizeof(text); i++)
		text[i] = (char)('a' + (i * i) % 23);
	text[sizeof(text) - 1] = '\0';
	const struct member members[] = { { "one", AE_IFREG, NULL, text }, { "two", AE_IFREG, NULL, text } };
	for (size_t i = 0; i < ARRAY_SIZE(filters); i++) {
		auto_folder struct folder folder;
		folder_make(&folder);
		size_t len = make(members, ARRAY_SIZE(members), filters[i], buf, sizeof(buf));
		for (size_t cut = 0; cut + 12 < len; cut += len / 7)
			assert_int_equal(unpack(&folder, buf, cut, 0, NULL), E_ARCHIVE);
	}
	auto_folder struct folder folder;
	folder_make(&folder);
	make(members, ARRAY_SIZE(members), archive_write_add_filter_none, buf, sizeof(buf));
	assert_int_equal(unpack(&folder, buf, 3000, 0, NULL), E_ARCHIVE);
	assert_int_equal(unpack(&folder, "no archive at all, only text", 28, 0, NULL), E_ARCHIVE);
}

static size_t make_deb(const char *member, size_t entries, char *buf, size_t room)
{
	static const struct member inner[] = { { "./usr/src/file", AE_IFREG, NULL, "from data.tar" } };
	char data[1 << 14];
	size_t len = make(inner, entries, archive_write_add_filter_xz, data, sizeof(data)), used = 0;
	struct archive *a = archive_write_new();
	archive_write_set_format_ar_svr4(a);
	archive_write_open_memory(a, buf, room, &used);
	put(a, &(struct member){ "debian-binary", AE_IFREG, NULL, "2.0\n" });
	struct archive_entry *e = archive_entry_new();
	archive_entry_set_pathname(e, member);
	archive_entry_set_filetype(e, AE_IFREG);
	archive_entry_set_size(e, (la_int64_t)len);
	assert_int_equal(archive_write_header(a, e), ARCHIVE_OK);
	assert_int_equal(archive_write_data(a, data, len), len);
	archive_entry_free(e);
	archive_write_close(a);
	archive_write_free(a);
	return used;
}

static void test_debian_packages(void **state)
{
	(void)state;
	auto_folder struct folder folder;
	folder_make(&folder);
	char buf[1 << 15];
	size_t len = make_deb("data.tar.xz", 1, buf, sizeof(buf));
	assert_int_equal(unpack(&folder, buf, len, 0, NULL), 0);
	folder_expect(&folder, "in/usr/src/file", "from data.tar");
	assert_false(root_exists(&folder.root, "in/debian-binary"));
	for (size_t cut = 8; cut + 64 < len; cut += 37)
		assert_int_equal(unpack(&folder, buf, cut, 0, NULL), E_ARCHIVE);
	len = make_deb("control.tar.xz", 1, buf, sizeof(buf));
	assert_int_equal(unpack(&folder, buf, len, 0, NULL), E_ARCHIVE);
}

// As metapackages are.
static void test_a_debian_package_without_files(void **state)
{
	(void)state;
	auto_folder struct folder folder;
	auto_strv struct strv names = { 0 };
	struct err err;
	char buf[1 << 15];
	folder_make(&folder);
	size_t len = make_deb("data.tar.xz", 0, buf, sizeof(buf));
	assert_int_equal(unpack(&folder, buf, len, 0, NULL), 0);
	assert_int_equal(root_list(&folder.root, "in", &names, &err), 1);
	assert_int_equal(names.count, 0);
}

static void test_offset_and_limits(void **state)
{
	(void)state;
	static const struct member members[] = { { "one", AE_IFREG, NULL, "12345" },
						 { "two", AE_IFREG, NULL, "67890" } };
	auto_folder struct folder folder;
	folder_make(&folder);
	char buf[1 << 16] = "#!/bin/sh\nexit 1\n";
	size_t head = strlen(buf);
	size_t len = head + make(members, 2, archive_write_add_filter_gzip, buf + head, sizeof(buf) - head);
	assert_int_equal(unpack(&folder, buf, len, (off_t)head, NULL), 0);
	folder_expect(&folder, "in/two", "67890");
	assert_int_equal(unpack(&folder, buf, len, (off_t)head, &(struct archive_options){ .bytes = 9 }),
			 E_ARCHIVE_UNSAFE);
	assert_int_equal(unpack(&folder, buf, len, (off_t)head, &(struct archive_options){ .entries = 1 }),
			 E_ARCHIVE_UNSAFE);
	assert_int_equal(unpack(&folder, buf, len, (off_t)head, &(struct archive_options){ .bytes = 10, .entries = 2 }),
			 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain_archives),      cmocka_unit_test(test_hostile_archives),
		cmocka_unit_test(test_deep_and_long_names), cmocka_unit_test(test_cut_archives),
		cmocka_unit_test(test_debian_packages),     cmocka_unit_test(test_a_debian_package_without_files),
		cmocka_unit_test(test_offset_and_limits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
