// SPDX-License-Identifier: Apache-2.0
// Files for build --matrix: what they say, and what is wrong in them.
#include "acquire/matrix.h"
#include "tests/unit/test.h"

#define HEX "75b83788bfc2c15b0faff8c39176f5b551f8af29d6605add7023262328111991"

static const char WHOLE[] =
	"{\"drivers\":[{\"source\":\"a.deb\",\"flavours\":[\"open\",\"proprietary\"],\"sha256\":\"" HEX "\"},"
	"{\"source\":\"/abs/b.run\"}],"
	"\"kernels\":[{\"release\":\"6.1\",\"headers\":[\"h.deb\",\"/h2.deb\"]},{\"release\":\"6.12\"}],"
	"\"skip\":[{\"driver\":\"470.*\",\"kernel\":\"6.12*\",\"why\":\"old\"},{\"driver\":\"999\",\"why\":\"odd\"},"
	"{\"kernel\":\"5.*\",\"why\":\"gone\"}],"
	"\"modules\":[\"nvidia\",\"uvm\"],\"patches\":\"p\"}";

static void reads_a_file(void **state)
{
	(void)state;
	static const struct {
		const char *file, *source, *headers, *patches;
	} rows[] = {
		{ "m.json", "a.deb", "h.deb", "p" },
		{ "ci/m.json", "ci/a.deb", "ci/h.deb", "ci/p" },
		{ "/ci/m.json", "/ci/a.deb", "/ci/h.deb", "/ci/p" },
		{ "/m.json", "/a.deb", "/h.deb", "/p" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err;
		auto_matrix struct matrix m = { 0 };
		expect(matrix_parse(WHOLE, strlen(WHOLE), rows[i].file, false, &m, &err) == 0, rows[i].file);
		assert_int_equal(m.driver_count, 2);
		assert_int_equal(m.kernel_count, 2);
		assert_string_equal(m.drivers[0].source, rows[i].source);
		assert_string_equal(m.drivers[1].source, "/abs/b.run");
		assert_string_equal(m.drivers[0].sha256, HEX);
		assert_null(m.drivers[1].sha256);
		assert_int_equal(m.drivers[0].flavours, MODULE_TYPE_OPEN | MODULE_TYPE_PROPRIETARY);
		assert_int_equal(m.drivers[1].flavours, 0);
		assert_string_equal(m.kernels[0].release, "6.1");
		assert_string_equal(m.kernels[0].headers.items[0], rows[i].headers);
		assert_string_equal(m.kernels[0].headers.items[1], "/h2.deb");
		assert_int_equal(m.kernels[1].headers.count, 0);
		assert_int_equal(m.modules.count, 2);
		assert_string_equal(m.patches, rows[i].patches);
	}
}

static void pairs_are_skipped_by_globs(void **state)
{
	(void)state;
	static const struct {
		const char *driver, *release, *why;
	} rows[] = {
		{ "470.256.02", "6.12.1", "old" }, { "470.256.02", "6.1.0", NULL }, { "535.1", "6.12.1", NULL },
		{ "999", "6.1", "odd" },           { "9999", "6.1", NULL },         { "535.1", "5.10", "gone" },
	};
	struct err err;
	auto_matrix struct matrix m = { 0 };
	assert_int_equal(matrix_parse(WHOLE, strlen(WHOLE), "m", false, &m, &err), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *why = matrix_skipped(&m, rows[i].driver, rows[i].release);
		expect(rows[i].why ? str_eq(why, rows[i].why) : !why, rows[i].driver);
	}
}

#define D "\"drivers\":[{\"source\":\"a\"}]"
#define K "\"kernels\":[{\"release\":\"6.1\"}]"

static void errors_name_the_entry(void **state)
{
	(void)state;
	static const struct {
		const char *text, *says;
	} rows[] = {
		{ "", "not valid JSON at line 1" },
		{ "{" D "," K ",\"modules\":[],\"modules\":[]}", "not valid JSON at line 1" },
		{ "[]", "is not a JSON object" },
		{ "{" D "}", "kernels is not a list with at least one entry" },
		{ "{" K "}", "drivers is not a list with at least one entry" },
		{ "{\"drivers\":[]," K "}", "drivers is not a list with at least one entry" },
		{ "{\"drivers\":{\"source\":\"a\"}," K "}", "drivers is not a list with at least one entry" },
		{ "{" D "," K ",\"kernel\":[]}", "kernel is unknown; did you mean 'kernels'?" },
		{ "{" D "," K ",\"skip modules\":[]}", "skip modules is unknown" },
		{ "{\"drivers\":[\"a\"]," K "}", "drivers[0]" },
		{ "{\"drivers\":[{\"source\":\"a\"},{}]," K "}", "drivers[1].source is missing" },
		{ "{\"drivers\":[{\"source\":\"\"}]," K "}", "drivers[0].source is not a string" },
		{ "{\"drivers\":[{\"source\":1}]," K "}", "drivers[0].source is not a string" },
		{ "{\"drivers\":[{\"source\":\"a\"},{\"source\":\"a\"}]," K "}",
		  "drivers[1].source is also that of another" },
		{ "{\"drivers\":[{\"source\":\"a\",\"flavour\":\"open\"}]," K "}", "drivers[0].flavour is unknown" },
		{ "{\"drivers\":[{\"source\":\"a\",\"flavours\":[\"auto\"]}]," K "}", "an entry other than open" },
		{ "{\"drivers\":[{\"source\":\"a\",\"flavours\":[]}]," K "}", "drivers[0].flavours is empty" },
		{ "{\"drivers\":[{\"source\":\"a\",\"flavours\":\"open\"}]," K "}",
		  "drivers[0].flavours is not a list" },
		{ "{\"drivers\":[{\"source\":\"a\",\"sha256\":\"75\"}]," K "}", "drivers[0].sha256 is not a digest" },
		{ "{" D ",\"kernels\":[{\"release\":\"../x\"}]}", "kernels[0].release is not a kernel release" },
		{ "{" D ",\"kernels\":[{\"release\":\"6.1\"},{\"release\":\"6.1\"}]}",
		  "kernels[1].release is also that of" },
		{ "{" D ",\"kernels\":[{\"release\":\"6.1\",\"headers\":[1]}]}", "kernels[0].headers has an entry" },
		{ "{" D "," K ",\"skip\":{}}", "skip is not a list" },
		{ "{" D "," K ",\"skip\":[{\"why\":\"x\"}]}", "skip[0].driver and kernel are both missing" },
		{ "{" D "," K ",\"skip\":[{\"driver\":\"x\"}]}", "skip[0].why is missing" },
		{ "{" D "," K ",\"modules\":\"nvidia\"}", "modules is not a list" },
		{ "{" D "," K ",\"patches\":[]}", "patches is not a string" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err;
		auto_matrix struct matrix m = { 0 };
		expect(matrix_parse(rows[i].text, strlen(rows[i].text), "m.json", false, &m, &err) == -1, rows[i].text);
		expect(err.code == E_CONFIG && strstr(err.text, "'m.json'") && strstr(err.text, rows[i].says),
		       err.text);
		expect(!m.drivers && !m.kernels, rows[i].text);
	}
}

#define NODE(name, release, more)                                                                              \
	"{\"metadata\":{\"name\":\"" name "\"" more "},\"status\":{\"nodeInfo\":{\"kernelVersion\":\"" release \
	"\",\"architecture\":\"amd64\"}}}"
#define NEXT(list) ",\"annotations\":{\"kmodsmith.io/agent.kernels\":\"" list "\"}"
#define ITEMS(items) "{\"kind\":\"List\",\"items\":[" items "]}"

static void nodes_add_their_kernels(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		const char *kernels; // of the matrix afterwards
		size_t nodes, others, added, bad;
		const char *says; // of the first bad one
	} rows[] = {
		{ ITEMS(""), "6.1", 0, 0, 0, 0, NULL },
		{ ITEMS(NODE("a", "6.1", "") "," NODE("b", "6.12.1+deb12-amd64", "") "," NODE("c", "6.12.1+deb12-amd64",
											      "")),
		  "6.1 6.12.1+deb12-amd64", 3, 0, 1, 0, NULL },
		{ ITEMS(NODE("a", "6.5", NEXT("[\\\"6.6\\\",\\\"6.5\\\"]"))), "6.1 6.5 6.6", 1, 0, 2, 0, NULL },
		{ ITEMS("{\"status\":{\"nodeInfo\":{\"kernelVersion\":\"6.5\",\"architecture\":\"arm64\"}}}"), "6.1", 1,
		  1, 0, 0, NULL },
		{ ITEMS("{\"status\":{\"nodeInfo\":{\"kernelVersion\":\"6.5\"}}}"), "6.1 6.5", 1, 0, 1, 0, NULL },
		{ ITEMS("{\"status\":{\"nodeInfo\":{\"architecture\":7}}},{},7,[]," NODE("x\\n", "6.6", "")), "6.1 6.6",
		  5, 1, 1, 3, "items[1] (node '?') reports" },
		{ ITEMS(NODE("n-1", "../etc", "") "," NODE("b", "6.5", "")), "6.1 6.5", 2, 0, 1, 1,
		  "items[0] (node 'n-1')" },
		{ ITEMS(NODE("b", "6.5\\u0000x", "")), "6.1", 1, 0, 0, 1, "not a kernel release" },
		{ ITEMS(NODE("b", "6.5\\nx", "")), "6.1", 1, 0, 0, 1, "not a kernel release" },
		{ ITEMS(NODE("b", "", "")), "6.1", 1, 0, 0, 1, "not a kernel release" },
		{ ITEMS(NODE("b", "6" HEX, "")), "6.1", 1, 0, 0, 1, "not a kernel release" },
		{ ITEMS(NODE("b", "6.5", NEXT("6.6"))), "6.1 6.5", 1, 0, 1, 1, "agent.kernels" },
		{ ITEMS(NODE("b", "6.5", NEXT("[6.6]"))), "6.1 6.5", 1, 0, 1, 1, "not a kernel release" },
		{ ITEMS(NODE("b", "6.5", NEXT(HEX HEX HEX HEX "[]"))), "6.1 6.5", 1, 0, 1, 1, "at most 256 bytes" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		static const char base[] = "{" D "," K "}";
		struct err err;
		struct matrix_nodes found;
		auto_strv struct strv releases = { 0 };
		auto_matrix struct matrix m = { 0 };
		assert_int_equal(matrix_parse(base, strlen(base), "m", true, &m, &err), 0);
		expect(matrix_nodes_add(rows[i].text, strlen(rows[i].text), "n.json", "x86_64", &m, &found, &err) == 0,
		       rows[i].text);
		for (size_t k = 0; k < m.kernel_count; k++)
			strv_add(&releases, str_dup(m.kernels[k].release));
		auto_str char *kernels = strv_join(&releases, " ");
		expect(str_eq(kernels, rows[i].kernels), kernels);
		expect(found.nodes == rows[i].nodes && found.others == rows[i].others &&
			       found.kernels == rows[i].added && found.bad == rows[i].bad,
		       rows[i].text);
		expect(!rows[i].says || strstr(found.first_bad.text, rows[i].says), rows[i].text);
	}
}

static void limits_the_kernels_of_nodes(void **state)
{
	(void)state;
	auto_str char *text = str_dup("{\"items\":[");
	auto_matrix struct matrix m = { 0 };
	struct matrix_nodes found;
	struct err err;
	for (int i = 0; i < 300; i++)
		str_add(&text, "%s{\"status\":{\"nodeInfo\":{\"kernelVersion\":\"6.%d\"}}}", i ? "," : "", i);
	str_add(&text, "]}");
	assert_int_equal(matrix_parse("{" D "}", strlen("{" D "}"), "m", true, &m, &err), 0);
	assert_int_equal(matrix_nodes_add(text, strlen(text), "n", "x86_64", &m, &found, &err), 0);
	assert_int_equal(m.kernel_count, 256);
	assert_int_equal(found.bad, 300 - 256);
}

static void refuses_what_is_not_a_list_of_nodes(void **state)
{
	(void)state;
	static const char *const texts[] = {
		"", "[]", "{}", "{\"items\":{}}", "{\"items\":[],\"items\":[]}", "{\"items\":["
	};
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		auto_matrix struct matrix m = { 0 };
		struct matrix_nodes found;
		struct err err;
		expect(matrix_nodes_add(texts[i], strlen(texts[i]), "n.json", "x86_64", &m, &found, &err) == -1,
		       texts[i]);
		expect(err.code == E_CONFIG && strstr(err.text, "'n.json'"), err.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_a_file),
		cmocka_unit_test(pairs_are_skipped_by_globs),
		cmocka_unit_test(errors_name_the_entry),
		cmocka_unit_test(nodes_add_their_kernels),
		cmocka_unit_test(limits_the_kernels_of_nodes),
		cmocka_unit_test(refuses_what_is_not_a_list_of_nodes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
