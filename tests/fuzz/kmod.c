// SPDX-License-Identifier: Apache-2.0
// Modules, kernel images, header trees, driver sources, and what a kernel and its tools print.
#include "kmod/build/buildlog.h"
#include "kmod/kernel_tree/distro.h"
#include "kmod/kernel_tree/headers.h"
#include "kmod/kernel_tree/tree.h"
#include "kmod/load/depindex.h"
#include "kmod/load/efi_certs.h"
#include "kmod/load/load.h"
#include "kmod/load/provider.h"
#include "kmod/module/proof.h"
#include "kmod/source/patch.h"
#include "kmod/source/source.h"
#include "tests/fuzz/fuzz.h"

// Read every string that came out of a parse.
static void touch(const struct symvers *sv)
{
	size_t sum = 0;
	for (size_t i = 0; sv && i < sv->count; i++) {
		const struct symver *s = &sv->items[i];
		sum += strlen(s->name) + strlen(s->owner) + strlen(s->namespace);
		if (symvers_find(sv, s->name) != s)
			abort();
	}
	if (sum > 1 << 30)
		abort();
}

FUZZ_TARGET(module)
{
	static const char symvers[] =
		"0x1\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n0x2\tkfree\tvmlinux\tEXPORT_SYMBOL\t\n";
	static const char config[] = "CONFIG_MODULES=y\nCONFIG_X86_64=y\nCONFIG_MODVERSIONS=y\nCONFIG_MODULE_SIG=y\n";
	struct err err = { 0 };
	auto_module struct module m = MODULE_NONE;
	auto_kernel_abi struct kernel_abi abi = { 0 };
	auto_proof struct proof proof = { 0 };
	const struct module *set[] = { &m };
	char *copy = mem_grow(NULL, len ? len : 1, 1);
	memcpy(copy, data, len);
	if (module_parse(copy, len, "fuzz.ko", &m, &err) < 0) {
		if (err.code != E_ELF && err.code != E_ARCH)
			abort();
		return fuzz_refused(&err);
	}
	touch(m.exports);
	if (kernel_abi_add_tree(&abi, "6.1", symvers, sizeof(symvers) - 1, config, sizeof(config) - 1, &err) < 0)
		abort();
	abi.trusted = modsig_certs_new();
	abi.is_sig_enforced = len % 2;
	proof_make(set, 1, &abi, NULL, &proof);
	if (!proof.text)
		abort();
	return 1;
}

FUZZ_TARGET(vmlinuz)
{
	struct err err = { 0 };
	auto_vmlinuz struct vmlinuz v = { 0 };
	if (vmlinuz_parse(data, len, "fuzz", &v, &err) < 0) {
		if (err.code != E_ELF && err.code != E_ARCH)
			abort();
		return fuzz_refused(&err);
	}
	touch(v.symvers);
	return 1;
}

FUZZ_TARGET(symvers)
{
	struct err err;
	auto_symvers struct symvers *sv = symvers_new();
	int taken = FUZZ(symvers_add_text(sv, data, len, "Module.symvers", &err));
	touch(sv);
	if (!taken && sv->count)
		abort();
	return taken;
}

FUZZ_TARGET(kernel_config) // parts: config, banner
{
	struct err err;
	size_t config_len, banner_len;
	auto_str char *config = fuzz_part(data, len, "config", true, &config_len),
		      *banner = fuzz_part(data, len, "banner", false, &banner_len);
	auto_kernel_abi struct kernel_abi abi = { 0 };
	free(distro_of("6.1.0", banner));
	kernel_abi_add_banner(&abi, banner);
	return FUZZ(kernel_abi_add_tree(&abi, "6.1", NULL, 0, config, config_len, &err)) && abi.machine;
}

FUZZ_TARGET(certificates)
{
	struct err err;
	auto_certs struct certs *certs = modsig_certs_new();
	return FUZZ(modsig_certs_add(certs, data, len, "fuzz", &err));
}

FUZZ_TARGET(efi_list)
{
	auto_efi_certs struct efi_certs found = { 0 };
	int is_whole = efi_certs_parse(data, len, &found);
	for (size_t i = 0; i < found.count; i++)
		if (!efi_certs_has(&found, found.items[i].der, found.items[i].len))
			abort();
	return is_whole && found.count;
}

