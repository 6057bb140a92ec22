// SPDX-License-Identifier: Apache-2.0
// The two sides of a hand-over to OpenShift's driver toolkit, and the name that pod specs call them by.
#pragma once
#include "cmd/common/common.h"

struct dtk_values {
	struct common common;
	char *shared, *program;
	unsigned patience_s;
	bool is_image_missing;
};

// argv[0] was ocp_dtk_entrypoint: its verbs, without options of their own.
#define DTK_PROGRAM "ocp_dtk_entrypoint"
int dtk_main(int argc, char **argv);

// One second, or until told to stop: the signal, 0 = none. dtk_block_signals() first.
void dtk_block_signals(void);
int dtk_wait_second(void);
void dtk_unblock_signals(void); // signals are what they were

int dtk_run(const struct dtk_values *v, char **args, size_t count, struct err *err);
int dtk_build(const struct dtk_values *v, struct err *err);
