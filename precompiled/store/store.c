// SPDX-License-Identifier: Apache-2.0
#include "precompiled/store/store_internal.h"

#include "base/file/lockfile.h"
#include "base/process/state_file.h"
#include "precompiled/oci/closure.h"
#include "precompiled/package/package.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

static const char ROOTS[] = "roots.json", USE[] = ".use";

void store_done(struct store *s)
{
	layout_done(&s->layout);
	root_done(&s->state);
	close_fdp(&s->use);
	strv_done(&s->repaired);
	*s = STORE_NONE;
}

static int open_store(const struct root *state, struct store *s, struct err *err)
{
	auto_root struct root dir = ROOT_NONE;
	if (root_sub(state, ".", &s->state, err) < 0 || root_mkdirs(state, STORE_DIR, 0755, err) < 0 ||
	    root_sub(state, STORE_DIR, &dir, err) < 0 || store_open_layout(s, &dir, err) < 0)
		return -1;
	s->layout.is_store = true;
	auto_fd int at = root_open(&s->layout.root, ".", O_PATH | O_DIRECTORY, err);
	if (at < 0)
		return -1;
	auto_str char *name = str_fmt("%s/%s", s->layout.root.name, USE);
	// A start without changes opens nothing for writing here (P1): the state may be on a read-only mount.
	s->use = lockfile_open(at, USE, O_RDONLY);
	if (s->use < 0 && errno == EACCES) // an unprivileged reader: it does not block a collection
		return 0;
	if (s->use < 0)
		return err_set(err, errno, "open '%s'", name);
	return lockfile_wait(s->use, LOCK_SH, LOCKFILE_WAIT_MS, name, err);
}

bool store_exists(const struct root *state)
{
	return root_exists(state, STORE_DIR "/" LAYOUT_BLOBS);
}

int store_open(const struct root *state, uint64_t limit, struct store *ret, struct err *err)
{
	auto_store struct store s = STORE_NONE;
	s.limit = limit;
	if (open_store(state, &s, err) < 0)
		return err_wrap(err, "open the store");
	*ret = s;
	s = STORE_NONE;
	return 0;
}

bool store_size_parse(const char *text, uint64_t *ret)
{
	static const char units[] = "KMG";
	size_t len = strlen(text);
	const char *unit = len ? strchr(units, text[len - 1]) : NULL;
	auto_str char *digits = str_ndup(text, unit ? len - 1 : len);
	uint64_t size;
	if (!str_u64(digits, 10, &size))
		return false;
	for (size_t i = 0; unit && i <= (size_t)(unit - units); i++)
		if (__builtin_mul_overflow(size, 1024, &size))
			return false;
	*ret = size;
	return true;
}

static void reuse_done(struct store_reuse *u)
{
	free(u->release);
	free(u->build_id);
	free(u->digest);
}

void store_roots_done(struct store_roots *r)
{
	free(r->target);
	free(r->last_good);
	strv_done(&r->pins);
	for (size_t i = 0; i < r->reuse_count; i++)
		reuse_done(&r->reuses[i]);
	free(r->reuses);
	*r = (struct store_roots){ 0 };
}

static bool read_hex(const json_t *value, char **ret)
{
	const char *text = json_string_value(value);
	if (value && !digest_is_hex(text))
		return json_is_null(value);
	*ret = str_dup(text);
	return true;
}

static void add_reuse(struct store_roots *r, const char *release, const char *build_id, const char *hex)
{
	r->reuses = mem_grow(r->reuses, r->reuse_count + 1, sizeof(*r->reuses));
	r->reuses[r->reuse_count++] = (struct store_reuse){ .release = str_dup(release),
							    .build_id = str_dup(build_id),
							    .digest = str_dup(hex) };
}

static bool read_roots(const json_t *json, struct store_roots *r)
{
	size_t i;
	json_t *item, *pins = json_object_get(json, "pins"), *reuses = json_object_get(json, "reused");
	if (!json_object_get(json, "target") || !read_hex(json_object_get(json, "target"), &r->target) ||
	    !read_hex(json_object_get(json, "last-good"), &r->last_good) || (pins && !json_is_array(pins)) ||
	    (reuses && !json_is_array(reuses)))
		return false;
	json_array_foreach(reuses, i, item)
	{
		const char *release = json_string_value(json_object_get(item, "release"));
		const char *build_id = json_string_value(json_object_get(item, "build-id"));
		const char *hex = json_string_value(json_object_get(item, "digest"));
		if (!release || !digest_is_hex(build_id) || !digest_is_hex(hex))
			return false;
		add_reuse(r, release, build_id, hex);
	}
	json_array_foreach(pins, i, item)
	{
		if (!digest_is_hex(json_string_value(item)))
			return false;
		strv_add(&r->pins, str_dup(json_string_value(item)));
	}
	strv_sort(&r->pins);
	return true;
}

