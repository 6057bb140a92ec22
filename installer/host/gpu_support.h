// SPDX-License-Identifier: Apache-2.0
// Which module type of the driver supports the GPUs of this node (R-P7). Pure: facts in, decision and reason out.
//
// The open modules need a GPU System Processor, which GPUs have since Turing; Blackwell and the Grace superchips are
// supported by the open modules only; every architecture has a first and perhaps a last driver branch. Virtual
// functions and functions passed through to virtual machines do not count.
#pragma once
#include "host/pci.h"
#include "kmod/source/recipe.h"

// Architecture of a GPU device id: "Turing", ...; "unknown" for an id in no known range.
const char *gpu_architecture(uint16_t device);

// The branch of a driver version: 535 of "535.261.03"; 0 = not a version.
unsigned gpu_driver_branch(const char *driver_version);

// The firmware file of this GPU's System Processor in a branch: "gsp_ga10x.bin"; NULL = it has no such processor.
const char *gpu_gsp_firmware(uint16_t device, unsigned branch);
// The module types of a driver branch that support a GPU, as a set.
unsigned gpu_support_flavours(const struct gpu *gpu, unsigned branch);

// Whether the driver is to serve it: ours, and supported by these modules. Version NULL or MODULE_TYPE_AUTO = not known
// yet: every one of ours.
bool gpu_support_serves(const struct gpu *gpu, const char *driver_version, enum module_type flavour);
// Whether the loaded driver should have this GPU: only what is loaded can leave one out, and one that is bound to it is
// served, whatever the table says.
bool gpu_support_expects(const struct gpu *gpu, const char *loaded_version, enum module_type flavour);
// Those of a set; they are borrowed from it.
void gpu_support_served(const struct gpus *gpus, const char *driver_version, enum module_type flavour,
			struct gpus *ret);
static inline void gpu_support_served_done(struct gpus *served)
{
	free(served->items);
}
#define auto_served_gpus __attribute__((cleanup(gpu_support_served_done)))
// Ours that these modules leave without a driver: "0000:50:00.0 (Kepler)"; NULL = none. Caller frees.
char *gpu_support_left(const struct gpus *gpus, const char *driver_version, enum module_type flavour);

// Of GPUs that no driver version serves together with one module type, what each needs; NULL = one does, or there is no
// GPU. A driver of a version that serves some of them leaves the others. Caller frees.
char *gpu_support_mixed(const struct gpus *gpus);
// What all of them together ask of a driver: "proprietary modules only, branches up to 580". Caller frees.
char *gpu_support_text(const struct gpus *gpus);

// available: MODULE_TYPE_OPEN | MODULE_TYPE_PROPRIETARY, what the driver source or the packages offer.
//
//   auto      the one flavour that supports every GPU; if both do: proprietary before branch 560, else open. A GPU that
//             no driver version serves together with those that this one serves, such as an old display card, does not
//             count
//   explicit  used if it supports at least one GPU
//   GPUs that are left without a driver are named in *ret_why.
//
// E_UNSUPPORTED_GPU  this driver version supports none of the GPUs
// E_MIXED_GPUS       some are supported and others not, or no single flavour supports all (auto only)
// E_FLAVOUR          the flavour that would support all of them is not available (auto), or the requested one is not,
//                    or supports none of the GPUs while the other one would
// E_USAGE            driver_version is not a version
// Each error names the devices: "0000:40:00.0 10de:1db6 Volta". Without GPUs, or with NULL, the default of the branch
// is chosen. ret_why: one line for the plan and the log, which the caller frees; may be NULL.
int gpu_support_choose(const struct gpus *gpus, const char *driver_version, enum module_type request,
		       unsigned available, enum module_type *ret, char **ret_why, struct err *err);
