// SPDX-License-Identifier: Apache-2.0
#include "precompiled/bundle/collect.h"

#include "precompiled/package/asset.h"

static const char *const FLAVOURS[] = { "open", "proprietary" };
static const char BOTH[] = "both";

struct collection {
	const struct collect_request *g;
	const struct layout *into; // NULL = only check
	struct bundle_manifest *manifest;
	struct strv *missing;
};

static void add_bundle_entry(const struct collection *run, const struct bundle_entry *p, const char *hex)
{
	struct bundle_entry *item = bundle_manifest_add(run->manifest);
	*item = *p;
	memcpy(item->digest, hex, sizeof(item->digest));
	if (run->g->brought)
		run->g->brought(run->g->ctx, item);
}

// 1 = found, and copied unless only checking; 0 = no source has it, with the reason.
static int collect_package(const struct collection *run, const struct package_want *want, char **ret_why,
			   struct err *err)
{
	const struct fetch *f = &run->g->fetch;
	auto_fetch_result struct fetch_result found = FETCH_RESULT_NONE;
	struct err why = { 0 };
	if (fetch_find(f, want, &found, &why) < 0) {
		*ret_why = str_dup(why.text);
		return 0;
	}
	if (!run->into)
		return 1;
	if (fetch_take(f, want, &found, run->into, err) < 0)
		return -1;
	const struct package *p = &found.candidate.package;
	struct bundle_entry item = { .kind = str_dup(BUNDLE_ENTRY_PACKAGE),
				     .driver = str_dup(p->key.driver),
				     .flavour = str_dup(p->key.flavour),
				     .kernel = str_dup(p->key.release),
				     .arch = str_dup(p->key.arch),
				     .tag = package_tag(&p->key) };
	add_bundle_entry(run, &item, p->manifest.digest);
	return 1;
}

static void add_missing(const struct collection *run, const struct package_want *want, const char *why)
{
	strv_add(run->missing, str_fmt("%s%s%s %s %s: %s", want->driver, want->flavour ? " " : "",
				       want->flavour ? want->flavour : "", want->release, want->arch, why));
}

// Without a requested module type one of the two may be missing, but not both.
static int collect_flavours(const struct collection *run, const struct package_want *cell, struct err *err)
{
	const char *flavour_wanted = run->g->flavour;
	auto_str char *why_not = NULL;
	bool is_any = false;
	for (size_t i = 0; i < ARRAY_SIZE(FLAVOURS); i++) {
		struct package_want want = *cell;
		auto_str char *why = NULL;
		want.flavour = FLAVOURS[i];
		if (flavour_wanted && !str_eq(flavour_wanted, BOTH) && !str_eq(flavour_wanted, FLAVOURS[i]))
			continue;
		int r = collect_package(run, &want, &why, err);
		if (r < 0)
			return -1;
		is_any |= r > 0;
		if (r == 0 && flavour_wanted)
			add_missing(run, &want, why);
		else if (r == 0)
			str_add(&why_not, "%s%s", why_not ? "; " : "", why);
	}
	if (!flavour_wanted && !is_any)
		add_missing(run, cell, why_not);
	return 0;
}

static int collect_asset(const struct collection *run, const struct asset_key *want, struct err *err)
{
	char hex[DIGEST_HEX + 1];
	if (asset_fetch(&run->g->fetch, want, run->into, hex, err) < 0) {
		// While copying, an error such as a full disk is ours and not the source's.
		if (run->into)
			return -1;
		const char *of = want->driver ? want->driver : want->release;
		strv_add(run->missing, str_fmt("%s%s%s %s: %s", want->kind->name, of ? " " : "", of ? of : "",
					       want->arch, err->text));
	} else if (run->into) {
		struct bundle_entry item = { .kind = str_dup(want->kind->name),
					     .driver = str_dup(want->driver),
					     .kernel = str_dup(want->release),
					     .arch = str_dup(want->arch),
					     .tag = asset_tag(want) };
		add_bundle_entry(run, &item, hex);
	}
	return 0;
}

