// SPDX-License-Identifier: Apache-2.0
#include "precompiled/package/fetch.h"

#include "precompiled/package/copy.h"
#include "precompiled/package/unpack.h"
#include "precompiled/trust/catalog.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

void fetch_result_done(struct fetch_result *f)
{
	candidate_done(&f->candidate);
	repository_free(f->repository);
	free(f->signers);
	provenance_done(&f->provenance);
	*f = FETCH_RESULT_NONE;
}

static void note_event(const struct fetch *f, const char *fmt, ...) PRINTF(2, 3);
static void note_event(const struct fetch *f, const char *fmt, ...)
{
	char text[700];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (f->note)
		f->note(f->ctx, text);
}

// The failure of each source, one clause each; the code is that of the first real failure.
struct source_failures {
	char *text;
	int code;
};

static void add_source_failure(const struct fetch *f, struct source_failures *m, size_t source, int code,
			       const char *why)
{
	auto_str char *name = http_url_shown(f->from->items[source]);
	str_add(&m->text, "%s%s: %s", m->text ? "; " : "", name, why);
	if (!m->code)
		m->code = code;
	note_event(f, "%s: %s", name, why);
}

// Checks the tag against the source's catalogue: a mirror must not substitute another package, even a signed one.
static int check_listed(const struct fetch *f, const struct trust_rule *rule, struct repository *r, const char *tag,
			const char *has, uint64_t *ret_number, struct err *err)
{
	auto_catalog struct catalog catalog = { 0 };
	int found = catalog_check(r, rule, f->state, f->now, &catalog, err);
	if (found <= 0)
		return found;
	*ret_number = catalog.number;
	const char *listed = catalog_digest(&catalog, tag);
	if (!listed)
		return err_set(err, E_UNTRUSTED, "%s is not listed in catalogue %llu", tag,
			       (unsigned long long)catalog.number);
	if (!str_eq(listed, has))
		return err_set(err, E_ROLLBACK, "%s is sha256:%s here, but sha256:%s in catalogue %llu", tag, has,
			       listed, (unsigned long long)catalog.number);
	return 0;
}

// The origin of packages that are not verified: the caller knows why.
static void set_unverified_origin(const struct fetch *f, struct provenance *p)
{
	if (f->trust)
		return;
	p->taken = f->now;
	p->origin = f->is_compiled_here ? PROVENANCE_COMPILED :
		    f->is_unverified    ? PROVENANCE_UNVERIFIED :
					  PROVENANCE_BY_HAND;
}

// Leaves ret unchanged when nothing is checked.
static int check_trust(const struct fetch *f, struct repository *r, const char *tag, const char *hex,
		       struct provenance *ret, struct err *err)
{
	auto_trust_rule struct trust_rule rule = { 0 };
	auto_signature_verdict struct signature_verdict verdict = { 0 };
	if (!f->trust)
		return 0;
	ret->taken = f->now;
	trust_rule(f->trust, repository_name(r), f->now, &rule);
	if (check_listed(f, &rule, r, tag, hex, &ret->catalog, err) < 0 ||
	    signature_check(r, hex, &rule, &verdict, err) < 0)
		return -1;
	ret->origin = PROVENANCE_FETCHED;
	ret->source = str_dup(repository_name(r));
	ret->names = verdict.names;
	ret->ids = verdict.ids;
	verdict.names = verdict.ids = (struct strv){ 0 };
	return 0;
}

struct source_query {
	// 1 = this source has it and it is trusted, 0 = this source does not have it.
	int (*ask)(const struct fetch *f, size_t source, void *ctx, char **ret_why, struct err *err);
	void *ctx;
};

static bool is_unreachable(int code)
{
	return code == E_NETWORK || code == E_TIMEOUT || code == E_TLS;
}

// Why the source was unreachable earlier; .code 0 = it was not.
static struct err error_of_last_try(const struct fetch *f, size_t source)
{
	return f->down ? f->down[source] : (struct err){ 0 };
}

static bool is_any_down(const struct fetch *f)
{
	for (size_t i = 0; i < f->from->count; i++)
		if (error_of_last_try(f, i).code)
			return true;
	return false;
}

