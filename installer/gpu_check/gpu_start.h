// SPDX-License-Identifier: Apache-2.0
// The first level: each GPU's node is opened in a process of its own, which waits until the driver has booted the GPU
// and then holds it, so that later levels neither boot it again nor wait for a neighbour.
//
// Facts: NVIDIA/open-gpu-kernel-modules, kernel-open/nvidia/nv.c. With O_NONBLOCK nvidia_open() leaves the start to the
// thread nv_open_q and returns 0; NV_ESC_WAIT_OPEN_COMPLETE (from 550 on) waits for it, interruptibly, and has the
// result. An older driver starts the GPU within open(), and nothing can end that. open() fails with EIO for nearly
// everything, so the reason comes from the kernel's log. A failed start is tried anew by the next open.
#pragma once
#include "base/process/node.h"
#include "base/process/progress.h"
#include "base/process/sys.h"
#include "gpu_check/gpu_check.h"
#include "host/facts.h"

#include <sys/types.h>

// The driver's own deadlines add up to some 50 s (firmware boot, retries), and to two minutes for the eight GPUs of a
// confidential machine, which start one after another whoever opens them.
enum { GPU_START_TIMEOUT_MS = 120 * 1000 };

struct gpu_start { // borrowed
	const struct node *node;
	const struct facts *facts; // the GPUs of this machine, and the loaded driver
	int timeout_ms;            // of one GPU; 0 = GPU_START_TIMEOUT_MS
};

// GPUs that are kept open, each by a child.
struct gpu_holds {
	struct gpu_hold {
		pid_t child;
		int link; // to it; closed, it lets go
	} * items;
	size_t count;
};
// Lets go, and waits for the last close, which shuts a GPU down, but not for a start that has not ended. 1 = all are
// closed, 0 = not yet.
int gpu_holds_release(struct gpu_holds *h);
void gpu_holds_done(struct gpu_holds *h); // the same
#define auto_gpu_holds __attribute__((cleanup(gpu_holds_done)))

// Starts the GPUs that the driver has, one after another: two starts at once can deadlock in the driver. After one that
// is pending no other is touched. One that the driver should have and has not is broken. ret_holds: those that work.
int gpu_start_all(const struct gpu_start *s, struct gpu_results *ret, struct gpu_holds *ret_holds, struct err *err);

// Why a start failed, pure: of the open or the wait the errno, and the kernel's lines since then.
void gpu_start_explain(const char *address, int error, const struct strv *lines, struct gpu_result *ret);

// A GPU's start that somebody has begun and that has not ended: 1 with who, 0 = there is none. Until it ends the driver
// must not be unloaded: from 550 on its reference count may be zero all the same, and rmmod would hang.
int gpu_start_find_pending(const struct root *kern, char **ret_who);
