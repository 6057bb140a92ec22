// SPDX-License-Identifier: Apache-2.0
#include "base/crypto/base64.h"

static const char ALPHABET[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *base64_text(const void *data, size_t len)
{
	const unsigned char *in = data;
	char *text = mem_alloc(4 * ((len + 2) / 3) + 1), *out = text;
	for (size_t i = 0; i < len; i += 3) {
		size_t have = len - i < 3 ? len - i : 3;
		uint32_t bits = (uint32_t)in[i] << 16;
		bits |= have > 1 ? (uint32_t)in[i + 1] << 8 : 0;
		bits |= have > 2 ? in[i + 2] : 0;
		for (size_t k = 0; k < 4; k++)
			*out++ = '=';
		for (size_t k = 0; k <= have; k++)
			out[(ptrdiff_t)k - 4] = ALPHABET[bits >> (18 - 6 * k) & 63];
	}
	return text;
}

bool base64_parse(const char *text, char **ret, size_t *ret_len)
{
	size_t len = strlen(text), padding = 0;
	if (len % 4)
		return false;
	while (padding < 2 && padding < len && text[len - 1 - padding] == '=')
		padding++;
	auto_str char *data = mem_alloc(len / 4 * 3 + 1);
	for (size_t i = 0; i < len; i += 4) {
		size_t digits = i + 4 == len ? 4 - padding : 4;
		uint32_t bits = 0;
		for (size_t k = 0; k < 4; k++) {
			const char *at = k < digits ? strchr(ALPHABET, text[i + k]) : ALPHABET;
			if (!at)
				return false;
			bits = bits << 6 | (uint32_t)(at - ALPHABET);
		}
		if (digits < 4 && bits & (digits == 3 ? 0xff : 0xffff))
			return false;
		for (size_t k = 0; k < 3; k++)
			data[i / 4 * 3 + k] = (char)(bits >> (16 - 8 * k));
	}
	*ret_len = len / 4 * 3 - padding;
	*ret = TAKE(data);
	return true;
}

bool base64_parse_loose(const char *text, char **ret, size_t *ret_len)
{
	auto_str char *bare = mem_alloc(strlen(text) + sizeof("==="));
	size_t len = 0;
	for (; *text; text++)
		if (!strchr("\r\n\t ", *text))
			bare[len++] = *text;
	while (len > 0 && bare[len - 1] == '=')
		len--;
	while (len % 4)
		bare[len++] = '=';
	bare[len] = '\0';
	return base64_parse(bare, ret, ret_len);
}
