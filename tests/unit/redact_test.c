// SPDX-License-Identifier: Apache-2.0
#include "base/core/redact.h"
#include "tests/unit/test.h"

static void secrets_are_removed(void **state)
{
	(void)state;
	static const char *const rows[][2] = {
		{ "proxy http://u:pw@p.example:3128/", "proxy http://(removed)@p.example:3128/" },
		{ "docker://u:p@ss@r.example/x", "docker://(removed)@r.example/x" },
		{ "docker://r.example/x@sha256:ab", "docker://r.example/x@sha256:ab" },
		{ "\"https://h/x?sig=pw\",", "\"https://h/x?(removed)\"," },
		{ "token=pw quiet", "token=(removed) quiet" },
		{ "rd.Password='p w'", "rd.Password='(removed) w'" }, // no shell reads it
		{ "KEY_PASSWORD: two words", "KEY_PASSWORD: (removed)" },
		{ "{\"password\": \"p\\\"w\", \"a\": 1}", "{\"password\": \"(removed)\", \"a\": 1}" },
		{ "{\\\"token\\\": \\\"pw\\\"}", "{\\\"token\\\": \\\"(removed)" },
		{ "{\"token\": null}", "{\"token\": null}" },
		{ "pkcs11:object=a;pin-value=1234", "pkcs11:object=a;pin-value=(removed)" },
		{ "Authorization: Basic dTpwdw==", "Authorization: (removed)" },
		{ "curl -H Bearer abcdefgh", "curl -H Bearer (removed)" },
		{ "eyJhbGciOiJI.eyJzdWIi.c2ln end", "(removed) end" },
		{ "a known1 b", "a (removed) b" },
		{ "a\n-----BEGIN EC PRIVATE KEY-----\nMHc\n-----END EC PRIVATE KEY-----\nb", "a\n(removed)\nb" },
		{ "a\n-----BEGIN PRIVATE KEY-----\nMHc\n", "a\n(removed)" },
		{ "MHc\n-----END PRIVATE KEY-----\nb", "(removed)\nb" },
		{ "-----BEGIN PUBLIC KEY-----\nMHc\n", "-----BEGIN PUBLIC KEY-----\nMHc\n" },
		{ "the password was refused", "the password was refused" },
		{ "nvidia 535.261.03 0000:3b:00.0", "nvidia 535.261.03 0000:3b:00.0" },
		{ "", "" },
	};
	static char known[] = "MY_TOKEN=known1", path[] = "TOKEN_FILE=/etc/os-release", word[] = "SECRET_ON=yes",
		    home[] = "HOME=/root";
	char *env[] = { known, path, word, home, NULL };
	auto_redact struct redact r = { 0 };
	redact_add_environment(&r, env);
	assert_int_equal(r.secrets.count, 1);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *text = redact_text(&r, rows[i][0]);
		if (!str_eq(text, rows[i][1]))
			fail_msg("'%s' became '%s'", rows[i][0], text);
	}
}

static void a_secret_that_is_part_of_its_replacement_ends(void **state)
{
	(void)state;
	static char removed[] = "TOKEN=removed";
	char *env[] = { removed, NULL };
	auto_redact struct redact r = { 0 };
	redact_add_environment(&r, env);
	auto_str char *text = redact_text(&r, "removed twice: removed");
	assert_string_equal(text, "(removed) twice: (removed)");
}

static void machines_get_the_same_word_everywhere(void **state)
{
	(void)state;
	static const char *const rows[][2] = {
		{ "gpu-1 GPU-1. gpu-10 my_gpu-1 agent-gpu-1-x", "host-1 host-1. gpu-10 my_gpu-1 agent-host-1-x" },
		{ "from https://u@r.example:5000/x, r.example", "from https://(removed)@host-2:5000/x, host-2" },
		{ "10.0.0.1:80 10.0.0.2. 10.0.0.1", "address-1:80 address-2. address-1" },
		{ "fe80::1%eth0 [2001:db8::1]: ::1", "address-3%eth0 [address-4]: address-5" },
		{ "52:54:00:ab:cd:ef BOOTIF=01-52-54-00-ab-cd-ef", "address-6 BOOTIF=address-7" },
		{ "0000:3b:00.0 0000:3b:00 12:34:56 535.261.03", "0000:3b:00.0 0000:3b:00 12:34:56 535.261.03" },
		{ "96.00.5E.00.01 1.2.3.4.5 999.1.1.1 a10.0.0.1", "96.00.5E.00.01 1.2.3.4.5 999.1.1.1 a10.0.0.1" },
		{ "sha256:ab:cd GPU-1b2c3d4e-1111-2222", "sha256:ab:cd GPU-1b2c3d4e-1111-2222" },
	};
	auto_redact struct redact r = { .is_anonymous = true };
	redact_add_name(&r, "gpu-1");
	redact_add_name(&r, "localhost");
	redact_add_name(&r, "a");
	redact_add_name(&r, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		redact_add_hosts(&r, rows[i][0]);
	redact_add_hosts(&r, "http://10.0.0.1/ file:///etc http://");
	assert_int_equal(r.names.count, 2);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *text = redact_text(&r, rows[i][0]);
		if (!str_eq(text, rows[i][1]))
			fail_msg("'%s' became '%s'", rows[i][0], text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(secrets_are_removed),
		cmocka_unit_test(a_secret_that_is_part_of_its_replacement_ends),
		cmocka_unit_test(machines_get_the_same_word_everywhere),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
