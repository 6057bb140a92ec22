// SPDX-License-Identifier: Apache-2.0
// R-N2: statements of how a package was built: what contradicts a package, and how many keys have to sign one.
#include "precompiled/repository/artifact.h"
#include "precompiled/trust/signature_internal.h"
#include "precompiled/trust/statement.h"
#include "tests/unit/test.h"
#include "tests/unit/vouch.h"

#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER "f123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static json_t *text_json(const char *text)
{
	json_error_t problem;
	json_t *ret = json_loads(text, 0, &problem);
	assert_non_null(ret);
	return ret;
}

#define SAYS(subject, driver, internal, dependencies)                                                     \
	"{\"subject\":[{\"digest\":{\"sha256\":\"" subject "\"}}],\"predicate\":{\"buildDefinition\":{"   \
	"\"externalParameters\":{\"driver\":" driver ",\"flavour\":\"open\",\"kernel\":\"6.1\",\"arch\":" \
	"\"x86_64\",\"modules\":[\"nvidia\",\"nvidia-uvm\"]},\"internalParameters\":{" internal "},"      \
	"\"resolvedDependencies\":[" dependencies "]}}}"
#define INPUT(name, hex) "{\"name\":\"" name "\",\"digest\":{\"sha256\":\"" hex "\"}}"

static void test_contradictions(void **state)
{
	(void)state;
	static const struct {
		const char *statement, *why; // NULL = it agrees
	} rows[] = {
		{ SAYS(HEX64, "\"535\"", "\"compiler\":\"gcc\"", INPUT("driver-source", HEX64)), NULL },
		{ SAYS(HEX64, "\"535\"", "\"compiler\":\"gcc\"",
		       INPUT("kernel-headers", OTHER) "," INPUT("driver-source", HEX64)),
		  NULL },
		{ SAYS(OTHER, "\"535\"", "\"compiler\":\"gcc\"", INPUT("driver-source", HEX64)), "another manifest" },
		{ SAYS(HEX64, "\"550\"", "\"compiler\":\"gcc\"", INPUT("driver-source", HEX64)), "driver '550'" },
		{ SAYS(HEX64, "7", "\"compiler\":\"gcc\"", INPUT("driver-source", HEX64)), "driver ''" },
		{ SAYS(HEX64, "\"535\"", "", INPUT("driver-source", HEX64)), "compiler ''" },
		{ SAYS(HEX64, "\"535\"", "\"compiler\":\"gcc\",\"moduleSigner\":\"x\"", INPUT("driver-source", HEX64)),
		  "signer of its modules 'x'" },
		{ SAYS(HEX64, "\"535\"", "\"compiler\":\"gcc\"", INPUT("driver-source", OTHER)), "driver source" },
		{ SAYS(HEX64, "\"535\"", "\"compiler\":\"gcc\"", INPUT("driver-source", "short")), "driver source ''" },
		{ SAYS(HEX64, "\"535\"", "\"compiler\":\"gcc\"", ""), "driver source ''" },
		{ SAYS(HEX64, "\"535\"", "\"compiler\":\"gcc\"",
		       INPUT("driver-source", HEX64) "," INPUT("patch/one.patch", OTHER)),
		  "patches 'one.patch " OTHER "'" },
		{ "{}", "another manifest" },
		{ "[]", "another manifest" },
	};
	auto_json json_t *labels = text_json(
		"{\"io.kmodsmith.driver\":\"535\",\"io.kmodsmith.flavour\":\"open\",\"io.kmodsmith.kernel.release\":"
		"\"6.1\",\"io.kmodsmith.arch\":\"x86_64\",\"io.kmodsmith.modules\":\"nvidia,nvidia-uvm\","
		"\"io.kmodsmith.compiler\":\"gcc\",\"io.kmodsmith.source\":\"" HEX64 "\"}");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_json json_t *statement = text_json(rows[i].statement);
		auto_str char *why = statement_contradiction(statement, HEX64, labels);
		expect(rows[i].why ? why && strstr(why, rows[i].why) : !why, rows[i].statement);
	}
}

