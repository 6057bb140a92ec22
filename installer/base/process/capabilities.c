// SPDX-License-Identifier: Apache-2.0
#include "base/process/capabilities.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static const char *const names[] = {
	[CAP_CHOWN] = "CAP_CHOWN",
	[CAP_DAC_OVERRIDE] = "CAP_DAC_OVERRIDE",
	[CAP_DAC_READ_SEARCH] = "CAP_DAC_READ_SEARCH",
	[CAP_FOWNER] = "CAP_FOWNER",
	[CAP_FSETID] = "CAP_FSETID",
	[CAP_KILL] = "CAP_KILL",
	[CAP_SETGID] = "CAP_SETGID",
	[CAP_SETUID] = "CAP_SETUID",
	[CAP_SETPCAP] = "CAP_SETPCAP",
	[CAP_LINUX_IMMUTABLE] = "CAP_LINUX_IMMUTABLE",
	[CAP_NET_BIND_SERVICE] = "CAP_NET_BIND_SERVICE",
	[CAP_NET_BROADCAST] = "CAP_NET_BROADCAST",
	[CAP_NET_ADMIN] = "CAP_NET_ADMIN",
	[CAP_NET_RAW] = "CAP_NET_RAW",
	[CAP_IPC_LOCK] = "CAP_IPC_LOCK",
	[CAP_IPC_OWNER] = "CAP_IPC_OWNER",
	[CAP_SYS_MODULE] = "CAP_SYS_MODULE",
	[CAP_SYS_RAWIO] = "CAP_SYS_RAWIO",
	[CAP_SYS_CHROOT] = "CAP_SYS_CHROOT",
	[CAP_SYS_PTRACE] = "CAP_SYS_PTRACE",
	[CAP_SYS_PACCT] = "CAP_SYS_PACCT",
	[CAP_SYS_ADMIN] = "CAP_SYS_ADMIN",
	[CAP_SYS_BOOT] = "CAP_SYS_BOOT",
	[CAP_SYS_NICE] = "CAP_SYS_NICE",
	[CAP_SYS_RESOURCE] = "CAP_SYS_RESOURCE",
	[CAP_SYS_TIME] = "CAP_SYS_TIME",
	[CAP_SYS_TTY_CONFIG] = "CAP_SYS_TTY_CONFIG",
	[CAP_MKNOD] = "CAP_MKNOD",
	[CAP_LEASE] = "CAP_LEASE",
	[CAP_AUDIT_WRITE] = "CAP_AUDIT_WRITE",
	[CAP_AUDIT_CONTROL] = "CAP_AUDIT_CONTROL",
	[CAP_SETFCAP] = "CAP_SETFCAP",
	[CAP_MAC_OVERRIDE] = "CAP_MAC_OVERRIDE",
	[CAP_MAC_ADMIN] = "CAP_MAC_ADMIN",
	[CAP_SYSLOG] = "CAP_SYSLOG",
	[CAP_WAKE_ALARM] = "CAP_WAKE_ALARM",
	[CAP_BLOCK_SUSPEND] = "CAP_BLOCK_SUSPEND",
	[CAP_AUDIT_READ] = "CAP_AUDIT_READ",
	[CAP_PERFMON] = "CAP_PERFMON",
	[CAP_BPF] = "CAP_BPF",
	[CAP_CHECKPOINT_RESTORE] = "CAP_CHECKPOINT_RESTORE",
};

enum { WORD = 32, SET_MOST = 64 };

const char *caps_name(unsigned cap)
{
	return cap < ARRAY_SIZE(names) ? names[cap] : NULL;
}

char *caps_text(uint64_t set)
{
	char *text = str_dup("");
	for (unsigned cap = 0; cap < SET_MOST; cap++) {
		if (!(set & CAPS_BIT(cap)))
			continue;
		str_add(&text, "%s", *text ? ", " : "");
		if (caps_name(cap))
			str_add(&text, "%s", caps_name(cap));
		else
			str_add(&text, "%u", cap);
	}
	return text;
}

int caps_keep(uint64_t keep, uint64_t *ret_dropped, struct err *err)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct now[_LINUX_CAPABILITY_U32S_3] = { 0 };
	if (syscall(SYS_capget, &header, now) < 0)
		return err_set(err, errno, "read the capabilities of this process");
	// The bounding set before the permitted set shrinks, because it takes CAP_SETPCAP. Without that the set stays,
	// and no_new_privs keeps programs from gaining by it.
	for (unsigned cap = 0; cap < SET_MOST && prctl(PR_CAPBSET_READ, (unsigned long)cap, 0, 0, 0) >= 0; cap++)
		if (!(keep & CAPS_BIT(cap)) && prctl(PR_CAPBSET_DROP, (unsigned long)cap, 0, 0, 0) < 0 &&
		    errno != EPERM)
			return err_set(err, errno, "drop capability %u from the bounding set", cap);
	uint64_t had = (uint64_t)now[1].permitted << WORD | now[0].permitted, kept = had & keep;
	const struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {
		{ .effective = (uint32_t)kept, .permitted = (uint32_t)kept },
		{ .effective = (uint32_t)(kept >> WORD), .permitted = (uint32_t)(kept >> WORD) },
	};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_set(err, errno, "set no_new_privs");
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return err_set(err, errno, "clear the ambient capabilities");
	if (syscall(SYS_capset, &header, data) < 0)
		return err_set(err, errno, "drop capabilities");
	*ret_dropped = had & ~kept;
	return 0;
}

int caps_leave(struct err *err)
{
	enum { NOBODY = 65534 };
	uint64_t dropped;
	if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setgid(NOBODY) < 0 || setuid(NOBODY) < 0) && errno != EPERM)
		return err_set(err, errno, "become the user nobody");
	return caps_keep(0, &dropped, err);
}
