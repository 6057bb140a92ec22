// SPDX-License-Identifier: Apache-2.0
// SHA-256, as 64 lower-case hex digits.
#pragma once
#include "base/core/err.h"

enum { DIGEST_HEX = 64 };

struct digest;
struct digest *digest_new(void);
void digest_add(struct digest *d, const void *data, size_t len);
void digest_hex(struct digest *d, char ret[DIGEST_HEX + 1]); // ends the digest and frees it

void digest_data(const void *data, size_t len, char ret[DIGEST_HEX + 1]);
// From the current offset to the end.
int digest_file(int fd, const char *name, char ret[DIGEST_HEX + 1], struct err *err);
bool digest_is_hex(const char *s); // exactly 64 lower-case hex digits
