// SPDX-License-Identifier: Apache-2.0
// Every precondition of an install, each with evidence and the next step, before anybody tries.
#pragma once
#include "host/facts.h"

enum finding_state { FINDING_PASS, FINDING_WARN, FINDING_FAIL };

struct finding {
	const char *name; // "headers"
	enum finding_state state;
	int code; // of a FAIL or WARN: what would happen; else 0
	char *evidence;
};

struct findings {
	struct finding *items;
	size_t count;
};

// headers: package files that a user gave instead of the host's tree; may be empty.
int doctor_read(const struct root *host, const struct root *kern, const struct root *state, const struct strv *headers,
		struct findings *ret, struct err *err);
void findings_done(struct findings *f);
#define auto_findings __attribute__((cleanup(findings_done)))
size_t findings_failed(const struct findings *f);
const char *finding_state_name(enum finding_state s); // "pass", "warn", "FAIL"
