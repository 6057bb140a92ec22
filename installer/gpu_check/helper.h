// SPDX-License-Identifier: Apache-2.0
// The program that loads NVIDIA's libraries, so that ours does not: they may hang, crash, keep descriptors, and start
// programs. It is linked with the C library alone, is part of kmodsmith as a file (gpu_helper.c), and each start of it
// asks one question:
//
//   answer DIR VERSION ADDRESS...       DIR/libnvidia-ml.so.VERSION about each of these GPUs
//   compute DIR VERSION UUID ADDRESS MIG    DIR/libcuda.so.VERSION, on this GPU; 1: its MIG mode is on
//
// It says on its standard output, in lines of fields that tabs separate:
//
//   at    WHAT                          what it does next, so that the last one says what hangs or crashes
//   step  WHAT                          the same, once something was asked of the driver
//   gpu   ADDRESS OUTCOME KEY=VALUE...  what is known of a GPU; "*" is each that has had no line
//
// OUTCOME is works, broken or untested. Keys, each only if known: uuid, name, mig (1: that mode is on), compute_mode
// and fabric (numbers of NVML), recovery (what the driver asks for, its number in NVML), reset_due (1: a reset or a
// reboot, before which no driver helps), note, reason. Each line is
// written at once, so that nothing is lost with the rest. Other lines are of the libraries, and of the C library's own
// linker.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
enum { HELPER_TEXT = 512 };

struct helper_gpu {
	const char *address, *outcome;
	char uuid[96], name[96]; // NVML_DEVICE_UUID_V2_BUFFER_SIZE, NVML_DEVICE_NAME_V2_BUFFER_SIZE
	int mig, compute_mode, fabric, recovery, reset_due; // -1 = not known
	char note[HELPER_TEXT], reason[HELPER_TEXT];
};
#define HELPER_GPU(address_)  \
	((struct helper_gpu){ \
		.address = (address_), .mig = -1, .compute_mode = -1, .fabric = -1, .recovery = -1, .reset_due = -1 })

// The library, or NULL when the line for each GPU that says why was written.
void *helper_load(const char *dir, const char *name, const char *version);
void *helper_find(void *lib, const char *function);                 // NULL = the library does not have it
void helper_at(const char *tag, const char *fmt, ...) PRINTF(2, 3); // tag: "at" or "step"
void helper_outcome(struct helper_gpu *gpu, const char *outcome, const char *fmt, ...) PRINTF(3, 4);
void helper_note(struct helper_gpu *gpu, const char *fmt, ...) PRINTF(2, 3);
void helper_print(const struct helper_gpu *gpu);

void helper_answer(const char *dir, const char *version, char *const *addresses);
void helper_compute(const char *dir, const char *version, const char *uuid, const char *address, bool is_mig);
