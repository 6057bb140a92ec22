// SPDX-License-Identifier: Apache-2.0
// The record of imports that a module carries when its kernel uses modversions: symbol and CRC, in four formats.
//
//   classic    u64 crc, char name[56] (upper half of the crc zero)
//   hashed     as classic, but a name too long for its field is "sha256\0" and the binary hash of the name (Android)
//   packed     u32 size of this record, u32 crc, name, padded to 4; a record of size 0 or the end of the section ends
//              it (Ubuntu since 6.8)
//   extended   an array of u32 and a list of NUL-terminated names in two sections (CONFIG_EXTENDED_MODVERSIONS, 6.14)
//
// Every length and offset is checked; what does not add up is E_ELF.
#pragma once
#include "base/core/err.h"

struct version {
	const char *name;    // borrowed from the section; NULL for a hashed name
	const uint8_t *hash; // SHA-256 of the name when name is NULL, else NULL
	uint32_t crc;
};

struct versions {
	struct version *items;
	size_t count;
};

// The section __versions; tells the first three formats apart by itself. ret's strings live as long as data does.
int versions_parse(const void *data, size_t len, struct versions *ret, struct err *err);
// The sections __version_ext_crcs and __version_ext_names; where a module has them the kernel reads only these.
int versions_parse_extended(const void *crcs, size_t crcs_len, const void *names, size_t names_len,
			    struct versions *ret, struct err *err);
// The CRC recorded for a symbol: 1 = found, 0 = none.
int versions_find(const struct versions *v, const char *symbol, uint32_t *ret);
void versions_done(struct versions *v);
#define auto_versions __attribute__((cleanup(versions_done)))
