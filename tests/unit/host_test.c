// SPDX-License-Identifier: Apache-2.0
#include "host/kernel.h"

#include "tests/unit/tempdir.h"

#define RELEASE "6.1.0-50-cloud-amd64"
#define BANNER \
	"Linux version " RELEASE " (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14) 12.2.0) #1 SMP Debian"
#define SECURE_BOOT "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"

static void machine(struct folder *t)
{
	folder_make(t);
	tempdir_write(t, "proc/sys/kernel/osrelease", RELEASE "\n");
	tempdir_write(t, "proc/version", BANNER "\n");
}

static void reads_a_machine(void **state)
{
	(void)state;
	auto_folder struct folder t;
	struct err err;
	char digest[DIGEST_HEX + 1];
	auto_host struct host h = { 0 };
	machine(&t);
	tempdir_write(&t, "proc/sys/kernel/arch", "aarch64\n");
	tempdir_write(&t, "proc/sys/kernel/random/boot_id", "0b5a1d9e-1111-4222-8333-444455556666\n");
	tempdir_write(&t, "proc/sys/kernel/tainted", "12289\n");
	tempdir_write(&t, "usr/lib/os-release", "NAME=\"Debian GNU/Linux\"\nVERSION_ID=\"12\"\nID=debian\nID_LIKE=x\n");
	tempdir_link(&t, "etc/os-release", "../usr/lib/os-release");
	tempdir_write(&t, "proc/meminfo", "MemTotal:        1024 kB\nMemFree: 1 kB\n");
	tempdir_write(&t, "proc/self/status", "Name:\tx\nCpus_allowed:\tf0f\nCpus_allowed_list:\t0-3,8-10,12\n");
	tempdir_write(&t, "proc/self/cgroup", "0::/x\n");
	tempdir_write(&t, "sys/fs/cgroup/x/memory.max", "1048576\n");
	const char *const programs[] = { "gcc",      "gcc-12",     "gcc-ar-12", "x86_64-linux-gnu-gcc-12",
					 "clang-14", "clang++-14", "gcc-12.2",  "c99-gcc" };
	for (size_t i = 0; i < ARRAY_SIZE(programs); i++) {
		auto_str char *path = str_fmt("usr/bin/%s", programs[i]);
		tempdir_write(&t, path, "");
	}
	assert_int_equal(host_read(&t.root, &t.root, &h, &err), 0);
	assert_string_equal(h.release, RELEASE);
	assert_string_equal(h.banner, BANNER);
	digest_data(BANNER, strlen(BANNER), digest);
	assert_string_equal(h.build_id, digest);
	assert_string_equal(h.arch, "aarch64");
	assert_string_equal(h.boot_id, "0b5a1d9e-1111-4222-8333-444455556666");
	assert_int_equal(h.taint, 12289);
	assert_string_equal(h.distro_id, "debian");
	assert_string_equal(h.distro_version, "12");
	assert_int_equal(h.nproc, 8);
	assert_int_equal(h.memory_total_bytes, 1024 * 1024);
	assert_int_equal(h.memory_max_bytes, 1048576);
	auto_str char *compilers = strv_join(&h.compilers, " ");
	assert_string_equal(compilers, "clang-14 gcc gcc-12 gcc-12.2 x86_64-linux-gnu-gcc-12");
}

