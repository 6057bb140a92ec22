// SPDX-License-Identifier: Apache-2.0
#include "precompiled/package/fetch.h"

#include "precompiled/package/copy.h"
#include "precompiled/package/unpack.h"
#include "precompiled/trust/catalog.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

void package_candidate_done(struct package_candidate *o)
{
	package_done(&o->package);
	free(o->manifest);
	free(o->config);
	*o = CANDIDATE_NONE;
}

static void move_candidate(struct package_candidate *from, struct package_candidate *to)
{
	package_candidate_done(to);
	*to = *from;
	*from = CANDIDATE_NONE;
}

int package_candidate_read(struct repository *r, const char *ref, struct package_candidate *ret, struct err *err)
{
	auto_candidate struct package_candidate o = CANDIDATE_NONE;
	auto_oci_manifest struct oci_manifest m = { 0 };
	auto_oci_descriptor struct oci_descriptor d = { .media_type = str_dup(OCI_MANIFEST),
							.artifact_type = str_dup(PACKAGE_TYPE) };
	auto_str char *name = str_fmt("%s in %s", ref, r->name);
	int done = repository_manifest(r, ref, &o.manifest, &o.manifest_len, d.digest, err);
	if (done <= 0)
		return done;
	if (oci_manifest_parse(o.manifest, o.manifest_len, name, &m, err) < 0)
		return -1;
	if (!str_eq(m.artifact_type, PACKAGE_TYPE))
		return 0;
	d.size = o.manifest_len;
	done = repository_document(r, &m.config, &o.config, &o.config_len, err);
	if (done <= 0)
		return done < 0 ? -1 :
				  err_set(err, E_MANIFEST, "%s: configuration sha256:%s is missing", name,
					  m.config.digest);
	if (package_parse(&m, &d, o.config, o.config_len, &o.package, err) <= 0)
		return -1;
	o.package.place = str_dup(r->name);
	move_candidate(&o, ret);
	return 1;
}

// 1 = it fits and was moved to ret; 0 = it does not, with the reason.
static int take_if_fits(struct package_candidate *o, const char *tag, const struct package_want *want,
			struct package_candidate *ret, char **ret_why)
{
	auto_str char *why = NULL;
	if (package_fits(&o->package, want, &why) == 0) {
		*ret_why = str_fmt("its %s does not fit: %s", tag, why);
		return 0;
	}
	move_candidate(o, ret);
	return 1;
}

// Tags end with release and architecture as oci_tag writes them, unless the tag was shortened.
static bool is_candidate_tag(const char *tag, const struct package_want *want)
{
	auto_str char *tail = str_fmt("%s%s%s", want->release ? want->release : "", want->arch ? "-" : "",
				      want->arch ? want->arch : ""),
		      *spelled = oci_tag(tail);
	return !want->release || str_ends(tag, spelled) || strlen(tag) == 128;
}

// The newest that fits, among these references. 1 = found, 0 = none, with *ret_why of the last one, if there was one.
static int find_among(struct repository *r, const struct strv *refs, const struct package_want *want,
		      struct package_candidate *ret, char **ret_why, struct err *err)
{
	auto_candidate struct package_candidate best = CANDIDATE_NONE;
	struct err damage = { 0 };
	for (size_t i = 0; i < refs->count; i++) {
		auto_candidate struct package_candidate o = CANDIDATE_NONE, fitting = CANDIDATE_NONE;
		auto_str char *reason = NULL;
		// Local repositories are searched completely, so that the answer can say what does not fit.
		if (str_starts(refs->items[i], "sha256-") || // signatures
		    (repository_is_remote(r->name) && !is_candidate_tag(refs->items[i], want)))
			continue;
		int done = package_candidate_read(r, refs->items[i], &o, err);
		// One damaged entry must not hide the good ones.
		if (done < 0 && err->code != E_MANIFEST && err->code != E_DIGEST && err->code != E_TOO_LARGE)
			return -1;
		if (done < 0)
			damage = *err;
		if (done <= 0)
			continue;
		if (take_if_fits(&o, refs->items[i], want, &fitting, &reason) == 0) {
			free(*ret_why);
			*ret_why = TAKE(reason);
		} else if (!best.package.count ||
			   str_version_cmp(fitting.package.key.driver, best.package.key.driver) > 0) {
			move_candidate(&fitting, &best);
		}
	}
	if (best.package.count) {
		move_candidate(&best, ret);
		return 1;
	}
	if (!damage.code)
		return 0;
	*err = damage;
	return -1;
}

