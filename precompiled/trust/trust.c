// SPDX-License-Identifier: Apache-2.0
#include "precompiled/trust/trust.h"

#include "base/file/file.h"
#include "base/file/lockfile.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/statvfs.h>

static const char DIR_NAME[] = "etc/kmodsmith/trust", POLICY[] = "policy.json", SUFFIX[] = ".pem", LOCK[] = ".lock";
enum { THRESHOLD_MAX = 64 };

void trust_done(struct trust *t)
{
	for (size_t i = 0; i < t->count; i++) {
		free(t->keys[i].name);
		key_free(t->keys[i].key);
		strv_done(&t->keys[i].prefixes);
	}
	for (size_t i = 0; i < t->source_count; i++) {
		free(t->sources[i].prefix);
		strv_done(&t->sources[i].keys);
		strv_done(&t->sources[i].sources);
	}
	free(t->keys);
	free(t->sources);
	free(t->place);
	strv_done(&t->skipped);
	*t = (struct trust){ 0 };
}

int trust_dir(const struct root *host, const char *named, struct root *ret, struct err *err)
{
	if (named)
		return root_init(ret, named, err) < 0 ? -1 : 1;
	struct stat st; // a link that leads nowhere is there: keys may have been removed
	int r = root_stat(host, DIR_NAME, &st, err);
	return r > 0 && root_sub(host, DIR_NAME, ret, err) < 0 ? -1 : r;
}

int trust_dir_make(const struct root *host, const char *named, struct root *ret, struct err *err)
{
	if (named)
		return root_make(named, ret, err);
	return root_mkdirs(host, DIR_NAME, 0755, err) < 0 ? -1 : root_sub(host, DIR_NAME, ret, err);
}

// Write access to this directory decides what root loads. Ordinary users may trust any key. Modes do not matter on a
// read-only file system: a Kubernetes ConfigMap is 0777.
static int check_rights(const struct root *dir, const char *path, struct err *err)
{
	struct stat st;
	auto_str char *name = root_path(dir, path);
	auto_fd int fd = geteuid() == 0 ? root_open(dir, path, O_RDONLY, err) : -1;
	if (geteuid() != 0)
		return 0;
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0)
		return err_set(err, errno, "look at '%s'", name);
	struct statvfs fs;
	bool is_fixed = fstatvfs(fd, &fs) == 0 && (fs.f_flag & ST_RDONLY);
	if (!is_fixed && (st.st_uid != 0 || (st.st_mode & (S_IWGRP | S_IWOTH))))
		return err_set(err, E_RIGHTS,
			       "'%s' (owner %u, mode %04o) is writable by users other than root: chown 0, chmod go-w",
			       name, (unsigned)st.st_uid, (unsigned)st.st_mode & 07777);
	return 0;
}

enum { FILE_MAX = 1 << 20 };

static const struct trust_key *find_trusted_key(const struct trust *t, const char *name_or_id)
{
	for (size_t i = 0; i < t->count; i++)
		if (str_eq(t->keys[i].name, name_or_id) || str_eq(t->keys[i].key->id, name_or_id))
			return &t->keys[i];
	return NULL;
}

