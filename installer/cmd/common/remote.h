// SPDX-License-Identifier: Apache-2.0
// Access to remote repositories, for the commands that need it: options, and the client that they configure.
#pragma once
#include "cmd/common/common.h"
#include "precompiled/repository/repository.h"

struct remote_values { // first member of the values of such a command; its own first is what every command has
	struct common common;
	char *proxy, *no_proxy, *ca, *auth_file;
	unsigned connect_timeout_s, stall_timeout_s;
	bool is_offline;
};
extern const struct opt remote_opts[];

struct remote_access {
	struct http *http; // NULL = offline
	struct repository_options options;
};
int remote_access_open(const struct remote_values *values, struct remote_access *ret, struct err *err);
void remote_access_done(struct remote_access *r);
#define auto_remote_access __attribute__((cleanup(remote_access_done)))
