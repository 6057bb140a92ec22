// SPDX-License-Identifier: Apache-2.0
// Whether the owner of a bearer token may do something: the API server is asked who that is (TokenReview), and what
// they may (SubjectAccessReview). It needs the rights of the ClusterRole system:auth-delegator.
#pragma once
#include "cluster/kube/client.h"

struct access_want {
	const char *verb, *group, *resource; // in all namespaces, or of no namespace
};
// 1 = yes; 0 = no: nobody has that token (*ret_user NULL), or its user may not. Caller frees *ret_user.
int access_review(struct kube *k, const char *token, const struct access_want *want, char **ret_user, struct err *err);
