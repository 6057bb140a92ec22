// SPDX-License-Identifier: Apache-2.0
// What the machine is: facts about the running kernel and the host, read from files only, so that a recorded machine
// is a folder (R-F4: the kernel is always resolved on the node; R-C1: signing state is known before anything is
// compiled).
//
// host = the machine's files (lib/modules, boot, usr, etc); kern = where proc and sys are seen. Both may be the same.
// A fact that the machine does not state is NULL, 0 or *_UNKNOWN; only a kernel without a release or banner is an
// error.
#pragma once
#include "base/file/digest.h"
#include "base/file/root.h"

enum host_secure_boot {
	SECURE_BOOT_UNKNOWN, // EFI, but efivarfs is not visible here
	SECURE_BOOT_OFF,     // the variable says so, or the machine did not boot through EFI
	SECURE_BOOT_ON,
};

enum host_lockdown {
	LOCKDOWN_UNKNOWN /* securityfs not visible */,
	LOCKDOWN_NONE,
	LOCKDOWN_INTEGRITY,
	LOCKDOWN_CONFIDENTIALITY
};

struct host {
	char *release;                 // proc/sys/kernel/osrelease
	char *banner;                  // proc/version, without the newline
	char build_id[DIGEST_HEX + 1]; // SHA-256 of banner: distinguishes kernels with the same release
	char *arch;      // "x86_64", "aarch64": proc/sys/kernel/arch (6.1+), else the ELF machine of the host's
			 // shell, else uname(2), which is right for everything but a recorded machine
	char *boot_id;   // proc/sys/kernel/random/boot_id
	uint64_t taint;  // proc/sys/kernel/tainted, bit mask
	char *distro_id; // os-release ID and VERSION_ID: for messages, never for a decision
	char *distro_version;
	enum host_secure_boot secure_boot; // efivars SecureBoot-8be4df61-..., byte 4
	enum host_lockdown lockdown;       // sys/kernel/security/lockdown
	bool is_sig_enforced;              // sys/module/module/parameters/sig_enforce
	// Build tree for release, as a path below the host root: lib/modules/R/build, usr/src/linux-headers-R,
	// usr/src/kernels/R; the first that resolves inside the root to a tree with a Makefile and a generated
	// autoconf.h. NULL = none (R-A7).
	char *headers;
	struct strv compilers;     // names in usr/bin of the host: gcc, gcc-NN, clang, clang-NN, TRIPLET-gcc-NN; sorted
	unsigned nproc;            // processors this process may run on (proc/self/status), else online ones; >= 1
	unsigned cpu_max_milli;    // tightest cgroup quota above this process in 1/1000 processors; 0 = none
	uint64_t memory_max_bytes; // tightest cgroup limit above this process; 0 = none
	uint64_t memory_total_bytes; // proc/meminfo MemTotal; 0 = unknown
	// Text of the kernel configuration, for callers that fill it with host_read_config(). host_read() leaves it
	// NULL: a start that changes nothing has 50 ms (P1).
	char *config;
	char *config_source; // the file it came from
};

int host_read_release(const struct root *kern, char **ret, struct err *err); // of the running kernel, no more
int host_read(const struct root *host, const struct root *kern, struct host *ret, struct err *err);
void host_done(struct host *h);
#define auto_host __attribute__((cleanup(host_done)))

// KEY of the host's os-release(5), without its quotes; NULL = it has none. Caller frees.
char *host_os_release(const struct root *host, const char *key);

// The configuration of kernel `release`: proc/config.gz when it is the running one, then boot/config-R,
// lib/modules/R/config, lib/modules/R/build/.config. 1 = found, 0 = nowhere. ret_source may be NULL.
int host_read_config(const struct root *host, const struct root *kern, const char *release, char **ret,
		     char **ret_source, struct err *err);
// Value of CONFIG_X in a configuration's text: "y", "m", a number, a string without its quotes; NULL where it is unset,
// or there is no text.
char *host_config(const char *config, const char *name);

// Why this kernel loads signed modules only ("module.sig_enforce is on", "lockdown is integrity"), or NULL (R-C1).
const char *host_signing_reason(const struct host *h);
const char *host_secure_boot_name(enum host_secure_boot s); // "on", "off", "unknown"
const char *host_lockdown_name(enum host_lockdown l);       // "none", "integrity", "confidentiality", "unknown"
