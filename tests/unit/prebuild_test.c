// SPDX-License-Identifier: Apache-2.0
// Which driver is prebuilt for other kernels.
#include "next_kernel/prebuild.h"

#include "tests/unit/test.h"

static void driver_and_module_type(void **state)
{
	(void)state;
	static const struct {
		const char *requested, *of_source, *of_image, *loaded, *last_good;
		enum module_type requested_flavour, loaded_flavour;
		const char *want; // NULL = E_USAGE
		enum module_type want_flavour;
	} rows[] = {
		{ .want = NULL },
		{ .last_good = "5", .want = "5" },
		{ .loaded = "4", .last_good = "5", .want = "4" },
		{ .loaded = "4", .loaded_flavour = MODULE_TYPE_OPEN, .want = "4", .want_flavour = MODULE_TYPE_OPEN },
		{ .of_image = "3", .loaded = "4", .loaded_flavour = MODULE_TYPE_OPEN, .want = "3" },
		{ .of_source = "2", .of_image = "3", .loaded = "4", .want = "2" },
		{ .requested = "1", .of_source = "2", .of_image = "3", .loaded = "4", .last_good = "5", .want = "1" },
		{ .requested = "4",
		  .loaded = "4",
		  .loaded_flavour = MODULE_TYPE_PROPRIETARY,
		  .want = "4",
		  .want_flavour = MODULE_TYPE_PROPRIETARY },
		{ .requested = "4",
		  .requested_flavour = MODULE_TYPE_OPEN,
		  .loaded = "4",
		  .loaded_flavour = MODULE_TYPE_PROPRIETARY,
		  .want = "4",
		  .want_flavour = MODULE_TYPE_OPEN },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_str char *version = str_dup(rows[i].loaded);
		const struct modules loaded = { .version = version, .flavour = rows[i].loaded_flavour };
		const struct prebuild_drivers known = { .requested = rows[i].requested,
							.of_source = rows[i].of_source,
							.of_image = rows[i].of_image,
							.loaded = &loaded,
							.last_good = rows[i].last_good };
		struct request request = { .flavour = rows[i].requested_flavour };
		int r = prebuild_choose(&known, &request, &err);
		if (r != (rows[i].want ? 0 : -1) || (r < 0 && err.code != E_USAGE))
			fail_msg("row %zu: %d, %s", i, r, err.text);
		if (r == 0 && (!str_eq(request.driver, rows[i].want) || request.flavour != rows[i].want_flavour))
			fail_msg("row %zu: %s, %s", i, request.driver, module_type_name(request.flavour));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(driver_and_module_type) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
