// SPDX-License-Identifier: Apache-2.0
// NVIDIA's errors in records of the kernel log: which of them count, once each, and what is written.
#include "status/xid.h"
#include "tests/unit/tempdir.h"
#include "tests/unit/test.h"

#define BOOT "11111111-1111-1111-1111-111111111111"
static const char METRICS[] = "run/kmodsmith/metrics/xid.prom";

static const struct row {
	const char *record;
	const char *gpu; // NULL = it does not count
	unsigned xid;
} rows[] = {
	{ "4,100,5000,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=12, name=python3, GPU has fallen off the bus.\n",
	  "0000:3b:00.0", 79 },
	{ "4,101,5001,-;NVRM: Xid (PCI:0000:c1:00 GPU-I:05): 45, pid=12, name=a, Ch 00000008\n", "0000:c1:00.0", 45 },
	{ "4,102,5002,-;NVRM: Xid (PCI:0001:C1:00 GPU-I:05 GPU-CI:01): 31, pid=1, name=a, x\n SUBSYSTEM=pci\n",
	  "0001:c1:00.0", 31 },
	{ "4,103,5003,-;NVRM: Xid (PCI:0000:3b:00): 48, An uncorrectable double bit error\n", "0000:3b:00.0", 48 },
	{ "12,104,5004,-;NVRM: Xid (PCI:0000:3b:00): 79, written by a process\n", NULL, 0 }, // facility 1: user
	{ "6,105,5005,-;NVRM: loading NVIDIA UNIX Open Kernel Module\n", NULL, 0 },
	{ "4,106,5006,-;say NVRM: Xid (PCI:0000:3b:00): 79, x\n", NULL, 0 },
	{ "4,107,5007,-;NVRM: Xid (PCI:0000:3b:00: 79, x\n", NULL, 0 },
	{ "4,108,5008,-;NVRM: Xid (PCI:0000:3b:00): x\n", NULL, 0 },
	{ "4,109,5009,-;NVRM: Xid (PCI:0000)\n", NULL, 0 },
	{ "4,110,5010,-\n", NULL, 0 },
	{ "NVRM: Xid (PCI:0000:3b:00): 79, x\n", NULL, 0 },
	{ "", NULL, 0 },
};

static void each_record(void **state)
{
	(void)state;
	for (const struct row *r = rows; r < rows + ARRAY_SIZE(rows); r++) {
		struct xids x = { 0 };
		expect(xids_take(&x, r->record, strlen(r->record)) == (r->gpu != NULL), r->record);
		expect(x.count == (r->gpu ? 1 : 0), r->record);
		expect(!r->gpu || (str_eq(x.items[0].gpu, r->gpu) && x.items[0].xid == r->xid), r->record);
		expect(!xids_take(&x, r->record, strlen(r->record)), r->record); // the same one again: read twice
		expect(x.count == (r->gpu ? 1 : 0) && (!r->gpu || x.items[0].count == 1), r->record);
	}
}

static void take_all(struct xids *x)
{
	for (const struct row *r = rows; r < rows + ARRAY_SIZE(rows); r++)
		xids_take(x, r->record, strlen(r->record));
}

// A program that starts again reads the whole log again, and counts on from where the one before stopped.
static void after_a_restart(void **state)
{
	(void)state;
	struct err err;
	struct xids x = { 0 }, again;
	auto_folder struct folder f;
	static const char more[] = "4,200,6000,-;NVRM: Xid (PCI:0000:3b:00): 79, once more\n";
	folder_make(&f);
	take_all(&x);
	assert_int_equal(xids_write(&f.root, BOOT, &x, &err), 0);
	assert_int_equal(xids_read(&f.root, BOOT, &again, &err), 1);
	take_all(&again);
	assert_true(xids_take(&again, more, strlen(more)));
	assert_int_equal(xids_write(&f.root, BOOT, &again, &err), 0);
	folder_expect(
		&f, METRICS,
		"# HELP kmodsmith_xid_errors_total NVIDIA's errors (Xid) in the kernel log of this boot; without any "
		"there is no sample.\n"
		"# TYPE kmodsmith_xid_errors_total counter\n"
		"kmodsmith_xid_errors_total{gpu=\"0000:3b:00.0\",xid=\"79\"} 2\n"
		"kmodsmith_xid_errors_total{gpu=\"0000:c1:00.0\",xid=\"45\"} 1\n"
		"kmodsmith_xid_errors_total{gpu=\"0001:c1:00.0\",xid=\"31\"} 1\n"
		"kmodsmith_xid_errors_total{gpu=\"0000:3b:00.0\",xid=\"48\"} 1\n");
	assert_int_equal(xids_read(&f.root, "another boot", &again, &err), 0);
	assert_int_equal(again.count, 0);
	assert_int_equal(again.next, 0);
}

// More kinds than anybody has: those in excess are one sample, and none is lost.
static void too_many_kinds(void **state)
{
	(void)state;
	struct err err;
	struct xids x = { 0 }, read;
	auto_folder struct folder f;
	folder_make(&f);
	for (unsigned i = 0; i < XIDS_MOST + 8; i++) {
		auto_str char *record = str_fmt("4,%u,1,-;NVRM: Xid (PCI:0000:3b:00): %u, x\n", i, i);
		assert_true(xids_take(&x, record, strlen(record)));
	}
	assert_int_equal(x.count, XIDS_MOST);
	assert_int_equal(x.others, 8);
	assert_int_equal(xids_write(&f.root, BOOT, &x, &err), 0);
	assert_int_equal(xids_read(&f.root, BOOT, &read, &err), 1);
	assert_int_equal(read.others, 8);
	auto_str char *text = NULL;
	assert_int_equal(root_read(&f.root, METRICS, &text, NULL, &err), 1);
	assert_non_null(strstr(text, "\nkmodsmith_xid_errors_total{gpu=\"\",xid=\"\"} 8\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_record),
		cmocka_unit_test(after_a_restart),
		cmocka_unit_test(too_many_kinds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
