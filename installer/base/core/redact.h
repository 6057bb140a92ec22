// SPDX-License-Identifier: Apache-2.0
// Texts that go to somebody else: without secrets and, on request, without the names and addresses of machines. It errs
// on the side of taking away too much.
#pragma once
#include "base/core/str.h"

struct redact {
	struct strv secrets;   // texts that are taken away wherever they are
	bool is_anonymous;     // so are these, and each becomes the same word wherever it is:
	struct strv names;     // of machines: host-1, host-2, ...
	struct strv addresses; // of IP, MAC: address-1, ...; filled by redact_text()
};
void redact_done(struct redact *r);
#define auto_redact __attribute__((cleanup(redact_done)))

// The values of environment variables that are named like a secret.
void redact_add_environment(struct redact *r, char *const *env);
// A machine's name; a short one would take words away that only look like it, and is left out.
void redact_add_name(struct redact *r, const char *name);
void redact_add_hosts(struct redact *r, const char *text); // of the URLs in a text

// Without private keys, credentials and queries of URLs, tokens, and values behind a name like "password"; then without
// the names and addresses. Caller frees.
char *redact_text(struct redact *r, const char *text);
