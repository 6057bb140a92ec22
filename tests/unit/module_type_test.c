// SPDX-License-Identifier: Apache-2.0
// R-P7: the flavour follows from the PCI ids and the driver's branch; mixed boxes are named and refused.
#include "host/gpu_support.h"

#include "tests/unit/test.h"

enum { P100 = 0x15f8, P40 = 0x1b38, K80 = 0x102d, M60 = 0x13f2, V100 = 0x1db6, T4 = 0x1eb8, GTX1650 = 0x2182 };
enum { A100 = 0x20b2, A10 = 0x2236, H100 = 0x2330, GH200 = 0x2342, L40 = 0x26b5, B200 = 0x2901, GB200 = 0x2941 };
enum { RTX5090 = 0x2b85, B300 = 0x3182, FUTURE = 0x4000 };
enum { OPEN = MODULE_TYPE_OPEN, PROP = MODULE_TYPE_PROPRIETARY, BOTH = OPEN | PROP, AUTO = MODULE_TYPE_AUTO };

static const struct row {
	uint16_t gpus[3];
	const char *version;
	unsigned request, available;
	int expected;     // a flavour, or an error code
	const char *text; // in the error or the reason
	size_t left;
} rows[] = {
	{ { V100 }, "535.261.03", AUTO, BOTH, PROP, "Volta", 0 },
	{ { P100 }, "580.82.07", AUTO, BOTH, PROP, "Pascal", 0 },
	{ { P40 },
	  "590.48.01",
	  AUTO,
	  BOTH,
	  E_UNSUPPORTED_GPU,
	  "0000:10:00.0 10de:1b38 Pascal (proprietary only, branches up to 580)",
	  0 },
	{ { V100 }, "595.45.04", AUTO, BOTH, E_UNSUPPORTED_GPU, "Volta", 0 },
	{ { M60 },
	  "535.261.03",
	  AUTO,
	  OPEN,
	  E_FLAVOUR,
	  "only the open modules of driver 535.261.03 are at hand, and the proprietary ones are needed for "
	  "0000:10:00.0",
	  0 },
	{ { M60, B300 }, "535.261.03", AUTO, OPEN, E_FLAVOUR, "the proprietary ones are needed for 0000:10:00.0", 0 },
	{ { K80, B300 }, "535.261.03", AUTO, OPEN, E_UNSUPPORTED_GPU, "driver 535.261.03 does not support", 0 },
	{ { K80, M60 },
	  "535.261.03",
	  AUTO,
	  OPEN,
	  E_MIXED_GPUS,
	  "no module type of driver 535.261.03 supports every",
	  0 },
	{ { M60 }, "535.261.03", OPEN, BOTH, E_FLAVOUR, "proprietary does", 0 },
	{ { K80 }, "470.256.02", AUTO, PROP, PROP, "Kepler", 0 },
	{ { K80 }, "535.261.03", AUTO, BOTH, E_UNSUPPORTED_GPU, "Kepler", 0 },
	{ { T4 }, "535.261.03", AUTO, BOTH, PROP, "default of branch 535", 0 },
	{ { T4 }, "560.35.03", AUTO, BOTH, OPEN, "default of branch 560", 0 },
	{ { GTX1650 }, "570.172.08", AUTO, PROP, PROP, "Turing", 0 },
	{ { T4 }, "535.261.03", AUTO, OPEN, OPEN, "only available module type", 0 },
	{ { T4 }, "470.256.02", OPEN, BOTH, E_FLAVOUR, "proprietary does", 0 },
	{ { A100, A10 }, "535.261.03", AUTO, BOTH, PROP, NULL, 0 },
	{ { A100 }, "418.40.04", AUTO, BOTH, E_UNSUPPORTED_GPU, "branch 450 or newer", 0 },
	{ { H100, H100 }, "580.82.07", AUTO, BOTH, OPEN, NULL, 0 },
	{ { H100 }, "535.261.03", OPEN, BOTH, OPEN, "requested", 0 },
	{ { H100 }, "470.256.02", AUTO, BOTH, E_UNSUPPORTED_GPU, "Hopper", 0 },
	{ { GH200 }, "535.261.03", AUTO, BOTH, OPEN, "Grace Hopper", 0 },
	{ { GH200 }, "535.261.03", PROP, BOTH, E_FLAVOUR, "open does", 0 },
	{ { L40 }, "535.261.03", AUTO, BOTH, PROP, NULL, 0 },
	{ { L40 }, "515.65.01", AUTO, BOTH, E_UNSUPPORTED_GPU, "Ada (branch 520 or newer)", 0 },
	{ { B200 }, "570.172.08", AUTO, BOTH, OPEN, "Blackwell", 0 },
	{ { RTX5090 }, "570.172.08", AUTO, PROP, E_FLAVOUR, "the open ones are needed for", 0 },
	{ { B300 }, "535.261.03", AUTO, BOTH, E_UNSUPPORTED_GPU, "branch 570 or newer", 0 },
	{ { GB200 }, "580.82.07", PROP, BOTH, E_FLAVOUR, "10de:2941 Blackwell", 0 },
	{ { T4, V100 }, "570.172.08", AUTO, BOTH, PROP, NULL, 0 },
	{ { V100, B200 }, "570.172.08", AUTO, BOTH, E_MIXED_GPUS, "0000:11:00.0 10de:2901 Blackwell", 0 },
	{ { T4, V100 }, "570.172.08", AUTO, OPEN, E_FLAVOUR, "the proprietary ones are needed for", 0 },
	{ { P40, H100 }, "590.48.01", AUTO, BOTH, E_MIXED_GPUS, "Pascal", 0 },
	{ { V100, B200 }, "570.172.08", OPEN, BOTH, OPEN, "left without a driver: 0000:10:00.0", 1 },
	// What no driver serves together with the rest does not count; what another version would serve does.
	{ { H100, K80 }, "535.261.03", AUTO, BOTH, PROP, "left without a driver: 0000:11:00.0 (Kepler)", 1 },
	{ { K80, H100, H100 }, "580.82.07", AUTO, BOTH, OPEN, "0000:10:00.0 (Kepler)", 1 },
	{ { K80, H100 }, "470.256.02", AUTO, BOTH, PROP, "0000:11:00.0 (Hopper)", 1 },
	{ { K80, V100, H100 }, "580.82.07", AUTO, BOTH, PROP, "only available module type", 1 },
	{ { H100, B200 }, "535.261.03", AUTO, BOTH, E_MIXED_GPUS, "Blackwell", 0 },
	{ { H100, V100 }, "595.45.04", AUTO, BOTH, E_MIXED_GPUS, "Volta", 0 },
	{ { V100, B200 }, "535.261.03", AUTO, BOTH, PROP, "0000:11:00.0 (Blackwell)", 1 },
	{ { K80, B200 }, "570.172.08", AUTO, PROP, E_FLAVOUR, "the open ones are needed for 0000:11:00.0", 0 },
	{ { K80, H100 }, "535.261.03", OPEN, BOTH, OPEN, "0000:10:00.0 (Kepler)", 1 },
	{ { K80, H100 }, "535.261.03", AUTO, OPEN, OPEN, "0000:10:00.0 (Kepler)", 1 },
	{ { T4 }, "535.261.03", OPEN, PROP, E_FLAVOUR, "not available", 0 },
	{ { FUTURE }, "610.57.04", AUTO, BOTH, OPEN, NULL, 0 },
	{ { 0 }, "535.261.03", AUTO, BOTH, PROP, NULL, 0 },
	{ { 0 }, "580.82.07", AUTO, BOTH, OPEN, NULL, 0 },
	{ { T4 }, "latest", AUTO, BOTH, E_USAGE, "latest", 0 },
};

