// SPDX-License-Identifier: Apache-2.0
// R-P6: where a kernel would find a firmware file. Each row is a machine: its release, configuration and path
// parameter, the files it has, and which of them the kernel takes.
#include "host/firmware_path.h"

#include "tests/unit/tempdir.h"

#define NAME "nvidia/535.261.03/gsp_ga10x.bin"
#define XZ_OLD "CONFIG_FW_LOADER_COMPRESS=y\n"
#define XZ_NEW \
	"CONFIG_FW_LOADER_COMPRESS=y\nCONFIG_FW_LOADER_COMPRESS_XZ=y\n# CONFIG_FW_LOADER_COMPRESS_ZSTD is not set\n"
#define ZSTD "CONFIG_FW_LOADER_COMPRESS=y\nCONFIG_FW_LOADER_COMPRESS_ZSTD=y\n"

static const struct row {
	const char *name;
	const char *release, *config, *parameter; // parameter NULL = the kernel shows none
	const char *files;                        // directories or files, blank-separated; NAME is added to "DIR/"
	const char *found;
} rows[] = {
	{ "nothing", "6.1.0-1", "", "\n", "", NULL },
	{ "the usual place", "6.1.0-1", "", "\n", "lib/firmware/", "lib/firmware/" NAME },
	{ "no path parameter", "6.1.0-1", "", NULL, "lib/firmware/", "lib/firmware/" NAME },
	{ "updates of the release, then updates, then the release", "6.1.0-1", "", "\n",
	  "lib/firmware/ lib/firmware/6.1.0-1/ lib/firmware/updates/ lib/firmware/updates/6.1.0-1/",
	  "lib/firmware/updates/6.1.0-1/" NAME },
	{ "updates", "6.1.0-1", "", "\n", "lib/firmware/ lib/firmware/6.1.0-1/ lib/firmware/updates/",
	  "lib/firmware/updates/" NAME },
	{ "the release", "6.1.0-1", "", "\n", "lib/firmware/ lib/firmware/6.1.0-1/", "lib/firmware/6.1.0-1/" NAME },
	{ "another release", "6.1.0-1", "", "\n", "lib/firmware/6.1.0-2/", NULL },
	{ "the path parameter comes first", "6.1.0-1", "", "/opt/fw\n", "lib/firmware/updates/ opt/fw/",
	  "/opt/fw/" NAME },
	{ "a path of somebody else without it", "6.1.0-1", "", "/opt/fw\n", "lib/firmware/", "lib/firmware/" NAME },
	{ "a newline alone is nothing", "6.1.0-1", "", "\n\n", "lib/firmware/", "lib/firmware/" NAME },
	{ "a newline in the path is a part of it", "6.1.0-1", "", "/opt/fw\n\n", "opt/fw/", NULL },
	{ "and is cut off from 6.5 on", "6.5.0-1", "", "/opt/fw\n\n", "opt/fw/", "/opt/fw/" NAME },
	{ "xz, where the kernel has it", "6.1.0-1", XZ_NEW, "\n", "lib/firmware/" NAME ".xz",
	  "lib/firmware/" NAME ".xz" },
	{ "xz before 5.19", "5.14.0-1", XZ_OLD, "\n", "lib/firmware/" NAME ".xz", "lib/firmware/" NAME ".xz" },
	{ "xz and only zstd is there", "6.1.0-1", ZSTD, "\n", "lib/firmware/" NAME ".xz", NULL },
	{ "xz and an unknown configuration", "6.1.0-1", "", "\n", "lib/firmware/" NAME ".xz", NULL },
	{ "zstd", "6.1.0-1", ZSTD, "\n", "lib/firmware/" NAME ".zst", "lib/firmware/" NAME ".zst" },
	{ "plain anywhere beats compressed", "6.1.0-1", ZSTD, "\n", "lib/firmware/ lib/firmware/updates/" NAME ".zst",
	  "lib/firmware/" NAME },
};

