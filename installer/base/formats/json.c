// SPDX-License-Identifier: Apache-2.0
#include "base/formats/json.h"

#include <errno.h>

int json_read(const struct root *root, const char *path, json_t **ret, struct err *err)
{
	auto_str char *text = NULL;
	size_t len = 0;
	int r = root_read(root, path, &text, &len, err);
	if (r <= 0)
		return r;
	json_error_t problem;
	json_t *value = json_loadb(text, len, JSON_REJECT_DUPLICATES, &problem);
	if (!value) {
		auto_str char *full = root_path(root, path);
		return err_set(err, E_CONFIG, "'%s': not valid JSON at line %d: %s", full, problem.line, problem.text);
	}
	*ret = value;
	return 1;
}

static char *dump(const json_t *value)
{
	char *text = json_dumps(value, JSON_INDENT(2) | JSON_SORT_KEYS);
	if (!text)
		abort();
	str_add(&text, "\n");
	return text;
}

int json_write(const struct root *root, const char *path, const json_t *value, struct err *err)
{
	auto_str char *text = dump(value);
	return root_write(root, path, text, strlen(text), 0644, err);
}

int json_put(const struct root *root, const char *path, const json_t *value, struct err *err)
{
	auto_str char *text = dump(value);
	return root_put(root, path, text, strlen(text), 0644, err);
}

json_t *json_text(const char *s)
{
	if (!s)
		return json_null();
	json_t *value = json_string(s);
	if (value)
		return value;
	auto_str char *ascii = str_dup(s);
	for (char *p = ascii; *p; p++)
		if ((unsigned char)*p >= 0x80)
			*p = '?';
	return json_string(ascii);
}

json_t *json_strv(const struct strv *v)
{
	json_t *array = json_array();
	for (size_t i = 0; i < v->count; i++)
		json_array_append_new(array, json_text(v->items[i]));
	return array;
}

char *json_text_dup(const json_t *object, const char *key)
{
	return str_dup(json_string_value(json_object_get(object, key)));
}

void json_strv_read(const json_t *array, struct strv *ret)
{
	size_t i;
	json_t *item;
	json_array_foreach(array, i, item)
	{
		if (json_is_string(item))
			strv_add(ret, str_dup(json_string_value(item)));
	}
}
