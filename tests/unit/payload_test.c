// SPDX-License-Identifier: Apache-2.0
#include "precompiled/payload/payload.h"

#include "base/archive/pack.h"
#include "precompiled/package/asset.h"
#include "precompiled/payload/image_dir.h"
#include "precompiled/payload/version_check.h"
#include "tests/unit/library.h"
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

struct member {
	const char *path, *text; // text NULL = a library that says libX.so.1 for libX.so.VERSION
	const char *target;      // of a link
};

static void add_member(struct pack *p, const struct member *m)
{
	struct err err;
	const char *slash = strrchr(m->path, '/'), *name = slash ? slash + 1 : m->path;
	auto_str char *stem = str_ndup(name, strcspn(name, ".")), *soname = str_fmt("%s.so.1", stem);
	struct library l = library_make(soname, EM_X86_64);
	if (m->target)
		assert_int_equal(pack_link(p, m->path, m->target, &err), 0);
	else if (m->text)
		assert_int_equal(pack_data(p, m->path, m->text, strlen(m->text), &err), 0);
	else
		assert_int_equal(pack_data(p, m->path, &l, sizeof(l), &err), 0);
}

// An archive of these; a name that ends with .run gets a script before it.
static void archive(const struct folder *f, const char *name, const struct member *members, struct strv *files)
{
	static const char SCRIPT[] = "#!/bin/sh\nskip=4\nexit 1\n";
	struct err err;
	auto_pack struct pack *p = NULL;
	auto_fd int fd = root_create(&f->root, name, &err);
	if (str_ends(name, ".run"))
		assert_int_equal(write(fd, SCRIPT, strlen(SCRIPT)), strlen(SCRIPT));
	assert_int_equal(pack_new(fd, name, str_ends(name, ".run") ? PACK_ZSTD : PACK_PLAIN, &p, &err), 0);
	for (const struct member *m = members; m->path; m++)
		add_member(p, m);
	assert_int_equal(pack_close(p, NULL, NULL, NULL, &err), 0);
	if (files)
		strv_add(files, str_fmt("%s/%s", f->path, name));
}

#define V "535.261.03"
#define TRIPLET "usr/lib/x86_64-linux-gnu"
static const struct member DEBIAN[] = {
	{ "usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so." V, NULL, NULL },
	{ "usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so", NULL, "libcuda.so.1" },
	{ "usr/lib/nvidia/current/nvidia-smi", "the program " V, NULL },
	{ "usr/bin/nvidia-smi", NULL, "/etc/alternatives/nvidia--nvidia-smi" },
	{ "etc/alternatives/nvidia--nvidia-smi", NULL, "/usr/lib/nvidia/current/nvidia-smi" },
	{ "lib/firmware/nvidia/" V "/gsp_ga10x.bin", "firmware", NULL },
	{ "usr/share/man/man1/nvidia-smi.1.gz", "manual", NULL },
	{ 0 },
};
static const struct member BASE[] = {
	{ "lib", NULL, "/usr/lib" },
	{ "usr/lib/libc.so.6", "c", NULL },
	{ "bin/sh", "shell", NULL },
	{ "etc/mtab", NULL, "/proc/self/mounts" },
	{ "usr/bin/nvidia-smi", NULL, "nowhere" },
	{ "dev/null", "not a device", NULL },
	{ 0 },
};

static int make(const struct folder *f, const struct strv *files, const char *base, const char *name, struct err *err)
{
	auto_str char *path = base ? str_fmt("%s/%s", f->path, base) : NULL;
	struct payload_request request = { .driver = V, .arch = "x86_64", .files = files, .base = path };
	return payload_make(&request, &f->root, name, err);
}

static void expect_link(const struct folder *f, const char *path, const char *wanted)
{
	struct err err;
	auto_str char *target = NULL;
	expect(root_readlink(&f->root, path, &target, &err) == 1 && str_eq(target, wanted), path);
}