// Of the package without labels that the layout has.
static void put_statement(const struct vouch *v, const char *kernel)
{
	struct err err = { 0 };
	auto_json json_t *predicate =
		kernel ? json_pack("{s:{s:s, s:{s:s}}}", "buildDefinition", "buildType", STATEMENT_BUILD_TYPE,
				   "externalParameters", "kernel", kernel) :
			 json_pack("{s:{s:s}}", "buildDefinition", "buildType", STATEMENT_BUILD_TYPE);
	statement_put(&v->l, &v->package, "package", predicate, &err);
	assert_string_equal(err.text, "");
}

static void test_threshold(void **state)
{
	(void)state;
	auto_vouch struct vouch v;
	auto_str char *text = NULL;
	vouch_make(&v);
	struct trust_rule one = vouch_rule(&v, 2, 1), both = vouch_rule(&v, 2, 2), none = vouch_rule(&v, 0, 1);
	one.prefix = both.prefix = none.prefix = "";
	one.is_statement_required = both.is_statement_required = none.is_statement_required = true;
	vouch_sign(&v, &v.package, 0);
	vouch_sign(&v, &v.package, 1);
	assert_int_equal(vouch_check(&v, &one, &text), E_UNSIGNED);
	assert_non_null(strstr(text, "the statement of how it was built, which the policy for '' requires"));
	put_statement(&v, NULL);
	assert_int_equal(vouch_check(&v, &one, NULL), E_UNSIGNED); // that it is there says nothing
	assert_int_equal(vouch_sign(&v, &v.package, 0), 1);
	assert_int_equal(vouch_sign(&v, &v.package, 0), 0);
	assert_int_equal(vouch_check(&v, &one, NULL), 0);
	assert_int_equal(vouch_check(&v, &both, NULL), E_UNTRUSTED);
	assert_int_equal(vouch_sign(&v, &v.package, 2), 1); // carol's does not count
	assert_int_equal(vouch_check(&v, &both, NULL), E_UNTRUSTED);
	assert_int_equal(vouch_sign(&v, &v.package, 1), 1);
	assert_int_equal(vouch_check(&v, &both, NULL), 0);
	none.is_unsigned_accepted = true; // of an unsigned package too
	assert_int_equal(vouch_check(&v, &none, NULL), E_UNTRUSTED);
}

static void test_false_one_is_not_signed(void **state)
{
	(void)state;
	auto_vouch struct vouch v;
	auto_json json_t *read = NULL;
	struct err err = { 0 };
	vouch_make(&v);
	struct signature_maker maker = vouch_maker(&v, 0);
	put_statement(&v, "6.1");
	assert_int_equal(signature_make(&v.l, &v.package, &maker, &err), -1);
	assert_int_equal(err.code, E_FORGED);
	put_statement(&v, NULL); // takes its place
	assert_int_equal(signature_make(&v.l, &v.package, &maker, &err), 1);
	assert_int_equal(statement_read(v.r, v.package.digest, &read, &err), 1);
	assert_null(json_object_get(statement_external(read), "kernel"));
	json_t *absent = NULL;
	assert_int_equal(statement_read(v.r, v.other.digest, &absent, &err), 0);
}

// What another program says of the package does not hide what we said.
static void test_foreign_one_is_passed_over(void **state)
{
	(void)state;
	auto_vouch struct vouch v;
	auto_json json_t *foreign = json_pack("{s:s, s:s, s:[]}", "_type", "https://in-toto.io/Statement/v1",
					      "predicateType", "https://example.com/reviewed/v1", "subject"),
			 *read = NULL;
	auto_oci_descriptor struct oci_descriptor d = { 0 };
	struct err err = { 0 };
	vouch_make(&v);
	assert_int_equal(artifact_put(&v.l, STATEMENT_TYPE, &v.package, foreign, &d, &err), 0);
	assert_int_equal(layout_publish(&v.l, &d, NULL, &err), 0);
	assert_int_equal(statement_read(v.r, v.package.digest, &read, &err), 0);
	put_statement(&v, NULL);
	assert_int_equal(statement_read(v.r, v.package.digest, &read, &err), 1);
	assert_string_equal(json_string_value(json_object_get(read, "predicateType")), STATEMENT_PREDICATE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_contradictions),
		cmocka_unit_test(test_threshold),
		cmocka_unit_test(test_false_one_is_not_signed),
		cmocka_unit_test(test_foreign_one_is_passed_over),
	};
	return cmocka_run_group_tests_name("statement", tests, NULL, NULL);
}
