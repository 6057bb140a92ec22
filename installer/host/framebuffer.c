// SPDX-License-Identifier: Apache-2.0
#include "host/framebuffer.h"

static const char devices[] = "sys/bus/platform/devices";

// Sources: drivers/firmware/sysfb_simplefb.c, drivers/video/fbdev/{simplefb,efifb,vesafb}.c, drivers/gpu/drm/sysfb.
static const struct {
	const char *region, *device;
} regions[] = {
	{ "BOOTFB", "simple-framebuffer" }, { "simplefb", "simple-framebuffer" }, { "simpledrm", "simple-framebuffer" },
	{ "efifb", "efi-framebuffer" },     { "efidrm", "efi-framebuffer" },      { "vesafb", "vesa-framebuffer" },
	{ "vesadrm", "vesa-framebuffer" },
};

static const char *region_device(const char *region)
{
	for (size_t i = 0; i < ARRAY_SIZE(regions); i++)
		if (str_starts(region, regions[i].region) || str_starts(region, regions[i].device))
			return regions[i].device;
	return NULL;
}

// Lines "    e0000000-e0ffffff : 0000:40:00.0", two blanks a level.
const char *framebuffer_below(const char *iomem, const char *address)
{
	auto_strv struct strv lines = { 0 };
	size_t depth = 0; // of the function, + 1; 0 = not below it
	strv_split(&lines, iomem, "\n");
	for (size_t i = 0; i < lines.count; i++) {
		size_t here = strspn(lines.items[i], " ");
		const char *name = strstr(lines.items[i], " : ");
		if (!name)
			continue;
		if (depth && here < depth)
			depth = 0;
		if (depth && region_device(name + 3))
			return region_device(name + 3);
		if (!depth && str_eq(name + 3, address))
			depth = here + 1;
	}
	return NULL;
}

// "efi-framebuffer.0", when a driver is bound to it.
static char *bound_device(const struct root *kern, const struct strv *names, const char *device)
{
	for (size_t i = 0; i < names->count; i++) {
		auto_str char *driver = str_fmt("%s/%s/driver", devices, names->items[i]);
		struct stat st;
		struct err err;
		if (str_starts(names->items[i], device) && root_stat(kern, driver, &st, &err) > 0)
			return str_dup(names->items[i]);
	}
	return NULL;
}

static bool has_framebuffer(const struct strv *names)
{
	for (size_t i = 0; i < names->count; i++)
		if (strstr(names->items[i], "-framebuffer"))
			return true;
	return false;
}

void framebuffer_find(const struct root *kern, struct gpus *g)
{
	struct err err;
	auto_strv struct strv names = { 0 };
	auto_str char *iomem = NULL;
	if (!g->count || root_list(kern, devices, &names, &err) <= 0 || !has_framebuffer(&names) ||
	    root_read(kern, "proc/iomem", &iomem, NULL, &err) <= 0)
		return;
	for (size_t i = 0; i < g->count; i++) {
		const char *device = gpu_is_ours(&g->items[i]) ? framebuffer_below(iomem, g->items[i].address) : NULL;
		if (device)
			g->items[i].framebuffer = bound_device(kern, &names, device);
	}
}
