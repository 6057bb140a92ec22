// SPDX-License-Identifier: Apache-2.0
// R-L1: which requests go through a proxy.
#include "base/http/proxy.h"

#include "tests/unit/test.h"

static void clear_environment(void)
{
	static const char *const names[] = { "http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY",
					     "all_proxy",  "ALL_PROXY",  "no_proxy",    "NO_PROXY" };
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		unsetenv(names[i]);
}

static void test_no_proxy_entries(void **state)
{
	(void)state;
	static const struct {
		const char *list, *host;
		unsigned port;
		bool is_direct;
	} rows[] = {
		{ "", "example.com", 443, false },
		{ "*", "example.com", 443, true },
		{ "example.com", "example.com", 443, true },
		{ "example.com", "EXAMPLE.com", 443, true },
		{ "example.com", "a.example.com", 443, true },
		{ ".example.com", "a.example.com", 443, true },
		{ ".example.com", "example.com", 443, true },
		{ "example.com", "notexample.com", 443, false },
		{ "example.com", "example.com.evil", 443, false },
		{ "example.com", "example.com.", 443, true },
		{ "example.com.", "example.com", 443, true },
		{ ".", "example.com", 443, false },
		{ "*.example.com", "a.example.com", 443, true },
		{ "*.example.com", "a.b.EXAMPLE.com", 443, true },
		{ "*.example.com", "example.com", 443, true },
		{ "*.example.com", "notexample.com", 443, false },
		{ "*.example.com:443", "a.example.com", 443, true },
		{ "*.example.com:444", "a.example.com", 443, false },
		{ "*.", "a.example.com", 443, false },
		{ "*example.com", "a.example.com", 443, false },
		{ "**.example.com", "a.example.com", 443, false },
		{ "a.*.com", "a.b.com", 443, false },
		{ "*.0.0.1", "10.0.0.1", 443, false },
		{ "10.0.0.0/8, .svc , *.example.com", "a.example.com", 443, true },
		{ "*:443", "example.com", 443, false },
		{ "a,b c,example.com", "example.com", 443, true },
		{ " , ,", "example.com", 443, false },
		{ "example.com:443", "example.com", 443, true },
		{ "example.com:8443", "example.com", 443, false },
		{ "example.com:x", "example.com", 443, false },
		{ "10.0.0.1", "10.0.0.1", 80, true },
		{ "10.0.0.1", "10.0.0.10", 80, false },
		{ "10.0.0.1:80", "10.0.0.1", 80, true },
		{ "10.0.0.1:81", "10.0.0.1", 80, false },
		{ "10.0.0.0/8", "10.200.3.4", 80, true },
		{ "10.0.0.0/8", "11.0.0.1", 80, false },
		{ "10.0.0.0/9", "10.127.255.255", 80, true },
		{ "10.0.0.0/9", "10.128.0.0", 80, false },
		{ "10.0.0.0/8:80", "10.200.3.4", 80, true },
		{ "10.0.0.0/8:80", "10.200.3.4", 81, false },
		{ "0.0.0.0/0", "8.8.8.8", 80, true },
		{ "0.0.0.0/0", "::1", 80, false },
		{ "10.0.0.0/33", "10.0.0.0", 80, false },
		{ "10.0.0.0/", "10.0.0.0", 80, false },
		{ "10.0.0.0/x", "10.0.0.0", 80, false },
		{ "10.0.0.0/8", "registry.10.in", 80, false },
		{ "example.com/8", "example.com", 80, false },
		{ "::1", "[::1]", 80, true },
		{ "[::1]", "::1", 80, true },
		{ "[::1]:80", "[::1]", 80, true },
		{ "[::1]:81", "[::1]", 80, false },
		{ "fd00::/8", "[fd12:3456::1]", 80, true },
		{ "fd00::/8", "[fe80::1]", 80, false },
		{ "fd00::/129", "[fd00::1]", 80, false },
		{ "::/0", "[2001:db8::1]", 80, true },
		{ "localhost", "localhost", 80, true },
		{ "localhost", "127.0.0.1", 80, false },
	};
	clear_environment();
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *row = str_fmt("%s with %s:%u", rows[i].list, rows[i].host, rows[i].port);
		auto_str char *got = proxy_choose("proxy:3128", rows[i].list, "https", rows[i].host, rows[i].port);
		expect(!got == rows[i].is_direct, row);
		expect(!got || str_eq(got, "proxy:3128"), row);
	}
}

