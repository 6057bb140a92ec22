// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/hub.h"

static int get(struct setup *s, const char *ref, struct err *err)
{
	auto_str char *data = NULL;
	char hex[DIGEST_HEX + 1];
	size_t len = 0;
	int r = repository_manifest(s->repository, ref, &data, &len, hex, err);
	assert_true(r <= 0 || str_eq(data, DOCUMENT));
	return r;
}

static void test_manifests(void **state)
{
	(void)state;
	static const char *const unthinkable[] = { "",      "a/b", "..",        ".x",  "-x", "a b",
						   "a?n=1", "a#",  "sha256:12", "a+b", "%2e" };
	auto_setup struct setup s;
	struct err err = { 0 };
	setup_start(&s, (struct hub){ 0 }, NULL);
	assert_int_equal(get(&s, "one", &err), 1);
	assert_int_equal(get(&s, "two", &err), 0);
	char hex[DIGEST_HEX + 1];
	digest_data(DOCUMENT, strlen(DOCUMENT), hex);
	auto_str char *right = oci_digest_text(hex), *wrong = oci_digest_text(SUBJECT);
	assert_int_equal(get(&s, right, &err), 1);
	assert_int_equal(get(&s, wrong, &err), -1);
	assert_int_equal(err.code, E_DIGEST);
	size_t asked = server_count(&s.server);
	for (size_t i = 0; i < ARRAY_SIZE(unthinkable); i++)
		expect(get(&s, unthinkable[i], &err) == 0, unthinkable[i]);
	assert_int_equal(server_count(&s.server), asked);
}

