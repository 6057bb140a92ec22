// SPDX-License-Identifier: Apache-2.0
// NVIDIA's PCI functions that the driver binds: GPUs (class 0300, 0302) and NVSwitches (0680), from
// sys/bus/pci/devices. Audio, USB and bridge functions of the same boards are left out. A machine without any is not an
// error but NO_GPU (R-P11).
#pragma once
#include "base/file/root.h"

enum gpu_kind { GPU_DISPLAY, GPU_SWITCH };

#define PCI_VFIO "vfio-pci" // the driver

// Who owns a function (R-P8).
enum gpu_owner {
	GPU_FREE,    // no driver
	GPU_NVIDIA,  // nvidia, nvidia-nvswitch
	GPU_VFIO,    // passed through to a virtual machine, or kept for one: never touched
	GPU_KERNEL,  // nouveau, nova_core, nvidiafb: the kernel's own drivers, unbound before a load (unbind.h)
	GPU_FOREIGN, // any other driver: blocks our probe
};

struct gpu {
	char address[20]; // "0000:40:00.0"; domains may have more than four digits
	enum gpu_kind kind;
	uint32_t class;    // 0x030200
	uint16_t device;   // PCI ids; the vendor is 0x10de
	char *driver;      // bound driver, NULL = none
	char *framebuffer; // the firmware's, in a BAR of this GPU and with a driver: "efi-framebuffer.0"; NULL = none
	bool is_vf;        // SR-IOV virtual function of a GPU in this same machine
	bool is_reclaimed; // bound to vfio-pci, and asked for (gpus_reclaim())
};

struct gpus {
	struct gpu *items; // sorted by address: domain, bus, device, function
	size_t count;
};

int gpus_read(const struct root *kern, struct gpus *ret, struct err *err); // 1 = some, 0 = NO_GPU
void gpus_done(struct gpus *g);
#define auto_gpus __attribute__((cleanup(gpus_done)))

enum gpu_owner gpu_owner(const struct gpu *gpu);
// Those of vfio-pci count from now on as bound to a driver of the kernel, so that a plan unbinds them. None of a
// variant of it, of another stub, or a virtual function.
void gpus_reclaim(struct gpus *g);
// For the driver to use: neither a virtual function nor passed through.
bool gpu_is_ours(const struct gpu *gpu);
size_t gpus_count_ours(const struct gpus *g, enum gpu_kind kind); // how many of those
char *gpus_text(const struct gpus *g);                            // the same: "1 GPU, 0 switches"; caller frees
// E_BOUND with the address, the driver and the modprobe.d line when a foreign driver is bound to a function or,
// unless is_released, one of the kernel's own; else 0.
int gpus_check_owner(const struct gpus *g, bool is_released, struct err *err);
