// SPDX-License-Identifier: Apache-2.0
// R-P2: nvidia-peermem is compared with the ib_core that is loaded, wherever that came from, before the kernel sees it.
#include "peermem/peermem_module.h"

#include "tests/unit/forge.h"
#include "tests/unit/tempdir.h"

#define RELEASE "6.1.0-56-cloud-amd64"
#define MAGIC RELEASE " SMP preempt mod_unload modversions "
#define REGISTER "ib_register_peer_memory_client"
enum { MINE = 0x11111111, OTHER = 0x22222222 };

static const struct forge_symver uses_register[] = { { REGISTER, MINE, NULL, false }, { 0 } },
				 gives_same[] = { { REGISTER, MINE, NULL, false }, { 0 } },
				 gives_other[] = { { REGISTER, OTHER, NULL, false }, { 0 } },
				 gives_none[] = { { "ib_alloc_device", 1, NULL, false }, { 0 } };

static void put(const struct folder *t, const char *path, const struct forge_module *ko)
{
	struct err err;
	size_t len;
	char *data = forge_ko(ko, &len);
	auto_str char *dir = str_ndup(path, (size_t)(strrchr(path, '/') - path));
	assert_int_equal(root_mkdirs(&t->root, dir, 0755, &err), 0);
	assert_int_equal(root_write(&t->root, path, data, len, 0644, &err), 0);
	free(data);
}

static void put_ib_core(const struct folder *t, const char *dir, const struct forge_symver *exports,
			const char *srcversion)
{
	char extra[64] = { 0 };
	snprintf(extra, sizeof(extra) - 1, "srcversion=%s", srcversion);
	auto_str char *path = str_fmt("%s/lib/modules/" RELEASE "/updates/ib_core.ko", dir),
		      *dep = str_fmt("%s/lib/modules/" RELEASE "/modules.dep", dir);
	put(t, path,
	    &(struct forge_module){ .name = "ib_core", .vermagic = MAGIC, .exports = exports, .extra = extra });
	tempdir_write(t, dep, "updates/ib_core.ko:\n");
}

struct row {
	const char *name;
	const struct forge_symver *imports;     // of nvidia-peermem
	const struct forge_symver *host, *ofed; // ib_core of the host's tree and of the network driver's container
	const char *host_srcversion, *ofed_srcversion; // the loaded one has "L"
	const char *table_at, *table;                  // Module.symvers
	bool is_not_loaded;                            // ib_core
	int code;
	const char *text;
};

#define TABLE(crc) crc "\t" REGISTER "\tdrivers/infiniband/core/ib_core\tEXPORT_SYMBOL\t\n"

static const struct row rows[] = {
	{ .name = "the host's file", .imports = uses_register, .host = gives_same, .host_srcversion = "L" },
	{ .name = "the host's file, of another build",
	  .imports = uses_register,
	  .host = gives_other,
	  .host_srcversion = "L",
	  .code = E_ABI,
	  .text = REGISTER " 11111111/22222222" },
	{ .name = "the container's file counts where the host's is not the loaded one",
	  .imports = uses_register,
	  .host = gives_same,
	  .host_srcversion = "X",
	  .ofed = gives_other,
	  .ofed_srcversion = "L",
	  .code = E_ABI,
	  .text = REGISTER " 11111111/22222222" },
	{ .name = "the container's table",
	  .imports = uses_register,
	  .table_at = "run/mellanox/drivers/usr/src/ofa_kernel/x86_64/" RELEASE "/Module.symvers",
	  .table = TABLE("0x22222222"),
	  .code = E_ABI,
	  .text = REGISTER " 11111111/22222222" },
	{ .name = "the host's table",
	  .imports = uses_register,
	  .table_at = "usr/src/ofa_kernel/default/Module.symvers",
	  .table = TABLE("0x11111111") },
	{ .name = "a damaged table",
	  .imports = uses_register,
	  .table_at = "usr/src/ofa_kernel/default/Module.symvers",
	  .table = "0xzz\n",
	  .code = E_HEADERS_MISMATCH },
	{ .name = "a kernel's own ib_core",
	  .imports = uses_register,
	  .host = gives_none,
	  .host_srcversion = "L",
	  .code = E_SYMBOL,
	  .text = "nothing exports " REGISTER },
	{ .name = "a file of the host that is not loaded says nothing",
	  .imports = uses_register,
	  .host = gives_same,
	  .host_srcversion = "L",
	  .is_not_loaded = true,
	  .code = E_SYMBOL,
	  .text = "nothing exports " REGISTER },
	{ .name = "compiled without it",
	  .host = gives_same,
	  .host_srcversion = "L",
	  .code = E_SYMBOL,
	  .text = "was compiled without " REGISTER },
};

static void make_machine(const struct row *row, const struct folder *t)
{
	static const char config[] = "CONFIG_MODULES=y\nCONFIG_X86_64=y\nCONFIG_SMP=y\nCONFIG_PREEMPT_BUILD=y\n"
				     "CONFIG_MODULE_UNLOAD=y\nCONFIG_MODVERSIONS=y\n";
	tempdir_write(t, "proc/sys/kernel/osrelease", RELEASE "\n");
	tempdir_write(t, "proc/version", "Linux version " RELEASE " (x)\n");
	tempdir_write(t, "lib/modules/" RELEASE "/config", config);
	tempdir_write(t, "lib/modules/" RELEASE "/build/Module.symvers",
		      "0x00000001\tprintk\tvmlinux\tEXPORT_SYMBOL\t\n");
	if (!row->is_not_loaded)
		tempdir_write(t, "sys/module/ib_core/srcversion", "L\n");
	if (row->host)
		put_ib_core(t, ".", row->host, row->host_srcversion);
	if (row->ofed)
		put_ib_core(t, "run/mellanox/drivers", row->ofed, row->ofed_srcversion);
	if (row->table)
		tempdir_write(t, row->table_at, row->table);
}

static void parse(const struct forge_module *ko, struct module *ret)
{
	struct err err;
	size_t len;
	char *data = forge_ko(ko, &len);
	assert_int_equal(module_parse(data, len, ko->name, ret, &err), 0);
}

static void check_row(const struct row *row)
{
	static char release[] = RELEASE, arch[] = "x86_64";
	const struct facts facts = { .host = { .release = release, .arch = arch } };
	auto_folder struct folder t;
	auto_peermem_module struct peermem_module f = PEERMEM_MODULE_NONE;
	struct err err = { 0 };
	folder_make(&t);
	make_machine(row, &t);
	f.from = str_dup("oci:/packages");
	parse(&(struct forge_module){ .name = "nvidia", .vermagic = MAGIC }, &f.core);
	parse(&(struct forge_module){ .name = "nvidia_peermem", .vermagic = MAGIC, .imports = row->imports },
	      &f.module);
	const struct node node = { .host = &t.root, .kern = &t.root };
	int r = peermem_module_prove(&node, &facts, &f, &err);
	if (row->code) {
		expect(r < 0 && err.code == row->code, row->name);
		expect(!row->text || strstr(err.text, row->text), err.text);
	} else if (r < 0) {
		fail_msg("%s: %s", row->name, err.text);
	}
}

static void compares_with_the_loaded_ib_core(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check_row(&rows[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(compares_with_the_loaded_ib_core) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
