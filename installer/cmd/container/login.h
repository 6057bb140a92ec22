// SPDX-License-Identifier: Apache-2.0
// Who may see the page of a coordinator: the API server is asked whose a token is and what they may. That can take
// long, so it happens apart from answering: until there is a verdict, the request waits and nobody else does.
#pragma once
#include "base/http/http_server.h"
#include "cluster/kube/client.h"

struct login;
int login_open(struct kube *kube, struct login **ret, struct err *err); // kube is taken, also on failure
void login_close(struct login *l);

// 1 = they may look, 0 = not, or not yet, and *ret says so. Failure: the API server cannot say. From any thread.
int login_check(struct login *l, const struct http_server_request *request, struct http_server_answer *ret,
		struct err *err);

int login_fd(const struct login *l); // readable when somebody waits for a verdict
// Asks the API server about the one that waits longest, once it is due. *ret_is_news: there is a verdict, and
// http_server_again() is to be called. Returns in how many milliseconds the next one is due; -1 = nobody waits.
int login_review(struct login *l, bool *ret_is_news);
