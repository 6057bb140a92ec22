// SPDX-License-Identifier: Apache-2.0
#include "kmod/kernel_tree/tree.h"
#include "kmod/module/kernel_abi.h"
#include "tests/unit/forge.h"
#include "tests/unit/pack.h"
#include "tests/unit/test.h"

#define BASE "CONFIG_MODULES=y\nCONFIG_X86_64=y\n"

static void test_vermagic(void **state)
{
	(void)state;
	static const struct {
		const char *config;
		int machine;
		const char *vermagic; // behind the release; NULL = not derivable
	} rows[] = {
		{ BASE "CONFIG_SMP=y\nCONFIG_PREEMPT_BUILD=y\nCONFIG_MODULE_UNLOAD=y\nCONFIG_MODVERSIONS=y\n",
		  EM_X86_64, "SMP preempt mod_unload modversions " },
		{ BASE "CONFIG_SMP=y\nCONFIG_PREEMPT=y\n", EM_X86_64, "SMP preempt " },
		{ BASE "# CONFIG_SMP is not set\nCONFIG_PREEMPT_RT=y\n", EM_X86_64, "preempt_rt " },
		{ BASE "CONFIG_SMP=y\nCONFIG_PREEMPT_VOLUNTARY=y\nCONFIG_MODULE_UNLOAD=y", EM_X86_64,
		  "SMP mod_unload " },
		{ "CONFIG_MODULES=y\nCONFIG_ARM64=y\nCONFIG_SMP=y\nCONFIG_MODVERSIONS=y\n", EM_AARCH64,
		  "SMP modversions aarch64" },
		{ BASE "CONFIG_SMP=y\nCONFIG_RANDSTRUCT=y\n", EM_X86_64, NULL },
		{ "CONFIG_MODULES=y\nCONFIG_RISCV=y\n", EM_NONE, NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err;
		auto_kernel_abi struct kernel_abi abi = { 0 };
		auto_str char *want = rows[i].vermagic ? str_fmt("6.1.0-9 %s", rows[i].vermagic) : NULL;
		expect(kernel_abi_add_tree(&abi, "6.1.0-9", NULL, 0, rows[i].config, strlen(rows[i].config), &err) == 0,
		       err.text);
		expect(abi.machine == rows[i].machine, rows[i].config);
		expect(want ? str_eq(abi.vermagic, want) : !abi.vermagic, rows[i].config);
	}
}

static void test_config(void **state)
{
	(void)state;
	struct err err;
	static const char strict[] =
		BASE "CONFIG_MODULE_SIG=y\nCONFIG_MODULE_SIG_FORCE=y\nCONFIG_MODULE_SIG_HASH=\"sha512\"\n"
		     "CONFIG_DEBUG_INFO_BTF_MODULES=y\n";
	static const char lax[] = BASE "CONFIG_MODULE_ALLOW_BTF_MISMATCH=y\nCONFIG_DEBUG_INFO_BTF_MODULES=y\n"
				       "CONFIG_MODULE_ALLOW_MISSING_NAMESPACE_IMPORTS=y\n";
	auto_kernel_abi struct kernel_abi a = { 0 }, b = { 0 };
	assert_int_equal(kernel_abi_add_tree(&a, "6.1", NULL, 0, strict, strlen(strict), &err), 0);
	assert_true(a.has_sig && a.is_sig_enforced && a.is_btf_mismatch_fatal && a.is_ns_required &&
		    !a.has_modversions);
	assert_string_equal(a.sig_hash, "sha512");
	assert_int_equal(kernel_abi_add_tree(&b, "6.1", NULL, 0, lax, strlen(lax), &err), 0);
	assert_true(!b.has_sig && !b.is_sig_enforced && !b.is_btf_mismatch_fatal && !b.is_ns_required && !b.sig_hash);
	assert_int_equal(kernel_abi_add_tree(&b, "6.1", NULL, 0, "<html>", 6, &err), -1);
	assert_int_equal(err.code, E_HEADERS_MISMATCH);
}

static void test_build_id(void **state)
{
	(void)state;
	char a[DIGEST_HEX + 1], b[DIGEST_HEX + 1], c[DIGEST_HEX + 1];
	kernel_build_id("Linux version 6.1.0-9 (x) #1 SMP", a);
	kernel_build_id(" Linux version 6.1.0-9 (x) #1 SMP\n", b);
	kernel_build_id("Linux version 6.1.0-9 (x) #2 SMP", c);
	assert_true(digest_is_hex(a));
	assert_string_equal(a, b);
	assert_string_not_equal(a, c);
}

static const struct forge_symver kernel_exports[] = { { "kfree", 0x5, NULL, false },
						      { "gpl", 0x6, NULL, true },
						      { 0 } };
static const struct forge_symver module_imports[] = { { "module_layout", 0x1, NULL, false }, { 0 } };

static void data_file(const struct folder *folder, const char *path, const char *data, size_t len)
{
	struct err err;
	assert_int_equal(root_write(&folder->root, path, data, len, 0644, &err), 0);
}

static void machine_make(struct folder *f)
{
	folder_make(f);
	folder_dir(f, "boot");
	folder_dir(f, "proc/sys/kernel");
	folder_dir(f, "sys/kernel/security");
	folder_dir(f, "sys/module/module/parameters");
	folder_dir(f, "lib/modules/6.1.0-9/kernel/drivers/net");
	folder_dir(f, "usr/src/linux-headers-6.1.0-9");
	folder_file(f, "proc/sys/kernel/osrelease", "6.1.0-9\n");
	folder_file(f, "proc/version", "Linux version 6.1.0-9 (x) #1 SMP\n");
	folder_file(f, "boot/config-6.1.0-9", BASE "CONFIG_SMP=y\nCONFIG_MODVERSIONS=y\nCONFIG_MODULE_SIG=y\n");
}

static void in_tree_module(const struct folder *f, const char *path)
{
	size_t len;
	struct forge_module ko = { .name = "dummy",
				   .vermagic = "6.1.0-9 SMP preempt modversions ",
				   .struct_size = 1216,
				   .extra = "intree=Y\0",
				   .imports = module_imports };
	auto_str char *data = forge_ko(&ko, &len);
	data_file(f, path, data, len);
}

static void kernel_image(const struct folder *f, const char *release)
{
	size_t len;
	auto_str char *banner = str_fmt("Linux version %s (image) #1 SMP\n", release);
	auto_str char *data = forge_vmlinux(banner, kernel_exports, true, &len);
	data_file(f, "boot/vmlinuz-6.1.0-9", data, len);
}

static void test_machine_headers(void **state)
{
	(void)state;
	struct err err = { 0 };
	char id[DIGEST_HEX + 1];
	auto_folder struct folder f;
	auto_kernel_abi struct kernel_abi abi = { 0 };
	machine_make(&f);
	folder_link(&f, "/usr/src/linux-headers-6.1.0-9", "lib/modules/6.1.0-9/build");
	folder_file(&f, "usr/src/linux-headers-6.1.0-9/Module.symvers", "0x9\tkfree\tvmlinux\tEXPORT_SYMBOL\t\n");
	folder_file(&f, "sys/module/module/parameters/sig_enforce", "Y\n");
	folder_file(&f, "sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
	in_tree_module(&f, "lib/modules/6.1.0-9/kernel/drivers/net/dummy.ko");
	kernel_image(&f, "6.1.0-9");
	assert_int_equal(kernel_abi_read(&abi, &f.root, &f.root, NULL, NULL, &err), 1);
	assert_string_equal(abi.release, "6.1.0-9");
	assert_string_equal(abi.vermagic, "6.1.0-9 SMP preempt modversions ");
	assert_int_equal(abi.struct_size, 1216);
	assert_int_equal(abi.machine, EM_X86_64);
	assert_true(abi.is_sig_enforced && abi.is_locked_down && abi.has_sig);
	assert_string_equal(abi.symvers_from, "lib/modules/6.1.0-9/build/Module.symvers");
	assert_int_equal(symvers_find(abi.symvers, "kfree")->crc, 9);
	kernel_build_id("Linux version 6.1.0-9 (x) #1 SMP", id);
	assert_string_equal(abi.build_id, id);
}

// A host without headers: D.4 (3).
static void test_machine_image(void **state)
{
	(void)state;
	struct err err;
	auto_folder struct folder f;
	auto_kernel_abi struct kernel_abi abi = { 0 };
	machine_make(&f);
	kernel_image(&f, "6.1.0-9");
	assert_int_equal(kernel_abi_read(&abi, &f.root, &f.root, NULL, NULL, &err), 1);
	assert_string_equal(abi.symvers_from, "boot/vmlinuz-6.1.0-9");
	assert_int_equal(symvers_find(abi.symvers, "kfree")->crc, 5);
	assert_string_equal(abi.vermagic, "6.1.0-9 SMP modversions ");
	assert_false(abi.is_sig_enforced || abi.is_locked_down);
	kernel_image(&f, "6.1.0-10");
	assert_int_equal(kernel_abi_read(&abi, &f.root, &f.root, NULL, NULL, &err), -1);
	assert_int_equal(err.code, E_HEADERS_MISMATCH);
	data_file(&f, "boot/vmlinuz-6.1.0-9", "MZ", 2);
	assert_int_equal(kernel_abi_read(&abi, &f.root, &f.root, NULL, NULL, &err), 0);
	assert_null(abi.symvers);
}

// arm64's image tells which build it is. Of symbols it tells nothing, and of the running kernel the running kernel.
static void test_machine_arm64(void **state) // R-O1
{
	(void)state;
	static const char running[] = "Linux version 6.1.0-9 (x) #1 SMP", other[] = "Linux version 6.1.0-9 (y) #2 SMP";
	static const char text[] = "0x7\tkfree\tvmlinux\tEXPORT_SYMBOL\t\n";
	struct err err;
	char id[2][DIGEST_HEX + 1];
	size_t len, packed_len;
	auto_folder struct folder f;
	auto_kernel_abi struct kernel_abi abi = { 0 };
	auto_str char *line = str_fmt("%s\n", other), *image = forge_arm64_image(line, &len);
	auto_str char *packed = pack(archive_write_add_filter_gzip, text, strlen(text), &packed_len);
	kernel_build_id(running, id[0]);
	kernel_build_id(other, id[1]);
	machine_make(&f);
	folder_file(&f, "boot/config-6.1.0-9",
		    "CONFIG_MODULES=y\nCONFIG_ARM64=y\nCONFIG_SMP=y\nCONFIG_MODVERSIONS=y\n");
	data_file(&f, "boot/vmlinuz-6.1.0-9", image, len);
	assert_int_equal(kernel_abi_read(&abi, &f.root, &f.root, NULL, NULL, &err), 0);
	assert_string_equal(abi.build_id, id[0]);
	assert_null(abi.symvers);
	folder_file(&f, "proc/sys/kernel/osrelease", "6.1.0-8\n");
	assert_int_equal(kernel_abi_read(&abi, &f.root, &f.root, NULL, "6.1.0-9", &err), 0);
	assert_string_equal(abi.build_id, id[1]);
	assert_int_equal(abi.machine, EM_AARCH64);
	assert_true(abi.has_modversions);
	assert_string_equal(abi.vermagic, "6.1.0-9 SMP modversions aarch64");
	data_file(&f, "boot/symvers-6.1.0-9.gz", packed, packed_len);
	assert_int_equal(kernel_abi_read(&abi, &f.root, &f.root, NULL, "6.1.0-9", &err), 1);
	assert_string_equal(abi.build_id, id[1]);
	assert_int_equal(symvers_find(abi.symvers, "kfree")->crc, 7);
}

// RHEL's and SUSE's symvers without headers: D.4 (2).
static void test_machine_symvers(void **state)
{
	(void)state;
	static const char text[] = "0x7\tkfree\tvmlinux\tEXPORT_SYMBOL\t\n";
	struct err err;
	size_t len;
	auto_folder struct folder f;
	auto_kernel_abi struct kernel_abi abi = { 0 };
	auto_str char *packed = pack(archive_write_add_filter_xz, text, strlen(text), &len);
	machine_make(&f);
	data_file(&f, "lib/modules/6.1.0-9/symvers.xz", packed, len);
	assert_int_equal(kernel_abi_read(&abi, &f.root, &f.root, NULL, "6.1.0-9", &err), 1);
	assert_int_equal(symvers_find(abi.symvers, "kfree")->crc, 7);
}

// Another kernel than the one that runs: what the running one enforces says nothing about it.
static void test_machine_other(void **state)
{
	(void)state;
	struct err err;
	auto_folder struct folder f;
	auto_kernel_abi struct kernel_abi abi = { 0 };
	machine_make(&f);
	folder_file(&f, "sys/module/module/parameters/sig_enforce", "Y\n");
	folder_file(&f, "proc/sys/kernel/osrelease", "6.1.0-8\n");
	assert_int_equal(kernel_abi_read(&abi, &f.root, &f.root, NULL, "6.1.0-9", &err), 0);
	assert_false(abi.is_sig_enforced);
	assert_null(abi.build_id);
	assert_string_equal(abi.vermagic, "6.1.0-9 SMP modversions ");
	assert_int_equal(kernel_abi_read(&abi, &f.root, &f.root, NULL, NULL, &err), 0);
	assert_true(abi.is_sig_enforced);
	assert_string_equal(abi.release, "6.1.0-8");
}

static void test_machine_empty(void **state)
{
	(void)state;
	struct err err;
	auto_folder struct folder f;
	auto_kernel_abi struct kernel_abi abi = { 0 };
	folder_make(&f);
	assert_int_equal(kernel_abi_read(&abi, &f.root, &f.root, NULL, NULL, &err), -1);
	assert_int_equal(err.code, E_NOT_FOUND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vermagic),      cmocka_unit_test(test_config),
		cmocka_unit_test(test_build_id),      cmocka_unit_test(test_machine_headers),
		cmocka_unit_test(test_machine_image), cmocka_unit_test(test_machine_symvers),
		cmocka_unit_test(test_machine_arm64), cmocka_unit_test(test_machine_other),
		cmocka_unit_test(test_machine_empty),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
