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
// that an earlier start, driver or kernel left means nothing now, because an emptyDir outlives containers.
//
// Either side may be killed and restarted at any moment and in any order. The other container's files are untrusted:
// reads are bounded and follow no link out of the directory, and the package is proven against the running kernel
// before the node keeps it.
#pragma once
#include "acquire/acquire.h"
#include "base/file/digest.h"
#include "base/file/root.h"
#include "kmod/source/build_options.h"

#define DTK_SHARED "/mnt/shared-nvidia-driver-toolkit"
#define DTK_PACKAGE "package." // and the ID

enum dtk_flag { DTK_PREPARED, DTK_STARTED, DTK_BROKEN, DTK_BUILT, DTK_FLAGS };

struct dtk_flags {
	char id[DTK_FLAGS][DIGEST_HEX + 1]; // "" = not set, or set about nothing that has an ID
};

struct dtk_request {
	char *driver, *flavour; // as the plan decided them: the toolkit sees no GPU
	char *kernel;           // release
	char *source;           // name of the file or directory in kmodsmith/source
	char *source_sha256;
	char *patches;                // digest of kmodsmith/patches; NULL = there are none
	char *program;                // digest of ocp_dtk_entrypoint: another program may make another package
	struct strv modules;          // full names; empty = all of the source
	struct build_options options; // without .patches and .is_cache_off
	unsigned attempt;             // 1, 2, ...: the same is requested again, and earlier results do not count
};
void dtk_request_done(struct dtk_request *r);
#define auto_dtk_request __attribute__((cleanup(dtk_request_done)))

char *dtk_request_text(const struct dtk_request *r);
// E_CONFIG: not a request, or one that names something outside of its directories.
int dtk_request_parse(const char *text, size_t len, struct dtk_request *ret, struct err *err);
bool dtk_request_equal(const struct dtk_request *a, const struct dtk_request *b); // whatever the attempt

// What the driver's side does next with the request of this ID. Pure.
enum dtk_step {
	DTK_PREPARE, // (again)
	DTK_WAIT,    // for the toolkit, which has to compile
	DTK_TAKE,    // the package is there
	DTK_LEAVE,   // the toolkit cannot: compile or fetch without it
};
enum dtk_step dtk_next(const struct dtk_flags *flags, const char *id);

int dtk_flags_read(const struct root *shared, struct dtk_flags *ret, struct err *err);
// id NULL: clears the flag.
int dtk_flag_set(const struct root *shared, enum dtk_flag flag, const char *id, struct err *err);

struct dtk_inputs {          // what is copied, as a user typed it
	const char *program; // statically linked
	const char *source;
	const char *patches; // NULL = none
};
// Everything is complete before the flag is set: if we are killed in between, the toolkit sees no request.
int dtk_prepare(const struct root *shared, const struct dtk_inputs *inputs, const char *text, struct err *err);
// 1 = read, 0 = there is no request, or not a valid one.
int dtk_request_read(const struct root *shared, struct dtk_request *ret, char ret_id[DIGEST_HEX + 1], struct err *err);

struct dtk_progress {
	char id[DIGEST_HEX + 1];
	unsigned done, total; // objects; total 0 = before the first
	unsigned beat;        // changes while the toolkit works
};
int dtk_progress_write(const struct root *shared, const struct dtk_progress *p, struct err *err);
bool dtk_progress_read(const struct root *shared, struct dtk_progress *ret);

// Why the toolkit cannot, beside its flag: the error's name and text.
int dtk_reason_write(const struct root *shared, const struct err *why, struct err *err);
// Into an error of the code that it names; E_BUILD where it names none.
void dtk_reason_read(const struct root *shared, struct err *ret);

// The toolkit's package into the node's store, checked and proven like any other untrusted input. as: the store and the
// requirements on a package. The package must be exactly what was requested, with modules that the running kernel
// accepts; else the store is as it was. ret_tag: caller frees.
int dtk_take(const struct acquire *as, const struct dtk_request *request, const struct root *shared, const char *id,
	     char **ret_tag, struct err *err);