// The base has a file where every root has a directory.
static void test_no_place_for_the_merged_directories(void **state)
{
	(void)state;
	static const struct member base[] = { { "usr/sbin", "a file", NULL }, { 0 } };
	auto_folder struct folder f;
	auto_strv struct strv files = { 0 };
	struct err err = { 0 };
	folder_make(&f);
	archive(&f, "base.tar", base, NULL);
	archive(&f, "debian.tar", DEBIAN, &files);
	assert_int_equal(make(&f, &files, "base.tar", "into", &err), -1);
	expect(strstr(err.text, "usr/sbin"), err.text);
}

static void test_laid_out(void **state)
{
	(void)state;
	auto_folder struct folder f;
	auto_strv struct strv files = { 0 };
	struct err err = { 0 };
	folder_make(&f);
	archive(&f, "base.tar", BASE, NULL);
	archive(&f, "debian.tar", DEBIAN, &files);
	assert_int_equal(make(&f, &files, "base.tar", "into", &err), 0);
	expect_link(&f, "into/" TRIPLET "/libcuda.so.1", "libcuda.so." V);
	expect_link(&f, "into/" TRIPLET "/libcuda.so", "libcuda.so.1");
	expect_link(&f, "into/lib", "usr/lib");
	expect_link(&f, "into/sbin", "usr/sbin");
	expect_link(&f, "into/etc/mtab", "../proc/self/mounts");
	folder_expect(&f, "into/usr/bin/nvidia-smi", "the program " V);
	folder_expect(&f, "into/usr/bin/sh", "shell");
	folder_expect(&f, "into/usr/lib/firmware/nvidia/" V "/gsp_ga10x.bin", "firmware");
	assert_true(root_exists(&f.root, "into/etc/ld.so.cache"));
	static const char nested[] = "into/" TRIPLET "/nvidia";
	static const char *const absent[] = { "into/dev", "into/usr/share/man", "into/etc/alternatives", "part",
					      nested };
	for (size_t i = 0; i < ARRAY_SIZE(absent); i++)
		expect(!root_exists(&f.root, absent[i]), absent[i]);
}

