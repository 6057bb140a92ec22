// SPDX-License-Identifier: Apache-2.0
// The checks common to all kinds of repository: content matches the requested digest, and nothing is larger than
// announced.
#include "precompiled/repository/repository.h"

static int check_digest(const struct repository *r, const char *data, size_t len, const char *hex, struct err *err)
{
	char found[DIGEST_HEX + 1];
	digest_data(data, len, found);
	if (str_eq(found, hex))
		return 1;
	return err_set(err, E_DIGEST, "%s: requested sha256:%s, received content with sha256:%s", r->name, hex, found);
}

int repository_unreached(const char *name, struct err *err)
{
	if (err->code != E_NETWORK && err->code != E_TIMEOUT)
		return -1;
	auto_str char *shown = http_url_shown(name);
	return err_next(err, "`kmodsmith net check %s` tells which layer fails", shown);
}

int repository_manifest(struct repository *r, const char *ref, char **ret, size_t *ret_len,
			char ret_digest[DIGEST_HEX + 1], struct err *err)
{
	auto_str char *data = NULL;
	char hex[DIGEST_HEX + 1];
	size_t len = 0;
	int found = r->ops->manifest(r, ref, &data, &len, err);
	if (found <= 0)
		return found;
	if (len > OCI_DOCUMENT_MAX)
		return err_set(err, E_TOO_LARGE, "%s: '%s' has %zu bytes, more than the limit of %d", r->name, ref, len,
			       OCI_DOCUMENT_MAX);
	if (oci_digest_parse(ref, hex) && check_digest(r, data, len, hex, err) < 0)
		return -1;
	digest_data(data, len, ret_digest);
	*ret = TAKE(data);
	*ret_len = len;
	return 1;
}

int repository_document(struct repository *r, const struct oci_descriptor *d, char **ret, size_t *ret_len,
			struct err *err)
{
	auto_str char *data = NULL;
	size_t len = 0;
	if (d->size > OCI_DOCUMENT_MAX)
		return err_set(err, E_TOO_LARGE, "%s: sha256:%s should have %llu bytes, more than the limit of %d",
			       r->name, d->digest, (unsigned long long)d->size, OCI_DOCUMENT_MAX);
	int found = r->ops->document(r, d, &data, &len, err);
	if (found <= 0)
		return found;
	if (len != d->size)
		return err_set(err, E_DIGEST, "%s: sha256:%s has %zu bytes instead of %llu", r->name, d->digest, len,
			       (unsigned long long)d->size);
	if (check_digest(r, data, len, d->digest, err) < 0)
		return -1;
	*ret = TAKE(data);
	*ret_len = len;
	return 1;
}

int repository_referrers(struct repository *r, const char *hex, struct oci_index *ret, struct err *err)
{
	auto_oci_index struct oci_index all = { 0 }, more = { 0 };
	auto_str char *tag = str_fmt("sha256-%s", hex), *data = NULL, *name = str_fmt("%s:%s", r->name, tag);
	char ignored[DIGEST_HEX + 1];
	size_t len = 0;
	if (r->ops->referrers && r->ops->referrers(r, hex, &all, err) < 0)
		return -1;
	int found = repository_manifest(r, tag, &data, &len, ignored, err);
	if (found < 0 || (found > 0 && oci_index_parse(data, len, name, &more, err) < 0))
		return -1;
	for (size_t i = 0; i < more.count; i++)
		oci_index_put(&all, &more.items[i], NULL);
	*ret = all;
	all = (struct oci_index){ 0 };
	return 0;
}

int repository_begin(struct repository *r, struct blob_transfer *t, struct err *err)
{
	t->is_done = false;
	t->err = (struct err){ 0 };
	t->own = NULL;
	return r->ops->begin(r, t, err);
}
