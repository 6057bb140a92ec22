// SPDX-License-Identifier: Apache-2.0
#include "node/obtain_own.h"

#include "node/flavour.h"
#include "precompiled/find.h"
#include "precompiled/parcel.h"

void obtain_done(struct obtain *o)
{
	package_done(&o->kept);
	found_done(&o->found);
	memstate_done(&o->memory);
	store_done(&o->store);
	carry_done(&o->carry);
	strv_done(&o->kernels);
	strv_done(&o->refused);
	free(o->compatible);
	free(o->why_not);
	close_fdp(&o->builder_use);
	*o = OBTAIN_NONE;
}

bool obtain_has_store(const struct obtain *o)
{
	return o->store.layout.root.fd >= 0;
}

static int make_store(struct obtain *o, struct err *err)
{
	return obtain_has_store(o) ? 0 : store_open(o->fetch.state, o->limit, &o->store, err);
}

int obtain_output(void *obtain, const struct layout **ret, struct err *err)
{
	struct obtain *o = obtain;
	if (make_store(o, err) < 0)
		return -1;
	*ret = &o->store.layout;
	return 0;
}

// One that is not there yet has nothing, and looking does not make it.
int obtain_open(struct obtain *o, struct err *err)
{
	return root_exists(o->fetch.state, "store/oci-layout") ? make_store(o, err) : 0;
}

const struct package *obtain_package(const struct obtain *o)
{
	return o->kept.count ? &o->kept : o->found.offer.package.count ? &o->found.offer.package : NULL;
}

// The flavour that serves the GPUs; where that cannot be told, any: the plan has the words for it.
const char *obtain_flavour(const struct obtain *o, const char *driver)
{
	struct flavour_choice choice = { 0 };
	struct err ignored;
	if (!driver || !o->gpus ||
	    flavour_choose(o->gpus, driver, FLAVOUR_AUTO, FLAVOUR_OPEN | FLAVOUR_PROPRIETARY, &choice, &ignored) < 0)
		return NULL;
	enum flavour flavour = choice.flavour;
	flavour_choice_done(&choice);
	return flavour_name(flavour);
}

static int look_once(const struct obtain *o, const struct package_want *want, bool is_quiet, struct found *ret,
		     struct err *err)
{
	struct fetch fetch = o->fetch;
	if (!fetch.from || !fetch.from->count)
		return err_set(err, E_NO_PACKAGE, "no source was named");
	if (is_quiet)
		fetch.note = NULL;
	return fetch_find(&fetch, want, ret, err);
}

// The best flavour first; another one that is there is better than none.
static int look_remote(struct obtain *o, struct err *err)
{
	struct package_want want = o->want;
	auto_found struct found any = FOUND_NONE;
	struct err ignored;
	if (want.driver) // others may have made it from the same source in another wrapping
		want.source = NULL;
	if (!want.flavour)
		want.flavour = obtain_flavour(o, want.driver);
	if (want.flavour && look_once(o, &want, !o->want.flavour, &o->found, err) == 0)
		return 0;
	if (o->want.flavour || look_once(o, &o->want, false, &any, err) < 0)
		return -1;
	want.driver = any.offer.package.key.driver;
	want.flavour = obtain_flavour(o, want.driver);
	if (!want.flavour || str_eq(want.flavour, any.offer.package.key.flavour) ||
	    look_once(o, &want, true, &o->found, &ignored) < 0) {
		o->found = any;
		any = FOUND_NONE;
	}
	return 0;
}

static int look_in_store(struct obtain *o, struct err *err)
{
	struct package_want want = o->want;
	if (!obtain_has_store(o))
		return 0;
	if (!want.flavour)
		want.flavour = obtain_flavour(o, want.driver);
	int r = find_package(&o->store.layout, &want, &o->kept, NULL, err);
	if (r == 0 && !o->want.flavour)
		r = find_package(&o->store.layout, &o->want, &o->kept, NULL, err);
	return r == 0 ? obtain_reused(o, err) : r;
}

// While sources cannot be asked, what they gave before will do: as from them, in whatever wrapping its source was.
static int look_in_store_again(struct obtain *o, struct err *err)
{
	const char *source = o->want.source;
	if (o->is_named || !o->want.driver || !source)
		return 0;
	o->want.source = NULL;
	int r = look_in_store(o, err);
	o->want.source = source;
	return r;
}

