// SPDX-License-Identifier: Apache-2.0
// Checking signatures, whatever their encoding.
//
// A repository may return anything. A signature that is unreadable or by an unknown key proves nothing and does not
// invalidate a good one; but if too few are valid, one that claims a key of the rule, or was made for another manifest,
// is reported as forged instead of "untrusted".
#include "precompiled/trust/signature_internal.h"
#include "precompiled/trust/statement.h"

#include <stdio.h>

enum { HINT_SHORT = 16 }; // as many digits as `trust add` uses for a name

struct signature_checker {
	struct repository *repository;
	const char *manifest_hex;
	const struct trust_rule *rule;
	const json_t *labels; // looks for signed statements of how the package with these was built; NULL = signatures
	struct signature_verdict verdict;
	struct strv strangers;     // ids of signers outside the rule
	size_t seen;               // signatures, readable or not
	bool was_cut;              // there are more signatures than we check
	char *forged, *unreadable; // the first of each, for the message
};

static void signature_checker_done(struct signature_checker *c)
{
	signature_verdict_done(&c->verdict);
	strv_done(&c->strangers);
	free(c->forged);
	free(c->unreadable);
}
#define auto_signature_checker __attribute__((cleanup(signature_checker_done)))

static bool is_threshold_reached(const struct signature_checker *c)
{
	return c->verdict.ids.count >= c->rule->threshold;
}

static void accept_signer(struct signature_checker *c, const char *id, const char *name)
{
	if (strv_has(&c->verdict.ids, id))
		return;
	strv_add(&c->verdict.ids, str_dup(id));
	strv_add(&c->verdict.names, str_dup(name));
}

static void add_stranger(struct signature_checker *c, const char *who)
{
	if (!strv_has(&c->strangers, who))
		strv_add(&c->strangers, str_dup(who));
}

static void note_first(char **at, char *take)
{
	if (*at)
		free(take);
	else
		*at = take;
}

// Why a statement is false; caller frees. NULL = it is not.
static char *find_lie(const struct signature_checker *c, const struct signature_claim *claim)
{
	auto_json json_t *json = NULL;
	struct err why;
	if (oci_json(claim->payload, claim->payload_len, "statement", &json, &why) < 0)
		return str_dup(why.text);
	return statement_contradiction(json, c->manifest_hex, c->labels);
}

static void check_claim(struct signature_checker *c, const struct signature_claim *claim, const char *what)
{
	bool is_about = strv_has(&claim->digests, c->manifest_hex);
	c->seen++;
	if (!is_about) {
		note_first(&c->forged, str_fmt("%s was made for sha256:%.12s...", what, claim->digests.items[0]));
		return;
	}
	for (size_t i = 0; i < c->rule->count; i++) {
		const struct trust_key *k = c->rule->keys[i];
		if (!key_verify(k->key, claim->text, claim->text_len, claim->signature, claim->signature_len))
			continue;
		auto_str char *lie = c->labels ? find_lie(c, claim) : NULL;
		if (lie)
			note_first(&c->forged,
				   str_fmt("%s, signed by '%s', contradicts the package: %s", what, k->name, lie));
		else
			accept_signer(c, k->key->id, k->name);
		return;
	}
	for (size_t i = 0; i < c->rule->count; i++)
		if (str_eq(claim->hint, c->rule->keys[i]->key->id))
			note_first(&c->forged, str_fmt("%s claims to be by '%s' but does not verify", what,
						       c->rule->keys[i]->name));
	auto_str char *who = str_fmt("%.*s", c->rule->is_kept ? HINT_SHORT : DIGEST_HEX, claim->hint);
	add_stranger(c, *who ? who : "an unnamed key");
}

static void note_unreadable(struct signature_checker *c, const char *why)
{
	c->seen++;
	note_first(&c->unreadable, str_dup(why));
}

// Content of the store may be damaged, while the other encoding is good.
static bool is_content_lost(const struct signature_checker *c, const struct err *err)
{
	return c->rule->is_kept && (err->code == E_DIGEST || err->code == E_INCOMPLETE);
}

// A document of a signature. 1 = read, 0 = unreadable; negative: the source failed.
static int read_signature_document(struct signature_checker *c, const struct oci_descriptor *d, char **ret,
				   size_t *ret_len, struct err *err)
{
	if (d->size > SIGNATURE_SIZE_MAX) {
		auto_str char *why = str_fmt("sha256:%s has %llu bytes", d->digest, (unsigned long long)d->size);
		note_unreadable(c, why);
		return 0;
	}
	int r = repository_document(c->repository, d, ret, ret_len, err);
	if (r < 0 && is_content_lost(c, err)) {
		note_unreadable(c, err->text);
		return 0;
	}
	if (r == 0) {
		auto_str char *why = str_fmt("sha256:%s is missing", d->digest);
		note_unreadable(c, why);
	}
	return r;
}

