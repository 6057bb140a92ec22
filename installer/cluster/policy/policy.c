// SPDX-License-Identifier: Apache-2.0
#include "cluster/policy/policy.h"

#include "base/file/digest.h"
#include "base/formats/yaml.h"
#include "cluster/policy/label_selector.h"
#include "cluster/policy/policy_internal.h"
#include "host/gpu_support.h"
#include "host/module_params.h"
#include "host/module_set.h"

enum { MINUTE = 60, HOUR = 60 * MINUTE, DAY = 24 * HOUR, MONTH = 30 * DAY };

// Selectors, waves and windows of a pool

// "key=value" of every selector, once each: a node has one bit for each of them.
static int read_terms(const json_t *object, const char *path, struct strv *terms, uint64_t *ret, struct err *err)
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
			return err_set(err, E_CONFIG, "%s.%s: must be a string", its, name);
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
	    read_terms(object, path, terms, &v.wave.terms, err) < 0)
		return -1;
	if (!*v.wave.name)
		return err_set(err, E_CONFIG, "%s.name: is missing", path);
	if ((v.wave.terms != 0) + (v.wave.percent != 0) + (v.wave.count != 0) != 1)
		return err_set(err, E_CONFIG, "%s: must have one of selector, percent and count", path);
	v.wave.is_manual = v.approval == 1;
	*ret = v.wave;
	return 0;
}

static int read_waves(const json_t *object, const char *path, struct strv *terms, struct pool *pool, struct err *err)
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
			return err_set(err, E_CONFIG,
				       "%s.name: 'rest' is reserved for the nodes that no other wave selects", its);
		sum += w->percent;
		for (size_t i = 0; i < pool->wave_count; i++)
			if (str_eq(pool->waves[i].name, w->name))
				return err_set(err, E_CONFIG, "%s.name: there are two waves '%s'", its, w->name);
	}
	if (sum > 100)
		return err_set(err, E_CONFIG, "%s.waves: the percentages add up to %u%%", path, sum);
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
	auto_str char *advice = rest < most ?
					str_fmt(", or %s.deadlines.windowMargin: \"%s\", which starts nodes until that "
						"long before the end, and cancels a drain that leaves less than %s",
						path, fit, after) :
					str_dup("");
	return err_set(err, E_CONFIG,
		       "%s.windows: the longest is %s, and a node may take %s (its deadlines cordon,%s evict, replace, "
		       "validate%s and restore): write a longer window or shorter deadlines%s",
		       path, window, margin, pool->wait_for ? " wait," : "", pool->job ? ", validation" : "", advice);
}

static int read_windows(const json_t *object, const char *path, struct pool *pool, struct err *err)
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

const unsigned span_defaults[SPAN_COUNT] = {
	[SPAN_STAGE] = HOUR,           [SPAN_CORDON] = 2 * MINUTE,        [SPAN_WAIT] = 2 * HOUR,
	[SPAN_EVICT] = 30 * MINUTE,    [SPAN_REPLACE] = 10 * MINUTE,      [SPAN_VALIDATE] = 10 * MINUTE,
	[SPAN_RESTORE] = 10 * MINUTE,  [SPAN_RELEASE] = 10 * MINUTE,      [SPAN_ACK] = MINUTE,
	[SPAN_BACKOFF] = MINUTE,       [SPAN_BACKOFF_MOST] = 30 * MINUTE, [SPAN_BLOCKED] = 20 * MINUTE,
	[SPAN_DEADLOCK] = 10 * MINUTE, [SPAN_MARGIN] = 62 * MINUTE,
};
const char *const span_names[SPAN_COUNT] = { "stage",       "cordon",         "wait",        "evict",       "replace",
					     "validate",    "restore",        "release",     "ack",         "backoff",
					     "backoffMost", "blockedRelease", "pdbDeadlock", "windowMargin" };

unsigned policy_limit(const struct limit *limit, unsigned total)
{
	if (!limit->is_percent || !limit->value)
		return limit->value;
	unsigned part = (unsigned)((uint64_t)total * limit->value / 100);
	return part ? part : 1;
}

const struct field target_fields[] = {
	{ "driver", FIELD_WORD, offsetof(struct target, driver), 0, 0, NULL },
	{ "flavour", FIELD_WORD, offsetof(struct target, flavour), 0, 0, NULL },
	{ "package", FIELD_TEXT, offsetof(struct target, package), 0, 0, NULL },
	{ "parameters", FIELD_OTHER, 0, 0, 0, NULL },
	{ 0 },
};

