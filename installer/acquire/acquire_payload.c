// SPDX-License-Identifier: Apache-2.0
// What is offered beside packages. Of headers and builders a source may have a newer one under the same tag, and it
// alone knows that: sources are asked first, and what the store keeps serves while none of them can tell. What was
// packed into this store was meant for this machine. A payload is of one driver version, as a package is: the store
// comes first.
#include "acquire/acquire_internal.h"

// The store's, as far as whoever is trusted now vouches for it. 1 = found; 0 = not, with *ret_why. ret_hex says what
// there is also when that is why; else it is "".
static int find_kept(const struct obtain *o, const struct parcel_key *want, char ret_hex[DIGEST_HEX + 1],
		     char **ret_why, struct err *err)
{
	struct err why;
	*ret_hex = '\0';
	if (!obtain_has_store(o)) {
		*ret_why = str_dup("there is none yet");
		return 0;
	}
	int r = parcel_find(&o->store.layout, want, ret_hex, ret_why, err);
	if (r == 0)
		*ret_hex = '\0';
	if (r <= 0 || obtain_check(o, ret_hex, &why) == 0)
		return r;
	*ret_why = str_fmt("%s: %s", err_info(why.code)->name, why.text);
	return 0;
}

static bool is_packed_here(const struct obtain *o, const char *hex)
{
	static const struct trust_now nobody;
	auto_provenance struct provenance p = { 0 };
	struct err ignored;
	return provenance_check(&o->store.layout, hex, &nobody, &p, &ignored) == 0 && p.is_recorded &&
	       p.origin == PROVENANCE_BY_HAND;
}

// What the sources offer; kept: what there is already, or "".
static int bring(struct obtain *o, const struct parcel_key *want, const char *kept, char ret[DIGEST_HEX + 1],
		 struct err *err)
{
	if (*kept && parcel_fetch(&o->fetch, want, NULL, ret, err) < 0)
		return -1;
	if (*kept && str_eq(kept, ret))
		return 0;
	return obtain_make_store(o, err) < 0 ? -1 : parcel_fetch(&o->fetch, want, &o->store.layout, ret, err);
}

int obtain_parcel(struct obtain *o, const struct parcel_key *want, int code, char ret[DIGEST_HEX + 1], struct err *err)
{
	auto_str char *why = NULL, *tag = parcel_tag(want);
	char kept[DIGEST_HEX + 1];
	struct err damage;
	bool has_sources = o->fetch.from && o->fetch.from->count;
	if (obtain_open(o, err) < 0)
		return -1;
	bool is_kept = find_kept(o, want, kept, &why, &damage) > 0;
	if (!is_kept && !has_sources)
		return err_set(err, code, "the store: %s; no source was named (--from)", why ? why : damage.text);
	if (has_sources && !(is_kept && is_packed_here(o, kept))) {
		if (bring(o, want, is_kept ? kept : "", ret, err) == 0)
			return 0;
		if (!is_kept)
			return -1;
		if (o->watch)
			watch_note(o->watch, "%s: the one in the store serves: %s", tag, err->text);
	}
	memcpy(ret, kept, sizeof(kept));
	return 0;
}

// A tree that was unpacked before its signer was found out is taken by nobody who looks for headers there.
static int drop_distrusted(struct obtain *o, const struct parcel_key *want, const struct root *trees, struct err *err)
{
	char hex[DIGEST_HEX + 1];
	auto_str char *why = NULL;
	if (obtain_open(o, err) < 0)
		return -1;
	if (find_kept(o, want, hex, &why, err) != 0 || !*hex || !root_exists(trees, hex))
		return 0;
	auto_str char *gone = str_fmt(".tmp/%s", hex);
	watch_note(o->watch, "the unpacked headers %.12s are not used: %s", hex, why);
	if (root_mkdirs(trees, ".tmp", 0755, err) < 0 || root_rmtree(trees, gone, err) < 0)
		return -1;
	if (root_rename(trees, hex, gone, err) < 0 && root_exists(trees, hex))
		return -1;
	return root_rmtree(trees, gone, err) < 0 ? -1 : 0;
}

int obtain_headers(void *obtain, const char *release, const struct root *store, char ret_digest[DIGEST_HEX + 1],
		   struct err *err)
{
	struct obtain *o = obtain;
	struct parcel_key want = {
		.kind = &PARCEL_HEADERS, .release = release, .arch = o->want.arch, .build_id = o->want.build_id
	};
	if (drop_distrusted(o, &want, store, err) < 0 ||
	    obtain_parcel(o, &want, E_HEADERS_NOT_FOUND, ret_digest, err) < 0)
		return -1;
	return parcel_unpack(&o->store.layout, ret_digest, store, err) < 0 ? -1 : 0;
}

