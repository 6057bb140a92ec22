// SPDX-License-Identifier: Apache-2.0
// Registry credentials from docker's config.json, which is also the format of a Kubernetes secret of type
// dockerconfigjson.
#pragma once
#include "base/core/err.h"

struct credentials {
	char *user, *password;
	char *identity; // a refresh token in place of a password; NULL = none
	char *origin;   // for messages: file and entry
};
void credentials_done(struct credentials *c);
#define auto_credentials __attribute__((cleanup(credentials_done)))

// file: NULL = $DOCKER_CONFIG/config.json, else ~/.docker/config.json, which may be absent. host: with its port if
// there is one; name: of the repository. The most specific entry wins: HOST/NAME, then its parents, then HOST, each
// plain, with https:// in front, or with /v1/ appended. 1 = found, 0 = none. E_NOT_FOUND, E_CONFIG: of the file.
int credentials_find(const char *file, const char *host, const char *name, struct credentials *ret, struct err *err);
// The file that is used, for messages; NULL = none.
char *credentials_file(const char *file);
