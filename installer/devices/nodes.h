// SPDX-License-Identifier: Apache-2.0
// Device nodes below dev/ and their links in dev/char (R-G1 to R-G4).
//
// devices_want() lists the nodes that the loaded driver needs: majors from proc/devices only, minors, modes and
// owners from proc/driver/nvidia*. devices_apply() brings a dev tree into that state and changes nothing that is
// right already. Nodes of an optional module that is not loaded are not listed.
#pragma once
#include "base/process/sys.h"

enum device_verdict {
	NODE_UNSEEN, // not compared yet
	NODE_OK,     // right node, right link
	NODE_CREATED,
	NODE_CORRECTED, // mode, owner, type, number or link were wrong
	NODE_MISSING,   // not made: dry run, or the driver forbids changes (ModifyDeviceFiles=0)
	NODE_WRONG,     // not corrected, for the same reasons; see why
};

struct device_node {
	char *path; // below dev/: "nvidia0", "nvidia-caps/nvidia-cap1"
	unsigned major, minor;
	unsigned mode; // permission bits
	unsigned uid, gid;
	bool may_modify; // the driver allows us to make or change it; links in dev/char are always made
	enum device_verdict verdict;
	const char *why; // of CORRECTED, MISSING, WRONG: "type", "number", "mode", "owner", "link"; else NULL
};

struct devices {
	struct device_node *items; // sorted by path, natural order
	size_t count;
	size_t changes; // system calls that changed something in the last devices_apply()
};

// IMEX channels: the name of their directory below dev/ and in proc/devices, and how many a driver has at most.
#define IMEX_DIR "nvidia-caps-imex-channels"
enum { IMEX_CHANNELS = 1 << 20 };

// 1 = the driver is loaded, 0 = it is not: empty list. imex_channels: number of IMEX channel nodes, 0 = none (R-P5).
int devices_want(const struct root *kern, unsigned imex_channels, struct devices *ret, struct err *err);
void devices_done(struct devices *d);
#define auto_devices __attribute__((cleanup(devices_done)))

// Compares every node and its link with what is below dev_root/dev and, unless is_dry, corrects it. dev_root is the
// directory that holds dev/ ("/", "/run/nvidia/driver"); nothing outside dev_root/dev is touched. Links are relative
// ("../nvidia0"), as nvidia-modprobe makes them; a link with another target that leads to the same node stays. A
// node of the wrong type or number is replaced through a temporary name. Fills verdicts. 1 = something was changed,
// 0 = nothing; E_NODES names the first node that could not be made, after trying them all.
int devices_apply(const struct root *dev_root, const struct sys *sys, bool is_dry, struct devices *d, struct err *err);

unsigned devices_major(const char *proc_devices, const char *name); // of a character device; 0 = it has none
void devices_sort(struct devices *d);
size_t devices_count_bad(const struct devices *d);      // nodes that are MISSING or WRONG
const char *device_verdict_name(enum device_verdict v); // "ok", "created", "corrected", "missing", "wrong", "unseen"
