// SPDX-License-Identifier: Apache-2.0
#include "kmod/module/versions.h"

#include "kmod/module/sections.h"

#include <openssl/sha.h>

// include/linux/moduleparam.h: MODULE_NAME_LEN is 64 - sizeof(unsigned long)
enum { CLASSIC_RECORD = 64, CLASSIC_NAME = 56 };
static const char HASHED[] = "sha256"; // its NUL is part of the mark

static int version_cmp(const void *a, const void *b)
{
	const struct version *x = a, *y = b;
	if (x->name && y->name)
		return strcmp(x->name, y->name);
	if (!x->name && !y->name)
		return memcmp(x->hash, y->hash, SHA256_DIGEST_LENGTH);
	return x->name ? -1 : 1;
}

// What the parsers share: room for at most `most` records, filled, then sorted for versions_find.
static struct versions alloc_versions(size_t most)
{
	return (struct versions){ .items = mem_grow(NULL, most + 1, sizeof(struct version)) };
}

static void sort_versions(struct versions *v, struct versions *ret)
{
	qsort(v->items, v->count, sizeof(*v->items), version_cmp);
	*ret = *v;
	*v = (struct versions){ 0 };
}

static bool is_classic(const unsigned char *p, size_t len)
{
	return len % CLASSIC_RECORD == 0 && le32(p + 4) == 0;
}

// The kernel exports a function sha256, too: zeros behind its name.
static bool is_hashed(const unsigned char *name)
{
	static const unsigned char zeros[SHA256_DIGEST_LENGTH];
	return memcmp(name, HASHED, sizeof(HASHED)) == 0 && memcmp(name + sizeof(HASHED), zeros, sizeof(zeros)) != 0;
}

static int parse_classic(const unsigned char *p, size_t len, struct versions *ret, struct err *err)
{
	auto_versions struct versions v = alloc_versions(len / CLASSIC_RECORD);
	for (size_t at = 0; at < len; at += CLASSIC_RECORD) {
		const unsigned char *name = p + at + 8;
		struct version one = { .crc = le32(p + at) };
		if (is_hashed(name))
			one.hash = name + sizeof(HASHED);
		else if (memchr(name, '\0', CLASSIC_NAME))
			one.name = (const char *)name;
		else
			return err_set(err, E_ELF, "__versions: the name at %zu does not end", at);
		v.items[v.count++] = one;
	}
	sort_versions(&v, ret);
	return 0;
}

static int parse_packed(const unsigned char *p, size_t len, struct versions *ret, struct err *err)
{
	auto_versions struct versions v = alloc_versions(len / 8);
	for (size_t at = 0; at < len;) {
		if (len - at < 4)
			return err_set(err, E_ELF, "__versions: the record at %zu is truncated", at);
		size_t size = le32(p + at);
		if (size == 0)
			break;
		if (size <= 8 || size % 4 != 0 || size > len - at || !memchr(p + at + 8, '\0', size - 8))
			return err_set(err, E_ELF, "__versions: the record at %zu claims %zu of %zu bytes", at, size,
				       len);
		v.items[v.count++] = (struct version){ .crc = le32(p + at + 4), .name = (const char *)p + at + 8 };
		at += size;
	}
	sort_versions(&v, ret);
	return 0;
}

int versions_parse(const void *data, size_t len, struct versions *ret, struct err *err)
{
	const unsigned char *p = data;
	if (len == 0) {
		*ret = (struct versions){ 0 };
		return 0;
	}
	if (len < 8)
		return err_set(err, E_ELF, "__versions has %zu bytes, too few for a record", len);
	return is_classic(p, len) ? parse_classic(p, len, ret, err) : parse_packed(p, len, ret, err);
}

int versions_parse_extended(const void *crcs, size_t crcs_len, const void *names, size_t names_len,
			    struct versions *ret, struct err *err)
{
	auto_versions struct versions v = alloc_versions(crcs_len / 4);
	const char *name = names ? names : "", *end = name + names_len; // a section may have no data
	if (crcs_len % 4 != 0)
		return err_set(err, E_ELF, "__version_ext_crcs has %zu bytes, not a multiple of 4", crcs_len);
	for (size_t at = 0; at < crcs_len; at += 4) {
		const char *stop = name < end ? memchr(name, '\0', (size_t)(end - name)) : NULL;
		if (!stop)
			return err_set(err, E_ELF, "__version_ext_names: name %zu of %zu is missing", at / 4,
				       crcs_len / 4);
		v.items[v.count++] = (struct version){ .crc = le32((const unsigned char *)crcs + at), .name = name };
		name = stop + 1;
	}
	sort_versions(&v, ret);
	return 0;
}

int versions_find(const struct versions *v, const char *symbol, uint32_t *ret)
{
	unsigned char hash[SHA256_DIGEST_LENGTH];
	struct version key = { .name = symbol };
	const struct version *found = v->count ? bsearch(&key, v->items, v->count, sizeof(key), version_cmp) : NULL;
	if (!found && v->count && strlen(symbol) >= CLASSIC_NAME) {
		SHA256((const unsigned char *)symbol, strlen(symbol), hash);
		key = (struct version){ .hash = hash };
		found = bsearch(&key, v->items, v->count, sizeof(key), version_cmp);
	}
	if (!found)
		return 0;
	*ret = found->crc;
	return 1;
}

void versions_done(struct versions *v)
{
	free(v->items);
	*v = (struct versions){ 0 };
}
