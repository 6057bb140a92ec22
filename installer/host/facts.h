// SPDX-License-Identifier: Apache-2.0
// All facts that decisions about this node depend on, read once.
#pragma once
#include "host/existing_driver.h"
#include "host/kernel.h"
#include "host/modules.h"

struct facts {
	struct host host;
	struct gpus gpus;
	struct modules loaded;
	struct existing_driver existing_driver; // by existing_driver_read(), because it needs the store
};

int facts_read(const struct root *host, const struct root *kern, struct facts *ret, struct err *err);
void facts_done(struct facts *f);
#define auto_facts __attribute__((cleanup(facts_done)))

bool facts_has_gpu(const struct facts *f); // false = NO_GPU: there is nothing to do on this node (R-P11)
