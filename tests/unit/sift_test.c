// SPDX-License-Identifier: Apache-2.0
#include "base/formats/json_stream.h"

#include "tests/unit/test.h"

static const char *const record[] = { "metadata name",      "metadata annotations kmodsmith.io/*",
				      "spec unschedulable", "status conditions",
				      "taints key",         NULL };
static const char *const rest[] = { "metadata continue", "metadata resourceVersion", NULL };
static const struct json_stream_table list = { .list = "items", .record = record, .rest = rest };
static const struct json_stream_table stream = { .record = record };

static int keep(void *ctx, json_t *got, struct err *err)
{
	char **all = ctx;
	auto_str char *text = json_dumps(got, JSON_COMPACT | JSON_SORT_KEYS);
	if (strstr(text, "stop"))
		return err_set(err, E_CONFLICT, "enough");
	str_add(all, "%s%s", *all ? " " : "", text);
	return 0;
}

// In pieces of every size: where a reply is cut on its way decides nothing.
static int json_stream(const struct json_stream_table *table, const char *text, size_t piece, char **ret,
		       char **ret_rest, struct err *err)
{
	auto_json_stream struct json_stream *s = json_stream_new(table, keep, ret);
	auto_json json_t *left = NULL;
	size_t len = strlen(text);
	for (size_t at = 0; at < len; at += piece)
		if (json_stream_feed(s, text + at, len - at < piece ? len - at : piece, err) < 0)
			return -1;
	if (json_stream_end(s, &left, err) < 0)
		return -1;
	*ret_rest = json_dumps(left, JSON_COMPACT | JSON_SORT_KEYS);
	return 0;
}

static const struct row {
	const struct json_stream_table *table;
	const char *text, *want, *rest;
} rows[] = {
	{ &list, "{\"items\":[]}", NULL, "{}" },
	{ &list, "{\"items\":null,\"metadata\":{\"continue\":\"x\"}}", NULL, "{\"metadata\":{\"continue\":\"x\"}}" },
	{ &list,
	  "{\"kind\":\"NodeList\",\"metadata\":{\"resourceVersion\":\"7\",\"selfLink\":\"\"},\"items\":[\n"
	  " {\"metadata\":{\"name\":\"a\",\"labels\":{\"b\":\"c\"},\"annotations\":{\"x/y\":\"1\","
	  "\"kmodsmith.io/go\":\"{\\\"a\\\":[1]}\",\"kmodsmith.io/state\":\"\\\\\"}},\"spec\":{\"unschedulable\":true},"
	  "\"status\":{\"images\":[{\"names\":[\"}]{[\",\"\\\\\\\"\"],\"sizeBytes\":1e3}],"
	  "\"conditions\":[{\"type\":\"Ready\"},2,\"x\"]}},"
	  "{ \"items\" : [ { \"metadata\":{} } ], \"metadata\": { \"name\" : \"b\" } } "
	  "],\"metadata\":{\"continue\":\"z\"}}",
	  "{\"metadata\":{\"annotations\":{\"kmodsmith.io/go\":\"{\\\"a\\\":[1]}\",\"kmodsmith.io/state\":\"\\\\\"},"
	  "\"name\":\"a\"},\"spec\":{\"unschedulable\":true},\"status\":{\"conditions\":[{\"type\":\"Ready\"},2,\"x\"]}"
	  "}"
	  " {\"metadata\":{\"name\":\"b\"}}",
	  NULL }, // "metadata" twice: not what a server sends
	{ &list, "{\"items\":[1,\"x\",[{\"metadata\":{\"name\":\"no\"}}],{\"metadata\":{\"name\":\"yes\"}}]}",
	  "{\"metadata\":{\"name\":\"yes\"}}", "{}" },
	{ &list, "{\"a\":{\"items\":[{\"metadata\":{\"name\":\"no\"}}]}}", NULL, "{}" },
	{ &list, "{\"items\":{\"metadata\":{\"name\":\"no\"}}}", NULL, "{}" },
	{ &stream, "", NULL, "{}" },
	{ &stream, " {\"metadata\":{\"name\":\"a\"}}\n{\"metadata\":{\"name\":\"b\",\"name2\":1}} {}",
	  "{\"metadata\":{\"name\":\"a\"}} {\"metadata\":{\"name\":\"b\"}} {}", "{}" },
	{ &stream, "{\"metadata\":\"text\",\"spec\":5,\"status\":{\"conditions\":null}}",
	  "{\"status\":{\"conditions\":null}}", "{}" },
	{ &stream, "{\"taints\":[{\"key\":\"a\",\"effect\":\"x\"},{\"effect\":\"y\"},7]}",
	  "{\"taints\":[{\"key\":\"a\"},{}]}", "{}" },
	{ &stream, "{\"metadata\":{\"na\\u006de\":\"x\",\"name\\\"\":\"y\"}}", "{\"metadata\":{}}", "{}" },
	// What is no JSON.
	{ &stream, "{\"metadata\":{\"name\":\"a\"}", NULL, NULL },
	{ &stream, "{\"metadata\":{\"name\":\"a", NULL, NULL },
	{ &stream, "<html>", NULL, NULL },
	{ &stream, "\"text\"", NULL, NULL },
	{ &stream, "{]", NULL, NULL },
	{ &stream, "{\"a\":1]", NULL, NULL },
	{ &stream, "{\"a\" 1}", NULL, NULL },
	{ &stream, "{a:1}", NULL, NULL },
	{ &stream, "{\"a\":}", NULL, NULL },
	{ &stream, "{\"a\":1 2}", NULL, NULL },
	{ &stream, "{}}", "{}", NULL },
	{ &stream, "{\"spec\":{\"unschedulable\":tru}}", NULL, NULL },
	{ &stream, "{\"metadata\":{\"name\":\"a\",\"name\":\"b\"}}", NULL, NULL },
	{ &stream, "{\"metadata\":{\"name\":\"stop\"}}{\"metadata\":{\"name\":\"never\"}}", NULL, NULL },
	{ &list, "{\"items\":[]}{}", NULL, NULL },
	{ &list, "", NULL, NULL },
	{ &list, "{\"items\":[{\"metadata\":{\"name\":\"a\"}}", "{\"metadata\":{\"name\":\"a\"}}", NULL },
};

