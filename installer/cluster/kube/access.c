// SPDX-License-Identifier: Apache-2.0
#include "cluster/kube/access.h"

#include "cluster/kube/api.h"

static int ask(struct kube *k, const char *path, const char *version, const char *kind, json_t *spec, json_t **ret,
	       struct err *err)
{
	auto_json json_t *body = json_pack("{s:s, s:s, s:o}", "apiVersion", version, "kind", kind, "spec", spec),
			 *reply = NULL;
	if (!body)
		return err_set(err, E_KUBE, "%s: the token is not valid UTF-8", kind);
	int r = api_create(k, path, body, &reply, err);
	if (r <= 0)
		return r < 0 ? err_wrap(err, "%s", kind) :
			       err_set(err, E_KUBE, "%s: the API server has one already", kind);
	*ret = json_incref(json_object_get(reply, "status"));
	return 0;
}

int access_review(struct kube *k, const char *token, const struct access_want *want, char **ret_user, struct err *err)
{
	auto_json json_t *who = NULL, *may = NULL;
	*ret_user = NULL;
	if (ask(k, "/apis/authentication.k8s.io/v1/tokenreviews", "authentication.k8s.io/v1", "TokenReview",
		json_pack("{s:s}", "token", token), &who, err) < 0)
		return -1;
	const json_t *user = json_object_get(who, "user");
	const char *name = json_string_value(json_object_get(user, "username"));
	if (!json_is_true(json_object_get(who, "authenticated")) || !name)
		return 0;
	json_t *spec = json_pack("{s:s, s:O*, s:O*, s:O*, s:{s:s, s:s, s:s}}", "user", name, "groups",
				 json_object_get(user, "groups"), "uid", json_object_get(user, "uid"), "extra",
				 json_object_get(user, "extra"), "resourceAttributes", "verb", want->verb, "group",
				 want->group, "resource", want->resource);
	if (ask(k, "/apis/authorization.k8s.io/v1/subjectaccessreviews", "authorization.k8s.io/v1",
		"SubjectAccessReview", spec, &may, err) < 0)
		return -1;
	*ret_user = str_dup(name);
	return json_is_true(json_object_get(may, "allowed"));
}
