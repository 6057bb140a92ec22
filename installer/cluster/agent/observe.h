// SPDX-License-Identifier: Apache-2.0
// What a node has, in a policy's terms: which target is loaded, which ones are staged, and which processes hold the
// driver. Read from the kernel and the store each time; the journal only decides which of several names fits best.
#pragma once
#include "base/process/node.h"
#include "cluster/node_state/gpu_report.h"

enum { AGENT_STORED = 3, AGENT_UNKNOWN = -1 };

struct agent_facts {
	bool is_known;   // the members below were read
	bool is_foreign; // the loaded driver is not ours
	bool is_empty;   // no driver is loaded
	struct target_hash loaded;
	struct target_hash store[AGENT_STORED]; // complete on the disk, for the running kernel
	char version[WORD_TEXT];                // of what is loaded
	char srcversion[WORD_TEXT], release[64];
	struct gpu_report gpus;
};

struct agent_holders {
	bool is_published, is_coarse; // coarse: 0 or 1, without names
	int count;                    // AGENT_UNKNOWN: could not be determined
	unsigned generation;
	struct strv pods; // uids
};

struct agent_paths {
	const struct node *node;   // borrowed
	const struct strv *params; // of every load here, in addition to the policy's; as --param takes them
	const char *trust_dir;     // against which packages on the disk are verified, see trust_dir()
	bool is_unverified;        // not verified (--insecure-skip-verify)
};

// names: what the node may have; first what was ordered last or worked before. A loaded driver that is none of them is
// described by *ret_new, so that it can be restored (.driver "": not needed). Caller releases it.
int agent_read_facts(const struct agent_paths *at, const struct target *const *names, size_t count,
		     struct agent_facts *ret, struct target *ret_new, struct err *err);

struct facts;
void agent_read_gpus(const struct root *host, const struct root *kern, const struct facts *facts,
		     struct gpu_report *ret);

// How many processes hold the driver, and their pods, without our own daemons. Never fails: AGENT_UNKNOWN if it cannot
// be determined. generation counts up if the result differs from what ret had.
void agent_read_holders(const struct agent_paths *at, struct agent_holders *ret);
void agent_holders_done(struct agent_holders *h);
