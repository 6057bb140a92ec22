// SPDX-License-Identifier: Apache-2.0
#include "precompiled/package/fetch.h"

#include "base/core/date.h"
#include "tests/unit/server.h"

enum { STALL_MS = 3000 };

static void serve(struct server *s, int fd, const struct request *r)
{
	(void)s, (void)r;
	send_page(fd, "404 Not Found", "", "");
}

static void hang(struct server *s, int fd, const struct request *r)
{
	(void)fd, (void)r;
	server_hang(s);
}

static void test_side_by_side(void **state)
{
	(void)state;
	auto_server struct server good, first, second;
	auto_strv struct strv names = { 0 };
	struct err err, found[6];
	auto_http struct http *h = NULL;
	struct http_options o = { .proxy = "", .connect_ms = 60000, .stall_ms = STALL_MS };
	server_start(&good, serve, NULL);
	server_start(&first, hang, NULL);
	server_start(&second, hang, NULL);
	strv_add(&names, str_dup("https://not.asked.invalid"));
	strv_add(&names, str_dup("oci:/no/such/place"));
	strv_add(&names, server_url(&first, "/x"));
	strv_add(&names, str_fmt("docker+http://127.0.0.1:%u/a", second.port));
	strv_add(&names, server_url(&good, "/x"));
	strv_add(&names, str_dup("http://127.0.0.1:1/x"));
	assert_int_equal(http_new(&o, &h, &err), 0);
	long start = clock_ms();
	fetch_probe(&names, 1, &(struct repository_options){ .http = h }, found);
	assert_true(clock_ms() - start < 2 * STALL_MS); // one deadline, not two
	static const int want[] = { 0, E_TIMEOUT, E_TIMEOUT, 0, E_NETWORK };
	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		expect(found[i].code == want[i] && !*found[i].text == !want[i], names.items[i + 1]);
}

static void test_nothing_to_spare(void **state)
{
	(void)state;
	auto_server struct server s;
	auto_strv struct strv names = { 0 };
	struct err err, found[2];
	auto_http struct http *h = NULL;
	server_start(&s, serve, NULL);
	strv_add(&names, server_url(&s, "/x"));
	assert_int_equal(http_new(&(struct http_options){ .proxy = "" }, &h, &err), 0);
	fetch_probe(&names, 0, &(struct repository_options){ .http = h }, found); // one is asked anyway
	strv_add(&names, server_url(&s, "/y"));
	fetch_probe(&names, 0, &(struct repository_options){ 0 }, found); // offline
	assert_int_equal(server_count(&s), 0);
	assert_int_equal(found[0].code + found[1].code, 0);
	fetch_probe(&names, 0, &(struct repository_options){ .http = h }, found);
	assert_int_equal(server_count(&s), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_side_by_side),
		cmocka_unit_test(test_nothing_to_spare),
	};
	return cmocka_run_group_tests_name("probe", tests, NULL, NULL);
}