// The manifest of ref. 1 = read, 0 = absent or not a manifest.
static int read_signature_manifest(struct signature_checker *c, const char *ref, struct oci_manifest *ret,
				   struct err *err)
{
	auto_str char *data = NULL;
	char hex[DIGEST_HEX + 1];
	struct err why;
	size_t len = 0;
	int r = repository_manifest(c->repository, ref, &data, &len, hex, err);
	if (r < 0 && is_content_lost(c, err)) {
		note_unreadable(c, err->text);
		return 0;
	}
	if (r <= 0)
		return r;
	if (oci_manifest_parse(data, len, ref, ret, &why) == 0)
		return 1;
	note_unreadable(c, why.text);
	return 0;
}

static int check_cosign_tag(struct signature_checker *c, struct err *err)
{
	auto_str char *tag = signature_cosign_tag(c->manifest_hex);
	auto_oci_manifest struct oci_manifest m = { 0 };
	if (read_signature_manifest(c, tag, &m, err) < 0)
		return -1;
	for (size_t i = 0; i < m.count && i < SIGNATURE_COUNT_MAX && !is_threshold_reached(c); i++) {
		const struct oci_descriptor *d = &m.layers[i];
		auto_str char *data = NULL, *what = str_fmt("signature sha256:%.12s...", d->digest);
		auto_signature_claim struct signature_claim claim = { 0 };
		struct err why;
		size_t len = 0;
		int r = str_eq(d->media_type, SIGNATURE_COSIGN_TAG) ? read_signature_document(c, d, &data, &len, err) :
								      0;
		if (r < 0)
			return -1;
		if (r > 0 && signature_cosign_claim(d, data, len, &claim, &why) < 0)
			note_unreadable(c, why.text);
		else if (r > 0)
			check_claim(c, &claim, what);
	}
	c->was_cut |= m.count > SIGNATURE_COUNT_MAX;
	return 0;
}

static int check_referrers(struct signature_checker *c, struct err *err)
{
	auto_oci_index struct oci_index x = { 0 };
	if (repository_referrers(c->repository, c->manifest_hex, &x, err) < 0) {
		if (err->code != E_MANIFEST && !is_content_lost(c, err))
			return -1;
		note_unreadable(c, err->text); // other programs write that index too
		return 0;
	}
	for (size_t i = 0; i < x.count && i < SIGNATURE_COUNT_MAX && !is_threshold_reached(c); i++) {
		auto_str char *ref = oci_digest_text(x.items[i].digest), *data = NULL;
		auto_oci_manifest struct oci_manifest m = { 0 };
		auto_signature_claim struct signature_claim claim = { 0 };
		struct err why;
		size_t len = 0;
		int r = read_signature_manifest(c, ref, &m, err);
		bool is_bundle = r > 0 && signature_is_bundle(&m);
		if (is_bundle)
			r = read_signature_document(c, &m.layers[0], &data, &len, err);
		if (r < 0)
			return -1;
		if (!is_bundle || r == 0)
			continue;
		auto_str char *what =
			str_fmt("%s sha256:%.12s...", c->labels ? "statement" : "signature", m.layers[0].digest);
		r = c->labels ? signature_attestation_claim(data, len, what, &claim, &why) :
				signature_bundle_claim(data, len, what, &claim, &why);
		if (r > 0)
			check_claim(c, &claim, what);
		else if (r < 0 && !c->labels)
			note_unreadable(c, why.text);
	}
	c->was_cut |= x.count > SIGNATURE_COUNT_MAX;
	return 0;
}

static char *name_subject(const struct signature_checker *c)
{
	return c->rule->is_kept ? str_fmt("sha256:%.12s...", c->manifest_hex) :
				  str_fmt("sha256:%.12s... of %s", c->manifest_hex, c->repository->name);
}

// The error when too few signatures are valid.
static int refuse_signatures(struct signature_checker *c, struct err *err)
{
	enum { SHOWN = 4 };
	auto_str char *subject = name_subject(c);
	auto_strv struct strv names = { 0 };
	size_t have = c->verdict.ids.count;
	for (size_t i = 0; i < c->rule->count && i < SHOWN; i++)
		strv_add(&names, str_dup(c->rule->keys[i]->name));
	if (c->rule->count > SHOWN)
		strv_add(&names, str_dup("..."));
	auto_str char *trusted = strv_join(&names, ", ");
	if (c->forged)
		return err_set(err, E_FORGED, "%s: %s", subject, c->forged);
	if (c->rule->is_unsigned_accepted) {
		c->verdict.is_unsigned_accepted = true;
		return 0;
	}
	if (c->was_cut)
		return err_set(err, E_TOO_LARGE, "%s: its first %d signatures are not sufficient, and there are more",
			       subject, SIGNATURE_COUNT_MAX);
	if (c->seen == 0)
		return err_set(err, E_UNSIGNED, "%s is not signed; it needs a signature by %s", subject, trusted);
	if (have)
		return err_set(err, E_UNTRUSTED, "%s: %zu of %u required signatures (by %s); trusted here: %s", subject,
			       have, c->rule->threshold, c->verdict.names.items[0], trusted);
	auto_str char *strangers = strv_join(&c->strangers, ", ");
	return err_set(err, E_UNTRUSTED, "%s: %s%s%s%s; trusted here: %s", subject,
		       c->strangers.count ? "signed by " : "its signatures cannot be read", strangers,
		       c->unreadable ? ": " : "", c->unreadable ? c->unreadable : "", trusted);
}

