// SPDX-License-Identifier: Apache-2.0
// Keeps NVIDIA's upgrade controller from a node of ours (cluster/driver_manager/upgrade_hold.h) as a part of `init`: a
// child, `driver-manager hold`, looks from time to time and proves what is wanted next, so that neither the API server
// nor a compile delays anything else.
#pragma once
#include "service/service.h"

struct service_hold {
	int child;
	int64_t due_ms, end_ms; // of the next look; of the one that runs
};
struct service_part service_hold_part(struct service_hold *h); // h must stay where it is
// One look more of a process that ends, with a deadline; the one that runs is ended. is_failed: it never served, and
// whoever starts it again does the same.
void service_hold_last(struct service_hold *h, bool is_failed);
