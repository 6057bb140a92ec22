// SPDX-License-Identifier: Apache-2.0
// What the running kernel will say to a module's signature, asked before anything is touched: its keyrings, the
// certificates that firmware and shim gave it or that were built into it, and the hashes that it has or can load.
//
// Not all can be known: a container may see neither keyrings nor EFI variables. What is not known is left to the load.
#pragma once
#include "base/process/node.h"
#include "kmod/load/keyrings.h"
#include "kmod/module/kernel_abi.h"

struct kernel_trust {
	const struct node *node;
	char *release;
	struct keyrings keyrings;
	struct certs *certs; // of db and MOK, and once asked for of the kernel's image: those that the keyrings have
	bool is_image_read;
	struct kernel_answers answers;
};
// release: of the running kernel. The answers point to ret: it must not be moved.
void kernel_trust_read(const struct node *node, const char *release, struct kernel_trust *ret);
void kernel_trust_done(struct kernel_trust *t);
#define auto_kernel_trust __attribute__((cleanup(kernel_trust_done)))
