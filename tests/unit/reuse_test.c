// SPDX-License-Identifier: Apache-2.0
// Packages of other kernels: what the labels of one must be before its proof is asked for, what its modules may not say
// otherwise, and which of many is taken.
#include "node/obtain.h"

#include "kmod/compiler.h"
#include "precompiled/create.h"
#include "tests/unit/forge.h"
#include "tests/unit/tempdir.h"

#define GCC12 "gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0"
#define OURS "6.1.0-56-cloud-amd64"

static void compilers(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		unsigned major;
		bool is_clang;
	} rows[] = {
		{ GCC12, 12, false },
		{ "gcc (GCC) 11.4.1 20231218 (Red Hat 11.4.1-3)", 11, false },
		{ "GCC: (Debian 12.2.0-14+deb12u1) 12.2.0", 12, false },
		{ "gcc version 8.3.0 (Debian 8.3.0-6)", 8, false },
		{ "Debian clang version 16.0.6 (15~deb12u1)", 16, true },
		{ "gcc", 0, false },
		{ "gcc-12", 0, false },
		{ "(12.2.0", 0, false },
		{ "", 0, false },
		{ NULL, 0, false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct compiler c = compiler_parse(rows[i].text);
		expect(c.major == rows[i].major && c.is_clang == rows[i].is_clang, rows[i].text);
	}
	assert_true(compiler_is_same(GCC12, "gcc (Debian 12.3.0-1) 12.3.0"));
	assert_false(compiler_is_same(GCC12, "gcc-13 (Debian) 13.1.0"));
	assert_false(compiler_is_same(GCC12, "clang version 12.0.1"));
	assert_false(compiler_is_same("gcc", "gcc"));
	assert_false(compiler_is_same(NULL, NULL));
}

static void banners(void **state)
{
	(void)state;
	static const char *const rows[][2] = {
		{ "Linux version " OURS " (debian-kernel@lists.debian.org) (" GCC12
		  ", GNU ld (GNU Binutils for Debian) 2.40) #1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-11-16)",
		  GCC12 },
		{ "Linux version 5.14.0-427.el9.x86_64 (mockbuild@x) (gcc (GCC) 11.4.1 20231218 (Red Hat 11.4.1-3), "
		  "GNU "
		  "ld version 2.35.2-43.el9) #1 SMP",
		  "gcc (GCC) 11.4.1 20231218 (Red Hat 11.4.1-3)" },
		{ "Linux version 4.19.0-27-amd64 (debian-kernel@lists.debian.org) (gcc version 8.3.0 (Debian 8.3.0-6)) "
		  "#1",
		  "gcc version 8.3.0 (Debian 8.3.0-6)" },
		{ "Linux version 6.1 (a@b (c)) (clang version 16.0.6, LLD 16.0.6) #1", "clang version 16.0.6" },
		{ "Linux version 6.1 (a@b) #1 SMP", NULL },
		{ "Linux version 6.1 (a@b) () #1 SMP", NULL },
		{ "Linux version 6.1 (a@b) (gcc", NULL },
		{ "Linux version 6.1 (a@b", NULL },
		{ "", NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *got = compiler_of_banner(rows[i][0]);
		expect(rows[i][1] ? str_eq(got, rows[i][1]) : !got, rows[i][0]);
	}
}

static void policies(void **state)
{
	(void)state;
	enum reuse policy;
	for (int i = REUSE_OFF; i <= REUSE_ON; i++) {
		assert_true(reuse_parse(reuse_name((enum reuse)i), &policy));
		assert_int_equal(policy, i);
	}
	assert_false(reuse_parse("yes", &policy));
	assert_false(reuse_parse("", &policy));
}

static void labels(void **state)
{
	(void)state;
	const struct {
		const char *release, *distro, *compiler;
		enum reuse policy;
		const char *why; // part of it; NULL = the proof decides
	} rows[] = {
		{ "6.1.0-55-cloud-amd64", "debian", GCC12, REUSE_SERIES, NULL },
		{ "6.1.0-100-cloud-amd64", "debian", GCC12, REUSE_SERIES, NULL },
		{ "6.1.0-55-cloud-amd64", "debian", GCC12, REUSE_OFF, "--reuse is off" },
		{ "6.12.0-55-cloud-amd64", "debian", GCC12, REUSE_SERIES, "not of the series" },
		{ "6.12.0-55-cloud-amd64", "debian", GCC12, REUSE_ON, NULL },
		{ "16.1.0-55-cloud-amd64", "debian", GCC12, REUSE_SERIES, "not of the series" },
		{ "6.1.0-55-amd64", "debian", GCC12, REUSE_SERIES, "not of the series" },
		{ "6.1.0-55-rt-amd64", "debian", GCC12, REUSE_SERIES, "not of the series" },
		{ "6.1.0-55-cloud-amd64", "ubuntu", GCC12, REUSE_SERIES, "(ubuntu), not of the series" },
		{ "6.1.0-55-cloud-amd64", NULL, GCC12, REUSE_SERIES, "distribution unknown" },
		{ "6.1.0-55-cloud-amd64", NULL, GCC12, REUSE_ON, NULL },
		{ "6.1.0-55-cloud-amd64", "debian", "gcc-11 (x) 11.1.0", REUSE_ON, "with 'gcc-11 (x) 11.1.0', the" },
		{ "6.1.0-55-cloud-amd64", "debian", NULL, REUSE_ON, "an unknown compiler" },
		{ "cloud-amd64", "debian", GCC12, REUSE_SERIES, "not of the series" },
		{ "6-cloud-amd64", "debian", GCC12, REUSE_SERIES, "not of the series" },
	};
	const struct reuse_kernel kernel = { .release = OURS, .distro = "debian", .compiler = GCC12 };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_package_key struct package_key key = { .release = str_dup(rows[i].release),
							    .distro = str_dup(rows[i].distro),
							    .compiler = str_dup(rows[i].compiler) };
		auto_str char *why = reuse_why_not(rows[i].policy, &key, &kernel);
		auto_str char *row = str_fmt("row %zu: %s", i, why ? why : "the proof decides");
		expect(rows[i].why ? why && strstr(why, rows[i].why) : !why, row);
	}
	auto_package_key struct package_key key = { .release = str_dup(OURS), .compiler = str_dup(GCC12) };
	auto_str char *why = reuse_why_not(REUSE_ON, &key, &(struct reuse_kernel){ .release = OURS });
	assert_non_null(strstr(why, "the kernel with 'an unknown one'"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(compilers),
		cmocka_unit_test(banners),
		cmocka_unit_test(policies),
		cmocka_unit_test(labels),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
