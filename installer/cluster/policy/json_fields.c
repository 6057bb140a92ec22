// SPDX-License-Identifier: Apache-2.0
#include "cluster/policy/json_fields.h"

#include "base/options/opt.h"
#include "cluster/node_state/annotations.h"

static int read_bool_field(const json_t *value, const struct field *f, void *to, const char *path, struct err *err)
{
	(void)f;
	if (!json_is_boolean(value))
		return err_set(err, E_CONFIG, "%s: must be true or false", path);
	*(bool *)to = json_is_true(value);
	return 0;
}

static int read_uint_field(const json_t *value, const struct field *f, void *to, const char *path, struct err *err)
{
	json_int_t number = json_integer_value(value);
	if (!json_is_integer(value) || number < f->least || number > f->most)
		return err_set(err, E_CONFIG, "%s: must be a number from %u to %u", path, f->least, f->most);
	*(unsigned *)to = (unsigned)number;
	return 0;
}

// 0 would be a state without an end (T17, T81): it is out of bounds.
static int read_span_field(const json_t *value, const struct field *f, void *to, const char *path, struct err *err)
{
	static const struct {
		const char *unit;
		uint64_t seconds;
	} units[] = { { "s", 1 }, { "m", 60 }, { "h", 3600 }, { "d", 86400 } };
	const char *text = json_string_value(value);
	uint64_t seconds = json_is_integer(value) ? (uint64_t)json_integer_value(value) : 0;
	bool is_time = json_is_integer(value) && json_integer_value(value) >= 0;
	for (size_t i = 0; text && i < ARRAY_SIZE(units); i++) {
		if (!str_ends(text, units[i].unit))
			continue;
		auto_str char *digits = str_ndup(text, strlen(text) - 1);
		is_time = str_u64(digits, 10, &seconds) && seconds <= UINT32_MAX;
		seconds *= units[i].seconds;
		break;
	}
	if (!is_time || seconds > f->most)
		return err_set(err, E_CONFIG, "%s: must be a time such as \"90s\", \"30m\" or \"2h\", at most %u days",
			       path, f->most / 86400);
	if (seconds < f->least)
		return err_set(err, E_CONFIG, "%s: must be at least %us; there is no unlimited", path, f->least);
	*(unsigned *)to = (unsigned)seconds;
	return 0;
}

static int read_limit_field(const json_t *value, const struct field *f, void *to, const char *path, struct err *err)
{
	uint64_t number = 0;
	struct limit limit = { 0 };
	bool is_good = json_is_integer(value) && json_integer_value(value) >= 0;
	(void)f;
	if (is_good)
		number = (uint64_t)json_integer_value(value);
	const char *text = json_string_value(value);
	if (text && str_ends(text, "%")) {
		auto_str char *digits = str_ndup(text, strlen(text) - 1);
		is_good = limit.is_percent = str_u64(digits, 10, &number) && number <= 100;
	}
	if (!is_good || number > INT32_MAX)
		return err_set(err, E_CONFIG,
			       "%s: must be a number of nodes or a percentage such as \"10%%\"; 0 pauses", path);
	limit.value = (unsigned)number;
	*(struct limit *)to = limit;
	return 0;
}

static int read_word_field(const json_t *value, const struct field *f, void *to, const char *path, struct err *err)
{
	const char *text = json_string_value(value);
	auto_str char *bare = json_dumps(value, JSON_ENCODE_ANY);
	(void)f;
	if (json_is_number(value) || json_is_boolean(value))
		return err_set(err, E_CONFIG, "%s: must be a string, and %s is none without quotes: \"%s\"", path, bare,
			       bare);
	if (!text || !node_word_copy(to, WORD_TEXT, text, strlen(text)))
		return err_set(err, E_CONFIG,
			       "%s: must be a word of letters, digits, '.', '_', '/' and '-', at most %d", path,
			       WORD_TEXT - 1);
	return 0;
}

static int read_text_field(const json_t *value, const struct field *f, void *to, const char *path, struct err *err)
{
	const char *text = json_string_value(value);
	(void)f;
	if (!text || !*text || strlen(text) > KEY_VALUE_MOST)
		return err_set(err, E_CONFIG, "%s: must be a string of 1 to %d bytes", path, KEY_VALUE_MOST);
	*(char **)to = str_dup(text);
	return 0;
}

static int read_choice_field(const json_t *value, const struct field *f, void *to, const char *path, struct err *err)
{
	auto_strv struct strv all = { 0 };
	for (int i = 0; f->names[i]; i++) {
		if (str_eq(f->names[i], json_string_value(value))) {
			*(int *)to = i;
			return 0;
		}
		strv_add(&all, str_dup(f->names[i]));
	}
	auto_str char *text = strv_join(&all, ", ");
	return err_set(err, E_CONFIG, "%s: must be one of %s", path, text);
}

static int (*const readers[])(const json_t *, const struct field *, void *, const char *, struct err *) = {
	[FIELD_BOOL] = read_bool_field,     [FIELD_UINT] = read_uint_field, [FIELD_SPAN] = read_span_field,
	[FIELD_LIMIT] = read_limit_field,   [FIELD_WORD] = read_word_field, [FIELD_TEXT] = read_text_field,
	[FIELD_CHOICE] = read_choice_field,
};

static int refuse_field(const char *name, const struct field *table, const char *path, struct err *err)
{
	auto_strv struct strv names = { 0 };
	for (; table->name; table++)
		strv_add(&names, str_dup(table->name));
	auto_str char *hint = opt_hint(name, &names);
	return err_set(err, E_CONFIG, "%s: unknown field%s", path, hint);
}

int json_fields_read(const json_t *object, const struct field *table, const char *path, void *values, struct err *err)
{
	const char *name;
	json_t *value;
	if (!json_is_object(object))
		return err_set(err, E_CONFIG, "%s: must be an object", *path ? path : "the policy");
	json_object_foreach((json_t *)(uintptr_t)object, name, value)
	{
		auto_str char *its = json_field_path(path, name);
		const struct field *f = table;
		while (f->name && !str_eq(f->name, name))
			f++;
		if (!f->name)
			return refuse_field(name, table, its, err);
		if (f->type != FIELD_OTHER && readers[f->type](value, f, (char *)values + f->offset, its, err) < 0)
			return -1;
	}
	return 0;
}

int json_field_list(const json_t *object, const char *name, const char *path, size_t most, size_t *ret, struct err *err)
{
	const json_t *list = json_object_get(object, name);
	auto_str char *its = json_field_path(path, name);
	*ret = json_array_size(list);
	if (list && !json_is_array(list))
		return err_set(err, E_CONFIG, "%s: must be a list", its);
	if (*ret > most)
		return err_set(err, E_CONFIG, "%s: has %zu entries, at most %zu are allowed", its, *ret, most);
	return 0;
}
