// SPDX-License-Identifier: Apache-2.0
// Functions, structures and numbers are those of the NVML API reference, where each function says since which driver it
// is there: one that is missing, or that a GPU does not support, is no failure, and what it would say is not known.
#include "gpu_check/helper.h"

#include <string.h>

typedef void *nvml_device;

enum { // nvmlReturn_t
	SUCCESS = 0,
	NO_PERMISSION = 4,
	NOT_FOUND = 6,
	DRIVER_NOT_LOADED = 9,
	LIBRARY_NOT_FOUND = 12,
	GPU_IS_LOST = 15,
	RESET_REQUIRED = 16,
	OPERATING_SYSTEM = 17, // a control group forbids the node
	LIB_RM_VERSION_MISMATCH = 18,
	OUT_OF_MEMORY = 20,
	INSUFFICIENT_RESOURCES = 23,
};
enum { COMPLETED = 3 };                                // nvmlGpuFabricState_t
enum { RECOVERY_FIELD = 230, RECOVERY_OF_DOMAIN = 5 }; // NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, from driver 570 on
enum { FABRIC_V2 = 2 << 24 };                          // upper byte of the version of a structure

struct field { // nvmlFieldValue_t
	unsigned id, scope;
	long long timestamp, latency_us;
	int type, result;
	union {
		unsigned number;
		unsigned long long large;
	} value;
};

struct fabric { // nvmlGpuFabricInfo_t; nvmlGpuFabricInfo_v2_t has a version before and a mask after it
	unsigned char cluster[16];
	int status; // counts only when the state is COMPLETED
	unsigned clique;
	unsigned char state;
};

struct fabric_v2 {
	unsigned version;
	unsigned char cluster[16];
	int status;
	unsigned clique;
	unsigned char state;
	unsigned health_mask;
};

struct confidential { // nvmlConfComputeSystemState_t
	unsigned environment, is_on, dev_tools;
};

static void *lib;

// Calls a function that may be missing; -1 = it is.
#define CALL(name, types, ...)                             \
	__extension__({                                    \
		int(*call_) types;                         \
		*(void **)&call_ = helper_find(lib, name); \
		call_ ? call_(__VA_ARGS__) : -1;           \
	})

static const char *error_text(int result)
{
	const char *(*text)(int);
	*(void **)&text = helper_find(lib, "nvmlErrorString");
	const char *words = text ? text(result) : NULL;
	return words ? words : "unknown error";
}

// What stands between NVML and the driver says nothing about a GPU.
static const char *blame(int result)
{
	switch (result) {
	case -1:
	case NO_PERMISSION:
	case DRIVER_NOT_LOADED:
	case LIBRARY_NOT_FOUND:
	case OPERATING_SYSTEM:
	case LIB_RM_VERSION_MISMATCH:
	case OUT_OF_MEMORY:
	case INSUFFICIENT_RESOURCES:
		return "untested";
	default:
		return "broken";
	}
}

static void ask_fabric(struct helper_gpu *gpu, nvml_device device)
{
	static const char *const words[] = { "is not supported", "has not started", "is in progress", "is complete" };
	struct fabric old = { 0 };
	struct fabric_v2 now = { .version = sizeof(now) | FABRIC_V2 };
	int r = CALL("nvmlDeviceGetGpuFabricInfoV", (nvml_device, struct fabric_v2 *), device, &now);
	if (r == -1) { // before 550
		r = CALL("nvmlDeviceGetGpuFabricInfo", (nvml_device, struct fabric *), device, &old);
		now.state = old.state;
		now.status = old.status;
	}
	if (r != SUCCESS || now.state > COMPLETED)
		return;
	gpu->fabric = now.state;
	if (now.state == COMPLETED && now.status != SUCCESS)
		helper_outcome(gpu, "broken", "its NVLink fabric could not be set up: %s", error_text(now.status));
	else if (now.state && now.state != COMPLETED)
		helper_outcome(gpu, "untested", "its NVLink fabric is not ready: registration %s", words[now.state]);
}

static void ask_memory(struct helper_gpu *gpu, nvml_device device)
{
	unsigned corrected = 0, uncorrected = 0, is_pending = 0, has_failed = 0, now = 0, next = 0;
	if (CALL("nvmlDeviceGetEccMode", (nvml_device, unsigned *, unsigned *), device, &now, &next) == SUCCESS &&
	    now != next)
		helper_note(gpu, "ECC is %s, and %s from the next reset on", now ? "on" : "off", next ? "on" : "off");
	if (CALL("nvmlDeviceGetRemappedRows", (nvml_device, unsigned *, unsigned *, unsigned *, unsigned *), device,
		 &corrected, &uncorrected, &is_pending, &has_failed) != SUCCESS)
		return;
	if (has_failed)
		helper_outcome(gpu, "broken", "a row of its memory could not be remapped");
	else if (is_pending) // of no effect on what runs (NVIDIA GPU Memory Error Management, response flags)
		helper_note(gpu, "a row of its memory is remapped at the next reset");
}

