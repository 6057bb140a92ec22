// SPDX-License-Identifier: Apache-2.0
#include "next_kernel/kernel_report.h"

#include "tests/unit/tempdir.h"

#include <signal.h>
#include <sys/resource.h>

#define BOOT "11111111-1111-1111-1111-111111111111"
#define STAMP "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
static const char BLOCKED[] = "run/kmodsmith/reboot-blocked", METRICS[] = "run/kmodsmith/metrics/kernels.prom";

// next: releases that may start next.
static struct kernel_report two_kernels(const char *next)
{
	struct kernel_report f = { .running = str_dup("6.1"), .driver = str_dup("535.261.03"), .count = 2 };
	f.items = mem_alloc(2 * sizeof(*f.items));
	f.items[0] = (struct kernel_report_entry){ .release = str_dup("6.3"), .where = str_dup(""), .stamp = STAMP };
	f.items[1] = (struct kernel_report_entry){
		.release = str_dup("6.2"), .where = str_dup("mnt/b"), .stamp = STAMP, .tries = 3, .not_before_s = 77
	};
	kernel_report_set(&f.items[0], KERNEL_READY, 0, "fits");
	f.items[0].package = str_dup("sha256:" STAMP);
	kernel_report_set(&f.items[1], KERNEL_IMPOSSIBLE, E_SOURCE_KERNEL, "it says \"no\"");
	for (size_t i = 0; i < f.count; i++)
		f.items[i].is_next = strstr(next, f.items[i].release) != NULL;
	return f;
}

static void written_and_read(void **state)
{
	(void)state;
	struct err err;
	auto_folder struct folder f;
	auto_kernel_report struct kernel_report a = two_kernels("6.2"), b = { 0 }, none = { 0 };
	folder_make(&f);
	a.is_gated = true;
	assert_int_equal(kernel_report_read(&f.root, BOOT, &none, &err), 0);
	assert_int_equal(kernel_report_write(&f.root, BOOT, &a, &err), 1);
	assert_int_equal(kernel_report_write(&f.root, BOOT, &a, &err), 0); // it says all of it already
	assert_int_equal(kernel_report_read(&f.root, "another boot", &none, &err), 0);
	assert_int_equal(kernel_report_read(&f.root, BOOT, &b, &err), 1);
	auto_json json_t *x = kernel_report_json(&a), *y = kernel_report_json(&b);
	assert_true(json_equal(x, y));
	assert_int_equal(b.items[1].not_before_s, 77);
	folder_expect(&f, BLOCKED, "6.2 may start next: impossible: E_SOURCE_KERNEL: it says \"no\"\n");
	auto_str char *metrics = NULL;
	assert_int_equal(root_read(&f.root, METRICS, &metrics, NULL, &err), 1);
	assert_non_null(
		strstr(metrics, "{kernel=\"6.2\",next=\"true\",verdict=\"impossible\",code=\"E_SOURCE_KERNEL\"} 0\n"));
	assert_non_null(strstr(metrics, "\nkmodsmith_next_kernel_ready 0\n"));
}

// Without room for the metrics there are none: the old ones would say that the next kernel is served. The gate stays.
static void no_room_for_metrics(void **state)
{
	(void)state;
	struct err err;
	struct rlimit old, small;
	auto_folder struct folder f;
	auto_kernel_report struct kernel_report bad = two_kernels("6.2");
	folder_make(&f);
	bad.is_gated = true;
	assert_int_equal(kernel_report_write(&f.root, BOOT, &bad, &err), 1);
	assert_int_equal(root_unlink(&f.root, METRICS, &err), 1);
	assert_int_equal(root_put(&f.root, METRICS, "kmodsmith_next_kernel_ready 1\n", 30, 0644, &err), 0);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	small = (struct rlimit){ 100, old.rlim_max }; // less than the metrics have
	setrlimit(RLIMIT_FSIZE, &small);
	int r = kernel_report_write(&f.root, BOOT, &bad, &err);
	setrlimit(RLIMIT_FSIZE, &old);
	assert_int_equal(r, -1);
	assert_false(root_exists(&f.root, METRICS));
	folder_expect(&f, BLOCKED, "6.2 may start next: impossible: E_SOURCE_KERNEL: it says \"no\"\n");
}

// 6.3 has its package, and 6.2 none.
static const struct row {
	const char *next;
	bool is_gated, is_blocked;
} rows[] = {
	{ "6.2", true, true },  { "6.3 6.2", true, true }, { "6.2", false, false },
	{ "6.3", true, false }, { "", true, false },
};

static void the_gate(void **state)
{
	(void)state;
	struct err err;
	auto_folder struct folder f;
	folder_make(&f);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct row *row = &rows[i];
		auto_kernel_report struct kernel_report kernel_report = two_kernels(row->next);
		kernel_report.is_gated = row->is_gated;
		expect(kernel_report_write(&f.root, BOOT, &kernel_report, &err) >= 0, row->next);
		expect(root_exists(&f.root, BLOCKED) == row->is_blocked, row->next);
	}
}

static void damaged_records(void **state)
{
	(void)state;
	static const char *const texts[] = {
		"",
		"{",
		"[]",
		"{\"boot_id\": \"" BOOT "\"}",
		"{\"boot_id\": 7, \"running\": \"6.1\"}",
		"{\"boot_id\": \"" BOOT "\", \"running\": \"6.1\", \"kernels\": 7}",
		"{\"boot_id\": \"" BOOT
		"\", \"running\": \"6.1\", \"kernels\": [7, {}, {\"release\": \"6.2\", \"verdict\": \"x\"}]}",
		"{\"boot_id\": \"" BOOT
		"\", \"running\": \"6.1\", \"kernels\": [{\"release\": 7, \"verdict\": \"ready\", "
		"\"stamp\": \"" STAMP "\"}]}",
	};
	struct err err;
	auto_folder struct folder f;
	folder_make(&f);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		auto_kernel_report struct kernel_report kernel_report = { 0 };
		tempdir_write(&f, "run/kmodsmith/kernels.json", texts[i]);
		expect(kernel_report_read(&f.root, BOOT, &kernel_report, &err) >= 0 && kernel_report.count == 0,
		       texts[i]);
		expect(!kernel_report_next(&kernel_report), texts[i]);
	}
	auto_kernel_report struct kernel_report kernel_report = two_kernels("6.2");
	assert_int_equal(kernel_report_write(&f.root, BOOT, &kernel_report, &err), 1); // and replaced
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(written_and_read),
		cmocka_unit_test(no_room_for_metrics),
		cmocka_unit_test(the_gate),
		cmocka_unit_test(damaged_records),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
