// SPDX-License-Identifier: Apache-2.0
// A driver source on a server. Nothing but its digest says that it is what was meant, so there has to be one: a file
// with it is kept below STATE/sources under that name, and the next run needs no network.
#pragma once
#include "base/file/root.h"
#include "base/http/http.h"

bool source_url_is(const char *source); // http://, https:// or file:///
// E_USAGE: without a digest, with credentials in it, or file:// and no absolute path. what: the option, for messages.
int source_url_check(const char *what, const char *url, const char *sha256, struct err *err);
// The driver version in NVIDIA's name for a file, "NVIDIA-Linux-x86_64-535.261.03.run"; NULL = it is named otherwise.
// Caller frees.
char *source_url_driver(const char *url);

struct source_url {
	const char *url, *sha256;
	const struct root *state;
	struct http *http;                                          // NULL = E_OFFLINE, unless it is kept
	void (*progress)(void *ctx, uint64_t done, uint64_t total); // bytes; total 0 = the server does not say
	void *ctx;
};
// The path to open it by; of file:// that of the URL, whose digest is for the caller to check. An interrupted download
// is resumed, in this run or the next. E_DIGEST: the server has something else, and nothing of it is kept. 1 = it was
// downloaded, 0 = it was there.
int source_url_fetch(const struct source_url *request, char **ret_path, struct err *err);
