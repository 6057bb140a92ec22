// SPDX-License-Identifier: Apache-2.0
// Will this kernel accept these modules? Answered before any of them is loaded, cheap checks first: architecture,
// vermagic, the CRC of module_layout, every import, sizeof(struct module), BTF, signature.
//
// The rules are the kernel's own. With CRCs in the module and modversions in the kernel the release in vermagic does
// not count and CRCs decide; otherwise the whole vermagic must be equal. Symbols of other modules of the set are
// checked against those modules; symbols of loaded modules against what these export; the rest against the kernel's
// table. Of a kernel that a module was not made for, nothing that counts may stay unknown: vermagic, module_layout, the
// CRC of every import.
#pragma once
#include "kmod/module/kernel_abi.h"

enum proof_verdict {
	PROOF_EXACT,      // same release; nothing differs
	PROOF_COMPATIBLE, // built for another release; every CRC is the same
	PROOF_REBUILD,    // does not fit; modules compiled for this kernel would
	PROOF_REFUSED,    // compiling again does not help: architecture, signature, missing provider
};

// What the modules were compared with. Version magic and names of symbols alone say nothing about the interfaces.
enum proof_basis {
	PROOF_BY_NOTHING,
	PROOF_BY_BUILD, // the modules were made for this very build of the kernel; for kernels without CRCs
	PROOF_BY_CRCS,
};

struct proof_mismatch {
	const char *symbol; // borrowed from the module
	uint32_t module_crc, kernel_crc;
};

struct proof_module {
	enum proof_verdict verdict;
	int code;   // 0, E_ARCH, E_ABI, E_SYMBOL, E_SIGNING_REQUIRED, E_SIGNATURE_BAD, E_SIGNATURE_HASH, E_KEY_REVOKED,
		    // E_KEY_UNKNOWN, E_ELF
	char *text; // one line: what decides, with evidence; never NULL
	struct proof_mismatch *mismatches; // of CRCs, all of them; the text lists ten
	size_t mismatch_count;
	struct strv needs; // as of the whole proof, of this module alone
};

struct proof {
	enum proof_verdict verdict; // the worst of the modules
	int code;
	char *text; // of the worst module, with its name
	enum proof_basis basis;
	struct proof_module *modules; // in the order given
	size_t count;
	struct strv needs; // modules of the kernel's own tree that must be loaded before, as the table names them
};

// A pure function: an unfit module is a verdict, not an error. loaded: exports of modules that are loaded (owner =
// module), may be NULL. The proof borrows from modules.
void proof_make(const struct module *const *modules, size_t count, const struct kernel_abi *abi,
		const struct symvers *loaded, struct proof *ret);
void proof_done(struct proof *proof);
#define auto_proof __attribute__((cleanup(proof_done)))

// Settles a proof that could compare no CRCs, if the modules say that they were made for exactly this build of the
// kernel (kernel_build_id() of both, NULL = unknown).
void proof_add_build(struct proof *proof, const char *release, const char *made_for, const char *build_id);

const char *proof_basis_name(enum proof_basis basis);        // "nothing", "build", "crcs"
int proof_error(const struct proof *proof, struct err *err); // 0 for exact and compatible, else -1 with code and text