static void test_entries_that_mean_nothing(void **state)
{
	(void)state;
	static const struct {
		const char *list, *unusable;
	} rows[] = {
		{ "", "" },
		{ "*, .svc,*.example.com:443 localhost 10.0.0.0/8,::1,[fd00::]:80,fd00::/8 under_score "
		  "b\303\274cher.de",
		  "" },
		{ "reg.*", "reg.*" },
		{ "\"x\",'y'", "\"x\",'y'" },
		{ "http://x,a", "http://x" },
		{ "a;b", "a;b" },
		{ "*example.com", "*example.com" },
		{ ". *. x", ".,*." },
		{ "10.0.0.0/33,10.0.0.0/,10.0.0.0/x,fd00::/129,example.com/8", "10.0.0.0/33,10.0.0.0/,10.0.0.0/x,"
									       "fd00::/129,example.com/8" },
		{ "x:0,x:65536,x:https,x:", "x:0,x:65536,x:https,x:" },
	};
	clear_environment();
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_strv struct strv given = { 0 }, inherited = { 0 };
		proxy_unusable_exceptions("p:1", rows[i].list, &given);
		auto_str char *got = strv_join(&given, ",");
		expect(str_eq(got, rows[i].unusable), got);
		setenv("NO_PROXY", rows[i].list, 1);
		proxy_unusable_exceptions(NULL, NULL, &inherited);
		expect(inherited.count == 0, rows[i].list); // without a proxy
		setenv("http_proxy", "p:1", 1);
		proxy_unusable_exceptions(NULL, NULL, &inherited);
		expect(inherited.count == given.count, rows[i].list);
		unsetenv("http_proxy");
	}
	clear_environment();
}

static void test_environment(void **state)
{
	(void)state;
	static const struct {
		const char *name, *scheme, *want;
	} rows[] = {
		{ "http_proxy", "http", "p:1" },   { "HTTP_PROXY", "http", "p:1" },   { "https_proxy", "http", NULL },
		{ "https_proxy", "https", "p:1" }, { "HTTPS_PROXY", "https", "p:1" }, { "http_proxy", "https", NULL },
		{ "all_proxy", "http", "p:1" },    { "ALL_PROXY", "https", "p:1" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		clear_environment();
		setenv(rows[i].name, "p:1", 1);
		auto_str char *got = proxy_choose(NULL, NULL, rows[i].scheme, "h", 1);
		expect(str_eq(got, rows[i].want) || got == rows[i].want, rows[i].name);
		auto_str char *none = proxy_choose("", NULL, rows[i].scheme, "h", 1);
		expect(!none, rows[i].name);
		setenv("NO_PROXY", "h", 1);
		auto_str char *direct = proxy_choose(NULL, NULL, rows[i].scheme, "h", 1);
		expect(!direct, rows[i].name);
		auto_str char *given =
			proxy_choose(NULL, "other", rows[i].scheme, "h", 1); // in place of the environment's
		expect(str_eq(given, rows[i].want) || given == rows[i].want, rows[i].name);
	}
	clear_environment();
	setenv("https_proxy", "lower:1", 1);
	setenv("HTTPS_PROXY", "upper:1", 1);
	auto_str char *got = proxy_choose(NULL, NULL, "https", "h", 443);
	assert_string_equal(got, "lower:1");
	clear_environment();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_proxy_entries),
		cmocka_unit_test(test_entries_that_mean_nothing),
		cmocka_unit_test(test_environment),
	};
	return cmocka_run_group_tests_name("proxy", tests, NULL, NULL);
}
