// SPDX-License-Identifier: Apache-2.0
#include "base/formats/yaml.h"

#include <yaml.h>

enum { DEPTH = 32 };

#define YAML_LIB(X)                \
	X(parser_initialize)       \
	X(parser_delete)           \
	X(parser_set_input_string) \
	X(parser_parse)            \
	X(event_delete)

static struct { // lib.parser_parse is yaml_parser_parse, and so on
#define X(name) __typeof__(yaml_##name) *(name);
	YAML_LIB(X)
#undef X
} lib;

#ifdef KMODSMITH_STATIC
static int load_libyaml(struct err *err) // see base/http/http_lib.c: this build has no clients
{
	return err_set(err, E_NOT_FOUND, "kmodsmith-static cannot read YAML; use the normal build");
}
#else
#include <dlfcn.h>

static int load_libyaml(struct err *err)
{
	static const char FILE_NAME[] = "libyaml-0.so.2";
	if (lib.event_delete)
		return 0;
	void *file = dlopen(FILE_NAME, RTLD_NOW | RTLD_LOCAL);
	if (!file)
		return err_set(err, E_NOT_FOUND, "a file in YAML needs libyaml: %s", dlerror());
#define X(name)                                           \
	*(void **)&lib.name = dlsym(file, "yaml_" #name); \
	if (!lib.name)                                    \
		return err_set(err, E_NOT_FOUND, "libyaml: %s", dlerror());
	YAML_LIB(X)
#undef X
	return 0;
}
#endif

struct reader {
	yaml_parser_t parser;
	yaml_event_t event;
	const char *name; // NULL = the caller adds it
	bool has_numbers;
	unsigned depth;
};

static char *mark_text(const struct reader *r, const yaml_mark_t *at)
{
	return r->name ? str_fmt("'%s' line %zu", r->name, at->line + 1) :
			 str_fmt("line %zu, column %zu", at->line + 1, at->column + 1);
}

static int refuse_yaml(const struct reader *r, const char *why, struct err *err)
{
	auto_str char *where = mark_text(r, &r->event.start_mark);
	return err_set(err, E_CONFIG, "%s: %s", where, why);
}

static int next_event(struct reader *r, struct err *err)
{
	lib.event_delete(&r->event);
	if (lib.parser_parse(&r->parser, &r->event))
		return 0;
	auto_str char *where = mark_text(r, &r->parser.problem_mark);
	return err_set(err, E_CONFIG, "%s: not valid YAML: %s", where,
		       r->parser.problem ? r->parser.problem : "it cannot be read");
}

static json_t *scalar(const struct reader *r, const yaml_event_t *e)
{
	enum { DIGITS = 15 };
	const char *text = (const char *)e->data.scalar.value, *digits = text + (*text == '-');
	if (e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE || e->data.scalar.tag)
		return json_stringn(text, e->data.scalar.length);
	if (str_eq(text, "") || str_eq(text, "~") || str_eq(text, "null"))
		return json_null();
	if (str_eq(text, "true") || str_eq(text, "false"))
		return json_boolean(str_eq(text, "true"));
	// As JSON writes them: 010, 0x8 and 1_000 are strings, because the versions of YAML differ about them.
	size_t count = strspn(digits, "0123456789");
	if (r->has_numbers && count && count <= DIGITS && !digits[count] && (*digits != '0' || count == 1))
		return json_integer(strtoll(text, NULL, 10));
	return json_stringn(text, e->data.scalar.length);
}

static int read_value(struct reader *r, json_t **ret, struct err *err);

static int read_sequence(struct reader *r, json_t **ret, struct err *err)
{
	auto_json json_t *array = json_array();
	while (next_event(r, err) == 0) {
		json_t *item = NULL;
		if (r->event.type == YAML_SEQUENCE_END_EVENT) {
			*ret = TAKE(array);
			return 0;
		}
		if (read_value(r, &item, err) < 0)
			return -1;
		json_array_append_new(array, item);
	}
	return -1;
}

static int read_mapping(struct reader *r, json_t **ret, struct err *err)
{
	auto_json json_t *object = json_object();
	while (next_event(r, err) == 0) {
		json_t *value = NULL;
		if (r->event.type == YAML_MAPPING_END_EVENT) {
			*ret = TAKE(object);
			return 0;
		}
		if (r->event.type != YAML_SCALAR_EVENT)
			return refuse_yaml(r, "a key is not plain text", err);
		auto_str char *key = str_dup((const char *)r->event.data.scalar.value);
		if (json_object_get(object, key))
			return refuse_yaml(r, "a key occurs twice", err);
		if (next_event(r, err) < 0 || read_value(r, &value, err) < 0)
			return -1;
		if (json_object_set_new(object, key, value) < 0)
			return refuse_yaml(r, "a key is not valid text", err);
	}
	return -1;
}

// Of the event that was read last.
static int read_value(struct reader *r, json_t **ret, struct err *err)
{
	int result;
	if (r->depth == DEPTH)
		return refuse_yaml(r, "nested too deeply", err);
	switch (r->event.type) {
	case YAML_SCALAR_EVENT:
		*ret = scalar(r, &r->event);
		return *ret ? 0 : refuse_yaml(r, "a string is not valid UTF-8", err);
	case YAML_SEQUENCE_START_EVENT:
	case YAML_MAPPING_START_EVENT:
		r->depth++;
		result = r->event.type == YAML_MAPPING_START_EVENT ? read_mapping(r, ret, err) :
								     read_sequence(r, ret, err);
		r->depth--;
		return result;
	case YAML_ALIAS_EVENT:
		return refuse_yaml(r, "aliases are not supported", err);
	default:
		return refuse_yaml(r, "expected a value", err);
	}
}

static int expect_event(struct reader *r, yaml_event_type_t type, const char *why, struct err *err)
{
	if (next_event(r, err) < 0)
		return -1;
	return r->event.type == type ? 0 : refuse_yaml(r, why, err);
}

int yaml_read(const char *text, size_t len, const char *name, bool has_numbers, json_t **ret, struct err *err)
{
	struct reader r = { .name = name, .has_numbers = has_numbers };
	auto_json json_t *value = NULL;
	if (load_libyaml(err) < 0)
		return -1;
	if (!lib.parser_initialize(&r.parser))
		abort();
	lib.parser_set_input_string(&r.parser, (const unsigned char *)text, len);
	bool is_good = expect_event(&r, YAML_STREAM_START_EVENT, "no document", err) == 0 &&
		       expect_event(&r, YAML_DOCUMENT_START_EVENT, "empty document", err) == 0 &&
		       next_event(&r, err) == 0 && read_value(&r, &value, err) == 0 &&
		       expect_event(&r, YAML_DOCUMENT_END_EVENT, "unexpected content after the value", err) == 0 &&
		       expect_event(&r, YAML_STREAM_END_EVENT, "more than one document", err) == 0;
	if (is_good)
		*ret = TAKE(value);
	lib.event_delete(&r.event);
	lib.parser_delete(&r.parser);
	return is_good ? 0 : -1;
}
