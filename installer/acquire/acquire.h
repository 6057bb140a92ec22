// SPDX-License-Identifier: Apache-2.0
// Where the package of this start comes from: one ordered list (R-I1). The node's store comes first, so that a node
// that was installed once needs no network (R-A2), then the named sources; if none has it, it is compiled, unless that
// is forbidden.
//
// A search reads documents only; a take fetches the layer into the store and unpacks it.
#pragma once
#include "acquire/request.h"
#include "base/process/node.h"
#include "driver_root/image_payload.h"
#include "host/pci.h"
#include "journal/state_dir.h"
#include "kmod/build/core.h"
#include "kmod/kernel_tree/headers.h"
#include "package_manager/package_manager.h"
#include "precompiled/package/asset.h"
#include "precompiled/store/store.h"

struct acquire {
	const struct request *request; // what is asked for; never NULL
	struct store store;            // STATE/store; not open while there is none and nothing to put in
	uint64_t limit;                // of the store, bytes; 0 = what the disk has
	struct fetch fetch;            // .from, .options, .trust and .state are borrowed
	struct package_want want;      // borrowed strings
	struct strv kernels;           // whose packages stay when the store needs room
	const struct gpus *gpus;       // for the flavour, when want.flavour is NULL
	struct image_payload carry;    // of the image; .dir.fd < 0 = none
	struct state_dir memory;       // where packages of the store are unpacked when .fetch.state cannot be written
	struct package kept;           // what the store has
	struct fetch_result found;     // what a source has
	char unfit[DIGEST_HEX + 1];    // of the manifest that this run's proof refused for this kernel; "" = none
	char payload[DIGEST_HEX + 1];  // what acquire_find_payload() found
	char *why_not;                 // why there is neither
	int code;                      // and the code of the first source that failed; 0 = the sources do not have it
	char next[ERR_NEXT_MOST];      // what to do about that; "" = what the code says
	bool is_local;                 // the last search asked only the store
	struct strv untrusted;         // digests in the store that no trusted key signed
	struct err distrust;           // why the first is untrusted; .code 0 = none is
	const struct node *node;       // whose kernel they are proven for
	const char *banner;            // of the target kernel; NULL = not known
	struct strv refused;           // of those, digests of manifests that failed on this kernel
	char *compatible;              // why acquire_found() works, if it was made for another kernel; else NULL
	// The search is for what worked last. A missing or unreadable trust directory revokes no trust: the package was
	// trusted when it was stored.
	bool is_back;
	int builder_use;                        // keeps the unpacked builder from being collected
	struct package_manager package_manager; // see acquire_headers_offer()
	struct headers_offer packed, of_host;   // see acquire_headers_offer()
	struct core_offer cores;                // see acquire_core_offer()
};
void acquire_done(struct acquire *o);
#define auto_acquire __attribute__((cleanup(acquire_done)))
#define ACQUIRE_NONE                                    \
	((struct acquire){ .request = &request_none,    \
			   .store = STORE_NONE,         \
			   .carry = IMAGE_PAYLOAD_NONE, \
			   .memory = STATE_DIR_NONE,    \
			   .kept = PACKAGE_NONE,        \
			   .found = FETCH_RESULT_NONE,  \
			   .builder_use = -1 })

// Sets .want: what a package for this kernel has to match. is_signing_due: the kernel takes only signed modules.
void acquire_set_want(struct acquire *o, const char *release, const char *build_id, const char *arch,
		      bool is_signing_due);
