// SPDX-License-Identifier: Apache-2.0
// A stand-in for libnvidia-ml.so: it knows every GPU, unless told otherwise. -DOLD leaves out what old drivers lack.
#include "tests/gpu/standin.h"

enum { NOT_SUPPORTED = 3, RECOVERY = 230 };

struct fabric {
	unsigned version;
	unsigned char cluster[16];
	int status;
	unsigned clique;
	unsigned char state;
	unsigned mask;
};
struct value {
	unsigned id, scope;
	long long timestamp, latency;
	int type, result;
	union {
		unsigned number;
		unsigned long long large;
	} value;
};

int nvmlInit_v2(void)
{
	return act("nvmlInit_v2");
}

const char *nvmlErrorString(int result)
{
	static char text[40];
	snprintf(text, sizeof(text), "stand-in error %d", result);
	return text;
}

int nvmlSystemGetDriverVersion(char *to, unsigned size)
{
	const char *version = behaviour("version");
	snprintf(to, size, "%s", version ? version : "123.45.06");
	return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *address, void **ret)
{
	*ret = strdup(address);
	return act(address);
}

int nvmlDeviceGetUUID(const char *device, char *to, unsigned size)
{
	snprintf(to, size, "GPU-%s", device);
	return act("uuid");
}

int nvmlDeviceGetName(const char *device, char *to, unsigned size)
{
	(void)device;
	snprintf(to, size, "Stand-in\t100");
	return act("name");
}

int nvmlDeviceGetComputeMode(const char *device, unsigned *mode)
{
	(void)device;
	*mode = fact("compute_mode", 0);
	return 0;
}

int nvmlDeviceGetEccMode(const char *device, unsigned *now, unsigned *next)
{
	(void)device;
	*now = 1;
	*next = fact("ecc_next", 1);
	return 0;
}

#ifndef OLD
int nvmlDeviceGetMigMode(const char *device, unsigned *now, unsigned *next)
{
	(void)device;
	*now = *next = fact("mig", 0);
	return 0;
}

int nvmlDeviceGetRemappedRows(const char *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
			      unsigned *failed)
{
	(void)device;
	*corrected = *uncorrected = 0;
	*pending = fact("remap_pending", 0);
	*failed = fact("remap_failed", 0);
	return 0;
}

int nvmlDeviceGetGpuFabricInfoV(const char *device, struct fabric *fabric)
{
	(void)device;
	if (fabric->version != (sizeof(*fabric) | 2 << 24))
		return 25; // NVML_ERROR_ARGUMENT_VERSION_MISMATCH
	if (!behaviour("fabric"))
		return NOT_SUPPORTED;
	fabric->state = (unsigned char)fact("fabric", 0);
	fabric->status = (int)fact("fabric_status", 0);
	return 0;
}

int nvmlDeviceGetFieldValues(const char *device, int count, struct value *values)
{
	(void)device;
	values->result = count == 1 && values->id == RECOVERY ? 0 : NOT_SUPPORTED;
	values->value.number = fact("recovery", 0);
	return 0;
}

int nvmlSystemGetConfComputeState(unsigned *state)
{
	state[0] = state[2] = 0;
	state[1] = fact("confidential", 0);
	return 0;
}

int nvmlSystemGetConfComputeGpusReadyState(unsigned *ready)
{
	*ready = 0;
	return 0;
}
#endif
