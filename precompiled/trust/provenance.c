// SPDX-License-Identifier: Apache-2.0
#include "precompiled/trust/provenance.h"

#include "base/core/date.h"
#include "base/formats/json.h"
#include "base/process/state_file.h"
#include "precompiled/oci/layout_view.h"
#include "precompiled/repository/artifact.h"

#include <sys/stat.h>

static const char *const origins[] = { [PROVENANCE_UNKNOWN] = "unknown",
				       [PROVENANCE_FETCHED] = "fetched",
				       [PROVENANCE_BY_HAND] = "by-hand",
				       [PROVENANCE_COMPILED] = "compiled",
				       [PROVENANCE_UNVERIFIED] = "unverified" };

void provenance_done(struct provenance *p)
{
	free(p->source);
	strv_done(&p->names);
	strv_done(&p->ids);
	*p = (struct provenance){ 0 };
}

json_t *provenance_json(const struct provenance *p)
{
	auto_str char *taken = p->taken ? date_text(p->taken) : NULL;
	json_t *signers = json_array();
	for (size_t i = 0; i < p->ids.count; i++)
		json_array_append_new(
			signers, json_pack("{s:o, s:s}", "name", json_text(p->names.items[i]), "key", p->ids.items[i]));
	return json_pack("{s:s, s:o, s:o, s:I, s:o}", "origin", origins[p->origin], "source", json_text(p->source),
			 "signers", signers, "catalog", (json_int_t)p->catalog, "taken", json_text(taken));
}

char *provenance_text(const struct provenance *p)
{
	auto_str char *names = strv_join(&p->names, ", ");
	switch (p->origin) {
	case PROVENANCE_BY_HAND:
		return str_dup("by hand");
	case PROVENANCE_COMPILED:
		return str_dup("compiled here");
	case PROVENANCE_UNVERIFIED:
		return str_dup("not verified");
	default:
		return p->names.count ? str_fmt("signed by %s", names) : str_dup("accepted unsigned");
	}
}

static bool parse_provenance(const json_t *json, struct provenance *p)
{
	const char *origin = json_string_value(json_object_get(json, "origin"));
	json_int_t catalog = json_integer_value(json_object_get(json, "catalog"));
	size_t i = PROVENANCE_FETCHED;
	while (i < ARRAY_SIZE(origins) && !str_eq(origins[i], origin))
		i++;
	const char *taken = json_string_value(json_object_get(json, "taken"));
	if (i == ARRAY_SIZE(origins) || catalog < 0 || (taken && !date_parse(taken, &p->taken)))
		return false;
	const json_t *signers = json_object_get(json, "signers");
	for (size_t k = 0; k < json_array_size(signers); k++) {
		const json_t *item = json_array_get(signers, k);
		const char *name = json_string_value(json_object_get(item, "name")),
			   *id = json_string_value(json_object_get(item, "key"));
		if (!name || !digest_is_hex(id))
			return false;
		strv_add(&p->names, str_dup(name));
		strv_add(&p->ids, str_dup(id));
	}
	p->origin = (enum provenance_origin)i;
	p->catalog = (uint64_t)catalog;
	p->source = json_text_dup(json, "source");
	p->is_recorded = true;
	return p->origin != PROVENANCE_FETCHED || (p->source && p->taken);
}

// Is this index entry the record of that package? m: its manifest.
static bool is_record(const struct layout *l, const struct oci_descriptor *d, const char *manifest_hex,
		      struct oci_manifest *m)
{
	struct err ignored;
	if (!str_eq(d->media_type, OCI_MANIFEST) || oci_descriptor_annotation(d, OCI_REF_NAME) ||
	    (d->artifact_type && !str_eq(d->artifact_type, PROVENANCE_TYPE)))
		return false;
	return layout_manifest(l, d, d->digest, m, &ignored) == 0 && str_eq(m->artifact_type, PROVENANCE_TYPE) &&
	       m->count == 1 && m->subject.media_type && str_eq(m->subject.digest, manifest_hex);
}

