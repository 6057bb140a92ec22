// SPDX-License-Identifier: Apache-2.0
// Assets beside packages. Only a source knows whether it has newer headers or a newer builder under the same tag:
// sources are asked first, and the store is used while none answers. What was packed into this store was meant for
// this machine. A payload belongs to one driver version, as a package does, and a core to its key: the store comes
// first.
#include "acquire/acquire.h"

#include "acquire/compile.h"
#include "base/core/date.h"
#include "base/file/lockfile.h"
#include "kmod/kernel_tree/programs.h"
#include "kmod/kernel_tree/toolchain.h"

#include <sys/file.h>
#include <time.h>

// The store's asset, if a currently trusted key signed it. 1 = found; 0 = not, with *ret_why. ret_hex names a
// distrusted one, too; else it is "".
static int find_stored_asset(const struct acquire *o, const struct asset_key *want, char ret_hex[DIGEST_HEX + 1],
			     char **ret_why, struct err *err)
{
	struct err why;
	*ret_hex = '\0';
	if (!acquire_has_store(o)) {
		*ret_why = str_dup("it does not exist yet");
		return 0;
	}
	int r = asset_find(&o->store.layout, want, ret_hex, ret_why, err);
	if (r == 0)
		*ret_hex = '\0';
	if (r <= 0 || acquire_check_trust(o, ret_hex, &why) == 0)
		return r;
	*ret_why = str_fmt("%s: %s", err_info(why.code)->name, why.text);
	return 0;
}

// Into the store. Another process that fetches the same is waited for: what it has fetched is this one's, too. What an
// earlier run left of it may be what is damaged, and is gone after the first try.
static int fetch_into_store(struct acquire *o, const struct fetch *fetch, const struct asset_key *want,
			    char ret[DIGEST_HEX + 1], size_t *ret_source, struct err *err)
{
	enum { WAIT_MS = 120000, PAUSE_MS = 200 };
	const struct layout *store;
	bool is_damaged = false;
	if (acquire_output(o, &store, err) < 0)
		return -1;
	for (long end = clock_ms() + WAIT_MS;;) {
		int r = asset_fetch_from(fetch, want, store, ret, ret_source, err);
		if (r < 0 && err->code == E_DIGEST && !is_damaged) {
			is_damaged = true;
			continue;
		}
		if (r == 0 || err->code != E_LOCKED || clock_ms() > end)
			return r;
		progress_tick(o->node->progress);
		nanosleep(&(struct timespec){ .tv_nsec = PAUSE_MS * 1000000L }, NULL);
	}
}

static bool is_packed_here(const struct acquire *o, const char *hex)
{
	static const struct trust_now nobody;
	auto_provenance struct provenance p = { 0 };
	struct err ignored;
	return provenance_check(&o->store.layout, hex, &nobody, &p, &ignored) == 0 && p.is_recorded &&
	       p.origin == PROVENANCE_BY_HAND;
}

// From the store, else from the sources into it. code: of "no source was asked".
static int fetch_asset(struct acquire *o, const struct asset_key *want, int code, char ret[DIGEST_HEX + 1],
		       struct err *err)
{
	struct asset_key any = *want;
	any.compiler = NULL; // whichever tag it has, it is this
	auto_str char *why = NULL, *tag = asset_tag(&any);
	char kept[DIGEST_HEX + 1];
	struct err damage;
	size_t source;
	bool has_sources = o->fetch.from && o->fetch.from->count;
	if (acquire_open_store(o, err) < 0)
		return -1;
	bool is_kept = find_stored_asset(o, want, kept, &why, &damage) > 0;
	if (!is_kept && !has_sources)
		return err_set(err, code, "the store: %s; no source was named (--from)", why ? why : damage.text);
	if (has_sources && !(is_kept && is_packed_here(o, kept))) {
		int r = is_kept ? asset_fetch(&o->fetch, want, NULL, ret, err) : 0; // what the sources have
		if (r == 0 && is_kept && str_eq(kept, ret))
			return 0;
		if (r == 0 && fetch_into_store(o, &o->fetch, want, ret, &source, err) == 0)
			return 0;
		if (!is_kept)
			return -1;
		progress_note(o->node->progress, "%s: using the one in the store: %s", tag, err->text);
	}
	memcpy(ret, kept, sizeof(kept));
	return 0;
}

