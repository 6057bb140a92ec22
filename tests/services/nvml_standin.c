// SPDX-License-Identifier: Apache-2.0
// A stand-in for the driver's libnvidia-ml.so.1, which does nothing without a GPU. It answers the few calls that
// NVIDIA's programs make in nvidia.bats, from what the kernel tells of a driver in /proc/driver/nvidia; there it is a
// recorded machine's: version, names, UUIDs, minors and PCI addresses. No GPU is partitioned. Another call ends the
// program that makes it, because its symbol is missing. Structures and numbers are those of nvml.h, which the module
// go-nvml has.
#include <glob.h>
#include <stdio.h>
#include <string.h>

enum { SUCCESS = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, NOT_LOADED = 9, MOST = 64 };

struct device {
	unsigned index, minor, domain, bus, slot;
	char name[96], uuid[96];
};
static struct device devices[MOST];
static unsigned count;
static char version[80];

struct pci { // nvmlPciInfo_t
	char legacy_address[16];
	unsigned domain, bus, slot, device_id, subsystem_id;
	char address[32];
};

static void read_device(const char *path)
{
	char line[256];
	FILE *f = fopen(path, "re");
	if (!f)
		return;
	struct device *d = &devices[count];
	d->index = count++;
	while (fgets(line, sizeof(line), f)) {
		sscanf(line, "Model: %95[^\n]", d->name);
		sscanf(line, "GPU UUID: %95s", d->uuid);
		sscanf(line, "Device Minor: %u", &d->minor);
		sscanf(line, "Bus Location: %x:%x:%x", &d->domain, &d->bus, &d->slot);
	}
	fclose(f);
}

int nvmlInit_v2(void)
{
	char line[256];
	glob_t found;
	FILE *f = fopen("/proc/driver/nvidia/version", "re");
	if (!f)
		return NOT_LOADED;
	if (fgets(line, sizeof(line), f)) // "NVRM version: ... for x86_64  VERSION  Release Build ..."
		for (const char *at = line; *at; at++)
			if (sscanf(at, "%79[0-9.]", version) == 1 && strchr(version, '.'))
				break;
	fclose(f);
	count = 0;
	if (glob("/proc/driver/nvidia/gpus/*/information", 0, NULL, &found) == 0) {
		for (size_t i = 0; i < found.gl_pathc && count < MOST; i++)
			read_device(found.gl_pathv[i]);
		globfree(&found);
	}
	return SUCCESS;
}
int nvmlInitWithFlags(unsigned flags)
{
	(void)flags;
	return nvmlInit_v2();
}
int nvmlShutdown(void)
{
	return SUCCESS;
}
const char *nvmlErrorString(int code)
{
	return code == SUCCESS ? "success" : "an error of the stand-in for NVML";
}

static int give(char *to, unsigned size, const char *text)
{
	return (unsigned)snprintf(to, size, "%s", text) < size ? SUCCESS : TOO_SMALL;
}
int nvmlSystemGetDriverVersion(char *to, unsigned size)
{
	return give(to, size, version);
}
int nvmlDeviceGetCount_v2(unsigned *to)
{
	*to = count;
	return SUCCESS;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **to)
{
	if (index >= count)
		return INVALID;
	*to = &devices[index];
	return SUCCESS;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **to)
{
	for (unsigned i = 0; i < count; i++)
		if (strcmp(devices[i].uuid, uuid) == 0) {
			*to = &devices[i];
			return SUCCESS;
		}
	return NOT_FOUND;
}
int nvmlDeviceGetIndex(const struct device *d, unsigned *to)
{
	*to = d->index;
	return SUCCESS;
}
int nvmlDeviceGetName(const struct device *d, char *to, unsigned size)
{
	return give(to, size, d->name);
}
int nvmlDeviceGetUUID(const struct device *d, char *to, unsigned size)
{
	return give(to, size, d->uuid);
}
int nvmlDeviceGetMinorNumber(const struct device *d, unsigned *to)
{
	*to = d->minor;
	return SUCCESS;
}
int nvmlDeviceGetPciInfo_v3(const struct device *d, struct pci *to)
{
	memset(to, 0, sizeof(*to));
	to->domain = d->domain;
	to->bus = d->bus;
	to->slot = d->slot;
	snprintf(to->legacy_address, sizeof(to->legacy_address), "%04x:%02x:%02x.0", d->domain & 0xffff, d->bus & 0xff,
		 d->slot & 0xff);
	snprintf(to->address, sizeof(to->address), "%08x:%02x:%02x.0", d->domain, d->bus & 0xff, d->slot & 0xff);
	return SUCCESS;
}
int nvmlDeviceIsMigDeviceHandle(const struct device *d, unsigned *to)
{
	(void)d;
	*to = 0;
	return SUCCESS;
}
int nvmlDeviceGetMigMode(const struct device *d, unsigned *now, unsigned *next)
{
	(void)d;
	*now = *next = 0;
	return NOT_SUPPORTED;
}