static void values_of_os_release(void **state) // R-R2
{
	(void)state;
	static const struct {
		const char *text, *id, *version;
	} rows[] = {
		{ "ID=debian\nVERSION_ID=12\n", "debian", "12" },
		{ "ID=\"rhel\"\nVERSION_ID=\"9.4\"\n", "rhel", "9.4" },
		{ "ID='rhel'\nVERSION_ID='9.4'\n", "rhel", "9.4" },
		{ "ID=''\nVERSION_ID=\"\"\n", "", "" },
		{ "ID='\nVERSION_ID='9.4\"\n", "'", "'9.4\"" },
		{ "ID_LIKE='rhel'\n", NULL, NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder t;
		auto_host struct host h = { 0 };
		struct err err;
		machine(&t);
		tempdir_write(&t, "etc/os-release", rows[i].text);
		assert_int_equal(host_read(&t.root, &t.root, &h, &err), 0);
		expect(rows[i].id ? str_eq(h.distro_id, rows[i].id) : !h.distro_id, rows[i].text);
		expect(rows[i].version ? str_eq(h.distro_version, rows[i].version) : !h.distro_version, rows[i].text);
	}
}

static void a_bare_machine_is_enough(void **state) // R-A8
{
	(void)state;
	auto_folder struct folder t;
	struct err err;
	auto_host struct host h = { 0 };
	const unsigned char elf[64] = { 0x7f, 'E', 'L', 'F', 2, 1, 1, [18] = 183 }; // EM_AARCH64
	machine(&t);
	tempdir_data(&t, "bin/sh", elf, sizeof(elf));
	tempdir_write(&t, "sys/devices/system/cpu/online", "0-1\n");
	assert_int_equal(host_read(&t.root, &t.root, &h, &err), 0);
	assert_string_equal(h.arch, "aarch64");
	assert_int_equal(h.nproc, 2);
	assert_null(h.distro_id);
	assert_null(h.headers);
	assert_int_equal(h.compilers.count, 0);
	assert_int_equal(h.memory_max_bytes, 0);
	assert_int_equal(h.secure_boot, SECURE_BOOT_OFF);
	assert_int_equal(h.lockdown, LOCKDOWN_UNKNOWN);
	assert_null(host_signing_reason(&h));
}

static void no_kernel_is_an_error(void **state)
{
	(void)state;
	auto_folder struct folder t;
	struct err err = { 0 };
	auto_host struct host h = { 0 };
	folder_make(&t);
	assert_int_equal(host_read(&t.root, &t.root, &h, &err), -1);
	assert_non_null(strstr(err.text, "proc/sys/kernel/osrelease"));
}

static void equal_releases_have_their_own_build_id(void **state) // R-F4
{
	(void)state;
	auto_folder struct folder t;
	struct err err;
	auto_host struct host a = { 0 }, b = { 0 };
	machine(&t);
	assert_int_equal(host_read(&t.root, &t.root, &a, &err), 0);
	tempdir_write(&t, "proc/version", BANNER " 6.1.176-2 (2025-12-01)\n");
	assert_int_equal(host_read(&t.root, &t.root, &b, &err), 0);
	assert_string_equal(a.release, b.release);
	assert_string_not_equal(a.build_id, b.build_id);
}

static void signing_state_is_known(void **state) // R-C1
{
	(void)state;
	static const struct {
		const char *enforce, *lockdown;
		int efi; // -1 = no EFI, 0 = efivarfs empty, 1 = other variables, 2 = off, 3 = on
		enum host_secure_boot secure_boot;
		const char *reason;
	} cases[] = {
		{ NULL, NULL, -1, SECURE_BOOT_OFF, NULL },
		{ "N\n", "[none] integrity confidentiality\n", 0, SECURE_BOOT_UNKNOWN, NULL },
		{ "N\n", "none [integrity] confidentiality\n", 3, SECURE_BOOT_ON, "lockdown is integrity" },
		{ "N\n", "none integrity [confidentiality]\n", 1, SECURE_BOOT_OFF, "lockdown is confidentiality" },
		{ "Y\n", "[none] integrity confidentiality\n", 2, SECURE_BOOT_OFF, "module.sig_enforce is on" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_folder struct folder t;
		struct err err;
		auto_host struct host h = { 0 };
		const char on[] = { 6, 0, 0, 0, 1 }, off[] = { 6, 0, 0, 0, 0 };
		machine(&t);
		if (cases[i].enforce)
			tempdir_write(&t, "sys/module/module/parameters/sig_enforce", cases[i].enforce);
		if (cases[i].lockdown)
			tempdir_write(&t, "sys/kernel/security/lockdown", cases[i].lockdown);
		if (cases[i].efi >= 0)
			folder_dir(&t, "sys/firmware/efi/efivars");
		if (cases[i].efi == 1)
			tempdir_write(&t, "sys/firmware/efi/efivars/BootOrder-x", "");
		if (cases[i].efi >= 2)
			tempdir_data(&t, SECURE_BOOT, cases[i].efi == 3 ? on : off, sizeof(on));
		assert_int_equal(host_read(&t.root, &t.root, &h, &err), 0);
		assert_int_equal(h.secure_boot, cases[i].secure_boot);
		const char *reason = host_signing_reason(&h);
		expect(reason == cases[i].reason || str_eq(reason, cases[i].reason), cases[i].reason);
	}
}

static void finds_headers_in_every_layout(void **state) // R-A7
{
	(void)state;
	static const struct {
		const char *tree, *link, *target, *found;
	} cases[] = {
		{ "usr/src/linux-headers-" RELEASE, "lib/modules/" RELEASE "/build", "/usr/src/linux-headers-" RELEASE,
		  "lib/modules/" RELEASE "/build" },
		{ "usr/src/kernels/" RELEASE, "lib/modules/" RELEASE "/build", "../../../usr/src/kernels/" RELEASE,
		  "lib/modules/" RELEASE "/build" },
		{ "usr/src/linux-headers-" RELEASE, "lib/modules/" RELEASE "/build", "/nowhere",
		  "usr/src/linux-headers-" RELEASE },
		{ "usr/src/kernels/" RELEASE, NULL, NULL, "usr/src/kernels/" RELEASE },
		{ "usr/src/linux-headers-6.1.0-49-cloud-amd64", NULL, NULL, NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_folder struct folder t;
		machine(&t);
		auto_str char *makefile = str_fmt("%s/Makefile", cases[i].tree);
		auto_str char *autoconf = str_fmt("%s/include/generated/autoconf.h", cases[i].tree);
		tempdir_write(&t, makefile, "");
		if (cases[i].link)
			tempdir_link(&t, cases[i].link, cases[i].target);
		struct err err;
		auto_host struct host early = { 0 }, later = { 0 };
		assert_int_equal(host_read(&t.root, &t.root, &early, &err), 0);
		assert_null(early.headers); // a tree that was never configured is of no use
		tempdir_write(&t, autoconf, "");
		assert_int_equal(host_read(&t.root, &t.root, &later, &err), 0);
		expect(later.headers == cases[i].found || str_eq(later.headers, cases[i].found), cases[i].tree);
	}
}

static void finds_the_configuration(void **state)
{
	(void)state;
	auto_folder struct folder t;
	struct err err;
	auto_host struct host h = { 0 };
	machine(&t);
	assert_int_equal(host_read(&t.root, &t.root, &h, &err), 0);
	assert_int_equal(host_read_config(&t.root, &t.root, RELEASE, &h.config, &h.config_source, &err), 0);
	assert_null(host_config(h.config, "CONFIG_MODULES"));
	tempdir_write(&t, "boot/config-" RELEASE,
		      "# CONFIG_MODULE_SIG_FORCE is not set\nCONFIG_MODULES=y\nCONFIG_CC_VERSION_TEXT=\"gcc-12 "
		      "(Debian) 12.2.0\"\n"
		      "CONFIG_NR_CPUS=512\nCONFIG_MODULES_X=m\n");
	assert_int_equal(host_read_config(&t.root, &t.root, RELEASE, &h.config, &h.config_source, &err), 1);
	assert_string_equal(h.config_source, "boot/config-" RELEASE);
	auto_str char *modules = host_config(h.config, "CONFIG_MODULES"),
		      *cc = host_config(h.config, "CONFIG_CC_VERSION_TEXT");
	auto_str char *cpus = host_config(h.config, "CONFIG_NR_CPUS"),
		      *force = host_config(h.config, "CONFIG_MODULE_SIG_FORCE");
	assert_string_equal(modules, "y");
	assert_string_equal(cc, "gcc-12 (Debian) 12.2.0");
	assert_string_equal(cpus, "512");
	assert_null(force);
}

static void running_configuration_comes_first(void **state)
{
	(void)state;
	// printf 'CONFIG_A=m\n' | gzip -n
	static const unsigned char packed[] = {
		0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x73, 0xf6, 0xf7, 0x73, 0xf3, 0x74,
		0x8f, 0x77, 0xb4, 0xcd, 0xe5, 0x02, 0x00, 0xdb, 0x66, 0x2e, 0xf4, 0x0b, 0x00, 0x00, 0x00,
	};
	auto_folder struct folder t;
	struct err err;
	auto_str char *text = NULL, *source = NULL, *other = NULL;
	machine(&t);
	tempdir_data(&t, "proc/config.gz", packed, sizeof(packed));
	tempdir_write(&t, "boot/config-" RELEASE, "CONFIG_A=y\n");
	tempdir_write(&t, "lib/modules/6.12.0/config", "CONFIG_A=n\n");
	assert_int_equal(host_read_config(&t.root, &t.root, RELEASE, &text, &source, &err), 1);
	assert_string_equal(text, "CONFIG_A=m\n");
	assert_string_equal(source, "proc/config.gz");
	assert_int_equal(host_read_config(&t.root, &t.root, "6.12.0", &other, NULL, &err), 1);
	assert_string_equal(other, "CONFIG_A=n\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_a_machine),
		cmocka_unit_test(values_of_os_release),
		cmocka_unit_test(a_bare_machine_is_enough),
		cmocka_unit_test(no_kernel_is_an_error),
		cmocka_unit_test(equal_releases_have_their_own_build_id),
		cmocka_unit_test(signing_state_is_known),
		cmocka_unit_test(finds_headers_in_every_layout),
		cmocka_unit_test(finds_the_configuration),
		cmocka_unit_test(running_configuration_comes_first),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