static void check(const struct row *row)
{
	struct gpu gpus[3] = { 0 };
	struct gpus g = { gpus, 0 };
	enum module_type flavour = MODULE_TYPE_AUTO;
	auto_str char *why = NULL;
	struct err err = { 0 };
	for (; g.count < 3 && row->gpus[g.count]; g.count++) {
		gpus[g.count].device = row->gpus[g.count];
		snprintf(gpus[g.count].address, sizeof(gpus[0].address), "0000:1%u:00.0", (unsigned)g.count & 3);
	}
	int r = gpu_support_choose(&g, row->version, (enum module_type)row->request, row->available, &flavour, &why,
				   &err);
	assert_int_equal(r < 0 ? err.code : (int)flavour, row->expected);
	const char *said = r < 0 ? err.text : why, *named = strstr(said, "left without a driver: ");
	size_t left = named != NULL;
	for (const char *comma = named; comma && (comma = strchr(comma, ',')); comma++)
		left++;
	assert_int_equal(left, row->left);
	if (row->text && !strstr(said, row->text))
		fail_msg("'%s' lacks '%s'", said, row->text);
}

static void chooses_a_module_type(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check(&rows[i]);
}

static void ignores_gpus_that_are_not_ours(void **state)
{
	(void)state;
	char vfio[] = "vfio-pci";
	struct gpu gpus[] = {
		{ .address = "0000:10:00.0", .device = H100 },
		{ .address = "0000:11:00.0", .device = V100, .driver = vfio },
		{ .address = "0000:12:00.0", .device = V100, .is_vf = true },
		{ .address = "0000:13:00.0", .device = 0x1ac2, .kind = GPU_SWITCH },
	};
	struct gpus g = { gpus, ARRAY_SIZE(gpus) };
	enum module_type flavour;
	struct err err;
	assert_int_equal(gpu_support_choose(&g, "590.48.01", MODULE_TYPE_AUTO, BOTH, &flavour, NULL, &err), 0);
	assert_int_equal(flavour, MODULE_TYPE_OPEN);
}

