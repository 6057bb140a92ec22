// SPDX-License-Identifier: Apache-2.0
// Hooks in containers that somebody else has made: what they get, and images that want more than they may have.
#include "devices/cdi_hook.h"

#include "tests/unit/tempdir.h"

#include <errno.h>

#define LIB "usr/lib/x86_64-linux-gnu"
#define LINK "libcuda.so.535.261.03::/" LIB "/libcuda.so.1"

// A machine with a bundle whose root is image/root, and a file beside it that no container may reach.
static void machine(struct folder *t, struct root *ret)
{
	struct err err;
	folder_make(t);
	tempdir_write(t, "bundle/config.json", "{\"root\": {\"path\": \"/image/root\", \"readonly\": true}}");
	folder_dir(t, "image/root");
	tempdir_write(t, "victim/file", "untouched");
	static const char state[] = "{\"ociVersion\": \"1.0.2\", \"pid\": 7, \"bundle\": \"/bundle\"}";
	assert_int_equal(cdi_hook_open(&t->root, state, strlen(state), ret, &err), 0);
}

static void roots_of_bundles(void **state)
{
	(void)state;
	static const struct {
		const char *state, *config, *file; // file: that is seen in the root then; NULL = refused
		int code;
	} rows[] = {
		{ "{\"bundle\": \"/bundle\"}", "{\"root\": {\"path\": \"/image\"}}", "in-image", 0 },
		{ "{\"bundle\": \"/bundle\"}", "{\"root\": {\"path\": \"rootfs\"}}", "in-rootfs", 0 },
		{ "{\"bundle\": \"/bundle\"}", "{\"root\": {\"path\": \"\"}}", NULL, E_CONFIG },
		{ "{\"bundle\": \"/bundle\"}", "{\"root\": []}", NULL, E_CONFIG },
		{ "{\"bundle\": \"/bundle\"}", "{", NULL, E_CONFIG },
		{ "{\"bundle\": \"/bundle\"}", "{\"root\": {\"path\": \"/nowhere\"}}", NULL, ENOENT },
		{ "{\"bundle\": \"/nowhere\"}", "{}", NULL, E_CONFIG },
		{ "{\"bundle\": \"bundle\"}", "{}", NULL, E_CONFIG },
		{ "{\"bundle\": 3}", "{}", NULL, E_CONFIG },
		{ "{}", "{}", NULL, E_CONFIG },
		{ "[]", "{}", NULL, E_CONFIG },
		{ "", "{}", NULL, E_CONFIG },
		{ "{\"bundle\": \"/bundle\", \"bundle\": \"/other\"}", "{}", NULL, E_CONFIG },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder t;
		auto_root struct root root = ROOT_NONE;
		struct err err = { 0 };
		folder_make(&t);
		tempdir_write(&t, "bundle/config.json", rows[i].config);
		tempdir_write(&t, "bundle/rootfs/in-rootfs", "");
		tempdir_write(&t, "image/in-image", "");
		int r = cdi_hook_open(&t.root, rows[i].state, strlen(rows[i].state), &root, &err);
		expect((r < 0 ? err.code : 0) == rows[i].code, rows[i].state);
		expect(r < 0 || root_exists(&root, rows[i].file), rows[i].config);
	}
}