static void make_machine(const struct folder *t, const struct row *row)
{
	auto_str char *config = str_fmt("boot/config-%s", row->release);
	auto_strv struct strv files = { 0 };
	if (*row->config)
		tempdir_write(t, config, row->config);
	if (row->parameter)
		tempdir_write(t, "sys/module/firmware_class/parameters/path", row->parameter);
	strv_split(&files, row->files, " ");
	for (size_t i = 0; i < files.count; i++) {
		bool is_dir = str_ends(files.items[i], "/");
		auto_str char *path = str_fmt("%s%s", files.items[i], is_dir ? NAME : "");
		tempdir_write(t, path, "firmware");
	}
}

static void found_as_the_kernel_does(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder t;
		struct err err;
		auto_firmware_path struct firmware_path s = { 0 };
		folder_make(&t);
		make_machine(&t, &rows[i]);
		expect(firmware_path(&t.root, &t.root, rows[i].release, &s, &err) == 0, rows[i].name);
		auto_str char *found = firmware_path_find(&t.root, &s, NAME);
		expect(rows[i].found ? str_eq(found, rows[i].found) : !found, rows[i].name);
	}
}

static void what_is_not_firmware(void **state)
{
	(void)state;
	auto_folder struct folder t;
	struct err err;
	auto_firmware_path struct firmware_path s = { 0 };
	folder_make(&t);
	tempdir_write(&t, "lib/firmware/" NAME, "");
	folder_dir(&t, "lib/firmware/updates/" NAME);
	assert_int_equal(firmware_path(&t.root, &t.root, "6.1.0-1", &s, &err), 0);
	assert_null(firmware_path_find(&t.root, &s, NAME));
	auto_str char *unusable = firmware_path_unusable(&t.root, &s, NAME), *none = NULL;
	assert_string_equal(unusable, "'/lib/firmware/updates/" NAME "' is no regular file");
	assert_int_equal(root_rmtree(&t.root, "lib/firmware/updates", &err), 1);
	free(TAKE(unusable));
	unusable = firmware_path_unusable(&t.root, &s, NAME);
	assert_string_equal(unusable, "'/lib/firmware/" NAME "' is empty");
	none = firmware_path_unusable(&t.root, &s, "nvidia/1/gsp.bin");
	assert_null(none);
	assert_null(s.path);
	assert_false(s.is_path_writable);
}

static void links_stay_inside_the_host(void **state)
{
	(void)state;
	auto_folder struct folder t;
	struct err err;
	auto_firmware_path struct firmware_path s = { 0 };
	folder_make(&t);
	tempdir_link(&t, "lib", "/usr/lib");
	tempdir_write(&t, "usr/lib/firmware/" NAME, "firmware");
	tempdir_write(&t, "usr/lib/firmware/nvidia/550.1/x", "firmware");
	tempdir_write(&t, "usr/lib/firmware/nvidia/ga102/gsp/x", "firmware");
	assert_int_equal(firmware_path(&t.root, &t.root, "6.1.0-1", &s, &err), 0);
	auto_str char *found = firmware_path_find(&t.root, &s, NAME);
	assert_string_equal(found, "lib/firmware/" NAME);
	auto_strv struct strv versions = { 0 };
	firmware_path_versions(&t.root, &s, &versions);
	auto_str char *names = strv_join(&versions, " ");
	assert_string_equal(names, "535.261.03 550.1");
}

static void describes_the_search_path(void **state)
{
	(void)state;
	auto_folder struct folder t;
	struct err err;
	auto_firmware_path struct firmware_path s = { 0 };
	folder_make(&t);
	tempdir_write(&t, "sys/module/firmware_class/parameters/path", "/run/other\n\n");
	assert_int_equal(firmware_path(&t.root, &t.root, "6.1.0-1", &s, &err), 0);
	assert_string_equal(s.path, "/run/other\n");
	assert_true(s.is_path_writable);
	auto_str char *text = firmware_path_text(&s);
	assert_string_equal(text,
			    "/run/other?, /lib/firmware/updates/6.1.0-1, /lib/firmware/updates, /lib/firmware/6.1.0-1, "
			    "/lib/firmware; firmware_class.path is '/run/other?'");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(found_as_the_kernel_does),
		cmocka_unit_test(what_is_not_firmware),
		cmocka_unit_test(links_stay_inside_the_host),
		cmocka_unit_test(describes_the_search_path),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