static int read_trusted_keys(const struct root *dir, struct trust *t, struct err *err)
{
	auto_strv struct strv names = { 0 };
	if (root_list(dir, ".", &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		const char *file = names.items[i];
		auto_str char *pem = NULL, *path = root_path(dir, file);
		auto_key struct key *key = NULL;
		if (file[0] == '.' || !str_ends(file, SUFFIX))
			continue;
		int r = root_read_entry(dir, file, FILE_MAX, &pem, &t->skipped, err);
		if (r < 0 || (r > 0 && check_rights(dir, file, err) < 0))
			return -1;
		if (r == 0)
			continue;
		if (strstr(pem, "-----BEGIN CERTIFICATE-----") && !strstr(pem, "-----BEGIN PUBLIC KEY-----"))
			continue; // a registry's authority, in the same ConfigMap
		if (key_parse(pem, path, &key, err) < 0)
			return -1;
		const struct trust_key *twin = find_trusted_key(t, key->id);
		if (twin)
			return err_set(err, E_CONFIG, "'%s' is the same key as '%s': remove one", path, twin->name);
		t->keys = mem_grow(t->keys, t->count + 1, sizeof(*t->keys));
		t->keys[t->count++] =
			(struct trust_key){ .name = str_ndup(file, strlen(file) - strlen(SUFFIX)), .key = TAKE(key) };
	}
	return 0;
}

// Lower-case scheme and host, no trailing slash: different spellings of one source must match.
static char *normalized_source(const char *name)
{
	char *copy = str_dup(name);
	size_t len = strlen(copy);
	while (len && copy[len - 1] == '/' && !str_ends(copy, "//"))
		copy[--len] = '\0';
	const char *host = strstr(copy, "://");
	if (!host)
		return copy;
	for (char *p = copy; *p && (p < host + 3 || *p != '/'); p++)
		*p = *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p;
	return copy;
}

// Whole path components only: docker://reg.example/x is not a prefix of docker://reg.example/xy.
static bool is_below_prefix(const char *name, const char *prefix)
{
	size_t len = strlen(prefix);
	return str_starts(name, prefix) &&
	       (len == 0 || name[len] == '\0' || name[len] == '/' || prefix[len - 1] == '/' || prefix[len - 1] == ':');
}

struct policy_entry { // an entry of policy.json being read
	const struct root *dir;
	struct trust *trust;
	struct trust_source *source;
};

static int refuse_policy(const struct policy_entry *e, const char *key, const char *wanted, struct err *err)
{
	return err_set(err, E_CONFIG, "'%s/%s': the entry for '%s' has '%s', which must be %s", e->dir->name, POLICY,
		       e->source->prefix ? e->source->prefix : "?", key, wanted);
}

static int set_keys(struct policy_entry *e, const json_t *list, struct err *err)
{
	e->source->has_keys = true;
	if (!json_is_array(list))
		return refuse_policy(e, "keys", "a list of names or ids", err);
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *name = json_string_value(json_array_get(list, i));
		const struct trust_key *k = name ? find_trusted_key(e->trust, name) : NULL;
		if (!k)
			return err_set(err, E_CONFIG, "'%s/%s': '%s' is not a key in this directory", e->dir->name,
				       POLICY, name ? name : "?");
		if (strv_has(&e->source->keys, k->name))
			continue;
		strv_add(&e->source->keys, str_dup(k->name));
		strv_add(&e->trust->keys[k - e->trust->keys].prefixes, str_dup(e->source->prefix));
	}
	return 0;
}

static int set_choice(const struct policy_entry *e, const char *key, const json_t *value, const char *no,
		      const char *yes, bool *ret, struct err *err)
{
	const char *text = json_string_value(value);
	auto_str char *wanted = str_fmt("\"%s\" or \"%s\"", no, yes);
	if (!str_eq(text, no) && !str_eq(text, yes))
		return refuse_policy(e, key, wanted, err);
	*ret = str_eq(text, yes);
	return 0;
}

const char *trust_catalog_name(enum trust_catalog c)
{
	static const char *const names[] = { [TRUST_CATALOG_SEEN] = "once seen",
					     [TRUST_CATALOG_OPTIONAL] = "optional",
					     [TRUST_CATALOG_REQUIRED] = "required" };
	return names[c];
}

static int set_driver_sources(struct policy_entry *e, const json_t *list, struct err *err)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *digest = json_string_value(json_array_get(list, i));
		if (!digest || !str_starts(digest, "sha256:") || !digest_is_hex(digest + strlen("sha256:")))
			return refuse_policy(e, "driver-sources", "a list of digests, sha256:HEX", err);
		strv_add(&e->source->sources, str_dup(digest + strlen("sha256:")));
	}
	return e->source->sources.count ? 0 : refuse_policy(e, "driver-sources", "a list of digests, sha256:HEX", err);
}

