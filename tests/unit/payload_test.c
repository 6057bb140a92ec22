// SPDX-License-Identifier: Apache-2.0
#include "precompiled/payload.h"

#include "base/pack.h"
#include "precompiled/parcel.h"
#include "tests/unit/tempdir.h"

static void test_versions_in_names(void **state)
{
	(void)state;
	static const struct {
		const char *path, *version;
	} rows[] = {
		{ "usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so.535.261.03", "535.261.03" },
		{ "usr/lib64/libnvidia-ml.so.560.35", "560.35" },
		{ "usr/lib64/libGLX_nvidia.so.1000.10.01", "1000.10.01" },
		{ "libcuda.so.535.261.03", "535.261.03" },
		{ "lib/firmware/nvidia/535.261.03/gsp_ga10x.bin", "535.261.03" },
		{ "usr/lib/firmware/nvidia/535.261.03", "535.261.03" },
		{ "usr/lib64/libcuda.so.1", NULL },
		{ "usr/lib64/libcuda.so", NULL },
		{ "usr/lib64/libcuda.so.535", NULL },
		{ "usr/lib64/libcuda.so.535.261.03.debug", NULL },
		{ "usr/lib64/libcuda.so.535.261.", NULL },
		{ "usr/lib64/libcuda.so.", NULL },
		{ "usr/lib64/libnvidia-egl-wayland.so.1.1.13", NULL },
		{ "usr/lib64/libnvrtc.so.12.4.127", NULL },
		{ "usr/lib64/libother.so.535.261.03", NULL },
		{ "usr/lib/nvidia/libother.so.535.261.03", NULL },
		{ "lib/firmware/nvidia/ga102/gsp/bootloader-535.113.01.bin", NULL },
		{ "lib/firmware/nvidia/535.261.03x/gsp.bin", NULL },
		{ "lib/firmware/nvidia/", NULL },
		{ "usr/bin/nvidia-smi", NULL },
		{ "", NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *found = payload_version(rows[i].path);
		expect(str_eq(found, rows[i].version) || (!found && !rows[i].version), rows[i].path);
	}
}

// A tar at PATH, and its name in files.
static void archive(const struct folder *f, const char *name, const char *path, struct strv *files)
{
	struct err err;
	auto_pack struct pack *p = NULL;
	char *full = str_fmt("%s/%s", f->path, name);
	auto_fd int fd = root_create(&f->root, name, &err);
	assert_int_equal(pack_new(fd, name, false, &p, &err), 0);
	assert_int_equal(pack_data(p, path, "x", 1, &err), 0);
	assert_int_equal(pack_close(p, NULL, NULL, NULL, &err), 0);
	strv_add(files, full);
}

static void test_files_of_another_driver(void **state)
{
	(void)state;
	auto_folder struct folder f;
	auto_strv struct strv files = { 0 };
	struct err err = { 0 };
	folder_make(&f);
	folder_dir(&f, "into");
	auto_root struct root into = ROOT_NONE;
	assert_int_equal(root_sub(&f.root, "into", &into, &err), 0);
	archive(&f, "a.tar", "libcuda.so.535.261.03", &files);
	archive(&f, "b.tar", "nvidia-smi", &files);
	assert_int_equal(payload_unpack(&files, "535.261.03", &into, &err), 0);
	folder_expect(&f, "into/libcuda.so.535.261.03", "x");
	folder_expect(&f, "into/nvidia-smi", "x");
	archive(&f, "c.tar", "libnvidia-ml.so.550.54.14", &files);
	assert_int_equal(payload_unpack(&files, "535.261.03", &into, &err), -1);
	assert_int_equal(err.code, E_USAGE);
	assert_non_null(strstr(err.text, "'libnvidia-ml.so.550.54.14' of driver 550.54.14, wanted is 535.261.03"));
	tempdir_write(&f, "d.tar", "this is no archive");
	strv_add(&files, str_fmt("%s/d.tar", f.path));
	assert_int_equal(payload_unpack(&files, "550.54.14", &into, &err), -1);
	assert_int_equal(err.code, E_ARCHIVE);
}

struct place { // a layout, a tree to put in, and a directory to unpack to
	struct folder folder;
	struct layout layout;
	struct root tree, out;
};

static void place_make(struct place *p)
{
	struct err err;
	p->layout = LAYOUT_NONE;
	p->tree = p->out = ROOT_NONE;
	folder_make(&p->folder);
	tempdir_write(&p->folder, "tree/usr/lib64/libcuda.so.535.261.03", "cuda");
	tempdir_link(&p->folder, "tree/usr/lib64/libcuda.so.1", "libcuda.so.535.261.03");
	folder_dir(&p->folder, "out");
	auto_root struct root layout = ROOT_NONE;
	folder_dir(&p->folder, "layout");
	assert_int_equal(root_sub(&p->folder.root, "layout", &layout, &err), 0);
	assert_int_equal(layout_make(&layout, &p->layout, &err), 0);
	assert_int_equal(root_sub(&p->folder.root, "tree", &p->tree, &err), 0);
	assert_int_equal(root_sub(&p->folder.root, "out", &p->out, &err), 0);
}

static void place_done(struct place *p)
{
	root_done(&p->tree);
	root_done(&p->out);
	layout_done(&p->layout);
	folder_done(&p->folder);
}
#define auto_place __attribute__((cleanup(place_done)))

static const struct parcel_key KEY = { .kind = &PARCEL_PAYLOAD, .driver = "535.261.03", .arch = "x86_64" };

static void test_round_trip(void **state)
{
	(void)state;
	auto_place struct place a, b;
	auto_descriptor struct descriptor first = { 0 }, second = { 0 };
	auto_str char *tag = parcel_tag(&KEY), *why = NULL, *link = NULL, *path = NULL, *target = NULL;
	struct err err = { 0 };
	char hex[DIGEST_HEX + 1];
	place_make(&a);
	place_make(&b);
	assert_string_equal(tag, "payload-535.261.03-x86_64");
	assert_int_equal(parcel_create(&a.layout, &a.tree, &KEY, &first, &err), 0);
	assert_int_equal(parcel_create(&b.layout, &b.tree, &KEY, &second, &err), 0);
	assert_string_equal(first.digest, second.digest); // the same tree elsewhere is the same bytes
	assert_int_equal(parcel_find(&a.layout, &KEY, hex, &why, &err), 1);
	assert_string_equal(hex, first.digest);
	assert_int_equal(parcel_unpack(&a.layout, hex, &a.out, &err), 1);
	path = str_fmt("out/%s/usr/lib64/libcuda.so.535.261.03", hex);
	folder_expect(&a.folder, path, "cuda");
	link = str_fmt("%s/usr/lib64/libcuda.so.1", hex);
	assert_int_equal(root_readlink(&a.out, link, &target, &err), 1);
	assert_string_equal(target, "libcuda.so.535.261.03");
}

// A tag is a pointer: what it leads to is compared, and headers are no payload.
static void test_what_the_tag_leads_to(void **state)
{
	(void)state;
	struct parcel_key headers = { .kind = &PARCEL_HEADERS, .release = "6.1.0", .arch = "x86_64" },
			  older = { .kind = &PARCEL_PAYLOAD, .driver = "470.256.02", .arch = "x86_64" };
	const struct {
		const char *what;
		const struct parcel_key *offered;
		int found, code;
		const char *text;
	} rows[] = {
		{ "of another driver", &older, 0, 0, "driver version is 470.256.02, wanted 535.261.03" },
		{ "headers", &headers, -1, E_MANIFEST, "is no application/vnd.kmodsmith.payload.v1" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_place struct place p;
		auto_descriptor struct descriptor d = { 0 };
		auto_str char *why = NULL, *none = NULL;
		struct err err = { 0 };
		char hex[DIGEST_HEX + 1];
		place_make(&p);
		assert_int_equal(parcel_find(&p.layout, &KEY, hex, &none, &err), 0);
		assert_non_null(strstr(none, "it has no payload-535.261.03-x86_64"));
		assert_int_equal(parcel_create(&p.layout, &p.tree, rows[i].offered, &d, &err), 0);
		assert_int_equal(layout_publish(&p.layout, &d, "payload-535.261.03-x86_64", &err), 0);
		expect(parcel_find(&p.layout, &KEY, hex, &why, &err) == rows[i].found, rows[i].what);
		expect(rows[i].found == 0 || err.code == rows[i].code, rows[i].what);
		expect(strstr(why ? why : err.text, rows[i].text), rows[i].what);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_versions_in_names),
		cmocka_unit_test(test_files_of_another_driver),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_what_the_tag_leads_to),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