int store_roots(const struct store *s, struct store_roots *ret, struct err *err)
{
	auto_store_roots struct store_roots roots = { 0 };
	auto_json json_t *json = NULL;
	int r = state_file_read(&s->state, ROOTS, &json, err);
	if (r < 0)
		return err_code(err, err->code == E_CONFIG ? E_STORE_CORRUPT : err->code);
	if (r > 0 && !read_roots(json, &roots))
		return err_set(err, E_STORE_CORRUPT, "'%s/%s' is not a valid list of what the store keeps",
			       s->state.name, ROOTS);
	*ret = roots;
	roots = (struct store_roots){ 0 };
	return 0;
}

// For a writer, who holds the lock. What damaged ones kept is no longer kept: what runs is written anew, and a
// collection spares the packages of installed kernels.
static int read_roots_to_change(const struct store *s, struct store_roots *ret, struct err *err)
{
	if (store_roots(s, ret, err) == 0)
		return 0;
	if (err->code != E_STORE_CORRUPT)
		return -1;
	state_file_set_aside(&s->state, ROOTS, err->text);
	return 0;
}

int store_mend_roots(const struct store *s, struct err *err)
{
	auto_store_roots struct store_roots r = { 0 };
	auto_fd int held = layout_lock(&s->layout, false, err);
	return held < 0 || read_roots_to_change(s, &r, err) < 0 ? -1 : 0;
}

bool store_roots_has(const struct store_roots *r, const char *hex)
{
	return str_eq(r->target, hex) || str_eq(r->last_good, hex) || strv_has_sorted(&r->pins, hex);
}

static int write_roots(const struct store *s, const struct store_roots *r, struct err *err)
{
	auto_json json_t *json = json_pack("{s:o, s:o, s:o}", "target", json_text(r->target), "last-good",
					   json_text(r->last_good), "pins", json_strv(&r->pins));
	json_t *reuses = json_array();
	for (size_t i = 0; i < r->reuse_count; i++)
		json_array_append_new(reuses, json_pack("{s:s, s:s, s:s}", "release", r->reuses[i].release, "build-id",
							r->reuses[i].build_id, "digest", r->reuses[i].digest));
	json_object_set_new(json, "reused", reuses);
	if (json_write(&s->state, ROOTS, json, err) < 0)
		return err->code == E_NO_SPACE ? err_code(err, E_STORE_FULL) : -1;
	return 1;
}

// The index lock also serializes writers of the roots.
static int set_root(const struct store *s, bool is_target, const char *hex, struct err *err)
{
	auto_store_roots struct store_roots r = { 0 };
	auto_fd int held = layout_lock(&s->layout, false, err);
	if (held < 0 || read_roots_to_change(s, &r, err) < 0)
		return -1;
	char **at = is_target ? &r.target : &r.last_good;
	if (str_eq(*at, hex))
		return 0;
	free(*at);
	*at = str_dup(hex);
	return write_roots(s, &r, err);
}

int store_set_target(const struct store *s, const char *hex, struct err *err)
{
	return set_root(s, true, hex, err);
}

int store_set_last_good(const struct store *s, const char *hex, struct err *err)
{
	return set_root(s, false, hex, err);
}

int store_pin(const struct store *s, const char *hex, bool is_pinned, struct err *err)
{
	auto_store_roots struct store_roots r = { 0 };
	auto_fd int held = layout_lock(&s->layout, false, err);
	if (held < 0 || read_roots_to_change(s, &r, err) < 0)
		return -1;
	if (strv_has_sorted(&r.pins, hex) == is_pinned)
		return 0;
	struct strv pins = { 0 };
	for (size_t i = 0; i < r.pins.count; i++)
		if (!str_eq(r.pins.items[i], hex))
			strv_add(&pins, str_dup(r.pins.items[i]));
	if (is_pinned) {
		strv_add(&pins, str_dup(hex));
		strv_sort(&pins);
	}
	strv_done(&r.pins);
	r.pins = pins;
	return write_roots(s, &r, err);
}

const char *store_roots_reuse(const struct store_roots *r, const char *release, const char *build_id)
{
	for (size_t i = 0; i < r->reuse_count; i++)
		if (str_eq(r->reuses[i].release, release) && str_eq(r->reuses[i].build_id, build_id))
			return r->reuses[i].digest;
	return NULL;
}