// Checked like `install --param`, which the agent passes them to: a node would refuse them, too.
static int check_parameters(const struct target *t, const char *path, struct err *err)
{
	struct err why;
	auto_strv struct strv words = { 0 };
	auto_module_params struct module_params params = { 0 };
	target_params(t, &words);
	for (size_t i = 0; i < words.count; i++)
		if (strchr(words.items[i], ',') || module_params_add_option(&params, words.items[i], &why) < 0)
			return err_set(
				err, E_CONFIG,
				"%s.parameters: '%s' is not NAME or MODULE:NAME with a value without ',' and '\"'",
				path, words.items[i]);
	return 0;
}

// "570.86.15": numbers between single dots.
static bool is_version(const char *driver)
{
	for (size_t len; (len = strspn(driver, "0123456789")) > 0 && driver[len] == '.';)
		driver += len + 1;
	size_t last = strspn(driver, "0123456789");
	return last && !driver[last];
}

static int read_parameters(const json_t *object, const char *path, char **ret, struct err *err)
{
	const json_t *parameters = json_object_get(object, "parameters");
	const char *name;
	json_t *value;
	auto_strv struct strv lines = { 0 };
	auto_str char *its = json_field_path(path, "parameters");
	if (parameters && !json_is_object(parameters))
		return err_set(err, E_CONFIG, "%s: must be an object", its);
	json_object_foreach((json_t *)(uintptr_t)parameters, name, value)
	{
		if (!json_is_string(value) || strpbrk(json_string_value(value), "\n") || strpbrk(name, "=\n"))
			return err_set(err, E_CONFIG, "%s.%s: must be a string on one line", its, name);
		auto_str char *module = str_ndup(name, strchr(name, ':') ? strcspn(name, ":") : 0);
		struct err why;
		if (*module && module_set_check_name(its, module, &why) < 0)
			return err_set(err, E_CONFIG, "%s", why.text);
		strv_add(&lines, str_fmt("%s=%s", name, json_string_value(value)));
	}
	strv_sort(&lines);
	*ret = strv_join(&lines, "\n");
	return 0;
}

static int read_pool_target(const json_t *pool, const char *path, struct target *t, struct err *err)
{
	const json_t *object = json_object_get(pool, "target");
	auto_str char *its = json_field_path(path, "target");
	if (!object)
		return err_set(err, E_CONFIG, "%s: is missing", its);
	if (json_fields_read(object, target_fields, its, t, err) < 0 ||
	    read_parameters(object, its, &t->parameters, err) < 0)
		return -1;
	if (!*t->driver)
		return err_set(err, E_CONFIG, "%s.driver: is missing", its);
	if (!gpu_driver_branch(t->driver) || !is_version(t->driver))
		return err_set(err, E_CONFIG, "%s.driver: '%s' is not a driver version, such as 570.86.15", its,
			       t->driver);
	enum module_type flavour;
	if (*t->flavour && !module_type_parse(t->flavour, &flavour))
		return err_set(err, E_CONFIG, "%s.flavour: must be one of open, proprietary, auto", its);
	if (t->package && (!str_starts(t->package, "sha256:") || !digest_is_hex(t->package + 7)))
		return err_set(err, E_CONFIG, "%s.package: must be sha256: and 64 hex digits", its);
	target_name(t);
	return check_parameters(t, its, err);
}

static const char *const evicts[] = { "gpu", "holders", "all", "none", NULL };
static const char *const timeouts[] = { "release", "hold", NULL };
static const char *const wait_timeouts[] = { "evict", "release", NULL };
static const char *const release_timeouts[] = { "hold", "release", "fail", NULL };
static const char *const halts[] = { "finish", "rollback", "rollback-all", NULL };
static const char *const cordons[] = { "ignore", "use-first", NULL };
static const char *const unhealthies[] = { "hold", "replace", NULL };
static const char *const overflows[] = { "alone", "hold", NULL };