static void ask_recovery(struct helper_gpu *gpu, nvml_device device)
{
	static const struct {
		const char *words;
		bool is_reset;
	} actions[] = {
		// nvmlDeviceGpuRecoveryAction_t
		{ "nothing", false },
		{ "a reset of the GPU", true },
		{ "a reboot of the node", true },
		{ "an end of all traffic between GPUs, to find out more", false },
		{ "an end of all traffic between GPUs, and a reset of the GPU", true },
		{ "a recovery of the IMEX domain", false },
		{ "a reset of the GPU's bus", true },
		{ "a reboot of the whole system", true },
	};
	struct field field = { .id = RECOVERY_FIELD };
	int r = CALL("nvmlDeviceGetFieldValues", (nvml_device, int, struct field *), device, 1, &field);
	if (r != SUCCESS || field.result != SUCCESS)
		return;
	unsigned action = field.value.number;
	gpu->recovery = (int)(action & 0xffff);
	if (action >= sizeof(actions) / sizeof(*actions)) {
		helper_outcome(gpu, "broken", "the driver asks for recovery action %u", action);
	} else if (action == RECOVERY_OF_DOMAIN) {
		helper_note(gpu, "the driver asks for %s", actions[action].words);
	} else if (action) {
		helper_outcome(gpu, "broken", "the driver asks for %s", actions[action].words);
		gpu->reset_due = actions[action].is_reset;
	}
}

// The strongest fact comes last, because the last reason is the one that is said.
static void ask_gpu(struct helper_gpu *gpu, nvml_device device)
{
	unsigned mode = 0, next = 0;
	gpu->outcome = "works";
	if (CALL("nvmlDeviceGetName", (nvml_device, char *, unsigned), device, gpu->name, sizeof(gpu->name)) != SUCCESS)
		*gpu->name = '\0';
	if (CALL("nvmlDeviceGetMigMode", (nvml_device, unsigned *, unsigned *), device, &mode, &next) == SUCCESS)
		gpu->mig = mode == 1;
	if (CALL("nvmlDeviceGetComputeMode", (nvml_device, unsigned *), device, &mode) == SUCCESS)
		gpu->compute_mode = (int)mode;
	ask_fabric(gpu, device);
	ask_memory(gpu, device);
	int r = CALL("nvmlDeviceGetUUID", (nvml_device, char *, unsigned), device, gpu->uuid, sizeof(gpu->uuid));
	if (r != SUCCESS) {
		*gpu->uuid = '\0';
		helper_outcome(gpu, blame(r), "NVML cannot read its UUID: %s", error_text(r));
	}
	ask_recovery(gpu, device);
}

static void answer_gpu(const char *address, bool is_confidential_wait)
{
	struct helper_gpu gpu = HELPER_GPU(address);
	nvml_device device = NULL;
	helper_at("step", "ask NVML about %s", address);
	int r = CALL("nvmlDeviceGetHandleByPciBusId_v2", (const char *, nvml_device *), address, &device);
	if (r == SUCCESS)
		ask_gpu(&gpu, device);
	else if (r == NOT_FOUND)
		helper_outcome(&gpu, "broken", "NVML does not know it, and the driver has started it");
	else
		helper_outcome(&gpu, blame(r), "NVML cannot open it: %s", r == -1 ? "no such function" : error_text(r));
	if (r == GPU_IS_LOST || r == RESET_REQUIRED)
		gpu.reset_due = 1;
	if (is_confidential_wait)
		helper_note(&gpu, "confidential computing: the GPUs were not set ready");
	helper_print(&gpu);
}

// GPUs of a confidential machine are kept from work until somebody has verified them and says so.
static bool is_confidential_wait(void)
{
	struct confidential state = { 0 };
	unsigned is_ready = 1;
	return CALL("nvmlSystemGetConfComputeState", (struct confidential *), &state) == SUCCESS && state.is_on == 1 &&
	       CALL("nvmlSystemGetConfComputeGpusReadyState", (unsigned *), &is_ready) == SUCCESS && !is_ready;
}

// nvmlInit_v2 starts no GPU, and one that is lost or unstable does not spoil it.
void helper_answer(const char *dir, const char *version, char *const *addresses)
{
	struct helper_gpu all = HELPER_GPU("*");
	char loaded[80] = ""; // NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE
	lib = helper_load(dir, "libnvidia-ml.so", version);
	if (!lib)
		return;
	helper_at("step", "initialize NVML");
	int r = CALL("nvmlInit_v2", (void));
	if (r != SUCCESS)
		helper_outcome(&all, blame(r), "NVML cannot be initialized: %s",
			       r == -1 ? "no such function" : error_text(r));
	else if ((r = CALL("nvmlSystemGetDriverVersion", (char *, unsigned), loaded, sizeof(loaded))) != SUCCESS)
		helper_outcome(&all, blame(r), "NVML cannot read the driver's version: %s", error_text(r));
	else if (strcmp(loaded, version) != 0)
		helper_outcome(&all, "untested", "NVML says that driver %s is loaded, not %s", loaded, version);
	if (all.outcome) {
		helper_print(&all);
		return;
	}
	bool is_wait = is_confidential_wait();
	for (; *addresses; addresses++)
		answer_gpu(*addresses, is_wait);
}
