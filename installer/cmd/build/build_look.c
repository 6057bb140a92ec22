// SPDX-License-Identifier: Apache-2.0
// Is the package of a pair made already? A tag is only a pointer, so the inputs are compared.
#include "cmd/build/build.h"
#include "precompiled/package/find.h"

// Of a node's store, what nobody would load any more is none.
static bool is_trusted_in_store(const struct fetch *fetch, const struct layout *output, const struct package *p)
{
	struct err ignored;
	return !output->is_store || !fetch->now_trusted ||
	       provenance_check(output, p->manifest.digest, fetch->now_trusted, NULL, &ignored) == 0;
}

static int find_in_output(const struct fetch *fetch, const struct layout *output, const struct package_key *key,
			  struct package *ret, struct err *err)
{
	auto_package struct package p = PACKAGE_NONE;
	auto_oci_index struct oci_index all = { 0 };
	auto_str char *tag = package_tag(key);
	struct err ignored;
	if (layout_index(output, &all, err) < 0)
		return -1;
	int at = oci_index_find(&all, tag);
	// A damaged one is none.
	if (at < 0 || find_by_descriptor(output, &all.items[at], &p, &ignored) <= 0 ||
	    !package_key_is_same(&p.key, key) || !layout_has(output, p.layer.digest) ||
	    !is_trusted_in_store(fetch, output, &p))
		return 0;
	package_move(&p, ret);
	return 1;
}

static bool has_same_inputs(const struct fetch *f, const struct package *p, const struct package_key *key)
{
	bool is_same = package_key_is_same(&p->key, key);
	auto_str char *note = str_fmt("%s: its package is of another compiler, or of other patches", p->place);
	if (!is_same)
		f->note(f->ctx, note);
	return is_same;
}

// Each source by itself: one that has it of other inputs does not hide the next.
static int fetch_from_source(const struct fetch *all, size_t source, const struct package_want *want,
			     const struct package_key *key, const struct layout *output, struct package *ret)
{
	auto_fetch_result struct fetch_result found = FETCH_RESULT_NONE;
	struct strv one = { .items = &all->from->items[source], .count = 1 };
	struct fetch fetch = *all;
	struct err err;
	fetch.from = &one;
	fetch.down = &all->down[source];
	if (fetch_find(&fetch, want, &found, &err) < 0 || !has_same_inputs(all, &found.candidate.package, key))
		return 0;
	if (fetch_take(&fetch, want, &found, output, &err) < 0) {
		all->note(all->ctx, err.text);
		return 0;
	}
	package_move(&found.candidate.package, ret);
	return 1;
}

int build_find_existing(const struct fetch *fetch, const struct layout *output, const struct package_key *key,
			enum build_result *ret_result, struct package *ret, struct err *err)
{
	struct package_want want = { .driver = key->driver,
				     .flavour = key->flavour,
				     .release = key->release,
				     .build_id = key->build_id,
				     .arch = key->arch,
				     .source = key->source,
				     .modules = &key->modules };
	int r = find_in_output(fetch, output, key, ret, err);
	*ret_result = BUILD_PRESENT;
	for (size_t i = 0; i < fetch->from->count && r == 0; i++) {
		r = fetch_from_source(fetch, i, &want, key, output, ret);
		*ret_result = BUILD_FETCHED;
	}
	return r;
}