// Removes a tree that was unpacked before its signer lost trust, so that no search for headers finds it.
static int drop_distrusted_tree(struct acquire *o, const struct asset_key *want, const struct root *trees,
				struct err *err)
{
	char hex[DIGEST_HEX + 1];
	auto_str char *why = NULL;
	if (acquire_open_store(o, err) < 0)
		return -1;
	if (find_stored_asset(o, want, hex, &why, err) != 0 || !*hex || !root_exists(trees, hex))
		return 0;
	auto_str char *gone = str_fmt(".tmp/%s", hex);
	progress_note(o->node->progress, "the unpacked headers %.12s are not used: %s", hex, why);
	if (root_mkdirs(trees, ".tmp", 0755, err) < 0 || root_rmtree(trees, gone, err) < 0)
		return -1;
	if (root_rename(trees, hex, gone, err) < 0 && root_exists(trees, hex))
		return -1;
	return root_rmtree(trees, gone, err) < 0 ? -1 : 0;
}

static int bring_packed_headers(void *acquire, const char *release, const struct root *store,
				char ret_digest[DIGEST_HEX + 1], struct err *err)
{
	struct acquire *o = acquire;
	struct asset_key want = {
		.kind = &ASSET_HEADERS, .release = release, .arch = o->want.arch, .build_id = o->want.build_id
	};
	if (drop_distrusted_tree(o, &want, store, err) < 0 ||
	    fetch_asset(o, &want, E_HEADERS_NOT_FOUND, ret_digest, err) < 0)
		return -1;
	return asset_unpack(&o->store.layout, ret_digest, store, err) < 0 ? -1 : 0;
}

const struct headers_offer *acquire_headers_offer(struct acquire *o)
{
	o->package_manager = (struct package_manager){ .options = o->request->package_manager,
						       .host = o->node->host,
						       .state = o->fetch.state,
						       .banner = o->banner,
						       .arch = o->want.arch,
						       .progress = o->node->progress };
	o->of_host = (struct headers_offer){ .name = "repositories of the host",
					     .bring = package_manager_headers,
					     .ctx = &o->package_manager };
	o->packed = (struct headers_offer){
		.name = "packed headers", .bring = bring_packed_headers, .ctx = o, .last = &o->of_host
	};
	return &o->packed;
}

static int find_payload_in_sources(const struct acquire *o, const struct asset_key *want, char ret_hex[DIGEST_HEX + 1],
				   char **ret_why, struct err *err)
{
	if (asset_fetch(&o->fetch, want, NULL, ret_hex, err) == 0)
		return 1;
	if (err->code != E_NO_PACKAGE)
		return -1;
	*ret_why = str_dup(err->text);
	return 0;
}

// In the order of packages: what the user named comes before the store.
int acquire_find_payload(struct acquire *o, const char *driver, bool is_local, char **ret_why, struct err *err)
{
	struct asset_key want = { .kind = &ASSET_PAYLOAD, .driver = driver, .arch = o->want.arch };
	bool has_sources = !is_local && o->fetch.from && o->fetch.from->count;
	auto_str char *why = NULL, *why_not_stored = NULL;
	if (image_payload_matches(&o->carry, driver, want.arch)) {
		memcpy(o->payload, o->carry.is.digest, sizeof(o->payload));
		return 1;
	}
	int r = acquire_open_store(o, err) < 0 ? -1 : 0;
	if (r == 0 && has_sources && o->request->is_named)
		r = find_payload_in_sources(o, &want, o->payload, &why, err);
	if (r == 0)
		r = find_stored_asset(o, &want, o->payload, &why_not_stored, err);
	if (r == 0)
		r = image_payload_find(o->fetch.state, driver, want.arch, o->payload, err);
	if (r == 0 && has_sources && !o->request->is_named)
		r = find_payload_in_sources(o, &want, o->payload, &why, err);
	if (r == 0)
		*ret_why = why ? TAKE(why) : str_fmt("the store: %s", why_not_stored);
	return r;
}

// damage: what is wrong with its layer in the store.
static int quarantine_asset(const struct acquire *o, const char *hex, const struct err *damage, struct err *err)
{
	char layer[DIGEST_HEX + 1];
	if (asset_layer(&o->store.layout, hex, layer, err) < 0 || store_quarantine(&o->store, layer, NULL, err) < 0)
		return -1;
	progress_note(o->node->progress, "%s; quarantined", damage->text);
	return 0;
}

