// SPDX-License-Identifier: Apache-2.0
// Every precondition of an install, each with evidence and the next step.
#pragma once
#include "acquire/request.h"
#include "base/process/node.h"
#include "host/facts.h"

enum doctor_state { DOCTOR_PASS, DOCTOR_WARN, DOCTOR_FAIL };

struct doctor_finding {
	const char *name; // "headers"
	enum doctor_state state;
	int code; // of a FAIL or WARN: what would happen; else 0
	char *evidence;
	char *next; // NULL = the code's
};

struct doctor_findings {
	struct doctor_finding *items;
	size_t count, failed;
	char *summary; // one sentence
	char *next;    // what to do now; NULL = nothing: there is no GPU
};

// Reads of request the headers, the module key, and the driver with its flavour; without one the loaded driver counts.
int doctor_read(const struct node *node, const struct request *request, struct doctor_findings *ret, struct err *err);
void doctor_findings_done(struct doctor_findings *f);
#define auto_doctor_findings __attribute__((cleanup(doctor_findings_done)))
const char *doctor_state_name(enum doctor_state s); // "pass", "warn", "FAIL"
