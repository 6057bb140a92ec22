// SPDX-License-Identifier: Apache-2.0
// Functions and numbers are those of the CUDA driver API reference. CUDA sees the one GPU that CUDA_VISIBLE_DEVICES
// names, so that another one cannot spoil the enumeration.
#include "gpu_check/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { WORDS = 1 << 14, THREADS = 64 }; // 64 KiB, in 256 blocks: more than a GPU has multiprocessors
enum {                                  // CUresult
	SUCCESS = 0,
	OUT_OF_MEMORY = 2,
	STUB_LIBRARY = 34,
	DEVICE_UNAVAILABLE = 46,
	NO_DEVICE = 100,
	DEVICE_NOT_LICENSED = 102,
	NO_BINARY_FOR_GPU = 209,
	INVALID_PTX = 218,
	JIT_COMPILER_NOT_FOUND = 221,
	UNSUPPORTED_PTX_VERSION = 222,
	JIT_COMPILATION_DISABLED = 223,
	CALL_OF_SYSTEM_FAILED = 304, // CUDA_ERROR_OPERATING_SYSTEM
	SYSTEM_NOT_READY = 802,
	SYSTEM_DRIVER_MISMATCH = 803,
	COMPAT_NOT_SUPPORTED = 804,
	MPS_FIRST = 805,
	MPS_LAST = 810,
	UNKNOWN = 999,
};
enum { FABRIC_IN_PROGRESS = 2 }; // nvmlGpuFabricState_t

// data[i] = mix(data[i], i) for each of count words. For drivers from 384 on, which has PTX 6.0.
static const char KERNEL[] = ".version 6.0\n.target sm_30\n.address_size 64\n"
			     ".visible .entry mix(.param .u64 data, .param .u32 count)\n{\n"
			     ".reg .pred %p<2>;\n.reg .b32 %r<10>;\n.reg .b64 %d<5>;\n"
			     "ld.param.u64 %d1, [data];\nld.param.u32 %r1, [count];\n"
			     "mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\nmov.u32 %r4, %tid.x;\n"
			     "mad.lo.s32 %r5, %r2, %r3, %r4;\nsetp.ge.u32 %p1, %r5, %r1;\n@%p1 bra END;\n"
			     "cvta.to.global.u64 %d2, %d1;\nmul.wide.u32 %d3, %r5, 4;\nadd.s64 %d4, %d2, %d3;\n"
			     "ld.global.u32 %r6, [%d4];\nxor.b32 %r7, %r6, %r5;\n"
			     "mad.lo.s32 %r8, %r7, -1640531535, %r5;\nshr.u32 %r9, %r8, 15;\n"
			     "xor.b32 %r8, %r8, %r9;\nst.global.u32 [%d4], %r8;\nEND:\nret;\n}\n";
static uint32_t mix(uint32_t value, uint32_t i)
{
	enum { SHIFT = 15 };
	value = (value ^ i) * UINT32_C(2654435761) + i; // -1640531535 as an unsigned number
	return value ^ value >> SHIFT;
}

static void *lib;
static uint32_t words[WORDS];

static int check(struct helper_gpu *gpu, const char *what, int result);

// Names what is called, so that a hang has a place. 0 = it succeeded; else the line that says why is due.
#define CALL(gpu, name, types, ...)                                \
	__extension__({                                            \
		int(*call_) types;                                 \
		*(void **)&call_ = helper_find(lib, name);         \
		helper_at("step", "call %s", name);                \
		check(gpu, name, call_ ? call_(__VA_ARGS__) : -1); \
	})