FUZZ_TARGET(patches) // of a user's directory, and of a Debian source
{
	static const char *const paths[] = { "a.patch", "b.patch", "debian/patches/series", "debian/patches/", NULL };
	struct err err;
	const struct root *root = fuzz_tree(data, len, paths);
	auto_patches struct patches own = { 0 }, series = { 0 };
	int taken = FUZZ(patches_choose(root, NULL, MODULE_TYPE_AUTO, NULL, &own, &err));
	FUZZ(patches_series(root, &series, &err));
	return taken;
}

FUZZ_TARGET(build_output)
{
	struct buildlog log = { .fd = -1 };
	auto_str char *text = str_ndup(data, len);
	for (char *save, *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		buildlog_line(&log, line);
	bool is_error = log.error != NULL;
	buildlog_done(&log);
	return is_error;
}

FUZZ_TARGET(modules_dep)
{
	static const char *const paths[] = { "lib/modules/6.1/modules.dep",
					     "lib/modules/6.1/kernel/drivers/gpu/drm/drm.ko.xz",
					     "lib/modules/6.1/kernel/drivers/i2c/i2c-core.ko", NULL };
	struct err err;
	size_t index_len = 0;
	auto_strv struct strv lines = { 0 };
	auto_str char *text = str_ndup(data, len);
	for (char *save, *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		strv_add(&lines, str_dup(line));
	free(depindex_make(&lines, &index_len));
	free(depindex_aliases(&lines, &index_len));
	const struct root *root = fuzz_tree(data, len, paths);
	err = (struct err){ 0 };
	int r = provider_check(root, root, "6.1", "drivers/gpu/drm/drm", &err);
	return r < 0 ? fuzz_refused(&err) : 1;
}

FUZZ_TARGET(kernel_log) // what the kernel says of a load: the first byte is the errno
{
	struct err err = { 0 };
	auto_strv struct strv lines = { 0 };
	auto_str char *text = str_ndup(data + (len > 0), len - (len > 0));
	for (char *save, *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		strv_add(&lines, str_dup(line));
	load_explain("nvidia", len && *data ? (unsigned char)*data : 1, &lines, &err);
	fuzz_refused(&err);
	int code = err.code;
	auto_strv struct strv told = { 0 };
	load_find_oops(&lines, &told);
	load_explain_wedge("unload 'nvidia'", "did not come back", text, &lines, &err);
	fuzz_refused(&err);
	return code != E_LOAD; // a reason that is known
}

static int source(const char *name, const char *data, size_t len)
{
	struct err err;
	const struct root *root = fuzz_file(name, data, len);
	auto_root struct root work = ROOT_NONE;
	auto_str char *path = root_path(root, name);
	auto_source struct source s = { .root = ROOT_NONE };
	if (root_mkdirs(root, "work", 0755, &err) < 0 || root_sub(root, "work", &work, &err) < 0)
		abort();
	return FUZZ(source_open(path, NULL, &work, &s, &err));
}

FUZZ_TARGET(run_file)
{
	return source("NVIDIA-Linux-x86_64-535.261.03.run", data, len);
}

FUZZ_TARGET(source_package)
{
	return source("source.deb", data, len);
}

FUZZ_TARGET(header_tree)
{
#define BUILD "usr/src/linux-headers-6.1/"
	static const char *const paths[] = { BUILD ".config",
					     BUILD "Makefile",
					     BUILD "include/config/kernel.release",
					     BUILD "include/config/auto.conf",
					     BUILD "include/generated/autoconf.h",
					     BUILD "include/generated/utsrelease.h",
					     BUILD "include/generated/compile.h",
					     BUILD "include/linux/pci.h",
					     BUILD "Module.symvers",
					     BUILD "scripts/Makefile",
					     NULL };
	struct err err;
	auto_tree struct tree tree = { .root = ROOT_NONE };
	auto_strv struct strv releases = { 0 };
	const struct root *root = fuzz_tree(data, len, paths);
	FUZZ(tree_releases(root, &releases, &err));
	return FUZZ(tree_open(root, "6.1", NULL, &tree, &err));
}
