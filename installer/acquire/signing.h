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
// The same with signatures that another program made: NAME.ko.p7s in signatures for each NAME.ko. E_NOT_FOUND: which
// are missing; no file is changed then.
int signing_attach(const struct module_signer *signer, const struct root *signatures, const struct root *dir,
		   const struct strv *files, struct err *err);
// Writes the files without their signatures: what that program signs.
int signing_export(const struct root *dir, const struct strv *files, const struct root *to, struct err *err);
