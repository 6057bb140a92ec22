// SPDX-License-Identifier: Apache-2.0
// The kernels to come as a part of `init` and `watch`: what is to do is done by a child, `watch --once`, so that a
// compile holds nothing up and takes nothing with it.
#pragma once
#include "base/process/launch.h"
#include "cmd/container/watch.h"
#include "next_kernel/kernel_watch.h"

struct serve_kernels {
	struct machine machine;
	struct root state;
	struct kernel_watch kernel_watch;
	struct strv roots;
	struct launch_words words;   // of the child
	char seen[DIGEST_HEX + 1];   // the kernels at the last look; "" = none yet
	int64_t interval_ms, due_ms; // of the next look, whatever happens
	int child;
	bool is_well;     // how the last child ended
	unsigned crashes; // one after the other
};
#define SERVE_KERNELS_NONE                                                            \
	((struct serve_kernels){ .machine = { .host = ROOT_NONE, .kern = ROOT_NONE }, \
				 .state = ROOT_NONE,                                  \
				 .kernel_watch = KERNEL_WATCH_NONE })

// tables, values: options that the child is told, as far as it knows them. ret must stay where it is.
int serve_kernels_open(const struct watch_values *v, const struct opt *const *tables, const void *values,
		       struct serve_kernels *ret, struct serve_part *ret_part, struct err *err);
void serve_kernels_done(struct serve_kernels *k); // ends the child
#define auto_serve_kernels __attribute__((cleanup(serve_kernels_done)))
