// SPDX-License-Identifier: Apache-2.0
#include "driver_toolkit/dtk.h"

#include "base/formats/json.h"

enum { FORMAT = 1, TEXT_MOST = 300, MODULES_MOST = 32, NUMBER_MOST = 1000000 };

enum dtk_step dtk_next(const struct dtk_flags *flags, const char *id)
{
	if (!str_eq(flags->id[DTK_PREPARED], id))
		return DTK_PREPARE;
	if (str_eq(flags->id[DTK_BUILT], id))
		return DTK_TAKE;
	return str_eq(flags->id[DTK_BROKEN], id) ? DTK_LEAVE : DTK_WAIT;
}

bool dtk_is_due(const struct dtk_flags *flags, const char *id)
{
	return dtk_next(flags, id) == DTK_WAIT;
}

void dtk_request_done(struct dtk_request *r)
{
	free(r->driver);
	free(r->flavour);
	free(r->kernel);
	free(r->source);
	free(r->source_sha256);
	free(r->patches);
	free(r->program);
	strv_done(&r->modules);
	*r = (struct dtk_request){ 0 };
}

// One table for what is written, read and compared.
enum kind { WORD, NAME, DIGEST, DIGEST_OR_NONE, FLAVOUR };
static const struct {
	const char *key;
	enum kind kind;
	size_t offset;
} texts[] = {
	{ "driver", WORD, offsetof(struct dtk_request, driver) },
	{ "flavour", FLAVOUR, offsetof(struct dtk_request, flavour) },
	{ "kernel", NAME, offsetof(struct dtk_request, kernel) },
	{ "source", NAME, offsetof(struct dtk_request, source) },
	{ "source_sha256", DIGEST, offsetof(struct dtk_request, source_sha256) },
	{ "patches", DIGEST_OR_NONE, offsetof(struct dtk_request, patches) },
	{ "program", DIGEST, offsetof(struct dtk_request, program) },
};
static const struct {
	const char *key;
	unsigned least;
	size_t offset;
} numbers[] = {
	{ "jobs", 0, offsetof(struct dtk_request, jobs) },
	{ "timeout_s", 0, offsetof(struct dtk_request, timeout_s) },
	{ "attempt", 1, offsetof(struct dtk_request, attempt) },
};

static char **request_text_field(struct dtk_request *r, size_t i)
{
	return (char **)((char *)r + texts[i].offset);
}

static const char *request_text(const struct dtk_request *r, size_t i)
{
	return *(char *const *)((const char *)r + texts[i].offset);
}

static unsigned *request_number_field(struct dtk_request *r, size_t i)
{
	return (unsigned *)((char *)r + numbers[i].offset);
}

static unsigned request_number(const struct dtk_request *r, size_t i)
{
	return *(const unsigned *)((const char *)r + numbers[i].offset);
}

char *dtk_request_text(const struct dtk_request *r)
{
	auto_json json_t *json = json_pack("{s:i, s:b, s:o}", "format", FORMAT, "allow_rt", r->is_rt_allowed, "modules",
					   json_strv(&r->modules));
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		json_object_set_new(json, texts[i].key, json_text(request_text(r, i)));
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		json_object_set_new(json, numbers[i].key, json_integer(request_number(r, i)));
	char *text = json_dumps(json, JSON_INDENT(2) | JSON_SORT_KEYS);
	str_add(&text, "\n");
	return text;
}

void dtk_request_id(const char *text, char ret[DIGEST_HEX + 1])
{
	digest_data(text, strlen(text), ret);
}

bool dtk_request_equal(const struct dtk_request *a, const struct dtk_request *b)
{
	struct dtk_request as_b = *a;
	as_b.attempt = b->attempt;
	auto_str char *one = dtk_request_text(&as_b), *other = dtk_request_text(b);
	return str_eq(one, other);
}

// Of letters that releases, versions and file names have; none that begins like a hidden file or climbs.
static bool is_file_name(const char *s, size_t len)
{
	static const char USUAL[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+~-";
	return len && len <= TEXT_MOST && *s != '.' && strspn(s, USUAL) == len;
}

static bool is_valid_text(enum kind kind, const json_t *value)
{
	const char *s = json_string_value(value);
	if (!s)
		return kind == DIGEST_OR_NONE && json_is_null(value);
	if (kind == DIGEST || kind == DIGEST_OR_NONE)
		return digest_is_hex(s);
	if (kind == FLAVOUR)
		return str_eq(s, "open") || str_eq(s, "proprietary");
	return is_file_name(s, json_string_length(value));
}

static bool parse_modules(const json_t *list, struct strv *ret)
{
	size_t i;
	json_t *item;
	if (!json_is_array(list) || json_array_size(list) > MODULES_MOST)
		return false;
	json_array_foreach(list, i, item)
	{
		if (!is_valid_text(NAME, item))
			return false;
		strv_add(ret, str_dup(json_string_value(item)));
	}
	return true;
}

static const char *parse_request(const json_t *json, struct dtk_request *r)
{
	if (json_integer_value(json_object_get(json, "format")) != FORMAT)
		return "format";
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		const json_t *value = json_object_get(json, texts[i].key);
		if (!is_valid_text(texts[i].kind, value))
			return texts[i].key;
		*request_text_field(r, i) = str_dup(json_string_value(value));
	}
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		const json_t *value = json_object_get(json, numbers[i].key);
		json_int_t n = json_integer_value(value);
		if (!json_is_integer(value) || n < (json_int_t)numbers[i].least || n > NUMBER_MOST)
			return numbers[i].key;
		*request_number_field(r, i) = (unsigned)n;
	}
	r->is_rt_allowed = json_is_true(json_object_get(json, "allow_rt"));
	return parse_modules(json_object_get(json, "modules"), &r->modules) ? NULL : "modules";
}

int dtk_request_parse(const char *text, size_t len, struct dtk_request *ret, struct err *err)
{
	auto_dtk_request struct dtk_request r = { 0 };
	json_error_t problem;
	auto_json json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES, &problem);
	if (!json)
		return err_set(err, E_CONFIG, "the request is not valid JSON at line %d: %s", problem.line,
			       problem.text);
	const char *wrong = parse_request(json, &r);
	if (wrong)
		return err_set(err, E_CONFIG, "the request's '%s' is missing or invalid", wrong);
	*ret = r;
	r = (struct dtk_request){ 0 };
	return 0;
}
