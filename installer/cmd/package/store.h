// SPDX-License-Identifier: Apache-2.0
// The store as the `store` and `trust` commands open it, and whether a package in it is still trusted.
#pragma once
#include "cmd/common/job.h"
#include "precompiled/package/package.h"
#include "precompiled/store/store.h"
#include "precompiled/trust/provenance.h"

struct store_values { // first member of the values of each command
	struct common common;
	char *state_dir, *limit, *trust_dir;
};

struct store_session {
	struct machine machine;
	struct job_temp_state spare;
	struct root state;
	struct store store;
	struct store_roots roots;
	struct oci_index index;
};
#define STORE_SESSION_NONE       \
	((struct store_session){ \
		.machine = MACHINE_NONE, .spare = JOB_TEMP_STATE_NONE, .state = ROOT_NONE, .store = STORE_NONE })
int store_session_open(const struct store_values *values, struct store_session *ret, struct err *err);
void store_session_done(struct store_session *d);
#define auto_store_session __attribute__((cleanup(store_session_done)))

// Who vouches for a package, and whether they are still trusted.
struct package_trust {
	struct provenance provenance;
	struct err why; // .code 0 = still trusted
};
#define auto_package_trust __attribute__((cleanup(package_trust_done)))
void package_trust_read(const struct store_session *d, const struct trust_now *trust, const char *hex,
			struct package_trust *ret);
void package_trust_done(struct package_trust *v);
