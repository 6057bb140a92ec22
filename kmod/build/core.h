// SPDX-License-Identifier: Apache-2.0
// The core of NVIDIA's open modules: the part below src/ that knows nothing of a kernel. NVIDIA's open source release
// has it as sources, every other form of the driver as one object for nvidia and one for nvidia-modeset.
//
// It is compiled by the release's own Makefiles with the compiler of the modules, in a sandbox that sees nothing but
// the release: no kernel headers, no network. What they would write of this machine into it (user, host, date) is
// set to constants, and paths are relative to the sandbox, so the same release, compiler and architecture give the same
// bytes.
//
// Once: what was compiled here is kept in the cache (cores/KEY-DIGEST). The key is made of the release's content,
// compiler, architecture and variables; a file without its digest is not used. What was compiled elsewhere under the
// same key is asked for (struct core_offer) before anything is compiled, and is not kept in the cache: whoever offers
// it also decides each time whether it is still trusted. A compile that was killed goes on with the objects that ccache
// kept (objects.h).
#pragma once
#include "kmod/build/jobs.h"
#include "kmod/kernel_tree/toolchain.h"
#include "kmod/source/source.h"

// Everything that decides the bytes of a core, as one digest; and what is in it for people. Two compilers of one major
// version have different keys: their objects work as well, but the modules would not be the same bytes everywhere.
struct core_key {
	const struct source_core *core;
	const char *driver, *arch, *compiler; // borrowed from the request
	char hex[DIGEST_HEX + 1];
};
struct core_keys { // of the modules that are built
	struct core_key items[SOURCE_CORES];
	size_t count;
};

// Cores that others have compiled.
struct core_offer {
	// Whether somebody has it, and who; nothing is brought. 1 = yes, 0 = no.
	int (*find)(void *ctx, const struct core_key *key, char **ret_from);
	// Brings that of the key as the file `name` below into, verified as core_verify() does. 1 = it is there, with
	// the name of whoever had it; 0 = nobody has it, or what they have is refused, which is noted: it is compiled.
	int (*bring)(void *ctx, const struct core_key *key, const struct root *into, const char *name, char **ret_from);
	void *ctx;
};

struct core_request {
	const struct source *source;
	enum module_type flavour;
	const struct strv *modules; // from recipe_modules; the cores of others are not compiled
	const char *arch;           // as `uname -m`
	const struct toolchain *tools;
	const struct root *cache;       // NULL = nothing is kept
	const struct core_offer *offer; // NULL = there is none
	const struct root *work;        // scratch; what is made in it is removed at the end
	const struct jobs_facts *facts;
	unsigned jobs;
	long deadline_ms;                                       // on the monotonic clock
	int log_fd;                                             // -1 = nowhere
	void (*progress)(void *ctx, size_t done, size_t total); // objects; may be NULL
	void *ctx;
};

struct core_outcome {
	struct core_keys keys;
	char digests[SOURCE_CORES][DIGEST_HEX + 1]; // by key: SHA-256 of the object
	char *from[SOURCE_CORES];     // by key: "cache", "store", or the repository that had it; NULL = it was compiled
	size_t objects, objects_kept; // of those that were compiled; of these objects, from the cache
	unsigned jobs;
	long peak_kib;
};
void core_outcome_done(struct core_outcome *o);
#define auto_core_outcome __attribute__((cleanup(core_outcome_done)))

bool core_is_needed(const struct source *source, enum module_type flavour);
// E_TOOLCHAIN names a program that only the core needs and that the toolchain lacks, such as the C++ compiler for that
// of nvidia-modeset. modules: from recipe_modules.
int core_check(const struct source *source, enum module_type flavour, const struct strv *modules,
	       const struct toolchain *tools, struct err *err);
int core_keys(const struct core_request *request, struct core_keys *ret, struct err *err);
bool core_is_kept(const struct root *cache, const struct core_key *key); // by its name; the content is not read
// Copies that of the key from the cache to the file `name` below into. 1 = done, 0 = the cache has none.
int core_copy_kept(const struct root *cache, const struct core_key *key, const struct root *into, const char *name,
		   struct err *err);
// E_ELF: the file is not an object that says to be of the key's driver; E_ARCH: it is for another architecture.
int core_verify(const struct root *dir, const char *name, const struct core_key *key, struct err *err);
// Puts the core of each module into `into`, a copy of the module type's directory. E_BUILD with the compiler's first
// error; E_BUILD_OOM after retries with half the jobs; E_BUILD_TIMEOUT.
int core_make(const struct core_request *request, const struct root *into, struct core_outcome *ret, struct err *err);