static bool is_source_accepted(const struct trust_rule *rule, const json_t *labels)
{
	const char *hex = json_string_value(json_object_get(labels, "io.kmodsmith.source"));
	return !rule->sources || !rule->sources->count || (hex && strv_has(rule->sources, hex));
}

// Checks what the policy demands of packages beside their signatures; other manifests have neither.
static int check_build(struct repository *r, const char *manifest_hex, const struct trust_rule *rule, struct err *err)
{
	auto_json json_t *labels = NULL;
	if (!rule->is_statement_required && (!rule->sources || !rule->sources->count))
		return 0;
	int found = statement_labels(r, manifest_hex, &labels, err);
	if (found <= 0)
		return found;
	if (!is_source_accepted(rule, labels)) {
		const char *source = json_string_value(json_object_get(labels, "io.kmodsmith.source"));
		return err_set(
			err, E_UNTRUSTED,
			"sha256:%.12s... was built from driver source %s%s, which is not in \"driver-sources\" of the "
			"policy for '%s'",
			manifest_hex, source ? "sha256:" : "of an unknown digest", source ? source : "", rule->prefix);
	}
	if (!rule->is_statement_required)
		return 0;
	struct trust_rule signed_rule = *rule;
	signed_rule.is_unsigned_accepted = false;
	auto_signature_checker struct signature_checker c = {
		.repository = r, .manifest_hex = manifest_hex, .rule = &signed_rule, .labels = labels
	};
	if (!rule->count)
		err_set(err, E_UNTRUSTED, "sha256:%.12s...: '%s' has no key that could sign it", manifest_hex,
			rule->place);
	else if (check_referrers(&c, err) == 0 && (is_threshold_reached(&c) || refuse_signatures(&c, err) == 0))
		return 0;
	return err_wrap(err, "the statement of how it was built, which the policy for '%s' requires", rule->prefix);
}

int signature_check(struct repository *r, const char *manifest_hex, const struct trust_rule *rule,
		    struct signature_verdict *ret, struct err *err)
{
	auto_signature_checker struct signature_checker c = { .repository = r,
							      .manifest_hex = manifest_hex,
							      .rule = rule };
	auto_str char *subject = name_subject(&c);
	if (!rule->count && !rule->is_unsigned_accepted)
		return err_set(err, E_UNTRUSTED, "%s: '%s' has no key for this source", subject, rule->place);
	if (check_cosign_tag(&c, err) < 0 || (!is_threshold_reached(&c) && check_referrers(&c, err) < 0))
		return err_wrap(err, "signatures of sha256:%.12s...", manifest_hex);
	if ((!is_threshold_reached(&c) && refuse_signatures(&c, err) < 0) ||
	    check_build(r, manifest_hex, rule, err) < 0)
		return -1;
	*ret = c.verdict;
	c.verdict = (struct signature_verdict){ 0 };
	return 0;
}

int signature_exists(struct repository *r, const char *manifest_hex, struct err *err)
{
	auto_str char *tag = signature_cosign_tag(manifest_hex), *data = NULL;
	auto_oci_index struct oci_index x = { 0 };
	char hex[DIGEST_HEX + 1];
	size_t len = 0;
	// A damaged one counts as well.
	if (repository_manifest(r, tag, &data, &len, hex, err) != 0)
		return 1;
	if (repository_referrers(r, manifest_hex, &x, err) < 0)
		return err->code == E_MANIFEST ? 1 : -1;
	for (size_t i = 0; i < x.count; i++) {
		auto_str char *ref = oci_digest_text(x.items[i].digest), *text = NULL;
		auto_oci_manifest struct oci_manifest m = { 0 };
		struct err ignored;
		if (repository_manifest(r, ref, &text, &len, hex, &ignored) > 0 &&
		    oci_manifest_parse(text, len, ref, &m, &ignored) == 0 && signature_is_bundle(&m))
			return 1;
	}
	return 0;
}