static int set_member(struct policy_entry *e, const char *key, const json_t *value, struct err *err)
{
	struct trust_source *s = e->source;
	if (str_eq(key, "prefix"))
		return 0; // already read
	if (str_eq(key, "keys"))
		return set_keys(e, value, err);
	if (str_eq(key, "anchor")) { // of an earlier version; without it fewer signatures count, never more
		strv_add(&e->trust->skipped, str_fmt("'%s/%s': 'anchor' has no effect: signatures count by keys alone",
						     e->dir->name, POLICY));
		return 0;
	}
	if (str_eq(key, "unsigned"))
		return set_choice(e, key, value, "refuse", "accept", &s->is_unsigned_accepted, err);
	if (str_eq(key, "provenance"))
		return set_choice(e, key, value, "optional", "required", &s->is_statement_required, err);
	if (str_eq(key, "driver-sources"))
		return set_driver_sources(e, value, err);
	if (str_eq(key, "catalog")) {
		bool is_required = false;
		int r = set_choice(e, key, value, "optional", "required", &is_required, err);
		s->catalog = is_required ? TRUST_CATALOG_REQUIRED : TRUST_CATALOG_OPTIONAL;
		return r;
	}
	if (!str_eq(key, "threshold"))
		return err_set(err, E_CONFIG, "'%s/%s': the entry for '%s' has the unknown key '%s'", e->dir->name,
			       POLICY, s->prefix, key);
	json_int_t n = json_integer_value(value);
	if (n < 1 || n > THRESHOLD_MAX)
		return refuse_policy(e, key, "a number from 1 to 64", err);
	s->threshold = (unsigned)n;
	return 0;
}

static int read_policy_source(const struct root *dir, json_t *json, struct trust *t, struct err *err)
{
	const char *prefix = json_string_value(json_object_get(json, "prefix")), *key;
	json_t *value;
	if (!prefix)
		return err_set(err, E_CONFIG, "'%s/%s': an entry of \"sources\" has no \"prefix\"", dir->name, POLICY);
	t->sources = mem_grow(t->sources, t->source_count + 1, sizeof(*t->sources));
	struct trust_source *s = &t->sources[t->source_count++];
	*s = (struct trust_source){ .prefix = normalized_source(prefix), .threshold = 1 };
	for (size_t i = 0; i + 1 < t->source_count; i++)
		if (str_eq(t->sources[i].prefix, s->prefix))
			return err_set(err, E_CONFIG, "'%s/%s': '%s' has two entries", dir->name, POLICY, s->prefix);
	struct policy_entry e = { .dir = dir, .trust = t, .source = s };
	json_object_foreach(json, key, value)
	{
		if (set_member(&e, key, value, err) < 0)
			return -1;
	}
	return 0;
}

// 1 = there is a policy; *ret is its list of sources (borrowed from *ret_json).
static int read_trust_policy(const struct root *dir, json_t **ret_json, json_t **ret, struct err *err)
{
	const char *key;
	json_t *value, *json = NULL;
	struct stat st; // without the policy a key is valid for more: one that cannot be read is not absent
	int r = root_stat(dir, POLICY, &st, err);
	if (r <= 0)
		return r;
	if (check_rights(dir, POLICY, err) < 0 || json_read(dir, POLICY, &json, err) < 0)
		return -1;
	*ret_json = json;
	json_object_foreach(json, key, value)
	{
		if (!str_eq(key, "sources"))
			return err_set(err, E_CONFIG, "'%s/%s': unknown key '%s'", dir->name, POLICY, key);
	}
	*ret = json_object_get(json, "sources");
	if (!json_is_array(*ret))
		return err_set(err, E_CONFIG, "'%s/%s' has no list \"sources\"", dir->name, POLICY);
	return 1;
}

