// SPDX-License-Identifier: Apache-2.0
#include "cluster/node_state/target_hash.h"

#include "base/file/digest.h"

#include <stdio.h>

enum { HALF = 16 };

uint64_t aim_hash(const char *text)
{
	char hex[DIGEST_HEX + 1];
	uint64_t hash = 0;
	digest_data(text, strlen(text), hex);
	hex[HALF] = '\0';
	return str_u64(hex, 16, &hash) && hash ? hash : 1;
}

struct aim aim_make(const char *payload, const char *options)
{
	return (struct aim){ aim_hash(payload), *options ? aim_hash(options) : 0 };
}

static bool half(const char *text, uint64_t *ret)
{
	char digits[HALF + 1];
	for (int i = 0; i < HALF; i++) {
		if (!text[i] || !strchr("0123456789abcdef", text[i]))
			return false;
		digits[i] = text[i];
	}
	digits[HALF] = '\0';
	return str_u64(digits, 16, ret);
}

bool aim_parse(const char *text, struct aim *ret)
{
	struct aim aim = { 0 };
	if (!str_eq(text, "none") && (strlen(text) != AIM_TEXT - 1 || text[HALF] != '-' || !half(text, &aim.payload) ||
				      !half(text + HALF + 1, &aim.options) || !aim.payload))
		return false;
	*ret = aim;
	return true;
}

void aim_text(const struct aim *aim, char ret[AIM_TEXT])
{
	if (aim_is(aim))
		snprintf(ret, AIM_TEXT, "%016jx-%016jx", (uintmax_t)aim->payload, (uintmax_t)aim->options);
	else
		snprintf(ret, AIM_TEXT, "none");
}