// What has no tag may have lost it to its successor: it counts where nothing with a tag fits.
static int find_among_tags(struct repository *r, const struct package_want *want, struct package_candidate *ret,
			   char **ret_why, struct err *err)
{
	auto_strv struct strv tags = { 0 }, others = { 0 };
	auto_str char *why = NULL;
	if (repository_tags(r, &tags, err) < 0 || repository_untagged(r, PACKAGE_TYPE, &others, err) < 0)
		return -1;
	int done = find_among(r, &tags, want, ret, &why, err);
	if (done == 0)
		done = find_among(r, &others, want, ret, &why, err);
	if (done == 0)
		*ret_why = why ? TAKE(why) :
				 str_fmt("it has no package for kernel %s", want->release ? want->release : "any");
	return done;
}

static bool has_untagged(struct repository *r)
{
	auto_strv struct strv names = { 0 };
	struct err ignored;
	return repository_untagged(r, PACKAGE_TYPE, &names, &ignored) == 0 && names.count;
}

static int find_candidate(struct repository *r, const struct package_want *want, struct package_candidate *ret,
			  char **ret_why, struct err *err)
{
	auto_candidate struct package_candidate o = CANDIDATE_NONE;
	if (!want->driver || !want->flavour || !want->release || !want->arch)
		return find_among_tags(r, want, ret, ret_why, err);
	auto_str char *name = str_fmt("%s-%s-%s-%s", want->driver, want->flavour, want->release, want->arch),
		      *tag = oci_tag(name);
	int done = package_candidate_read(r, tag, &o, err);
	if (done == 0 && has_untagged(r))
		return find_among_tags(r, want, ret, ret_why, err);
	if (done == 0)
		*ret_why = str_fmt("it has no %s", tag);
	return done > 0 ? take_if_fits(&o, tag, want, ret, ret_why) : done;
}

void fetch_result_done(struct fetch_result *f)
{
	package_candidate_done(&f->candidate);
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
	char next[ERR_NEXT_MOST];
};

static void add_source_failure(const struct fetch *f, struct source_failures *m, size_t source, int code,
			       const char *why)
{
	auto_str char *name = http_url_shown(f->from->items[source]);
	bool is_named = strstr(why, name) != NULL;
	str_add(&m->text, "%s%s%s%s", m->text ? "; " : "", is_named ? "" : name, is_named ? "" : ": ", why);
	if (!m->code)
		m->code = code;
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

// What all packages of a repository are checked against.
struct repository_trust {
	struct trust_rule rule;
	struct catalog catalog;
	bool has_catalog;
};

static void repository_trust_done(struct repository_trust *t)
{
	trust_rule_done(&t->rule);
	catalog_done(&t->catalog);
}
#define auto_repository_trust __attribute__((cleanup(repository_trust_done)))

static int read_trust(const struct fetch *f, struct repository *r, struct repository_trust *ret, struct err *err)
{
	if (!f->trust)
		return 0;
	trust_rule(f->trust, r->name, &ret->rule);
	int has_catalog = catalog_check(r, &ret->rule, f->state, f->now, &ret->catalog, err);
	ret->has_catalog = has_catalog > 0;
	return has_catalog < 0 ? -1 : 0;
}

// Leaves ret unchanged when nothing is checked.
static int check_trust(const struct fetch *f, const struct repository_trust *t, struct repository *r, const char *tag,
		       const char *hex, struct provenance *ret, struct err *err)
{
	auto_signature_verdict struct signature_verdict verdict = { 0 };
	if (!f->trust)
		return 0;
	// A mirror must not substitute another package, even a signed one.
	const char *listed = t->has_catalog ? catalog_digest(&t->catalog, tag) : hex;
	if (!listed)
		return err_set(err, E_UNTRUSTED, "%s is not listed in catalogue %llu", tag,
			       (unsigned long long)t->catalog.number);
	if (!str_eq(listed, hex))
		return err_set(err, E_ROLLBACK, "%s is sha256:%.12s... here, but sha256:%.12s... in catalogue %llu",
			       tag, hex, listed, (unsigned long long)t->catalog.number);
	if (signature_check(r, hex, &t->rule, &verdict, err) < 0)
		return -1;
	ret->taken = f->now;
	ret->catalog = t->catalog.number;
	ret->origin = PROVENANCE_FETCHED;
	ret->source = str_dup(r->name);
	ret->names = verdict.names;
	ret->ids = verdict.ids;
	verdict.names = verdict.ids = (struct strv){ 0 };
	return 0;
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
		repository_unreached(names->items[i], e);
		http_probe_done(&probes[at++]);
	}
	free(probes);
}

// 1 = this source has it and it is trusted, 0 = this source does not have it.
typedef int query_fn(const struct fetch *f, size_t source, void *ctx, char **ret_why, struct err *err);

