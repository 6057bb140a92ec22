// SPDX-License-Identifier: Apache-2.0
// A stand-in for libcuda.so, whose GPU is the process itself. It refuses a process that is not kept apart as it should
// be. Each function does what stands for its name.
#include "tests/gpu/standin.h"

#include <stdint.h>
#include <sys/prctl.h>

enum { NO_DEVICE = 100, NOT_APART = 1 };

static int is_apart(void)
{
	static const char *const wanted[][2] = { { "CUDA_CACHE_DISABLE", "1" },
						 { "CUDA_MPS_PIPE_DIRECTORY", "/dev/null/none" } };
	for (size_t i = 0; i < 2; i++)
		if (!getenv(wanted[i][0]) || strcmp(getenv(wanted[i][0]), wanted[i][1]) != 0)
			return 0;
	for (int fd = 3; fd < 1024; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			return 0;
	return !getenv("HOME") && !getenv("LEFT_BY_THE_CALLER") && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 &&
	       getpgrp() == getpid() && prctl(PR_CAPBSET_READ, 16 /* CAP_SYS_MODULE */, 0, 0, 0) == (geteuid() ? 1 : 0);
}

static const char *visible(void)
{
	const char *uuid = getenv("CUDA_VISIBLE_DEVICES");
	return uuid && strncmp(uuid, "GPU-", 4) == 0 ? uuid + 4 : NULL;
}

int cuInit(unsigned flags)
{
	if (!is_apart())
		return NOT_APART;
	return flags || !visible() ? NO_DEVICE : act("cuInit");
}

int cuGetErrorName(int error, const char **ret)
{
	*ret = error == NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_STANDIN";
	return 0;
}

int cuDeviceGetCount(int *count)
{
	*count = (int)fact("count", 1);
	return act("cuDeviceGetCount");
}

int cuDeviceGet(int *device, int index)
{
	*device = index;
	return act("cuDeviceGet");
}

int cuDeviceGetPCIBusId(char *to, int size, int device)
{
	const char *other = behaviour("address");
	(void)device;
	snprintf(to, (size_t)size, "%s", other ? other : visible());
	for (; *to; to++)
		*to = *to >= 'a' && *to <= 'f' ? (char)(*to - 'a' + 'A') : *to;
	return act("cuDeviceGetPCIBusId");
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
	(void)device;
	*context = (void *)1;
	return act("cuDevicePrimaryCtxRetain");
}

int cuDevicePrimaryCtxRelease(int device)
{
	(void)device;
	return act("cuDevicePrimaryCtxRelease");
}

int cuCtxSetCurrent(void *context)
{
	return context ? act("cuCtxSetCurrent") : 1;
}

int cuCtxSynchronize(void)
{
	return act("cuCtxSynchronize");
}

int cuMemAlloc_v2(uint64_t *data, size_t size)
{
	*data = (uint64_t)(uintptr_t)malloc(size);
	return act("cuMemAlloc_v2");
}

int cuMemFree_v2(uint64_t data)
{
	free((void *)(uintptr_t)data);
	return act("cuMemFree_v2");
}

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size)
{
	memcpy((void *)(uintptr_t)to, from, size);
	((uint32_t *)(uintptr_t)to)[7] ^= fact("copy_flips", 0);
	return act("cuMemcpyHtoD_v2");
}

int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size)
{
	memcpy(to, (void *)(uintptr_t)from, size);
	return act("cuMemcpyDtoH_v2");
}

int cuMemsetD32_v2(uint64_t data, unsigned value, size_t count)
{
	for (size_t i = 0; i < count; i++)
		((uint32_t *)(uintptr_t)data)[i] = value ^ (i == 99 ? fact("set_flips", 0) : 0);
	return act("cuMemsetD32_v2");
}

int cuModuleLoadData(void **module, const char *text)
{
	*module = (void *)1;
	return strstr(text, ".entry mix(") ? act("cuModuleLoadData") : 218;
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
	*function = module;
	return strcmp(name, "mix") == 0 ? act("cuModuleGetFunction") : 500;
}

// What the kernel says, instruction by instruction.
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
		   unsigned shared, void *stream, void **params, void **extra)
{
	uint32_t *data = (uint32_t *)(uintptr_t) * (uint64_t *)params[0], count = *(uint32_t *)params[1];
	for (uint32_t r5 = 0; r5 < gx * bx && r5 < count; r5++) {
		uint32_t r7 = data[r5] ^ r5, r8 = (uint32_t)((int64_t)(int32_t)r7 * -1640531535) + r5;
		data[r5] = r8 ^ r8 >> 15;
	}
	data[count - 1] ^= fact("kernel_flips", 0);
	return function && gy * gz * by * bz == 1 && !shared && !stream && !extra ? act("cuLaunchKernel") : 1;
}
