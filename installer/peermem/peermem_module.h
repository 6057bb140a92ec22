// SPDX-License-Identifier: Apache-2.0
// Finds the file of nvidia-peermem that belongs to the loaded driver, and proves that the kernel will accept it with
// the loaded ib_core (R-P2).
//
// nvidia-peermem imports ib_register_peer_memory_client from ib_core: of MLNX_OFED / DOCA, or of a distribution's
// kernel that carries it (Ubuntu); a plain kernel has none. Compiled where it was not known, the module has no such
// import and always refuses to start (nvidia-peermem.c: NV_MLNX_IB_PEER_MEM_SYMBOLS_PRESENT).
#pragma once
#include "host/facts.h"
#include "journal/state_dir.h"
#include "kmod/module/kernel_abi.h"

struct peermem_module {
	struct module module, core; // nvidia-peermem, and the nvidia that it imports from
	char *from;                 // for messages
	struct package package;     // that holds them, unless they are files of a root
	struct strv needs;          // modules of the kernel's own tree, known after peermem_module_prove()
	bool has_dma_buf;           // the driver can share memory without nvidia-peermem (dma_buf_export, open modules)
};
#define PEERMEM_MODULE_NONE \
	((struct peermem_module){ .module = MODULE_NONE, .core = MODULE_NONE, .package = PACKAGE_NONE })
void peermem_module_done(struct peermem_module *f);
#define auto_peermem_module __attribute__((cleanup(peermem_module_done)))

// Looks in the exported driver root, in the store in the node's state (may be NULL) and on the host; takes the first
// file of the version and build (srcversion) of the loaded nvidia. E_NOT_FOUND names these places. trust_dir: as of
// trust_dir(), for the store's package; E_UNTRUSTED and the like: only an untrusted package has it. memory must
// outlive ret.
int peermem_module_find(const struct node *node, const char *trust_dir, struct state_dir *memory,
			const struct facts *facts, struct peermem_module *ret, struct err *err);
// E_ABI with the CRCs of both sides, E_SYMBOL when ib_core or the module lacks the interface.
int peermem_module_prove(const struct node *node, const struct facts *facts, struct peermem_module *f, struct err *err);