static int query_sources(const struct fetch *f, size_t first, query_fn *query, void *ctx, struct err *err)
{
	struct source_failures m = { 0 };
	struct err *unreached = mem_alloc((f->from->count + 1) * sizeof(*unreached));
	bool is_any_down = false;
	int r = 0;
	for (size_t i = 0; f->down && i < f->from->count; i++)
		is_any_down |= f->down[i].code != 0;
	if (!is_any_down)
		fetch_probe(f->from, first, f->options, unreached);
	for (size_t i = first; i < f->from->count && r == 0; i++) {
		auto_str char *why = NULL;
		struct err reason = f->down && f->down[i].code ? f->down[i] : unreached[i - first];
		r = reason.code ? -1 : query(f, i, ctx, &why, &reason);
		bool is_unreachable = reason.code == E_NETWORK || reason.code == E_TIMEOUT || reason.code == E_TLS;
		if (r < 0 && f->down && is_unreachable)
			f->down[i] = reason;
		if (r < 0 && !m.code)
			memcpy(m.next, reason.next, sizeof(m.next));
		if (r < 0) {
			add_source_failure(f, &m, i, reason.code, reason.text);
			r = 0;
		} else if (r == 0) {
			add_source_failure(f, &m, i, 0, why);
		}
	}
	if (r == 0)
		err_set(err, m.code ? m.code : E_NO_PACKAGE, "%s", m.text ? m.text : "no source was named (--from)");
	else if (m.text) // else the error says it
		note_event(f, "%s", m.text);
	free(unreached);
	free(m.text);
	return r > 0 ? 0 : err_next(err, "%s", m.next);
}

struct package_search {
	const struct package_want *want;
	struct fetch_result *ret;
};

enum { REFUSED_MAX = 8 }; // packages of a repository, each of which costs a look at its list and at signatures

// If an older driver is acceptable, packages without a trusted signature are skipped. Not so a package that contradicts
// the catalogue, which is no oversight; and without keys no package is better than the newest.
static bool is_older_asked(const struct package_want *want, const struct repository_trust *t, int code)
{
	return want->branch && t->rule.count && (code == E_UNTRUSTED || code == E_UNSIGNED || code == E_FORGED);
}

// Without those that were refused; err says why the last of them was, and tag names it.
static int find_older_candidate(const struct fetch *f, const struct package_want *want, const struct strv *refused,
				const char *tag, struct fetch_result *found, struct err *err)
{
	auto_str char *name = http_url_shown(found->repository->name), *no_other = NULL;
	struct package_want rest = *want;
	const struct err why = *err;
	rest.but = refused;
	package_candidate_done(&found->candidate);
	bool is_last = refused->count >= REFUSED_MAX;
	int r = is_last ? 0 : find_candidate(found->repository, &rest, &found->candidate, &no_other, err);
	if (r != 0 || refused->count > 1) // else the error says it
		note_event(f, "%s: %s is not used: %s: %s%s", name, tag, err_info(why.code)->name, why.text,
			   is_last ? "; older ones are not looked at" : "");
	return r;
}

// The best that fits and is trusted. If none is, the error is that of the best.
static int find_trusted_candidate(const struct fetch *f, const struct package_want *want, struct fetch_result *found,
				  char **ret_why, struct err *err)
{
	auto_repository_trust struct repository_trust trust = { 0 };
	auto_strv struct strv refused = { 0 };
	struct err newest;
	int r = find_candidate(found->repository, want, &found->candidate, ret_why, err);
	if (r > 0 && read_trust(f, found->repository, &trust, err) < 0)
		return -1;
	while (r > 0) {
		const struct package *p = &found->candidate.package;
		auto_str char *tag = package_tag(&p->key);
		if (check_trust(f, &trust, found->repository, tag, p->manifest.digest, &found->provenance, err) == 0)
			return 1;
		if (!is_older_asked(want, &trust, err->code))
			return -1;
		if (!refused.count)
			newest = *err;
		strv_add(&refused, str_dup(p->manifest.digest));
		r = find_older_candidate(f, want, &refused, tag, found, err);
	}
	if (r == 0 && refused.count) {
		*err = newest;
		return -1;
	}
	return r;
}

static int query_package(const struct fetch *f, size_t source, void *ctx, char **ret_why, struct err *err)
{
	const struct package_search *s = ctx;
	auto_fetch_result struct fetch_result found = FETCH_RESULT_NONE;
	if (repository_open(f->from->items[source], f->options, &found.repository, err) < 0)
		return -1;
	int r = find_trusted_candidate(f, s->want, &found, ret_why, err);
	if (r <= 0)
		return r;
	if (f->trust)
		found.signers = strv_join(&found.provenance.names, ", ");
	found.source = source;
	*s->ret = found;
	found = FETCH_RESULT_NONE;
	return 1;
}

