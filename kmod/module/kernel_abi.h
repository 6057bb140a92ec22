// SPDX-License-Identifier: Apache-2.0
// What a kernel requires of a module: everything that kmod/module/proof.h compares with.
//
// It is collected from whatever exists: headers, a kernel image, modules of that kernel, a live or recorded machine.
// What stays unknown is not compared, and the proof says so.
#pragma once
#include "base/file/digest.h"
#include "base/file/root.h"
#include "kmod/module/elf.h"
#include "kmod/module/vmlinuz.h"

// What a running kernel tells of signatures, as far as it is certain (kmod/load/kernel_trust.h). id: of modsig.signers.
struct kernel_answers {
	int (*has_key)(const void *kernel, const char *id);        // 0 = it does not have that certificate
	int (*is_revoked)(const void *kernel, const char *id);     // 1 = it refuses what that certificate signed
	char *(*lacks_hash)(const void *kernel, const char *hash); // why it has no such hash; caller frees
	// Those that it has and that can be read, of all or of those that may have signed with these ids.
	const struct certs *(*certs)(void *kernel, const struct strv *ids);
	void *kernel;
};

struct kernel_abi {
	char *release;           // uname -r; never NULL once something was added
	char *banner;            // "Linux version ...", without the newline; NULL = unknown
	char *build_id;          // kernel_build_id of its banner; NULL = unknown
	char *compiler;          // version text of the compiler that built it; NULL = unknown
	int machine;             // EM_X86_64; EM_NONE = unknown
	char *vermagic;          // whole, release first; NULL = unknown
	size_t struct_size;      // sizeof(struct module); 0 = unknown
	struct symvers *symvers; // NULL = unknown
	char *symvers_from;      // where it came from, for messages
	bool has_modversions;
	bool is_btf_mismatch_fatal;           // BTF is looked at and a mismatch is not allowed
	bool is_ns_required;                  // !CONFIG_MODULE_ALLOW_MISSING_NAMESPACE_IMPORTS
	bool has_sig;                         // CONFIG_MODULE_SIG: signatures are looked at
	bool is_sig_enforced;                 // unsigned modules and unknown keys are refused
	bool is_locked_down;                  // integrity or confidentiality: the same, with other words
	char *sig_hash;                       // CONFIG_MODULE_SIG_HASH, certain to be built in; NULL = unknown
	struct certs *trusted;                // keys that this kernel trusts for modules; NULL = unknown
	const struct kernel_answers *answers; // of the running kernel; NULL = it is another one, or was not asked
};

void kernel_abi_done(struct kernel_abi *abi);
#define auto_kernel_abi __attribute__((cleanup(kernel_abi_done)))

// From a header tree: release (include/config/kernel.release), Module.symvers, .config; or from a configuration alone
// (/boot/config-REL, /proc/config.gz inflated): symvers may be NULL, config may not. Derives machine, vermagic and what
// the configuration demands. Fields that a call does not know stay as they
// are, so calls can follow each other on one abi; start from zero.
int kernel_abi_add_tree(struct kernel_abi *abi, const char *release, const char *symvers, size_t symvers_len,
			const char *config, size_t config_len, struct err *err);
// Banner, build id, and the compiler where it is not known yet. line: a "Linux version ..." line.
void kernel_abi_add_banner(struct kernel_abi *abi, const char *line);
// What it enforces, which only the running kernel can tell: Secure Boot and its command line decide.
void kernel_abi_add_running(struct kernel_abi *abi, const struct root *kern);
// Everything that a machine's files tell about one of its kernels: configuration, Module.symvers or
// symvers.{gz,xz,zst} or the kernel image, an in-tree module. release NULL = the running kernel; only for that one
// kern (proc, sys) is asked too: banner, configuration, enforcement, lockdown. 1 = enough to compare CRCs, 0 = less
// is known, negative = damaged files. state: the state directory, which remembers images (vmlinuz_cache.h); NULL =
// every image is read anew.
int kernel_abi_read(struct kernel_abi *abi, const struct root *host, const struct root *kern, const struct root *state,
		    const char *release, struct err *err);
// The image of a kernel of this machine; 0 = there is none, 1 = caller closes and frees.
int kernel_abi_open_image(const struct root *host, const char *release, int *ret, char **ret_path, struct err *err);
