// SPDX-License-Identifier: Apache-2.0
// A compile in another container: OpenShift's driver toolkit has the compiler and headers of exactly the node's kernel,
// and nothing of ours. The two containers of the pod share an emptyDir and communicate by files in it:
//
//   ocp_dtk_entrypoint        this program, statically linked: what the toolkit's container starts
//   kmodsmith/request.json    what is to be compiled; never an environment, which may hold secrets
//   kmodsmith/source, patches what it names
//   kmodsmith/progress        of the compile, for the log of the side that waits
//   kmodsmith/package.ID      an OCI layout with what was made
//
// and by flags, whose names the images of GPUDirect Storage and GDRCopy know (the others, nvidia_fs_built and
// gdrcopy_built, are theirs). A flag holds the ID of the request that it is about, the SHA-256 of request.json: one
// that an earlier start, driver or kernel left says nothing about this one, because an emptyDir outlives containers.
//
// Either side may be killed and restarted at any moment and in any order. The other container's files are untrusted:
// reads are bounded and follow no link out of the directory, and the package is proven against the running kernel
// before the node keeps it.
#pragma once
#include "base/file/digest.h"
#include "base/file/root.h"

#define DTK_SHARED "/mnt/shared-nvidia-driver-toolkit"

enum dtk_flag { DTK_PREPARED, DTK_STARTED, DTK_BROKEN, DTK_BUILT, DTK_FLAGS };

struct dtk_flags {
	char id[DTK_FLAGS][DIGEST_HEX + 1]; // "" = not set, or set about nothing that has an ID
};

struct dtk_request {
	char *driver, *flavour; // as the plan decided them: the toolkit sees no GPU
	char *kernel;           // release
	char *source;           // name of the file or directory in kmodsmith/source
	char *source_sha256;
	char *patches;       // digest of kmodsmith/patches; NULL = there are none
	char *program;       // digest of ocp_dtk_entrypoint: another program may make another package
	struct strv modules; // full names; empty = all of the source
	unsigned jobs, timeout_s;
	bool is_rt_allowed;
	unsigned attempt; // 1, 2, ...: the same is requested again, and what came of it before does not count
};
void dtk_request_done(struct dtk_request *r);
#define auto_dtk_request __attribute__((cleanup(dtk_request_done)))

char *dtk_request_text(const struct dtk_request *r);
// E_CONFIG: not a request, or one that names something outside of its directories.
int dtk_request_parse(const char *text, size_t len, struct dtk_request *ret, struct err *err);
void dtk_request_id(const char *text, char ret[DIGEST_HEX + 1]);
bool dtk_request_equal(const struct dtk_request *a, const struct dtk_request *b); // whatever the attempt

// What the driver's side does next. Pure.
enum dtk_step {
	DTK_PREPARE, // (again)
	DTK_WAIT,
	DTK_TAKE,  // the package is there
	DTK_LEAVE, // the toolkit cannot: compile or fetch without it
};
enum dtk_step dtk_next(const struct dtk_flags *flags, const char *id);
bool dtk_is_due(const struct dtk_flags *flags, const char *id); // the toolkit's side: it has to compile
