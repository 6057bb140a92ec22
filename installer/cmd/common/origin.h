// SPDX-License-Identifier: Apache-2.0
// Where packages come from, for the commands that fetch some: which repositories, in which order, and whom to trust.
#pragma once
#include "cmd/common/remote.h"
#include "precompiled/package/fetch.h"

struct origin_values { // first member of the values of such a command
	struct remote_values remote;
	char *package, *bundle, *trust_dir;
	struct strv from, builders;
	bool is_unverified;
};
extern const struct opt package_opts[], origin_opts[];

struct origin {
	struct strv from;            // repositories, in order
	const struct strv *builders; // see struct fetch
	struct err *down;            // the same
	struct remote_access remote;
	struct trust_now trust;
	bool is_believing;  // fetched packages need no signature,
	bool is_unverified; // because of --insecure-skip-verify: nor do those in the store
};
int origin_open(const struct origin_values *v, const struct root *host, struct origin *ret, struct err *err);
void origin_done(struct origin *o);
#define auto_origin __attribute__((cleanup(origin_done)))
void origin_fetch(const struct origin *o, const struct root *state, struct fetch *ret);
void origin_show_bytes(void *ctx, uint64_t done, uint64_t total); // of a download; total 0 = not known

// As --package and --output take them: "oci:DIR", "oci-archive:FILE.tar", ...; a path alone is a layout, or a bundle
// when it ends in .tar.
char *origin_name(const char *name);
