// SPDX-License-Identifier: Apache-2.0
// EFI_SIGNATURE_LISTs made by hand (UEFI 2.10, 32.4.1).
#pragma once
#include "base/core/str.h"

struct efi_list_made {
	const char *der;
	unsigned char head; // bytes of a header that belongs to the type
	bool is_hash;       // of another type
};

static inline void efi_list_put(void *to, uint32_t number)
{
	for (unsigned i = 0; i < 4; i++)
		((unsigned char *)to)[i] = (unsigned char)(number >> 8 * i);
}

static inline void efi_list_add(char **data, size_t *len, const struct efi_list_made *made, size_t der_len)
{
	static const unsigned char x509[] = { 0xa1, 0x59, 0xc0, 0xa5, 0xe4, 0x94, 0xa7, 0x4a,
					      0x87, 0xb5, 0xab, 0x15, 0x5c, 0x2b, 0xf0, 0x72 };
	enum { GUID = 16, HEAD = GUID + 12 };
	size_t size = HEAD + made->head + GUID + der_len;
	*data = mem_grow(*data, *len + size, 1);
	char *list = *data + *len;
	memset(list, 0, size);
	memcpy(list, x509, sizeof(x509));
	list[0] = made->is_hash ? 0x26 : list[0];
	efi_list_put(list + GUID, (uint32_t)size);
	efi_list_put(list + GUID + 4, made->head);
	efi_list_put(list + GUID + 8, (uint32_t)(GUID + der_len));
	memcpy(list + HEAD + made->head + GUID, made->der, der_len);
	*len += size;
}
