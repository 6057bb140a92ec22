// SPDX-License-Identifier: Apache-2.0
// libFuzzer's side: one program for all targets, of which FUZZ_TARGET names one. FUZZ_TARGET=? prints their names.
#include "tests/fuzz/fuzz.h"

#include <stdio.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static const struct fuzz_target *target;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	const char *name = getenv("FUZZ_TARGET");
	bool is_list = str_eq(name, "?");
	for (const struct fuzz_target *t = fuzz_targets(); t; t = t->next) {
		if (is_list)
			puts(t->name);
		else if (str_eq(name, t->name))
			target = t;
	}
	if (is_list)
		exit(0);
	if (!target) {
		fprintf(stderr, "fuzz: there is no target '%s' (FUZZ_TARGET)\n", name ? name : "");
		exit(2);
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	fuzz_run(target, data, len);
	return 0;
}