int trust_open(const struct root *dir, struct trust *ret, struct err *err)
{
	auto_trust struct trust t = { .place = dir->fd >= 0 ? str_dup(dir->name) : str_fmt("/%s", DIR_NAME) };
	auto_json json_t *json = NULL;
	json_t *sources = NULL;
	if (dir->fd >= 0) {
		if (check_rights(dir, ".", err) < 0 || read_trusted_keys(dir, &t, err) < 0 ||
		    read_trust_policy(dir, &json, &sources, err) < 0)
			return -1;
		for (size_t i = 0; i < json_array_size(sources); i++)
			if (read_policy_source(dir, json_array_get(sources, i), &t, err) < 0)
				return -1;
	}
	*ret = t;
	t = (struct trust){ 0 };
	return 0;
}

void trust_now(const struct root *host, const char *named, struct trust_now *ret)
{
	auto_root struct root dir = ROOT_NONE;
	struct err why;
	*ret = (struct trust_now){ 0 };
	int r = trust_dir(host, named, &dir, &why);
	ret->is_absent = r == 0;
	if (r < 0 || trust_open(&dir, &ret->trust, &why) < 0)
		ret->unread = why;
}

void trust_rule(const struct trust *t, const char *repository, struct trust_rule *ret)
{
	auto_str char *name = normalized_source(repository);
	const struct trust_source *s = NULL;
	for (size_t i = 0; i < t->source_count; i++)
		if (is_below_prefix(name, t->sources[i].prefix) &&
		    (!s || strlen(t->sources[i].prefix) > strlen(s->prefix)))
			s = &t->sources[i];
	*ret = (struct trust_rule){ .threshold = 1, .place = t->place };
	if (s) {
		ret->prefix = s->prefix;
		ret->threshold = s->threshold;
		ret->is_unsigned_accepted = s->is_unsigned_accepted;
		ret->catalog = s->catalog;
		ret->is_statement_required = s->is_statement_required;
		ret->sources = &s->sources;
	}
	ret->keys = mem_alloc((t->count + 1) * sizeof(*ret->keys));
	for (size_t i = 0; i < t->count; i++) {
		const struct trust_key *k = &t->keys[i];
		if (s && s->has_keys ? strv_has(&s->keys, k->name) : k->prefixes.count == 0)
			ret->keys[ret->count++] = k;
	}
}

// Waits for other writers of the directory. fd to close.
static int lock_trust_dir(const struct root *dir, struct err *err)
{
	auto_str char *name = str_fmt("%s/%s", dir->name, LOCK);
	auto_fd int fd = lockfile_open(dir->fd, LOCK, O_RDWR);
	if (fd < 0)
		return file_fail("open", name, err);
	return lockfile_wait(fd, LOCK_EX, LOCKFILE_WAIT_MS, name, err) < 0 ? -1 : TAKE_FD(fd);
}

static bool names_key(const json_t *list, const char *name, const char *id, size_t *ret)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *have = json_string_value(json_array_get(list, i));
		if (str_eq(have, name) || str_eq(have, id)) {
			*ret = i;
			return true;
		}
	}
	return false;
}

static int add_to_policy(const struct root *dir, const char *prefix, const char *name, const char *id, struct err *err)
{
	auto_json json_t *json = NULL;
	json_t *sources = NULL;
	size_t at;
	int r = read_trust_policy(dir, &json, &sources, err);
	if (r < 0)
		return -1;
	if (r == 0) {
		json = json_pack("{s:[]}", "sources");
		sources = json_object_get(json, "sources");
	}
	auto_str char *wanted = normalized_source(prefix);
	json_t *entry = NULL;
	for (size_t i = 0; i < json_array_size(sources) && !entry; i++) {
		const char *text = json_string_value(json_object_get(json_array_get(sources, i), "prefix"));
		auto_str char *have = text ? normalized_source(text) : NULL;
		if (str_eq(have, wanted))
			entry = json_array_get(sources, i);
	}
	json_t *keys = json_object_get(entry, "keys");
	if (entry && !keys)
		return err_set(
			err, E_CONFIG,
			"'%s/%s': the entry for '%s' has no list of keys, so it accepts all: write the list first",
			dir->name, POLICY, prefix);
	if (names_key(keys, name, id, &at))
		return 0;
	if (entry)
		json_array_append_new(keys, json_text(name));
	else
		json_array_append_new(sources, json_pack("{s:o, s:[s]}", "prefix", json_text(prefix), "keys", name));
	return json_write(dir, POLICY, json, err) < 0 ? -1 : 1;
}

