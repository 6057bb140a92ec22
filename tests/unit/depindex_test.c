// SPDX-License-Identifier: Apache-2.0
#include "kmod/load/depindex.h"
#include "tests/unit/test.h"

static void test_names(void **state)
{
	(void)state;
	static const struct {
		const char *path, *name;
	} rows[] = {
		{ "kernel/net/ib-core.ko.xz", "ib_core" },
		{ "kmodsmith/nvidia-uvm.ko", "nvidia_uvm" },
		{ "nvidia.ko", "nvidia" },
		{ "kernel/a.b", "a.b" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *name = depindex_name(rows[i].path);
		expect(str_eq(name, rows[i].name), rows[i].path);
	}
}

static uint32_t number(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

// As libkmod's index_search() walks: prefix, then the child of the next character. NULL = not in it.
static const char *find(const char *data, const char *name)
{
	const unsigned char *d = (const unsigned char *)data;
	for (uint32_t node = number(d + 8); node;) {
		const unsigned char *p = d + (node & 0x0fffffff);
		if (node & 0x80000000) {
			size_t len = strlen((const char *)p);
			if (strncmp(name, (const char *)p, len) != 0)
				return NULL;
			name += len;
			p += len + 1;
		}
		const unsigned char *children = p;
		if (node & 0x20000000)
			p += 2 + 4 * (size_t)(p[1] - p[0] + 1);
		if (!*name)
			return node & 0x40000000 ? (const char *)p + 8 : NULL;
		if (!(node & 0x20000000) || (unsigned char)*name < children[0] || (unsigned char)*name > children[1])
			return NULL;
		node = number(children + 2 + 4 * (size_t)((unsigned char)*name - children[0]));
		name++;
	}
	return NULL;
}

static void test_what_modprobe_finds(void **state)
{
	(void)state;
	static const char *const lines[] = {
		"kernel/drm.ko.xz:",
		"kmodsmith/nvidia.ko:",
		"kmodsmith/nvidia-uvm.ko: kmodsmith/nvidia.ko",
		"kernel/n.ko:",
		"kernel/drm-kms-helper.ko: kernel/drm.ko.xz",
	};
	auto_strv struct strv all = { 0 };
	size_t len = 0;
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		strv_add(&all, str_dup(lines[i]));
	auto_str char *data = depindex_make(&all, &len);
	assert_int_equal(number((const unsigned char *)data), 0xB007F457);
	assert_int_equal(number((const unsigned char *)data + 4), 0x00020001);
	assert_string_equal(find(data, "nvidia"), lines[1]);
	assert_string_equal(find(data, "nvidia_uvm"), lines[2]);
	assert_string_equal(find(data, "drm"), lines[0]);
	assert_string_equal(find(data, "drm_kms_helper"), lines[4]);
	assert_string_equal(find(data, "n"), lines[3]);
	assert_null(find(data, "nv"));
	assert_null(find(data, "nvidia_drm"));
	assert_null(find(data, "zfs"));
}

// '-' is '_' outside of a set; what two modules are for leads to the first, with the other behind it.
static void test_devices(void **state)
{
	(void)state;
	static const char *const lines[] = {
		"# Aliases extracted from modules themselves.",
		"alias pci:v000010DEd*sv*sd*bc03sc00i00* nvidia",
		"alias char-major-195-* nvidia",
		"alias usb:v[0-9-a]p* other-module",
		"alias char-major-195-* nvidia_too",
		"alias broken",
		"",
	};
	auto_strv struct strv all = { 0 };
	size_t len = 0;
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		strv_add(&all, str_dup(lines[i]));
	auto_str char *data = depindex_aliases(&all, &len);
	const char *first = find(data, "char_major_195_*");
	assert_string_equal(first, "nvidia");
	assert_string_equal(first + strlen(first) + 1 + 4, "nvidia_too"); // behind its priority
	assert_string_equal(find(data, "pci:v000010DEd*sv*sd*bc03sc00i00*"), "nvidia");
	assert_string_equal(find(data, "usb:v[0-9-a]p*"), "other-module");
	assert_null(find(data, "broken"));
}

static void test_nothing(void **state)
{
	(void)state;
	struct strv none = { 0 };
	size_t len = 0;
	auto_str char *data = depindex_make(&none, &len);
	assert_int_equal(len, 12);
	assert_null(find(data, "nvidia"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_what_modprobe_finds),
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
