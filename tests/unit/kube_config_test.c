// SPDX-License-Identifier: Apache-2.0
#include "cluster/kube/kubeconfig.h"

#include "base/formats/yaml.h"
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
		  "users:\n- name: u\n  user:\n    client-certificate: crt.pem\n    client-key-data: \"" PEM64
		  "\\n\"\n",
		  NULL },
		{ NULL,
		  "clusters: [{name: c, cluster: {server: https://h:6443, certificate-authority: ca.pem}}]\n"
		  "users: [{name: u, user: {tokenFile: sub/token}}]\n",
		  NULL },
		{ "other", "clusters: []\nusers: []\n", "clusters has no 'gone', which the context names" },
		{ "nowhere", "", "contexts has no 'nowhere', which the request names" },
		{ NULL, "clusters: [{name: c, cluster: {server: ftp://h}}]\nusers: [{name: u, user: {}}]\n",
		  "server is not an https address" },
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
		  "token is not a string" },
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
		  "certificate-authority-data is not valid base64" },
		{ NULL,
		  "clusters: [{name: c, cluster: {server: https://h, certificate-authority: token}}]\n"
		  "users: [{name: u, user: {}}]\n",
		  "is not in PEM form" },
		{ NULL, "clusters: &a [*a]\n", "aliases are not supported" },
		{ NULL, "kind: Config\n", "line 12: a key occurs twice" },
		{ NULL, "users: {\n", "not valid YAML" },
		{ NULL, "---\na: b\n", "more than one document" },
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

#define CLUSTER "clusters: [{name: c, cluster: {server: https://h}}]\n"
#define USER(user) CLUSTER "users: [{name: u, user: {" user "}}]\n"
#define SERVER(more) "clusters: [{name: c, cluster: {" more "}}]\nusers: [{name: u, user: {}}]\n"

// What is not done is named, and nothing is passed over in silence.
static void test_refused(void **state)
{
	(void)state;
	static const struct {
		const char *rest, *error; // error NULL = it is taken
	} rows[] = {
		{ USER("username: x"), "username is a password, which no API server takes" },
		{ USER("as: admin"), "as is impersonation, which kmodsmith does not do" },
		{ USER("exec: null, token: t"), NULL }, // as tools write it
		{ USER("client-key: key.pem"),
		  "client-certificate and client-key belong together, and one is missing" },
		{ USER("client-certificate: [x]"), "client-certificate-data is not valid base64" },
		{ USER("tokenFile: {}"), "token is not a string" },
		{ USER("tokenFile: none.pem/token"), "tokenFile" },
		{ USER("client-certificate: crt.pem, client-key: token"), "client-key is not in PEM form" },
		// the data, of which only the beginning is PEM
		{ USER("client-certificate: crt.pem, client-key-data: "
		       "LS0tLS1CRUdJTiBYLS0tLS0KYWJjCi0tLS0tRU5EIFgtLS0tLQoA"),
		  "client-key is not in PEM form" },
		{ SERVER("server: https://h, proxy-url: http://p"), "proxy-url is not supported" },
		{ SERVER("server: https://h, tls-server-name: x"), "tls-server-name is not supported" },
		{ SERVER("server: https://h, insecure-skip-tls-verify: false"), NULL },
		{ SERVER("certificate-authority: ca.pem"), "server is not an https address" },
		{ SERVER("server: ''"), "server is not an https address" },
		{ SERVER("server: http://127.0.0.1:8001"), NULL }, // kubectl proxy
		{ SERVER("server: https://h, certificate-authority: none.pem"), "certificate-authority" },
		{ CLUSTER "users: []\n", "users has no 'u', which the context names" },
	};
	auto_folder struct folder folder;
	folder_make(&folder);
	tempdir_write(&folder, "crt.pem", PEM);
	tempdir_write(&folder, "key.pem", PEM);
	tempdir_write(&folder, "ca.pem", PEM);
	tempdir_write(&folder, "token", "no certificate");
	auto_str char *path = str_fmt("%s/config", folder.path);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_kube_config struct kube_config c = KUBE_CONFIG_NONE;
		auto_str char *text = str_fmt("%s%s", HEAD, rows[i].rest);
		tempdir_write(&folder, "config", text);
		expect(kube_config_file(path, NULL, &c, &err) == (rows[i].error ? -1 : 0), rows[i].rest);
		expect(!rows[i].error || (strstr(err.text, rows[i].error) && strstr(err.text, path)), err.text);
		bool is_elsewhere = strstr(rows[i].rest, "none.pem"); // what is wrong is another file
		expect(!rows[i].error || (err.code == E_CONFIG) != is_elsewhere, err.text);
		expect(!rows[i].error || !c.server, rows[i].rest); // nothing of it is taken
	}
}

