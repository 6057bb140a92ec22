// SPDX-License-Identifier: Apache-2.0
// A certificate for modules on its way into the kernel's trust: what shim's MokManager is asked for, and what became
// of it (R-C1). The request is what mokutil --import writes: the variables MokNew and MokAuth, which shim finds at the
// next boot (MokVars.txt of shim).
#pragma once
#include "base/process/node.h"
#include "host/kernel.h"
#include "kmod/module/modsign.h"

enum enroll_state {
	ENROLL_TRUSTED, // the kernel's keyrings have it
	ENROLL_LISTED,  // db or MOK has it, and whether the kernel takes it for modules cannot be asked
	ENROLL_IGNORED, // db or MOK has it, and no keyring that counts for modules
	ENROLL_PENDING, // MokManager is asked for it at the next boot
	ENROLL_ABSENT,
};
const char *enroll_state_name(enum enroll_state s); // "trusted", "listed", "ignored", "pending", "absent"

// E_KEY_REVOKED: firmware, shim or kernel have revoked it.
int enroll_look(const struct node *node, const struct module_cert *cert, enum enroll_state *ret, struct err *err);
// password: what MokManager will ask for; other certificates that wait for their confirmation are kept, under this
// password. E_NO_SHIM; E_EFI_FULL; E_RIGHTS, E_READ_ONLY: of efivarfs.
int enroll_ask(const struct node *node, const struct module_cert *cert, const char *password, struct err *err);
// Makes a password of characters that all common keyboard layouts share. Caller frees.
int enroll_make_password(char **ret, struct err *err);
int enroll_check_password(const char *password, struct err *err); // E_USAGE: MokManager could not read it
