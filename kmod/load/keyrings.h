// SPDX-License-Identifier: Apache-2.0
// The keyrings whose certificates a kernel trusts for modules. Nothing reads a certificate out of them, but a search
// says whether one is there: certificates are known by serial number and issuer (asymmetric_type.c), by which a
// module's signature names its signer.
#pragma once
#include "base/process/sys.h"

enum { KEYRINGS_MOST = 4 };

struct keyrings {
	const struct sys *sys;
	int serials[KEYRINGS_MOST];
	size_t count;  // 0 = none is shown
	int blacklist; // serial number of .blacklist; 0 = it is not shown
};
// The lines of /proc/keys (security/keys/proc.c). Container runtimes put another file over it: what cannot be read has
// none.
void keyrings_lines(const struct root *kern, struct strv *ret);
void keyrings_read(const struct root *kern, const struct sys *sys, struct keyrings *ret);
// The same, without a guess: -1 = not known.
int keyrings_ask(const struct keyrings *keyrings, const char *id);
// id: the hex of modsig.signers. 0 = none of them has it; 1 = one has, or that is not known.
int keyrings_has(const void *keyrings, const char *id);
// 1 = it is among what dbx, MokListX or the kernel itself revokes (5.13: is_key_on_revocation_list); 0 = it is not, or
// that is not known.
int keyrings_has_revoked(const void *keyrings, const char *id);
