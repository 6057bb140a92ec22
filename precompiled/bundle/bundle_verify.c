// SPDX-License-Identifier: Apache-2.0
// A bundle that came over a courier's stick: who made it, is it all there, is every byte right? Nothing is unpacked.
#include "base/core/date.h"
#include "precompiled/bundle/bundle.h"

void bundle_report_done(struct bundle_report *r)
{
	bundle_manifest_done(&r->manifest);
	strv_done(&r->missing);
	strv_done(&r->damaged);
	free(r->signers);
	*r = (struct bundle_report){ 0 };
}

static int on_blob(void *ctx, const char *hex, uint64_t size, const char *found, struct err *err)
{
	struct bundle_report *report = ctx;
	(void)err;
	report->blobs++;
	report->bytes += size;
	if (!str_eq(hex, found))
		strv_add(&report->damaged, str_fmt("blobs/sha256/%s has the SHA-256 %s", hex, found));
	return 0;
}

static int check_entries(struct repository *r, struct bundle_report *report, struct err *err)
{
	for (size_t i = 0; i < report->manifest.count; i++) {
		const struct bundle_entry *p = &report->manifest.items[i];
		auto_str char *why = NULL, *text = bundle_entry_text(p);
		int kept = bundle_entry_is_present(r, p, &why, err);
		if (kept < 0)
			return err_wrap(err, "%s", text);
		if (kept == 0)
			strv_add(&report->missing, str_fmt("%s: %s", text, why));
	}
	return 0;
}

static int check_signatures(struct repository *r, const struct trust_rule *rule, const struct bundle_manifest *all,
			    struct err *err)
{
	for (size_t i = 0; i < all->count; i++) {
		auto_signature_verdict struct signature_verdict verdict = { 0 };
		auto_str char *text = bundle_entry_text(&all->items[i]);
		if (signature_check(r, all->items[i].digest, rule, &verdict, err) < 0)
			return err_wrap(err, "%s", text);
	}
	return 0;
}

static int check_expiry(const struct bundle_manifest *p, const char *name, time_t now, struct err *err)
{
	auto_str char *expires = date_text(p->expires), *today = date_text(now);
	return now < p->expires ?
		       0 :
		       err_set(err, E_EXPIRED, "'%s' was good until %s; it is %s here", name, expires, today);
}

static int verify_bundle(struct repository *r, const struct trust_rule *rule, time_t now, struct bundle_report *report,
			 struct err *err)
{
	auto_signature_verdict struct signature_verdict verdict = { 0 };
	if (bundle_manifest_read(r, rule, &report->manifest, &verdict, err) < 0 ||
	    check_expiry(&report->manifest, repository_name(r), now, err) < 0)
		return -1;
	report->signers = strv_join(&verdict.names, ", ");
	if (check_entries(r, report, err) < 0 || repository_bundle_blobs(r, on_blob, report, err) < 0)
		return -1;
	if (report->missing.count || report->damaged.count)
		return 1; // signatures may be among what is lost
	return check_signatures(r, rule, &report->manifest, err);
}

int bundle_verify(const char *file, const struct trust *trust, time_t now, struct bundle_report *ret, struct err *err)
{
	auto_repository struct repository *r = NULL;
	auto_trust_rule struct trust_rule rule = { 0 };
	auto_bundle_report struct bundle_report report = { 0 };
	if (repository_open_bundle(file, &r, err) < 0)
		return -1;
	trust_rule(trust, repository_name(r), now, &rule);
	int found = verify_bundle(r, &rule, now, &report, err);
	if (found < 0)
		return -1;
	*ret = report;
	report = (struct bundle_report){ 0 };
	return found;
}