// Adds the assets of a source for this driver, whose tags begin alike. ret: of all sources, each once.
static void list_core_tags(const struct collection *run, const char *driver, struct strv *ret)
{
	const struct fetch *f = &run->g->fetch;
	auto_str char *start = str_fmt("%s-%s-", ASSET_CORE.name, driver);
	for (size_t s = 0; s < f->from->count; s++) {
		auto_repository struct repository *r = NULL;
		auto_strv struct strv tags = { 0 };
		struct err unreachable; // the fetch of the first one says so
		if (repository_open(f->from->items[s], f->options, &r, &unreachable) < 0 ||
		    repository_tags(r, &tags, &unreachable) < 0)
			continue;
		for (size_t i = 0; i < tags.count; i++)
			if (str_starts(tags.items[i], start) && !strv_has(ret, tags.items[i]))
				strv_add(ret, str_dup(tags.items[i]));
	}
}

// That no source has one is a gap, and so is one whose labels contradict its tag.
static int collect_cores(const struct collection *run, const char *driver, const char *arch, struct err *err)
{
	auto_strv struct strv tags = { 0 };
	size_t count = 0;
	list_core_tags(run, driver, &tags);
	for (size_t i = 0; i < tags.count; i++) {
		const struct asset_key want = {
			.kind = &ASSET_CORE, .driver = driver, .arch = arch, .tag = tags.items[i]
		};
		auto_str char *end = str_fmt("-%s", arch);
		if (!str_ends(tags.items[i], end))
			continue;
		if (collect_asset(run, &want, err) < 0)
			return -1;
		count++;
	}
	if (!count)
		strv_add(run->missing, str_fmt("core %s %s: no source has one", driver, arch));
	return 0;
}

static int collect_for_kernel(const struct collection *run, const char *kernel, const char *arch, struct err *err)
{
	const struct collect_request *g = run->g;
	struct package_want cell = { .release = kernel, .arch = arch };
	for (size_t i = 0; i < g->drivers->count; i++) {
		cell.driver = g->drivers->items[i];
		if (collect_flavours(run, &cell, err) < 0)
			return -1;
	}
	struct asset_key headers = { .kind = &ASSET_HEADERS, .release = kernel, .arch = arch };
	return g->is_with_headers ? collect_asset(run, &headers, err) : 0;
}

static int collect_all(const struct collection *run, struct err *err)
{
	const struct collect_request *g = run->g;
	for (size_t k = 0; k < g->kernels->count; k++)
		for (size_t a = 0; a < g->archs->count; a++)
			if (collect_for_kernel(run, g->kernels->items[k], g->archs->items[a], err) < 0)
				return -1;
	for (size_t i = 0; g->is_with_payload && i < g->drivers->count; i++)
		for (size_t a = 0; a < g->archs->count; a++) {
			const struct asset_key payload = { .kind = &ASSET_PAYLOAD,
							   .driver = g->drivers->items[i],
							   .arch = g->archs->items[a] };
			if (collect_asset(run, &payload, err) < 0)
				return -1;
		}
	for (size_t i = 0; g->is_with_cores && i < g->drivers->count; i++)
		for (size_t a = 0; a < g->archs->count; a++)
			if (collect_cores(run, g->drivers->items[i], g->archs->items[a], err) < 0)
				return -1;
	for (size_t a = 0; g->is_with_builder && a < g->archs->count; a++) {
		const struct asset_key builder = { .kind = &ASSET_BUILDER, .arch = g->archs->items[a] };
		if (collect_asset(run, &builder, err) < 0)
			return -1;
	}
	return 0;
}

int collect_bundle(const struct collect_request *g, const struct layout *into, struct bundle_manifest *ret,
		   struct strv *ret_missing, struct err *err)
{
	struct collect_request quiet = *g; // its notes would repeat, or already are the reason for a gap
	struct collection look = { .g = &quiet, .missing = ret_missing },
			  take = { .g = g, .into = into, .manifest = ret, .missing = ret_missing };
	quiet.fetch.note = NULL;
	if (collect_all(&look, err) < 0)
		return -1;
	if (!ret_missing->count && collect_all(&take, err) < 0)
		return -1;
	return ret_missing->count > 0;
}
