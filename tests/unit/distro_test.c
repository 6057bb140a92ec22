// SPDX-License-Identifier: Apache-2.0
#include "kmod/kernel_tree/distro.h"
#include "tests/unit/test.h"

// R-A5: by the kernel's own words only.
static void kernels_say_whose_they_are(void **state)
{
	(void)state;
	static const struct {
		const char *release, *banner, *distro;
	} rows[] = {
		{ "6.1.0-56-cloud-amd64", "Linux version 6.1.0-56-cloud-amd64 (x) (gcc) #1 SMP Debian 6.1.192-1 (d)",
		  "debian" },
		{ "6.8.0-136-generic", "Linux version 6.8.0-136-generic (x) (gcc) #136-Ubuntu SMP", "ubuntu" },
		{ "5.14.0-570.12.1.el9_6.x86_64", NULL, "rhel9.6" },
		{ "4.18.0-553.el8_10.x86_64", "whatever", "rhel8.10" },
		{ "6.1.130-139.222.amzn2023.x86_64", NULL, "amzn2023" },
		{ "6.11.4-301.fc41.x86_64", NULL, "fedora41" },
		{ "6.6.elephant", NULL, NULL },
		{ "6.1.0-56-cloud-amd64", NULL, NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *got = distro_of(rows[i].release, rows[i].banner);
		expect(got ? str_eq(got, rows[i].distro) : !rows[i].distro, rows[i].release);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(kernels_say_whose_they_are) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
