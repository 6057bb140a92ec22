// SPDX-License-Identifier: Apache-2.0
#include "base/file/digest.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>

struct digest {
	EVP_MD_CTX *ctx;
};

// OpenSSL fails here only for lack of memory or without any provider: neither leaves anything to do.
static void abort_unless(int ok)
{
	if (ok != 1)
		abort();
}

struct digest *digest_new(void)
{
	struct digest *d = mem_alloc(sizeof(*d));
	d->ctx = EVP_MD_CTX_new();
	abort_unless(d->ctx && EVP_DigestInit_ex(d->ctx, EVP_sha256(), NULL));
	return d;
}

void digest_add(struct digest *d, const void *data, size_t len)
{
	abort_unless(EVP_DigestUpdate(d->ctx, data, len));
}

static void write_hex(const unsigned char raw[EVP_MAX_MD_SIZE], char ret[DIGEST_HEX + 1])
{
	for (int i = 0; i < DIGEST_HEX / 2; i++)
		snprintf(ret + 2 * i, 3, "%02x", raw[i]);
}

void digest_hex(struct digest *d, char ret[DIGEST_HEX + 1])
{
	unsigned char raw[EVP_MAX_MD_SIZE];
	abort_unless(EVP_DigestFinal_ex(d->ctx, raw, NULL));
	write_hex(raw, ret);
	EVP_MD_CTX_free(d->ctx);
	free(d);
}

void digest_data(const void *data, size_t len, char ret[DIGEST_HEX + 1])
{
	unsigned char raw[EVP_MAX_MD_SIZE];
	abort_unless(EVP_Digest(data, len, raw, NULL, EVP_sha256(), NULL));
	write_hex(raw, ret);
}

int digest_file(int fd, const char *name, char ret[DIGEST_HEX + 1], struct err *err)
{
	char buf[1 << 16], hex[DIGEST_HEX + 1];
	struct digest *d = digest_new();
	ssize_t n;
	while ((n = read(fd, buf, sizeof(buf))) > 0 || (n < 0 && errno == EINTR))
		if (n > 0)
			digest_add(d, buf, (size_t)n);
	int problem = errno;
	digest_hex(d, hex);
	if (n < 0)
		return err_set(err, problem, "read '%s'", name);
	memcpy(ret, hex, sizeof(hex));
	return 0;
}

bool digest_is_hex(const char *s)
{
	return s && strspn(s, "0123456789abcdef") == DIGEST_HEX && s[DIGEST_HEX] == '\0';
}