// A tree that exists is not checked: its name is the digest of its content.
int acquire_payload(struct acquire *o, const char *driver, struct err *err)
{
	auto_root struct root trees = ROOT_NONE;
	struct asset_key want = { .kind = &ASSET_PAYLOAD, .driver = driver, .arch = o->want.arch };
	auto_str char *why = NULL;
	char hex[DIGEST_HEX + 1];
	size_t source;
	const struct layout *store;
	if (root_mkdirs(o->fetch.state, "payloads", 0755, err) < 0 ||
	    root_sub(o->fetch.state, "payloads", &trees, err) < 0)
		return -1;
	if (root_exists(&trees, o->payload))
		return 0;
	if (image_payload_matches(&o->carry, driver, o->want.arch) && str_eq(o->carry.is.digest, o->payload))
		return image_payload_copy(&o->carry, o->fetch.state, err);
	if (acquire_output(o, &store, err) < 0)
		return -1;
	int r = find_stored_asset(o, &want, hex, &why, err);
	bool is_missing = r == 0 || !str_eq(hex, o->payload);
	if (r < 0 || (is_missing && fetch_into_store(o, &o->fetch, &want, o->payload, &source, err) < 0))
		return -1;
	r = asset_unpack(store, o->payload, &trees, err);
	if (r >= 0 || err->code != E_STORE_CORRUPT)
		return r;
	struct err damage = *err;
	if (quarantine_asset(o, o->payload, &damage, err) < 0)
		return -1;
	if (fetch_into_store(o, &o->fetch, &want, o->payload, &source, err) < 0) {
		*err = damage;
		return -1;
	}
	return asset_unpack(store, o->payload, &trees, err);
}

int acquire_payload_source(struct acquire *o, const char *driver, char **ret_path, struct err *err)
{
	auto_str char *why = NULL;
	int r = acquire_find_payload(o, driver, true, &why, err);
	if (r <= 0 || acquire_payload(o, driver, err) < 0)
		return r <= 0 ? r : -1;
	auto_str char *path = str_fmt("payloads/%s/usr/src/nvidia-%s", o->payload, driver);
	if (!root_exists(o->fetch.state, path))
		return 0;
	*ret_path = root_path(o->fetch.state, path);
	return 1;
}

// 1 = the store has it, or a source, from where it comes into the store, unless it is only looked for; 0 = neither,
// which is noted, unless it is only looked for and merely absent.
static int fetch_core(struct acquire *o, const struct asset_key *want, bool is_looking, char ret_hex[DIGEST_HEX + 1],
		      char **ret_from)
{
	auto_str char *why = NULL;
	struct fetch fetch = o->fetch;
	struct err err = { 0 };
	size_t source = 0;
	fetch.note = NULL; // one note has it all
	int r = acquire_open_store(o, &err) < 0 ? -1 : find_stored_asset(o, want, ret_hex, &why, &err);
	if (r > 0) {
		*ret_from = str_dup("store");
		return 1;
	}
	bool is_distrusted = r == 0 && *ret_hex;
	if (r == 0 && (!fetch.from || !fetch.from->count))
		err_set(&err, is_distrusted ? E_UNTRUSTED : E_NO_PACKAGE, "the store: %s", why);
	else if (r == 0 && (is_looking ? asset_fetch_from(&fetch, want, NULL, ret_hex, &source, &err) :
					 fetch_into_store(o, &fetch, want, ret_hex, &source, &err)) == 0) {
		*ret_from = http_url_shown(fetch.from->items[source]);
		return 1;
	}
	const struct err_info *info = err_info(err.code);
	if (err.code != E_NO_PACKAGE)
		progress_note(o->node->progress, "the core of %s is not fetched, and compiled here: %s: %s; next: %s",
			      want->module, info->name, err.text, info->next);
	else if (!is_looking && fetch.from && fetch.from->count)
		progress_note(o->node->progress, "no source has the core of %s; compiling it here: %s", want->module,
			      err.text);
	return 0;
}

static int find_core(void *acquire, const struct core_key *key, char **ret_from)
{
	const struct asset_key want = compile_core_asset(key);
	char hex[DIGEST_HEX + 1];
	return fetch_core(acquire, &want, true, hex, ret_from);
}