int store_set_reuse(const struct store *s, const char *release, const char *build_id, const char *hex, struct err *err)
{
	auto_store_roots struct store_roots r = { 0 };
	auto_fd int held = layout_lock(&s->layout, false, err);
	if (held < 0 || read_roots_to_change(s, &r, err) < 0)
		return -1;
	if (hex && str_eq(store_roots_reuse(&r, release, build_id), hex))
		return 0;
	bool is_changed = hex;
	for (size_t i = 0; i < r.reuse_count; i++) {
		if (!str_eq(r.reuses[i].release, release))
			continue;
		reuse_done(&r.reuses[i]);
		r.reuses[i] = r.reuses[--r.reuse_count];
		is_changed = true;
		break;
	}
	if (hex)
		add_reuse(&r, release, build_id, hex);
	return is_changed ? write_roots(s, &r, err) : 0;
}

static int by_digest(const void *hex, const void *damage)
{
	return strcmp(hex, ((const struct store_damage *)damage)->digest);
}

// The first of the damaged blobs that an entry of the index needs; NULL = none.
static int find_needed(const struct store *s, const struct oci_descriptor *entry, struct store_damage *damage,
		       size_t count, struct store_damage **ret, struct err *err)
{
	auto_closure struct closure needs = { 0 };
	*ret = NULL;
	if (closure_add(&s->layout, entry, &needs, err) < 0)
		return -1;
	closure_sort(&needs);
	// Either list may be the long one.
	if (count <= needs.count) {
		for (size_t i = 0; i < count && !*ret; i++)
			if (closure_has(&needs, damage[i].digest))
				*ret = &damage[i];
		return 0;
	}
	for (size_t i = 0; i < needs.count && !*ret; i++)
		*ret = bsearch(needs.items[i].digest, damage, count, sizeof(*damage), by_digest);
	return 0;
}

static int put_away(const struct store *s, const char *hex, struct err *err)
{
	auto_str char *blob = layout_blob_path(hex), *from = str_fmt(STORE_DIR "/%s", blob);
	store_set_aside(s, from, hex);
	return root_unlink(&s->layout.root, blob, err) < 0 ? -1 : 0;
}

// The index first: after a kill in between, it names no missing blob.
int store_quarantine_all(const struct store *s, struct store_damage *damage, size_t count, struct err *err)
{
	auto_oci_index struct oci_index x = { 0 };
	auto_fd int held = layout_lock(&s->layout, false, err);
	if (held < 0 || layout_index(&s->layout, &x, err) < 0)
		return -1;
	size_t kept = 0;
	int r = 0;
	for (size_t i = 0; i < x.count; i++) {
		struct store_damage *of = NULL;
		if (r == 0)
			r = find_needed(s, &x.items[i], damage, count, &of, err);
		if (!of) {
			x.items[kept++] = x.items[i];
			continue;
		}
		const char *tag = oci_descriptor_annotation(&x.items[i], OCI_REF_NAME);
		strv_add(&of->lost, tag ? str_dup(tag) : oci_digest_text(x.items[i].digest));
		oci_descriptor_done(&x.items[i]);
	}
	bool is_changed = kept != x.count;
	x.count = kept;
	if (r < 0 || (is_changed && layout_index_write(&s->layout, &x, err) < 0))
		return -1;
	for (size_t i = 0; i < count; i++)
		if (put_away(s, damage[i].digest, err) < 0)
			return -1;
	return 0;
}

int store_quarantine(const struct store *s, const char *hex, struct strv *ret_lost, struct err *err)
{
	struct store_damage damage = { .why = NULL };
	snprintf(damage.digest, sizeof(damage.digest), "%s", hex);
	int r = store_quarantine_all(s, &damage, 1, err);
	if (r == 0 && ret_lost) {
		*ret_lost = damage.lost;
		return 0;
	}
	strv_done(&damage.lost);
	return r;
}

int store_find_reused(const struct store *s, const struct package_want *want, struct package *ret, struct err *err)
{
	auto_store_roots struct store_roots roots = { 0 };
	struct package_want other = *want;
	if (store_roots(s, &roots, err) < 0 && err->code != E_STORE_CORRUPT) // damaged: the next writer says so
		return -1;
	const char *hex = store_roots_reuse(&roots, want->release, want->build_id);
	if (!hex || (want->digest && !str_eq(want->digest, hex)))
		return 0;
	other.digest = hex;
	other.release = other.build_id = NULL;
	return package_find(&s->layout, &other, ret, NULL, err);
}

int store_find(const struct store *s, const struct package_want *want, struct package *ret, struct err *err)
{
	int r = package_find(&s->layout, want, ret, NULL, err);
	return r == 0 ? store_find_reused(s, want, ret, err) : r;
}
