// SPDX-License-Identifier: Apache-2.0
// NVIDIA's errors (Xid) as the kernel log has them, counted by GPU and number since the boot, and since the driver was
// loaded: run/kmodsmith/xid.json, and metrics/xid.prom beside it. What each number means: xid_table.c.
//
// Facts: NVIDIA/open-gpu-kernel-modules, src/nvidia/src/kernel/gpu/rc/kernel_rc.c: the text begins with
// "NVRM: Xid (PCI:%04x:%02x:%02x): %d,", and before the closing bracket has " GPU-I:%02u" and " GPU-CI:%02u" of a MIG
// instance; gpu/gpu.c: an Xid 154 ends with "changed from 0x%x (%s) to 0x%x (%s)", 0x0 is no action;
// kernel-open/nvidia/nv.c: "NVRM: loading %s" at each load of the module. Linux, Documentation/ABI/testing/dev-kmsg: a
// record is "PRIORITY,SEQUENCE,MICROSECONDS,FLAGS;TEXT", PRIORITY / 8 is the facility, and 0, the kernel's, is not for
// processes.
#pragma once
#include "base/file/root.h"

enum { XIDS_MOST = 512 }; // pairs of GPU and number; more are not counted one by one
struct xid_count {
	char gpu[16]; // "0000:3b:00.0"
	unsigned xid;
	unsigned long count;
	unsigned long loaded; // of them since the driver was loaded; of 154: 0 = no recovery action is due
};
struct xids {
	struct xid_count items[XIDS_MOST];
	size_t count;
	unsigned long others; // in excess of XIDS_MOST
	uint64_t next;        // sequence number of the record to read next
};
bool xids_take(struct xids *x, const char *record, size_t len); // true: what is to be written has changed

// What a number means, and what to do.
#define XID_SOURCE "https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, as of November 2026"
enum xid_class {
	XID_OTHER,       // says nothing about the driver or the hardware by itself
	XID_APPLICATION, // what a process did; the GPU survives it
	XID_HARDWARE,    // happens whatever the driver is
	XID_DRIVER,      // its firmware hangs or fails, or does not start: speaks against the driver
	XID_RECOVERY,    // the driver itself says what the GPU needs: more than any table knows
};
struct xid_info {
	unsigned xid;
	enum xid_class class;
	const char *text, *next;
};
const struct xid_info *xid_info(unsigned xid); // NULL = not in our table
enum xid_class xid_class(unsigned xid);        // XID_OTHER = nor is it there

// 1 = of this boot, 0 = there was none: *ret is empty.
int xids_read(const struct root *host, const char *boot_id, struct xids *ret, struct err *err);
// The record, and the metrics, which are removed if they cannot be written.
int xids_write(const struct root *host, const char *boot_id, const struct xids *x, struct err *err);