int fetch_find(const struct fetch *f, const struct package_want *want, struct fetch_result *ret, struct err *err)
{
	struct package_search s = { .want = want, .ret = ret };
	return query_sources(f, 0, query_package, &s, err);
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

static int download_layer(const struct fetch *f, struct fetch_result *found, const struct layout *into, struct err *err)
{
	struct package *p = &found->candidate.package;
	for (int tries = 0;; tries++) {
		auto_partial_blob struct partial_blob part = PARTIAL_BLOB_NONE;
		struct blob_transfer t = { .part = &part };
		struct layer_download b = { .f = f, .repository = found->repository, .transfer = &t };
		const struct unpack_stream feed = { .part = &part, .more = read_more_of_layer, .ctx = &b };
		int r = partial_blob_open(into, &p->layer, &part, err);
		if (r < 0)
			return -1;
		if (r > 0)
			return unpack_package(into, f->state, p, err);
		bool is_resumed = part.have > 0;
		r = repository_begin(found->repository, &t, err);
		if (r == 0) {
			r = unpack_stream(&feed, f->state, p, err);
			repository_end(found->repository, &t);
			if (r < 0 &&
			    (err->code == E_DIGEST || err->code == E_TOO_LARGE)) // these do not name the sender
				err_wrap(err, "%s", found->repository->name);
		}
		// The part of an earlier run may be the damaged one: try again from the start.
		if (r == 0 || tries > 1 || !(err->code == EAGAIN || (err->code == E_DIGEST && is_resumed)))
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
	if (download_layer(f, found, into, err) < 0 || layout_blob_put(into, o->config, o->config_len, hex, err) < 0 ||
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
	struct package_search s = { .want = want, .ret = found };
	for (;;) {
		int r = take_package(f, found, into, err);
		size_t next = found->source + 1;
		if (r == 0 || next >= f->from->count || err->code == E_STORE_FULL || err->code == E_LOCKED)
			return r;
		struct err first = *err;
		auto_str char *name = http_url_shown(f->from->items[found->source]);
		note_event(f, "%s: %s", name, err->text);
		fetch_result_done(found);
		if (query_sources(f, next, query_package, &s, err) < 0) {
			*err = first;
			return -1;
		}
	}
}

struct item_search {
	const struct fetch_item *item;
	const struct layout *into;
	char *ret_hex;
	size_t *ret_source;
};

// 1 = the repository has it, by *ret_tag.
static int find_item(const struct fetch_item *item, struct repository *r, const char **ret_tag,
		     char ret_hex[DIGEST_HEX + 1], char **ret_why, struct err *err)
{
	auto_str char *all = NULL;
	for (size_t i = 0; i < item->tags->count; i++) {
		auto_str char *why = NULL;
		int fits = item->fits(item->ctx, r, item->tags->items[i], ret_hex, &why, err);
		*ret_tag = item->tags->items[i];
		if (fits != 0)
			return fits;
		str_add(&all, "%s%s", all ? ", " : "", why);
	}
	*ret_why = TAKE(all);
	return 0;
}

static int query_item(const struct fetch *f, size_t source, void *ctx, char **ret_why, struct err *err)
{
	const struct item_search *e = ctx;
	const char *tag = NULL;
	auto_repository struct repository *r = NULL;
	auto_provenance struct provenance provenance = { 0 };
	auto_repository_trust struct repository_trust trust = { 0 };
	auto_oci_index struct oci_index x = { 0 };
	auto_oci_descriptor struct oci_descriptor d = { 0 };
	char hex[DIGEST_HEX + 1];
	if (repository_open(f->from->items[source], f->options, &r, err) < 0)
		return -1;
	int fits = find_item(e->item, r, &tag, hex, ret_why, err);
	if (fits <= 0)
		return fits;
	set_unverified_origin(f, &provenance);
	if (read_trust(f, r, &trust, err) < 0 || check_trust(f, &trust, r, tag, hex, &provenance, err) < 0)
		return -1;
	memcpy(e->ret_hex, hex, sizeof(hex));
	*e->ret_source = source;
	if (!e->into)
		return 1;
	auto_str char *ref = oci_digest_text(hex); // by digest, so that exactly the checked content is copied
	int found = copy_to_layout(r, ref, e->into, err);
	if (found == 0)
		return err_set(err, E_NOT_FOUND, "%s no longer has %s", r->name, ref);
	if (found < 0 || layout_index(e->into, &x, err) < 0)
		return -1;
	oci_descriptor_copy(&x.items[oci_index_find(&x, ref)], &d);
	if (provenance_write(e->into, &d, &provenance, err) < 0 || layout_publish(e->into, &d, tag, err) < 0 ||
	    (f->is_unverified && provenance_count_unverified(f->state, tag, err) < 0))
		return -1;
	return 1;
}

int fetch_item(const struct fetch *f, const struct fetch_item *item, const struct layout *into,
	       char ret_hex[DIGEST_HEX + 1], size_t *ret_source, struct err *err)
{
	struct item_search e = { .item = item, .into = into, .ret_hex = ret_hex, .ret_source = ret_source };
	return query_sources(f, 0, query_item, &e, err);
}
