// SPDX-License-Identifier: Apache-2.0
// What the verbs of `kmodsmith store` share: their options, the store, and the packages in it.
#pragma once
#include "cmd/common/job.h"
#include "precompiled/package/package.h"
#include "precompiled/store/store.h"
#include "precompiled/trust/provenance.h"

struct store_values { // first member of the values of each
	struct common common;
	char *state_dir, *limit, *trust_dir;
};
extern const struct opt store_opts[];

struct depot {
	struct machine machine;
	struct job_spare spare;
	struct root state;
	struct store store;
	struct store_roots roots;
	struct index index;
};
#define DEPOT_NONE                                                            \
	((struct depot){ .machine = { .host = ROOT_NONE, .kern = ROOT_NONE }, \
			 .spare = JOB_SPARE_NONE,                             \
			 .state = ROOT_NONE,                                  \
			 .store = STORE_NONE })
int depot_open(const struct store_values *values, struct depot *ret, struct err *err);
// Without roots and index, for what can mend them.
int depot_open_unread(const struct store_values *values, struct depot *ret, struct err *err);
void depot_done(struct depot *d);
#define auto_depot __attribute__((cleanup(depot_done)))
// A tag, sha256:HEX or HEX. E_NOT_FOUND, also when it is no package.
int depot_find(const struct depot *d, const char *ref, struct package *ret, struct err *err);
// Who vouches for a package, and whether they are still believed.
struct vouching {
	struct provenance provenance;
	struct err why; // .code 0 = they are
};
#define auto_vouching __attribute__((cleanup(vouching_done)))
void vouching_read(const struct depot *d, const struct trust_now *trust, const char *hex, struct vouching *ret);
void vouching_done(struct vouching *v);
char *vouching_text(const struct vouching *v);
json_t *vouching_json(const struct vouching *v);
char *depot_roots(const struct depot *d, const char *hex); // "target, pinned"; "" = none