// A context is a cluster, and a user if it names one.
static void test_contexts(void **state)
{
	(void)state;
	static const struct {
		const char *head, *error, *token;
	} rows[] = {
		{ "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n", NULL, "t0" },
		{ "current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n", NULL, NULL },
		{ "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: ''}}]\n", NULL, NULL },
		{ "current-context: x\ncontexts: [{name: x, context: {user: u}}]\n", "context names no cluster", NULL },
		{ "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: [u]}}]\n",
		  "context names no cluster", NULL },
		{ "current-context: x\ncontexts: [{name: x, context: {cluster: c, namespace: 7}}]\n", NULL, NULL },
		{ "current-context: x\ncontexts: [{name: x}]\n", "context names no cluster", NULL },
		{ "contexts: [{name: x, context: {cluster: c}}]\n",
		  "current-context is not set, and no context was named", NULL },
		{ "current-context: ''\ncontexts: [{name: '', context: {cluster: c}}]\n",
		  "current-context is not set, and no context was named", NULL },
		{ "current-context: y\ncontexts: [{name: x, context: {cluster: c}}]\n",
		  "contexts has no 'y', which the request names", NULL },
	};
	auto_folder struct folder folder;
	folder_make(&folder);
	auto_str char *path = str_fmt("%s/config", folder.path);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_kube_config struct kube_config c = KUBE_CONFIG_NONE;
		auto_str char *text = str_fmt("%s%s", rows[i].head, USER("token: t0, tokenFile: /nowhere/token"));
		tempdir_write(&folder, "config", text);
		expect(kube_config_file(path, NULL, &c, &err) == (rows[i].error ? -1 : 0), rows[i].head);
		expect(!rows[i].error || strstr(err.text, rows[i].error), err.text);
		expect(rows[i].error || str_eq(c.server, "https://h"), rows[i].head);
		expect(rows[i].token ? str_eq(c.token, rows[i].token) : !c.token, rows[i].head);
		expect(!c.token_file && !c.authorities && !c.certificate && !c.key, rows[i].head);
	}
}

// Paths are beside the kubeconfig unless they begin at the root; data counts more than a file.
static void test_paths(void **state)
{
	(void)state;
	auto_folder struct folder folder;
	folder_make(&folder);
	tempdir_write(&folder, "etc/ca.pem", PEM);
	tempdir_write(&folder, "etc/token", "beside\n");
	tempdir_write(&folder, "else/token", "elsewhere\n");
	auto_str char *full = str_fmt("%s/else/token", folder.path), *path = str_fmt("%s/etc/config", folder.path);
	char *resolved = realpath(full, NULL);
	const struct {
		const char *user, *token;
	} rows[] = { { "token", "beside" }, { "../else/token", "elsewhere" }, { resolved, "elsewhere" } };
	auto_fd int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_str char *dir = str_fmt("%s/etc", folder.path);
	for (size_t i = 0; i < 2 * ARRAY_SIZE(rows); i++) {
		const char *row = rows[i / 2].user;
		bool is_bare = i % 2; // `--kubeconfig config`, in its folder
		struct err err = { 0 };
		auto_kube_config struct kube_config c = KUBE_CONFIG_NONE;
		auto_str char *token = NULL;
		auto_str char *text = str_fmt("%sclusters: [{name: c, cluster: {server: 'https://h//', "
					      "certificate-authority: none.pem, certificate-authority-data: %s}}]\n"
					      "users: [{name: u, user: {tokenFile: '%s'}}]\n",
					      HEAD, PEM64, row);
		tempdir_write(&folder, "etc/config", text);
		assert_int_equal(is_bare ? chdir(dir) : 0, 0);
		int r = kube_config_file(is_bare ? "config" : path, NULL, &c, &err);
		assert_int_equal(fchdir(here), 0);
		expect(r == 0, err.text);
		expect(root_line(&c.token_root, c.token_file, &token, &err) > 0, row);
		expect(str_eq(token, rows[i / 2].token), row);
		expect(str_eq(c.server, "https://h") && str_eq(c.authorities, PEM), row);
		expect(!c.token, row);
	}
	free(resolved);
}

