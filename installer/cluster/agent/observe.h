// SPDX-License-Identifier: Apache-2.0
// What a node has, in a policy's terms: which target hash is loaded, which ones are staged, and which processes hold
// the driver. Asked of the kernel and the store each time; journals only tell which of several names fits best.
#pragma once
#include "base/file/root.h"
#include "cluster/node_state/target.h"

enum { AGENT_STORED = 3, AGENT_UNKNOWN = -1 };

struct agent_facts {
	bool is_known;   // the rest was read
	bool is_foreign; // the loaded driver is not ours
	bool is_empty;   // no driver is loaded
	struct target_hash loaded;
	struct target_hash store[AGENT_STORED]; // whole on the disk, for the kernel that runs
	char version[WORD_TEXT];                // of what is loaded
	char srcversion[WORD_TEXT], release[64];
};

struct agent_holders {
	bool is_published, is_coarse; // coarse: 0 or 1, without names
	int count;                    // AGENT_UNKNOWN: it could not be found out
	unsigned generation;
	struct strv pods; // uids
};

struct agent_paths {
	const struct root *host, *kern, *state; // borrowed
	const struct strv *params; // that every load here gets, whatever a policy says; as --param has them
	const char *trust_dir;     // by which packages on the disk are judged, as of trust_dir()
	bool is_unverified;        // they are not (--insecure-skip-verify)
};

// names: what the node may have, first what was ordered last or worked before. What is loaded and has none of these
// gets one, of which *ret_new is made (.driver "" = it did not), so that it can be brought back; caller releases it.
int agent_read_facts(const struct agent_paths *at, const struct target *const *names, size_t count,
		     struct agent_facts *ret, struct target *ret_new, struct err *err);

// How many hold it, and whose pods; our own daemons do not count. Never fails: what is not known is AGENT_UNKNOWN.
// generation counts up where it differs from what ret held.
void agent_read_holders(const struct agent_paths *at, struct agent_holders *ret);
void agent_holders_done(struct agent_holders *h);
