// SPDX-License-Identifier: Apache-2.0
#include "cluster/config.h"

#include "base/yaml.h"
#include "tests/unit/tempdir.h"

#define PEM "-----BEGIN X-----\nabc\n-----END X-----\n"
#define PEM64 "LS0tLS1CRUdJTiBYLS0tLS0KYWJjCi0tLS0tRU5EIFgtLS0tLQo="

static const char HEAD[] = "apiVersion: v1\nkind: Config\ncurrent-context: site\ncontexts:\n"
			   "- name: other\n  context: {cluster: gone, user: gone}\n"
			   "- name: site\n  context:\n    cluster: c\n    user: u\n    namespace: gpu\n";

static void test_files(void **state)
{
	(void)state;
	static const struct {
		const char *context, *rest, *error;
	} rows[] = {
		{ NULL,
		  "clusters:\n- name: c\n  cluster: {server: 'https://h:6443/', certificate-authority-data: " PEM64
		  "}\n"
		  "users:\n- name: u\n  user:\n    client-certificate: crt.pem\n    client-key-data: " PEM64 "\n",
		  NULL },
		{ NULL,
		  "clusters: [{name: c, cluster: {server: https://h:6443, certificate-authority: ca.pem}}]\n"
		  "users: [{name: u, user: {tokenFile: sub/token}}]\n",
		  NULL },
		{ "other", "clusters: []\nusers: []\n", "clusters has no 'gone', which the context names" },
		{ "nowhere", "", "contexts has no 'nowhere', which the wish names" },
		{ NULL, "clusters: [{name: c, cluster: {server: ftp://h}}]\nusers: [{name: u, user: {}}]\n",
		  "server is no https address" },
		{ NULL,
		  "clusters: [{name: c, cluster: {server: https://h, insecure-skip-tls-verify: true}}]\n"
		  "users: [{name: u, user: {}}]\n",
		  "insecure-skip-tls-verify is refused" },
		{ NULL,
		  "clusters: [{name: c, cluster: {server: https://h}}]\n"
		  "users: [{name: u, user: {exec: {command: aws}}}]\n",
		  "exec starts a program" },
		{ NULL,
		  "clusters: [{name: c, cluster: {server: https://h}}]\n"
		  "users: [{name: u, user: {auth-provider: {name: gcp}}}]\n",
		  "auth-provider starts a program" },
		{ NULL, "clusters: [{name: c, cluster: {server: https://h}}]\nusers: [{name: u, user: {token: [x]}}]\n",
		  "token is no text" },
		{ NULL,
		  "clusters: [{name: c, cluster: {server: https://h}}]\n"
		  "users: [{name: u, user: {client-certificate: crt.pem}}]\n",
		  "belong together" },
		{ NULL,
		  "clusters: [{name: c, cluster: {server: https://h}}]\n"
		  "users: [{name: u, user: {client-certificate: crt.pem, client-key: none.pem}}]\n",
		  "none.pem" },
		{ NULL,
		  "clusters: [{name: c, cluster: {server: https://h, certificate-authority-data: '!'}}]\n"
		  "users: [{name: u, user: {}}]\n",
		  "certificate-authority-data is no base64" },
		{ NULL,
		  "clusters: [{name: c, cluster: {server: https://h, certificate-authority: token}}]\n"
		  "users: [{name: u, user: {}}]\n",
		  "is not in PEM form" },
		{ NULL, "clusters: &a [*a]\n", "aliases are not followed" },
		{ NULL, "kind: Config\n", "line 12: a key comes twice" },
		{ NULL, "users: {\n", "is not YAML" },
		{ NULL, "---\na: b\n", "a second document follows" },
	};
	auto_folder struct folder folder;
	folder_make(&folder);
	tempdir_write(&folder, "crt.pem", PEM);
	tempdir_write(&folder, "ca.pem", PEM);
	tempdir_write(&folder, "token", "no certificate");
	tempdir_write(&folder, "sub/token", "t0ken\n");
	auto_str char *path = str_fmt("%s/config", folder.path);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_kube_config struct kube_config c = KUBE_CONFIG_NONE;
		auto_str char *text = str_fmt("%s%s", HEAD, rows[i].rest), *token = NULL;
		tempdir_write(&folder, "config", text);
		expect(kube_config_file(path, rows[i].context, &c, &err) == (rows[i].error ? -1 : 0), err.text);
		expect(!rows[i].error || strstr(err.text, rows[i].error), err.text);
		expect(rows[i].error || (str_eq(c.server, "https://h:6443") && str_eq(c.namespace, "gpu")), c.server);
		expect(rows[i].error || str_eq(c.authorities, PEM), c.authorities);
		expect(i != 0 || (str_eq(c.certificate, PEM) && str_eq(c.key, PEM)), rows[i].rest);
		expect(i != 1 || (root_line(&c.token_root, c.token_file, &token, &err) > 0 && str_eq(token, "t0ken")),
		       rows[i].rest);
	}
}

