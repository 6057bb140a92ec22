// SPDX-License-Identifier: Apache-2.0
#include "cluster/node_state/target.h"

#include "base/file/digest.h"

#include <stdio.h>

enum { HALF = 16 };

uint64_t target_hash_of_text(const char *text)
{
	char hex[DIGEST_HEX + 1];
	uint64_t hash = 0;
	digest_data(text, strlen(text), hex);
	hex[HALF] = '\0';
	return str_u64(hex, 16, &hash) && hash ? hash : 1;
}

static bool parse_hash_half(const char *text, uint64_t *ret)
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

bool target_hash_parse(const char *text, struct target_hash *ret)
{
	struct target_hash target_hash = { 0 };
	if (!str_eq(text, "none") && (strlen(text) != TARGET_HASH_TEXT - 1 || text[HALF] != '-' ||
				      !parse_hash_half(text, &target_hash.payload) ||
				      !parse_hash_half(text + HALF + 1, &target_hash.options) || !target_hash.payload))
		return false;
	*ret = target_hash;
	return true;
}

void target_hash_text(const struct target_hash *target_hash, char ret[TARGET_HASH_TEXT])
{
	if (target_hash_is_set(target_hash))
		snprintf(ret, TARGET_HASH_TEXT, "%016jx-%016jx", (uintmax_t)target_hash->payload,
			 (uintmax_t)target_hash->options);
	else
		snprintf(ret, TARGET_HASH_TEXT, "none");
}

json_t *target_hash_json(const struct target_hash *target_hash)
{
	char text[TARGET_HASH_TEXT];
	target_hash_text(target_hash, text);
	return json_string(text);
}

void target_name(struct target *t)
{
	auto_str char *payload = str_fmt("%s\n%s\n%s", t->driver, t->flavour, t->package ? t->package : "");
	t->target_hash.payload = target_hash_of_text(payload);
	t->target_hash.options = *t->parameters ? target_hash_of_text(t->parameters) : 0;
}

void target_done(struct target *t)
{
	free(t->package);
	free(t->parameters);
	*t = (struct target){ 0 };
}

void target_params(const struct target *t, struct strv *ret)
{
	auto_strv struct strv lines = { 0 };
	strv_split(&lines, t->parameters ? t->parameters : "", "\n");
	for (size_t i = 0; i < lines.count; i++) {
		const char *line = lines.items[i];
		bool has_module = strcspn(line, ":") < strcspn(line, "=");
		strv_add(ret, str_fmt("%s%s", has_module ? "" : "nvidia:", line));
	}
}
