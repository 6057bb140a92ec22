// SPDX-License-Identifier: Apache-2.0
#include "base/http/http.h"

#include "kmod/sandbox/jail.h"
#include "tests/unit/server.h"
#include "tests/unit/sign.h"

#include <openssl/ssl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

struct site { // an HTTPS server with a certificate of its own authority
	struct signer authority, leaf;
	SSL_CTX *ctx;
	struct server server;
	struct folder folder;
};

static void make_valid(struct signer *s, const struct signer *issuer, const char *name)
{
	X509_gmtime_adj(X509_getm_notAfter(s->cert), 86400);
	if (name) {
		X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, name);
		X509_add_ext(s->cert, e, -1);
		X509_EXTENSION_free(e);
	}
	assert_true(X509_sign(s->cert, issuer->key, EVP_sha256()) > 0);
}

// The server of server.h hands over a connection whose request it has read, which an encrypted one does not let it: so
// this one accepts for itself.
static void *serve_tls(void *ctx)
{
	struct site *site = ctx;
	while (!server_is_stopping(&site->server)) {
		struct pollfd p = { .fd = site->server.fd, .events = POLLIN };
		auto_fd int fd = poll(&p, 1, 20) > 0 ? accept(site->server.fd, NULL, NULL) : -1;
		if (fd < 0)
			continue;
		char buf[4096];
		static const char page[] = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 6\r\n\r\nsecret";
		SSL *ssl = SSL_new(site->ctx);
		SSL_set_fd(ssl, fd);
		if (SSL_accept(ssl) == 1 && SSL_read(ssl, buf, sizeof(buf)) > 0)
			SSL_write(ssl, page, sizeof(page) - 1);
		SSL_shutdown(ssl);
		SSL_free(ssl);
	}
	return NULL;
}

static void site_start(struct site *site, const char *name)
{
	size_t len = 0;
	folder_make(&site->folder);
	site->authority = signer_make("Test Authority", NULL);
	make_valid(&site->authority, &site->authority, NULL);
	site->leaf = signer_make("leaf", &site->authority);
	make_valid(&site->leaf, &site->authority, name);
	auto_str char *pem = signer_cert(&site->authority, true, &len);
	folder_file(&site->folder, "ca.pem", pem);
	folder_dir(&site->folder, "dir");
	folder_file(&site->folder, "dir/ca.crt", pem);
	folder_file(&site->folder, "dir/readme", "no certificate");
	folder_link(&site->folder, "nowhere", "dir/dangling");
	folder_file(&site->folder, "not.pem", "no certificate");
	folder_dir(&site->folder, "none");
	site->ctx = SSL_CTX_new(TLS_server_method());
	assert_int_equal(SSL_CTX_use_certificate(site->ctx, site->leaf.cert), 1);
	assert_int_equal(SSL_CTX_use_PrivateKey(site->ctx, site->leaf.key), 1);
	site->server = (struct server){ 0 };
	server_run(&site->server, serve_tls, site);
}

static void site_stop(struct site *site)
{
	server_stop(&site->server);
	SSL_CTX_free(site->ctx);
	signer_done(&site->leaf);
	signer_done(&site->authority);
	folder_done(&site->folder);
}
#define auto_site __attribute__((cleanup(site_stop)))

static int get(const struct site *site, const char *ca, char **ret, struct err *err)
{
	auto_str char *path = ca ? str_fmt("%s/%s", site->folder.path, ca) : NULL;
	auto_str char *url = str_fmt("https://127.0.0.1:%u/", site->server.port);
	auto_http struct http *h = NULL;
	struct http_options o = { .proxy = "", .ca = path, .connect_ms = 60000, .stall_ms = 60000 };
	if (http_new(&o, &h, err) < 0)
		return -1;
	auto_http_call struct http_call call = { .url = url, .max = 100 };
	if (http_run(h, &call, err) < 0)
		return -1;
	*ret = TAKE(call.reply);
	return 0;
}