bool acquire_has_store(const struct acquire *o);
int acquire_open_store(struct acquire *o, struct err *err); // when there is one
// The store, for something to put in; created where there is none.
int acquire_output(void *acquire, const struct layout **ret, struct err *err);
// 0 = the signer of this manifest of the store is still trusted (precompiled/trust/provenance.h).
int acquire_check_trust(const struct acquire *o, const char *hex, struct err *err);
// A package of another kernel that was taken for this one before counts as the store's own. 1 = acquire_found() says
// what there is; 0 = nothing, see why_not. A package named by hand that cannot be read is an error. is_local: only the
// store is asked.
int acquire_find(struct acquire *o, bool is_local, struct err *err);
const struct package *acquire_found(const struct acquire *o); // NULL = none
void acquire_forget(struct acquire *o);                       // as if nothing had been found
// package_want.serves: ctx = the modules that were named, a struct strv; without any a package must have the default
// ones but for those that are optional.
bool acquire_has_core(const void *modules, const struct package_key *key, char **ret_why);
// The flavour of a driver version that serves the GPUs; NULL = unknown: any will do, and the plan reports why.
const char *acquire_flavour(const struct acquire *o, const char *driver);
// The newest driver of a branch ("" = of all) that the store or a source has a package of, for the kernel and the GPUs
// of this search, and that is trusted; each source is asked. 1 = *ret_driver and *ret_place, caller frees; 0 = none,
// and *ret_why has the first error other than "not found".
int acquire_newest(struct acquire *o, const char *branch, char **ret_driver, char **ret_place, struct err *ret_why);
// After a search that found nothing: a package for another kernel, from the store or from a source on this machine,
// whose modules are proven to fit the target kernel before anything is touched. 1 = acquire_found() and .compatible; 0
// = none: see .why_not and .code. Asks nothing that the search did not ask, and never a remote source: its list does
// not have CRCs.
int acquire_find_compatible(struct acquire *o, struct err *err);
// Into the store and unpacked; a damaged one in the store is quarantined and fetched again. ret.dir has the files.
int acquire_take(struct acquire *o, struct package *ret, struct err *err);
// Unpacks what was found without a trace in the store, if it is on this machine: in the store or in a layout. 1 =
// ret.dir has the files, 0 = it is elsewhere.
int acquire_peek(struct acquire *o, struct package *ret, struct err *err);
// The payload of a driver version: what the image carries, then the store, what images before carried, the sources. 1 =
// .payload names it; 0 = there is none, and *ret_why (caller frees). is_local: no source is asked. Nothing is fetched.
int acquire_find_payload(struct acquire *o, const char *driver, bool is_local, char **ret_why, struct err *err);
// Unpacks the payload to payloads/HEX of the state directory; one from a source goes into the store, too. .payload is
// its final digest. 1 = it was fetched or copied, 0 = it was there. A damaged layer in the store is quarantined and
// fetched again.
int acquire_payload(struct acquire *o, const char *driver, struct err *err);
// The sources that came with the user space of a driver, as NVIDIA's .run has both: of what the image carries, else of
// what this node keeps; no source is asked. Unpacks it. 1 = *ret_path, caller frees; 0 = there are none.
int acquire_payload_source(struct acquire *o, const char *driver, char **ret_path, struct err *err);
// compile_request.builder: the root of the builder image from the store or the sources, else one of .fetch.builders,
// unpacked at builders/HEX of the state directory; a damaged one in the store is quarantined and fetched again. It
// stays until acquire_done(); unused others are removed.
int acquire_builder(void *acquire, const char *compiler, struct root *ret, struct err *err);
// Of the store's one for this tree's compiler: 1 = nothing is known against it, 0 = there is none. E_TOOLCHAIN: it lies
// unpacked, and lacks what kbuild's programs need.
int acquire_judge_builder(const struct root *state, const struct tree *tree, struct err *err);
// Where a kernel's headers come from when the host has none (R-A1): those that were packed, from the store and the
// sources; last of all the repositories that the host itself uses. Borrowed from acquire, whose members must be set.
const struct headers_offer *acquire_headers_offer(struct acquire *o);
// Cores of open releases that others compiled: from the store, else from the sources into it, trusted as packages are.
// Whatever is wrong with one is noted, and the compile goes on without it. Borrowed from acquire.
const struct core_offer *acquire_core_offer(struct acquire *o);
