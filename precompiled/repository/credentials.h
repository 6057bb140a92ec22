// SPDX-License-Identifier: Apache-2.0
// Credentials for registries, from docker's config.json, which is also what a Kubernetes secret of the type
// dockerconfigjson holds.
#pragma once
#include "base/core/err.h"

struct credentials {
	char *user, *password;
	char *identity; // a refresh token in place of a password; NULL = none
	char *origin;   // for messages: file and entry
};
void credentials_done(struct credentials *c);
#define auto_credentials __attribute__((cleanup(credentials_done)))

// file: NULL = $DOCKER_CONFIG/config.json, else ~/.docker/config.json, which may be absent. host: with its port where
// one is written; name: of the repository. The most exact entry counts: HOST/NAME, then its parents, then HOST, each as
// it stands, with https:// in front, or with /v1/ behind it. 1 = found, 0 = none. E_NOT_FOUND, E_CONFIG: of the file.
int credentials_find(const char *file, const char *host, const char *name, struct credentials *ret, struct err *err);
// File that was looked into, for messages; NULL = there is none to look into.
char *credentials_file(const char *file);