void fetch_probe(const struct strv *names, size_t first, const struct repository_options *options, struct err *ret)
{
	auto_strv struct strv urls = { 0 };
	struct err ignored; // opening an invalid address reports the error later
	for (size_t i = first; i < names->count; i++) {
		ret[i - first] = (struct err){ 0 };
		if (repository_is_remote(names->items[i]))
			strv_add(&urls, repository_probe_url(names->items[i]));
	}
	if (urls.count < 2 || !options->http)
		return;
	struct http_probe *probes = mem_alloc(urls.count * sizeof(*probes));
	bool is_known = http_probe_all(options->http, &urls, probes, &ignored) == 0;
	for (size_t i = first, at = 0; is_known && i < names->count; i++) {
		if (!repository_is_remote(names->items[i]))
			continue;
		struct err *e = &ret[i - first];
		if (probes[at].code)
			err_set(e, probes[at].code, "%s", probes[at].reason);
		http_probe_done(&probes[at++]);
	}
	free(probes);
}

static int query_sources(const struct fetch *f, size_t first, const struct source_query *q, struct err *err)
{
	struct source_failures m = { 0 };
	struct err *unreached = mem_alloc((f->from->count + 1) * sizeof(*unreached));
	int r = 0;
	if (!is_any_down(f))
		fetch_probe(f->from, first, f->options, unreached);
	for (size_t i = first; i < f->from->count && r == 0; i++) {
		auto_str char *why = NULL;
		struct err reason = error_of_last_try(f, i);
		if (!reason.code)
			reason = unreached[i - first];
		r = reason.code ? -1 : q->ask(f, i, q->ctx, &why, &reason);
		if (r < 0 && f->down && is_unreachable(reason.code))
			f->down[i] = reason;
		if (r < 0) {
			add_source_failure(f, &m, i, reason.code, reason.text);
			r = 0;
		} else if (r == 0) {
			add_source_failure(f, &m, i, 0, why);
		}
	}
	if (r == 0)
		err_set(err, m.code ? m.code : E_NO_PACKAGE, "%s", m.text ? m.text : "no source was named (--from)");
	free(unreached);
	free(m.text);
	return r > 0 ? 0 : -1;
}

struct package_search {
	const struct package_want *want;
	struct fetch_result *ret;
};

static int query_package(const struct fetch *f, size_t source, void *ctx, char **ret_why, struct err *err)
{
	const struct package_search *s = ctx;
	auto_fetch_result struct fetch_result found = FETCH_RESULT_NONE;
	if (repository_open(f->from->items[source], f->options, &found.repository, err) < 0)
		return -1;
	int r = candidate_find(found.repository, s->want, &found.candidate, ret_why, err);
	if (r <= 0)
		return r;
	auto_str char *tag = package_tag(&found.candidate.package.key);
	if (check_trust(f, found.repository, tag, found.candidate.package.manifest.digest, &found.provenance, err) < 0)
		return -1;
	if (f->trust)
		found.signers = strv_join(&found.provenance.names, ", ");
	found.source = source;
	*s->ret = found;
	found = FETCH_RESULT_NONE;
	return 1;
}

static int find_package_from(const struct fetch *f, size_t first, const struct package_want *want,
			     struct fetch_result *ret, struct err *err)
{
	struct package_search s = { .want = want, .ret = ret };
	return query_sources(f, first, &(struct source_query){ query_package, &s }, err);
}

int fetch_find(const struct fetch *f, const struct package_want *want, struct fetch_result *ret, struct err *err)
{
	return find_package_from(f, 0, want, ret, err);
}

struct layer_download {
	const struct fetch *f;
	struct repository *repository;
	struct blob_transfer *transfer;
};

static int read_more_of_layer(void *ctx, struct err *err)
{
	const struct layer_download *b = ctx;
	const struct partial_blob *part = b->transfer->part;
	uint64_t before = part->have;
	while (!b->transfer->is_done && part->have == before)
		if (repository_step(b->repository, err) < 0)
			return -1;
	if (b->f->progress)
		b->f->progress(b->f->ctx, part->have, part->size);
	if (b->transfer->is_done && b->transfer->err.code) {
		*err = b->transfer->err;
		return -1;
	}
	return !b->transfer->is_done;
}

static int download_layer(const struct fetch *f, struct fetch_result *found, struct partial_blob *part, struct err *err)
{
	struct blob_transfer t = { .part = part };
	struct layer_download b = { .f = f, .repository = found->repository, .transfer = &t };
	struct unpack_stream feed = { .part = part, .more = read_more_of_layer, .ctx = &b };
	if (repository_begin(found->repository, &t, err) < 0)
		return -1;
	int r = unpack_stream(&feed, f->state, &found->candidate.package, err);
	repository_end(found->repository, &t);
	if (r < 0 && (err->code == E_DIGEST || err->code == E_TOO_LARGE)) // these errors do not name the sender yet
		err_wrap(err, "%s", repository_name(found->repository));
	return r;
}

