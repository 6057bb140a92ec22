// SPDX-License-Identifier: Apache-2.0
// Selectors, waves and windows of a pool.
#include "cluster/policy/policy_internal.h"

// "key=value" of every selector, once each: a node has one bit for each of them.
int policy_terms(const json_t *object, const char *path, struct strv *terms, uint64_t *ret, struct err *err)
{
	const json_t *selector = json_object_get(object, "selector");
	auto_str char *its = json_field_path(path, "selector");
	const char *name;
	json_t *value;
	if (selector && !json_is_object(selector))
		return err_set(err, E_CONFIG, "%s: must be an object of labels", its);
	json_object_foreach((json_t *)(uintptr_t)selector, name, value)
	{
		size_t at = 0;
		if (!json_is_string(value))
			return err_set(err, E_CONFIG, "%s.%s: must be a text", its, name);
		auto_str char *term = str_fmt("%s=%s", name, json_string_value(value));
		while (at < terms->count && !str_eq(terms->items[at], term))
			at++;
		if (at == terms->count)
			strv_add(terms, TAKE(term));
		if (at >= 64)
			return err_set(err, E_CONFIG, "%s: the policy has more than 64 different labels", its);
		*ret |= UINT64_C(1) << at;
	}
	return 0;
}

static const char *const approvals[] = { "auto", "manual", NULL };
struct wave_values {
	struct wave wave;
	unsigned approval;
};
#define IN_WAVE(field_) offsetof(struct wave_values, wave.field_)
const struct field wave_fields[] = {
	{ "name", FIELD_WORD, IN_WAVE(name), 0, 0, NULL },
	{ "selector", FIELD_OTHER, 0, 0, 0, NULL },
	{ "percent", FIELD_UINT, IN_WAVE(percent), 1, 100, NULL },
	{ "count", FIELD_UINT, IN_WAVE(count), 1, 100000, NULL },
	{ "soak", FIELD_SPAN, IN_WAVE(soak), 0, MONTH, NULL },
	{ "approval", FIELD_CHOICE, offsetof(struct wave_values, approval), 0, 0, approvals },
	{ "maxFailures", FIELD_UINT, IN_WAVE(failures), 0, 100000, NULL },
	{ "minDone", FIELD_UINT, IN_WAVE(done), 0, 100000, NULL },
	{ 0 },
};

const struct wave wave_defaults = { .failures = LIMIT_NONE, .done = 1 };

static int read_wave(const json_t *object, const char *path, struct strv *terms, struct wave *ret, struct err *err)
{
	struct wave_values v = { .wave = wave_defaults };
	if (json_fields_read(object, wave_fields, path, &v, err) < 0 ||
	    policy_terms(object, path, terms, &v.wave.terms, err) < 0)
		return -1;
	if (!*v.wave.name)
		return err_set(err, E_CONFIG, "%s.name: is missing", path);
	if ((v.wave.terms != 0) + (v.wave.percent != 0) + (v.wave.count != 0) != 1)
		return err_set(err, E_CONFIG, "%s: must have one of selector, percent and count", path);
	v.wave.is_manual = v.approval == 1;
	*ret = v.wave;
	return 0;
}

int policy_waves(const json_t *object, const char *path, struct strv *terms, struct pool *pool, struct err *err)
{
	size_t count;
	unsigned sum = 0;
	if (json_field_list(object, "waves", path, WAVES_MOST, &count, err) < 0)
		return -1;
	pool->waves = count ? mem_alloc(count * sizeof(*pool->waves)) : NULL;
	for (; pool->wave_count < count; pool->wave_count++) {
		struct wave *w = &pool->waves[pool->wave_count];
		auto_str char *its = str_fmt("%s.waves[%zu]", path, pool->wave_count);
		if (read_wave(json_array_get(json_object_get(object, "waves"), pool->wave_count), its, terms, w, err) <
		    0)
			return -1;
		if (str_eq(w->name, "rest"))
			return err_set(err, E_CONFIG, "%s.name: 'rest' is the wave of those that no other has", its);
		sum += w->percent;
		for (size_t i = 0; i < pool->wave_count; i++)
			if (str_eq(pool->waves[i].name, w->name))
				return err_set(err, E_CONFIG, "%s.name: there are two waves '%s'", its, w->name);
	}
	if (sum > 100)
		return err_set(err, E_CONFIG, "%s.waves: the parts are %u%% together", path, sum);
	return 0;
}

static int read_day(const json_t *value, const char *path, uint8_t *days, struct err *err)
{
	static const char *const names[] = { "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun" };
	for (unsigned i = 0; i < ARRAY_SIZE(names); i++)
		if (str_eq(json_string_value(value), names[i])) {
			*days |= (uint8_t)(1U << i);
			return 0;
		}
	return err_set(err, E_CONFIG, "%s.days: must be a list of Mon, Tue, Wed, Thu, Fri, Sat, Sun", path);
}

