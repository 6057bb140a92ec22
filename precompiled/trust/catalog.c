// SPDX-License-Identifier: Apache-2.0
// The catalogue and its check. The numbers seen are kept per source and key: a source cannot reset them by dropping one
// of two signatures, and a new key may start again at one.
#include "precompiled/trust/catalog.h"

#include "base/core/date.h"
#include "base/file/file.h"
#include "base/file/lockfile.h"
#include "base/process/state_file.h"
#include "precompiled/repository/artifact.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

static const char SEEN[] = "catalogs.json", LOCK[] = "catalogs.lock";

void catalog_done(struct catalog *c)
{
	for (size_t i = 0; i < c->count; i++)
		free(c->items[i].tag);
	free(c->items);
	*c = (struct catalog){ 0 };
}

json_t *catalog_json(const struct catalog *c)
{
	auto_str char *created = date_text(c->created), *expires = date_text(c->expires);
	json_t *list = json_array();
	for (size_t i = 0; i < c->count; i++) {
		auto_str char *digest = oci_digest_text(c->items[i].digest);
		json_array_append_new(list, json_pack("{s:o, s:s, s:I}", "tag", json_text(c->items[i].tag), "digest",
						      digest, "size", (json_int_t)c->items[i].size));
	}
	return json_pack("{s:I, s:s, s:s, s:o}", "catalog", (json_int_t)c->number, "created", created, "expires",
			 expires, "packages", list);
}

static int by_tag(const void *a, const void *b)
{
	return strcmp((*(const struct catalog_item *const *)a)->tag, (*(const struct catalog_item *const *)b)->tag);
}

// A tag that is listed twice; NULL = none is.
static const char *find_repeated_tag(const struct catalog *c)
{
	const char *found = NULL;
	const struct catalog_item **order = mem_grow(NULL, c->count, sizeof(*order));
	for (size_t i = 0; i < c->count; i++)
		order[i] = &c->items[i];
	qsort(order, c->count, sizeof(*order), by_tag);
	for (size_t i = 1; i < c->count && !found; i++)
		found = str_eq(order[i]->tag, order[i - 1]->tag) ? order[i]->tag : NULL;
	free(order);
	return found;
}

int catalog_parse(const char *data, size_t len, const char *name, struct catalog *ret, struct err *err)
{
	auto_json json_t *json = NULL;
	auto_catalog struct catalog c = { 0 };
	if (oci_json(data, len, name, &json, err) < 0)
		return -1;
	const json_t *list = json_object_get(json, "packages"), *number = json_object_get(json, "catalog");
	if (!json_is_integer(number) || json_integer_value(number) < 1 || !json_is_array(list) ||
	    !date_parse(json_string_value(json_object_get(json, "created")), &c.created) ||
	    !date_parse(json_string_value(json_object_get(json, "expires")), &c.expires))
		return err_set(err, E_MANIFEST, "'%s': not a catalogue: needs a number, created, expires and packages",
			       name);
	c.number = (uint64_t)json_integer_value(number);
	c.items = mem_alloc((json_array_size(list) + 1) * sizeof(*c.items));
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *item = json_array_get(list, i), *size = json_object_get(item, "size");
		const char *tag = json_string_value(json_object_get(item, "tag"));
		struct catalog_item *to = &c.items[c.count];
		if (!tag || !*tag || !json_is_integer(size) || json_integer_value(size) < 0 ||
		    !oci_digest_parse(json_string_value(json_object_get(item, "digest")), to->digest))
			return err_set(err, E_MANIFEST, "'%s': entry %zu needs tag, digest and size", name, i + 1);
		to->tag = str_dup(tag);
		to->size = (uint64_t)json_integer_value(size);
		c.count++;
	}
	const char *twice = find_repeated_tag(&c);
	if (twice)
		return err_set(err, E_MANIFEST, "'%s' lists '%s' twice", name, twice);
	*ret = c;
	c = (struct catalog){ 0 };
	return 0;
}

const char *catalog_digest(const struct catalog *c, const char *tag)
{
	for (size_t i = 0; i < c->count; i++)
		if (str_eq(c->items[i].tag, tag))
			return c->items[i].digest;
	return NULL;
}

// The key in catalogs.json for a source and a signing key.
static char *seen_key(const char *source, const char *id)
{
	char hex[DIGEST_HEX + 1];
	auto_str char *text = str_fmt("%s\n%s", source, id);
	digest_data(text, strlen(text), hex);
	return str_dup(hex);
}

