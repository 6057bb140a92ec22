// SPDX-License-Identifier: Apache-2.0
// What the files of the registry share; nobody else includes it.
#pragma once
#include "precompiled/repository/credentials.h"
#include "precompiled/repository/retry.h"

struct token {
	char *text;    // NULL = none
	long until_ms; // after which it is not used any more
};

struct registry {
	struct remote_repository remote;
	char *host, *name; // "registry.example:5000", "kmod/nvidia"
	char *base;        // https://HOST/v2/NAME
	char *credentials; // file; NULL = the default one
	struct credentials account;
	bool has_looked;        // for an account
	bool is_basic;          // what the registry wants
	bool is_pushing;        // then one token serves for everything
	struct token tokens[2]; // to pull, to push as well
};

// registry_auth.c
void registry_auth_prepare(struct remote_repository *r, struct http_call *call);
int registry_auth_refused(struct remote_repository *r, const struct http_call *call, struct err *err);
void registry_auth_forget(struct registry *g);

// registry_push.c
int registry_has_blob(struct repository *r, const char *hex, struct err *err);
int registry_put_blob(struct repository *r, const struct layout *from, const struct oci_descriptor *d, struct err *err);
int registry_put_manifest(struct repository *r, const char *data, size_t len, const char *media_type, const char *tag,
			  struct err *err);