static int unpack_core(const struct acquire *o, const char *hex, const struct root *into, const char *name,
		       const struct core_key *key, struct err *err)
{
	auto_str char *path = str_fmt("%s/%s", hex, name);
	return asset_unpack(&o->store.layout, hex, into, err) < 0 || root_rename(into, path, name, err) < 0 ?
		       -1 :
		       core_verify(into, name, key, err);
}

static int bring_core(void *acquire, const struct core_key *key, const struct root *into, const char *name,
		      char **ret_from)
{
	struct acquire *o = acquire;
	const struct asset_key want = compile_core_asset(key);
	auto_str char *from = NULL;
	char hex[DIGEST_HEX + 1];
	struct err err, damage, ignored;
	if (fetch_core(o, &want, false, hex, &from) == 0)
		return 0;
	int r = unpack_core(o, hex, into, name, key, &err);
	if (r < 0 && err.code == E_STORE_CORRUPT) {
		damage = err;
		free(TAKE(from));
		if (quarantine_asset(o, hex, &damage, &ignored) < 0 || fetch_core(o, &want, false, hex, &from) == 0)
			return 0;
		r = unpack_core(o, hex, into, name, key, &err);
	}
	if (r < 0) {
		root_unlink(into, name, &ignored);
		progress_note(o->node->progress,
			      "the core of %s from %s is refused, and compiled here: %s: %s; next: pack it again, "
			      "`kmodsmith pack core`",
			      key->core->module, from, err_info(err.code)->name, err.text);
		return 0;
	}
	*ret_from = TAKE(from);
	return 1;
}

const struct core_offer *acquire_core_offer(struct acquire *o)
{
	o->cores = (struct core_offer){ .find = find_core, .bring = bring_core, .ctx = o };
	return &o->cores;
}

// Builder roots: STATE/builders/HEX, the digest of the asset. Each takes some hundred megabytes, and only the last one
// is needed: a compile in one holds a shared lock, STATE/locks/builder-HEX, and unlocked ones are removed when
// another is unpacked.

#define DIR "builders"

static int lock_builder_root(const struct root *state, const char *hex, int how, int wait_ms, struct err *err)
{
	auto_str char *name = str_fmt("builder-%s", hex);
	return lockfile_take(state, name, how, wait_ms, err);
}

// Fetches a builder that the configuration or the image pins by digest, and that therefore needs no signature: from the
// store, else from the repository that the name begins with, else from any source.
static int fetch_pinned_builder(struct acquire *o, const char *pin, const char *compiler, char ret[DIGEST_HEX + 1],
				struct err *err)
{
	char hex[DIGEST_HEX + 1];
	auto_str char *why = NULL, *name = NULL;
	auto_strv struct strv own = { 0 };
	struct fetch fetch = o->fetch;
	size_t source;
	if (!asset_parse_pin(pin, &name, hex))
		return err_set(err, E_USAGE, "'%s' is not NAME@sha256:HEX or sha256:HEX", pin);
	const struct asset_key want = {
		.kind = &ASSET_BUILDER, .arch = tree_own_arch(), .compiler = compiler, .digest = hex
	};
	if (acquire_open_store(o, err) < 0)
		return -1;
	if (acquire_has_store(o) && asset_find(&o->store.layout, &want, ret, &why, err) > 0)
		return 0;
	if (name) {
		strv_add(&own, TAKE(name));
		fetch.from = &own;
		fetch.down = NULL;
	}
	fetch.trust = NULL;
	fetch.is_unverified = false;
	if (!fetch.from || !fetch.from->count)
		return err_set(err, E_NO_PACKAGE,
			       "sha256:%.12s... is named without a repository, and there is no --from", hex);
	return fetch_into_store(o, &fetch, &want, ret, &source, err);
}

// Fetches a builder root. The sources come before the digests of an image, because they have newer ones.
static int fetch_builder(struct acquire *o, const char *compiler, char ret[DIGEST_HEX + 1], struct err *err)
{
	const struct asset_key want = { .kind = &ASSET_BUILDER, .arch = tree_own_arch(), .compiler = compiler };
	const struct strv *pins = o->fetch.builders;
	if (fetch_asset(o, &want, E_NO_PACKAGE, ret, err) == 0)
		return 0;
	for (size_t i = 0; pins && i < pins->count; i++) {
		struct err why, others = *err;
		if (fetch_pinned_builder(o, pins->items[i], compiler, ret, &why) == 0) {
			if (o->fetch.from && o->fetch.from->count)
				progress_note(o->node->progress, "%s", others.text);
			return 0;
		}
		err_set(err, others.code == E_NO_PACKAGE ? why.code : others.code, "--builder: %s; %s", why.text,
			others.text);
	}
	return -1;
}

