// SPDX-License-Identifier: Apache-2.0
// What static servers and registries share: requests that are tried again within bounds, and blobs on their way.
#pragma once
#include "precompiled/repository/repository.h"

struct remote { // first member of each kind's own struct
	struct repository repository;
	struct http *http;
	struct pull *pulls;
	// Of a registry, NULL = there are no credentials. prepare puts what is known into a call that is about to be
	// made; refused looks at a reply 401: 1 = there is something new to try, negative = why there is not.
	void (*prepare)(struct remote *r, struct http_call *call);
	int (*refused)(struct remote *r, const struct http_call *call, struct err *err);
};

struct attempt { // how often one thing was tried already
	unsigned waits, refusals;
};
// A reply 401 with new credentials, and 429, 5xx and a cut connection after a moment, are worth another try. call is
// done. 1 = after *ret_ms, 0 = the outcome stands.
int remote_again(struct remote *r, const struct http_call *call, struct attempt *a, unsigned *ret_ms, struct err *err);
// http_run with all that. 0 = a reply came, whatever its status; http_end() is the caller's in any case.
int remote_run(struct remote *r, struct http_call *call, struct err *err);
// remote_run of a GET: 1 = 2xx, 0 = 404; every other status is an error.
int remote_get(struct remote *r, struct http_call *call, struct err *err);
int remote_wait(struct remote *r, unsigned ms, struct err *err); // other calls go on meanwhile

// Blobs (download.c): repository_ops.begin for a URL, .step and .end.
int pull_begin(struct remote *r, struct transfer *t, const char *url, struct err *err);
int pull_step(struct repository *r, struct err *err);
void pull_end(struct repository *r, struct transfer *t);
