// SPDX-License-Identifier: Apache-2.0
// A layout on a web server: index.json, then blobs by digest. The index is read once.
#include "precompiled/repository/retry.h"

struct http_repository {
	struct remote_repository remote;
	char *base; // without a slash at its end
	struct oci_index index;
	bool has_index;
};

// 1 = found, 0 = absent.
static int site_get(struct http_repository *s, const char *path, const struct strv *headers, size_t max, char **ret,
		    size_t *ret_len, struct err *err)
{
	auto_str char *url = str_fmt("%s/%s", s->base, path);
	auto_http_call struct http_call call = { .url = url, .headers = headers, .max = max };
	int r = retry_get(&s->remote, &call, err);
	if (r <= 0)
		return r;
	*ret_len = call.reply_len;
	*ret = call.reply ? TAKE(call.reply) : str_dup("");
	return 1;
}

static int site_load_index(struct http_repository *s, struct err *err)
{
	auto_str char *data = NULL, *name = str_fmt("%s/index.json", s->remote.repository.name);
	auto_strv struct strv headers = { 0 };
	size_t len = 0;
	if (s->has_index)
		return 0;
	strv_add(&headers, str_dup("Cache-Control: no-cache")); // for proxies: unlike blobs, the index changes
	int r = site_get(s, "index.json", &headers, OCI_DOCUMENT_MAX, &data, &len, err);
	if (r == 0)
		return err_set(err, E_NOT_FOUND, "%s does not exist: no repository at this address", name);
	if (r < 0 || oci_index_parse(data, len, name, &s->index, err) < 0)
		return -1;
	s->has_index = true;
	return 0;
}

static int site_get_blob(struct http_repository *s, const char *hex, size_t max, char **ret, size_t *ret_len,
			 struct err *err)
{
	auto_str char *path = layout_blob_path(hex);
	return site_get(s, path, NULL, max, ret, ret_len, err);
}

static int site_manifest(struct repository *r, const char *ref, char **ret, size_t *ret_len, struct err *err)
{
	struct http_repository *s = (struct http_repository *)r;
	char hex[DIGEST_HEX + 1], content[DIGEST_HEX + 1];
	if (!oci_digest_parse(ref, hex)) {
		if (site_load_index(s, err) < 0)
			return -1;
		int at = oci_index_find(&s->index, ref);
		if (at < 0)
			return 0;
		memcpy(hex, s->index.items[at].digest, sizeof(hex));
	}
	auto_str char *data = NULL;
	size_t len = 0;
	int found = site_get_blob(s, hex, OCI_DOCUMENT_MAX, &data, &len, err);
	if (found <= 0)
		return found;
	digest_data(data, len, content);
	if (!str_eq(content, hex)) // also when it was requested by tag
		return err_set(err, E_DIGEST, "%s/blobs/sha256/%s: the content has sha256:%s", r->name, hex, content);
	*ret = TAKE(data);
	*ret_len = len;
	return 1;
}

static int site_tags(struct repository *r, struct strv *ret, struct err *err)
{
	struct http_repository *s = (struct http_repository *)r;
	if (site_load_index(s, err) < 0)
		return -1;
	oci_index_tags(&s->index, ret);
	return 0;
}

static int site_document(struct repository *r, const struct oci_descriptor *d, char **ret, size_t *ret_len,
			 struct err *err)
{
	return site_get_blob((struct http_repository *)r, d->digest, (size_t)d->size, ret, ret_len, err);
}

static int site_begin(struct repository *r, struct blob_transfer *t, struct err *err)
{
	struct http_repository *s = (struct http_repository *)r;
	auto_str char *path = layout_blob_path(t->part->digest), *url = str_fmt("%s/%s", s->base, path);
	return download_begin(&s->remote, t, url, err);
}

static int site_has_blob(struct repository *r, const char *hex, struct err *err)
{
	(void)hex;
	return err_set(err, E_USAGE, "'%s' cannot be written to", r->name);
}

static int site_put_blob(struct repository *r, const struct layout *from, const struct oci_descriptor *d,
			 struct err *err)
{
	(void)from;
	return site_has_blob(r, d->digest, err);
}

static int site_put_manifest(struct repository *r, const char *data, size_t len, const char *media_type,
			     const char *tag, struct err *err)
{
	(void)data, (void)len, (void)media_type, (void)tag;
	return site_has_blob(r, NULL, err);
}

static void site_free(struct repository *r)
{
	struct http_repository *s = (struct http_repository *)r;
	oci_index_done(&s->index);
	free(s->base);
	free(r->name);
	free(s);
}

static const struct repository_ops ops = {
	.manifest = site_manifest,
	.tags = site_tags,
	.document = site_document,
	.begin = site_begin,
	.step = download_step,
	.end = download_end,
	.has_blob = site_has_blob,
	.put_blob = site_put_blob,
	.put_manifest = site_put_manifest,
	.free = site_free,
};

int repository_open_web(const char *url, const struct repository_options *options, struct repository **ret,
			struct err *err)
{
	size_t len = strlen(url);
	if (strpbrk(url, "?#")) {
		auto_str char *shown = http_url_shown(url);
		return err_set(err, E_USAGE, "'%s': the address of a repository must not contain '?' or '#'", shown);
	}
	while (len > 0 && url[len - 1] == '/')
		len--;
	struct http_repository *s = mem_alloc(sizeof(*s));
	s->base = str_ndup(url, len);
	s->remote.http = options->http;
	s->remote.repository = (struct repository){ .ops = &ops, .name = http_url_shown(s->base) };
	*ret = &s->remote.repository;
	return 0;
}