static void test_namespace(void **state)
{
	(void)state;
	static const struct {
		const char *context, *namespace;
	} rows[] = {
		{ "", KUBE_NAMESPACE },
		{ ", namespace: default", KUBE_NAMESPACE },
		{ ", namespace: ''", KUBE_NAMESPACE },
		{ ", namespace: gpu", "gpu" },
	};
	auto_folder struct folder folder;
	folder_make(&folder);
	auto_str char *path = str_fmt("%s/config", folder.path);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_kube_config struct kube_config c = KUBE_CONFIG_NONE;
		auto_str char *text = str_fmt("current-context: x\ncontexts: [{name: x, context: {cluster: c%s}}]\n"
					      "clusters: [{name: c, cluster: {server: https://h}}]\n",
					      rows[i].context);
		tempdir_write(&folder, "config", text);
		expect(kube_config_file(path, NULL, &c, &err) == 0, err.text);
		expect(str_eq(c.namespace, rows[i].namespace), rows[i].context);
	}
}

static void test_no_file(void **state)
{
	(void)state;
	static const char *const texts[] = { "", "just text", "[]", "{\"current-context\": 5}", "\x01\x02" };
	struct err err = { 0 };
	auto_folder struct folder folder;
	folder_make(&folder);
	auto_str char *path = str_fmt("%s/config", folder.path);
	struct kube_config c = KUBE_CONFIG_NONE;
	assert_int_equal(kube_config_file(path, NULL, &c, &err), -1);
	assert_int_equal(kube_config_file(folder.path, NULL, &c, &err), -1);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		tempdir_write(&folder, "config", texts[i]);
		expect(kube_config_file(path, NULL, &c, &err) == -1 && err.code == E_CONFIG, texts[i]);
	}
	auto_str char *deep = NULL;
	for (int i = 0; i < 40; i++)
		str_add(&deep, "[");
	tempdir_write(&folder, "config", deep);
	assert_int_equal(kube_config_file(path, NULL, &c, &err), -1);
	expect(strstr(err.text, "nested too deeply"), err.text);
}

static void test_scalars(void **state)
{
	(void)state;
	static const char text[] =
		"{a: null, b: ~, c: , d: 'null', e: true, f: \"true\", g: 012, h: yes, i: |-\n  x\n}";
	static const char flow[] =
		"a: null\nb: ~\nc:\nd: 'null'\ne: true\nf: \"true\"\ng: 012\nh: yes\ni: |-\n  x\n  y\n";
	struct err err = { 0 };
	auto_json json_t *got = NULL;
	assert_int_equal(yaml_read(text, strlen(text), "t", &got, &err), -1); // a block in a flow
	assert_int_equal(yaml_read(flow, strlen(flow), "t", &got, &err), 0);
	auto_str char *dumped = json_dumps(got, JSON_COMPACT | JSON_SORT_KEYS);
	assert_string_equal(dumped, "{\"a\":null,\"b\":null,\"c\":null,\"d\":\"null\",\"e\":true,\"f\":\"true\","
				    "\"g\":\"012\",\"h\":\"yes\",\"i\":\"x\\ny\"}");
}

static void test_pod(void **state)
{
	(void)state;
	static char host[] = "KUBERNETES_SERVICE_HOST=10.0.0.1", six[] = "KUBERNETES_SERVICE_HOST=fd00::1",
		    port[] = "KUBERNETES_SERVICE_PORT=443", word[] = "KUBERNETES_SERVICE_PORT=https";
	static const char dir[] = "var/run/secrets/kubernetes.io/serviceaccount/";
	static const struct {
		char *env[3];
		const char *files; // t: token, e: an empty one, c: authority, n: namespace
		int result;
		const char *server, *namespace;
	} rows[] = {
		{ { host, port }, "tcn", 1, "https://10.0.0.1:443", "kmodsmith" },
		{ { port, six }, "tc", 1, "https://[fd00::1]:443", "kmodsmith" },
		{ { port }, "tcn", 0, NULL, NULL },
		{ { host, port }, "", 0, NULL, NULL },
		{ { host, port }, "ecn", 0, NULL, NULL },
		{ { host, port }, "tn", -1, NULL, NULL },
		{ { host, word }, "tcn", -1, NULL, NULL },
		{ { host }, "tcn", -1, NULL, NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_folder struct folder folder;
		auto_kube_config struct kube_config c = KUBE_CONFIG_NONE;
		folder_make(&folder);
		for (const char *f = rows[i].files; *f; f++) {
			auto_str char *path = str_fmt("%s%s", dir,
						      *f == 'c' ? "ca.crt" :
						      *f == 'n' ? "namespace" :
								  "token");
			tempdir_write(&folder, path,
				      *f == 'c' ? PEM :
				      *f == 'n' ? "kmodsmith" :
				      *f == 'e' ? "\n" :
						  "t0");
		}
		auto_str char *row = str_fmt("row %zu: %s", i, err.text);
		expect(kube_config_pod(&folder.root, rows[i].env, &c, &err) == rows[i].result, row);
		expect(str_eq(c.server, rows[i].server) || c.server == rows[i].server, row);
		expect(str_eq(c.namespace, rows[i].namespace) || c.namespace == rows[i].namespace, row);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_files), cmocka_unit_test(test_namespace),
					    cmocka_unit_test(test_no_file), cmocka_unit_test(test_scalars),
					    cmocka_unit_test(test_pod) };
	return cmocka_run_group_tests_name("kube_config", tests, NULL, NULL);
}
