// SPDX-License-Identifier: Apache-2.0
// The state of a registry, shared by registry.c and registry_auth.c.
#pragma once
#include "precompiled/repository/credentials.h"
#include "precompiled/repository/retry.h"

struct token {
	char *text;    // NULL = none
	long until_ms; // not used after this time
};

struct registry {
	struct remote_repository remote;
	char *host, *name; // "registry.example:5000", "kmod/nvidia"
	char *base;        // https://HOST/v2/NAME
	char *credentials; // file; NULL = the default one
	struct credentials account;
	bool has_looked;        // credentials were looked up
	bool is_basic;          // the registry uses basic authentication
	bool is_pushing;        // then one token is used for everything
	struct token tokens[2]; // for pull; for pull and push
};

// registry_auth.c
void registry_auth_prepare(struct remote_repository *r, struct http_call *call);
int registry_auth_refused(struct remote_repository *r, const struct http_call *call, struct err *err);
void registry_auth_forget(struct registry *g);
