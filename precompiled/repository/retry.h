// SPDX-License-Identifier: Apache-2.0
// Shared by static servers and registries: requests with a bounded number of retries, and blob downloads.
#pragma once
#include "precompiled/repository/repository.h"

struct remote_repository { // first member of each kind's own struct
	struct repository repository;
	struct http *http;
	struct download *downloads;
	// Of a registry, NULL = no credentials. prepare adds credentials to a call before it is made; on_unauthorized
	// handles a 401 reply: 1 = retry with new credentials, negative = why not.
	void (*prepare)(struct remote_repository *r, struct http_call *call);
	int (*on_unauthorized)(struct remote_repository *r, const struct http_call *call, struct err *err);
};

struct attempt { // the retries of one request so far
	unsigned waits, refusals;
};
// Whether to retry a finished call: 401 with new credentials; 429, 5xx and lost connections after a delay. 1 = retry
// after *ret_ms, 0 = the result is final.
int retry_is_due(struct remote_repository *r, const struct http_call *call, struct attempt *a, unsigned *ret_ms,
		 struct err *err);
// http_run with retries. 0 = there is a reply of any status; the caller calls http_end() in any case.
int retry_run(struct remote_repository *r, struct http_call *call, struct err *err);
// retry_run for a GET: 1 = 2xx, 0 = 404; any other status is an error.
int retry_get(struct remote_repository *r, struct http_call *call, struct err *err);
int retry_wait(struct remote_repository *r, unsigned ms, struct err *err); // other calls continue meanwhile

// Blobs (download.c): repository_ops.begin for a URL, .step and .end.
int download_begin(struct remote_repository *r, struct blob_transfer *t, const char *url, struct err *err);
int download_step(struct repository *r, struct err *err);
void download_end(struct repository *r, struct blob_transfer *t);