static int remember_seen(const struct root *state, const char *source, const struct strv *ids, const struct catalog *c,
			 struct err *err)
{
	auto_json json_t *seen = NULL;
	auto_str char *name = str_fmt("%s/%s", state->name, LOCK);
	auto_fd int fd = lockfile_open(state->fd, LOCK, O_RDWR);
	if (fd < 0)
		return file_fail("open", name, err);
	if (lockfile_wait(fd, LOCK_EX, LOCKFILE_WAIT_MS, name, err) < 0)
		return -1;
	state_file_mend(state, SEEN);
	int r = state_file_load(state, SEEN, &seen, err);
	if (r < 0)
		return -1;
	if (r == 0)
		seen = json_object();
	bool is_changed = false;
	for (size_t i = 0; i < ids->count; i++) {
		auto_str char *key = seen_key(source, ids->items[i]);
		json_int_t number = json_integer_value(json_object_get(json_object_get(seen, key), "number"));
		if (number > 0 && c->number < (uint64_t)number)
			return err_set(err, E_ROLLBACK,
				       "%s has catalogue %llu, but %lld by key %s was seen here before", source,
				       (unsigned long long)c->number, (long long)number, ids->items[i]);
		if (number == (json_int_t)c->number)
			continue;
		json_object_set_new(seen, key,
				    json_pack("{s:I, s:o, s:s}", "number", (json_int_t)c->number, "source",
					      json_text(source), "key", ids->items[i]));
		is_changed = true;
	}
	return is_changed ? json_write(state, SEEN, seen, err) : 0;
}

// There is no catalogue: is that acceptable?
static int check_absence(const struct trust_rule *rule, const struct root *state, const char *source, struct err *err)
{
	const char *key, *prefix = rule->prefix ? rule->prefix : source;
	auto_json json_t *seen = NULL;
	const json_t *entry;
	if (rule->catalog == TRUST_CATALOG_REQUIRED)
		return err_set(err, E_UNSIGNED, "%s has no catalogue (%s), but the policy for '%s' requires one",
			       source, CATALOG_TAG, prefix);
	if (rule->catalog == TRUST_CATALOG_OPTIONAL)
		return 0;
	if (state_file_load(state, SEEN, &seen, err) < 0)
		return -1;
	json_object_foreach((json_t *)seen, key, entry)
	{
		if (str_eq(json_string_value(json_object_get(entry, "source")), source))
			return err_set(err, E_UNSIGNED,
				       "%s no longer has a catalogue (%s), but catalogue %lld was seen here; if its "
				       "owner dropped it, set \"catalog\": \"optional\" for '%s' in the policy",
				       source, CATALOG_TAG,
				       (long long)json_integer_value(json_object_get(entry, "number")), prefix);
	}
	return 0;
}

int catalog_check(struct repository *r, const struct trust_rule *rule, const struct root *state, time_t now,
		  struct catalog *ret, struct err *err)
{
	const char *source = r->name;
	auto_str char *manifest = NULL, *data = NULL, *name = str_fmt("%s:%s", source, CATALOG_TAG);
	auto_catalog struct catalog c = { 0 };
	auto_signature_verdict struct signature_verdict verdict = { 0 };
	char hex[DIGEST_HEX + 1];
	size_t len = 0, data_len = 0;
	int found = repository_manifest(r, CATALOG_TAG, &manifest, &len, hex, err);
	if (found <= 0)
		return found < 0 ? -1 : check_absence(rule, state, source, err);
	if (signature_check(r, hex, rule, &verdict, err) < 0 ||
	    artifact_read(r, CATALOG_TAG, CATALOG_TYPE, manifest, len, &data, &data_len, err) < 0 ||
	    catalog_parse(data, data_len, name, &c, err) < 0)
		return err_wrap(err, "catalogue");
	if (now >= c.expires) {
		auto_str char *expires = date_text(c.expires), *today = date_text(now);
		err_set(err, E_EXPIRED, "catalogue %llu of %s expired at %s; the time here is %s",
			(unsigned long long)c.number, source, expires, today);
		return err_wrap(err, "catalogue");
	}
	if (remember_seen(state, source, &verdict.ids, &c, err) < 0)
		return err_wrap(err, "catalogue");
	*ret = c;
	c = (struct catalog){ 0 };
	return 1;
}
