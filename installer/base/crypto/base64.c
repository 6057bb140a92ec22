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

static int digit_value(char c)
{
	const char *at = c ? strchr(ALPHABET, c) : NULL;
	return at ? (int)(at - ALPHABET) : -1;
}

// Four characters at in, of which the last `padding` are '='.
static bool parse_group(const char *in, size_t padding, unsigned char ret[3])
{
	uint32_t bits = 0;
	for (size_t k = 0; k < 4; k++) {
		int value = k < 4 - padding ? digit_value(in[k]) : 0;
		if (value < 0)
			return false;
		bits = bits << 6 | (uint32_t)value;
	}
	for (size_t k = 0; k < 3; k++)
		ret[k] = (unsigned char)(bits >> (16 - 8 * k));
	return (padding < 1 || ret[2] == 0) && (padding < 2 || ret[1] == 0);
}

bool base64_parse(const char *text, char **ret, size_t *ret_len)
{
	size_t len = strlen(text), padding = 0;
	if (len % 4)
		return false;
	while (padding < 2 && padding < len && text[len - 1 - padding] == '=')
		padding++;
	auto_str char *data = mem_alloc(len / 4 * 3 + 1);
	for (size_t i = 0; i < len; i += 4)
		if (!parse_group(text + i, i + 4 == len ? padding : 0, (unsigned char *)data + i / 4 * 3))
			return false;
	*ret_len = len / 4 * 3 - padding;
	*ret = TAKE(data);
	return true;
}
