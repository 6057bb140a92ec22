// SPDX-License-Identifier: Apache-2.0
// --key, for the commands that sign.
#pragma once
#include "precompiled/trust/signature.h"

struct signers {
	struct key **keys;
	struct signature_maker *makers; // one for each key
	size_t count;
};
// names: PEM files and pkcs11: URIs; KMODSMITH_KEY_PASSWORD opens them. reference: borrowed.
int signers_open(const struct strv *names, const char *reference, struct signers *ret, struct err *err);
void signers_done(struct signers *s);
#define auto_signers __attribute__((cleanup(signers_done)))
