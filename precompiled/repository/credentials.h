// SPDX-License-Identifier: Apache-2.0
// Registry credentials as docker and podman keep them: config.json and auth.json, which are also the format of a
// Kubernetes secret of type dockerconfigjson, and the programs that these name for a registry's short-lived tokens.
#pragma once
#include "base/core/err.h"

struct credentials {
	char *user, *password;
	char *identity; // a refresh token in place of a password; NULL = none
	char *origin;   // for messages: file and entry, or helper
	char *failure;  // where none were found: what went wrong with "credsStore" or a file; NULL = nothing
};
void credentials_done(struct credentials *c);
#define auto_credentials __attribute__((cleanup(credentials_done)))

// file: the one file to read. NULL = those of docker and podman, in this order: $REGISTRY_AUTH_FILE,
// $DOCKER_CONFIG/config.json (else ~/.docker/config.json), $XDG_RUNTIME_DIR/containers/auth.json (else
// /run/containers/UID/auth.json), ~/.config/containers/auth.json; any may be absent, and the first that knows the
// registry is used. In a file, the helper of "credHelpers" comes first, then the most specific entry of "auths":
// HOST/NAME, then its parents, then HOST, each plain, with https:// in front, or with /v1/ behind the host, which may
// be a pattern as kubelet takes it ("*.example.com"); then "credsStore". A .dockercfg, entries alone, is one, too.
// A helper is docker-credential-NAME in $PATH (docker-credential-helpers' protocol, `get`).
//
// host: with its port if there is one; name: of the repository. 1 = found, 0 = none. E_NOT_FOUND, E_CONFIG: of the
// file; E_AUTH: a helper that is named for this host failed.
int credentials_find(const char *file, const char *host, const char *name, struct credentials *ret, struct err *err);
// The files that are read, for messages: "'A', 'B'"; NULL = none.
char *credentials_places(const char *file);