// The part of an earlier run may be the damaged one: try once more from the start.
static int download_layer_with_retry(const struct fetch *f, struct fetch_result *found, const struct layout *into,
				     struct err *err)
{
	for (int tries = 0;; tries++) {
		auto_partial_blob struct partial_blob part = PARTIAL_BLOB_NONE;
		int r = partial_blob_open(into, &found->candidate.package.layer, &part, err);
		if (r < 0)
			return -1;
		if (r > 0)
			return unpack_package(into, f->state, &found->candidate.package, err);
		bool is_resumed = part.have > 0;
		r = download_layer(f, found, &part, err);
		bool is_again = err->code == EAGAIN || (err->code == E_DIGEST && is_resumed);
		if (r == 0 || tries > 1 || !is_again)
			return r;
		note_event(f, "%s; restarting the download", err->text);
	}
}

// The record is written before the package is listed: after a kill in between, the store has neither.
static int take_package(const struct fetch *f, struct fetch_result *found, const struct layout *into, struct err *err)
{
	const struct package_candidate *o = &found->candidate;
	auto_str char *tag = package_tag(&o->package.key);
	char hex[DIGEST_HEX + 1];
	set_unverified_origin(f, &found->provenance);
	if (download_layer_with_retry(f, found, into, err) < 0 ||
	    layout_blob_put(into, o->config, o->config_len, hex, err) < 0 ||
	    layout_blob_put(into, o->manifest, o->manifest_len, hex, err) < 0 ||
	    signature_copy(found->repository, hex, into, err) < 0 ||
	    provenance_write(into, &o->package.manifest, &found->provenance, err) < 0 ||
	    (f->is_unverified && provenance_count_unverified(f->state, tag, err) < 0))
		return -1;
	return layout_publish(into, &o->package.manifest, tag, err);
}

int fetch_take(const struct fetch *f, const struct package_want *want, struct fetch_result *found,
	       const struct layout *into, struct err *err)
{
	for (;;) {
		int r = take_package(f, found, into, err);
		size_t next = found->source + 1;
		if (r == 0 || next >= f->from->count || err->code == E_STORE_FULL || err->code == E_LOCKED)
			return r;
		struct err first = *err;
		auto_str char *name = http_url_shown(f->from->items[found->source]);
		note_event(f, "%s: %s", name, err->text);
		fetch_result_done(found);
		if (find_package_from(f, next, want, found, err) < 0) {
			*err = first;
			return -1;
		}
	}
}

struct item_search {
	const struct fetch_item *item;
	const struct layout *into;
	char *ret_hex;
};

// By digest, so that exactly the checked content is copied.
static int take_item(struct repository *r, const char *tag, const char *hex, const struct provenance *provenance,
		     const struct layout *into, struct err *err)
{
	auto_str char *ref = oci_digest_text(hex);
	auto_oci_index struct oci_index x = { 0 };
	auto_oci_descriptor struct oci_descriptor d = { 0 };
	int found = copy_to_layout(r, ref, into, err);
	if (found == 0)
		return err_set(err, E_NOT_FOUND, "%s no longer has %s", repository_name(r), ref);
	if (found < 0 || layout_index(into, &x, err) < 0)
		return -1;
	oci_descriptor_copy(&x.items[oci_index_find(&x, ref)], &d);
	return provenance_write(into, &d, provenance, err) < 0 ? -1 : layout_publish(into, &d, tag, err);
}

static int query_item(const struct fetch *f, size_t source, void *ctx, char **ret_why, struct err *err)
{
	const struct item_search *e = ctx;
	auto_repository struct repository *r = NULL;
	auto_provenance struct provenance provenance = { 0 };
	char hex[DIGEST_HEX + 1];
	if (repository_open(f->from->items[source], f->options, &r, err) < 0)
		return -1;
	int fits = e->item->fits(e->item->ctx, r, hex, ret_why, err);
	if (fits <= 0)
		return fits;
	set_unverified_origin(f, &provenance);
	if (check_trust(f, r, e->item->tag, hex, &provenance, err) < 0 ||
	    (e->into && take_item(r, e->item->tag, hex, &provenance, e->into, err) < 0) ||
	    (e->into && f->is_unverified && provenance_count_unverified(f->state, e->item->tag, err) < 0))
		return -1;
	memcpy(e->ret_hex, hex, sizeof(hex));
	return 1;
}

int fetch_item(const struct fetch *f, const struct fetch_item *item, const struct layout *into,
	       char ret_hex[DIGEST_HEX + 1], struct err *err)
{
	struct item_search e = { .item = item, .into = into, .ret_hex = ret_hex };
	return query_sources(f, 0, &(struct source_query){ query_item, &e }, err);
}
