// SPDX-License-Identifier: Apache-2.0
#include "node/rights.h"

#include <linux/capability.h>

static const struct {
	unsigned bit;
	unsigned use; // RIGHTS_DRIVER: always
	const char *text;
} rights[] = {
	{ CAP_SYS_MODULE, RIGHTS_DRIVER, "CAP_SYS_MODULE (to load and unload modules)" },
	{ CAP_MKNOD, RIGHTS_DRIVER, "CAP_MKNOD (to make device nodes)" },
	{ CAP_SYS_ADMIN, RIGHTS_MOUNTS, "CAP_SYS_ADMIN (to mount the driver's root)" },
	{ CAP_SYS_PTRACE, RIGHTS_HOLDERS, "CAP_SYS_PTRACE (to see which processes hold the driver)" },
};

int rights_missing(const struct root *kern, unsigned uses, struct strv *ret, struct err *err)
{
	auto_str char *status = NULL;
	int r = root_read(kern, "proc/self/status", &status, NULL, err);
	if (r <= 0)
		return r;
	const char *line = strstr(status, "CapEff:");
	uint64_t caps = line ? strtoull(line + strlen("CapEff:"), NULL, 16) : 0;
	for (size_t i = 0; i < ARRAY_SIZE(rights); i++)
		if ((!rights[i].use || (uses & rights[i].use)) && !(caps >> rights[i].bit & 1))
			strv_add(ret, str_dup(rights[i].text));
	return ret->count > 0;
}