static void test_size(void **state)
{
	(void)state;
	enum { MOST = 1 << 20 };
	for (int more = 0; more < 2; more++) {
		struct err err = { 0 };
		auto_folder struct folder folder;
		auto_kube_config struct kube_config c = KUBE_CONFIG_NONE;
		folder_make(&folder);
		auto_str char *path = str_fmt("%s/config", folder.path);
		auto_str char *text = str_fmt("%s%s", HEAD, USER("token: t"));
		size_t len = strlen(text);
		auto_str char *rest = mem_alloc(MOST + 2);
		memset(rest, '#', MOST + (size_t)more - len);
		auto_str char *whole = str_fmt("%s%s", text, rest);
		tempdir_write(&folder, "config", whole);
		expect(kube_config_file(path, NULL, &c, &err) == -more, err.text);
		expect(!more || strstr(err.text, "is not a regular file of at most 1048576 bytes"), err.text);
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
	assert_int_equal(yaml_read(text, strlen(text), "t", false, &got, &err), -1); // a block in a flow
	assert_int_equal(yaml_read(flow, strlen(flow), "t", false, &got, &err), 0);
	auto_str char *dumped = json_dumps(got, JSON_COMPACT | JSON_SORT_KEYS);
	assert_string_equal(dumped, "{\"a\":null,\"b\":null,\"c\":null,\"d\":\"null\",\"e\":true,\"f\":\"true\","
				    "\"g\":\"012\",\"h\":\"yes\",\"i\":\"x\\ny\"}");
}

static void test_pod(void **state)
{
	(void)state;
	static char host[] = "KUBERNETES_SERVICE_HOST=10.0.0.1", six[] = "KUBERNETES_SERVICE_HOST=fd00::1",
		    port[] = "KUBERNETES_SERVICE_PORT=443", word[] = "KUBERNETES_SERVICE_PORT=https",
		    empty[] = "KUBERNETES_SERVICE_HOST=", zero[] = "KUBERNETES_SERVICE_PORT=0",
		    last[] = "KUBERNETES_SERVICE_PORT=65535", beyond[] = "KUBERNETES_SERVICE_PORT=65536",
		    other[] = "KUBERNETES_SERVICE_PORT_HTTPS=8443";
	static const char dir[] = "var/run/secrets/kubernetes.io/serviceaccount/";
	static const struct {
		char *env[4];
		const char *files; // see below; capital letters: a folder is there
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
		{ { empty, port }, "tcn", 0, NULL, NULL },
		{ { host, zero }, "tcn", -1, NULL, NULL },
		{ { host, beyond }, "tcn", -1, NULL, NULL },
		{ { host, last }, "tcg", 1, "https://10.0.0.1:65535", "gpu" },
		{ { other, host, port }, "tcm", 1, "https://10.0.0.1:443", "kmodsmith" },
		{ { host, port }, "Tcn", -1, NULL, NULL },
		{ { host, port }, "tCn", -1, NULL, NULL },
		{ { host, port }, "tcN", -1, NULL, NULL },
	};
	static const struct {
		char letter;
		const char *name, *text;
	} files[] = {
		{ 't', "token", "t0\n" },      { 'e', "token", "\n" },   { 'T', "token", NULL },
		{ 'c', "ca.crt", PEM },        { 'C', "ca.crt", NULL },  { 'n', "namespace", "kmodsmith" },
		{ 'g', "namespace", "gpu\n" }, { 'm', "namespace", "" }, { 'N', "namespace", NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_folder struct folder folder;
		auto_kube_config struct kube_config c = KUBE_CONFIG_NONE;
		folder_make(&folder);
		for (size_t f = 0; f < ARRAY_SIZE(files); f++) {
			auto_str char *path = str_fmt("%s%s", dir, files[f].name);
			if (!strchr(rows[i].files, files[f].letter))
				continue;
			tempdir_parent(&folder, path);
			if (files[f].text)
				folder_file(&folder, path, files[f].text);
			else
				folder_dir(&folder, path);
		}
		auto_str char *row = str_fmt("row %zu: %s", i, err.text);
		expect(kube_config_pod(&folder.root, rows[i].env, &c, &err) == rows[i].result, row);
		expect(str_eq(c.server, rows[i].server) || c.server == rows[i].server, row);
		expect(str_eq(c.namespace, rows[i].namespace) || c.namespace == rows[i].namespace, row);
		if (rows[i].result <= 0)
			continue;
		auto_str char *token = NULL;
		expect(str_eq(c.token, "t0") && str_starts(PEM, c.authorities), row);
		expect(root_line(&c.token_root, c.token_file, &token, &err) > 0 && str_eq(token, "t0"), row);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_files),    cmocka_unit_test(test_refused),
					    cmocka_unit_test(test_contexts), cmocka_unit_test(test_paths),
					    cmocka_unit_test(test_size),     cmocka_unit_test(test_namespace),
					    cmocka_unit_test(test_no_file),  cmocka_unit_test(test_scalars),
					    cmocka_unit_test(test_pod) };
	return cmocka_run_group_tests_name("kube_config", tests, NULL, NULL);
}
