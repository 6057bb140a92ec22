// SPDX-License-Identifier: Apache-2.0
// The exported sources: of both module types only the loaded one.
#include "driver_root/source_tree.h"

#include "base/process/proc.h"
#include "tests/unit/tempdir.h"

// gdrcopy's src/gdrdrv/Makefile: find DIR -name nv-p2p.c -print -quit; the module's licence is looked for beside it.
static char *found_by_gdrcopy(const struct folder *f, const char *tree)
{
	auto_str char *dir = str_fmt("%s/store/%s", f->path, tree);
	const char *const argv[] = { "/usr/bin/find", dir, "-name", "nv-p2p.c", "-print", "-quit", NULL };
	const struct proc proc = { .argv = argv };
	struct proc_end end;
	struct err err;
	assert_int_equal(proc_must(&proc, &end, &err), 0);
	const char *flavour = strstr(end.tail, "/kernel");
	return flavour ? str_ndup(flavour + 1, strcspn(flavour + 1, "/")) : str_dup("");
}

static void only_the_loaded_module_type(void **state)
{
	(void)state;
	static const char *const orders[][2] = { { "kernel", "kernel-open" }, { "kernel-open", "kernel" } };
	for (size_t o = 0; o < ARRAY_SIZE(orders); o++) { // of their making: what find meets first depends on it
		auto_folder struct folder f;
		auto_root struct root payload = ROOT_NONE, store = ROOT_NONE;
		char open[DIGEST_HEX + 1], proprietary[DIGEST_HEX + 1];
		struct err err = { 0 };
		folder_make(&f);
		folder_dir(&f, "store");
		tempdir_write(&f, "payload/usr/src/nvidia-535.1/dkms.conf", "x");
		for (size_t i = 0; i < ARRAY_SIZE(orders[o]); i++) {
			auto_str char *dir = str_fmt("payload/usr/src/nvidia-535.1/%s/nvidia", orders[o][i]);
			auto_str char *file = str_fmt("%s/nv-p2p.c", dir);
			tempdir_write(&f, file, "x");
		}
		assert_int_equal(root_sub(&f.root, "payload", &payload, &err), 0);
		assert_int_equal(root_sub(&f.root, "store", &store, &err), 0);
		source_tree_key("aa", "6.1", MODULE_TYPE_OPEN, open);
		source_tree_key("aa", "6.1", MODULE_TYPE_PROPRIETARY, proprietary);
		assert_string_not_equal(open, proprietary);
		assert_int_equal(source_tree_make(&payload, "535.1", MODULE_TYPE_OPEN, &store, open, &err), 1);
		assert_int_equal(
			source_tree_make(&payload, "535.1", MODULE_TYPE_PROPRIETARY, &store, proprietary, &err), 1);
		assert_int_equal(source_tree_make(&payload, "535.1", MODULE_TYPE_OPEN, &store, open, &err), 0);
		auto_str char *first = found_by_gdrcopy(&f, open), *second = found_by_gdrcopy(&f, proprietary);
		assert_string_equal(first, "kernel-open");
		assert_string_equal(second, "kernel");
		auto_str char *conf = str_fmt("%s/dkms.conf", open), *other = str_fmt("%s/kernel", open);
		assert_true(root_exists(&store, conf));
		assert_false(root_exists(&store, other));
	}
}

// A payload with one module type shows that one: nvidia-fs needs only the symbol versions.
static void a_payload_with_one_module_type(void **state)
{
	(void)state;
	auto_folder struct folder f;
	auto_root struct root payload = ROOT_NONE, store = ROOT_NONE;
	struct err err = { 0 };
	folder_make(&f);
	folder_dir(&f, "store");
	tempdir_write(&f, "payload/usr/src/nvidia-535.1/kernel/nvidia/nv-p2p.c", "x");
	assert_int_equal(root_sub(&f.root, "payload", &payload, &err), 0);
	assert_int_equal(root_sub(&f.root, "store", &store, &err), 0);
	assert_int_equal(source_tree_make(&payload, "535.1", MODULE_TYPE_OPEN, &store, "a", &err), 1);
	assert_int_equal(source_tree_make(&payload, "535.1", MODULE_TYPE_PROPRIETARY, &store, "b", &err), 1);
	auto_str char *other = found_by_gdrcopy(&f, "a"), *one = found_by_gdrcopy(&f, "b");
	assert_string_equal(other, "kernel");
	assert_string_equal(one, "kernel");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_the_loaded_module_type),
		cmocka_unit_test(a_payload_with_one_module_type),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
