// SPDX-License-Identifier: Apache-2.0
#include "precompiled/gather.h"

static const char *const FLAVOURS[] = { "open", "proprietary" };
static const char BOTH[] = "both";

struct run {
	const struct gather *g;
	const struct layout *into; // NULL = only look
	struct promises *promises;
	struct strv *missing;
};

static void promise(const struct run *run, const struct package *p, const char *from)
{
	struct promise *item = promises_add(run->promises);
	*item = (struct promise){ .kind = str_dup(PROMISE_PACKAGE),
				  .driver = str_dup(p->key.driver),
				  .flavour = str_dup(p->key.flavour),
				  .kernel = str_dup(p->key.release),
				  .arch = str_dup(p->key.arch),
				  .tag = package_tag(&p->key) };
	memcpy(item->digest, p->manifest.digest, sizeof(item->digest));
	if (run->g->brought)
		run->g->brought(run->g->ctx, item, from);
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
	promise(run, &found.offer.package, f->from->items[found.source]);
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

static int bring_all(const struct run *run, struct err *err)
{
	const struct gather *g = run->g;
	for (size_t k = 0; k < g->kernels->count; k++)
		for (size_t d = 0; d < g->drivers->count; d++)
			for (size_t a = 0; a < g->archs->count; a++) {
				struct package_want cell = { .driver = g->drivers->items[d],
							     .release = g->kernels->items[k],
							     .arch = g->archs->items[a] };
				if (bring_flavours(run, &cell, err) < 0)
					return -1;
			}
	return 0;
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
