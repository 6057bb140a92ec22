// SPDX-License-Identifier: Apache-2.0
// What static servers and registries share: requests that are tried again within bounds, and blobs on their way.
#pragma once
#include "precompiled/repository/repository.h"

struct remote_repository { // first member of each kind's own struct
	struct repository repository;
	struct http *http;
	struct download *downloads;
	// Of a registry, NULL = there are no credentials. prepare puts what is known into a call that is about to be
	// made; refused looks at a reply 401: 1 = there is something new to try, negative = why there is not.
	void (*prepare)(struct remote_repository *r, struct http_call *call);
	int (*on_unauthorized)(struct remote_repository *r, const struct http_call *call, struct err *err);
};

struct attempt { // how often one thing was tried already
	unsigned waits, refusals;
};
// A reply 401 with new credentials, and 429, 5xx and a cut connection after a moment, are worth another try. call is
// done. 1 = after *ret_ms, 0 = the outcome stands.
int retry_is_due(struct remote_repository *r, const struct http_call *call, struct attempt *a, unsigned *ret_ms,
		 struct err *err);
// http_run with all that. 0 = a reply came, whatever its status; http_end() is the caller's in any case.
int retry_run(struct remote_repository *r, struct http_call *call, struct err *err);
// retry_run of a GET: 1 = 2xx, 0 = 404; every other status is an error.
int retry_get(struct remote_repository *r, struct http_call *call, struct err *err);
int retry_wait(struct remote_repository *r, unsigned ms, struct err *err); // other calls go on meanwhile

// Blobs (download.c): repository_ops.begin for a URL, .step and .end.
int download_begin(struct remote_repository *r, struct transfer *t, const char *url, struct err *err);
int download_step(struct repository *r, struct err *err);
void download_end(struct repository *r, struct transfer *t);
