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

// What the driver before did is not the loaded one's fault, nor what may have been before a load that nobody read; a
// recovery action counts until it is taken back.
static void since_the_load(void **state)
{
	(void)state;
#define XID(sequence, number, text) "4," sequence ",1,-;NVRM: Xid (PCI:0000:3b:00): " number ", " text "\n"
#define LOAD(sequence) "4," sequence ",1,-;NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  535.261.03\n"
#define ACTION "GPU recovery action changed from "
	static const struct {
		const char *records[4];
		unsigned long loaded;
		bool is_news; // the last of them changes the file
	} cases[] = {
		{ { XID("1", "119", "x") }, 1, true },
		{ { XID("1", "119", "x"), XID("2", "119", "x") }, 2, true },
		{ { XID("1", "119", "x"), LOAD("2") }, 0, true },
		{ { XID("1", "119", "x"), LOAD("2"), LOAD("3") }, 0, false },
		{ { XID("1", "119", "x"), LOAD("2"), XID("3", "119", "x") }, 1, true },
		{ { XID("1", "119", "x"), "12,2,1,-;NVRM: loading NVIDIA, says a process\n" }, 1, false },
		{ { XID("1", "119", "x"), "6,3,1,-;the second record was overwritten\n" }, 0, true },
		{ { XID("1", "154", ACTION "0x0 (None) to 0x1 (GPU Reset Required)") }, 1, true },
		{ { XID("1", "154", ACTION "0x0 (None) to 0x2 (Node Reboot Required)"),
		    XID("2", "154", ACTION "0x2 (Node Reboot Required) to 0x0 (None)") },
		  0,
		  true },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct err err;
		struct xids x = { 0 }, read;
		bool is_news = false;
		auto_folder struct folder f;
		folder_make(&f);
		for (size_t k = 0; k < 4 && cases[i].records[k]; k++)
			is_news = xids_take(&x, cases[i].records[k], strlen(cases[i].records[k]));
		assert_int_equal(xids_write(&f.root, BOOT, &x, &err), 0);
		assert_int_equal(xids_read(&f.root, BOOT, &read, &err), 1);
		auto_str char *row = str_fmt("row %zu", i);
		expect(read.count == 1 && read.items[0].loaded == cases[i].loaded && is_news == cases[i].is_news, row);
	}
}

// An earlier version did not tell what came since the load: nothing is held against the driver.
static void record_of_an_earlier_version(void **state)
{
	(void)state;
	struct err err;
	struct xids x;
	auto_folder struct folder f;
	folder_make(&f);
	tempdir_write(&f, "run/kmodsmith/xid.json",
		      "{\"boot_id\":\"" BOOT
		      "\",\"next\":7,\"xids\":[{\"gpu\":\"0000:3b:00.0\",\"xid\":119,\"count\":3}]}");
	assert_int_equal(xids_read(&f.root, BOOT, &x, &err), 1);
	assert_true(x.count == 1 && x.items[0].count == 3 && x.items[0].loaded == 0);
}

static void classes(void **state)
{
	(void)state;
	static const struct {
		unsigned xid;
		enum xid_class class;
	} cases[] = {
		{ 13, XID_APPLICATION }, { 31, XID_APPLICATION }, { 43, XID_APPLICATION }, { 45, XID_APPLICATION },
		{ 48, XID_HARDWARE },    { 64, XID_HARDWARE },    { 74, XID_HARDWARE },    { 79, XID_HARDWARE },
		{ 95, XID_HARDWARE },    { 140, XID_HARDWARE },   { 119, XID_DRIVER },     { 120, XID_DRIVER },
		{ 143, XID_DRIVER },     { 154, XID_RECOVERY },   { 63, XID_OTHER },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_str char *row = str_fmt("Xid %u", cases[i].xid);
		expect(xid_class(cases[i].xid) == cases[i].class, row);
	}
	assert_int_equal(xid_class(9999), XID_OTHER); // in nobody's table
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
		cmocka_unit_test(each_record),    cmocka_unit_test(after_a_restart),
		cmocka_unit_test(since_the_load), cmocka_unit_test(record_of_an_earlier_version),
		cmocka_unit_test(classes),        cmocka_unit_test(too_many_kinds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