int obtain_look(struct obtain *o, bool is_local, struct err *err)
{
	o->is_local = is_local;
	if (obtain_open(o, err) < 0)
		return -1;
	// Without a driver version the store does not know what is meant: sources offer, the store remembers.
	if (!o->is_named && (o->want.driver || o->want.source)) {
		int r = look_in_store(o, err);
		if (r != 0)
			return r;
		if (o->fetch.from && o->fetch.from->count && !is_local)
			watch_note(o->watch, "store: it has no package that fits");
	}
	if (is_local || !o->fetch.from || !o->fetch.from->count)
		return 0;
	struct err why = { 0 };
	if (look_remote(o, &why) == 0)
		return 1;
	if (o->is_named && why.code != E_NO_PACKAGE) {
		*err = why;
		return -1;
	}
	o->why_not = str_dup(why.text);
	o->code = why.code == E_NO_PACKAGE ? 0 : why.code;
	return o->code ? look_in_store_again(o, err) : 0;
}

static int take_found(struct obtain *o, struct package *ret, struct err *err)
{
	if (make_store(o, err) < 0 || store_room(&o->store, o->found.offer.package.layer.size, &o->kernels, err) < 0 ||
	    fetch_take(&o->fetch, &o->want, &o->found, &o->store.layout, err) < 0)
		return -1;
	package_move(&o->found.offer.package, ret);
	return 0;
}

int obtain_unpack(struct obtain *o, struct package *p, struct err *err)
{
	return memstate_stage(&o->memory, &o->store.layout, o->fetch.state, p, err);
}

int obtain_take(struct obtain *o, struct package *ret, struct err *err)
{
	if (!o->kept.count)
		return take_found(o, ret, err);
	if (o->kept.dir.fd >= 0) { // for its proof
		package_move(&o->kept, ret);
		return 0;
	}
	if (obtain_unpack(o, &o->kept, err) == 0) {
		package_move(&o->kept, ret);
		return 0;
	}
	if (err->code != E_STORE_CORRUPT)
		return -1;
	struct err damage = *err;
	if (store_quarantine(&o->store, o->kept.layer.digest, NULL, err) < 0)
		return -1;
	watch_note(o->watch, "%s; quarantined", damage.text);
	package_done(&o->kept);
	if (look_remote(o, err) < 0) {
		*err = damage;
		return -1;
	}
	return take_found(o, ret, err);
}

int obtain_parcel(struct obtain *o, const struct parcel_key *want, int code, char ret[DIGEST_HEX + 1], struct err *err)
{
	auto_str char *why = NULL;
	struct err reason = { .text = "there is none yet" };
	if (obtain_open(o, err) < 0)
		return -1;
	int r = obtain_has_store(o) ? parcel_find(&o->store.layout, want, ret, &why, &reason) : -1;
	if (r > 0)
		return 0;
	if (!o->fetch.from || !o->fetch.from->count)
		return err_set(err, code, "the store: %s; no source was named (--from)", why ? why : reason.text);
	return make_store(o, err) < 0 ? -1 : parcel_fetch(&o->fetch, want, &o->store.layout, ret, err);
}

int obtain_headers(void *obtain, const char *release, const struct root *store, char ret_digest[DIGEST_HEX + 1],
		   struct err *err)
{
	struct obtain *o = obtain;
	struct parcel_key want = {
		.kind = &PARCEL_HEADERS, .release = release, .arch = o->want.arch, .build_id = o->want.build_id
	};
	return obtain_parcel(o, &want, E_HEADERS_NOT_FOUND, ret_digest, err) < 0 ||
			       parcel_unpack(&o->store.layout, ret_digest, store, err) < 0 ?
		       -1 :
		       0;
}

static struct parcel_key payload_key(const struct obtain *o, const char *driver)
{
	return (struct parcel_key){ .kind = &PARCEL_PAYLOAD, .driver = driver, .arch = o->want.arch };
}

static int payload_in_store(const struct obtain *o, const struct parcel_key *want, char ret_hex[DIGEST_HEX + 1],
			    char **ret_why, struct err *err)
{
	if (obtain_has_store(o))
		return parcel_find(&o->store.layout, want, ret_hex, ret_why, err);
	*ret_why = str_dup("there is none yet");
	return 0;
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
	int r = payload_in_store(o, want, o->payload, ret_why, err);
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
	if (make_store(o, err) < 0)
		return -1;
	int r = payload_in_store(o, &want, hex, &why, err);
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
