// SPDX-License-Identifier: Apache-2.0
// Writing: a blob in one request after an upload was opened, a manifest by tag or digest. Where the registry does not
// keep account of what refers to what, the index under the fallback tag is kept by us.
#include "precompiled/repository/registry.h"

enum { TRIES = 3, REPLY_MAX = 1 << 16 };

static struct registry *registry_of(struct repository *r)
{
	return (struct registry *)r;
}

int registry_has_blob(struct repository *r, const char *hex, struct err *err)
{
	struct registry *g = registry_of(r);
	auto_str char *url = str_fmt("%s/blobs/sha256:%s", g->base, hex);
	auto_http_call struct http_call call = { .url = url, .method = "HEAD", .max = REPLY_MAX };
	return retry_get(&g->remote, &call, err);
}

// Where to send the bytes. The place may be relative to the request, and has a query of its own already or not.
static char *upload_url(const struct http_call *call, const char *hex)
{
	const char *place = http_header(call, "Location");
	auto_str char *url = place ? http_join(call->url, place) : NULL;
	return url ? str_fmt("%s%cdigest=sha256%%3A%s", url, strchr(url, '?') ? '&' : '?', hex) : NULL;
}

static int open_upload(struct registry *g, const char *hex, char **ret, struct err *err)
{
	auto_str char *url = str_fmt("%s/blobs/uploads/", g->base);
	auto_http_call struct http_call call = { .url = url, .method = "POST", .max = REPLY_MAX };
	if (retry_run(&g->remote, &call, err) < 0)
		return -1;
	if (call.status != 202)
		return http_status_error(&call, err);
	char *place = upload_url(&call, hex);
	if (!place)
		return err_set(err, E_NETWORK, "%s: the reply does not say where to upload to", url);
	*ret = place;
	return 0;
}

// 1 = the registry has it, 0 = worth another upload (an upload that failed is gone).
static int upload_blob(struct registry *g, int fd, const struct oci_descriptor *d, struct attempt *a, struct err *err)
{
	auto_str char *place = NULL;
	auto_strv struct strv headers = { 0 };
	unsigned ms = 0;
	if (open_upload(g, d->digest, &place, err) < 0)
		return -1;
	strv_add(&headers, str_dup("Content-Type: application/octet-stream"));
	auto_http_call struct http_call call = { .url = place,
						 .method = "PUT",
						 .headers = &headers,
						 .body = d->size ? NULL : "",
						 .body_fd = fd,
						 .body_size = d->size,
						 .max = REPLY_MAX };
	registry_auth_prepare(&g->remote, &call);
	int r = http_run(g->remote.http, &call, err);
	if (r < 0 && call.err.code == 0)
		return -1;
	if (r == 0 && call.status / 100 == 2)
		return 1;
	struct err why = *err;
	int again = retry_is_due(&g->remote, &call, a, &ms, err);
	if (again > 0)
		return retry_wait(&g->remote, ms, err);
	if (again == 0 && r < 0)
		*err = why;
	return again < 0 || r < 0 ? -1 : http_status_error(&call, err);
}

int registry_put_blob(struct repository *r, const struct layout *from, const struct oci_descriptor *d, struct err *err)
{
	struct registry *g = registry_of(r);
	struct attempt a = { 0 };
	g->is_pushing = true;
	int done = registry_has_blob(r, d->digest, err);
	if (done != 0)
		return done < 0 ? -1 : 0;
	auto_fd int fd = layout_blob_open(from, d->digest, err);
	if (fd < 0)
		return -1;
	while (done == 0)
		done = upload_blob(g, fd, d, &a, err);
	return done < 0 ? -1 : 0;
}

static int upload_manifest(struct registry *g, const char *ref, const char *data, size_t len, const char *media_type,
			   bool *ret_is_listed, struct err *err)
{
	auto_str char *url = str_fmt("%s/manifests/%s", g->base, ref);
	auto_strv struct strv headers = { 0 };
	strv_add(&headers, str_fmt("Content-Type: %s", media_type));
	auto_http_call struct http_call call = {
		.url = url, .method = "PUT", .headers = &headers, .body = data, .body_size = len, .max = REPLY_MAX
	};
	if (retry_run(&g->remote, &call, err) < 0)
		return -1;
	if (call.status / 100 != 2)
		return http_status_error(&call, err);
	*ret_is_listed = http_header(&call, "OCI-Subject") != NULL;
	return 0;
}

// 1 = the manifest is listed in the index now, 0 = it was put in: look again, somebody else may write at this moment.
static int try_list_under_fallback_tag(struct registry *g, const char *tag, const struct oci_descriptor *d,
				       struct err *err)
{
	struct repository *r = &g->remote.repository;
	auto_oci_index struct oci_index x = { 0 };
	auto_str char *data = NULL, *name = str_fmt("%s:%s", r->name, tag), *ref = oci_digest_text(d->digest);
	char ignored[DIGEST_HEX + 1];
	size_t len = 0;
	bool is_listed;
	int found = repository_manifest(r, tag, &data, &len, ignored, err);
	if (found < 0 || (found > 0 && oci_index_parse(data, len, name, &x, err) < 0))
		return -1;
	if (oci_index_find(&x, ref) >= 0)
		return 1;
	oci_index_put(&x, d, NULL);
	auto_str char *text = oci_index_text(&x);
	return upload_manifest(g, tag, text, strlen(text), OCI_INDEX, &is_listed, err);
}

static int list_under_fallback_tag(struct registry *g, const struct oci_manifest *m, const struct oci_descriptor *d,
				   struct err *err)
{
	auto_str char *tag = str_fmt("sha256-%s", m->subject.digest);
	for (int i = 0; i <= TRIES; i++) {
		int r = try_list_under_fallback_tag(g, tag, d, err);
		if (r != 0)
			return r < 0 ? err_wrap(err, "list it under '%s'", tag) : 0;
	}
	return err_set(err, E_CONFLICT, "%s: others change the tag '%s' all the time", g->remote.repository.name, tag);
}

int registry_put_manifest(struct repository *r, const char *data, size_t len, const char *media_type, const char *tag,
			  struct err *err)
{
	struct registry *g = registry_of(r);
	auto_oci_manifest struct oci_manifest m = { 0 };
	struct oci_descriptor d = { .media_type = (char *)(uintptr_t)media_type, .size = len };
	bool is_listed = false;
	g->is_pushing = true;
	digest_data(data, len, d.digest);
	auto_str char *digest = oci_digest_text(d.digest);
	if (str_eq(media_type, OCI_MANIFEST) && oci_manifest_parse(data, len, digest, &m, err) < 0)
		return -1;
	if (upload_manifest(g, tag ? tag : digest, data, len, media_type, &is_listed, err) < 0)
		return -1;
	if (!m.subject.media_type || is_listed)
		return 0;
	d.artifact_type = m.artifact_type ? m.artifact_type : m.config.media_type;
	d.annotations = m.annotations;
	return list_under_fallback_tag(g, &m, &d, err);
}