static int read_minute(const json_t *object, const char *name, const char *path, unsigned *ret, struct err *err)
{
	static const char digits[] = "0123456789";
	const char *text = json_string_value(json_object_get(object, name));
	if (!text || strspn(text, digits) != 2 || text[2] != ':' || strspn(text + 3, digits) != 2 || text[5] ||
	    text[0] > '2' || (text[0] == '2' && text[1] > '3') || text[3] > '5')
		return err_set(err, E_CONFIG, "%s.%s: must be a time of the day in UTC such as \"22:00\"", path, name);
	*ret = (unsigned)((text[0] - '0') * 10 + text[1] - '0') * 60 + (unsigned)((text[3] - '0') * 10 + text[4] - '0');
	return 0;
}

const struct field window_fields[] = { { "days", FIELD_OTHER, 0, 0, 0, NULL },
				       { "from", FIELD_OTHER, 0, 0, 0, NULL },
				       { "to", FIELD_OTHER, 0, 0, 0, NULL },
				       { 0 } };

static int read_window(const json_t *object, const char *path, struct window *ret, struct err *err)
{
	size_t count;
	if (json_fields_read(object, window_fields, path, ret, err) < 0 ||
	    json_field_list(object, "days", path, 7, &count, err) < 0 ||
	    read_minute(object, "from", path, &ret->from, err) < 0 ||
	    read_minute(object, "to", path, &ret->to, err) < 0)
		return -1;
	for (size_t i = 0; i < count; i++)
		if (read_day(json_array_get(json_object_get(object, "days"), i), path, &ret->days, err) < 0)
			return -1;
	ret->days = count ? ret->days : 0x7f;
	return 0;
}

static unsigned longest_window(const struct pool *pool)
{
	enum { DAY_MINUTES = 24 * 60 };
	unsigned most = 0;
	for (size_t i = 0; i < pool->window_count; i++) {
		const struct window *w = &pool->windows[i];
		unsigned minutes = w->to > w->from ? w->to - w->from : w->to + DAY_MINUTES - w->from;
		most = minutes > most ? minutes : most;
	}
	return most * 60;
}

static char *span_text(unsigned seconds) // as the policy has it
{
	return seconds % MINUTE ? str_fmt("%us", seconds) : str_fmt("%um", seconds / MINUTE);
}

// With what to write instead: a margin that leaves some of the window to begin nodes in, and never less than what may
// follow the unload.
static int refuse_windows(const json_t *object, const char *path, const struct pool *pool, struct err *err)
{
	unsigned most = longest_window(pool), rest = policy_window_rest(pool),
		 half = (most / 2 + MINUTE - 1) / MINUTE * MINUTE;
	auto_str char *window = span_text(most), *margin = span_text(pool->spans[SPAN_MARGIN]),
		      *after = span_text(rest);
	auto_str char *fit = span_text(half > rest ? half : rest);
	if (json_object_get(json_object_get(object, "deadlines"), span_names[SPAN_MARGIN]))
		return err_set(err, E_CONFIG,
			       "%s.deadlines.windowMargin: %s is more than the longest of the windows, %s; it must be "
			       "less by the time in which nodes are to be begun",
			       path, margin, window);
	auto_str char *advice =
		rest < most ? str_fmt(", or %s.deadlines.windowMargin: \"%s\", which begins nodes until so long before "
				      "the end; where a drain leaves less than %s it is called off",
				      path, fit, after) :
			      str_dup("");
	return err_set(err, E_CONFIG,
		       "%s.windows: the longest is %s, and a node may take %s (its deadlines cordon,%s evict, replace, "
		       "validate and restore): write a longer window or shorter deadlines%s",
		       path, window, margin, pool->wait_for ? " wait," : "", advice);
}

int policy_windows(const json_t *object, const char *path, struct pool *pool, struct err *err)
{
	size_t count;
	if (json_field_list(object, "windows", path, WINDOWS_MOST, &count, err) < 0)
		return -1;
	pool->windows = count ? mem_alloc(count * sizeof(*pool->windows)) : NULL;
	for (; pool->window_count < count; pool->window_count++) {
		auto_str char *its = str_fmt("%s.windows[%zu]", path, pool->window_count);
		if (read_window(json_array_get(json_object_get(object, "windows"), pool->window_count), its,
				&pool->windows[pool->window_count], err) < 0)
			return -1;
	}
	return count && longest_window(pool) < pool->spans[SPAN_MARGIN] ? refuse_windows(object, path, pool, err) : 0;
}