#define AT(field_) offsetof(struct pool, field_)
const struct field pool_fields[] = {
	{ "name", FIELD_WORD, AT(name), 0, 0, NULL },
	{ "selector", FIELD_OTHER, 0, 0, 0, NULL },
	{ "target", FIELD_OTHER, 0, 0, 0, NULL },
	{ "deadlines", FIELD_OTHER, 0, 0, 0, NULL },
	{ "drain", FIELD_OTHER, 0, 0, 0, NULL },
	{ "breaker", FIELD_OTHER, 0, 0, 0, NULL },
	{ "validation", FIELD_OTHER, 0, 0, 0, NULL },
	{ "waves", FIELD_OTHER, 0, 0, 0, NULL },
	{ "windows", FIELD_OTHER, 0, 0, 0, NULL },
	{ "maxParallel", FIELD_LIMIT, AT(parallel), 0, 0, NULL },
	{ "maxUnavailable", FIELD_LIMIT, AT(unavailable), 0, 0, NULL },
	{ "maxWaiting", FIELD_UINT, AT(waiting), 0, 1000, NULL },
	{ "maxAttempts", FIELD_UINT, AT(attempts), 1, 100, NULL },
	{ "foreignCordon", FIELD_CHOICE, AT(foreign_cordon), 0, 0, cordons },
	{ "groupOverflow", FIELD_CHOICE, AT(overflow), 0, 0, overflows },
	{ "onReleaseTimeout", FIELD_CHOICE, AT(on_release_timeout), 0, 0, release_timeouts },
	{ "onHalt", FIELD_CHOICE, AT(on_halt), 0, 0, halts },
	{ "unhealthyBefore", FIELD_CHOICE, AT(unhealthy_before), 0, 0, unhealthies },
	{ "zoneByZone", FIELD_BOOL, AT(is_by_zone), 0, 0, NULL },
	{ 0 },
};
const struct field drain_fields[] = {
	{ "evict", FIELD_CHOICE, AT(evict), 0, 0, evicts },
	{ "attempts", FIELD_UINT, AT(drain_attempts), 1, 1000, NULL },
	{ "onTimeout", FIELD_CHOICE, AT(on_timeout), 0, 0, timeouts },
	{ "waitFor", FIELD_TEXT, AT(wait_for), 0, 0, NULL },
	{ "onWaitTimeout", FIELD_CHOICE, AT(on_wait_timeout), 0, 0, wait_timeouts },
	{ "force", FIELD_BOOL, AT(is_forced), 0, 0, NULL },
	{ "deleteEmptyDir", FIELD_BOOL, AT(deletes_empty_dir), 0, 0, NULL },
	{ 0 },
};
const struct field breaker_fields[] = {
	{ "percent", FIELD_UINT, AT(breaker_percent), 1, 100, NULL },
	{ "inARow", FIELD_UINT, AT(breaker_row), 1, 1000, NULL },
	{ "hardwareErrors", FIELD_UINT, AT(hardware_errors), 0, 1000, NULL },
	{ 0 },
};

const struct field validation_fields[] = {
	{ "template", FIELD_TEXT, AT(job), 0, 0, NULL },
	{ "deadline", FIELD_SPAN, AT(job_deadline), 10, DAY, NULL },
	{ 0 },
};

// The name of an object, which becomes part of a path.
static int check_validation(const json_t *object, const char *path, const struct pool *pool, struct err *err)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789", more[] = "-.";
	const char *name = pool->job ? pool->job : "";
	size_t len = strlen(name), last = len ? len - 1 : 0;
	bool is_name = len && strchr(letters, name[0]) && strchr(letters, name[last]);
	for (size_t i = 0; i < len; i++)
		is_name = is_name && (strchr(letters, name[i]) || strchr(more, name[i]));
	if (json_object_get(object, "validation") && !is_name)
		return err_set(err, E_CONFIG, "%s.validation.template: must be the name of a PodTemplate", path);
	return 0;
}

void policy_span_fields(struct field ret[SPAN_COUNT + 1])
{
	for (unsigned i = 0; i < SPAN_COUNT; i++)
		ret[i] = (struct field){ span_names[i], FIELD_SPAN, AT(spans) + i * sizeof(unsigned), 1, MONTH, NULL };
	ret[SPAN_COUNT] = (struct field){ 0 };
}