// Without its node CUDA fails as if there were no GPU, or for a reason that it does not know.
static const char *uvm_problem(void)
{
	int fd = open("/dev/nvidia-uvm", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return strerror(errno);
	close(fd);
	return NULL;
}

static const char *setup_problem(int result)
{
	switch (result) {
	case -1:
		return "the library does not have it";
	case OUT_OF_MEMORY:
		return "too little of its memory is free";
	case STUB_LIBRARY:
		return "the library is a stub";
	case DEVICE_UNAVAILABLE:
		return "the GPU is busy: another process has it for itself, its compute mode forbids it, or it is a "
		       "vGPU without a licence";
	case DEVICE_NOT_LICENSED:
		return "the vGPU has no licence";
	case SYSTEM_NOT_READY:
		return "the system is not ready: the fabric manager has not set up the NVLink fabric, or the GPUs of a "
		       "confidential machine were not set ready";
	case SYSTEM_DRIVER_MISMATCH:
	case COMPAT_NOT_SUPPORTED:
		return "the library does not fit the loaded driver";
	default:
		return result >= MPS_FIRST && result <= MPS_LAST ? "an MPS daemon got in the way" : NULL;
	}
}

static int check(struct helper_gpu *gpu, const char *what, int result)
{
	const char *problem = setup_problem(result), *uvm = NULL, *name = NULL;
	int (*error_name)(int, const char **);
	if (result == SUCCESS)
		return 0;
	if (result == NO_DEVICE && gpu->mig == 1)
		problem = "MIG mode is on, and CUDA finds no instance";
	if (result == SYSTEM_NOT_READY) // all that those say of whose fabric NVML knows nothing
		gpu->fabric = FABRIC_IN_PROGRESS;
	if (problem) {
		helper_outcome(gpu, "untested", "%s: %s (%d)", what, problem, result);
		return result;
	}
	if (result == NO_DEVICE || result == CALL_OF_SYSTEM_FAILED || result == UNKNOWN)
		uvm = uvm_problem();
	*(void **)&error_name = helper_find(lib, "cuGetErrorName");
	if (!error_name || error_name(result, &name) != SUCCESS || !name)
		name = "error";
	if (uvm)
		helper_outcome(gpu, "untested", "%s: %s (%d), and /dev/nvidia-uvm cannot be opened: %s", what, name,
			       result, uvm);
	else
		helper_outcome(gpu, "broken", "%s: %s (%d)", what, name, result);
	return result;
}

static bool compare(struct helper_gpu *gpu, uint64_t data, const char *what, uint32_t (*right)(uint32_t i))
{
	memset(words, 0, sizeof(words));
	if (CALL(gpu, "cuMemcpyDtoH_v2", (void *, uint64_t, size_t), words, data, sizeof(words)) != SUCCESS)
		return false;
	for (uint32_t i = 0; i < WORDS; i++)
		if (words[i] != right(i)) {
			helper_outcome(gpu, "broken", "%s: word %u is 0x%08x, and 0x%08x would be right", what,
				       (unsigned)i, (unsigned)words[i], (unsigned)right(i));
			return false;
		}
	return true;
}

static uint32_t sent(uint32_t i)
{
	return mix(UINT32_C(0x9e3779b9), i);
}
static uint32_t computed(uint32_t i)
{
	return mix(sent(i), i);
}
static uint32_t filled(uint32_t i)
{
	(void)i;
	return UINT32_C(0xa5c3f00f);
}

// A driver's user space without its compiler, or with one that refuses this text: the GPU is not to blame.
static bool is_uncompiled(int result)
{
	switch (result) {
	case NO_BINARY_FOR_GPU:
	case INVALID_PTX:
	case JIT_COMPILER_NOT_FOUND:
	case UNSUPPORTED_PTX_VERSION:
	case JIT_COMPILATION_DISABLED:
		return true;
	default:
		return false;
	}
}

static bool run_kernel(struct helper_gpu *gpu, uint64_t data)
{
	uint32_t count = WORDS;
	void *module = NULL, *function = NULL, *params[] = { &data, &count };
	int r = CALL(gpu, "cuModuleLoadData", (void **, const void *), &module, KERNEL);
	if (is_uncompiled(r)) {
		helper_note(gpu, "the kernel could not be compiled (%d); memory was copied and set", r);
		*gpu->reason = '\0';
		return true;
	}
	return r == SUCCESS &&
	       CALL(gpu, "cuModuleGetFunction", (void **, void *, const char *), &function, module, "mix") == SUCCESS &&
	       CALL(gpu, "cuLaunchKernel",
		    (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
		     void **),
		    function, WORDS / THREADS, 1, 1, THREADS, 1, 1, 0, NULL, params, NULL) == SUCCESS &&
	       CALL(gpu, "cuCtxSynchronize", (void)) == SUCCESS &&
	       compare(gpu, data, "the kernel's result is wrong", computed);
}

static bool run_memory(struct helper_gpu *gpu)
{
	uint64_t data = 0;
	if (CALL(gpu, "cuMemAlloc_v2", (uint64_t *, size_t), &data, sizeof(words)) != SUCCESS)
		return false;
	for (uint32_t i = 0; i < WORDS; i++)
		words[i] = sent(i);
	return CALL(gpu, "cuMemcpyHtoD_v2", (uint64_t, const void *, size_t), data, words, sizeof(words)) == SUCCESS &&
	       compare(gpu, data, "what was copied came back wrong", sent) && run_kernel(gpu, data) &&
	       CALL(gpu, "cuMemsetD32_v2", (uint64_t, unsigned, size_t), data, filled(0), WORDS) == SUCCESS &&
	       compare(gpu, data, "what was set came back wrong", filled) &&
	       CALL(gpu, "cuMemFree_v2", (uint64_t), data) == SUCCESS;
}

// The UUID is not compared: where MIG mode is on it is that of an instance, and CUDA chose the GPU by it.
static bool is_right_gpu(struct helper_gpu *gpu, int *ret_device)
{
	int count = 0;
	char address[32] = "";
	if (CALL(gpu, "cuDeviceGetCount", (int *), &count) != SUCCESS)
		return false;
	if (count != 1) {
		helper_outcome(gpu, "untested", "CUDA shows %d GPUs, where it was asked for one", count);
		return false;
	}
	if (CALL(gpu, "cuDeviceGet", (int *, int), ret_device, 0) != SUCCESS ||
	    CALL(gpu, "cuDeviceGetPCIBusId", (char *, int, int), address, (int)sizeof(address), *ret_device) != SUCCESS)
		return false;
	if (strcasecmp(address, gpu->address) != 0) {
		helper_outcome(gpu, "untested", "CUDA shows the GPU %s", address);
		return false;
	}
	return true;
}

void helper_compute(const char *dir, const char *version, const char *uuid, const char *address, bool is_mig)
{
	struct helper_gpu gpu = HELPER_GPU(address);
	void *context = NULL;
	int device = 0;
	snprintf(gpu.uuid, sizeof(gpu.uuid), "%s", uuid);
	gpu.mig = is_mig;
	lib = helper_load(dir, "libcuda.so", version);
	if (!lib)
		return;
	if (CALL(&gpu, "cuInit", (unsigned), 0) == SUCCESS && is_right_gpu(&gpu, &device) &&
	    CALL(&gpu, "cuDevicePrimaryCtxRetain", (void **, int), &context, device) == SUCCESS &&
	    CALL(&gpu, "cuCtxSetCurrent", (void *), context) == SUCCESS && run_memory(&gpu) &&
	    CALL(&gpu, "cuDevicePrimaryCtxRelease", (int), device) == SUCCESS)
		gpu.outcome = "works";
	helper_print(&gpu);
}
