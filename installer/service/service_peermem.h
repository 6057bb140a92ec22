// SPDX-License-Identifier: Apache-2.0
// nvidia-peermem as a part of `init` (peermem/peermem.h): it waits for the network driver while the GPUs serve.
#pragma once
#include "peermem/peermem.h"
#include "service/service.h"

struct service_peermem {
	struct peermem peermem;
	bool is_over; // it failed for a reason that does not pass by itself
};
struct service_part service_peermem_part(struct service_peermem *p); // p must stay where it is
