// SPDX-License-Identifier: Apache-2.0
// tests/vm/44-rights.sh shows what fails without each of them, tests/unit/sandbox_test.c for the compile. Not
// measured separately: DAC_READ_SEARCH, SYS_CHROOT (setns(2) requires it), and what the daemons need.
// What the daemons need is in nvidia-persistenced's README and --user option (it drops root by itself and keeps
// CAP_SYS_ADMIN to set the persistence mode), and follows from NVIDIA's fabric manager, which runs as root.
#include "host/capabilities.h"

#include "base/process/capabilities.h"

#include <linux/capability.h>

enum kept { DROPPED, KEPT, WITH_DAEMONS }; // once the driver is ready

static const struct {
	unsigned bit;
	unsigned uses;
	enum kept kept;
	const char *why;
} rights[] = {
	{ CAP_SYS_MODULE, CAPABILITY_DRIVER, KEPT, "to load and unload modules" },
	{ CAP_MKNOD, CAPABILITY_DRIVER, DROPPED, "to make device nodes" },
	{ CAP_SYS_ADMIN, CAPABILITY_MOUNTS | CAPABILITY_COMPILE | CAPABILITY_DAEMONS, KEPT,
	  "to mount the driver root and to sandbox a compile" },
	{ CAP_SYS_CHROOT, CAPABILITY_MOUNTS, KEPT, "to mount in the host's mount namespace" },
	{ CAP_SYS_PTRACE, CAPABILITY_HOLDERS, KEPT, "to see which processes hold the driver, and the host's root" },
	{ CAP_DAC_READ_SEARCH, CAPABILITY_HOLDERS, KEPT, "to list the open files of other users' processes" },
	{ CAP_KILL, CAPABILITY_STOP | CAPABILITY_COMPILE | CAPABILITY_DAEMONS, KEPT,
	  "to stop holders, daemons, and a compile that runs too long" },
	{ CAP_CHOWN, CAPABILITY_COMPILE | CAPABILITY_DAEMONS, WITH_DAEMONS,
	  "to give a compile and a daemon their own files" },
	{ CAP_SETUID, CAPABILITY_COMPILE | CAPABILITY_DAEMONS, WITH_DAEMONS,
	  "to run a compile and daemons as ordinary users" },
	{ CAP_SETGID, CAPABILITY_COMPILE | CAPABILITY_DAEMONS, WITH_DAEMONS,
	  "to run a compile and daemons as ordinary users" },
	{ CAP_SETPCAP, CAPABILITY_COMPILE, DROPPED, "to drop the capabilities of a compile, and its own when ready" },
};

int capabilities_missing(const struct root *kern, unsigned uses, struct strv *ret, struct err *err)
{
	auto_str char *status = NULL;
	int r = root_read(kern, "proc/self/status", &status, NULL, err);
	if (r <= 0)
		return r;
	const char *line = strstr(status, "CapEff:");
	uint64_t caps = line ? strtoull(line + strlen("CapEff:"), NULL, 16) : 0;
	for (size_t i = 0; i < ARRAY_SIZE(rights); i++)
		if (uses & rights[i].uses && !(caps & CAPS_BIT(rights[i].bit)))
			strv_add(ret, str_fmt("%s (%s)", caps_name(rights[i].bit), rights[i].why));
	return ret->count > 0;
}

int capabilities_drop(bool has_daemons, unsigned uses, char **ret_dropped, struct err *err)
{
	uint64_t keep = 0, dropped = 0;
	for (size_t i = 0; i < ARRAY_SIZE(rights); i++)
		if (rights[i].kept == KEPT || (has_daemons && rights[i].kept == WITH_DAEMONS) || uses & rights[i].uses)
			keep |= CAPS_BIT(rights[i].bit);
	if (caps_keep(keep, &dropped, err) < 0)
		return err_wrap(err, "drop the capabilities that are no longer needed");
	*ret_dropped = caps_text(dropped);
	return 0;
}

json_t *capabilities_json(void)
{
	static const char *const kept[] = { "no", "always", "with daemons" };
	json_t *list = json_array();
	for (size_t i = 0; i < ARRAY_SIZE(rights); i++)
		json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "capability", caps_name(rights[i].bit), "why",
						      rights[i].why, "kept", kept[rights[i].kept]));
	return list;
}