// Locked before it exists, so that no other process removes it in between.
static int unpack_builder_root(struct acquire *o, const struct root *trees, const char *compiler,
			       char ret_hex[DIGEST_HEX + 1], struct err *err)
{
	if (fetch_builder(o, compiler, ret_hex, err) < 0)
		return -1;
	close_fdp(&o->builder_use);
	o->builder_use = lock_builder_root(o->fetch.state, ret_hex, LOCK_SH, LOCKFILE_WAIT_MS, err);
	return o->builder_use < 0 ? -1 : asset_unpack(&o->store.layout, ret_hex, trees, err);
}

// Renamed before it is removed: a name of 64 digits always is a whole tree.
static void collect_builder_roots(const struct root *state, const struct root *trees, const char *but)
{
	auto_strv struct strv names = { 0 };
	struct err ignored;
	root_list(trees, ".", &names, &ignored);
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *gone = str_fmt(".tmp/%s", names.items[i]);
		if (!digest_is_hex(names.items[i]) || str_eq(names.items[i], but))
			continue;
		auto_fd int fd = lock_builder_root(state, names.items[i], LOCK_EX, 0, &ignored);
		if (fd >= 0 && root_rename(trees, names.items[i], gone, &ignored) == 0)
			root_rmtree(trees, gone, &ignored);
	}
}

int acquire_builder(void *acquire, const char *compiler, struct root *ret, struct err *err)
{
	struct acquire *o = acquire;
	auto_root struct root trees = ROOT_NONE;
	char hex[DIGEST_HEX + 1] = "";
	if (root_mkdirs(o->fetch.state, DIR, 0755, err) < 0 || root_sub(o->fetch.state, DIR, &trees, err) < 0)
		return -1;
	int r = unpack_builder_root(o, &trees, compiler, hex, err);
	if (r < 0 && err->code == E_STORE_CORRUPT) {
		struct err damage = *err;
		r = quarantine_asset(o, hex, &damage, err) < 0 ? -1 :
								 unpack_builder_root(o, &trees, compiler, hex, err);
	}
	if (r < 0 || root_sub(&trees, hex, ret, err) < 0)
		return -1;
	collect_builder_roots(o->fetch.state, &trees, hex);
	return 0;
}

// Unpacked by an earlier compile, its libraries are seen.
static int judge_builder_root(const struct root *state, const char *hex, const struct tree *tree, struct err *err)
{
	auto_root struct root base = ROOT_NONE;
	auto_str char *path = str_fmt(DIR "/%s", hex);
	struct err unseen;
	if (root_sub(state, path, &base, &unseen) < 0)
		return 1;
	return programs_check(tree, &base, "", err) < 0 ? err_wrap(err, "the builder image in the store") : 1;
}

// Whatever its tag is: a pinned one counts, too.
int acquire_judge_builder(const struct root *state, const struct tree *tree, struct err *err)
{
	auto_str char *compiler = toolchain_wanted(tree);
	struct asset_key want = { .kind = &ASSET_BUILDER, .arch = tree_own_arch(), .compiler = compiler };
	auto_root struct root dir = ROOT_NONE;
	auto_layout struct layout store = LAYOUT_NONE;
	auto_oci_index struct oci_index x = { 0 };
	struct err ignored;
	if (root_sub(state, "store", &dir, &ignored) < 0 || layout_open(&dir, &store, &ignored) < 0 ||
	    layout_index(&store, &x, &ignored) < 0)
		return 0;
	for (size_t i = 0; i < x.count; i++) {
		auto_str char *why = NULL;
		char hex[DIGEST_HEX + 1];
		want.digest = x.items[i].digest;
		if (str_eq(x.items[i].artifact_type, ASSET_BUILDER.type) &&
		    asset_find(&store, &want, hex, &why, &ignored) > 0)
			return judge_builder_root(state, hex, tree, err);
	}
	return 0;
}