// A damaged record counts as none. 1 = found.
static int read_provenance(const struct layout *l, const char *manifest_hex, struct provenance *ret, struct err *err)
{
	const struct layout_view *v;
	const struct layout_subject *found;
	size_t count;
	if (layout_referrers(l, manifest_hex, false, &v, &found, &count, err) < 0)
		return -1;
	for (size_t i = count; i-- > 0;) {
		auto_oci_manifest struct oci_manifest m = { 0 };
		auto_str char *data = NULL;
		auto_json json_t *json = NULL;
		auto_provenance struct provenance p = { 0 };
		size_t len = 0;
		struct err ignored;
		if (!is_record(l, &v->index.items[found[i].at], manifest_hex, &m) ||
		    layout_blob_read(l, &m.layers[0], &data, &len, &ignored) < 0 ||
		    oci_json(data, len, "provenance", &json, &ignored) < 0 || !parse_provenance(json, &p))
			continue;
		*ret = p;
		p = (struct provenance){ 0 };
		return 1;
	}
	return 0;
}

int provenance_write(const struct layout *l, const struct oci_descriptor *manifest, const struct provenance *p,
		     struct err *err)
{
	auto_json json_t *json = provenance_json(p);
	auto_oci_index struct oci_index x = { 0 };
	auto_oci_descriptor struct oci_descriptor d = { 0 };
	auto_provenance struct provenance now = { 0 };
	struct err ignored;
	if (!l->is_store)
		return 0;
	// An identical record is not rewritten: each start would leave a blob behind. The time only matters for
	// signatures.
	if (!provenance_is_vouched(p) && read_provenance(l, manifest->digest, &now, &ignored) > 0 &&
	    now.origin == p->origin)
		return 0;
	struct oci_descriptor subject = { .media_type = (char[]){ OCI_MANIFEST }, .size = manifest->size };
	memcpy(subject.digest, manifest->digest, sizeof(subject.digest));
	if (artifact_put(l, PROVENANCE_TYPE, &subject, json, &d, err) < 0)
		return -1;
	auto_fd int held = layout_lock(l, false, err);
	if (held < 0 || layout_index(l, &x, err) < 0)
		return -1;
	for (size_t i = x.count; i-- > 0;) {
		auto_oci_manifest struct oci_manifest m = { 0 };
		if (is_record(l, &x.items[i], manifest->digest, &m))
			oci_index_remove(&x, i);
	}
	oci_index_put(&x, &d, NULL);
	return layout_index_write(l, &x, err);
}

// The arrival time of a package without a record.
static time_t arrival_time(const struct layout *l, const char *manifest_hex)
{
	auto_str char *path = layout_blob_path(manifest_hex);
	struct stat st;
	struct err ignored;
	return root_stat(&l->root, path, &st, &ignored) > 0 ? st.st_mtime : 0;
}

void provenance_remember(const struct layout *l, const struct oci_descriptor *manifest)
{
	auto_provenance struct provenance p = { 0 };
	auto_repository struct repository *r = NULL;
	struct err ignored;
	if (read_provenance(l, manifest->digest, &p, &ignored) != 0)
		return;
	r = repository_of_layout(l);
	if (signature_exists(r, manifest->digest, &ignored) != 0)
		return;
	p.origin = PROVENANCE_BY_HAND;
	p.taken = arrival_time(l, manifest->digest);
	provenance_write(l, manifest, &p, &ignored);
}

struct kept_package { // a package of the store, and what it is checked against
	struct repository *repository;
	const char *hex;
	const struct trust *trust;
	struct provenance *p;
};