static void links_and_what_is_in_their_place(void **state)
{
	(void)state;
	static const struct {
		const char *there;  // text of a file, or "-> TARGET"; NULL = nothing
		const char *target; // of the link afterwards; NULL = what was there stays
	} rows[] = {
		{ NULL, "libcuda.so.535.261.03" },
		{ "-> libcuda.so.535.261.03", "libcuda.so.535.261.03" },
		{ "-> libcuda.so.1.0", "libcuda.so.535.261.03" },
		{ "-> /victim/file", "libcuda.so.535.261.03" },
		{ "", "libcuda.so.535.261.03" }, // what a bind mount left in an image
		{ "the image's own", NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder t;
		auto_root struct root root = ROOT_NONE;
		auto_strv struct strv kept = { 0 };
		auto_str char *target = NULL;
		struct err err = { 0 };
		const char *there = rows[i].there;
		machine(&t, &root);
		if (there && str_starts(there, "-> "))
			tempdir_link(&t, "image/root/" LIB "/libcuda.so.1", there + 3);
		else if (there)
			tempdir_write(&t, "image/root/" LIB "/libcuda.so.1", there);
		expect(cdi_hook_link(&root, LINK, &kept, &err) == 0, err.text);
		expect(cdi_hook_link(&root, LINK, &kept, &err) == 0, err.text); // a second time changes nothing
		root_readlink(&root, LIB "/libcuda.so.1", &target, &err);
		expect(rows[i].target ? str_eq(target, rows[i].target) : !target, there);
		expect((kept.count > 0) == !rows[i].target, there);
		folder_expect(&t, "victim/file", "untouched");
	}
}

// Each lets a path of the container lead out of it, or somewhere that is not a directory.
static void hostile_roots(void **state)
{
	(void)state;
	static const struct {
		const char *path, *target;
	} rows[] = {
		{ "usr", "/victim" },
		{ "usr", "../../victim" },
		{ "usr", "/../../../../victim" },
		{ "usr/lib", "../../../victim" },
		{ LIB, "../../../../../../../../victim" },
		{ LIB, "/bundle/../victim" },
		{ "usr", "usr" },
		{ "etc", "/victim" },
		{ "etc", "../../victim" },
		{ "etc/ld.so.cache", "../../../victim/file" },
		{ "etc/ld.so.conf", "../../../victim/file" },
		{ "etc/ld.so.conf.d", "../../../victim" },
		{ "etc/ld.so.conf.d/00-kmodsmith.conf", "../../../../victim/file" },
		{ "lib64", "../../victim" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder t;
		auto_root struct root root = ROOT_NONE;
		auto_strv struct strv kept = { 0 }, folders = { 0 }, after = { 0 };
		struct err err = { 0 };
		machine(&t, &root);
		strv_add(&folders, str_dup("/" LIB));
		if (!str_eq(rows[i].path, "lib64"))
			tempdir_write(&t, "image/root/lib64/ld-linux-x86-64.so.2", "");
		auto_str char *path = str_fmt("image/root/%s", rows[i].path);
		tempdir_link(&t, path, rows[i].target);
		cdi_hook_link(&root, LINK, &kept, &err); // in the root, or refused: nothing else is told from outside
		cdi_hook_ldcache(&root, &folders, &err);
		folder_expect(&t, "victim/file", "untouched");
		assert_int_equal(root_list(&t.root, "victim", &after, &err), 1);
		expect(after.count == 1, rows[i].target);
	}
}

static void wrong_links(void **state)
{
	(void)state;
	static const char *const rows[] = { "",
					    "libcuda.so.1",
					    "::/usr/lib/x",
					    "a/b::/usr/lib/x",
					    "a::usr/lib/x",
					    "a::/usr/lib/x/",
					    "a::/file-in-the-top" };
	auto_folder struct folder t;
	auto_root struct root root = ROOT_NONE;
	machine(&t, &root);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_strv struct strv kept = { 0 };
		struct err err = { 0 };
		expect(cdi_hook_link(&root, rows[i], &kept, &err) < 0 && err.code == E_USAGE, rows[i]);
	}
}

static void a_cache_only_for_glibc(void **state)
{
	(void)state;
	static const struct {
		const char *linker, *conf, *told; // told: of 00-kmodsmith.conf; NULL = there is none
		int result;
	} rows[] = {
		{ "lib64/ld-linux-x86-64.so.2", NULL, "/" LIB "\n", 1 },
		{ "lib/ld-linux-aarch64.so.1", "/opt/lib\n", "/" LIB "\n", 1 },
		{ "lib64/ld-linux-x86-64.so.2", "/" LIB "\n", NULL, 1 },
		{ "lib/ld-musl-x86_64.so.1", NULL, NULL, 0 },
		{ "bin/static", NULL, NULL, 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder t;
		auto_root struct root root = ROOT_NONE;
		auto_strv struct strv folders = { 0 };
		struct err err = { 0 };
		machine(&t, &root);
		auto_str char *linker = str_fmt("image/root/%s", rows[i].linker);
		tempdir_write(&t, linker, "");
		if (rows[i].conf)
			tempdir_write(&t, "image/root/etc/ld.so.conf", rows[i].conf);
		strv_add(&folders, str_dup("/" LIB));
		expect(cdi_hook_ldcache(&root, &folders, &err) == rows[i].result, rows[i].linker);
		expect(root_exists(&root, "etc/ld.so.cache") == (rows[i].result > 0), rows[i].linker);
		if (rows[i].told)
			folder_expect(&t, "image/root/etc/ld.so.conf.d/00-kmodsmith.conf", rows[i].told);
		else
			expect(!root_exists(&root, "etc/ld.so.conf.d"), rows[i].linker);
	}
}

// Which library of the image counts, beside a driver 535.261.03.
static void compatibility(void **state)
{
	(void)state;
	static const struct {
		const char *files[3];
		bool is_used;
	} rows[] = {
		{ { 0 }, false },
		{ { "libcuda.so.580.65.06", "libcuda.so.1", "libnvidia-nvvm.so.580.65.06" }, true },
		{ { "libcuda.so.1000.1" }, true },
		{ { "libcuda.so.535.999.99" }, false },
		{ { "libcuda.so.470.256.02" }, false },
		{ { "libcuda.so.1" }, false },
		{ { "libcuda.so.580.65.06", "libcuda.so.570.1" }, false }, // of which?
		{ { "libcuda.so.x.1" }, false },
		{ { "libcuda.so.99999999999999999999999.1" }, false },
		{ { "libcudart.so.580.1" }, false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder t;
		auto_root struct root root = ROOT_NONE;
		machine(&t, &root);
		for (size_t k = 0; k < 3 && rows[i].files[k]; k++) {
			auto_str char *path = str_fmt("image/root/usr/local/cuda/compat/%s", rows[i].files[k]);
			tempdir_write(&t, path, "");
		}
		auto_str char *row = str_fmt("row %zu", i);
		expect(!cdi_hook_compat(&root, "535.261.03") == !rows[i].is_used, row);
		expect(!cdi_hook_compat(&root, "none"), row);
	}
	// as images have it: cuda is a link to cuda-13.0
	auto_folder struct folder t;
	auto_root struct root root = ROOT_NONE;
	machine(&t, &root);
	tempdir_write(&t, "image/root/usr/local/cuda-13.0/compat/libcuda.so.580.65.06", "");
	tempdir_link(&t, "image/root/usr/local/cuda", "/usr/local/cuda-13.0");
	assert_string_equal(cdi_hook_compat(&root, "535.261.03"), "/usr/local/cuda/compat");
}

// A pipe among the libraries or in place of a file would keep a reader waiting for ever.
static void pipes_do_not_block(void **state)
{
	(void)state;
	static const char *const paths[] = { LIB "/libpipe.so.1", "etc/ld.so.conf" };
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		auto_folder struct folder t;
		auto_root struct root root = ROOT_NONE;
		auto_strv struct strv folders = { 0 };
		struct err err = { 0 };
		machine(&t, &root);
		tempdir_write(&t, "image/root/lib64/ld-linux-x86-64.so.2", "");
		folder_dir(&t, "image/root/" LIB);
		folder_dir(&t, "image/root/etc");
		auto_str char *pipe = str_fmt("%s/image/root/%s", t.path, paths[i]);
		assert_int_equal(mkfifo(pipe, 0644), 0);
		strv_add(&folders, str_dup("/" LIB));
		alarm(20);
		expect(cdi_hook_ldcache(&root, &folders, &err) == 1, paths[i]);
		alarm(0);
	}
}

// What becomes a mount is in tests/services/cdi.bats: a recorded machine has none, and refuses.
static void parameters_that_stay(void **state)
{
	(void)state;
	static const struct {
		const char *machine, *container; // the file's text; NULL = there is none
		bool is_own_root;
		int result;
	} rows[] = {
		{ "A: 1\nModifyDeviceFiles: 1\nB: 2\n", "A: 1\nModifyDeviceFiles: 1\nB: 2\n", false, -1 },
		{ "ModifyDeviceFiles: 1\n", "the image's own", false, -1 },
		{ "ModifyDeviceFiles: 1\n", "ModifyDeviceFiles: 1\n", true, 0 },
		{ "ModifyDeviceFiles: 1\n", NULL, false, 0 },
		{ "ModifyDeviceFiles: 0\n", "ModifyDeviceFiles: 0\n", false, 0 },
		{ "NotModifyDeviceFiles: 1\nModifyDeviceFiles: 10\n", "ModifyDeviceFiles: 1\n", false, 0 },
		{ "", "ModifyDeviceFiles: 1\n", false, 0 },
		{ NULL, "ModifyDeviceFiles: 1\n", false, 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder t;
		auto_root struct root root = ROOT_NONE;
		struct err err = { 0 };
		machine(&t, &root);
		const struct sys sys = sys_recorder(&t.root);
		if (rows[i].machine)
			tempdir_write(&t, "proc/driver/nvidia/params", rows[i].machine);
		if (rows[i].container)
			tempdir_write(&t, "image/root/proc/driver/nvidia/params", rows[i].container);
		int r = cdi_hook_fix_nodes(&t.root, rows[i].is_own_root ? &t.root : &root, &sys, &err);
		expect(r == rows[i].result, rows[i].machine);
		expect(r == 0 || err.code == EOPNOTSUPP, err.text);
		if (rows[i].container)
			folder_expect(&t, "image/root/proc/driver/nvidia/params", rows[i].container);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(roots_of_bundles),       cmocka_unit_test(links_and_what_is_in_their_place),
		cmocka_unit_test(hostile_roots),          cmocka_unit_test(wrong_links),
		cmocka_unit_test(a_cache_only_for_glibc), cmocka_unit_test(pipes_do_not_block),
		cmocka_unit_test(compatibility),          cmocka_unit_test(parameters_that_stay),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
