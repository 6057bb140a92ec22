// SPDX-License-Identifier: Apache-2.0
#include "precompiled/bundle/collect.h"

#include "precompiled/package/asset.h"

static const char *const FLAVOURS[] = { "open", "proprietary" };
static const char BOTH[] = "both";

struct run {
	const struct gather *g;
	const struct layout *into; // NULL = only look
	struct promises *promises;
	struct strv *missing;
};

static void promise(const struct run *run, const struct promise *p, const char *hex)
{
	struct promise *item = promises_add(run->promises);
	*item = *p;
	memcpy(item->digest, hex, sizeof(item->digest));
	if (run->g->brought)
		run->g->brought(run->g->ctx, item);
}

static void promise_package(const struct run *run, const struct package *p)
{
	struct promise item = { .kind = str_dup(PROMISE_PACKAGE),
				.driver = str_dup(p->key.driver),
				.flavour = str_dup(p->key.flavour),
				.kernel = str_dup(p->key.release),
				.arch = str_dup(p->key.arch),
				.tag = package_tag(&p->key) };
	promise(run, &item, p->manifest.digest);
}

// 1 = there, and taken when something is to be taken; 0 = no source has it, with why.
static int bring(const struct run *run, const struct package_want *want, char **ret_why, struct err *err)
{
	const struct fetch *f = &run->g->fetch;
	auto_found struct found found = FOUND_NONE;
	struct err why = { 0 };
	if (fetch_find(f, want, &found, &why) < 0) {
		*ret_why = str_dup(why.text);
		return 0;
	}
	if (!run->into)
		return 1;
	if (fetch_take(f, want, &found, run->into, err) < 0)
		return -1;
	promise_package(run, &found.offer.package);
	return 1;
}

static void miss(const struct run *run, const struct package_want *want, const char *why)
{
	strv_add(run->missing, str_fmt("%s%s%s %s %s: %s", want->driver, want->flavour ? " " : "",
				       want->flavour ? want->flavour : "", want->release, want->arch, why));
}

// What was not asked for by name may be absent, but not both.
static int bring_flavours(const struct run *run, const struct package_want *cell, struct err *err)
{
	const char *wish = run->g->flavour;
	auto_str char *why_not = NULL;
	bool is_any = false;
	for (size_t i = 0; i < ARRAY_SIZE(FLAVOURS); i++) {
		struct package_want want = *cell;
		auto_str char *why = NULL;
		want.flavour = FLAVOURS[i];
		if (wish && !str_eq(wish, BOTH) && !str_eq(wish, FLAVOURS[i]))
			continue;
		int r = bring(run, &want, &why, err);
		if (r < 0)
			return -1;
		is_any |= r > 0;
		if (r == 0 && wish)
			miss(run, &want, why);
		else if (r == 0)
			str_add(&why_not, "%s%s", why_not ? "; " : "", why);
	}
	if (!wish && !is_any)
		miss(run, cell, why_not);
	return 0;
}

static int bring_parcel(const struct run *run, const struct parcel_key *want, struct err *err)
{
	char hex[DIGEST_HEX + 1];
	if (parcel_fetch(&run->g->fetch, want, run->into, hex, err) < 0) {
		// A full disk here is not the source's lack.
		if (run->into)
			return -1;
		const char *of = want->driver ? want->driver : want->release;
		strv_add(run->missing, str_fmt("%s%s%s %s: %s", want->kind->name, of ? " " : "", of ? of : "",
					       want->arch, err->text));
	} else if (run->into) {
		struct promise item = { .kind = str_dup(want->kind->name),
					.driver = str_dup(want->driver),
					.kernel = str_dup(want->release),
					.arch = str_dup(want->arch),
					.tag = parcel_tag(want) };
		promise(run, &item, hex);
	}
	return 0;
}

static int bring_cell(const struct run *run, const char *kernel, const char *arch, struct err *err)
{
	const struct gather *g = run->g;
	struct package_want cell = { .release = kernel, .arch = arch };
	for (size_t i = 0; i < g->drivers->count; i++) {
		cell.driver = g->drivers->items[i];
		if (bring_flavours(run, &cell, err) < 0)
			return -1;
	}
	struct parcel_key headers = { .kind = &PARCEL_HEADERS, .release = kernel, .arch = arch };
	return g->is_with_headers ? bring_parcel(run, &headers, err) : 0;
}

static int bring_payloads(const struct run *run, struct err *err)
{
	const struct gather *g = run->g;
	struct parcel_key payload = { .kind = &PARCEL_PAYLOAD };
	for (size_t i = 0; i < g->drivers->count; i++)
		for (size_t a = 0; a < g->archs->count; a++) {
			payload.driver = g->drivers->items[i];
			payload.arch = g->archs->items[a];
			if (bring_parcel(run, &payload, err) < 0)
				return -1;
		}
	return 0;
}

static int bring_builders(const struct run *run, struct err *err)
{
	struct parcel_key builder = { .kind = &PARCEL_BUILDER };
	for (size_t a = 0; a < run->g->archs->count; a++) {
		builder.arch = run->g->archs->items[a];
		if (bring_parcel(run, &builder, err) < 0)
			return -1;
	}
	return 0;
}

static int bring_all(const struct run *run, struct err *err)
{
	const struct gather *g = run->g;
	for (size_t k = 0; k < g->kernels->count; k++)
		for (size_t a = 0; a < g->archs->count; a++)
			if (bring_cell(run, g->kernels->items[k], g->archs->items[a], err) < 0)
				return -1;
	if (g->is_with_payload && bring_payloads(run, err) < 0)
		return -1;
	return g->is_with_builder ? bring_builders(run, err) : 0;
}

int gather(const struct gather *g, const struct layout *into, struct promises *ret, struct strv *ret_missing,
	   struct err *err)
{
	struct gather quiet = *g; // what it would say is said again, or is the reason of a miss
	struct run look = { .g = &quiet, .missing = ret_missing },
		   take = { .g = g, .into = into, .promises = ret, .missing = ret_missing };
	quiet.fetch.note = NULL;
	if (bring_all(&look, err) < 0)
		return -1;
	if (!ret_missing->count && bring_all(&take, err) < 0)
		return -1;
	return ret_missing->count > 0;
}
