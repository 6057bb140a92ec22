// SPDX-License-Identifier: Apache-2.0
#include "host/pci.h"

#include <stdio.h>

static const char platform_devices[] = "sys/bus/platform/devices";

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

// The platform device of the firmware's framebuffer, if that lies in the memory of this GPU: its driver claims a part
// of the GPU's BAR, which proc/iomem shows as a line nested under the GPU's. NULL = none.
// Lines "    e0000000-e0ffffff : 0000:40:00.0", two blanks a level.
static const char *framebuffer_device(const char *iomem, const char *address)
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
		auto_str char *driver = str_fmt("%s/%s/driver", platform_devices, names->items[i]);
		struct stat st;
		struct err err;
		if (str_starts(names->items[i], device) && root_stat(kern, driver, &st, &err) > 0)
			return str_dup(names->items[i]);
	}
	return NULL;
}

// Fills framebuffer of each GPU. If nothing can be read, there is none.
static void find_framebuffers(const struct root *kern, struct gpus *g)
{
	struct err err;
	size_t some = 0;
	auto_strv struct strv names = { 0 };
	auto_str char *iomem = NULL;
	if (!g->count || root_list(kern, platform_devices, &names, &err) <= 0)
		return;
	while (some < names.count && !strstr(names.items[some], "-framebuffer"))
		some++;
	if (some == names.count || root_read(kern, "proc/iomem", &iomem, NULL, &err) <= 0)
		return;
	for (size_t i = 0; i < g->count; i++) {
		struct gpu *gpu = &g->items[i];
		const char *device = gpu_is_ours(gpu) ? framebuffer_device(iomem, gpu->address) : NULL;
		if (device)
			gpu->framebuffer = bound_device(kern, &names, device);
	}
}

static const char devices[] = "sys/bus/pci/devices";

static bool read_pci_attribute(const struct root *kern, const char *address, const char *name, uint64_t *ret)
{
	struct err err;
	auto_str char *path = str_fmt("%s/%s/%s", devices, address, name), *text = NULL;
	return root_line(kern, path, &text, &err) > 0 && str_u64(text, 0, ret);
}

// vfio-pci and its variants; pci-stub and Xen's pciback, which keep a function for a guest, too.
static bool is_for_guests(const char *driver)
{
	return strstr(driver, "vfio") || str_eq(driver, "pci-stub") || str_eq(driver, "pciback") ||
	       str_eq(driver, "xen-pciback");
}

// Reads nothing that the kernel tells only under the lock of the device, as driver_override: a probe or an unbind that
// hangs keeps that lock, and who reads it then hangs, too, and cannot be killed.
static bool read_gpu(const struct root *kern, const char *address, struct gpu *ret)
{
	enum { NVIDIA = 0x10de };
	struct err err;
	uint64_t vendor, class, device = 0;
	if (strlen(address) >= sizeof(ret->address) || !read_pci_attribute(kern, address, "vendor", &vendor) ||
	    vendor != NVIDIA || !read_pci_attribute(kern, address, "class", &class))
		return false;
	bool is_display = class >> 8 == 0x0300 || class >> 8 == 0x0302, is_switch = class >> 8 == 0x0680;
	if (!is_display && !is_switch)
		return false;
	read_pci_attribute(kern, address, "device", &device);
	auto_str char *physfn = str_fmt("%s/%s/physfn", devices, address);
	auto_str char *driver = str_fmt("%s/%s/driver", devices, address), *target = NULL;
	*ret = (struct gpu){
		.kind = is_display ? GPU_DISPLAY : GPU_SWITCH,
		.class = (uint32_t) class,
		.device = (uint16_t)device,
		.is_vf = root_exists(kern, physfn),
	};
	if (root_readlink(kern, driver, &target, &err) > 0) {
		const char *slash = strrchr(target, '/');
		ret->driver = str_dup(slash ? slash + 1 : target);
	}
	memcpy(ret->address, address, strlen(address) + 1);
	return true;
}

