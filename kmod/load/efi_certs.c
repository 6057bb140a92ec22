// SPDX-License-Identifier: Apache-2.0
#include "kmod/load/efi_certs.h"

#define SHIM_GUID "605dab50-e046-4300-abb6-3dd810dd8b23"
#define SECURITY_GUID "d719b2cb-3d3a-4596-a3bc-dad00e67656f" // EFI_IMAGE_SECURITY_DATABASE_GUID

enum {
	GUID = 16,
	LIST_HEAD = GUID + 3 * 4, // type, size of the list, of its header, of each signature
	ATTRIBUTES = 4,
	SPLIT_MOST = 64,     // MokListRT, MokListRT1, ...
	BYTES_MOST = 4 << 20 // more than any firmware keeps
};

// EFI_CERT_X509_GUID, a5c059a1-94e4-4aa7-87b5-ab155c2bf072
static const unsigned char x509[GUID] = { 0xa1, 0x59, 0xc0, 0xa5, 0xe4, 0x94, 0xa7, 0x4a,
					  0x87, 0xb5, 0xab, 0x15, 0x5c, 0x2b, 0xf0, 0x72 };

const char efi_certs_dir[] = "sys/firmware/efi/efivars";

static const struct {
	const char *name, *guid;
} variables[] = {
	[EFI_DB] = { "db", SECURITY_GUID },      [EFI_DBX] = { "dbx", SECURITY_GUID },
	[EFI_MOK] = { "MokListRT", SHIM_GUID },  [EFI_MOKX] = { "MokListXRT", SHIM_GUID },
	[EFI_MOK_NEW] = { "MokNew", SHIM_GUID },
};

void efi_certs_done(struct efi_certs *c)
{
	for (size_t i = 0; i < c->count; i++)
		free(c->items[i].der);
	free(c->items);
	*c = (struct efi_certs){ 0 };
}

char *efi_certs_path(enum efi_list list)
{
	return str_fmt("%s/%s-%s", efi_certs_dir, variables[list].name, variables[list].guid);
}

static uint32_t read_u32(const unsigned char *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void add_cert(struct efi_certs *ret, const unsigned char *der, size_t len)
{
	if (efi_certs_has(ret, der, len))
		return;
	ret->items = mem_grow(ret->items, ret->count + 1, sizeof(*ret->items));
	ret->items[ret->count++] = (struct efi_cert){ .der = str_ndup((const char *)der, len), .len = len };
}

static void put_u32(char *to, size_t number)
{
	for (unsigned i = 0; i < 4; i++)
		to[i] = (char)(number >> 8 * i);
}

char *efi_certs_list(const void *der, size_t len, size_t *ret_len)
{
	static const unsigned char shim[GUID] = { 0x50, 0xab, 0x5d, 0x60, 0x46, 0xe0, 0x00, 0x43,
						  0xab, 0xb6, 0x3d, 0xd8, 0x10, 0xdd, 0x8b, 0x23 };
	char *list = mem_alloc(LIST_HEAD + GUID + len);
	*ret_len = LIST_HEAD + GUID + len;
	memcpy(list, x509, GUID);
	put_u32(list + GUID, *ret_len);
	put_u32(list + GUID + 8, GUID + len);
	memcpy(mempcpy(list + LIST_HEAD, shim, GUID), der, len);
	return list;
}

int efi_certs_parse(const void *data, size_t len, struct efi_certs *ret)
{
	for (const unsigned char *p = data; len > 0;) {
		if (len < LIST_HEAD)
			return 0;
		size_t size = read_u32(p + GUID), head = read_u32(p + GUID + 4), each = read_u32(p + GUID + 8);
		if (size > len || size < LIST_HEAD || size - LIST_HEAD < head || each < GUID)
			return 0;
		size_t body = size - LIST_HEAD - head;
		if (body < each || body % each != 0)
			return 0;
		for (size_t at = 0; memcmp(p, x509, GUID) == 0 && at < body; at += each)
			add_cert(ret, p + LIST_HEAD + head + at + GUID, each - GUID);
		p += size;
		len -= size;
	}
	return 1;
}

static int read_variable(const struct root *kern, const char *path, size_t skip, struct efi_certs *ret, struct err *err)
{
	auto_str char *data = NULL;
	size_t len = 0;
	int r = root_read_most(kern, path, BYTES_MOST, &data, &len, err);
	if (r > 0 && len > skip)
		efi_certs_parse(data + skip, len - skip, ret);
	return r;
}

int efi_certs_read(const struct root *kern, enum efi_list list, struct efi_certs *ret, struct err *err)
{
	const char *name = variables[list].name, *guid = variables[list].guid;
	auto_str char *whole = str_fmt("sys/firmware/efi/mok-variables/%s", name);
	struct err unread; // only root may read it, and an older kernel has none
	if (str_eq(guid, SHIM_GUID) && read_variable(kern, whole, 0, ret, &unread) > 0)
		return 1;
	int r = 1;
	for (unsigned part = 0; r > 0 && part < SPLIT_MOST; part++) {
		auto_str char *number = part ? str_fmt("%u", part) : str_dup("");
		auto_str char *path = str_fmt("%s/%s%s-%s", efi_certs_dir, name, number, guid);
		r = read_variable(kern, path, ATTRIBUTES, ret, err);
		if (r < 0 || (r == 0 && !part))
			return r;
		if (!str_ends(name, "RT"))
			break;
	}
	return 1;
}

bool efi_certs_has(const struct efi_certs *c, const void *der, size_t len)
{
	for (size_t i = 0; i < c->count; i++)
		if (c->items[i].len == len && memcmp(c->items[i].der, der, len) == 0)
			return true;
	return false;
}
