// SPDX-License-Identifier: Apache-2.0
#include "driver_root/modules_dir.h"
#include "tests/unit/forge.h"
#include "tests/unit/tempdir.h"

#define RELEASE "6.1.0-9-amd64"
#define HOST "host/lib/modules/" RELEASE

// Of .modinfo, as the real module has it.
static const char ALIASES[] = "alias=pci:v000010DEd*sv*sd*bc03sc00i00*\0alias=char-major-195-*\0";
static const struct {
	const char *name, *depends;
} modules[] = { { "nvidia-uvm", "nvidia" },
		{ "nvidia", "" },
		{ "nvidia-drm", "nvidia,drm,nvidia-modeset" },
		{ "nvidia-modeset", "nvidia" } };
enum { MODULES = 4 };

struct site {
	struct folder folder;
	struct root host, store;
	struct package package;
	struct package_file files[MODULES];
};

static struct root below(const struct folder *f, const char *dir)
{
	struct err err;
	struct root root = ROOT_NONE;
	folder_dir(f, dir);
	assert_int_equal(root_sub(&f->root, dir, &root, &err), 0);
	return root;
}

static void site_make(struct site *s)
{
	*s = (struct site){ .package = PACKAGE_NONE };
	folder_make(&s->folder);
	for (size_t i = 0; i < MODULES; i++) {
		struct forge_module m = { .name = modules[i].name, .depends = modules[i].depends };
		if (str_eq(m.name, "nvidia"))
			m.extra = ALIASES;
		auto_str char *path = str_fmt("package/%s.ko", modules[i].name);
		size_t len = 0;
		auto_str char *data = forge_ko(&m, &len);
		tempdir_data(&s->folder, path, data, len);
		s->files[i].name = str_fmt("%s.ko", modules[i].name);
	}
	tempdir_write(&s->folder, HOST "/modules.dep",
		      "kernel/drm_kms_helper.ko: kernel/drm.ko\nkernel/drm.ko: kernel/i2c-core.ko\n"
		      "kernel/i2c-core.ko:\nupdates/dkms/nvidia.ko: kernel/i2c-core.ko\nkernel/nvidiafb.ko:\n");
	tempdir_write(&s->folder, HOST "/modules.alias.bin", "aliases");
	tempdir_write(&s->folder, HOST "/kernel/drm.ko", "");
	tempdir_link(&s->folder, HOST "/build", "/usr/src/linux");
	s->host = below(&s->folder, "host");
	s->store = below(&s->folder, "store");
	s->package.key.release = str_dup(RELEASE);
	s->package.files = s->files;
	s->package.count = MODULES;
	s->package.dir = below(&s->folder, "package");
	memset(s->package.manifest.digest, 'a', DIGEST_HEX);
}

static void site_done(struct site *s)
{
	for (size_t i = 0; i < MODULES; i++)
		free(s->files[i].name);
	s->package.files = NULL;
	s->package.count = 0;
	package_done(&s->package);
	root_done(&s->host);
	root_done(&s->store);
	folder_done(&s->folder);
}
#define auto_site __attribute__((cleanup(site_done)))

static void test_the_tree_knows_both(void **state)
{
	(void)state;
	auto_site struct site s;
	struct err err = { 0 };
	site_make(&s);
	expect(modules_dir_make(&s.package, s.package.key.release, &s.host, &s.store, "key", &err) == 1, err.text);
	assert_int_equal(modules_dir_make(&s.package, s.package.key.release, &s.host, &s.store, "key", &err), 0);
	// Our own first, each after what it needs; the host's nvidia is another one.
	folder_expect(&s.folder, "store/key/modules.dep",
		      "kmodsmith/nvidia.ko:\n"
		      "kmodsmith/nvidia-uvm.ko: kmodsmith/nvidia.ko\n"
		      "kmodsmith/nvidia-modeset.ko: kmodsmith/nvidia.ko\n"
		      "kmodsmith/nvidia-drm.ko: kernel/drm.ko kernel/i2c-core.ko kmodsmith/nvidia-modeset.ko "
		      "kmodsmith/nvidia.ko\n"
		      "kernel/drm_kms_helper.ko: kernel/drm.ko\n"
		      "kernel/drm.ko: kernel/i2c-core.ko\n"
		      "kernel/i2c-core.ko:\n"
		      "kernel/nvidiafb.ko:\n");
	folder_expect(&s.folder, "store/key/modules.alias.bin", "aliases");
	assert_true(root_exists(&s.store, "key/modules.dep.bin"));
	assert_true(root_exists(&s.store, "key/kmodsmith/nvidia-drm.ko"));
	assert_true(root_exists(&s.store, "key/kernel"));
	assert_false(root_exists(&s.store, "key/kernel/drm.ko")); // mounted there, not copied
	auto_str char *build = NULL;
	assert_int_equal(root_readlink(&s.store, "key/build", &build, &err), 1);
	assert_string_equal(build, "/usr/src/linux");
}