static int compare_addresses(const void *a, const void *b)
{
	const struct gpu *one = a, *other = b;
	uint64_t x = strtoull(one->address, NULL, 16), y = strtoull(other->address, NULL, 16); // the domain
	return x != y ? (x < y ? -1 : 1) : strcmp(one->address, other->address);
}

int gpus_read(const struct root *kern, struct gpus *ret, struct err *err)
{
	auto_strv struct strv names = { 0 };
	if (root_list(kern, devices, &names, err) < 0)
		return err_wrap(err, "look for NVIDIA PCI functions");
	struct gpus found = { 0 };
	for (size_t i = 0; i < names.count; i++) {
		struct gpu gpu;
		if (!read_gpu(kern, names.items[i], &gpu))
			continue;
		found.items = mem_grow(found.items, found.count + 1, sizeof(*found.items));
		found.items[found.count++] = gpu;
	}
	if (found.count)
		qsort(found.items, found.count, sizeof(*found.items), compare_addresses);
	find_framebuffers(kern, &found);
	*ret = found;
	return found.count > 0;
}

void gpus_done(struct gpus *g)
{
	for (size_t i = 0; i < g->count; i++) {
		free(g->items[i].driver);
		free(g->items[i].framebuffer);
	}
	free(g->items);
	*g = (struct gpus){ 0 };
}

enum gpu_owner gpu_owner(const struct gpu *gpu)
{
	// nova_core registers its PCI driver as "NovaCore".
	static const char *const of_the_kernel[] = { "nouveau", "nova_core", "nova-core", "NovaCore", "nvidiafb" };
	if (!gpu->driver)
		return GPU_FREE;
	if (str_eq(gpu->driver, "nvidia") || str_eq(gpu->driver, "nvidia-nvswitch"))
		return GPU_NVIDIA;
	if (is_for_guests(gpu->driver))
		return gpu->is_reclaimed ? GPU_KERNEL : GPU_VFIO;
	for (size_t i = 0; i < ARRAY_SIZE(of_the_kernel); i++)
		if (str_eq(gpu->driver, of_the_kernel[i]))
			return GPU_KERNEL;
	return GPU_FOREIGN;
}

void gpus_reclaim(struct gpus *g)
{
	for (size_t i = 0; i < g->count; i++)
		g->items[i].is_reclaimed = !g->items[i].is_vf && str_eq(g->items[i].driver, PCI_VFIO);
}

bool gpu_is_ours(const struct gpu *gpu)
{
	return !gpu->is_vf && gpu_owner(gpu) != GPU_VFIO;
}

size_t gpus_count_ours(const struct gpus *g, enum gpu_kind kind)
{
	size_t count = 0;
	for (size_t i = 0; i < g->count; i++)
		count += g->items[i].kind == kind && gpu_is_ours(&g->items[i]);
	return count;
}

char *gpus_text(const struct gpus *g)
{
	size_t gpus = gpus_count_ours(g, GPU_DISPLAY), switches = gpus_count_ours(g, GPU_SWITCH);
	return str_fmt("%zu GPU%s, %zu switch%s", gpus, str_plural(gpus), switches, switches == 1 ? "" : "es");
}

int gpus_check_owner(const struct gpus *g, bool is_released, struct err *err)
{
	for (size_t i = 0; i < g->count; i++) {
		const struct gpu *gpu = &g->items[i];
		enum gpu_owner owner = gpu_owner(gpu);
		if (gpu->is_vf || (owner != GPU_FOREIGN && (owner != GPU_KERNEL || is_released)))
			continue;
		bool is_nova = str_starts(gpu->driver, "nova") || str_starts(gpu->driver, "Nova");
		return err_set(err, E_BOUND,
			       "%s 10de:%04x is bound to %s; put 'blacklist %s' into a file in /etc/modprobe.d, "
			       "rebuild the initramfs and reboot",
			       gpu->address, gpu->device, gpu->driver, is_nova ? "nova_core" : gpu->driver);
	}
	return 0;
}
