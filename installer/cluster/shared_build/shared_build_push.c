// SPDX-License-Identifier: Apache-2.0
#include "cluster/shared_build/shared_build.h"

#include "precompiled/package/copy.h"

int shared_build_push(struct shared_build *s, const struct package *made, struct err *err)
{
	const struct shared_build_request *w = &s->request;
	const struct layout *store = &w->acquire->store.layout;
	auto_str char *from_name = str_fmt("oci:%s", store->root.name), *tag = package_tag(&made->key);
	auto_repository struct repository *from = NULL, *to = NULL;
	auto_scratch struct scratch work = SCRATCH_NONE;
	auto_layout struct layout layout = LAYOUT_NONE;
	for (size_t i = 0; i < s->signers.count; i++)
		if (signature_make(store, &made->manifest, &s->signers.makers[i], err) < 0)
			return -1;
	if (repository_open(from_name, w->remote, &from, err) < 0 ||
	    repository_open(w->repository, w->remote, &to, err) < 0 ||
	    scratch_make(w->state, "share", &work, err) < 0 || layout_make(&work.root, &layout, err) < 0)
		return -1;
	int r = copy_to_layout(from, tag, &layout, err);
	if (r <= 0)
		return r < 0 ? -1 : err_set(err, E_NOT_FOUND, "the store has no %s", tag);
	return copy_to_repository(&layout, to, NULL, NULL, err);
}

// What is to be made, in words, as a blob that nothing refers to.
int shared_build_check_push(struct shared_build *s, struct err *err)
{
	const struct shared_build_request *w = &s->request;
	struct oci_descriptor d = { .media_type = (char[]){ "text/plain" }, .size = strlen(s->key) };
	auto_repository struct repository *to = NULL;
	auto_scratch struct scratch work = SCRATCH_NONE;
	auto_layout struct layout layout = LAYOUT_NONE;
	if (repository_open(w->repository, w->remote, &to, err) < 0 ||
	    scratch_make(w->state, "share", &work, err) < 0 || layout_make(&work.root, &layout, err) < 0 ||
	    layout_blob_put(&layout, s->key, strlen(s->key), d.digest, err) < 0)
		return -1;
	return repository_put_blob(to, &layout, &d, err);
}