static void test_authentication(void **state)
{
	(void)state;
	static const struct {
		const char *name, *auths;
		struct hub hub;
		int code; // 0 = let in
		const char *text;
		size_t tokens; // requests for one
	} rows[] = {
		{ "anonymous", NULL, { .wants = BEARER }, 0, NULL, 1 },
		{ "with a password", "{\"auth\":\"dTpw\"}", { .wants = BEARER }, 0, NULL, 1 },
		{ "access_token", NULL, { .wants = BEARER, .token_reply = "{\"access_token\":\"good\"}" }, 0, NULL, 1 },
		{ "both",
		  NULL,
		  { .wants = BEARER, .token_reply = "{\"token\":\"\",\"access_token\":\"good\"}" },
		  0,
		  NULL,
		  1 },
		{ "token server busy", NULL, { .wants = BEARER, .token_fails = 1 }, 0, NULL, 2 },
		{ "more rights", NULL, { .wants = BEARER, .first_scope = "repository:a/b:pull" }, 0, NULL, 2 },
		{ "basic", "{\"auth\":\"dTpw\"}", { .wants = BASIC }, 0, NULL, 0 },
		{ "identity", "{\"auth\":\"dTo=\",\"identitytoken\":\"re fresh\"}", { .wants = BEARER }, 0, NULL, 1 },
		{ "wrong token",
		  NULL,
		  { .wants = BEARER, .token_reply = "{\"token\":\"bad\"}" },
		  E_AUTH,
		  "status 401",
		  2 },
		{ "wrong password",
		  "{\"auth\":\"eDp5\"}",
		  { .wants = BASIC },
		  E_AUTH,
		  "config.json', entry '127.0.0.1:",
		  0 },
		{ "no password", NULL, { .wants = BASIC }, E_AUTH, "no entry for '127.0.0.1:", 0 },
		{ "broken password", "{\"auth\":\"?\"}", { .wants = BASIC }, E_CONFIG, "base64", 0 },
		{ "no token", NULL, { .wants = BEARER, .token_reply = "{}" }, E_AUTH, "neither token nor", 1 },
		{ "html token", NULL, { .wants = BEARER, .token_reply = "<html>" }, E_AUTH, "not valid JSON", 1 },
		{ "split token",
		  NULL,
		  { .wants = BEARER, .token_reply = "{\"token\":\"a\\r\\nX: y\"}" },
		  E_AUTH,
		  "",
		  1 },
		{ "refused token", NULL, { .wants = BEARER, .token_status = "403 No" }, E_AUTH, "403", 1 },
		{ "broken token server", NULL, { .wants = BEARER, .token_status = "500 No" }, E_SERVER, "/token", 4 },
		{ "no realm", NULL, { .wants = BEARER, .realm = "" }, E_AUTH, "no entry for '127.0.0.1:", 0 },
		{ "odd realm",
		  NULL,
		  { .wants = BEARER, .realm = "file:///etc/passwd" },
		  E_AUTH,
		  "refusing to request a token",
		  0 },
		{ "unknown way", NULL, { .wants = UNKNOWN }, E_AUTH, "status 401", 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_setup struct setup s;
		struct err err = { 0 };
		setup_start(&s, rows[i].hub, rows[i].auths);
		int r = get(&s, "one", &err);
		auto_str char *row =
			str_fmt("%s: %d '%s' tokens %zu", rows[i].name, err.code, err.text, server_count(&s.tokens));
		expect(r == (rows[i].code ? -1 : 1) && (r > 0 || err.code == rows[i].code), row);
		expect(server_count(&s.tokens) == rows[i].tokens, row);
		expect(r > 0 || strstr(err.text, rows[i].text), row);
		expect(r < 0 || get(&s, "one", &err) == 1, row); // what was learnt is kept
		expect(server_count(&s.tokens) == rows[i].tokens, row);
	}
}

static void test_token_requests(void **state)
{
	(void)state;
	static const struct {
		const char *auths, *line, *authorization;
	} rows[] = {
		{ NULL, "GET /token?account=x&service=the%20%22hub%22%20%26%20co&scope=repository%3Aa%2Fb%3Apull HTTP",
		  NULL },
		{ "{\"auth\":\"dTpw\"}", "GET /token?account=x&service=", "Authorization: Basic dTpw\r\n" },
		{ "{\"auth\":\"dTo=\",\"identitytoken\":\"t\"}", "POST /token?account=x HTTP", NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_setup struct setup s;
		struct err err = { 0 };
		setup_start(&s, (struct hub){ .wants = BEARER }, rows[i].auths);
		assert_int_equal(get(&s, "one", &err), 1);
		auto_str char *head = server_head(&s.tokens, 0), *first = server_head(&s.server, 0);
		expect(str_starts(head, rows[i].line), head);
		expect(rows[i].authorization ? !!strstr(head, rows[i].authorization) : !strstr(head, "Authorization"),
		       head);
		assert_null(strstr(first, "Authorization")); // no credentials before they are asked for
	}
}

#define TOKEN "realm=\"REALM\""

static char *with_realm(const char *field, const char *realm)
{
	const char *at = strstr(field, "REALM");
	return at ? str_fmt("%.*s%s%s", (int)(at - field), field, realm, at + strlen("REALM")) : str_dup(field);
}

// In one field or several, in any order, beside others that nobody here can answer: a token comes before a password,
// and what belongs to one challenge says nothing about another.
static void test_challenges(void **state)
{
	(void)state;
	static const struct {
		enum wants wants;
		const char *first, *second; // fields; NULL = none
		const char *query;          // of the token's request, after ?account=x&; NULL = there is none
	} rows[] = {
		{ BEARER, "Basic realm=\"r\", Bearer " TOKEN ",service=\"x\"", NULL, "service=x&scope=repo" },
		{ BEARER, "Bearer " TOKEN ",service=x, Basic realm=\"r\", service=y", NULL, "service=x&scope=repo" },
		{ BEARER, "Basic realm=\"r\"", "Bearer " TOKEN, "service=&scope=repo" },
		{ BEARER, "Bearer " TOKEN, "Basic realm=\"r\"", "service=&scope=repo" },
		{ BEARER, "Negotiate, Bearer " TOKEN, NULL, "service=&scope=repo" },
		{ BEARER, "Negotiate YIIb/+4=, NTLM TlRM==,Bearer " TOKEN ",scope=s", NULL, "service=&scope=s" },
		{ BEARER, "bearer Realm=\"REALM\",SERVICE=\"x\"", NULL, "service=x&scope=repo" },
		{ BEARER, "Bearer   realm = \"REALM\" ,\tservice =\t\"x\" , scope=", NULL, "service=x&scope=repo" },
		{ BEARER, "Basic realm=\"a, Bearer realm=b\",Bearer " TOKEN, NULL, "service=&scope=repo" },
		{ BEARER, "Bearer " TOKEN ", Digest x=y, service=z, realm=\"http://127.0.0.1:1/\"", NULL,
		  "service=&scope=repo" },
		{ BEARER, "Digest realm=\"r\", Bearer, Bearer realm=\"\", Bearer " TOKEN ", Bearer realm=z", NULL,
		  "service=&scope=repo" },
		{ BEARER, ",, Basic realm=\"r\" ,,\tBearer " TOKEN " ,", NULL, "service=&scope=repo" },
		{ BEARER, "Bearer " TOKEN ",service=\"a\\\"b\\\\, Basic c\"", NULL,
		  "service=a%22b%5C%2C%20Basic%20c&scope=repo" },
		{ BASIC, "Negotiate, Basic realm=\"r\"", NULL, NULL },
		{ BASIC, "Negotiate", "Basic realm=\"r\"", NULL },
		{ BASIC, "Digest realm=\"r\", nonce=\"abc\", qop=\"auth, auth-int\", algorithm=MD5, Basic realm=\"r\"",
		  NULL, NULL },
		{ BASIC, "Basic realm=\"r\", charset=\"UTF-8\"", NULL, NULL },
		{ BASIC, "BASIC", NULL, NULL },
		{ BASIC, "Bearer, Basic", NULL, NULL }, // nobody issues that token
		{ BASIC, "\"Bearer realm=x\" Basic realm=\"unfinished", NULL, NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_setup struct setup s;
		struct err err = { 0 };
		setup_start(&s, (struct hub){ .wants = rows[i].wants }, "{\"auth\":\"dTpw\"}");
		auto_str char *realm = server_url(&s.tokens, "/token?account=x"),
			      *first = with_realm(rows[i].first, realm),
			      *second = rows[i].second ? with_realm(rows[i].second, realm) : NULL;
		auto_str char *fields =
			str_fmt("WWW-Authenticate: %s\r\n%s%s%s", first, second ? "WWW-Authenticate: " : "",
				second ? second : "", second ? "\r\n" : "");
		s.hub.challenges = fields;
		expect(get(&s, "one", &err) == 1, first);
		expect(server_count(&s.tokens) == (rows[i].query != NULL), first);
		auto_str char *head = server_head(&s.tokens, 0),
			      *want = str_fmt("GET /token?account=x&%s", rows[i].query ? rows[i].query : "");
		expect(!rows[i].query || str_starts(head, want), head);
	}
}

static void test_challenges_without_a_way(void **state)
{
	(void)state;
	static const char *const rows[] = {
		"Negotiate",       "",         ",",          "=", "\"", "Basic=x", "Bearer", "Bearer realm",
		"Negotiate Basic", "Bearer\"", "Basics x=y",
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_setup struct setup s;
		struct err err = { 0 };
		setup_start(&s, (struct hub){ .wants = BASIC }, "{\"auth\":\"dTpw\"}");
		auto_str char *fields = str_fmt("WWW-Authenticate: %s\r\n", rows[i]);
		s.hub.challenges = fields;
		expect(get(&s, "one", &err) == -1 && err.code == E_AUTH, rows[i]);
		expect(strstr(err.text, "status 401"), err.text);
		assert_int_equal(server_count(&s.server), 1); // the password went nowhere
	}
}

static void test_no_token_server(void **state)
{
	(void)state;
	auto_setup struct setup s;
	struct err err = { 0 };
	setup_start(&s, (struct hub){ .wants = BEARER, .realm = "http://127.0.0.1:1/token" }, NULL);
	assert_int_equal(get(&s, "one", &err), -1);
	expect(err.code == E_NETWORK && str_starts(err.text, "http://127.0.0.1:1 (tcp)"), err.text);
	// The server of the repository is the one that names the other.
	expect(strstr(err_next_step(&err), "net check docker+http://127.0.0.1:"), err_next_step(&err));
}

static void test_tokens_expire(void **state)
{
	(void)state;
	auto_setup struct setup s;
	struct err err = { 0 };
	setup_start(&s, (struct hub){ .wants = BEARER, .token_reply = "{\"token\":\"good\",\"expires_in\":1}" }, NULL);
	assert_int_equal(get(&s, "one", &err), 1);
	usleep(1100000);
	assert_int_equal(get(&s, "one", &err), 1);
	assert_int_equal(server_count(&s.tokens), 2);
	auto_str char *again = server_head(&s.server, 2);
	assert_null(strstr(again, "Authorization"));
}

static void test_blobs_and_redirects(void **state)
{
	(void)state;
	auto_setup struct setup s;
	struct err err = { 0 };
	struct oci_descriptor d = { .size = 5 };
	setup_start(&s, (struct hub){ .wants = BEARER }, "{\"auth\":\"dTpw\"}");
	s.hub.elsewhere = &s.elsewhere;
	digest_data("hello", 5, d.digest);
	auto_partial_blob struct partial_blob part = PARTIAL_BLOB_NONE;
	assert_int_equal(partial_blob_open(&s.layout, &d, &part, &err), 0);
	struct blob_transfer t = { .part = &part };
	assert_int_equal(repository_begin(s.repository, &t, &err), 0);
	for (int i = 0; i < 50 && !t.is_done; i++)
		assert_int_equal(repository_step(s.repository, &err), 0);
	repository_end(s.repository, &t);
	expect(t.is_done && t.err.code == 0, t.err.text);
	assert_int_equal(partial_blob_commit(&part, &err), 0);
	auto_str char *head = server_head(&s.elsewhere, 0), *asked = server_head(&s.server, 1);
	assert_true(str_starts(head, "GET /data "));
	assert_null(strstr(head, "Authorization"));
	assert_non_null(strstr(asked, "Authorization: Bearer good"));
	auto_str char *data = NULL;
	size_t len = 0;
	assert_int_equal(repository_document(s.repository, &d, &data, &len, &err), 1);
	assert_string_equal(data, "hello");
}

// CVE-2020-15157: the target of a redirect demands a token and names a server that should get the password.
static void test_redirect_target_gets_no_password(void **state)
{
	(void)state;
	static const enum wants rows[] = { BEARER, BASIC };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_setup struct setup s;
		struct err err = { 0 };
		struct oci_descriptor d = { .size = 5 };
		setup_start(&s, (struct hub){ .wants = rows[i], .is_greedy = true }, "{\"auth\":\"dTpw\"}");
		s.hub.elsewhere = &s.elsewhere;
		assert_int_equal(get(&s, "one", &err), 1);
		unsigned tokens = server_count(&s.tokens);
		digest_data("hello", 5, d.digest);
		auto_partial_blob struct partial_blob part = PARTIAL_BLOB_NONE;
		assert_int_equal(partial_blob_open(&s.layout, &d, &part, &err), 0);
		struct blob_transfer t = { .part = &part };
		assert_int_equal(repository_begin(s.repository, &t, &err), 0);
		for (int k = 0; k < 50 && !t.is_done; k++)
			assert_int_equal(repository_step(s.repository, &err), 0);
		repository_end(s.repository, &t);
		expect(t.is_done && t.err.code == E_AUTH && strstr(t.err.text, "redirected to "), t.err.text);
		assert_int_equal(server_count(&s.tokens), tokens);
		assert_true(server_count(&s.elsewhere) > 0);
		for (unsigned k = 0; k < server_count(&s.elsewhere); k++) {
			auto_str char *head = server_head(&s.elsewhere, k);
			expect(!strstr(head, "Authorization"), head);
		}
	}
}

static void test_tags(void **state)
{
	(void)state;
	static const struct {
		const char *reply, *want;
		bool is_evil;
		int code;
	} rows[] = {
		{ NULL, "one,two,three", false, 0 },
		{ "{\"name\":\"a/b\",\"tags\":null}", "", false, 0 },
		{ "{\"tags\":[\"x\",7,\"y\"]}", "x,y", false, 0 },
		{ "{\"tags\":[\"x\"]}", "x", true, 0 }, // another server is not asked
		{ "<html>", NULL, false, E_MANIFEST },
		{ "[]", NULL, false, E_MANIFEST },
		{ "{\"tags\":3}", NULL, false, E_MANIFEST },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_setup struct setup s;
		auto_strv struct strv tags = { 0 };
		struct err err = { 0 };
		setup_start(&s, (struct hub){ .tags = rows[i].reply }, NULL);
		s.hub.elsewhere = rows[i].is_evil ? &s.elsewhere : NULL;
		expect(repository_tags(s.repository, &tags, &err) == (rows[i].code ? -1 : 0), rows[i].reply);
		auto_str char *joined = strv_join(&tags, ",");
		expect(rows[i].code ? err.code == rows[i].code : str_eq(joined, rows[i].want), joined);
		assert_int_equal(server_count(&s.elsewhere), 0);
	}
}

static void test_referrers(void **state)
{
	(void)state;
	static const struct {
		const char *name, *api, *type, *fallback;
		size_t count;
		int code;
	} rows[] = {
		{ "none", NULL, NULL, NULL, 0, 0 },
		{ "fallback", NULL, NULL, INDEX(ENTRY("22222222")), 1, 0 },
		{ "api", INDEX(ENTRY("33333333")), OCI_INDEX, NULL, 1, 0 },
		{ "both", INDEX(ENTRY("33333333") "," ENTRY("22222222")), OCI_INDEX, INDEX(ENTRY("22222222")), 2, 0 },
		{ "a page", "<html>", "text/html", INDEX(ENTRY("22222222")), 1, 0 },
		{ "a bad index", "<html>", OCI_INDEX, NULL, 0, E_MANIFEST },
		{ "a bad fallback", NULL, NULL, "<html>", 0, E_MANIFEST },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_setup struct setup s;
		auto_oci_index struct oci_index x = { 0 };
		struct err err = { 0 };
		setup_start(&s, (struct hub){ .referrers = rows[i].api, .referrers_type = rows[i].type }, NULL);
		s.hub.fallback = str_dup(rows[i].fallback);
		expect(repository_referrers(s.repository, SUBJECT, &x, &err) == (rows[i].code ? -1 : 0), rows[i].name);
		expect(x.count == rows[i].count && (!rows[i].code || err.code == rows[i].code), rows[i].name);
		auto_str char *head = server_head(&s.server, 0);
		expect(strstr(head, "/referrers/") && strstr(head, "Accept: " OCI_INDEX), head);
	}
}

static void test_names(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		bool is_good;
	} rows[] = {
		{ "docker://h/a", true },           { "docker://h:5000/a/b-c/d__e.f", true },
		{ "docker://[::1]:5000/a", true },  { "docker+http://h/a", true },
		{ "docker://h/a--b", true },        { "docker://h", false },
		{ "docker://h/", false },           { "docker:///a", false },
		{ "docker://h/A", false },          { "docker://h/a:tag", false },
		{ "docker://h/a@sha256:0", false }, { "docker://h/a//b", false },
		{ "docker://h/a/", false },         { "docker://h/-a", false },
		{ "docker://h/a..b", false },       { "docker://h/a___b", false },
		{ "docker://u:p@h/a", false },      { "docker://h/../a", false },
		{ "docker://h/a?x", false },        { "docker+http://", false },
		{ "docker://h/a b", false },
	};
	struct http *h = NULL;
	struct err err = { 0 };
	assert_int_equal(http_new(&(struct http_options){ 0 }, &h, &err), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_repository struct repository *r = NULL;
		struct repository_options o = { .http = h };
		expect(repository_open(rows[i].name, &o, &r, &err) == (rows[i].is_good ? 0 : -1), rows[i].name);
		expect(rows[i].is_good || (err.code == E_USAGE && !strstr(err.text, "u:p")), rows[i].name);
	}
	http_free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_manifests),
		cmocka_unit_test(test_authentication),
		cmocka_unit_test(test_token_requests),
		cmocka_unit_test(test_tokens_expire),
		cmocka_unit_test(test_challenges),
		cmocka_unit_test(test_challenges_without_a_way),
		cmocka_unit_test(test_no_token_server),
		cmocka_unit_test(test_blobs_and_redirects),
		cmocka_unit_test(test_tags),
		cmocka_unit_test(test_redirect_target_gets_no_password),
		cmocka_unit_test(test_referrers),
		cmocka_unit_test(test_names),
	};
	return cmocka_run_group_tests_name("registry", tests, NULL, NULL);
}