// The policy comes first: a name without a key blocks everything, a key without its policy would be valid everywhere.
int trust_add(const struct root *dir, const char *name, const char *pem, const char *prefix,
	      char ret_id[DIGEST_HEX + 1], struct err *err)
{
	auto_trust struct trust t = { 0 };
	auto_key struct key *key = NULL;
	auto_fd int held = lock_trust_dir(dir, err);
	if (held < 0 || check_rights(dir, ".", err) < 0 || read_trusted_keys(dir, &t, err) < 0 ||
	    key_parse(pem, name ? name : "the key", &key, err) < 0)
		return -1;
	auto_str char *short_id = str_ndup(key->id, 16);
	const struct trust_key *there = find_trusted_key(&t, key->id);
	const char *called = there ? there->name : name ? name : short_id;
	size_t len = strspn(called, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
	if (!len || called[len] || *called == '.' || *called == '-' || len > 64 || digest_is_hex(called))
		return err_set(err, E_USAGE,
			       "'%s' is not a valid key name: use letters, digits, '.', '_' and '-', at most 64",
			       called);
	if (!there && find_trusted_key(&t, called))
		return err_set(err, E_USAGE, "'%s' already has another key named '%s': choose another --name",
			       dir->name, called);
	int changed = prefix ? add_to_policy(dir, prefix, called, key->id, err) : 0;
	if (changed >= 0 && !there) {
		auto_str char *file = str_fmt("%s%s", called, SUFFIX), *text = key_pem(key);
		changed = root_write(dir, file, text, strlen(text), 0644, err) < 0 ? -1 : 1;
	}
	if (changed >= 0)
		memcpy(ret_id, key->id, DIGEST_HEX + 1);
	return changed;
}

static int drop_from_policy(const struct root *dir, const char *name, const char *id, struct err *err)
{
	auto_json json_t *json = NULL;
	json_t *sources = NULL;
	size_t at;
	bool is_changed = false;
	if (read_trust_policy(dir, &json, &sources, err) < 0)
		return -1;
	for (size_t i = 0; i < json_array_size(sources); i++) {
		json_t *keys = json_object_get(json_array_get(sources, i), "keys");
		while (names_key(keys, name, id, &at)) {
			json_array_remove(keys, at);
			is_changed = true;
		}
	}
	if (!is_changed)
		return 0;
	return json_write(dir, POLICY, json, err) < 0 ? -1 : 1; // a list that is now empty accepts no key
}

int trust_remove(const struct root *dir, const char *name_or_id, struct err *err)
{
	auto_trust struct trust t = { 0 };
	auto_fd int held = lock_trust_dir(dir, err);
	if (held < 0 || check_rights(dir, ".", err) < 0 || read_trusted_keys(dir, &t, err) < 0)
		return -1;
	const struct trust_key *k = find_trusted_key(&t, name_or_id);
	int removed = 0;
	if (k) {
		auto_str char *file = str_fmt("%s%s", k->name, SUFFIX);
		removed = root_unlink(dir, file, err);
	}
	int dropped = removed < 0 ? -1 : drop_from_policy(dir, k ? k->name : name_or_id, k ? k->key->id : NULL, err);
	return dropped < 0 ? -1 : removed | dropped;
}
