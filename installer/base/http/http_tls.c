// SPDX-License-Identifier: Apache-2.0
// Certificate authorities besides the system's, or in their place. libcurl's own options replace what the system
// trusts, so they are added to the store of each connection. The issuer of a server's certificate is noted for
// messages: behind an intercepting proxy that name explains why the certificate is refused.
#include "base/http/http_internal.h"

#include "base/file/file.h"
#include "base/file/root.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

struct http_tls {
	X509 **items;
	size_t count;
	bool is_only; // the system's are not trusted
};

void http_tls_free(struct http_tls *tls)
{
	for (size_t i = 0; tls && i < tls->count; i++)
		X509_free(tls->items[i]);
	free(tls ? tls->items : NULL);
	free(tls);
}

static void add_pem(struct http_tls *tls, const char *text, size_t len)
{
	BIO *in = BIO_new_mem_buf(text, (int)len);
	X509 *x;
	while (in && (x = PEM_read_bio_X509(in, NULL, NULL, NULL))) {
		tls->items = mem_grow(tls->items, tls->count + 1, sizeof(X509 *));
		tls->items[tls->count++] = x;
	}
	BIO_free(in);
}

// Skips anything but a regular file (a directory, a socket, a link to itself). 1 = it is a directory.
static int add_ca_file(struct http_tls *tls, const char *path, struct err *err)
{
	enum { FILE_MAX = 16 << 20 };
	auto_str char *text = NULL;
	size_t len = 0;
	struct stat st;
	auto_fd int fd = file_open_arg(path, O_RDONLY | O_NONBLOCK, err);
	if (fd < 0)
		return err->code == ENXIO || err->code == ELOOP ? 0 : -1;
	if (fstat(fd, &st) < 0)
		return file_fail("look at", path, err);
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode);
	if (st.st_size > FILE_MAX)
		return err_set(err, E_TLS, "'%s' has %lld bytes: too large for a certificate", path,
			       (long long)st.st_size);
	if (file_read(fd, path, &text, &len, err) < 0)
		return -1;
	add_pem(tls, text, len);
	return 0;
}

int http_tls_add(const char *path, struct http_tls **tls, struct err *err)
{
	*tls = *tls ? *tls : mem_alloc(sizeof(**tls));
	size_t before = (*tls)->count;
	int r = add_ca_file(*tls, path, err);
	if (r > 0) {
		auto_root struct root dir = ROOT_NONE;
		auto_strv struct strv names = { 0 };
		r = root_init(&dir, path, err) < 0 || root_list(&dir, ".", &names, err) < 0 ? -1 : 0;
		for (size_t i = 0; r == 0 && i < names.count; i++) {
			auto_str char *file = str_fmt("%s/%s", path, names.items[i]);
			if (add_ca_file(*tls, file, err) < 0 && err_info(err->code)->code != E_NOT_FOUND)
				r = -1;
		}
	}
	if (r == 0 && (*tls)->count == before)
		r = err_set(err, E_TLS, "'%s' has no PEM certificate", path);
	return r < 0 ? err_wrap(err, "certificate authorities") : 0;
}

int http_tls_only(const char *pem, struct http_tls **tls, struct err *err)
{
	*tls = mem_alloc(sizeof(**tls));
	(*tls)->is_only = true;
	add_pem(*tls, pem, strlen(pem));
	return (*tls)->count ? 0 : err_set(err, E_TLS, "the given certificate authority is not a PEM certificate");
}

static int transfer_index(void)
{
	static int index = -1;
	if (index < 0)
		index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, NULL);
	return index;
}

// Called for each certificate from the authority's down to the server's, up to the first that is refused.
static int on_certificate(int is_good, X509_STORE_CTX *store)
{
	const SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
	struct transfer *t = SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), transfer_index());
	const X509 *x = X509_STORE_CTX_get_current_cert(store);
	BIO *out = BIO_new(BIO_s_mem());
	if (x && out &&
	    X509_NAME_print_ex(out, X509_get_issuer_name(x), 0, XN_FLAG_ONELINE & ~ASN1_STRFLGS_ESC_MSB) >= 0) {
		char *text = NULL;
		long len = BIO_get_mem_data(out, &text);
		free(t->issuer);
		t->issuer = str_ndup(text, (size_t)len);
	}
	BIO_free(out);
	return is_good;
}

static CURLcode on_context(CURL *easy, void *ctx, void *data)
{
	struct transfer *t = data;
	const struct http_tls *tls = t->http->tls;
	(void)easy;
	if (tls && tls->is_only)
		SSL_CTX_set_cert_store(ctx, X509_STORE_new());
	X509_STORE *store = SSL_CTX_get_cert_store(ctx);
	for (size_t i = 0; tls && i < tls->count; i++)
		X509_STORE_add_cert(store, tls->items[i]);
	// The connection outlives the call: what is noted for the call must not be noted again later.
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION);
	SSL_CTX_set_ex_data(ctx, transfer_index(), t);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, on_certificate);
	return CURLE_OK;
}

// A machine without the package of well-known authorities: libcurl would refuse every connection.
static bool lacks_authorities(CURL *easy)
{
	const char *file = NULL;
	return curl.easy_getinfo(easy, CURLINFO_CAINFO, &file) == CURLE_OK && file && access(file, R_OK) < 0;
}

void http_tls_attach(struct transfer *t)
{
	const struct http *h = t->http;
	if (h->certificate && !t->is_elsewhere) { // a redirect to another origin must not make us sign anything for it
		struct curl_blob cert = { .data = h->certificate, .len = strlen(h->certificate) };
		struct curl_blob key = { .data = h->key, .len = h->key ? strlen(h->key) : 0 };
		curl.easy_setopt(t->easy, CURLOPT_SSLCERTTYPE, "PEM");
		curl.easy_setopt(t->easy, CURLOPT_SSLCERT_BLOB, &cert);
		if (key.len)
			curl.easy_setopt(t->easy, CURLOPT_SSLKEY_BLOB, &key);
	}
	curl.easy_setopt(t->easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	if (h->tls && (h->tls->is_only || lacks_authorities(t->easy))) { // the machine's own need not be there
		curl.easy_setopt(t->easy, CURLOPT_CAINFO, NULL);
		curl.easy_setopt(t->easy, CURLOPT_CAPATH, NULL);
	}
	// A store cached by libcurl would replace the one that ours were added to.
	curl.easy_setopt(t->easy, CURLOPT_CA_CACHE_TIMEOUT, h->tls ? 0L : 86400L);
	curl.easy_setopt(t->easy, CURLOPT_SSL_CTX_FUNCTION, on_context);
	curl.easy_setopt(t->easy, CURLOPT_SSL_CTX_DATA, t);
}
