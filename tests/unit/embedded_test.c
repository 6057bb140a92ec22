// SPDX-License-Identifier: Apache-2.0
#include "base/archive/embedded.h"

#include "tests/unit/tempdir.h"

#define XZ     \
	"\xfd" \
	"7zXZ and the rest\n"
#define GZ "\x1f\x8b\x08 and the rest\n"

FOLDER_OF_A_TEST

static int find(const char *name, struct embedded *ret, struct err *err)
{
	auto_fd int fd = root_open(&folder.root, name, O_RDONLY, err);
	assert_true(fd >= 0);
	return embedded_find(fd, name, ret, err);
}

static void where_it_begins(void **state)
{
	(void)state;
	static const struct {
		const char *text, *data;
		int kind;
		const char *from; // the archive; NULL = there is none
	} rows[] = {
		{ "an empty file is for the reader of archives to refuse", "", EMBEDDED_TAR, "" },
		{ "no script", XZ, EMBEDDED_TAR, XZ },
		{ "a Debian package", "!<arch>\ndebian-binary", EMBEDDED_DEB, "!<arch>\ndebian-binary" },
		{ "as many lines as it says", "#!/bin/sh\nskip=3\nexit\n" XZ, EMBEDDED_RUN, XZ },
		{ "in quotes", "#!/bin/sh\nskip=\"3\"\nexit\n" GZ, EMBEDDED_RUN, GZ },
		{ "the line where it begins", "#!/bin/sh\nskip=4\nexit\n" GZ, EMBEDDED_RUN, GZ },
		{ "the first number above 0", "#!/bin/sh\nskip=$1\nskip=4\nexit\n" GZ, EMBEDDED_RUN, GZ },
		{ "where it says is none", "#!/bin/sh\nskip=1\nexit\n" XZ, EMBEDDED_RUN, XZ },
		{ "beyond the end", "#!/bin/sh\nskip=100\nexit\n" XZ, EMBEDDED_RUN, XZ },
		{ "nothing is said", "#!/bin/sh\nexit\n" XZ GZ, EMBEDDED_RUN, XZ GZ },
		{ "within a line is none", "#!/bin/sh\nexit " XZ, EMBEDDED_RUN, NULL },
		{ "only a script", "#!/bin/sh\nskip=1\nexit\n", EMBEDDED_RUN, NULL },
		{ "only its first line", "#!/bin/sh", EMBEDDED_RUN, NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct embedded found = { 0 };
		struct err err = { 0 };
		tempdir_data(&folder, "f", rows[i].data, strlen(rows[i].data));
		int r = find("f", &found, &err);
		expect(r == (rows[i].from ? 0 : -1), rows[i].text);
		expect((int)found.kind == rows[i].kind, rows[i].text);
		expect(rows[i].from ? str_eq(rows[i].data + found.offset, rows[i].from) : err.code == E_SOURCE,
		       rows[i].text);
	}
}

static void tar_without_compression(void **state)
{
	(void)state;
	struct embedded found = { 0 };
	struct err err = { 0 };
	char data[1024] = "#!/bin/sh\n";
	size_t begin = strlen(data);
	memset(data + begin, 'x', sizeof(data) - begin);
	static const char magic[] = { 'u', 's', 't', 'a', 'r' };
	memcpy(data + begin + 257, magic, sizeof(magic));
	tempdir_data(&folder, "f", data, sizeof(data));
	assert_int_equal(find("f", &found, &err), 0);
	assert_int_equal(found.offset, begin);
	tempdir_data(&folder, "f", data, begin + 257 + 4); // ends within the magic
	assert_int_equal(find("f", &found, &err), -1);
	assert_int_equal(err.code, E_SOURCE);
}

static void what_cannot_be_read(void **state)
{
	(void)state;
	struct embedded found = { 0 };
	struct err err = { 0 };
	folder_dir(&folder, "dir");
	assert_int_equal(find("dir", &found, &err), -1);
	assert_int_equal(err.code, EISDIR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_FOLDER(where_it_begins),
		IN_FOLDER(tar_without_compression),
		IN_FOLDER(what_cannot_be_read),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
