// SPDX-License-Identifier: Apache-2.0
#include "precompiled/trust/unverified.h"

#include "base/formats/json.h"

static const char FILE_NAME[] = "unverified.json";

int unverified_read(const struct root *state, uint64_t *ret_count, char **ret_last, struct err *err)
{
	auto_json json_t *json = NULL;
	int r = json_read(state, FILE_NAME, &json, err);
	if (r <= 0)
		return r;
	*ret_count = (uint64_t)json_integer_value(json_object_get(json, "count"));
	*ret_last = str_dup(json_string_value(json_object_get(json, "last")));
	return *ret_count > 0;
}

int unverified_add(const struct root *state, const char *tag, struct err *err)
{
	auto_str char *last = NULL;
	uint64_t count = 0;
	struct err ignored;
	// A damaged count begins again: it must not stop the package that is asked for.
	unverified_read(state, &count, &last, &ignored);
	auto_json json_t *json = json_pack("{s:I, s:s}", "count", (json_int_t)count + 1, "last", tag);
	return json_write(state, FILE_NAME, json, err);
}