static void test_authorities(void **state)
{
	(void)state;
	static const struct {
		const char *ca, *text;
		int code;
	} rows[] = {
		{ "ca.pem", NULL, 0 },
		{ "dir", NULL, 0 },
		{ NULL, "certificate was issued by 'CN = Test Authority'", E_TLS },
		{ "not.pem", "has no PEM certificate", E_TLS },
		{ "none", "has no PEM certificate", E_TLS },
		{ "absent", "certificate authorities: ", ENOENT },
	};
	struct err err = { 0 };
	auto_site struct site site;
	site_start(&site, "IP:127.0.0.1");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *reply = NULL;
		expect(get(&site, rows[i].ca, &reply, &err) == (rows[i].code ? -1 : 0), rows[i].ca);
		expect(rows[i].code || str_eq(reply, "secret"), rows[i].ca);
		expect(!rows[i].code || (err.code == rows[i].code && strstr(err.text, rows[i].text)), err.text);
	}
}

// A minimal machine has none of the well-known ones, and needs none where others are named. 2 = they cannot be hidden.
static int get_without_the_machines_own(void)
{
	struct err err = { 0 };
	auto_str char *reply = NULL;
	if (unshare(CLONE_NEWNS) < 0 || sandbox_make_private() < 0 || mount("none", "/etc/ssl", "tmpfs", 0, NULL) < 0)
		return 2;
	auto_site struct site site;
	site_start(&site, "IP:127.0.0.1");
	bool is_good = get(&site, "ca.pem", &reply, &err) == 0 && str_eq(reply, "secret");
	is_good = is_good && get(&site, NULL, &reply, &err) < 0 && err.code == E_TLS;
	dprintf(STDERR_FILENO, "%s", is_good ? "" : err.text);
	return is_good ? 0 : 1;
}

static void test_without_the_machines_own(void **state)
{
	(void)state;
	int status = -1;
	pid_t pid = fork(); // while there is no thread of a server
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(get_without_the_machines_own());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 2)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_another_name(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_str char *reply = NULL;
	auto_site struct site site;
	site_start(&site, "IP:127.0.0.2");
	assert_int_equal(get(&site, "ca.pem", &reply, &err), -1);
	assert_int_equal(err.code, E_TLS);
	expect(strstr(err.text, "(tls)") && strstr(err.text, "127.0.0.1"), err.text);
}

static void test_probe_names_the_issuer(void **state)
{
	(void)state;
	auto_site struct site site;
	site_start(&site, "IP:127.0.0.1");
	for (int is_trusted = 0; is_trusted < 2; is_trusted++) {
		struct err err = { 0 };
		struct http_probe p = { 0 };
		auto_str char *path = str_fmt("%s/ca.pem", site.folder.path);
		auto_str char *url = str_fmt("https://127.0.0.1:%u/", site.server.port);
		auto_http struct http *h = NULL;
		struct http_options o = {
			.proxy = "", .ca = is_trusted ? path : NULL, .connect_ms = 60000, .stall_ms = 60000
		};
		assert_int_equal(http_new(&o, &h, &err), 0);
		for (int again = 0; again < 2; again++) { // no handshake is spared
			assert_int_equal(http_probe_all(h, &(struct strv){ .items = &url, .count = 1 }, &p, &err), 0);
			assert_true(str_eq(p.ca_subject, "CN = Test Authority"));
			assert_int_equal(p.status, is_trusted ? 200 : 0);
			assert_true(is_trusted ? !p.layer : str_eq(p.layer, "tls"));
			http_probe_done(&p);
		}
	}
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN); // of the server: a client may go while it writes
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_authorities),
		cmocka_unit_test(test_without_the_machines_own),
		cmocka_unit_test(test_another_name),
		cmocka_unit_test(test_probe_names_the_issuer),
	};
	return cmocka_run_group_tests_name("http_tls", tests, NULL, NULL);
}
