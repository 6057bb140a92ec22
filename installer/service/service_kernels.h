// SPDX-License-Identifier: Apache-2.0
// Prebuilding for other installed kernels as a part of `init` and `watch`: a child, `watch --once`, does the work, so
// that a compile neither delays nor kills anything else.
#pragma once
#include "base/file/digest.h"
#include "base/process/launch.h"
#include "base/process/node.h"
#include "next_kernel/kernel_watch.h"
#include "service/service.h"

struct service_kernels_request { // borrowed, until service_kernels_done()
	const struct node *node;
	const struct strv *roots; // where an updater has the root of the next boot
	const char *config;       // what the child reads anew each time; NULL = all that it knows is in its words
	unsigned interval_s, quiet_s;
};
struct service_kernels {
	struct service_kernels_request request;
	struct kernel_watch kernel_watch;
	struct launch_words words;   // of the child
	char seen[DIGEST_HEX + 1];   // the kernels at the last look; "" = none yet
	int64_t interval_ms, due_ms; // of the next look in any case
	int child;
	bool is_well;     // how the last child ended
	unsigned crashes; // one after the other
};
#define SERVICE_KERNELS_NONE ((struct service_kernels){ .kernel_watch = KERNEL_WATCH_NONE })

// words: of the child; they are taken. ret must stay where it is.
void service_kernels_open(const struct service_kernels_request *request, struct launch_words *words,
			  struct service_kernels *ret, struct service_part *ret_part);
void service_kernels_done(struct service_kernels *k); // ends the child