static struct parcel_key payload_key(const struct obtain *o, const char *driver)
{
	return (struct parcel_key){ .kind = &PARCEL_PAYLOAD, .driver = driver, .arch = o->want.arch };
}

static int payload_in_sources(const struct obtain *o, const struct parcel_key *want, char ret_hex[DIGEST_HEX + 1],
			      char **ret_why, struct err *err)
{
	if (parcel_fetch(&o->fetch, want, NULL, ret_hex, err) == 0)
		return 1;
	if (err->code != E_NO_PACKAGE)
		return -1;
	*ret_why = str_dup(err->text);
	return 0;
}

static int payload_here(struct obtain *o, const struct parcel_key *want, char **ret_why, struct err *err)
{
	int r = find_kept(o, want, o->payload, ret_why, err);
	return r == 0 ? carry_find(o->fetch.state, want->driver, want->arch, o->payload, err) : r;
}

// In the order of packages: what was named by hand comes before the store.
int obtain_payload_look(struct obtain *o, const char *driver, bool is_local, char **ret_why, struct err *err)
{
	struct parcel_key want = payload_key(o, driver);
	bool has_sources = !is_local && o->fetch.from && o->fetch.from->count;
	auto_str char *why = NULL, *why_not_stored = NULL;
	if (carry_is_of(&o->carry, driver, want.arch)) {
		memcpy(o->payload, o->carry.is.digest, sizeof(o->payload));
		return 1;
	}
	int r = obtain_open(o, err) < 0 ? -1 : 0;
	if (r == 0 && has_sources && o->is_named)
		r = payload_in_sources(o, &want, o->payload, &why, err);
	if (r == 0)
		r = payload_here(o, &want, &why_not_stored, err);
	if (r == 0 && has_sources && !o->is_named)
		r = payload_in_sources(o, &want, o->payload, &why, err);
	if (r == 0)
		*ret_why = why ? TAKE(why) : str_fmt("the store: %s", why_not_stored);
	return r;
}

static int fetch_payload(struct obtain *o, const struct parcel_key *want, struct err *err)
{
	return parcel_fetch(&o->fetch, want, &o->store.layout, o->payload, err);
}

static int mend_payload(struct obtain *o, const struct parcel_key *want, const struct root *trees, struct err *err)
{
	struct err damage = *err;
	char layer[DIGEST_HEX + 1];
	if (parcel_layer(&o->store.layout, o->payload, layer, err) < 0 ||
	    store_quarantine(&o->store, layer, NULL, err) < 0)
		return -1;
	watch_note(o->watch, "%s; quarantined", damage.text);
	if (fetch_payload(o, want, err) < 0) {
		*err = damage;
		return -1;
	}
	return parcel_unpack(&o->store.layout, o->payload, trees, err);
}

static int unpack_payload(struct obtain *o, const char *driver, const struct root *trees, struct err *err)
{
	struct parcel_key want = payload_key(o, driver);
	auto_str char *why = NULL;
	char hex[DIGEST_HEX + 1];
	if (obtain_make_store(o, err) < 0)
		return -1;
	int r = find_kept(o, &want, hex, &why, err);
	if (r < 0 || ((r == 0 || !str_eq(hex, o->payload)) && fetch_payload(o, &want, err) < 0))
		return -1;
	r = parcel_unpack(&o->store.layout, o->payload, trees, err);
	return r < 0 && err->code == E_STORE_CORRUPT ? mend_payload(o, &want, trees, err) : r;
}

// A tree that is there is not looked at: what it is of has the name.
int obtain_payload(struct obtain *o, const char *driver, struct err *err)
{
	auto_root struct root trees = ROOT_NONE;
	if (root_mkdirs(o->fetch.state, "payloads", 0755, err) < 0 ||
	    root_sub(o->fetch.state, "payloads", &trees, err) < 0)
		return -1;
	if (root_exists(&trees, o->payload))
		return 0;
	if (carry_is_of(&o->carry, driver, o->want.arch) && str_eq(o->carry.is.digest, o->payload))
		return carry_copy(&o->carry, o->fetch.state, err);
	return unpack_payload(o, driver, &trees, err);
}