// Where the machine has modules.alias, our modules are added, and replace the machine's of the same name.
static void test_devices(void **state)
{
	(void)state;
	auto_site struct site s;
	struct err err = { 0 };
	site_make(&s);
	tempdir_write(&s.folder, HOST "/modules.alias",
		      "# made by depmod\nalias fs-ext4 ext4\nalias pci:v000010DEd*sv*sd*bc03sc* nvidia\n"
		      "alias pci:v000010DEd* nvidiafb\n");
	expect(modules_dir_make(&s.package, s.package.key.release, &s.host, &s.store, "key", &err) == 1, err.text);
	folder_expect(&s.folder, "store/key/modules.alias",
		      "# made by depmod\nalias fs-ext4 ext4\nalias pci:v000010DEd* nvidiafb\n"
		      "alias pci:v000010DEd*sv*sd*bc03sc00i00* nvidia\nalias char-major-195-* nvidia\n");
	auto_str char *bin = NULL;
	size_t len = 0;
	assert_int_equal(root_read(&s.store, "key/modules.alias.bin", &bin, &len, &err), 1);
	assert_non_null(memmem(bin, len, "char_major_195_*", 16) ? bin : memmem(bin, len, "har_major_195_*", 15));
	assert_null(memmem(bin, len, "aliases", 7)); // the machine's index was of its own
}

// A package made for another kernel: the tree is for the running one.
static void test_of_another_kernel(void **state)
{
	(void)state;
	auto_site struct site s;
	struct err err = { 0 };
	char own[DIGEST_HEX + 1], other[DIGEST_HEX + 1];
	site_make(&s);
	tempdir_write(&s.folder, "host/lib/modules/6.2/modules.dep", "kernel/new.ko:\n");
	expect(modules_dir_make(&s.package, "6.2", &s.host, &s.store, "key", &err) == 1, err.text);
	auto_str char *dep = NULL;
	assert_int_equal(root_read(&s.store, "key/modules.dep", &dep, NULL, &err), 1);
	assert_non_null(strstr(dep, "kernel/new.ko:"));
	assert_null(strstr(dep, "kernel/drm.ko"));
	assert_non_null(strstr(dep, "kmodsmith/nvidia.ko:"));
	// Also where both kernels have the same modules.
	tempdir_write(&s.folder, "host/lib/modules/6.3/modules.dep", "kernel/new.ko:\n");
	assert_int_equal(modules_dir_key(&s.package, "6.2", &s.host, own, &err), 0);
	assert_int_equal(modules_dir_key(&s.package, "6.3", &s.host, other, &err), 0);
	assert_string_not_equal(own, other);
}

// The key changes with the package and with the machine's modules.
static void test_what_names_it(void **state)
{
	(void)state;
	auto_site struct site s;
	struct err err;
	char one[DIGEST_HEX + 1], two[DIGEST_HEX + 1];
	site_make(&s);
	assert_int_equal(modules_dir_key(&s.package, s.package.key.release, &s.host, one, &err), 0);
	assert_int_equal(modules_dir_key(&s.package, s.package.key.release, &s.host, two, &err), 0);
	assert_string_equal(one, two);
	s.package.manifest.digest[0] = 'b';
	assert_int_equal(modules_dir_key(&s.package, s.package.key.release, &s.host, two, &err), 0);
	assert_string_not_equal(one, two);
	s.package.manifest.digest[0] = 'a';
	folder_file(&s.folder, HOST "/modules.dep", "kernel/other.ko:\n");
	assert_int_equal(modules_dir_key(&s.package, s.package.key.release, &s.host, two, &err), 0);
	assert_string_not_equal(one, two);
	assert_int_equal(unlinkat(s.folder.root.fd, HOST "/modules.dep", 0), 0);
	assert_int_equal(modules_dir_key(&s.package, s.package.key.release, &s.host, two, &err),
			 0); // a machine without any module file
	expect(modules_dir_make(&s.package, s.package.key.release, &s.host, &s.store, two, &err) == 1, err.text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_tree_knows_both),
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_of_another_kernel),
		cmocka_unit_test(test_what_names_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
