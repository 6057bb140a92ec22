// SPDX-License-Identifier: Apache-2.0
// What the files of the Kubernetes client share; nobody else includes it.
#pragma once
#include "cluster/kube/client.h"
#include "cluster/kube/clock.h"

struct kube {
	struct kube_config config;
	struct http *http;
	char *token; // NULL = none
	long token_ms;
	int (*before)(void *ctx, struct err *err); // NULL = nothing
	void *before_ctx;
	int64_t then_ms; // the API server's clock at
	long base_ms;    // that moment of the one that does not jump; 0 = it was not heard yet
	long heard_ms;   // when it was heard last
	struct kube_count counts[KUBE_COUNTS];
	size_t count_used;
};

void kube_count(struct kube *k, const char *verb, long status); // a request that has an answer, or got none: 0

int kube_token(struct kube *k, bool is_refused, struct err *err); // k->token as it is now. 1 = another than before
int kube_judge(const struct http_call *http, struct kube_call *call, struct err *err); // the answer: 0, or why not
