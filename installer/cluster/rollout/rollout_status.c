// SPDX-License-Identifier: Apache-2.0
#include "cluster/rollout/rollout_status.h"

#include "base/core/date.h"
#include "cluster/node_state/annotations.h"

json_t *rollout_status_date(int64_t t)
{
	auto_str char *text = t ? date_text((time_t)t) : NULL;
	return json_text(text);
}

static const json_t *pool_of(const json_t *doc, const char *name)
{
	const json_t *pools = json_object_get(doc, "pools");
	for (size_t i = 0; i < json_array_size(pools); i++)
		if (str_eq(json_string_value(json_object_get(json_array_get(pools, i), "name")), name))
			return json_array_get(pools, i);
	return NULL;
}

static bool read_target_hash(const json_t *words, struct target_hash *ret)
{
	const char *text = json_string_value(json_object_get(words, "aim"));
	return text && target_hash_parse(text, ret);
}

// What a hash stands for: the policy's current target, or what the status recorded when it was the target.
static json_t *target_json(const struct pool *pool, const struct target_hash *target_hash, const json_t *before)
{
	static const char *const places[] = { "target", "stable" };
	struct target_hash was;
	if (!target_hash_is_set(target_hash))
		return json_null();
	if (target_hash_eq(target_hash, &pool->target.target_hash)) {
		const struct target *t = &pool->target;
		json_t *parameters = json_object(); // as in the policy
		size_t len;
		for (const char *at = t->parameters, *line;
		     *t->parameters && (line = node_word_cut(&at, '\n', &len));) {
			auto_str char *name = str_ndup(line, len);
			char *equals = strchr(name, '=');
			*equals++ = '\0';
			json_object_set_new(parameters, name, json_text(equals));
		}
		return json_pack("{s:o, s:{s:s, s:s*, s:s*, s:o}}", "aim", target_hash_json(target_hash), "as",
				 "driver", t->driver, "flavour", *t->flavour ? t->flavour : NULL, "package", t->package,
				 "parameters", parameters);
	}
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		json_t *words = json_object_get(before, places[i]);
		if (read_target_hash(words, &was) && target_hash_eq(&was, target_hash))
			return json_incref(words);
	}
	return json_pack("{s:o}", "aim", target_hash_json(target_hash));
}

json_t *rollout_status_make(const struct policy *p, const struct rollout *rollouts, const json_t *before,
			    uint32_t epoch)
{
	json_t *pools = json_array();
	for (size_t i = 0; i < p->pool_count; i++) {
		const struct pool *pool = &p->pools[i];
		const struct rollout *r = &rollouts[i];
		const json_t *was = pool_of(before, pool->name);
		const char *code = r->halt.code == REASON_NONE ? NULL : node_reason_info(r->halt.code)->code;
		json_array_append_new(
			pools,
			json_pack("{s:s, s:o, s:o, s:b, s:o, s:s, s:o, s:b, s:i, s:i, s:s, s:o, s:i, s:o}", "name",
				  pool->name, "target", target_json(pool, &r->target, was), "stable",
				  target_json(pool, &r->stable, was), "halted", r->is_halted, "reason", json_text(code),
				  "object", r->halt.object, "haltedSince", rollout_status_date(r->halted_since),
				  "aborted", r->is_aborted, "frozen", (int)r->frozen, "wave", (int)r->wave, "waveName",
				  policy_wave_name(pool, r->wave), "soakSince", rollout_status_date(r->soak_since),
				  "approved", (int)r->approved, "resumed", rollout_status_date(r->resumed)));
	}
	return json_pack("{s:i, s:I, s:o}", "schema", ROLLOUT_STATUS_SCHEMA, "epoch", (json_int_t)epoch, "pools",
			 pools);
}

static bool read_status_number(const json_t *pool, const char *key, unsigned *ret)
{
	json_int_t n = json_integer_value(json_object_get(pool, key));
	*ret = n >= 0 && n <= INT32_MAX ? (unsigned)n : 0;
	return json_is_integer(json_object_get(pool, key)) && n >= 0 && n <= INT32_MAX;
}

static bool read_status_date(const json_t *pool, const char *key, int64_t *ret)
{
	const json_t *value = json_object_get(pool, key);
	time_t t = 0;
	*ret = 0;
	if (json_is_null(value))
		return true;
	if (!json_is_string(value) || !date_parse(json_string_value(value), &t))
		return false;
	*ret = t;
	return true;
}

static bool read_status_target(const json_t *pool, const char *key, struct target_hash *ret)
{
	const json_t *words = json_object_get(pool, key);
	*ret = TARGET_HASH_NONE;
	return json_is_null(words) || (read_target_hash(words, ret) && target_hash_is_set(ret));
}

static bool read_rollout(const json_t *pool, struct rollout *ret)
{
	const char *code = json_string_value(json_object_get(pool, "reason"));
	const char *object = json_string_value(json_object_get(pool, "object"));
	ret->is_halted = json_is_true(json_object_get(pool, "halted"));
	ret->is_aborted = json_is_true(json_object_get(pool, "aborted"));
	ret->halt.code = code ? node_reason_parse(code, strlen(code)) : REASON_NONE;
	if (!read_status_target(pool, "target", &ret->target) || !read_status_target(pool, "stable", &ret->stable) ||
	    ret->halt.code == REASON_COUNT || !object || strlen(object) >= OBJECT_TEXT)
		return false;
	memcpy(ret->halt.object, object, strlen(object));
	return read_status_number(pool, "frozen", &ret->frozen) && read_status_number(pool, "wave", &ret->wave) &&
	       read_status_number(pool, "approved", &ret->approved) &&
	       read_status_date(pool, "soakSince", &ret->soak_since) &&
	       read_status_date(pool, "resumed", &ret->resumed) &&
	       read_status_date(pool, "haltedSince", &ret->halted_since);
}

int rollout_status_read(const json_t *doc, const struct policy *p, struct rollout *ret, struct err *err)
{
	unsigned schema = 0;
	read_status_number(doc, "schema", &schema);
	if (schema > ROLLOUT_STATUS_SCHEMA)
		return err_set(err, E_CONFIG,
			       "schema %u of the rollout's status is newer than %d, which this version supports",
			       schema, ROLLOUT_STATUS_SCHEMA);
	for (size_t i = 0; i < p->pool_count; i++) {
		const json_t *pool = pool_of(doc, p->pools[i].name);
		ret[i] = (struct rollout){ 0 };
		if (pool && !read_rollout(pool, &ret[i]))
			return err_set(err, E_CONFIG, "the status of pool '%s' is not valid", p->pools[i].name);
	}
	return 0;
}
