// SPDX-License-Identifier: Apache-2.0
// Base64 with the alphabet of RFC 4648 section 4, padded, in one line; and as people write it.
#pragma once
#include "base/core/str.h"

char *base64_text(const void *data, size_t len);
// Strict: no blanks, no missing padding, no bits set after the end. False on anything else. A NUL is added.
bool base64_parse(const char *text, char **ret, size_t *ret_len);
// Also wrapped, and without padding, as docker, kubelet and kubectl take it in their files. Not for what is signed.
bool base64_parse_loose(const char *text, char **ret, size_t *ret_len);
