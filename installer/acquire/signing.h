// SPDX-License-Identifier: Apache-2.0
// Whether this kernel will load what is compiled and signed here, before anything is compiled.
#pragma once
#include "host/kernel.h"
#include "kmod/module/modsign.h"

// *ret_signer: who signs, in words; NULL = key names nobody. Caller frees. E_KEY: the key is of no use;
// E_KEY_UNKNOWN: this kernel demands signatures, shows its keys in /proc/keys, and neither the certificate nor its
// issuer is among them. A container without the host's user namespace sees none: then the load tells.
int signing_check(const struct host *host, const struct root *kern, const struct module_key *key, char **ret_signer,
		  struct err *err);
// Signs module files in place, as the last change of each: strip, for one, would take the signature away.
int signing_sign(const struct module_signer *signer, const char *hash, const struct root *dir, const struct strv *files,
		 struct err *err);
