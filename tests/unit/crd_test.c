// SPDX-License-Identifier: Apache-2.0
// The schema of deploy/crd.yaml and the manual page have every field that a policy may have, and no other, with the
// same types, bounds, choices and defaults.
#include "base/file/file.h"
#include "base/formats/yaml.h"
#include "cluster/policy/policy_internal.h"
#include "tests/unit/test.h"

struct schema {
	json_t *document;
	char *man;
};

static char *read_all(const char *path)
{
	struct err err = { 0 };
	char *text = NULL;
	size_t len;
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	expect(fd >= 0 && file_read(fd, path, &text, &len, &err) == 0, path);
	return text;
}

static int set_up(void **state)
{
	static struct schema s;
	struct err err = { 0 };
	auto_str char *text = read_all("deploy/crd.yaml");
	expect(yaml_read(text, strlen(text), NULL, true, &s.document, &err) == 0, err.text);
	s.man = read_all("docs/man/kmodsmith-policy.7.scd");
	*state = &s;
	return 0;
}

static int tear_down(void **state)
{
	struct schema *s = *state;
	json_decref(s->document);
	free(s->man);
	return 0;
}

// "pools items target": the object's schema, below spec.
static const json_t *schema_of(const struct schema *s, const char *keys)
{
	auto_strv struct strv path = { 0 };
	auto_str char *all = str_fmt("schema openAPIV3Schema properties spec%s%s", *keys ? " " : "", keys);
	const json_t *at = json_array_get(json_object_get(json_object_get(s->document, "spec"), "versions"), 0);
	strv_split(&path, all, " ");
	for (size_t i = 0; i < path.count; i++)
		at = json_object_get(at, path.items[i]);
	expect(json_is_object(at), keys);
	return at;
}

static bool has_choices(const json_t *schema, const char *const *names)
{
	const json_t *list = json_object_get(schema, "enum");
	size_t count = 0;
	for (; names[count]; count++)
		if (!str_eq(json_string_value(json_array_get(list, count)), names[count]))
			return false;
	return json_array_size(list) == count;
}

static bool is_of_type(const json_t *schema, const struct field *f)
{
	const char *type = json_string_value(json_object_get(schema, "type"));
	bool is_either = json_is_true(json_object_get(schema, "x-kubernetes-int-or-string"));
	json_int_t least = json_integer_value(json_object_get(schema, "minimum"));
	json_int_t most = json_integer_value(json_object_get(schema, "maximum"));
	bool has_bounds = json_is_integer(json_object_get(schema, "minimum")) && least == f->least && most == f->most;
	bool is_text = str_eq(type, "string");
	switch (f->type) {
	case FIELD_BOOL:
		return str_eq(type, "boolean");
	case FIELD_UINT:
		return str_eq(type, "integer") && has_bounds;
	case FIELD_SPAN:
		return is_either && has_bounds && json_object_get(schema, "pattern");
	case FIELD_LIMIT:
		return is_either && json_object_get(schema, "pattern") && !least;
	case FIELD_WORD:
		return is_text && json_integer_value(json_object_get(schema, "maxLength")) == WORD_TEXT - 1;
	case FIELD_TEXT:
		return is_text && (json_object_get(schema, "minLength") || json_object_get(schema, "pattern"));
	case FIELD_CHOICE:
		return is_text && has_choices(schema, f->names);
	case FIELD_OTHER:
		return type != NULL;
	}
	return false;
}

// What the API server fills in is what the parser takes an absent field for. values: room for them, as they are then.
static void same_default(const json_t *schema, const struct field *f, const char *path, const void *values, size_t size)
{
	enum { ROOM = 4096 };
	struct err err = { 0 };
	json_t *value = json_object_get(schema, "default");
	if (!value)
		return;
	auto_json json_t *object = json_pack("{s:O}", f->name, value);
	const struct field table[] = { *f, { 0 } };
	char *const before = mem_alloc(ROOM), *const after = mem_alloc(ROOM);
	assert_true(size <= ROOM / 2); // tables may reach a little behind the struct
	memcpy(before, values, size);
	memcpy(after, values, size);
	expect(json_fields_read(object, table, path, after, &err) == 0, err.text);
	expect(memcmp(before, after, ROOM) == 0, f->name);
	free(before);
	free(after);
}

static void compare(const struct schema *s, const char *keys, const struct field *table, const void *values,
		    size_t size)
{
	const json_t *schema = schema_of(s, keys), *properties = json_object_get(schema, "properties");
	size_t count = 0;
	for (const struct field *f = table; f->name; f++, count++) {
		const json_t *its = json_object_get(properties, f->name);
		const char *text = json_string_value(json_object_get(its, "description"));
		auto_str char *path = str_fmt("%s: %s", keys, f->name);
		auto_str char *bold = str_fmt("*%s*", f->name), *under = str_fmt("_%s_", f->name);
		expect(its != NULL, path);
		expect(text && strlen(text) > 10, path);
		expect(is_of_type(its, f), path);
		expect(strstr(s->man, bold) || strstr(s->man, under), path);
		same_default(its, f, path, values, size);
	}
	expect(json_object_size(properties) == count, keys);
}

static void every_field(void **state)
{
	const struct schema *s = *state;
	struct field spans[SPAN_COUNT + 1];
	struct pool pool = pool_defaults;
	const struct target target = { 0 };
	const struct window window = { 0 };
	memcpy(pool.spans, span_defaults, sizeof(pool.spans));
	policy_span_fields(spans);
	compare(s, "", policy_fields, &policy_defaults, sizeof(policy_defaults));
	compare(s, "properties pools items", pool_fields, &pool, sizeof(pool));
	compare(s, "properties pools items properties target", target_fields, &target, sizeof(target));
	compare(s, "properties pools items properties drain", drain_fields, &pool, sizeof(pool));
	compare(s, "properties pools items properties breaker", breaker_fields, &pool, sizeof(pool));
	compare(s, "properties pools items properties validation", validation_fields, &pool, sizeof(pool));
	compare(s, "properties pools items properties deadlines", spans, &pool, sizeof(pool));
	compare(s, "properties pools items properties waves items", wave_fields, &wave_defaults, sizeof(wave_defaults));
	compare(s, "properties pools items properties windows items", window_fields, &window, sizeof(window));
}

// Numbers of lists, and the days of a window.
static void every_list(void **state)
{
	const struct schema *s = *state;
	static const struct {
		const char *keys;
		unsigned most;
	} rows[] = { { "properties pools", POOLS_MOST },
		     { "properties pools items properties waves", WAVES_MOST },
		     { "properties pools items properties windows", WINDOWS_MOST } };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		expect(json_integer_value(json_object_get(schema_of(s, rows[i].keys), "maxItems")) == rows[i].most,
		       rows[i].keys);
	const json_t *days = json_object_get(
		schema_of(s, "properties pools items properties windows items properties days items"), "enum");
	assert_int_equal(json_array_size(days), 7);
	for (size_t i = 0; i < json_array_size(days); i++) {
		struct err err = { 0 };
		auto_policy struct policy p = POLICY_NONE;
		auto_json json_t *document = json_pack("{s:[{s:s, s:{s:s}, s:[{s:[O], s:s, s:s}]}]}", "pools", "name",
						       "a", "target", "driver", "1.1", "windows", "days",
						       json_array_get(days, i), "from", "00:00", "to", "00:00");
		expect(policy_read(document, &p, &err) == 0, err.text);
		assert_int_equal(p.pools[0].windows[0].days, 1U << i);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(every_field), cmocka_unit_test(every_list) };
	return cmocka_run_group_tests_name("crd", tests, set_up, tear_down);
}