static void names_at_most_four_gpus(void **state)
{
	(void)state;
	struct gpu gpus[8] = { 0 };
	struct gpus g = { gpus, ARRAY_SIZE(gpus) };
	enum module_type flavour;
	struct err err;
	for (size_t i = 0; i < g.count; i++) {
		gpus[i].device = B200;
		snprintf(gpus[i].address, sizeof(gpus[i].address), "0000:10:00.0");
	}
	assert_int_equal(gpu_support_choose(&g, "535.261.03", MODULE_TYPE_AUTO, BOTH, &flavour, NULL, &err), -1);
	assert_non_null(strstr(err.text, "and 4 more"));
}

static void no_driver_at_all(void **state)
{
	(void)state;
	enum { FERMI = 0x1040 };
	static const struct {
		uint16_t devices[3];
		const char *want; // NULL = some driver serves all
	} sets[] = {
		{ { 0 }, NULL },
		{ { P40, H100 }, NULL },
		{ { T4, V100, H100 }, NULL },
		{ { B200, FUTURE }, NULL },
		{ { V100, B200 }, "Volta (proprietary only, branches up to 580), 0000:11:00.0 10de:2901 Blackwell" },
		{ { T4, FERMI }, "Fermi" },
		{ { H100, K80 }, "0000:11:00.0 10de:102d Kepler" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
		struct gpu gpus[3] = { 0 };
		struct gpus g = { gpus, 0 };
		for (; g.count < 3 && sets[i].devices[g.count]; g.count++) {
			gpus[g.count].device = sets[i].devices[g.count];
			snprintf(gpus[g.count].address, sizeof(gpus[0].address), "0000:1%zu:00.0", g.count);
		}
		auto_str char *mixed = gpu_support_mixed(&g);
		assert_true(sets[i].want ? mixed && strstr(mixed, sets[i].want) : !mixed);
	}
}

static void versions_and_names(void **state)
{
	(void)state;
	enum module_type f;
	assert_int_equal(gpu_driver_branch("535.261.03"), 535);
	assert_int_equal(gpu_driver_branch("535"), 0);
	assert_int_equal(gpu_driver_branch(""), 0);
	assert_int_equal(gpu_driver_branch("x.1"), 0);
	assert_true(module_type_parse("open", &f) && f == MODULE_TYPE_OPEN);
	assert_true(module_type_parse("auto", &f) && f == MODULE_TYPE_AUTO);
	assert_false(module_type_parse("Open", &f));
	assert_string_equal(gpu_architecture(A100), "Ampere");
	assert_string_equal(gpu_architecture(FUTURE), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chooses_a_module_type),   cmocka_unit_test(ignores_gpus_that_are_not_ours),
		cmocka_unit_test(names_at_most_four_gpus), cmocka_unit_test(no_driver_at_all),
		cmocka_unit_test(versions_and_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
