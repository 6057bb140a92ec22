// SPDX-License-Identifier: Apache-2.0
// Merge patches (RFC 7386) and JSON patches (RFC 6902: test, add, replace, remove), the latter like the real server's
// library (evanphx/json-patch 4.13, patch.go): an absent key is null for a test and may be replaced, but its parent
// must exist.
#include "tests/sim/sim_internal.h"

static json_t *merge_json(json_t *take, json_t *patch)
{
	const char *key;
	json_t *value;
	json_t *merged = json_is_object(take) ? json_incref(take) : json_object();
	json_decref(take);
	json_object_foreach(patch, key, value)
	{
		json_t *have = json_incref(json_object_get(merged, key));
		json_object_del(merged, key);
		if (json_is_object(value))
			json_object_set_new(merged, key, merge_json(have, value));
		else
			json_decref(have);
		if (!json_is_object(value) && !json_is_null(value))
			json_object_set(merged, key, value);
	}
	return merged;
}

json_t *sim_merge_patch(const json_t *object, const json_t *patch)
{
	auto_json json_t *own = json_deep_copy(patch);
	return merge_json(json_deep_copy(object), own);
}

static char *unescape_pointer(const char *part)
{
	char *text = str_dup(part), *to = text;
	for (const char *p = text; *p; p++) {
		bool is_escape = *p == '~' && (p[1] == '0' || p[1] == '1');
		*to++ = (char)(!is_escape ? *p : p[1] == '0' ? '~' : '/');
		p += is_escape;
	}
	*to = '\0';
	return text;
}

// The parent of a pointer's last part, and that part; NULL = there is none.
static json_t *find_above(json_t *at, const char *pointer, char **ret_key)
{
	if (*pointer != '/')
		return NULL;
	const char *part = pointer + 1;
	for (const char *slash; (slash = strchr(part, '/')); part = slash + 1) {
		auto_str char *raw = str_ndup(part, (size_t)(slash - part)), *key = unescape_pointer(raw);
		uint64_t index;
		at = json_is_array(at) && str_u64(key, 10, &index) ? json_array_get(at, index) :
								     json_object_get(at, key);
	}
	if (!json_is_object(at) && !json_is_array(at))
		return NULL;
	*ret_key = unescape_pointer(part);
	return at;
}

static bool patch_array(json_t *array, const char *op, const char *key, json_t *value)
{
	uint64_t i = json_array_size(array);
	bool is_add = str_eq(op, "add");
	if (!(is_add && str_eq(key, "-")) && !str_u64(key, 10, &i))
		return false;
	if (i >= json_array_size(array) + is_add)
		return false;
	if (is_add)
		return json_array_insert(array, i, value) == 0;
	if (str_eq(op, "replace"))
		return json_array_set(array, i, value) == 0;
	if (str_eq(op, "remove"))
		return json_array_remove(array, i) == 0;
	return str_eq(op, "test") && json_equal(json_array_get(array, i), value);
}

static bool patch_object(json_t *object, const char *op, const char *key, json_t *value)
{
	const json_t *have = json_object_get(object, key);
	if (str_eq(op, "test"))
		return have && !json_is_null(have) ? json_equal(have, value) : json_is_null(value);
	if (str_eq(op, "remove"))
		return json_object_del(object, key) == 0;
	return (str_eq(op, "add") || str_eq(op, "replace")) && json_object_set(object, key, value) == 0;
}

json_t *sim_json_patch(const json_t *object, const json_t *operations)
{
	size_t i;
	const json_t *o;
	auto_json json_t *patched = json_deep_copy(object);
	json_array_foreach(operations, i, o)
	{
		auto_str char *key = NULL;
		const char *op = sim_text(o, "op"), *path = sim_text(o, "path");
		json_t *above = find_above(patched, path ? path : "", &key), *value = json_object_get(o, "value");
		auto_json json_t *own = value ? json_deep_copy(value) : json_null();
		if (!above || !(json_is_array(above) ? patch_array : patch_object)(above, op, key, own))
			return NULL;
	}
	return TAKE(patched);
}