static void test_refused(void **state)
{
	(void)state;
	static const struct {
		const char *what;
		struct member members[3];
		int code;
		const char *text;
	} rows[] = {
		{ "a library",
		  { { "usr/lib64/libnvidia-ml.so.550.54.14", "x", NULL } },
		  E_USAGE,
		  "'usr/lib64/libnvidia-ml.so.550.54.14' is for driver 550.54.14, 535.261.03 was requested" },
		{ "fabric manager",
		  { { "usr/bin/nv-fabricmanager", "127.0.0.1 and 535.161.07\n", NULL } },
		  E_USAGE,
		  "'usr/bin/nv-fabricmanager' is for driver 535.161.07, 535.261.03 was requested" },
		{ "persistenced of another branch",
		  { { "usr/bin/nvidia-persistenced", "550.54.14", NULL } },
		  E_USAGE,
		  "is for driver 550.54.14" },
		{ "persistenced of another branch, and a number that only begins as a version",
		  { { "usr/bin/nvidia-persistenced", "535.2 550.54.14", NULL } },
		  E_USAGE,
		  "is for driver 550.54.14" },
		{ "another firmware",
		  { { "lib/firmware/nvidia/550.54.14/gsp.bin", "x", NULL } },
		  E_USAGE,
		  "is for driver 550.54.14" },
		{ "another program",
		  { { "usr/bin/nvidia-smi", "another " V, NULL } },
		  E_PAYLOAD,
		  "'usr/bin/nvidia-smi' is in '" },
		{ "a directory", { { "usr/bin/nvidia-smi/x", "x", NULL } }, 0, "" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder f;
		auto_strv struct strv files = { 0 };
		struct err err = { 0 };
		folder_make(&f);
		archive(&f, "debian.tar", DEBIAN, &files);
		archive(&f, "bad.tar", rows[i].members, &files);
		expect(make(&f, &files, NULL, "into", &err) == -1, rows[i].what);
		expect(!rows[i].code || err.code == rows[i].code, rows[i].what);
		if (!strstr(err.text, rows[i].text) || (rows[i].code && !strstr(err.text, "bad.tar")))
			fail_msg("%s: %s", rows[i].what, err.text);
	}
}

// Identical files are not a conflict; persistenced and modprobe may be another version of the branch.
static void test_allowed(void **state)
{
	(void)state;
	static const struct member more[] = {
		{ "usr/lib/nvidia/current/nvidia-smi", "the program " V, NULL },
		{ "usr/bin/nvidia-persistenced", "version 535.171.04.", NULL },
		{ "usr/bin/nv-fabricmanager", "550.54.14 was before " V "\n255.255.255.255", NULL },
		{ "usr/bin/nvidia-imex", "no version at all: 1.2.3.4, v535.1, 5350.12", NULL },
		{ 0 },
	};
	auto_folder struct folder f;
	auto_strv struct strv files = { 0 };
	struct err err = { 0 };
	folder_make(&f);
	archive(&f, "debian.tar", DEBIAN, &files);
	archive(&f, "more.tar", more, &files);
	assert_int_equal(make(&f, &files, NULL, "into", &err), 0);
	tempdir_write(&f, "text.tar", "this is no archive");
	strv_add(&files, str_fmt("%s/text.tar", f.path));
	assert_int_equal(make(&f, &files, NULL, "other", &err), -1);
	assert_int_equal(err.code, E_ARCHIVE);
}

#define HEAD "NVIDIA Accelerated Graphics Driver\n" V "\n1\nnvidia\n0\n0\n0\n0\n"
static const struct member RUN[] = {
	{ ".manifest",
	  HEAD "libcuda.so." V " 0755 CUDA_LIB NATIVE / MODULE:compute\n"
	       "libcuda.so.1 0000 CUDA_SYMLINK NATIVE / libcuda.so." V " MODULE:compute\n"
	       "32/libcuda.so." V " 0755 CUDA_LIB COMPAT32 /\n"
	       "nvidia-smi 0755 UTILITY_BINARY MODULE:utils\n"
	       "nvidia-smi.1.gz 0644 MANPAGE man1\n"
	       "LICENSE 0644 DOCUMENTATION NVIDIA_GLX-1.0 MODULE:installer\n"
	       "supported-gpus/LICENSE 0644 DOCUMENTATION NVIDIA_GLX-1.0/supported-gpus MODULE:installer\n"
	       "supported-gpus/supported-gpus.json 0644 DOCUMENTATION NVIDIA_GLX-1.0/supported-gpus MODULE:installer\n"
	       "firmware/gsp_ga10x.bin 0644 FIRMWARE INHERIT_PATH_DEPTH:1\n"
	       "kernel-open/nvidia/nv.c 0644 KERNEL_MODULE_SRC INHERIT_PATH_DEPTH:1\n",
	  NULL },
	{ "libcuda.so." V, NULL, NULL },
	{ "nvidia-smi", V, NULL },
	{ "LICENSE", "licence", NULL },
	{ "supported-gpus/LICENSE", "licence of the list", NULL },
	{ "supported-gpus/supported-gpus.json", "list", NULL },
	{ "firmware/gsp_ga10x.bin", "firmware", NULL },
	{ "kernel-open/nvidia/nv.c", "source", NULL },
	{ 0 },
};

// Some archives have one directory at their top; what else lies there is not asked for its manifest.
static void test_run_in_a_directory(void **state)
{
	(void)state;
	static const struct member members[] = {
		{ "NVIDIA-Linux/.manifest", HEAD "nvidia-smi 0755 UTILITY_BINARY MODULE:utils\n", NULL },
		{ "NVIDIA-Linux/nvidia-smi", V, NULL },
		{ "readme/text", "not the driver", NULL },
		{ 0 },
	};
	auto_folder struct folder f;
	auto_strv struct strv files = { 0 };
	struct err err = { 0 };
	folder_make(&f);
	archive(&f, "driver.run", members, &files);
	assert_int_equal(make(&f, &files, NULL, "into", &err), 0);
	folder_expect(&f, "into/usr/bin/nvidia-smi", V);
}

static void test_run(void **state)
{
	(void)state;
	auto_folder struct folder f;
	auto_strv struct strv files = { 0 };
	struct err err = { 0 };
	folder_make(&f);
	archive(&f, "driver.run", RUN, &files);
	assert_int_equal(make(&f, &files, NULL, "into", &err), 0);
	expect_link(&f, "into/" TRIPLET "/libcuda.so.1", "libcuda.so." V);
	folder_expect(&f, "into/usr/bin/nvidia-smi", V);
	folder_expect(&f, "into/usr/share/doc/NVIDIA_GLX-1.0/LICENSE", "licence");
	folder_expect(&f, "into/usr/share/doc/NVIDIA_GLX-1.0/supported-gpus/LICENSE", "licence of the list");
	folder_expect(&f, "into/usr/share/doc/NVIDIA_GLX-1.0/supported-gpus/supported-gpus.json", "list");
	folder_expect(&f, "into/usr/lib/firmware/nvidia/" V "/gsp_ga10x.bin", "firmware");
	folder_expect(&f, "into/usr/src/nvidia-" V "/kernel-open/nvidia/nv.c", "source");
	static const struct {
		const char *what;
		struct member members[3];
		int code;
		const char *text;
	} rows[] = {
		{ "no manifest", { { "nvidia-smi", V, NULL } }, E_PAYLOAD, "has no .manifest" },
		{ "another driver",
		  { { ".manifest", "x\n550.1.1\n1\n1\n1\n1\n1\n1\nx 0644 MANPAGE x\n", NULL } },
		  E_USAGE,
		  "is for driver 550.1.1" },
		{ "a file is missing",
		  { { ".manifest", HEAD "nvidia-smi 0755 UTILITY_BINARY\n", NULL } },
		  E_PAYLOAD,
		  "has no file 'nvidia-smi'" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_strv struct strv bad = { 0 };
		auto_str char *into = str_fmt("into%zu", i);
		archive(&f, "bad.run", rows[i].members, &bad);
		expect(make(&f, &bad, NULL, into, &err) == -1, rows[i].what);
		if (err.code != rows[i].code || !strstr(err.text, rows[i].text))
			fail_msg("%s: %s", rows[i].what, err.text);
	}
}

static int carry(const struct folder *f, const struct strv *files, const char *name, struct image_dir *ret,
		 struct err *err)
{
	struct payload_request request = { .driver = V, .arch = "x86_64", .files = files };
	return image_dir_make(&request, &f->root, name, ret, err);
}

// Whole or not at all, and the same files are the same payload.
static void test_carried(void **state)
{
	(void)state;
	auto_folder struct folder f;
	auto_strv struct strv files = { 0 };
	auto_image_dir struct image_dir a = { 0 }, b = { 0 }, again = { 0 }, found = { 0 }, none = { 0 };
	struct err err = { 0 };
	folder_make(&f);
	folder_dir(&f, "a"); // an empty one is taken
	folder_dir(&f, "empty");
	archive(&f, "debian.tar", DEBIAN, &files);
	assert_int_equal(carry(&f, &files, "a", &a, &err), 1);
	assert_int_equal(carry(&f, &files, "b", &b, &err), 1);
	assert_string_equal(a.digest, b.digest);
	assert_int_equal(carry(&f, &files, "a", &again, &err), 0);
	auto_root struct root dir = ROOT_NONE, empty = ROOT_NONE;
	assert_int_equal(root_sub(&f.root, "a", &dir, &err), 0);
	assert_int_equal(root_sub(&f.root, "empty", &empty, &err), 0);
	assert_int_equal(image_dir_read(&dir, IMAGE_DIR_DOCUMENT, &found, &err), 1);
	assert_string_equal(found.digest, a.digest);
	assert_string_equal(found.driver, V);
	assert_int_equal(image_dir_read(&empty, IMAGE_DIR_DOCUMENT, &none, &err), 0);
	archive(&f, "run.run", RUN, &files);
	assert_int_equal(carry(&f, &files, "c", &none, &err), -1); // libcuda of both
	assert_false(root_exists(&f.root, "c"));
	archive(&f, "more.tar", (struct member[]){ { "usr/bin/more", "x", NULL }, { 0 } }, &files);
	free(files.items[1]);
	files.items[1] = files.items[2];
	files.count = 2;
	assert_int_equal(carry(&f, &files, "a", &none, &err), -1);
	assert_int_equal(err.code, E_PAYLOAD);
	static const char *const bad[] = { "{", "{}", "{\"driver\":\"1\",\"arch\":\"x\",\"digest\":\"../../etc\"}" };
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		tempdir_write(&f, "empty/payload.json", bad[i]);
		expect(image_dir_read(&empty, IMAGE_DIR_DOCUMENT, &none, &err) == -1 && err.code == E_PAYLOAD, bad[i]);
	}
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

static const struct asset_key KEY = { .kind = &ASSET_PAYLOAD, .driver = "535.261.03", .arch = "x86_64" };

static void test_round_trip(void **state)
{
	(void)state;
	auto_place struct place a, b;
	auto_oci_descriptor struct oci_descriptor first = { 0 }, second = { 0 };
	auto_str char *tag = asset_tag(&KEY), *why = NULL, *link = NULL, *path = NULL, *target = NULL;
	struct err err = { 0 };
	char hex[DIGEST_HEX + 1];
	place_make(&a);
	place_make(&b);
	assert_string_equal(tag, "payload-535.261.03-x86_64");
	assert_int_equal(asset_create(&a.layout, &a.tree, &KEY, &first, &err), 0);
	assert_int_equal(asset_create(&b.layout, &b.tree, &KEY, &second, &err), 0);
	assert_string_equal(first.digest, second.digest); // the same tree elsewhere is the same bytes
	assert_int_equal(asset_find(&a.layout, &KEY, hex, &why, &err), 1);
	assert_string_equal(hex, first.digest);
	assert_int_equal(asset_unpack(&a.layout, hex, &a.out, &err), 1);
	path = str_fmt("out/%s/usr/lib64/libcuda.so.535.261.03", hex);
	folder_expect(&a.folder, path, "cuda");
	link = str_fmt("%s/usr/lib64/libcuda.so.1", hex);
	assert_int_equal(root_readlink(&a.out, link, &target, &err), 1);
	assert_string_equal(target, "libcuda.so.535.261.03");
}

// A tag is a pointer: what it leads to is compared, and headers are no payload.
static void test_content_under_the_tag(void **state)
{
	(void)state;
	struct asset_key headers = { .kind = &ASSET_HEADERS, .release = "6.1.0", .arch = "x86_64" },
			 older = { .kind = &ASSET_PAYLOAD, .driver = "470.256.02", .arch = "x86_64" };
	const struct {
		const char *what;
		const struct asset_key *offered;
		int found, code;
		const char *text;
	} rows[] = {
		{ "of another driver", &older, 0, 0, "driver version is 470.256.02, wanted 535.261.03" },
		{ "headers", &headers, -1, E_MANIFEST, "is not of type application/vnd.kmodsmith.payload.v1" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_place struct place p;
		auto_oci_descriptor struct oci_descriptor d = { 0 };
		auto_str char *why = NULL, *none = NULL;
		struct err err = { 0 };
		char hex[DIGEST_HEX + 1];
		place_make(&p);
		assert_int_equal(asset_find(&p.layout, &KEY, hex, &none, &err), 0);
		assert_non_null(strstr(none, "it has no payload-535.261.03-x86_64"));
		assert_int_equal(asset_create(&p.layout, &p.tree, rows[i].offered, &d, &err), 0);
		assert_int_equal(layout_publish(&p.layout, &d, "payload-535.261.03-x86_64", &err), 0);
		expect(asset_find(&p.layout, &KEY, hex, &why, &err) == rows[i].found, rows[i].what);
		expect(rows[i].found == 0 || err.code == rows[i].code, rows[i].what);
		expect(strstr(why ? why : err.text, rows[i].text), rows[i].what);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_versions_in_names),
		cmocka_unit_test(test_no_place_for_the_merged_directories),
		cmocka_unit_test(test_laid_out),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_allowed),
		cmocka_unit_test(test_run),
		cmocka_unit_test(test_run_in_a_directory),
		cmocka_unit_test(test_carried),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_content_under_the_tag),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