static void test_rows(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		for (size_t piece = 1; piece < 40; piece++) {
			const struct row *r = &rows[i];
			struct err err = { 0 };
			auto_str char *got = NULL, *left = NULL;
			int result = json_stream(r->table, r->text, piece, &got, &left, &err);
			expect(result == (r->rest ? 0 : -1), r->text);
			expect(result == 0 || err.code == E_SERVER || err.code == E_CONFLICT, r->text);
			expect(str_eq(got, r->want) || got == r->want, got ? got : r->text);
			expect(!r->rest || str_eq(left, r->rest), left);
		}
	}
}

static void test_bounds(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_str char *deep = NULL, *got = NULL, *left = NULL;
	for (int i = 0; i < 100; i++)
		str_add(&deep, "[");
	assert_int_equal(json_stream(&stream, deep, 7, &got, &left, &err), -1);
	assert_int_equal(err.code, E_SERVER);
	size_t len = JSON_STREAM_RECORD_MAX + 10;
	auto_str char *long_text = mem_alloc(len + 1);
	memset(long_text, 'x', len);
	auto_str char *kept = str_fmt("{\"metadata\":{\"name\":\"%s\"}}", long_text);
	assert_int_equal(json_stream(&stream, kept, 4096, &got, &left, &err), -1);
	assert_int_equal(err.code, E_TOO_LARGE);
	auto_str char *passed = str_fmt("{\"status\":{\"images\":\"%s\"},\"%s\":1}", long_text, long_text);
	assert_int_equal(json_stream(&stream, passed, 4096, &got, &left, &err), 0);
	assert_string_equal(got, "{\"status\":{}}");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_rows), cmocka_unit_test(test_bounds) };
	return cmocka_run_group_tests_name("sift", tests, NULL, NULL);
}