static int read_pool(const json_t *object, const char *path, struct strv *terms, struct pool *pool, struct err *err)
{
	if (json_fields_read(object, pool_fields, path, pool, err) < 0)
		return -1;
	if (!*pool->name)
		return err_set(err, E_CONFIG, "%s.name: is missing", path);
	if (read_terms(object, path, terms, &pool->terms, err) < 0 ||
	    read_pool_target(object, path, &pool->target, err) < 0)
		return -1;
	struct field span_fields[SPAN_COUNT + 1];
	policy_span_fields(span_fields);
	const struct {
		const char *name;
		const struct field *table;
	} parts[] = { { "drain", drain_fields },
		      { "breaker", breaker_fields },
		      { "validation", validation_fields },
		      { "deadlines", span_fields } };
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		const json_t *part = json_object_get(object, parts[i].name);
		auto_str char *its = json_field_path(path, parts[i].name);
		if (part && json_fields_read(part, parts[i].table, its, pool, err) < 0)
			return -1;
	}
	if (check_validation(object, path, pool, err) < 0 || read_waves(object, path, terms, pool, err) < 0)
		return -1;
	struct err why;
	if (pool->wait_for && label_selector_check(pool->wait_for, &why) < 0)
		return err_set(err, E_CONFIG,
			       "%s.drain.waitFor: %s: expected a label selector such as \"app in (train, eval)\"", path,
			       why.text);
	// By default a window has room for everything from the cordon to a rollback.
	unsigned *s = pool->spans;
	if (!json_object_get(json_object_get(object, "deadlines"), span_names[SPAN_MARGIN]))
		s[SPAN_MARGIN] = s[SPAN_CORDON] + (pool->wait_for ? s[SPAN_WAIT] : 0) + s[SPAN_EVICT] +
				 s[SPAN_REPLACE] + s[SPAN_VALIDATE] + policy_job_span(pool) + s[SPAN_RESTORE];
	return read_windows(object, path, pool, err);
}

const struct pool pool_defaults = {
	.parallel = { 1, false },
	.unavailable = { 10, true },
	.waiting = 1,
	.attempts = 2,
	.drain_attempts = 5,
	.job_deadline = 10 * MINUTE,
	.breaker_percent = 10,
	.breaker_row = 3,
};

static const char *const besides[] = { "hold", "allow", NULL };
static const char *const modes[] = { "coordinator", "self", NULL };
const struct field policy_fields[] = {
	{ "mode", FIELD_CHOICE, offsetof(struct policy, mode), 0, 0, modes },
	{ "schema", FIELD_UINT, offsetof(struct policy, schema), 1, UINT16_MAX, NULL },
	{ "paused", FIELD_BOOL, offsetof(struct policy, is_paused), 0, 0, NULL },
	{ "mirror", FIELD_BOOL, offsetof(struct policy, has_mirror), 0, 0, NULL },
	{ "maxParallel", FIELD_LIMIT, offsetof(struct policy, parallel), 0, 0, NULL },
	{ "maxUnavailable", FIELD_LIMIT, offsetof(struct policy, unavailable), 0, 0, NULL },
	{ "maxStaging", FIELD_UINT, offsetof(struct policy, staging), 0, 10000, NULL },
	{ "besideOperator", FIELD_CHOICE, offsetof(struct policy, beside), 0, 0, besides },
	{ "groupBy", FIELD_TEXT, offsetof(struct policy, group_by), 0, 0, NULL },
	{ "zoneLabel", FIELD_TEXT, offsetof(struct policy, zone), 0, 0, NULL },
	{ "pools", FIELD_OTHER, 0, 0, 0, NULL },
	{ 0 },
};

static int read_pools(const json_t *object, struct policy *p, struct err *err)
{
	size_t count;
	if (json_field_list(object, "pools", "", POOLS_MOST, &count, err) < 0)
		return -1;
	if (!count)
		return err_set(err, E_CONFIG, "pools: must be a list of at least one pool");
	p->pools = mem_alloc(count * sizeof(*p->pools));
	while (p->pool_count < count) {
		size_t at = p->pool_count++;
		auto_str char *its = str_fmt("pools[%zu]", at);
		struct pool *pool = &p->pools[at];
		*pool = pool_defaults;
		memcpy(pool->spans, span_defaults, sizeof(pool->spans));
		if (read_pool(json_array_get(json_object_get(object, "pools"), at), its, &p->terms, pool, err) < 0)
			return -1;
		for (size_t i = 0; i < at; i++)
			if (str_eq(p->pools[i].name, pool->name))
				return err_set(err, E_CONFIG, "%s.name: there are two pools '%s'", its, pool->name);
		if (at && !p->pools[at - 1].terms)
			return err_set(err, E_CONFIG,
				       "%s: selects no node, because pools[%zu] has no selector and takes all nodes",
				       its, at - 1);
		if (pool->is_by_zone && !p->zone)
			return err_set(err, E_CONFIG, "%s.zoneByZone: needs zoneLabel", its);
	}
	return 0;
}

