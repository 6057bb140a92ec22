// SPDX-License-Identifier: Apache-2.0
// Modules of others that use the driver, compiled in the toolkit's container: nvidia-fs (GPUDirect Storage) and gdrdrv
// (GDRCopy). Their own containers put the sources into the shared directory and wait there for a flag (contract 1.16).
//
// The driver's container offers what they are compiled and proven against: nvidia.ko, as it will be loaded, and the
// headers beside its nv-p2p.h. The toolkit's container compiles in the sandbox, proves what came out against the
// running kernel and that nvidia.ko, puts it where the sources have it, and sets the flag. The sources are untrusted,
// as all in that directory.
#pragma once
#include "base/file/digest.h"
#include "base/process/node.h"
#include "kmod/source/recipe.h"

enum extra_module { EXTRA_NVIDIA_FS, EXTRA_GDRDRV, EXTRA_MODULES };
extern const char *const extra_module_names[EXTRA_MODULES]; // "nvidia-fs", "gdrdrv"

struct extra_offer {
	const char *kernel, *driver; // release, version
	enum module_type flavour;
	const struct root *modules, *interface; // the one has nvidia.ko, the other nv-p2p.h
	bool is_wanted[EXTRA_MODULES];
	const char *program; // statically linked, for a toolkit that has not been started
};
// Flags of another offer are cleared; the toolkit's container is started where no request has done that.
int extra_modules_offer(const struct root *shared, const struct extra_offer *offer, struct err *err);

// What the toolkit's side remembers from look to look. Start from zero.
struct extra_modules {
	unsigned looks;
	char seen[EXTRA_MODULES][DIGEST_HEX + 1];   // of the sources, at the look before
	char failed[EXTRA_MODULES][DIGEST_HEX + 1]; // of those that do not compile
};
struct extra_toolkit {
	const struct root *shared, *work; // work: in the same mount namespace as this program
	const struct node *node;          // of the toolkit: its headers and compiler
	const char *release;              // of the running kernel
	int timeout_ms;
};
// Once a second: compiles what has its sources there, whole, and no flag. 1 = *ret was compiled, proven and flagged;
// 0 = there was nothing to do. Negative: *ret failed, and is tried again when its sources change.
int extra_modules_serve(const struct extra_toolkit *at, struct extra_modules *m, enum extra_module *ret,
			struct err *why);