// source: as for trust_rule(). is_known: it came from there, so the policy may accept it unsigned.
static int check_source(const struct kept_package *k, const char *source, bool is_known, struct err *err)
{
	auto_trust_rule struct trust_rule rule = { 0 };
	auto_signature_verdict struct signature_verdict verdict = { 0 };
	trust_rule(k->trust, source, &rule);
	rule.is_kept = true;
	rule.is_unsigned_accepted &= is_known;
	if (is_known && rule.catalog == TRUST_CATALOG_REQUIRED && !k->p->catalog)
		return err_set(err, E_UNSIGNED,
			       "sha256:%.12s... was in no catalogue, but the policy for '%s' requires one", k->hex,
			       rule.prefix);
	if (signature_check(k->repository, k->hex, &rule, &verdict, err) < 0)
		return -1;
	if (is_known)
		return 0;
	strv_done(&k->p->names);
	strv_done(&k->p->ids);
	k->p->names = verdict.names;
	k->p->ids = verdict.ids;
	verdict.names = verdict.ids = (struct strv){ 0 };
	return 0;
}

int provenance_check(const struct layout *l, const char *manifest_hex, const struct trust_now *now,
		     struct provenance *ret, struct err *err)
{
	auto_provenance struct provenance p = { 0 };
	auto_repository struct repository *r = NULL;
	int found = read_provenance(l, manifest_hex, &p, err);
	if (found < 0)
		return -1;
	r = repository_of_layout(l);
	if (!found) {
		found = signature_exists(r, manifest_hex, err);
		if (found < 0)
			return -1;
		p.origin = found ? PROVENANCE_UNKNOWN : PROVENANCE_BY_HAND;
		p.taken = arrival_time(l, manifest_hex);
	}
	const struct kept_package keep = { .repository = r, .hex = manifest_hex, .trust = &now->trust, .p = &p };
	int done = 0;
	if (provenance_is_vouched(&p) && now->is_absent) {
		done = 0; // no key was removed, and it was accepted when it came
	} else if (provenance_is_vouched(&p) && now->unread.code) {
		*err = now->unread;
		done = err_wrap(err, "sha256:%.12s...", manifest_hex);
	} else if (p.origin == PROVENANCE_FETCHED) {
		done = check_source(&keep, p.source, true, err);
	} else if (p.origin == PROVENANCE_UNKNOWN) {
		struct err ignored; // it may be from any source of the policy
		done = check_source(&keep, "", false, err);
		for (size_t i = 0; i < now->trust.source_count && done < 0; i++)
			done = check_source(&keep, now->trust.sources[i].prefix, false, &ignored);
	}
	if (done < 0) {
		auto_str char *who = NULL, *when = date_text(p.taken);
		for (size_t i = 0; i < p.ids.count; i++)
			str_add(&who, "%s%s (key %.16s)", i ? ", " : "", p.names.items[i], p.ids.items[i]);
		if (p.source)
			err_wrap(err, "kept from %s, %s%s", p.source, who ? "signed by " : "unsigned", who ? who : "");
		else
			err_wrap(err, "kept since %s", when);
	}
	if (ret) {
		provenance_done(ret);
		*ret = p;
		p = (struct provenance){ 0 };
	}
	return done;
}

static const char UNVERIFIED[] = "unverified.json";

int provenance_read_unverified(const struct root *state, uint64_t *ret_count, char **ret_last, struct err *err)
{
	auto_json json_t *json = NULL;
	int r = state_file_load(state, UNVERIFIED, &json, err);
	if (r <= 0)
		return r;
	*ret_count = (uint64_t)json_integer_value(json_object_get(json, "count"));
	*ret_last = json_text_dup(json, "last");
	return *ret_count > 0;
}

int provenance_count_unverified(const struct root *state, const char *tag, struct err *err)
{
	auto_str char *last = NULL;
	uint64_t count = 0;
	struct err ignored;
	provenance_read_unverified(state, &count, &last, &ignored);
	auto_json json_t *json = json_pack("{s:I, s:s}", "count", (json_int_t)count + 1, "last", tag);
	return json_write(state, UNVERIFIED, json, err);
}