// One node without a coordinator: settings for several nodes, or that need a coordinator's rights, are mistakes.
static int check_self_mode(const json_t *object, struct policy *p, struct err *err)
{
	struct pool *pool = p->pools;
	const json_t *its = json_array_get(json_object_get(object, "pools"), 0);
	const json_t *drain = json_object_get(its, "drain");
	static const struct {
		const char *field, *why;
	} refused[] = { { "selector", "the one node is in it" },
			{ "validation", "no coordinator runs it" },
			{ "waves", "there is one node" },
			{ "zoneByZone", "there is one node" } };
	if (p->pool_count != 1)
		return err_set(err, E_CONFIG, "pools: mode self has one pool, of one node");
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		if (json_object_get(its, refused[i].field))
			return err_set(err, E_CONFIG, "pools[0].%s: mode self has none, since %s", refused[i].field,
				       refused[i].why);
	if (pool->wait_for)
		return err_set(err, E_CONFIG, "pools[0].drain.waitFor: mode self sees no pods");
	if (json_object_get(drain, "evict") && pool->evict != EVICT_NOTHING)
		return err_set(err, E_CONFIG, "pools[0].drain.evict: must be none, since mode self evicts nothing");
	pool->evict = EVICT_NOTHING;
	return 0;
}

// Of a whole DriverRollout, as for kubectl, the document is its spec.
static int take_rollout_spec(json_t *object, json_t **ret, struct err *err)
{
	auto_json json_t *own = object;
	json_t *spec = json_object_get(own, "spec");
	if (!str_eq(json_string_value(json_object_get(own, "kind")), "DriverRollout")) {
		*ret = TAKE(own);
		return 0;
	}
	if (!json_is_object(spec))
		return err_set(err, E_CONFIG, "spec: must be an object");
	*ret = json_incref(spec);
	return 0;
}

int policy_document(const char *text, size_t len, json_t **ret, struct err *err)
{
	json_error_t problem;
	if (len > POLICY_BYTES)
		return err_set(err, E_CONFIG, "the policy is larger than %d bytes", POLICY_BYTES);
	json_t *object = NULL;
	size_t at = 0;
	while (at < len && strchr(" \t\r\n", text[at]))
		at++;
	if (at == len || text[at] != '{')
		return yaml_read(text, len, NULL, true, &object, err) < 0 ? -1 : take_rollout_spec(object, ret, err);
	object = json_loadb(text, len, JSON_REJECT_DUPLICATES, &problem);
	if (!object)
		return err_set(err, E_CONFIG, "line %d, column %d is not JSON: %s", problem.line, problem.column,
			       problem.text);
	return take_rollout_spec(object, ret, err);
}

const struct policy policy_defaults = {
	.schema = POLICY_SCHEMA, .parallel = { LIMIT_NONE, false }, .unavailable = { LIMIT_NONE, false }, .staging = 20
};

int policy_read(const json_t *document, struct policy *ret, struct err *err)
{
	auto_policy struct policy p = policy_defaults;
	// The schema first: a newer one may have fields that this version does not know.
	const json_t *schema = json_object_get(document, "schema");
	if (json_is_integer(schema) && json_integer_value(schema) > POLICY_SCHEMA)
		return err_set(err, E_CONFIG, "schema: %lld is newer than %d, which this version supports",
			       (long long)json_integer_value(schema), POLICY_SCHEMA);
	if (json_fields_read(document, policy_fields, "", &p, err) < 0 || read_pools(document, &p, err) < 0 ||
	    (p.mode == MODE_SELF && check_self_mode(document, &p, err) < 0))
		return -1;
	*ret = p;
	p = POLICY_NONE;
	return 0;
}

int policy_parse(const char *text, size_t len, struct policy *ret, struct err *err)
{
	auto_json json_t *document = NULL;
	return policy_document(text, len, &document, err) < 0 ? -1 : policy_read(document, ret, err);
}

void policy_done(struct policy *p)
{
	for (size_t i = 0; i < p->pool_count; i++) {
		struct pool *pool = &p->pools[i];
		target_done(&pool->target);
		free(pool->wait_for);
		free(pool->job);
		free(pool->waves);
		free(pool->windows);
	}
	free(p->pools);
	free(p->driver_sets);
	free(p->group_by);
	free(p->zone);
	strv_done(&p->terms);
	*p = POLICY_NONE;
}
