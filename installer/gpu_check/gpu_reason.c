// SPDX-License-Identifier: Apache-2.0
// Why a GPU did not start. One table, read from the top: the first row whose text is in one of the kernel's lines
// decides. Texts are those of NVIDIA/open-gpu-kernel-modules (src/nvidia/arch/nvalloc/unix/src/osinit.c, kernel_gsp.c)
// and of the kernel's firmware loader; the first number of "RmInitAdapter failed! (0x62:0x40:...)" is the step, of
// osinit.c too: 0x2x the GPU itself, 0x30 its VBIOS, 0x61 reading the firmware, 0x62 booting it.
#include "gpu_check/gpu_start.h"

#include <errno.h>

static const struct {
	const char *line, *text;
	bool is_reset_due;
} reasons[] = {
	{ "WPR2 already up", "it needs a reset: its firmware is up already", true },
	{ "fallen off the bus", "it has fallen off the bus", true },
	{ "necessary power cables", "its power cables are not connected", true },
	{ "Direct firmware load for nvidia/", "its GSP firmware is missing", false },
	{ "No firmware image found", "its GSP firmware is missing", false },
	{ "failed! (0x61:", "its GSP firmware cannot be read", false },
	{ "failed! (0x62:", "GSP firmware did not boot", false },
	{ "failed! (0x30:", "its VBIOS cannot be read", false },
	{ "failed! (0x2", "the GPU does not respond as it should", false },
};

// The driver complains of this at each look at a GPU that was not started yet; it means nothing.
static bool is_noise(const char *line)
{
	return strstr(line, "UUID cache not valid") != NULL;
}

// A line of another GPU's.
static bool is_of_other(const char *line, const char *address)
{
	const char *gpu = strstr(line, "GPU 0");
	return gpu && !strstr(line, address);
}

static const char *find_line(const struct strv *lines, const char *address, const char *text)
{
	const char *last = NULL;
	for (size_t i = 0; i < lines->count; i++) {
		const char *line = lines->items[i];
		if (is_noise(line) || is_of_other(line, address))
			continue;
		if (text ? strstr(line, text) != NULL : str_starts(line, "NVRM: "))
			last = line;
	}
	return last;
}

// "RmInitAdapter 0x62:0x40:2028" for whoever searches for it; else the line itself.
static char *evidence(const struct strv *lines, const char *address, const char *line)
{
	static const char mark[] = "RmInitAdapter failed! (";
	const char *failed = find_line(lines, address, mark), *numbers = failed ? strstr(failed, mark) : NULL;
	if (!numbers)
		return str_fmt("kernel: %.200s", line);
	numbers += strlen(mark);
	return str_fmt("RmInitAdapter %.*s", (int)strcspn(numbers, ")"), numbers);
}

void gpu_start_explain(const char *address, int error, const struct strv *lines, struct gpu_result *ret)
{
	const char *name = strerrorname_np(error), *line = NULL;
	size_t i = 0;
	free(ret->reason);
	while (i < ARRAY_SIZE(reasons) && !(line = find_line(lines, address, reasons[i].line)))
		i++;
	ret->outcome = GPU_BROKEN;
	if (i < ARRAY_SIZE(reasons)) {
		auto_str char *seen = evidence(lines, address, line);
		ret->is_reset_due = reasons[i].is_reset_due;
		ret->reason = str_fmt("%s (%s)", reasons[i].text, seen);
	} else if ((line = find_line(lines, address, NULL))) {
		ret->reason = str_fmt("it does not start (%s; kernel: %.200s)", name ? name : "?", line);
	} else if (error == EPERM || error == EACCES) {
		ret->outcome = GPU_UNTESTED; // of a container's device rules, or another process's rights
		ret->reason = str_fmt("its node cannot be opened here (%s)", name);
	} else if (error == ENOENT) {
		ret->outcome = GPU_UNTESTED;
		ret->reason = str_dup("it has no node here");
	} else if (error == EBUSY) {
		ret->outcome = GPU_UNTESTED;
		ret->reason = str_dup("it is drained, or being removed (EBUSY)");
	} else {
		ret->reason =
			str_fmt("it does not start (%s), and the kernel's log does not say why", name ? name : "?");
	}
}
